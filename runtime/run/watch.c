/* watch.c: `watch RUN.jsonl`: follows the log of a run in another process.
 *
 * In: lines of the log as they arrive; an incomplete line waits for its rest. Out: a description of the run, a row for each epoch
 * and validation, and a progress line: on a terminal a live one with a curve of the loss, else a line now and then. */
#include "runtime/base/base.h"
#include "runtime/base/options.h"
#include "runtime/base/whole_file.h"
#include "runtime/run/commands.h"
#include "runtime/run/progress.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { COURSE = 48, LONG_LINE = 1 << 20 }; /* points of the curve of the loss */
static const double CHECK_EVERY_S = 0.2, LINE_EVERY_S = 10;

typedef struct Follower {
    bool terminal, started, ended, live;
    double total_steps, steps_per_epoch, predicted_ms, step_ms, printed_at;
    double waiting, last_seconds;
    RunPlace at;
    double *losses;
    int64_t loss_count;
} Follower;

static void print_text(const Json *j, const char *key) { mgpu_print_plain(mgpu_json_text(j, key)); }

/* A log may contain anything: returns 0 for negative numbers and NaN, and at most MOST. */
static int64_t count_of(double n)
{
    const double MOST = 1e15;
    return n > 0 ? (int64_t)fmin(n, MOST) : 0;
}

/* ---- the screen */
static void clear_live(Follower *w)
{
    if (w->live)
        fputs("\r\033[K", stdout);
    w->live = false;
}

/* Prints a curve of the loss so far, from low to high. */
static void print_course(const Follower *w)
{
    static const char *const BAR[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    int pieces = w->loss_count < COURSE ? (int)w->loss_count : COURSE;
    double low = INFINITY, high = -INFINITY, mean[COURSE];
    for (int k = 0; k < pieces; k++) {
        int64_t from = w->loss_count * k / pieces, to = w->loss_count * (k + 1) / pieces;
        mean[k] = 0;
        for (int64_t i = from; i < to; i++)
            mean[k] += w->losses[i] / (double)(to - from);
        low = fmin(low, mean[k]);
        high = fmax(high, mean[k]);
    }
    for (int k = 0; k < pieces; k++) {
        double share = (mean[k] - low) / (high - low); /* NaN: they are all equal, or their difference overflows */
        fputs(BAR[share >= 0 ? (int)(share * 7.99) : 0], stdout);
    }
}

static void print_place(Follower *w)
{
    if (!w->at.step)
        return;
    clear_live(w);
    char *text = mgpu_place_text(&w->at);
    if (w->terminal) {
        print_course(w);
        printf("  %s", text);
    } else {
        puts(text);
    }
    free(text);
    w->live = w->terminal;
    w->printed_at = mgpu_seconds();
    fflush(stdout);
}

/* ---- records */
static void read_start(Follower *w, const Json *j)
{
    double batch = mgpu_json_number(j, "batch"), samples = mgpu_json_number(j, "train_samples"),
           devices = mgpu_json_number(j, "devices");
    w->started = true;
    w->total_steps = mgpu_json_number(j, "total_steps");
    w->steps_per_epoch = batch > 0 ? ceil(samples / batch) : (double)NAN;
    w->predicted_ms = mgpu_json_number(j, "predicted_ms");
    clear_live(w);
    print_text(j, "model");
    printf(": %.0f samples, batch %.0f, %.0f ", samples, batch, devices);
    print_text(j, "kind");
    printf(" device%s, %.0f steps", devices == 1 ? "" : "s", w->total_steps);
    if (*mgpu_json_text(j, "plan_name")) {
        fputs(", plan ", stdout);
        print_text(j, "plan_name");
        if (*mgpu_json_text(j, "plan_label")) {
            fputs(" [", stdout);
            print_text(j, "plan_label");
            putchar(']');
        }
    }
    if (mgpu_json_number(j, "step") > 0)
        printf(", going on after step %.0f", mgpu_json_number(j, "step"));
    if (!isnan(w->predicted_ms)) {
        fputs("; predicted for ", stdout);
        print_text(j, "machine");
        printf(": %.2f ms a step", w->predicted_ms);
    }
    putchar('\n');
}

static void read_step(Follower *w, const Json *j)
{
    double step = mgpu_json_number(j, "step"), seconds = mgpu_json_number(j, "seconds"),
           rate = mgpu_json_number(j, "samples_per_s"), took = seconds - w->last_seconds;
    double waited = (mgpu_json_number(j, "input_wait_ms") +
                     (isnan(mgpu_json_number(j, "communication_wait_ms")) ? 0 : mgpu_json_number(j, "communication_wait_ms"))) /
                    1e3;
    w->last_seconds = seconds;
    w->waiting = took > 0 && waited >= 0 ? .9 * w->waiting + .1 * waited / took : w->waiting;
    double smooth = w->at.rate > 0 ? .9 * w->at.rate + .1 * rate : rate,
           left = (w->total_steps - step) * mgpu_json_number(j, "samples") / smooth;
    bool known = w->steps_per_epoch > 0;
    w->at = (RunPlace){
        .epoch = count_of(mgpu_json_number(j, "epoch")),
        .epochs = known ? count_of(ceil(w->total_steps / w->steps_per_epoch)) : 0,
        .step = known ? count_of(fmod(step - 1, w->steps_per_epoch)) + 1 : count_of(step),
        .steps = known ? mgpu_steps_of_epoch(count_of(step), count_of(w->steps_per_epoch), count_of(w->total_steps)) : 0,
        .loss = mgpu_json_number(j, "loss"),
        .lr = mgpu_json_number(j, "lr"),
        .rate = (double)count_of(smooth),
        .waiting = w->waiting,
        .seconds_left = left >= 0 ? (double)count_of(left) : (double)NAN};
    if (!isfinite(w->at.loss))
        return;
    if (!(w->loss_count & (w->loss_count - 1)))
        w->losses = mgpu_resize(w->losses, (size_t)(w->loss_count ? 2 * w->loss_count : 1) * sizeof *w->losses);
    w->losses[w->loss_count++] = w->at.loss;
}

static void print_metrics(const Json *j)
{
    const Json *metrics = mgpu_json_member(j, "metrics");
    for (const Json *m = metrics ? metrics->first : NULL; m; m = m->next)
        if (m->kind == JSON_NUMBER) {
            fputs("  ", stdout);
            mgpu_print_plain(m->key);
            printf(" %.5g", m->number);
        }
}

static void read_epoch(Follower *w, const Json *j, bool eval)
{
    clear_live(w);
    const char *split = mgpu_json_text(j, "split");
    bool of_epoch = mgpu_json_number(j, "epoch") > 0; /* otherwise the command `eval` wrote it */
    printf("%s %.0f ", of_epoch ? "epoch" : "step", mgpu_json_number(j, of_epoch ? "epoch" : "step"));
    mgpu_print_plain(!eval ? "" : strcmp(split, "valid") == 0 ? "validation" : split);
    printf("%s loss %.5g", eval ? " " : "", mgpu_json_number(j, "loss"));
    print_metrics(j);
    if (!eval && !isnan(mgpu_json_number(j, "step_ms"))) {
        printf("  step %.2f ms", mgpu_json_number(j, "step_ms"));
        if (!isnan(w->predicted_ms))
            printf(", predicted %.2f", w->predicted_ms);
        fputs(", bound by ", stdout);
        print_text(j, "bound");
    }
    putchar('\n');
}

static void read_record(Follower *w, const Json *j)
{
    const char *event = mgpu_json_text(j, "event");
    if (strcmp(event, "start") == 0)
        read_start(w, j);
    else if (strcmp(event, "step") == 0)
        read_step(w, j);
    else if (strcmp(event, "epoch") == 0 || strcmp(event, "eval") == 0)
        read_epoch(w, j, *event == 'e' && event[1] == 'v');
    else if (strcmp(event, "notice") == 0 || strcmp(event, "warning") == 0) {
        clear_live(w);
        printf("%s: ", event);
        print_text(j, "message");
        putchar('\n');
    } else if (strcmp(event, "end") == 0) {
        clear_live(w);
        printf("the run has ended at step %.0f: ", mgpu_json_number(j, "step"));
        print_text(j, "reason");
        putchar('\n');
        w->ended = true;
    }
    if (strcmp(event, "start") == 0) /* a run that is resumed in the same log */
        w->ended = false;
}

/* Reads complete lines; the beginning of an incomplete one stays in `line`. */
static bool read_lines(Follower *w, FILE *f, char *line, size_t *length)
{
    bool any = false;
    clearerr(f);
    for (int c; (c = fgetc(f)) != EOF;) {
        if (c != '\n') {
            if (*length < LONG_LINE)
                line[(*length)++] = (char)c;
            continue;
        }
        const char *wrong;
        Json *j = *length < LONG_LINE ? mgpu_json_read(line, *length, &wrong) : NULL;
        if (j)
            read_record(w, j);
        free(j);
        *length = 0;
        any = true;
    }
    return any;
}

int mgpu_follow(const mgpu_program *program, const RunOptions *o)
{
    (void)program;
    if (o->operand_count != 1)
        mgpu_fail(MGPU_BAD_USAGE, "watch takes the log of a run, as in %s watch run.jsonl", o->program);
    FILE *f = fopen(o->operands[0], "re");
    if (!f)
        mgpu_fail(MGPU_BAD_INPUT, "%s cannot be read: %s", o->operands[0], strerror(errno));
    const char *refused = mgpu_refused_kind(f);
    if (refused)
        mgpu_fail(MGPU_BAD_INPUT, "%s cannot be read: %s", o->operands[0], refused);
    Follower w = {.terminal = isatty(STDOUT_FILENO), .printed_at = mgpu_seconds()};
    char *line = mgpu_allocate(LONG_LINE, 1);
    size_t length = 0;
    for (;;) {
        bool any = read_lines(&w, f, line, &length);
        if (ferror(f))
            mgpu_fail(MGPU_BAD_INPUT, "%s cannot be read: %s", o->operands[0], strerror(errno));
        if (w.ended)
            break;
        if (!w.started && any)
            mgpu_fail(MGPU_BAD_INPUT, "%s: this is no log of a run: it has no record \"start\"; --log FILE writes one",
                      o->operands[0]);
        if (any && (w.terminal || mgpu_seconds() - w.printed_at > LINE_EVERY_S))
            print_place(&w);
        nanosleep(&(struct timespec){0, (long)(1e9 * CHECK_EVERY_S)}, NULL);
    }
    fclose(f);
    free(line);
    free(w.losses);
    return 0;
}
