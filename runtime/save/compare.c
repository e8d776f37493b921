/* compare.c: compares the saves of two runs. In: two folders, each of a run (its current save and those in step-N) or of one
 * save; out: the first step of those in both in which they differ, and each tensor that differs.
 *
 * Files are read and compared with their manifests as for a resumed run. So two files whose manifests have the same SHA-256 are
 * equal, and only others are compared tensor by tensor. */
#include "runtime/base/base.h"
#include "runtime/save/save.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct SavedSteps { /* the saves of a folder */
    const char *folder;
    Saved *newest;
    int64_t *step; /* ascending */
    int count;
} SavedSteps;

static Saved *open_run(const char *path)
{
    char *why;
    Saved *s = mgpu_open_saved(path, MGPU_NEED_RUN, &why);
    if (!s)
        mgpu_fail(MGPU_BAD_INPUT, "%s: there is no saved run (%s)", path, why);
    return s;
}

static void open_tensors(TensorFile *file, const Saved *s, int which) { mgpu_open_tensors(file, s->name[which], s->file[which]); }

/* A save of a version without manifests says its step in its weights. */
static int64_t step_of(const Saved *s)
{
    TensorFile weights;
    if (s->sealed)
        return s->manifest.step;
    if (s->file[SAVED_WEIGHTS] < 0)
        mgpu_fail(MGPU_BAD_INPUT, "%s has no %s", s->path, mgpu_saved_names[SAVED_WEIGHTS]);
    open_tensors(&weights, s, SAVED_WEIGHTS);
    int64_t step = weights.step;
    mgpu_close_tensors(&weights);
    return step;
}

static char *path_of(const SavedSteps *s, int64_t step) { return mgpu_format("%s/step-%lld", s->folder, (long long)step); }

static SavedSteps open_steps(const char *folder)
{
    SavedSteps s = {.folder = folder, .newest = open_run(folder)};
    int64_t newest = step_of(s.newest);
    for (int i = 0; i < s.newest->manifest.kept_count; i++) {
        int64_t step = s.newest->manifest.kept[i];
        char *path = path_of(&s, step);
        if (step < newest && access(path, F_OK) == 0)
            MGPU_PUSH(s.step, s.count, step);
        free(path);
    }
    MGPU_PUSH(s.step, s.count, newest);
    return s;
}

static void close_steps(SavedSteps *s)
{
    mgpu_close_saved(s->newest);
    free(s->step);
}

/* Returns the save of a step; the caller closes it if it is not the newest. */
static Saved *open_step(const SavedSteps *s, int i)
{
    if (i == s->count - 1)
        return s->newest;
    char *path = path_of(s, s->step[i]);
    Saved *saved = open_run(path);
    free(path);
    return saved;
}

static bool same_digest(const Saved *a, const Saved *b, int which)
{
    const SavedFile *x = &a->manifest.files[which], *y = &b->manifest.files[which];
    return a->sealed && b->sealed && x->bytes == y->bytes && x->part == y->part &&
           !memcmp(&x->sha256, &y->sha256, sizeof x->sha256);
}

/* Returns how many tensors differ; 1 for a file that only one has. */
static int compare_file(const Saved *a, const Saved *b, int which, FILE *out)
{
    const char *name = mgpu_saved_names[which];
    TensorFile x, y;
    bool in_a = a->file[which] >= 0, in_b = b->file[which] >= 0;
    if (in_a != in_b)
        fprintf(out, "  %s: only in %s\n", name, in_a ? a->folder : b->folder);
    if (!in_a || !in_b || same_digest(a, b, which))
        return in_a != in_b;
    open_tensors(&x, a, which);
    open_tensors(&y, b, which);
    int differ = 0;
    if (x.step != y.step) /* of best.safetensors */
        fprintf(out, "  %s: of step %lld and of step %lld\n", name, (long long)x.step, (long long)y.step), differ++;
    differ += mgpu_compare_tensors(&x, &y, name, out);
    mgpu_close_tensors(&x);
    mgpu_close_tensors(&y);
    return differ;
}

static bool compare_step(const SavedSteps *a, int i, const SavedSteps *b, int k, FILE *out)
{
    Saved *x = open_step(a, i), *y = open_step(b, k);
    char *lines;
    size_t length;
    int differ = 0;
    FILE *text = mgpu_begin_text(&lines, &length);
    for (int which = 0; which < SAVED_FILES; which++)
        if (which != SAVED_RUN)
            differ += compare_file(x, y, which, text);
    mgpu_end_text(text);
    if (differ)
        fprintf(out, "step %lld is the first that differs:\n%s", (long long)a->step[i], lines);
    free(lines);
    if (x != a->newest)
        mgpu_close_saved(x);
    if (y != b->newest)
        mgpu_close_saved(y);
    return differ;
}

static char *list_steps(const SavedSteps *s)
{
    char *text;
    size_t length;
    FILE *f = mgpu_begin_text(&text, &length);
    for (int i = 0; i < s->count; i++)
        fprintf(f, "%s%lld", i ? ", " : "", (long long)s->step[i]);
    mgpu_end_text(f);
    return text;
}

bool mgpu_saves_differ(const char *a, const char *b, FILE *out)
{
    SavedSteps x = open_steps(a), y = open_steps(b);
    int equal = 0;
    bool differ = false;
    for (int i = 0, k = 0; i < x.count && k < y.count && !differ;) {
        int64_t step = x.step[i], other = y.step[k];
        if (step == other)
            differ = compare_step(&x, i, &y, k, out);
        equal += step == other && !differ;
        i += step <= other;
        k += other <= step;
    }
    if (!equal && !differ)
        mgpu_fail(MGPU_BAD_INPUT, "%s has saves of step %s, %s of step %s: none is in both", a, list_steps(&x), b,
                  list_steps(&y));
    if (!differ)
        fprintf(out, "%d save%s of the same steps: all tensors are equal\n", equal, equal == 1 ? "" : "s");
    close_steps(&x);
    close_steps(&y);
    return differ;
}
