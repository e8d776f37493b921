/* reporter.c: what the user sees of a run: the lines at its start, progress (a live line on a terminal, else a line now and
 * then), and a table with a row for each epoch; and the log, with a JSON object on each line. Numbers in the log have enough
 * digits for the program's precision (%.9g, in f64 %.17g; null if they are not finite); the table rounds them. */
#include "runtime/base/base.h"
#include "runtime/base/terminal.h"
#include "runtime/base/whole_file.h"
#include "runtime/engine/engine.h"
#include "runtime/run/commands.h"
#include "runtime/run/events.h"
#include "runtime/run/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const double LIVE_EVERY_S = 0.1, LINE_EVERY_S = 10;
enum { LOG_VERSION = 2 };  /* docs/logs.md */
enum { MOST_COLUMNS = 8 }; /* columns of a metric in the table; metrics with more elements are only in the log */

struct Reporter {
    FILE *log; /* memory stream for the current event, in log_line; NULL: there is no log, or it cannot be written any more */
    char *log_line;
    size_t log_length;
    int log_file; /* gets each event in one write, so that lines of other processes do not interleave */
    const char *log_path;
    bool log_cut, screen_cut; /* lines are missing */
    int lost;                 /* see mgpu_screen_lost */
    int digits;               /* digits of numbers in the log */
    bool terminal, live;      /* live: the last line will be overwritten */
    double began, printed_at; /* start of the run; time of the last progress */
    double happened;          /* time of the current event */
    double last_finish;       /* end of the previous step */
    double epoch_seconds;
    int64_t epoch_samples; /* since the last row */
    double rate, waiting;  /* samples/s; fraction of a step in which devices wait; smoothed */
    Events *events;        /* the files of --tensorboard, or NULL */
    char *header;          /* header of the table as last printed */
};

double mgpu_report_value(const char *const *names, const double *values, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return values[i];
    return NAN;
}

/* Prints NaN without a sign. */
static double printed(double value) { return isnan(value) ? (double)NAN : value; }

static bool is_loss(const char *name) { return strncmp(name, "loss", 4) == 0 && (!name[4] || name[4] == '.'); }

/* ---- the screen */
static void clear_live(Reporter *r)
{
    if (r->live)
        fputs("\r\033[K", stdout);
    r->live = false;
}

/* If the reader is gone or a file has reached its limit, further text is discarded, so that the failure is reported once. The
 * same holds for a closed terminal; whether that ends the run depends on SIGHUP. Other failures (a full disk) may be temporary
 * and are reported by mgpu_end_output. */
static void flush_screen(Reporter *r)
{
    errno = 0;
    if ((fflush(stdout) == 0 && !ferror(stdout)) || r->screen_cut)
        return;
    r->screen_cut = true;
    if (!errno && write(STDOUT_FILENO, "\n", 1) == 1) /* an earlier write has failed; another one finds out why */
        return;
    if (errno != EPIPE && errno != EFBIG && !(errno == EIO && r->terminal))
        return;
    r->lost = errno == EPIPE ? SIGPIPE : errno == EFBIG ? SIGXFSZ : 0;
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0 && dup2(nowhere, STDOUT_FILENO) >= 0)
        clearerr(stdout);
    if (nowhere >= 0)
        close(nowhere);
}

void mgpu_report_flush(Reporter *r) { flush_screen(r); }

int mgpu_screen_lost(const Reporter *r) { return r->lost; }

static void close_log(Reporter *r)
{
    if (!r->log)
        return;
    mgpu_end_text(r->log);
    free(r->log_line);
    close(r->log_file);
    r->log = NULL;
}

/* Continues without the log after a failure to write it. */
static void lose_log(Reporter *r, int error)
{
    close_log(r);
    r->log_cut = true;
    mgpu_report_warning(r, "the log %s cannot be written: %s; it ends here, and the status of this run will be %d", r->log_path,
                        strerror(error ? error : ENOSPC), MGPU_MACHINE_FAILED);
}

/* ---- opening */

/* Ends the line that was cut off when an earlier run was killed. */
static void end_last_line(int file, const char *path)
{
    char last = '\n';
    int before = open(path, O_RDONLY | O_CLOEXEC);
    off_t end = before < 0 ? 0 : lseek(before, 0, SEEK_END);
    if (end > 0 && pread(before, &last, 1, end - 1) == 1 && last != '\n' && write(file, "\n", 1) != 1)
        mgpu_fail(MGPU_MACHINE_FAILED, "the log %s cannot be written: %s", path, strerror(errno));
    if (before >= 0)
        close(before);
}

/* Opens and locks the log, because lines of two runs in one file are useless. */
static int open_log(const char *path, bool goes_on)
{
    struct stat status;
    mgpu_doing("the log is being opened");
    mgpu_doing_with(path);
    int file = mgpu_open_in_place(path, O_APPEND);
    bool regular = file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode); /* a pipe has no end to read */
    if (regular && flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        mgpu_fail(MGPU_BAD_INPUT, "another run writes the log %s; name another file with --log", path);
    if (file < 0 || (regular && !goes_on && ftruncate(file, 0) != 0))
        mgpu_fail(MGPU_MACHINE_FAILED, "the log %s cannot be written: %s", path, strerror(errno));
    if (goes_on && regular)
        end_last_line(file, path);
    mgpu_doing(NULL);
    return file;
}

Reporter *mgpu_reporter_open(const mgpu_program *program, const RunOptions *o)
{
    Reporter *r = mgpu_allocate(1, sizeof *r);
    r->digits = strcmp(program->precision, "f64") == 0 ? 17 : 9;
    /* Open MPI always gives rank 0 a terminal as stdout */
    r->terminal = isatty(STDOUT_FILENO) && (!o->processes || isatty(STDERR_FILENO));
    r->began = r->printed_at = r->last_finish = mgpu_seconds();
    r->log_path = o->log;
    if (o->log) {
        r->log_file = open_log(o->log, o->resume || o->command == COMMAND_EVAL);
        r->log = mgpu_begin_text(&r->log_line, &r->log_length);
    }
    r->events = o->tensorboard ? mgpu_events_open(o->tensorboard) : NULL;
    return r;
}

Events *mgpu_report_events(const Reporter *r) { return r->events; }

bool mgpu_reporter_close(Reporter *r)
{
    close_log(r);
    bool whole = !r->log_cut;
    mgpu_events_close(r->events);
    free(r->header);
    free(r);
    return whole;
}

/* ---- the log */
/* Returns the wall-clock time, in seconds since 1970, of the time `when` of mgpu_seconds(). */
static double wall_time(double when)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec - (mgpu_seconds() - when);
}

static bool begin_event_of(Reporter *r, const char *event, double when)
{
    if (r->log)
        fprintf(r->log, "{\"event\":\"%s\"", event);
    r->happened = when;
    return r->log != NULL;
}

static bool begin_event(Reporter *r, const char *event) { return begin_event_of(r, event, mgpu_seconds()); }

static void log_whole(Reporter *r, const char *key, int64_t value) { fprintf(r->log, ",\"%s\":%lld", key, (long long)value); }

static void log_number(Reporter *r, const char *key, double value)
{
    fprintf(r->log, ",\"%s\":", key);
    mgpu_json_write_number(r->log, value, r->digits);
}

static void log_text(Reporter *r, const char *key, const char *value)
{
    fprintf(r->log, ",\"%s\":", key);
    mgpu_json_write_text(r->log, value);
}

static bool begins(const char *name, const char *prefix) { return strncmp(name, prefix, strlen(prefix)) == 0; }

/* Logs the numbers whose names begin with the prefix, without it; prefix "": all that are not losses. */
static void log_values(Reporter *r, const char *key, const Evaluation *e, const char *prefix)
{
    int written = 0;
    fprintf(r->log, ",\"%s\":{", key);
    for (int i = 0; i < e->count; i++) {
        if (!begins(e->names[i], prefix) || (!*prefix && is_loss(e->names[i])))
            continue;
        if (written++)
            fputc(',', r->log);
        mgpu_json_write_text(r->log, e->names[i] + strlen(prefix));
        fputc(':', r->log);
        mgpu_json_write_number(r->log, e->values[i], r->digits);
    }
    fputc('}', r->log);
}

static void log_values_if_any(Reporter *r, const char *key, const Evaluation *e, const char *prefix)
{
    bool any = false;
    for (int i = 0; i < e->count; i++)
        any = any || begins(e->names[i], prefix);
    if (any)
        log_values(r, key, e, prefix);
}

static void end_event(Reporter *r)
{
    fprintf(r->log, ",\"time\":%.3f}\n", wall_time(r->happened));
    if (fflush(r->log) || ferror(r->log))
        mgpu_no_memory(r->log_length);
    for (size_t done = 0; done < r->log_length;) { /* in one write, unless the disk is full */
        ssize_t n = write(r->log_file, r->log_line + done, r->log_length - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            lose_log(r, n ? errno : ENOSPC);
            return;
        }
        done += (size_t)n;
    }
    rewind(r->log);
}

static void check_events(Reporter *r)
{
    const char *wrong = mgpu_events_flush(r->events);
    if (!wrong)
        return;
    mgpu_report_warning(r, "%s cannot be written: %s; it ends here", mgpu_events_path(r->events), wrong);
    mgpu_events_close(r->events);
    r->events = NULL;
}

/* ---- the start */
/* What libraries allocate on host devices is unknown before the first step. */
static void print_outside_arena(const StartReport *s)
{
    char text[32];
    int64_t bytes = mgpu_engine_library_bytes(s->engine, 0);
    if (bytes)
        printf("%s bytes more on each device, for transfers\n", mgpu_grouped(bytes, text));
}

static void print_arenas(const StartReport *s)
{
    char text[32];
    int64_t first = mgpu_engine_arena_bytes(s->engine, 0);
    bool same = true;
    for (int d = 1; d < s->plan->devices; d++)
        same = same && (mgpu_engine_arena_bytes(s->engine, d) == first || !mgpu_engine_has(s->engine, d));
    if (same) {
        printf("arena %s bytes on %s, predicted = allocated\n", mgpu_grouped(first, text),
               s->plan->devices == 1 ? "the device" : "each device");
        return;
    }
    fputs("arenas", stdout);
    for (int d = 0; d < s->plan->devices && mgpu_engine_has(s->engine, d); d++)
        printf("%s %s", d ? "," : "", mgpu_grouped(mgpu_engine_arena_bytes(s->engine, d), text));
    puts(" bytes, predicted = allocated");
}

void mgpu_print_policy(const mgpu_program *p)
{
    if (p->policy)
        printf("plan %s%s%s\n", p->policy, p->policy_label ? ": " : "", p->policy_label ? p->policy_label : "");
}

static void print_start(const StartReport *s)
{
    char a[32], b[32];
    const mgpu_program *p = s->program;
    printf("%s (", p->name);
    mgpu_print_plain(p->model_file);
    printf("): %s parameters, %s\n", mgpu_grouped(p->parameters, a), p->precision);
    printf("%s training samples", mgpu_grouped(s->train_samples, a));
    if (s->valid_samples)
        printf(", %s for validation", mgpu_grouped(s->valid_samples, a));
    printf("; %s step%s%s", mgpu_grouped(s->total_steps, a), s->total_steps == 1 ? "" : "s",
           s->step ? ", going on after step " : "");
    printf("%s\n", s->step ? mgpu_grouped(s->step, b) : "");
    for (int i = 0; i < s->options->from_resumed; i++) {
        fputs(i ? " " : "as the run was begun: ", stdout);
        mgpu_print_plain(s->options->repeated[i]);
    }
    fputs(s->options->from_resumed ? "\n" : "", stdout);
    printf("global batch %s", mgpu_grouped(p->batch, a));
    if (p->accumulate > 1)
        printf(" in %s micro-batches of %s", mgpu_grouped(p->accumulate, a), mgpu_grouped(s->plan->micro, b));
    printf("; %d %s device%s with ", s->plan->devices, s->plan->kind, s->plan->devices == 1 ? "" : "s");
    for (int d = 0; d < s->plan->devices; d++)
        printf("%s%s", d ? " + " : "", mgpu_grouped(s->plan->device[d].shard.share, a));
    puts(p->accumulate > 1 ? " samples of each" : " samples");
    mgpu_print_policy(p);
    print_arenas(s);
    print_outside_arena(s);
    printf("%s%s%s\n", s->threads, *s->threads ? "; " : "", mgpu_engine_library(s->engine));
    const mgpu_prediction *x = &s->plan->predicted;
    if (x->step_us > 0) {
        fputs("predicted for ", stdout);
        mgpu_print_plain(x->machine);
        printf(": %.2f ms a step, bound by %s\n", x->step_us / 1e3, x->bound);
    }
}

void mgpu_report_start(Reporter *r, const StartReport *s)
{
    print_start(s);
    flush_screen(r);
    if (!begin_event(r, "start"))
        return;
    log_whole(r, "log", LOG_VERSION);
    log_text(r, "model", s->program->name);
    log_text(r, "version", MGPU_VERSION);
    log_text(r, "precision", s->program->precision);
    log_whole(r, "parameters", s->program->parameters);
    log_whole(r, "batch", s->program->batch);
    log_whole(r, "accumulate", s->program->accumulate > 1 ? s->program->accumulate : 1);
    log_text(r, "kind", s->plan->kind);
    log_whole(r, "devices", s->plan->devices);
    log_whole(r, "threads", s->thread_count);
    log_text(r, "library", mgpu_engine_library(s->engine));
    if (s->program->policy)
        log_text(r, "plan_name", s->program->policy);
    if (s->program->policy_label)
        log_text(r, "plan_label", s->program->policy_label);
    const mgpu_prediction *x = &s->plan->predicted;
    if (x->step_us > 0) {
        log_text(r, "machine", x->machine);
        log_number(r, "predicted_ms", x->step_us / 1e3);
        log_text(r, "predicted_bound", x->bound);
    }
    fputs(",\"batch_per_device\":[", r->log);
    for (int d = 0; d < s->plan->devices; d++)
        fprintf(r->log, "%s%lld", d ? "," : "", (long long)s->plan->device[d].shard.share);
    fputs("],\"arena_bytes\":[", r->log);
    for (int d = 0; d < s->plan->devices; d++)
        fprintf(r->log, "%s%lld", d ? "," : "", (long long)mgpu_engine_arena_bytes(s->engine, d));
    fputs("],\"library_bytes\":[", r->log);
    for (int d = 0; d < s->plan->devices; d++)
        fprintf(r->log, "%s%lld", d ? "," : "", (long long)mgpu_engine_library_bytes(s->engine, d));
    fprintf(r->log, "],\"seed\":%llu", (unsigned long long)s->seed);
    char *command = mgpu_command_line(s->options);
    const char *optimizer = mgpu_compiled_setting(s->program, "optimizer");
    log_text(r, "command", command);
    free(command);
    if (s->program->command && *s->program->command)
        log_text(r, "compiled", s->program->command);
    if (optimizer)
        log_text(r, "optimizer", optimizer);
    for (int params = 0; params <= 1; params++) {
        fputs(params ? ",\"params\":{" : ",\"settings\":{", r->log);
        mgpu_write_settings(r->log, s->program, s->options, params);
        fputc('}', r->log);
    }
    log_whole(r, "train_samples", s->train_samples);
    log_whole(r, "valid_samples", s->valid_samples);
    fprintf(r->log, ",\"plan\":\"%s:%d\",\"resumed\":%s", s->plan->kind, s->plan->devices, s->options->resume ? "true" : "false");
    log_whole(r, "step", s->step);
    log_whole(r, "epoch", s->epoch);
    log_whole(r, "total_steps", s->total_steps);
    end_event(r);
}

void mgpu_report_resume(Reporter *r) { r->last_finish = mgpu_seconds(); }

static void print_progress(Reporter *r, const StepReport *s, double loss, double lr)
{
    double now = mgpu_seconds();
    if (now - r->printed_at < (r->terminal ? LIVE_EVERY_S : LINE_EVERY_S))
        return;
    r->printed_at = now;
    clear_live(r);
    double seconds = (now - r->began) / (double)s->step * (double)(s->total_steps - s->step);
    if (r->rate > 0 && s->step)
        seconds = (double)(s->total_steps - s->step) * (double)s->samples / r->rate;
    char *text = mgpu_place_text(&(RunPlace){.epoch = s->epoch,
                                             .epochs = (s->total_steps + s->steps_per_epoch - 1) / s->steps_per_epoch,
                                             .step = (s->step - 1) % s->steps_per_epoch + 1,
                                             .steps = mgpu_steps_of_epoch(s->step, s->steps_per_epoch, s->total_steps),
                                             .loss = loss,
                                             .lr = lr,
                                             .rate = r->rate,
                                             .waiting = r->waiting,
                                             .seconds_left = seconds});
    int columns = mgpu_terminal_columns(stdout);
    /* a wrapped line cannot be overwritten */
    printf("%.*s", r->terminal && columns > 1 ? columns - 1 : (int)strlen(text), text);
    free(text);
    if (!r->terminal)
        putchar('\n');
    r->live = r->terminal;
    flush_screen(r);
}

void mgpu_report_step(Reporter *r, const StepReport *s)
{
    double seconds = s->finished_at - r->last_finish;
    r->last_finish = s->finished_at;
    double rate = seconds > 0 ? (double)s->samples / seconds : 0;
    r->rate = r->rate > 0 ? 0.9 * r->rate + 0.1 * rate : rate;
    double waiting = seconds > 0 ? (s->input_wait_ms + s->communication_wait_ms) / 1e3 / seconds : 0;
    r->waiting = .9 * r->waiting + .1 * waiting;
    r->epoch_seconds += seconds;
    r->epoch_samples += s->samples;
    double loss = mgpu_report_value(s->names, s->values, s->count, "loss");
    double lr = mgpu_report_value(s->names, s->values, s->count, "lr");
    print_progress(r, s, loss, lr);
    mgpu_events_step(r->events, s, rate, wall_time(s->finished_at));
    check_events(r);
    if (!begin_event_of(r, "step", s->finished_at))
        return;
    Evaluation e = {.names = s->names, .values = s->values, .count = s->count};
    log_whole(r, "step", s->step);
    log_whole(r, "epoch", s->epoch);
    log_whole(r, "samples", s->samples);
    log_number(r, "loss", loss);
    log_number(r, "lr", lr);
    log_number(r, "grad_norm", mgpu_report_value(s->names, s->values, s->count, "grad_norm"));
    bool skipped = mgpu_report_value(s->names, s->values, s->count, "skipped") > 0;
    fprintf(r->log, ",\"loss_scale\":");
    mgpu_json_write_number(r->log, mgpu_report_value(s->names, s->values, s->count, "loss_scale"), 9);
    fprintf(r->log, ",\"skipped\":%s", skipped ? "true" : "false");
    log_number(r, "samples_per_s", rate);
    log_number(r, "input_wait_ms", s->input_wait_ms);
    log_number(r, "communication_wait_ms", s->communication_wait_ms);
    log_number(r, "seconds", s->finished_at - r->began);
    log_values_if_any(r, "losses", &e, "loss.");
    log_values_if_any(r, "metrics", &e, "metric.");
    end_event(r);
}

void mgpu_report_eval(Reporter *r, const Evaluation *e, int64_t epoch, int64_t step)
{
    mgpu_events_values(r->events, e, step, wall_time(mgpu_seconds()));
    if (!begin_event(r, "eval"))
        return;
    log_text(r, "split", e->split);
    if (epoch > 0)
        log_whole(r, "epoch", epoch);
    log_whole(r, "step", step);
    log_whole(r, "samples", e->samples);
    log_number(r, "loss", mgpu_report_value(e->names, e->values, e->count, "loss"));
    log_values_if_any(r, "losses", e, "loss.");
    log_values(r, "metrics", e, "");
    if (e->best)
        fprintf(r->log, ",\"best\":%s", e->best > 0 ? "true" : "false");
    end_event(r);
}

/* ---- the table: one function makes header and row, so that their columns agree */
typedef struct ReportTable {
    FILE *header, *row;
} ReportTable;

static void column(ReportTable *t, const char *prefix, const char *name, const char *value)
{
    char title[100];
    snprintf(title, sizeof title, "%s%s", prefix, name);
    int width = (int)strlen(title) > 9 ? (int)strlen(title) : 9;
    fprintf(t->header, "  %*s", width, title);
    fprintf(t->row, "  %*s", width, value);
}

static void number_column(ReportTable *t, const char *prefix, const char *name, double value)
{
    char text[32];
    snprintf(text, sizeof text, fabs(value) < 1e-3 || fabs(value) >= 1e5 ? "%.3g" : "%.5g", printed(value));
    column(t, prefix, name, value == 0 ? "0" : text);
}

static void evaluation_columns(ReportTable *t, const char *prefix, const Evaluation *e, double loss)
{
    if (e->values || !isnan(loss))
        number_column(t, prefix, "loss", loss);
    else
        column(t, prefix, "loss", "-");
    for (int i = 0, n; i < e->count; i += n) {
        n = mgpu_evaluation_elements(e, i);
        for (int j = i; j < i + n && n <= MOST_COLUMNS; j++)
            if (strcmp(e->names[j], "loss") != 0 && e->values)
                number_column(t, prefix, e->names[j], e->values[j]);
            else if (strcmp(e->names[j], "loss") != 0)
                column(t, prefix, e->names[j], "-");
    }
}

static void log_times(Reporter *r, const EpochReport *e)
{
    log_number(r, "step_ms", e->times.step);
    log_number(r, "predicted_ms", e->predicted->step_us > 0 ? e->predicted->step_us / 1e3 : NAN);
    log_number(r, "computing_ms", e->times.computing);
    log_number(r, "input_ms", e->times.input);
    log_number(r, "communication_ms", e->times.communication);
    log_text(r, "bound", e->times.bound);
}

static void log_hosts(Reporter *r, const EpochReport *e, double rate)
{
    if (!e->host_count)
        return;
    log_whole(r, "slowest_rank", e->slowest);
    fputs(",\"hosts\":[", r->log);
    for (int h = 0; h < e->host_count; h++) {
        const HostTimes *t = &e->hosts[h];
        fputs(h ? ",{\"host\":" : "{\"host\":", r->log);
        mgpu_json_write_text(r->log, t->name);
        log_whole(r, "ranks", t->ranks);
        log_whole(r, "devices", t->devices);
        log_number(r, "samples_per_s", t->share * rate);
        log_number(r, "computing_ms", t->computing);
        log_number(r, "input_ms", t->input);
        log_number(r, "communication_ms", t->communication);
        fputc('}', r->log);
    }
    fputc(']', r->log);
}

/* Columns: time of a step, its prediction, and what bounds it. */
static void times_columns(ReportTable *t, const EpochReport *e)
{
    char text[32] = "-";
    if (!isnan(e->times.step))
        snprintf(text, sizeof text, "%.*f", e->times.step < 100 ? 2 : 0, e->times.step);
    column(t, "", "step ms", text);
    if (e->predicted->step_us > 0) {
        snprintf(text, sizeof text, "%.*f", e->predicted->step_us < 1e5 ? 2 : 0, e->predicted->step_us / 1e3);
        column(t, "", "predicted", text);
    }
    column(t, "", "bound by", *e->times.bound ? e->times.bound : "-");
}

void mgpu_report_epoch(Reporter *r, const EpochReport *e)
{
    char *header = NULL, *row = NULL, text[32];
    size_t length;
    ReportTable t = {mgpu_begin_text(&header, &length), mgpu_begin_text(&row, &length)};
    double rate = r->epoch_seconds > 0 ? (double)r->epoch_samples / r->epoch_seconds : 0;
    if (e->passed > 0)
        snprintf(text, sizeof text, "%.*f", e->passed < 100 ? 2 : 1, e->passed);
    else
        snprintf(text, sizeof text, "%lld", (long long)e->epoch);
    fprintf(t.header, "%5s", "epoch");
    fprintf(t.row, "%5s", text);
    evaluation_columns(&t, "", &e->train, e->loss);
    double valid_loss = NAN;
    if (e->valid.values)
        valid_loss = mgpu_report_value(e->valid.names, e->valid.values, e->valid.count, "loss");
    if (e->valid.split)
        evaluation_columns(&t, "valid ", &e->valid, valid_loss);
    if (!isnan(e->lr))
        number_column(&t, "", "lr", e->lr);
    column(&t, "", "samples/s", mgpu_grouped((int64_t)rate, text));
    times_columns(&t, e);
    column(&t, "", "time", mgpu_duration(mgpu_seconds() - r->began, text));
    fclose(t.header);
    fclose(t.row);
    clear_live(r);
    if (!r->header || strcmp(r->header, header) != 0)
        printf("%s\n", header);
    printf("%s\n", row);
    flush_screen(r);
    free(row);
    free(r->header);
    r->header = header;
    if (e->passed <= 0)
        mgpu_events_values(r->events, &e->train, e->step, wall_time(mgpu_seconds()));
    if (e->passed <= 0 && (!e->train.values || isnan(mgpu_report_value(e->train.names, e->train.values, e->train.count, "loss"))))
        mgpu_events_scalar(r->events, "train", "loss", e->step, wall_time(mgpu_seconds()), e->loss);
    if (e->passed <= 0)
        mgpu_events_times(r->events, &e->times, e->step, wall_time(mgpu_seconds()));
    if (e->passed <= 0 && begin_event(r, "epoch")) {
        log_whole(r, "epoch", e->epoch);
        log_whole(r, "step", e->step);
        log_whole(r, "samples", e->train.samples);
        log_number(r, "loss", e->loss);
        log_values(r, "metrics", &e->train, "");
        log_number(r, "lr", e->lr);
        log_number(r, "samples_per_s", rate);
        log_times(r, e);
        log_hosts(r, e, rate);
        log_number(r, "seconds", mgpu_seconds() - r->began);
        end_event(r);
    }
    r->epoch_seconds = 0;
    r->epoch_samples = 0;
}

void mgpu_report_checkpoint(Reporter *r, const char *folder, int64_t step, int64_t epoch, const char *digests,
                            const SaveTimes *times)
{
    if (!begin_event(r, "checkpoint"))
        return;
    log_whole(r, "step", step);
    log_whole(r, "epoch", epoch);
    log_text(r, "path", folder);
    fprintf(r->log, ",\"sha256\":%s", digests);
    log_number(r, "write_s", times->write_s);
    log_number(r, "stall_s", times->stall_s);
    end_event(r);
}

static void say(Reporter *r, const char *kind, const char *text)
{
    clear_live(r);
    flush_screen(r);
    mgpu_say("%s: %s%s", program_invocation_short_name, kind, text);
}

void mgpu_report_warning(Reporter *r, const char *pattern, ...)
{
    va_list arguments;
    va_start(arguments, pattern);
    char *text = mgpu_vformat(pattern, arguments);
    va_end(arguments);
    say(r, "warning: ", text);
    if (begin_event(r, "warning")) {
        log_text(r, "message", text);
        end_event(r);
    }
    free(text);
}

void mgpu_report_notice(Reporter *r, const char *kind, const char *text)
{
    say(r, "", text);
    if (!begin_event(r, "notice"))
        return;
    log_text(r, "kind", kind);
    log_text(r, "message", text);
    end_event(r);
}

void mgpu_report_remark(Reporter *r, const char *pattern, ...)
{
    va_list arguments;
    va_start(arguments, pattern);
    char *text = mgpu_vformat(pattern, arguments);
    va_end(arguments);
    say(r, "", text);
    free(text);
}

void mgpu_report_end(Reporter *r, int64_t step, int64_t epoch, int status, const char *reason)
{
    clear_live(r);
    flush_screen(r);
    if (!begin_event(r, "end"))
        return;
    log_whole(r, "step", step);
    log_whole(r, "epoch", epoch);
    log_number(r, "seconds", mgpu_seconds() - r->began);
    log_whole(r, "status", status);
    log_text(r, "reason", reason);
    end_event(r);
}
