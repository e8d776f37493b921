/* checkpoint.c: a run on disk: DIR/weights.safetensors (weights and states), DIR/optimizer.safetensors (the optimizer's
 * states, and the sums of the report under way), DIR/run.json (where the run stands).
 *
 * Each file is written beside its place as NAME.new and fsynced; only when all three are complete are they renamed, in
 * that order. So there is a whole checkpoint at any moment: if run.json.new exists, the renames were interrupted and are
 * finished before reading; other .new files are remains of a save that never became one. Tensors are saved with their
 * declared axes, whatever their order in memory. Rounded copies of variables are not saved: they are made again of what
 * was loaded. Sums of which every device holds a part are saved whole and go back to device 0: so a run may go on with
 * another device count. */
#include "runtime/data.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FORMAT = 1, FILES = 3 };
static const char *const FILE_NAMES[FILES] = {"weights.safetensors", "optimizer.safetensors", "run.json"};

/* ---- axes as declared <-> axes in memory: order[k] is the declared axis that is the k-th in memory */
static void reorder(const mgpu_variable *v, uint8_t *declared, uint8_t *memory, bool save)
{
    const mgpu_tensor *t = &v->tensor;
    int64_t stride[MGPU_MAX_RANK], at[MGPU_MAX_RANK] = {0}, step = mgpu_dtype_bytes(t->dtype), bytes = step, count = mgpu_elements(t);
    for (int k = t->rank - 1; k >= 0; k--) {
        stride[v->order[k]] = step;
        step *= t->extent[v->order[k]];
    }
    int64_t offset = 0;
    for (int64_t i = 0; i < count; i++) {
        if (save)
            memcpy(declared + i * bytes, memory + offset, (size_t)bytes);
        else
            memcpy(memory + offset, declared + i * bytes, (size_t)bytes);
        for (int axis = t->rank - 1; axis >= 0; axis--) { /* the next element in declared order */
            offset += stride[axis];
            if (++at[axis] < t->extent[axis])
                break;
            offset -= stride[axis] * t->extent[axis];
            at[axis] = 0;
        }
    }
}

static bool as_declared(const mgpu_variable *v)
{
    for (int k = 0; k < v->tensor.rank; k++)
        if (v->order[k] != k)
            return false;
    return true;
}

static bool is_partial(const mgpu_variable *v)
{
    return v->kind == MGPU_ACCUMULATOR && !v->replicated;
}

/* ---- which variables */
enum { WEIGHTS_FILE, OPTIMIZER_FILE, NO_FILE };

/* -> by variable: the file that it belongs to. Of the accumulators only those of the report of training outlive a step:
 * they are what its phase touches; the others begin at 0 again. */
static uint8_t *files_of(const mgpu_program *program, const mgpu_plan *plan)
{
    uint8_t *file = mgpu_allocate((size_t)program->variable_count, 1);
    for (int i = 0; i < program->variable_count; i++) {
        uint8_t kind = program->variables[i].kind;
        file[i] = kind == MGPU_WEIGHT || kind == MGPU_STATE ? WEIGHTS_FILE : kind == MGPU_OPTIMIZER_STATE ? OPTIMIZER_FILE : NO_FILE;
    }
    for (int k = 0; k < plan->phase_count; k++) {
        const mgpu_device_phase *p = &plan->phases[k].devices[0];
        for (int i = 0; plan->phases[k].kind == MGPU_PHASE_REPORT_TRAIN && i < p->op_count; i++)
            for (int a = 0; a < p->ops[i].read_count + p->ops[i].write_count; a++) {
                const mgpu_buffer *b = &p->buffers[p->ops[i].access[a].buffer];
                if (b->kind == MGPU_VARIABLE && file[b->index] == NO_FILE)
                    file[b->index] = OPTIMIZER_FILE;
            }
    }
    return file;
}

/* ---- saving */
typedef struct Saving {
    const mgpu_program *program;
    const Engine *engine;
    int devices;
    const uint8_t *file;  /* by variable */
    const int *variables; /* those in the file that is written */
} Saving;

static void read_variable(const Saving *s, int variable, uint8_t *to)
{
    const mgpu_tensor *t = &s->program->variables[variable].tensor;
    mgpu_engine_read_variable(s->engine, 0, variable, to);
    if (!is_partial(&s->program->variables[variable]) || s->devices == 1)
        return;
    uint8_t *part = mgpu_allocate((size_t)mgpu_tensor_bytes(t), 1);
    for (int d = 1; d < s->devices; d++) {
        mgpu_engine_read_variable(s->engine, d, variable, part);
        for (int64_t i = 0; i < mgpu_elements(t); i++)
            mgpu_from_double(to, t->dtype, i, mgpu_to_double(to, t->dtype, i) + mgpu_to_double(part, t->dtype, i));
    }
    free(part);
}

static void fill(void *context, int i, void *to)
{
    const Saving *s = context;
    const mgpu_variable *v = &s->program->variables[s->variables[i]];
    if (as_declared(v)) {
        read_variable(s, s->variables[i], to);
        return;
    }
    uint8_t *memory = mgpu_allocate((size_t)mgpu_tensor_bytes(&v->tensor), 1);
    read_variable(s, s->variables[i], memory);
    reorder(v, to, memory, true);
    free(memory);
}

static void write_tensors(FILE *f, const Saving *s, int file, const FileNotes *notes)
{
    int count = 0, *variables = mgpu_allocate((size_t)s->program->variable_count, sizeof *variables);
    SavedTensor *tensors = mgpu_allocate((size_t)s->program->variable_count, sizeof *tensors);
    for (int i = 0; i < s->program->variable_count; i++)
        if (s->file[i] == file) {
            variables[count] = i;
            tensors[count++].tensor = s->program->variables[i].tensor;
        }
    Saving saving = *s;
    saving.variables = variables;
    mgpu_write_safetensors(f, tensors, count, notes, fill, &saving);
    free(tensors);
    free(variables);
}

static void write_progress(FILE *f, const mgpu_program *program, const Progress *p)
{
    fprintf(f, "{\"format\":%d,\"model\":", FORMAT);
    mgpu_json_write_text(f, program->name);
    fprintf(f, ",\"step\":%lld,\"epoch\":%lld,\"position\":%lld,\"seed\":\"%llu\",\"batch\":%lld", (long long)p->step,
            (long long)p->epoch, (long long)p->position, (unsigned long long)p->seed, (long long)p->batch);
    fprintf(f, ",\"loss_sum\":\"%.17g\",\"loss_samples\":\"%.17g\"}\n", p->loss_sum, p->loss_samples); /* text: it may be NaN */
}

/* the first error of an output stream stays in it until here */
static void close_file(FILE *f, const char *path)
{
    errno = 0;
    bool good = fflush(f) == 0 && !ferror(f) && fsync(fileno(f)) == 0;
    int error = errno;
    if (fclose(f) != 0 || !good)
        mgpu_fail(MGPU_MACHINE_FAILED, "%s cannot be written: %s", path, strerror(error ? error : errno));
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
            mgpu_fail(MGPU_MACHINE_FAILED, "%s cannot be renamed to %s: %s", fresh, path, strerror(errno));
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
        mgpu_fail(MGPU_MACHINE_FAILED, "%s is no folder", folder);
    free(path);
}

void mgpu_save_checkpoint(const mgpu_program *program, const mgpu_plan *plan, const Engine *engine, const Progress *progress,
                          const Categories *categories, const char *folder)
{
    char *tables = mgpu_categories_text(categories);
    uint8_t *file = files_of(program, plan);
    Saving s = {.program = program, .engine = engine, .devices = plan->devices, .file = file};
    mgpu_make_folder(folder);
    for (int i = FILES - 1; i >= 0; i--) { /* run.json.new first: without it the others mean nothing */
        char *fresh = mgpu_format("%s/%s.new", folder, FILE_NAMES[i]);
        if (unlink(fresh) != 0 && errno != ENOENT)
            mgpu_fail(MGPU_MACHINE_FAILED, "%s cannot be removed: %s", fresh, strerror(errno));
        free(fresh);
    }
    for (int i = 0; i < FILES; i++) {
        char *fresh = mgpu_format("%s/%s.new", folder, FILE_NAMES[i]);
        FILE *f = fopen(fresh, "wbe");
        if (!f)
            mgpu_fail(MGPU_MACHINE_FAILED, "%s cannot be written: %s", fresh, strerror(errno));
        if (i < NO_FILE)
            write_tensors(f, &s, i, &(FileNotes){progress->step, i == WEIGHTS_FILE ? tables : NULL});
        else
            write_progress(f, program, progress);
        close_file(f, fresh);
        free(fresh);
    }
    sync_folder(folder);
    rename_all(folder);
    free(tables);
    free(file);
}

/* ---- loading */
static void place_variable(const mgpu_program *program, int devices, Engine *engine, int variable, const SavedTensor *saved)
{
    const mgpu_variable *v = &program->variables[variable];
    int64_t count = mgpu_elements(&v->tensor), bytes = mgpu_tensor_bytes(&v->tensor);
    uint8_t *aligned = mgpu_allocate((size_t)mgpu_tensor_bytes(&saved->tensor), 1);
    uint8_t *declared = mgpu_allocate((size_t)bytes, 1), *memory = mgpu_allocate((size_t)bytes, 1);
    memcpy(aligned, saved->data, (size_t)mgpu_tensor_bytes(&saved->tensor));
    mgpu_convert(declared, v->tensor.dtype, aligned, saved->tensor.dtype, count);
    if (as_declared(v))
        memcpy(memory, declared, (size_t)bytes);
    else
        reorder(v, declared, memory, false);
    for (int d = 0; d < devices; d++) {
        if (d == 1 && is_partial(v))
            memset(memory, 0, (size_t)bytes);
        mgpu_engine_write_variable(engine, d, variable, memory);
    }
    free(memory);
    free(declared);
    free(aligned);
}

static void check_tensor(const TensorFile *file, const SavedTensor *saved, const mgpu_tensor *t)
{
    char is[200], expected[200];
    bool same = saved->tensor.rank == t->rank;
    for (int i = 0; same && i < t->rank; i++)
        same = saved->tensor.extent[i] == t->extent[i];
    if (!same)
        mgpu_fail(MGPU_BAD_INPUT, "%s: '%s' has the shape %s, the model has %s", file->path, t->name,
                  mgpu_shape_text(saved->tensor.rank, saved->tensor.extent, is), mgpu_shape_text(t->rank, t->extent, expected));
    if (mgpu_dtype_is_float(saved->tensor.dtype) != mgpu_dtype_is_float(t->dtype))
        mgpu_fail(MGPU_BAD_INPUT, "%s: '%s' is %s, the model has %s", file->path, t->name, mgpu_dtype_name(saved->tensor.dtype),
                  mgpu_dtype_name(t->dtype));
}

/* torch counts batches beside batchnorm's statistics; nothing here needs them */
static bool is_ignored(const char *name)
{
    static const char END[] = ".num_batches_tracked";
    size_t length = strlen(name);
    return length >= sizeof END - 1 && strcmp(name + length - (sizeof END - 1), END) == 0;
}

enum { NAMES_SHOWN = 6 };
typedef struct NameList { FILE *f; char *text; size_t length; int count; } NameList;

static void open_list(NameList *l)
{
    *l = (NameList){0};
    l->f = open_memstream(&l->text, &l->length);
    if (!l->f)
        mgpu_fail(MGPU_MACHINE_FAILED, "no memory for a message");
}

static void list(NameList *l, const char *name)
{
    if (l->count++ < NAMES_SHOWN)
        fprintf(l->f, "%s%s", l->count > 1 ? ", " : "", name);
}

static void close_list(NameList *l)
{
    if (l->count > NAMES_SHOWN)
        fprintf(l->f, " and %d more", l->count - NAMES_SHOWN);
    fclose(l->f);
}

/* the variables of one file; each has to be there, and nothing else */
static void load_file(const mgpu_program *program, const mgpu_plan *plan, Engine *engine, const TensorFile *file, int number)
{
    uint8_t *files = files_of(program, plan);
    NameList missing, extra;
    open_list(&missing);
    open_list(&extra);
    int used = 0;
    for (int i = 0; i < program->variable_count; i++) {
        const mgpu_variable *v = &program->variables[i];
        if (files[i] != number)
            continue;
        SavedTensor *saved = mgpu_find_tensor(file, v->tensor.name);
        if (!saved) {
            list(&missing, v->tensor.name);
            continue;
        }
        check_tensor(file, saved, &v->tensor);
        place_variable(program, plan->devices, engine, i, saved);
        saved->data = NULL; /* used */
        used++;
    }
    for (int i = 0; i < file->count; i++)
        if (file->tensors[i].data && !is_ignored(file->tensors[i].tensor.name))
            list(&extra, file->tensors[i].tensor.name);
    close_list(&missing);
    close_list(&extra);
    if (missing.count || extra.count)
        mgpu_fail(MGPU_BAD_INPUT, "%s: %d of the model's %d tensors are there%s%s%s%s; mgpuc check %s shows the model's names", file->path,
                  used, used + missing.count, missing.count ? "; missing: " : "", missing.text,
                  extra.count ? "; not in the model: " : "", extra.text, program->model_file);
    free(missing.text);
    free(extra.text);
    free(files);
}

/* what products read in place of the masters */
static void make_copies(const mgpu_program *program, int devices, Engine *engine)
{
    for (int i = 0; i < program->copy_count; i++) {
        const mgpu_copy *c = &program->copies[i];
        const mgpu_tensor *from = &program->variables[c->master].tensor, *to = &program->variables[c->copy].tensor;
        uint8_t *master = mgpu_allocate((size_t)mgpu_tensor_bytes(from), 1), *copy = mgpu_allocate((size_t)mgpu_tensor_bytes(to), 1);
        mgpu_engine_read_variable(engine, 0, c->master, master);
        mgpu_convert(copy, to->dtype, master, from->dtype, mgpu_elements(to));
        for (int d = 0; d < devices; d++)
            mgpu_engine_write_variable(engine, d, c->copy, copy);
        free(master);
        free(copy);
    }
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

void mgpu_load_weights(const mgpu_program *program, const mgpu_plan *plan, Engine *engine, const char *path)
{
    TensorFile file;
    mgpu_read_safetensors(&file, path);
    load_file(program, plan, engine, &file, WEIGHTS_FILE);
    mgpu_close_safetensors(&file);
    make_copies(program, plan->devices, engine);
}

static double number_of(const Json *object, const char *key)
{
    const Json *m = mgpu_json_member(object, key);
    return m && m->kind == JSON_TEXT ? strtod(m->text, NULL) : 0;
}

void mgpu_read_progress(Progress *p, const mgpu_program *program, const char *folder)
{
    char *path = mgpu_format("%s/run.json", folder), *fresh = mgpu_format("%s/run.json.new", folder), text[4096];
    const char *error = "it is not one of this program's";
    FILE *f = fopen(fresh, "rbe");
    size_t length = f ? fread(text, 1, sizeof text, f) : 0;
    if (f)
        fclose(f);
    Json *json = length ? mgpu_json_read(text, length, &error) : NULL;
    if (json) /* complete: then the other two are, too */
        rename_all(folder);
    free(json);
    f = fopen(path, "rbe");
    if (!f)
        mgpu_fail(MGPU_BAD_INPUT, "%s: %s: there is no saved run", path, strerror(errno));
    length = fread(text, 1, sizeof text, f);
    fclose(f);
    json = mgpu_json_read(text, length, &error);
    const Json *seed = mgpu_json_member(json, "seed"), *model = mgpu_json_member(json, "model");
    int64_t format;
    if (!json || !mgpu_json_whole(mgpu_json_member(json, "format"), &format) || format != FORMAT ||
        !mgpu_json_whole(mgpu_json_member(json, "step"), &p->step) || !mgpu_json_whole(mgpu_json_member(json, "epoch"), &p->epoch) ||
        !mgpu_json_whole(mgpu_json_member(json, "position"), &p->position) ||
        !mgpu_json_whole(mgpu_json_member(json, "batch"), &p->batch) || p->step < 0 || p->epoch < 0 || p->position < 0 ||
        !seed || seed->kind != JSON_TEXT || !model || model->kind != JSON_TEXT)
        mgpu_fail(MGPU_BAD_INPUT, "%s cannot be used: %s", path, error);
    if (strcmp(model->text, program->name) != 0)
        mgpu_fail(MGPU_BAD_INPUT, "%s is a run of the model '%s', this program trains '%s'", path, model->text, program->name);
    p->seed = strtoull(seed->text, NULL, 10);
    p->loss_sum = number_of(json, "loss_sum");
    p->loss_samples = number_of(json, "loss_samples");
    free(json);
    free(fresh);
    free(path);
}

void mgpu_load_checkpoint(const mgpu_program *program, const mgpu_plan *plan, Engine *engine, const Progress *progress,
                          const char *folder)
{
    for (int i = 0; i < NO_FILE; i++) {
        char *path = mgpu_format("%s/%s", folder, FILE_NAMES[i]);
        TensorFile file;
        mgpu_read_safetensors(&file, path);
        if (file.step != progress->step)
            mgpu_fail(MGPU_BAD_INPUT, "%s is of step %lld, run.json beside it of step %lld: these files are not of one save", path,
                      (long long)file.step, (long long)progress->step);
        load_file(program, plan, engine, &file, i);
        mgpu_close_safetensors(&file);
        free(path);
    }
    make_copies(program, plan->devices, engine);
}
