/* checkpoint.c: what a run saves and resumes from: weights.safetensors (weights and states), optimizer.safetensors (optimizer
 * states and the sums of the current report), average.safetensors (the model with its averages, if it has any), run.json (the
 * state of the run), best.safetensors (the model of the best validation). save.h describes how they are written atomically. */
#include "runtime/base/base.h"
#include "runtime/base/intervals.h"
#include "runtime/data/data.h"
#include "runtime/save/save.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { FORMAT = 1 };
static const int64_t MOST_STEPS = (int64_t)1 << 48; /* limit of the counters of random numbers (mgpu_random.h) */
static const int VIEW[SAVED_FILES] = {MGPU_WEIGHTS_VIEW, MGPU_OPTIMIZER_VIEW, MGPU_MODEL_VIEW, -1, MGPU_MODEL_VIEW};

/* ---- saving */
static void write_watched(FILE *f, const Watched *w)
{
    fprintf(f, "{\"any\":%s,\"best\":\"%.17g\",\"scale\":\"%.17g\"", w->any ? "true" : "false", w->best, w->scale);
    fprintf(f, ",\"best_step\":%lld,\"since\":%lld,\"bad\":%lld}", (long long)w->best_step, (long long)w->since,
            (long long)w->bad);
}

/* Numbers that may be NaN or infinite are written as texts. */
static void write_progress(FILE *f, const SaveJob *job, const Manifest *files)
{
    const mgpu_program *program = job->variables.program;
    const Progress *p = &job->at;
    fprintf(f, "{\"format\":%d,\"model\":", FORMAT);
    mgpu_json_write_text(f, program->name);
    fprintf(f, ",\"step\":%lld,\"epoch\":%lld,\"position\":%lld,\"seed\":\"%llu\",\"batch\":%lld", (long long)p->step,
            (long long)p->epoch, (long long)p->position, (unsigned long long)p->seed, (long long)p->batch);
    fprintf(f, ",\"total_steps\":%lld,\"steps_per_epoch\":%lld", (long long)job->total_steps, (long long)job->steps_per_epoch);
    fprintf(f, ",\"loss_sum\":\"%.17g\",\"loss_samples\":\"%.17g\",\"lr\":\"%.17g\"", p->loss_sum, p->loss_samples, p->lr);
    fprintf(f, ",\"skipped\":%lld,\"validated\":%lld,\"best\":", (long long)p->skipped, (long long)p->validated);
    write_watched(f, &p->best);
    fputs(",\"plateaus\":[", f);
    for (int i = 0; i < program->plateau_count; i++) {
        fputs(i ? "," : "", f);
        write_watched(f, &p->plateau[i]);
    }
    fputs("],\"kept\":[", f);
    for (int i = 0; i < p->kept_count; i++)
        fprintf(f, "%s%lld", i ? "," : "", (long long)p->kept[i]);
    fputs("],\"options\":[", f);
    for (int i = 0; i < job->option_count; i++) {
        fputs(i ? "," : "", f);
        mgpu_json_write_bytes(f, job->options[i]);
    }
    fputs("]", f);
    if (p->log) {
        fputs(",\"log\":", f);
        mgpu_json_write_bytes(f, p->log);
    }
    fputs(",\"sha256\":", f);
    mgpu_write_digests(f, files, false);
    fputs("}\n", f);
}

/* If only rank 0 writes the file, the other processes send it their data. */
static void write_view(Draft *d, int which, const SaveJob *job)
{
    const Snapshot *s = &job->variables;
    int64_t begin = mgpu_view_part(s, VIEW[which]);
    FILE *f = s->in_parts ? mgpu_draft_open_part(d, which, s->processes, begin) : d->folder ? mgpu_draft_open(d, which) : NULL;
    mgpu_write_view(f, s, VIEW[which]);
    if (s->in_parts)
        mgpu_draft_close_part(d, f, s->processes);
    else if (f)
        mgpu_draft_close(d, f);
}

static bool has_view(const SaveJob *job, int which)
{
    bool there = which != SAVED_AVERAGE || job->variables.program->average_count;
    return which == SAVED_BEST ? job->best : job->checkpoint && there;
}

/* Replaces p->kept by the steps that are kept after this save: the last `keep` ones, including this one. */
static void list_kept(Progress *p, int64_t keep)
{
    int all = p->kept_count;
    bool known = all && p->kept[all - 1] == p->step, more = keep > 1 && !known;
    int64_t *list = mgpu_allocate((size_t)(all + 1), sizeof *list);
    for (int i = 0; i < all; i++)
        list[i] = p->kept[i];
    if (more)
        list[all++] = p->step;
    int old = keep > 1 && all > keep ? all - (int)keep : 0;
    memmove(list, list + old, (size_t)(all - old) * sizeof *list);
    p->kept = list;
    p->kept_count = all - old;
}

static char *write_checkpoint(SaveJob *job)
{
    Draft d;
    list_kept(&job->at, job->keep);
    mgpu_draft_begin(&d, job->folder);
    d.manifest.step = job->at.step;
    d.manifest.origin = job->origin;
    mgpu_draft_keep(&d, job->at.kept, job->at.kept_count);
    for (int i = SAVED_WEIGHTS; i <= SAVED_AVERAGE; i++)
        if (has_view(job, i))
            write_view(&d, i, job);
    FILE *f = mgpu_draft_open(&d, SAVED_RUN);
    write_progress(f, job, &d.manifest);
    mgpu_draft_close(&d, f);
    if (has_view(job, SAVED_BEST))
        write_view(&d, SAVED_BEST, job);
    else if (job->at.best.any)
        mgpu_draft_link(&d, SAVED_BEST);
    return mgpu_draft_finish(&d, job->keep > 1);
}

/* Writes a save with a new best model and links to the other files of the last save. */
static char *write_best(SaveJob *job)
{
    Draft d;
    mgpu_draft_begin_as_last(&d, job->folder);
    d.manifest.origin = job->origin;
    for (int i = 0; i < SAVED_BEST; i++)
        mgpu_draft_link(&d, i);
    write_view(&d, SAVED_BEST, job);
    return mgpu_draft_finish(&d, false);
}

char *mgpu_write_save(SaveJob *job)
{
    Draft d = {.file = -1};
    for (int i = 0; i < SAVED_FILES && !job->folder; i++) /* in the order in which rank 0 writes them */
        if (i != SAVED_RUN && has_view(job, i))
            write_view(&d, i, job);
    if (!job->folder)
        return NULL;
    return job->checkpoint ? write_checkpoint(job) : write_best(job);
}

char *mgpu_bring_save(SaveFolder *folder, const Saved *from, int64_t step, const SaveOrigin *origin)
{
    Draft d;
    mgpu_draft_begin(&d, folder);
    d.manifest.origin = *origin;
    d.manifest.step = step;
    for (int i = 0; i < SAVED_FILES; i++)
        if (from->file[i] >= 0)
            mgpu_draft_copy(&d, from, i);
    return mgpu_draft_finish(&d, false);
}

/* ---- loading: an invalid number sets *good to false */
static double number_of(const Json *object, const char *key, bool *good)
{
    const Json *m = mgpu_json_member(object, key);
    if (!m)
        return 0;
    char *end = NULL;
    double value = m->kind == JSON_TEXT ? strtod(m->text, &end) : 0;
    if (!end || end == m->text || *end)
        *good = false;
    return value;
}

/* Reads a number from 0 to a limit far below overflow. A missing one, as in runs of earlier versions, leaves *value unchanged. */
static void read_count(const Json *object, const char *key, int64_t *value, bool *good)
{
    const Json *m = mgpu_json_member(object, key);
    if (m && (!mgpu_json_whole(m, value) || *value < 0 || *value >= MOST_STEPS))
        *good = false;
}

static void read_watched(Watched *w, const Json *j, bool *good)
{
    if (!j || j->kind != JSON_OBJECT)
        return;
    const Json *any = mgpu_json_member(j, "any");
    *w =
        (Watched){.any = any && any->kind == JSON_TRUE, .best = number_of(j, "best", good), .scale = number_of(j, "scale", good)};
    read_count(j, "best_step", &w->best_step, good);
    read_count(j, "since", &w->since, good);
    read_count(j, "bad", &w->bad, good);
}

static void read_course(Progress *p, const mgpu_program *program, const Json *json, bool *good)
{
    p->loss_sum = number_of(json, "loss_sum", good);
    p->loss_samples = number_of(json, "loss_samples", good);
    p->lr = number_of(json, "lr", good);
    p->validated = p->step;
    read_count(json, "skipped", &p->skipped, good);
    read_count(json, "validated", &p->validated, good);
    read_watched(&p->best, mgpu_json_member(json, "best"), good);
    const Json *plateaus = mgpu_json_member(json, "plateaus"), *kept = mgpu_json_member(json, "kept"),
               *log = mgpu_json_member(json, "log");
    p->log = log && log->kind == JSON_TEXT ? mgpu_format("%s", log->text) : NULL;
    const Json *one = plateaus && plateaus->kind == JSON_LIST ? plateaus->first : NULL;
    for (int i = 0; i < program->plateau_count && one; i++, one = one->next)
        read_watched(&p->plateau[i], one, good);
    for (one = kept && kept->kind == JSON_LIST ? kept->first : NULL; one; one = one->next) {
        p->kept = mgpu_resize(p->kept, (size_t)(p->kept_count + 1) * sizeof *p->kept);
        if (mgpu_json_whole(one, &p->kept[p->kept_count]))
            p->kept_count++;
    }
}

static bool read_seed(const Json *json, uint64_t *seed)
{
    const Json *j = mgpu_json_member(json, "seed");
    char *end;
    errno = 0;
    if (!j || j->kind != JSON_TEXT || !*j->text || j->text[strspn(j->text, "0123456789")])
        return false;
    *seed = strtoull(j->text, &end, 10);
    return !errno;
}

/* Returns NULL if the file is not JSON. */
static Json *read_json(int file, const char *path, const char **error)
{
    struct stat s;
    if (fstat(file, &s) != 0)
        mgpu_fail(MGPU_MACHINE_FAILED, "%s cannot be read: %s", path, strerror(errno));
    if (!S_ISREG(s.st_mode) || !s.st_size)
        return NULL;
    void *text = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (text == MAP_FAILED)
        mgpu_fail(MGPU_MACHINE_FAILED, "%s cannot be read: %s", path, strerror(errno));
    Json *json = mgpu_json_read(text, (size_t)s.st_size, error);
    munmap(text, (size_t)s.st_size);
    return json;
}

void mgpu_read_progress(Progress *p, const mgpu_program *program, const Saved *from)
{
    const char *path = from->name[SAVED_RUN], *error = "it is empty";
    Json *json = read_json(from->file[SAVED_RUN], path, &error);
    const Json *model = mgpu_json_member(json, "model");
    int64_t format;
    bool good = json && mgpu_json_whole(mgpu_json_member(json, "format"), &format);
    if (good && format != FORMAT)
        mgpu_fail(MGPU_BAD_INPUT, "%s was saved by another version of mgpuc; --init takes the weights beside it", path);
    p->step = p->epoch = p->position = p->batch = -1;
    read_count(json, "step", &p->step, &good);
    read_count(json, "epoch", &p->epoch, &good);
    read_count(json, "position", &p->position, &good);
    read_count(json, "batch", &p->batch, &good);
    good = good && p->step >= 0 && p->epoch >= 0 && p->position >= 0 && p->batch > 0 && read_seed(json, &p->seed) && model &&
           model->kind == JSON_TEXT;
    if (good && strcmp(model->text, program->name) != 0)
        mgpu_fail(MGPU_BAD_INPUT, "%s is a run of the model '%s', this program trains '%s'", path, model->text, program->name);
    if (good)
        read_course(p, program, json, &good);
    if (!good)
        mgpu_fail(MGPU_BAD_INPUT, "%s is no saved run: %s", path, json ? "some of its numbers are missing or are none" : error);
    free(json);
}

Course mgpu_read_course(const Saved *from)
{
    Course c = {0};
    const char *error;
    bool good = true;
    Json *json = from->file[SAVED_RUN] < 0 ? NULL : read_json(from->file[SAVED_RUN], from->name[SAVED_RUN], &error);
    read_count(json, "total_steps", &c.total_steps, &good);
    read_count(json, "steps_per_epoch", &c.steps_per_epoch, &good);
    c.seeded = read_seed(json, &c.seed);
    free(json);
    return good ? c : (Course){0};
}

int mgpu_read_kept_options(const Saved *from, char ***told)
{
    const char *error;
    int count = 0;
    Json *json = read_json(from->file[SAVED_RUN], from->name[SAVED_RUN], &error);
    const Json *list = mgpu_json_member(json, "options");
    *told = NULL;
    for (const Json *one = list && list->kind == JSON_LIST ? list->first : NULL; one; one = one->next)
        if (one->kind == JSON_TEXT) {
            MGPU_PUSH(*told, count, mgpu_format("%s", one->text));
        }
    free(json);
    return count;
}

void mgpu_take_categories(Categories *categories, const TensorFile *file)
{
    const Json *tables = file->metadata ? mgpu_json_member(file->metadata, "categories") : NULL;
    if (tables && tables->kind == JSON_TEXT)
        mgpu_read_categories(categories, tables->text, file->path);
}

void mgpu_load_categories(Categories *categories, const char *path)
{
    TensorFile file;
    mgpu_open_weights(&file, path);
    mgpu_take_categories(categories, &file);
    mgpu_close_tensors(&file);
}

void mgpu_load_saved_categories(Categories *categories, const Saved *from)
{
    TensorFile file;
    if (!mgpu_open_saved_model(&file, from, false, false))
        return;
    mgpu_take_categories(categories, &file);
    mgpu_close_tensors(&file);
}

void mgpu_load_checkpoint(const mgpu_program *program, const mgpu_plan *plan, Engine *engine, const Progress *progress,
                          const Saved *from)
{
    /* values without averages are also in the weights, which are loaded later */
    static const int ORDER[] = {SAVED_AVERAGE, SAVED_WEIGHTS, SAVED_OPTIMIZER};
    for (int k = 0; k < MGPU_COUNT(ORDER); k++) {
        int i = ORDER[k];
        if (i == SAVED_AVERAGE && !program->average_count)
            continue;
        TensorFile file;
        if (from->file[i] < 0)
            mgpu_fail(MGPU_BAD_INPUT, "%s/%s: %s", from->path, mgpu_saved_names[i], strerror(ENOENT));
        mgpu_open_tensors(&file, from->name[i], from->file[i]);
        if (file.step != progress->step)
            mgpu_fail(MGPU_BAD_INPUT,
                      "%s is of step %lld, run.json beside it of step %lld: these files were not saved together; --init takes "
                      "the weights alone",
                      from->name[i], (long long)file.step, (long long)progress->step);
        mgpu_read_view(program, plan, engine, &file, VIEW[i]);
        mgpu_close_tensors(&file);
    }
}
