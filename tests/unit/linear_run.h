/* linear_run.h: runs of the program of linear_program.h: its data, the same training done in a few lines (reference), a run
 * in a child, and its log. */
#ifndef LINEAR_RUN_H
#define LINEAR_RUN_H

#include "runtime/base/base.h"
#include "runtime/data/sets.h"
#include "tests/unit/linear_program.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- data, and the same training by hand */
static double sample_x(bool valid, int s, int i) { return sin(1.7 * s + 2.3 * i + valid); }

static int sample_label(bool valid, int s) { return (s * 3 + valid) % OUT; }

static void write_file(const char *folder, const char *name, const void *head, size_t head_bytes, const void *data, size_t bytes)
{
    char *path = mgpu_format("%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(head, 1, head_bytes, f) != head_bytes || fwrite(data, 1, bytes, f) != bytes || fclose(f))
        mgpu_fail(3, "%s: %s", path, strerror(errno));
    free(path);
}

static void write_set(const char *folder, bool valid, int samples)
{
    double *x = mgpu_allocate((size_t)samples * IN, sizeof *x);
    uint8_t *label = mgpu_allocate((size_t)samples, 1);
    for (int s = 0; s < samples; s++) {
        label[s] = (uint8_t)sample_label(valid, s);
        for (int i = 0; i < IN; i++)
            x[s * IN + i] = sample_x(valid, s, i);
    }
    mgpu_swap_bytes(x, samples * IN, 8);
    uint8_t head_x[] = {0, 0, 0x0e, 2, 0, 0, 0, (uint8_t)samples, 0, 0, 0, IN},
            head_label[] = {0, 0, 8, 1, 0, 0, 0, (uint8_t)samples};
    write_file(folder, valid ? "valid-x.idx" : "train-x.idx", head_x, sizeof head_x, x, (size_t)samples * IN * 8);
    write_file(folder, valid ? "valid-label.idx" : "train-label.idx", head_label, sizeof head_label, label, (size_t)samples);
    free(x);
    free(label);
}

typedef struct Reference {
    double loss[64], w[IN * OUT], valid_loss, valid_accuracy;
    int steps;
} Reference;

static void reference(Reference *r, int64_t batch, int epochs, bool shuffle)
{
    double m[IN * OUT] = {0}, *w = r->w;
    int64_t order[SAMPLES];
    r->steps = 0;
    for (int o = 0; o < OUT; o++)
        for (int i = 0; i < IN; i++)
            w[i * OUT + o] = first_weight(o, i);
    for (int epoch = 0; epoch < epochs; epoch++) {
        mgpu_permutation(order, SAMPLES, 7, epoch, shuffle);
        for (int64_t begin = 0; begin < SAMPLES; begin += batch) {
            int64_t end = begin + batch < SAMPLES ? begin + batch : SAMPLES;
            double g[IN * OUT] = {0}, loss = 0;
            for (int64_t k = begin; k < end; k++) {
                int s = (int)order[k];
                double x[IN];
                for (int i = 0; i < IN; i++)
                    x[i] = sample_x(false, s, i);
                for (int o = 0; o < OUT; o++) {
                    double e = output_of(w, x, o) - (sample_label(false, s) == o);
                    loss += e * e;
                    for (int i = 0; i < IN; i++)
                        g[i * OUT + o] += 2 * e * x[i];
                }
            }
            for (int i = 0; i < IN * OUT; i++) {
                m[i] = MOMENTUM * m[i] + g[i] / (double)(end - begin);
                w[i] -= LR * m[i];
            }
            r->loss[r->steps++] = loss / (double)(end - begin);
        }
    }
    r->valid_loss = r->valid_accuracy = 0;
    for (int s = 0; s < VALID; s++) {
        double x[IN];
        int best = 0;
        for (int i = 0; i < IN; i++)
            x[i] = sample_x(true, s, i);
        for (int o = 0; o < OUT; o++) {
            double e = output_of(w, x, o) - (sample_label(true, s) == o);
            best = output_of(w, x, o) > output_of(w, x, best) ? o : best;
            r->valid_loss += e * e / VALID;
        }
        r->valid_accuracy += (best == sample_label(true, s)) / (double)VALID;
    }
}

/* ---- running */

/* the tables built here live to the end: leaks are looked for in real programs */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "detect_leaks=0"; }

typedef struct Test {
    char folder[1000];
    int failed;
} Test;

static void say(Test *t, const char *name, bool good, const char *why)
{
    if (good)
        printf("ok %s\n", name);
    else
        printf("not ok %s: %s\n", name, why);
    t->failed += !good;
    fflush(stdout);
}

/* mgpu_main in a child, in the test's folder; arguments separated by blanks; what it says goes to the file `said`. A folder may
 * be saved into again */
static pid_t start(const Test *t, const mgpu_program *p, const char *arguments)
{
    fflush(stdout);
    pid_t child = fork();
    if (child != 0)
        return child;
    char *words = mgpu_format("train %s%s", strncmp(arguments, "--", 2) == 0 ? "--overwrite " : "", arguments), *argv[40],
         *rest = NULL;
    int argc = 0, said = chdir(t->folder) == 0 ? open("said", O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
    dup2(said, STDOUT_FILENO);
    dup2(said, STDERR_FILENO);
    for (char *word = strtok_r(words, " ", &rest); word && argc < 39; word = strtok_r(NULL, " ", &rest))
        argv[argc++] = word;
    argv[argc] = NULL;
    exit(mgpu_main(p, argc, argv));
}

static int finish(pid_t child)
{
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int run(const Test *t, const mgpu_program *p, const char *arguments) { return finish(start(t, p, arguments)); }

static char *read_text(const Test *t, const char *name, size_t *length)
{
    char *path = mgpu_format("%s/%s", t->folder, name), *text = mgpu_allocate(1 << 20, 1);
    FILE *f = fopen(path, "rb");
    *length = f ? fread(text, 1, (1 << 20) - 1, f) : 0;
    if (f)
        fclose(f);
    free(path);
    return text;
}

static bool said(const Test *t, const char *what)
{
    size_t length;
    char *text = read_text(t, "said", &length);
    bool found = strstr(text, what) != NULL;
    if (!found) {
        printf("# expected: %s\n# said:\n", what);
        for (char *rest = text, *line; (line = strsep(&rest, "\n"));)
            printf("#   %s\n", line);
    }
    free(text);
    return found;
}

/* the losses of a log by step; returns how many, -1: not JSON */
static int read_losses(const Test *t, const char *name, double *loss, double *valid_loss, double *valid_accuracy)
{
    size_t length;
    char *text = read_text(t, name, &length), *rest = NULL;
    int count = 0;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        const char *error;
        Json *json = mgpu_json_read(line, strlen(line), &error);
        if (!json)
            return -1;
        const char *event = mgpu_json_member(json, "event")->text;
        if (strcmp(event, "step") == 0)
            loss[(int)mgpu_json_member(json, "step")->number - 1] = mgpu_json_member(json, "loss")->number, count++;
        if (strcmp(event, "eval") == 0) {
            *valid_loss = mgpu_json_member(json, "loss")->number;
            *valid_accuracy = mgpu_json_member(mgpu_json_member(json, "metrics"), "accuracy")->number;
        }
        free(json);
    }
    free(text);
    return count;
}

static bool close_to(double a, double b) { return fabs(a - b) <= 1e-12 * fabs(b); }

static bool same_losses(const Test *t, const char *log, const Reference *r, const char **why)
{
    double loss[64] = {0}, valid_loss = 0, valid_accuracy = -1;
    int count = read_losses(t, log, loss, &valid_loss, &valid_accuracy);
    *why = "the number of steps";
    if (count != r->steps)
        return false;
    for (int i = 0; i < count; i++) {
        *why = "a loss";
        if (!close_to(loss[i], r->loss[i]))
            return false;
    }
    *why = "validation";
    return close_to(valid_loss, r->valid_loss) && close_to(valid_accuracy, r->valid_accuracy);
}

static void remove_folder(const char *path)
{
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        char *inner = mgpu_format("%s/%s", path, entry->d_name);
        if (entry->d_type == DT_DIR)
            remove_folder(inner);
        else
            remove(inner);
        free(inner);
    }
    if (folder)
        closedir(folder);
    rmdir(path);
}

static Test open_test(void)
{
    Test t = {0};
    const char *temporary = getenv("TMPDIR");
    snprintf(t.folder, sizeof t.folder, "%s/mgpu-train-test-XXXXXX", temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(t.folder))
        mgpu_fail(3, "%s: %s", t.folder, strerror(errno));
    write_set(t.folder, false, SAMPLES);
    write_set(t.folder, true, VALID);
    return t;
}

#endif
