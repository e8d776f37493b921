/* checkpoint.c: a run on disk: DIR/weights.safetensors (weights and states), DIR/optimizer.safetensors (the optimizer's
 * states, and the sums of the report under way), DIR/average.safetensors (the model with its averages, if it has some),
 * DIR/run.json (where the run stands).
 *
 * Each file is written beside its place as NAME.new and fsynced; only when all are complete are they renamed, in that
 * order. So there is a whole checkpoint at any moment: if run.json.new exists, the renames were interrupted and are
 * finished before reading; other .new files are remains of a save that never became one.
 *
 * Of a run that keeps several checkpoints the last ones also lie in DIR/step-N, as links to the same files: a file is
 * never written in place, so they stay what they were. DIR/best.safetensors is the model of the best validation. */
#include "runtime/data.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FORMAT = 1, OPTIMIZER_FILE = 1, AVERAGE_FILE = 2, RUN_FILE = 3, FILES = 4 };
static const char *const FILE_NAMES[FILES] = {"weights.safetensors", "optimizer.safetensors", "average.safetensors", "run.json"};
static const int VIEW[RUN_FILE] = {MGPU_WEIGHTS_VIEW, MGPU_OPTIMIZER_VIEW, MGPU_MODEL_VIEW};
static const char BEST[] = "best.safetensors";

/* ---- saving */
static void write_watched(FILE *f, const Watched *w)
{
    fprintf(f, "{\"any\":%s,\"best\":\"%.17g\",\"scale\":\"%.17g\"", w->any ? "true" : "false", w->best, w->scale);
    fprintf(f, ",\"best_step\":%lld,\"since\":%lld,\"bad\":%lld}", (long long)w->best_step, (long long)w->since, (long long)w->bad);
}

/* numbers that may be NaN or infinite are text */
static void write_progress(FILE *f, const mgpu_program *program, const Progress *p)
{
    fprintf(f, "{\"format\":%d,\"model\":", FORMAT);
    mgpu_json_write_text(f, program->name);
    fprintf(f, ",\"step\":%lld,\"epoch\":%lld,\"position\":%lld,\"seed\":\"%llu\",\"batch\":%lld", (long long)p->step,
            (long long)p->epoch, (long long)p->position, (unsigned long long)p->seed, (long long)p->batch);
    fprintf(f, ",\"loss_sum\":\"%.17g\",\"loss_samples\":\"%.17g\"", p->loss_sum, p->loss_samples);
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
    fputs("]}\n", f);
}

static void sync_folder(const char *folder)
{
    int f = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f < 0 || (fsync(f) != 0 && errno != EINVAL)) /* some file systems have no such thing */
        mgpu_fail(MGPU_MACHINE_FAILED, "%s cannot be written: %s", folder, strerror(errno));
    close(f);
}

static void rename_all(const char *folder)
{
    for (int i = 0; i < FILES; i++) {
        char *fresh = mgpu_format("%s/%s.new", folder, FILE_NAMES[i]), *path = mgpu_format("%s/%s", folder, FILE_NAMES[i]);
        if (rename(fresh, path) != 0 && errno != ENOENT) /* ENOENT: an interrupted save got further */
            mgpu_fail(MGPU_MACHINE_FAILED, "%s cannot be written: %s", path, strerror(errno));
        free(fresh);
        free(path);
    }
    sync_folder(folder);
}

void mgpu_make_folder(const char *folder)
{
    char *path = mgpu_format("%s", folder);
    for (char *slash = path + 1; *path; slash++) {
        char c = *slash;
        if (c && c != '/')
            continue;
        *slash = 0;
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            mgpu_fail(MGPU_MACHINE_FAILED, "the folder %s cannot be made: %s", path, strerror(errno));
        *slash = c;
        if (!c)
            break;
    }
    struct stat status;
    if (stat(folder, &status) != 0 || !S_ISDIR(status.st_mode))
        mgpu_fail(MGPU_BAD_USAGE, "--save %s: this is no folder; name another one", folder);
    free(path);
}

/* another name for a file, or a copy where there are no such things; `from` may be missing */
static void link_file(const char *from, const char *to)
{
    if (unlink(to) != 0 && errno != ENOENT)
        mgpu_fail(MGPU_MACHINE_FAILED, "%s cannot be written: %s", to, strerror(errno));
    if (link(from, to) == 0 || errno == ENOENT)
        return;
    FILE *in = fopen(from, "rbe"), *out = fopen(to, "wbe");
    if (!in || !out)
        mgpu_fail(MGPU_MACHINE_FAILED, "%s cannot be %s: %s", in ? to : from, in ? "written" : "read", strerror(errno));
    enum { PIECE = 1 << 16 };
    char *piece = mgpu_allocate(PIECE, 1);
    for (size_t n; (n = fread(piece, 1, PIECE, in)) > 0;)
        fwrite(piece, 1, n, out);
    if (ferror(in))
        mgpu_fail(MGPU_MACHINE_FAILED, "%s cannot be read: %s", from, strerror(errno));
    fclose(in);
    int error = mgpu_finish_file(out, true);
    if (error) {
        unlink(to);
        mgpu_fail(MGPU_MACHINE_FAILED, "%s cannot be written: %s", to, strerror(error));
    }
    free(piece);
}

static void link_between(const char *name, const char *from_folder, const char *to_folder)
{
    char *from = mgpu_format("%s/%s", from_folder, name), *to = mgpu_format("%s/%s", to_folder, name);
    link_file(from, to);
    free(from);
    free(to);
}

static char *folder_of_step(const char *folder, int64_t step)
{
    return mgpu_format("%s/step-%lld", folder, (long long)step);
}

/* the checkpoint that has just been saved, under the name of its step too; those before the last `keep` go */
static void keep_checkpoint(const char *folder, int64_t step)
{
    char *own = folder_of_step(folder, step);
    mgpu_make_folder(own);
    for (int i = 0; i < FILES; i++)
        link_between(FILE_NAMES[i], folder, own);
    link_between(BEST, folder, own);
    sync_folder(own);
    free(own);
}

static void remove_checkpoint(const char *folder, int64_t step)
{
    char *own = folder_of_step(folder, step);
    for (int i = 0; i <= FILES; i++) {
        char *path = mgpu_format("%s/%s", own, i < FILES ? FILE_NAMES[i] : BEST);
        unlink(path);
        free(path);
    }
    rmdir(own); /* stays if somebody has put something else there */
    free(own);
}

/* p->kept with this step behind it -> how many of the first ones are too many */
static int next_kept(Progress *p, int64_t keep)
{
    if (keep > 1 && (!p->kept_count || p->kept[p->kept_count - 1] != p->step)) {
        p->kept = mgpu_resize(p->kept, (size_t)(p->kept_count + 1) * sizeof *p->kept);
        p->kept[p->kept_count++] = p->step;
    }
    int64_t most = keep > 1 ? keep : p->kept_count;
    return p->kept_count > most ? p->kept_count - (int)most : 0;
}

/* run.json.new first: without it the others mean nothing */
static void remove_fresh(const char *folder)
{
    for (int i = FILES - 1; i >= 0; i--) {
        char *fresh = mgpu_format("%s/%s.new", folder, FILE_NAMES[i]);
        if (unlink(fresh) != 0 && errno != ENOENT)
            mgpu_fail(MGPU_MACHINE_FAILED, "%s cannot be written: %s", fresh, strerror(errno));
        free(fresh);
    }
}

/* the best of an earlier run in this folder */
static void remove_best(const char *folder)
{
    char *path = mgpu_format("%s/%s", folder, BEST);
    if (unlink(path) != 0 && errno != ENOENT)
        mgpu_fail(MGPU_MACHINE_FAILED, "%s cannot be written: %s", path, strerror(errno));
    free(path);
}

/* tables: the classes of words, in all that may be evaluated; 0, or the number of an error */
static int write_file(const mgpu_program *program, const mgpu_plan *plan, const Engine *engine, const Progress *progress, int i,
                       const char *tables, const char *path)
{
    FileNotes notes = {progress->step, i == OPTIMIZER_FILE ? NULL : tables};
    FILE *f = fopen(path, "wbe");
    if (!f)
        return errno;
    if (i < RUN_FILE)
        mgpu_write_view(f, program, plan, engine, VIEW[i], &notes);
    else
        write_progress(f, program, progress);
    return mgpu_finish_file(f, true);
}

void mgpu_save_checkpoint(const mgpu_program *program, const mgpu_plan *plan, const Engine *engine, Progress *progress,
                          const Categories *categories, const char *folder, int64_t keep)
{
    char *tables = mgpu_categories_text(categories);
    mgpu_make_folder(folder);
    remove_fresh(folder);
    int old = next_kept(progress, keep), left = progress->kept_count - old;
    Progress saved = *progress;
    saved.kept = progress->kept + old;
    saved.kept_count = left;
    for (int i = 0; i < FILES; i++) {
        char *fresh = mgpu_format("%s/%s.new", folder, FILE_NAMES[i]);
        int error = i != AVERAGE_FILE || program->average_count ? write_file(program, plan, engine, &saved, i, tables, fresh) : 0;
        if (error) {
            remove_fresh(folder);
            mgpu_fail(MGPU_MACHINE_FAILED, "%s cannot be written: %s", fresh, strerror(error));
        }
        free(fresh);
    }
    sync_folder(folder);
    if (!progress->best.any)
        remove_best(folder);
    rename_all(folder);
    if (keep > 1)
        keep_checkpoint(folder, progress->step);
    for (int i = 0; i < old; i++)
        remove_checkpoint(folder, progress->kept[i]);
    if (old)
        memmove(progress->kept, progress->kept + old, (size_t)left * sizeof *progress->kept);
    progress->kept_count = left;
    free(tables);
}

char *mgpu_save_best(const mgpu_program *program, const mgpu_plan *plan, const Engine *engine, int64_t step,
                     const Categories *categories, const char *folder)
{
    char *path = mgpu_format("%s/%s", folder, BEST), *fresh = mgpu_format("%s.new", path);
    char *tables = mgpu_categories_text(categories);
    Progress at = {.step = step};
    mgpu_make_folder(folder);
    int error = write_file(program, plan, engine, &at, AVERAGE_FILE, tables, fresh);
    if (!error && rename(fresh, path) != 0)
        error = errno;
    if (error) {
        unlink(fresh);
        mgpu_fail(MGPU_MACHINE_FAILED, "%s cannot be written: %s", path, strerror(error));
    }
    sync_folder(folder);
    free(tables);
    free(fresh);
    return path;
}

void mgpu_bring_best(const char *from, const char *to)
{
    char *there = mgpu_format("%s/%s", to, BEST);
    if (access(there, F_OK) != 0)
        link_between(BEST, from, to);
    free(there);
}

bool mgpu_same_folder(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* ---- loading */
static double number_of(const Json *object, const char *key)
{
    const Json *m = mgpu_json_member(object, key);
    return m && m->kind == JSON_TEXT ? strtod(m->text, NULL) : 0;
}

static void read_watched(Watched *w, const Json *j)
{
    if (!j || j->kind != JSON_OBJECT)
        return;
    const Json *any = mgpu_json_member(j, "any");
    *w = (Watched){.any = any && any->kind == JSON_TRUE, .best = number_of(j, "best"), .scale = number_of(j, "scale")};
    mgpu_json_whole(mgpu_json_member(j, "best_step"), &w->best_step);
    mgpu_json_whole(mgpu_json_member(j, "since"), &w->since);
    mgpu_json_whole(mgpu_json_member(j, "bad"), &w->bad);
}

/* what runs of earlier versions do not say stays 0 */
static void read_course(Progress *p, const mgpu_program *program, const Json *json)
{
    p->loss_sum = number_of(json, "loss_sum");
    p->loss_samples = number_of(json, "loss_samples");
    mgpu_json_whole(mgpu_json_member(json, "skipped"), &p->skipped);
    if (!mgpu_json_whole(mgpu_json_member(json, "validated"), &p->validated))
        p->validated = p->step;
    read_watched(&p->best, mgpu_json_member(json, "best"));
    const Json *plateaus = mgpu_json_member(json, "plateaus"), *kept = mgpu_json_member(json, "kept");
    const Json *one = plateaus && plateaus->kind == JSON_LIST ? plateaus->first : NULL;
    for (int i = 0; i < program->plateau_count && one; i++, one = one->next)
        read_watched(&p->plateau[i], one);
    for (one = kept && kept->kind == JSON_LIST ? kept->first : NULL; one; one = one->next) {
        p->kept = mgpu_resize(p->kept, (size_t)(p->kept_count + 1) * sizeof *p->kept);
        if (mgpu_json_whole(one, &p->kept[p->kept_count]))
            p->kept_count++;
    }
}

/* NULL: there is no such file, or it is not JSON */
static Json *read_json(const char *path, const char **error)
{
    char *text = NULL;
    size_t length = 0, room = 0, n;
    FILE *f = fopen(path, "rbe");
    if (!f)
        return NULL;
    do {
        text = mgpu_resize(text, room += 4096);
        length += n = fread(text + length, 1, room - length, f);
    } while (n);
    fclose(f);
    Json *json = length ? mgpu_json_read(text, length, error) : NULL;
    free(text);
    return json;
}

void mgpu_read_progress(Progress *p, const mgpu_program *program, const char *folder)
{
    char *path = mgpu_format("%s/run.json", folder), *fresh = mgpu_format("%s/run.json.new", folder);
    const char *error = "it is empty";
    Json *json = read_json(fresh, &error);
    if (json) /* complete: then the others are, too */
        rename_all(folder);
    free(json);
    if (access(path, R_OK) != 0)
        mgpu_fail(MGPU_BAD_INPUT, "--resume %s: there is no saved run (%s: %s)", folder, path, strerror(errno));
    json = read_json(path, &error);
    const Json *seed = mgpu_json_member(json, "seed"), *model = mgpu_json_member(json, "model");
    int64_t format;
    if (json && mgpu_json_whole(mgpu_json_member(json, "format"), &format) && format != FORMAT)
        mgpu_fail(MGPU_BAD_INPUT, "%s was saved by another version of mgpuc; --init takes the weights beside it", path);
    if (!json || !mgpu_json_whole(mgpu_json_member(json, "format"), &format) || !mgpu_json_whole(mgpu_json_member(json, "step"), &p->step) || !mgpu_json_whole(mgpu_json_member(json, "epoch"), &p->epoch) ||
        !mgpu_json_whole(mgpu_json_member(json, "position"), &p->position) ||
        !mgpu_json_whole(mgpu_json_member(json, "batch"), &p->batch) || p->step < 0 || p->epoch < 0 || p->position < 0 ||
        !seed || seed->kind != JSON_TEXT || !model || model->kind != JSON_TEXT)
        mgpu_fail(MGPU_BAD_INPUT, "%s is no saved run: %s", path, json ? "some of its numbers are missing" : error);
    if (strcmp(model->text, program->name) != 0)
        mgpu_fail(MGPU_BAD_INPUT, "%s is a run of the model '%s', this program trains '%s'", path, model->text, program->name);
    p->seed = strtoull(seed->text, NULL, 10);
    read_course(p, program, json);
    free(json);
    free(fresh);
    free(path);
}

void mgpu_load_categories(Categories *categories, const char *path)
{
    TensorFile file;
    mgpu_read_safetensors(&file, path);
    const Json *notes = mgpu_json_member(file.header, "__metadata__"), *tables = notes ? mgpu_json_member(notes, "categories") : NULL;
    if (tables && tables->kind == JSON_TEXT)
        mgpu_read_categories(categories, tables->text, path);
    mgpu_close_safetensors(&file);
}

void mgpu_load_checkpoint(const mgpu_program *program, const mgpu_plan *plan, Engine *engine, const Progress *progress,
                          const char *folder)
{
    for (int k = 0; k < RUN_FILE; k++) {
        int i = (k + 2) % RUN_FILE; /* the averages first: what is not averaged there is in the weights, too */
        if (i == AVERAGE_FILE && !program->average_count)
            continue;
        char *path = mgpu_format("%s/%s", folder, FILE_NAMES[i]);
        TensorFile file;
        mgpu_read_safetensors(&file, path);
        if (file.step != progress->step)
            mgpu_fail(MGPU_BAD_INPUT, "%s is of step %lld, run.json beside it of step %lld: these files were not saved together; --init takes the weights alone", path,
                      (long long)file.step, (long long)progress->step);
        mgpu_read_view(program, plan, engine, &file, VIEW[i]);
        mgpu_close_safetensors(&file);
        free(path);
    }
}
