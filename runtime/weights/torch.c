/* torch.c: reads files of torch.save: the archive (a zip with data.pkl, and each storage in data/KEY), and the file of PyTorch
 * before 1.6: five pickles (magic number, version, machine, object, storage keys), then for each storage the number of elements
 * (i64) and the bytes. In: the bytes; out: tensors by name, as views of storages.
 *
 * Of a pickle only dictionaries, lists, numbers and tensors are used (pickle.c). A checkpoint that also has other tensors
 * (optimizer, epoch, best_val_loss or rng_state) has the weights under "state_dict" or another name of WEIGHTS. Without such a
 * name, all tensors are taken, and the names that lead to one are joined: "encoder.fc.weight". */
#include "runtime/base/base.h"
#include "runtime/weights/formats.h"
#include "runtime/weights/pickle.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

typedef struct Storage {
    const char *key;
    const char *type_name;   /* "torch.FloatStorage" */
    const struct Type *type; /* NULL: it is not in TYPES */
    int64_t elements;
    const uint8_t *data; /* NULL before it is read */
} Storage;
typedef struct StorageView { /* a tensor; offset and strides are in elements */
    Storage *storage;
    int64_t offset, extent[MGPU_MAX_RANK], stride[MGPU_MAX_RANK];
    int rank;
    const char *type_name; /* "torch.uint16", of a storage of bytes alone; NULL: the storage has it */
} StorageView;
enum { STORAGE, TENSOR }; /* `whole` of a PICKLED_OWN value: its type */
typedef struct Torch {
    TensorFile *file;
    const TensorBytes *bytes;
    Archive *archive;
    const char *folder; /* NULL in the legacy format */
    void *storages;     /* tree of Storage, sorted by key */
} Torch;

static const struct Type {
    const char *name;
    uint8_t dtype;
    uint8_t unread_bytes; /* of an element, if the type has no counterpart here; else 0 */
} TYPES[] = {{"Double", MGPU_F64, 0}, {"Float", MGPU_F32, 0}, {"Half", MGPU_F16, 0},    {"BFloat16", MGPU_BF16, 0},
             {"Long", MGPU_I64, 0},   {"Int", MGPU_I32, 0},   {"Short", MGPU_I16, 0},   {"Char", MGPU_I8, 0},
             {"Byte", MGPU_U8, 0},    {"Bool", MGPU_BOOL, 0}, {"ComplexDouble", 0, 16}, {"ComplexFloat", 0, 8}};

/* ---- storages */
static int by_key(const void *a, const void *b) { return strcmp(((const Storage *)a)->key, ((const Storage *)b)->key); }

static _Noreturn void refuse_type(const Torch *t, const char *type)
{
    mgpu_fail(MGPU_BAD_INPUT,
              "%s: a tensor in it is a %s; tensors of bool, whole numbers and f16 to f64 that are dense can be read",
              t->bytes->path, type);
}

/* Returns NULL for a type that is not in TYPES. */
static const struct Type *type_of_storage(const char *name)
{
    static const char BEGIN[] = "torch.", END[] = "Storage";
    for (int i = 0; i < MGPU_COUNT(TYPES); i++) {
        char *whole = mgpu_format("%s%s%s", BEGIN, TYPES[i].name, END);
        bool same = strcmp(whole, name) == 0;
        free(whole);
        if (same)
            return &TYPES[i];
    }
    return NULL;
}

/* The id is ("storage", torch.FloatStorage, key, device, elements). */
static Pickled *persistent(Pickle *p, const Pickled *id)
{
    Torch *t = p->context;
    const Pickled *what = mgpu_pickled_item(id, 0), *key = mgpu_pickled_item(id, 2), *elements = mgpu_pickled_item(id, 4),
                  *view = mgpu_pickled_item(id, 5), *type = mgpu_pickled_item(id, 1);
    if (!what || what->kind != PICKLED_TEXT || strcmp(what->text, "storage") != 0 || !key || key->kind != PICKLED_TEXT ||
        !elements || elements->kind != PICKLED_WHOLE || elements->whole < 0)
        return NULL;
    if (view && view->kind != PICKLED_NONE)
        mgpu_fail(MGPU_BAD_INPUT,
                  "%s: a storage in it is a view of another one, as PyTorch before 0.4 wrote; torch.save(torch.load(FILE), "
                  "\"w.pt\") writes it anew",
                  t->bytes->path);
    Storage *s = mgpu_pickle_memory(p, sizeof *s);
    if (!type || type->kind != PICKLED_NAME)
        refuse_type(t, "storage of no known type");
    *s = (Storage){key->text, type->text, type_of_storage(type->text), elements->whole, NULL};
    Storage **found = tsearch(s, &t->storages, by_key);
    if (!found)
        mgpu_no_memory(sizeof *s);
    if (strcmp((*found)->type_name, s->type_name) != 0 || (*found)->elements != s->elements)
        return NULL;
    Pickled *v = mgpu_new_pickled(p, PICKLED_OWN);
    v->data = *found;
    v->whole = STORAGE;
    return v;
}

static void read_storage(Torch *t, Storage *s)
{
    if (s->data)
        return;
    int64_t bytes = 0;
    uint8_t *owned = NULL;
    char *name = mgpu_format("%sdata/%s", t->folder, s->key);
    int member = mgpu_find_member(t->archive, name);
    if (member < 0)
        mgpu_fail(MGPU_BAD_INPUT, "%s: it lacks '%s', which its tensors are in; the file is damaged", t->bytes->path, name);
    s->data = mgpu_member_bytes(t->archive, member, &bytes, &owned);
    if (owned)
        mgpu_adopt_memory(t->file, owned);
    if (s->elements > bytes / mgpu_dtype_bytes(s->type->dtype))
        mgpu_fail(MGPU_BAD_INPUT, "%s: '%s' is shorter than its tensors; the file is damaged", t->bytes->path, name);
    free(name);
}

/* ---- functions that pickles call */
static bool whole_numbers(const Pickled *list, int64_t *to, int *count)
{
    if (!list || list->kind != PICKLED_LIST || list->length > MGPU_MAX_RANK)
        return false;
    for (int64_t i = 0; i < list->length; i++) {
        if (list->items[i]->kind != PICKLED_WHOLE || list->items[i]->whole < 0)
            return false;
        to[i] = list->items[i]->whole;
    }
    *count = (int)list->length;
    return true;
}

/* True if the last element of the view is in the storage. */
static bool is_inside(const StorageView *v)
{
    int64_t last = v->offset;
    for (int i = 0; i < v->rank; i++) {
        int64_t reach;
        if (v->extent[i] == 0)
            return true;
        if (__builtin_mul_overflow(v->extent[i] - 1, v->stride[i], &reach) || __builtin_add_overflow(last, reach, &last))
            return false;
    }
    return last < v->storage->elements;
}

/* Arguments: (storage, offset, extents, strides, ...). */
static Pickled *rebuild_tensor(Pickle *p, const Pickled *arguments)
{
    const Pickled *storage = mgpu_pickled_item(arguments, 0), *offset = mgpu_pickled_item(arguments, 1),
                  *type = mgpu_pickled_item(arguments, 6);
    StorageView *view = mgpu_pickle_memory(p, sizeof *view);
    int strides = -1;
    bool right = storage && storage->kind == PICKLED_OWN && storage->whole == STORAGE && offset &&
                 offset->kind == PICKLED_WHOLE && offset->whole >= 0 &&
                 whole_numbers(mgpu_pickled_item(arguments, 2), view->extent, &view->rank) &&
                 whole_numbers(mgpu_pickled_item(arguments, 3), view->stride, &strides) && strides == view->rank;
    if (right) {
        view->storage = storage->data;
        view->offset = offset->whole;
        view->type_name = type && type->kind == PICKLED_NAME ? type->text : NULL;
    }
    if (!right || !is_inside(view))
        mgpu_fail(MGPU_BAD_INPUT, "%s: a tensor in it has no place in its storage, or more than 8 axes; the file is damaged",
                  p->path);
    Pickled *v = mgpu_new_pickled(p, PICKLED_OWN);
    v->data = view;
    v->whole = TENSOR;
    return v;
}

static Pickled *first_argument(Pickle *p, const Pickled *arguments)
{
    (void)p;
    return arguments && arguments->kind == PICKLED_LIST && arguments->length ? arguments->items[0] : NULL;
}

/* OrderedDict(), OrderedDict([[key, value], ...]), defaultdict(...) */
static Pickled *new_dict(Pickle *p, const Pickled *arguments)
{
    const Pickled *pairs = mgpu_pickled_item(arguments, 0);
    Pickled *v = mgpu_new_pickled(p, PICKLED_DICT);
    if (!pairs || pairs->kind != PICKLED_LIST)
        return v;
    v->items = mgpu_pickle_memory(p, (size_t)(2 * pairs->length + 1) * sizeof *v->items);
    v->capacity = 2 * pairs->length;
    for (int64_t i = 0; i < pairs->length; i++) {
        const Pickled *pair = pairs->items[i];
        if (pair->kind != PICKLED_LIST || pair->length != 2)
            return NULL;
        v->items[v->length++] = pair->items[0];
        v->items[v->length++] = pair->items[1];
    }
    return v;
}

static Pickled *nothing(Pickle *p, const Pickled *arguments)
{
    (void)arguments;
    return mgpu_new_pickled(p, PICKLED_NONE);
}

/* The functions that pickles may call. Objects that many checkpoints also have become None; nothing is executed. */
static const struct Callable {
    const char *name;
    Pickled *(*call)(Pickle *, const Pickled *arguments);
} CALLABLES[] = {
    {"torch._utils._rebuild_tensor_v2", rebuild_tensor},
    {"torch._utils._rebuild_tensor_v3", rebuild_tensor},
    {"torch._utils._rebuild_tensor", rebuild_tensor},
    {"torch._utils._rebuild_parameter", first_argument},
    {"torch._utils._rebuild_parameter_with_state", first_argument},
    {"torch.nn.parameter.Parameter", first_argument},
    {"collections.OrderedDict", new_dict},
    {"collections.defaultdict", new_dict},
    {"collections.Counter", nothing},
    {"builtins.set", nothing},
    {"__builtin__.set", nothing},
    {"torch.Size", nothing},
    {"torch.device", nothing},
    {"torch.serialization._get_layout", nothing},
    {"argparse.Namespace", nothing},
    {"pathlib.PosixPath", nothing},
    {"pathlib.WindowsPath", nothing},
    {"datetime.datetime", nothing},
    {"datetime.timedelta", nothing},
    {"_codecs.encode", nothing},
    {"numpy.core.multiarray.scalar", nothing},
    {"numpy._core.multiarray.scalar", nothing},
    {"numpy.dtype", nothing},
};

static Pickled *call(Pickle *p, const char *name, const Pickled *arguments)
{
    for (int i = 0; i < MGPU_COUNT(CALLABLES); i++)
        if (strcmp(CALLABLES[i].name, name) == 0)
            return CALLABLES[i].call(p, arguments);
    return NULL;
}

/* ---- tensors by name */
static bool is_tensor(const Pickled *v) { return v->kind == PICKLED_OWN && v->whole == TENSOR; }

static void read_strided(const SavedTensor *t, mgpu_range elements, uint8_t *to)
{
    int64_t bytes = mgpu_dtype_bytes(t->tensor.dtype);
    Strided s = {.rank = t->tensor.rank};
    memcpy(s.extent, t->tensor.extent, sizeof t->tensor.extent);
    memcpy(s.stride, t->stride, sizeof t->stride);
    mgpu_strided_begin(&s, elements.begin);
    for (int64_t i = elements.begin; i < elements.end; i++, to += bytes) {
        memcpy(to, t->data + s.offset * bytes, (size_t)bytes);
        mgpu_strided_next(&s);
    }
}

static void add_view(Torch *t, const StorageView *v, const char *name)
{
    SavedTensor *s = mgpu_add_tensor(t->file);
    int64_t step = 1;
    bool row_major = true;
    const struct Type *type = v->storage->type;
    uint8_t dtype = type ? type->dtype : MGPU_U8;
    s->tensor = (mgpu_tensor){mgpu_file_copy_text(t->file, name, (int64_t)strlen(name)), dtype, v->rank, {0}};
    memcpy(s->tensor.extent, v->extent, sizeof v->extent);
    memcpy(s->stride, v->stride, sizeof v->stride);
    mgpu_checked_bytes(t->bytes->path, &s->tensor, INT64_MAX);
    if (!type || type->unread_bytes) {
        s->unreadable = mgpu_adopt_memory(
            t->file,
            mgpu_format("%s: tensor '%s': it is a %s; tensors of bool, whole numbers and f16 to f64 that are dense can be read",
                        t->bytes->path, name, v->type_name ? v->type_name : v->storage->type_name));
        return;
    }
    for (int i = v->rank - 1; i >= 0; i--) {
        row_major = row_major && (v->extent[i] <= 1 || v->stride[i] == step);
        step *= v->extent[i];
    }
    if (t->archive)
        read_storage(t, v->storage);
    if (!v->storage->data)
        mgpu_broken_tensors(t->bytes->path, name, "its storage is not in the file; the file is damaged");
    s->data = v->storage->data + v->offset * mgpu_dtype_bytes(dtype);
    s->read = row_major || step == 0 ? NULL : read_strided;
}

enum { DEEPEST = 64 };

static void collect(Torch *t, Pickled *v, const char *prefix, int depth)
{
    if (is_tensor(v)) {
        add_view(t, v->data, prefix);
        return;
    }
    if ((v->kind != PICKLED_DICT && v->kind != PICKLED_LIST) || v->seen || depth == DEEPEST)
        return;
    v->seen = true;
    int step = v->kind == PICKLED_DICT ? 2 : 1;
    for (int64_t i = 0; i < v->length; i += step) {
        const Pickled *key = step == 2 ? v->items[i] : NULL;
        if (key && key->kind != PICKLED_TEXT && key->kind != PICKLED_WHOLE)
            continue;
        char *name = key && key->kind == PICKLED_TEXT
                         ? mgpu_format("%s%s%s", prefix, *prefix ? "." : "", key->text)
                         : mgpu_format("%s%s%lld", prefix, *prefix ? "." : "", (long long)(key ? key->whole : i));
        collect(t, v->items[i + step - 1], name, depth + 1);
        free(name);
    }
}

static bool has_tensors(const Pickled *v)
{
    for (int64_t i = 1; v && v->kind == PICKLED_DICT && i < v->length; i += 2)
        if (is_tensor(v->items[i]))
            return true;
    return false;
}

static void collect_weights(Torch *t, Pickled *object)
{
    static const char *const WEIGHTS[] = {"state_dict", "model_state_dict", "model",  "module",
                                          "net",        "network",          "params", "weights"};
    Pickled *found = NULL;
    for (int i = 0; i < MGPU_COUNT(WEIGHTS) && !found; i++) {
        Pickled *inner = (Pickled *)(uintptr_t)mgpu_pickled_member(object, WEIGHTS[i]);
        found = has_tensors(inner) ? inner : NULL;
    }
    int before = t->file->count;
    collect(t, found ? found : object, "", 0);
    if (t->file->count == before)
        mgpu_broken_tensors(t->bytes->path, NULL,
                            "it holds no tensors by name; torch.save(model.state_dict(), FILE) writes them");
}

static void no_action(void *storage) { (void)storage; /* the pickle owns it */ }

static void close_torch(Torch *t, Pickle *p)
{
    tdestroy(t->storages, no_action);
    mgpu_free_pickled(p);
    if (t->archive)
        mgpu_close_archive(t->archive);
}

/* ---- the archive */
static int find_pickle(const Archive *a, const char *path, char **folder)
{
    for (int i = 0; i < mgpu_member_count(a); i++) {
        char *name = mgpu_member_name(a, i), *file = strrchr(name, '/');
        file = file ? file + 1 : name;
        if (strcmp(file, "data.pkl") == 0) {
            *file = 0;
            *folder = name;
            return i;
        }
        free(name);
    }
    mgpu_broken_tensors(path, NULL, "it has no file data.pkl as PyTorch's archives have");
}

void mgpu_read_torch_archive(TensorFile *file, const TensorBytes *b)
{
    FileBytes bytes = {.data = b->data, .bytes = b->bytes};
    char *folder = NULL;
    Torch t = {.file = file, .bytes = b, .archive = mgpu_open_archive(&bytes, b->path, "")};
    Pickle p = {.path = b->path, .call = call, .persistent = persistent, .context = &t};
    int64_t length;
    uint8_t *owned;
    const uint8_t *at = mgpu_member_bytes(t.archive, find_pickle(t.archive, b->path, &folder), &length, &owned);
    t.folder = folder;
    collect_weights(&t, mgpu_read_pickle(&p, &at, at + length));
    free(owned);
    close_torch(&t, &p);
    free(folder);
}

/* ---- the legacy format */
static void place_storages(Torch *t, const Pickled *keys, const uint8_t *at, const uint8_t *end)
{
    for (int64_t i = 0; i < keys->length; i++) {
        Storage wanted = {.key = keys->items[i]->kind == PICKLED_TEXT ? keys->items[i]->text : ""};
        Storage *const *found = tfind(&wanted, &t->storages, by_key);
        if (!found || end - at < 8)
            mgpu_broken_tensors(t->bytes->path, NULL,
                                "its list of storages and its tensors differ, or it is truncated; the file is damaged");
        Storage *s = *found;
        if (!s->type)
            refuse_type(t, s->type_name);
        int64_t elements, each = s->type->unread_bytes ? s->type->unread_bytes : mgpu_dtype_bytes(s->type->dtype);
        memcpy(&elements, at, sizeof elements);
        at += 8;
        if (elements != s->elements || elements > (end - at) / each)
            mgpu_broken_tensors(t->bytes->path, NULL, "the file is truncated or damaged: a storage is shorter than its tensors");
        s->data = at;
        at += elements * each;
    }
}

void mgpu_read_torch_legacy(TensorFile *file, const TensorBytes *b)
{
    Torch t = {.file = file, .bytes = b};
    Pickle p = {.path = b->path, .call = call, .persistent = persistent, .context = &t};
    const uint8_t *at = b->data, *end = b->data + b->bytes;
    for (int i = 0; i < 3; i++) /* magic number, version, machine */
        mgpu_read_pickle(&p, &at, end);
    Pickled *object = mgpu_read_pickle(&p, &at, end);
    const Pickled *keys = mgpu_read_pickle(&p, &at, end);
    if (keys->kind != PICKLED_LIST)
        mgpu_broken_tensors(b->path, NULL, "it has no list of storages; the file is damaged");
    place_storages(&t, keys, at, end);
    collect_weights(&t, object);
    close_torch(&t, &p);
}
