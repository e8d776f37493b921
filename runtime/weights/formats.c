/* formats.c: detects the format of a file of weights by its first bytes or its name, and calls the reader. The message about a
 * format without a reader names it and explains how to convert the file. */
#include "runtime/base/base.h"
#include "runtime/weights/formats.h"

#include <stdlib.h>
#include <string.h>

typedef struct Format {
    const char *begin;
    int length, at;  /* length and offset of `begin`; length 0: not checked */
    const char *end; /* end of the file's name; NULL: not checked */
    ReadTensors *read;
    const char *what; /* message for a format that is not read: "it is WHAT" */
} Format;
#define BEGINS(text) .begin = text, .length = sizeof text - 1

static ReadTensors read_archive, read_keras, read_index, read_npz;
static const char PLAIN_PICKLE[] =
    "a pickle of Python that torch.save did not write; torch.save(tensors_by_name, \"w.pt\") writes what can be read";
static const Format FORMATS[] = {
#define FORMAT(reader, text, place) {BEGINS(text), .at = place, .read = mgpu_read_##reader},
    TENSOR_FORMATS(FORMAT){BEGINS("PK\3\4"), .read = read_archive},
    {.end = ".index.json", .read = read_index},
    {BEGINS("version https://git-lfs"),
     .what = "a pointer of Git LFS, not the file itself; `git lfs pull` in its folder fetches that"},
    {BEGINS("\x93NUMPY"), .what = "one array without a name; numpy.savez(\"w.npz\", **{\"fc.weight\": array}) names it"},
    {BEGINS("<!DOCTYPE"), .what = "a page of HTML, as of a download that asked for the wrong address"},
    {BEGINS("<html"), .what = "a page of HTML, as of a download that asked for the wrong address"},
    {BEGINS("\x1f\x8b"), .what = "compressed by gzip; gunzip unpacks it"},
    {BEGINS("ustar"), .at = 257,
     .what = "a tar archive; tar -xf unpacks it (PyTorch wrote weights so before 0.1.10: torch.save(torch.load(FILE), \"w.pt\") "
             "writes them anew)"},
    {BEGINS("ggjt"), .what = "a file of llama.cpp from before GGUF; its convert scripts write GGUF"},
    {BEGINS("lmgg"), .what = "a file of llama.cpp from before GGUF; its convert scripts write GGUF"},
    {.end = ".onnx",
     .what = "an ONNX model; onnx: numpy.savez(\"w.npz\", **{t.name: onnx.numpy_helper.to_array(t) for t in "
             "onnx.load(FILE).graph.initializer})"},
    {.end = ".msgpack",
     .what = "a file of Flax; flax.traverse_util.flatten_dict(flax.serialization.msgpack_restore(open(FILE, \"rb\").read()), "
             "sep=\".\") is what numpy.savez(\"w.npz\", **arrays) takes"},
    {.end = ".ckpt.index",
     .what = "a checkpoint of TensorFlow; numpy.savez(\"w.npz\", **{n: tf.train.load_variable(CKPT, n) for n, _ in "
             "tf.train.list_variables(CKPT)}) writes what can be read"},
    {.end = ".pb", .what = "a graph of TensorFlow; weights are in the folder `variables` beside it"},
    {BEGINS("\x80\2"), .what = PLAIN_PICKLE},
    {BEGINS("\x80\3"), .what = PLAIN_PICKLE},
    {BEGINS("\x80\4"), .what = PLAIN_PICKLE},
    {BEGINS("\x80\5"), .what = PLAIN_PICKLE},
    {.end = "", .read = mgpu_read_safetensors}, /* reports errors of unknown formats */
};

/* Safetensors begins with the length of its header, whose bytes may look like another format, so it is checked first. */
static bool is_safetensors(const TensorBytes *b)
{
    static const uint8_t BELOW_4_GIB[4] = {0};
    return b->bytes > 8 && memcmp(b->data + 4, BELOW_4_GIB, sizeof BELOW_4_GIB) == 0 && b->data[8] == '{';
}

static bool is_of(const Format *f, const TensorBytes *b)
{
    if (f->end)
        return mgpu_ends_with(b->path, f->end);
    return b->bytes >= f->at + f->length && memcmp(b->data + f->at, f->begin, (size_t)f->length) == 0;
}

static void read_tensors(TensorFile *file, const TensorBytes *b)
{
    const Format *f = FORMATS;
    if (is_safetensors(b)) {
        mgpu_read_safetensors(file, b);
        return;
    }
    const char *packed = mgpu_compressed_by(b->data, b->bytes);
    while (!is_of(f, b))
        f++;
    if (packed || !f->read)
        mgpu_fail(MGPU_BAD_INPUT, "%s holds no tensors that can be read: it is %s", b->path, packed ? packed : f->what);
    f->read(file, b);
}

void mgpu_open_tensors(TensorFile *file, const char *path, int f)
{
    *file = (TensorFile){.path = path, .step = -1};
    TensorBytes bytes = mgpu_map_open(file, path, f);
    read_tensors(file, &bytes);
    mgpu_sort_tensors(file);
}

/* ---- archives, by their members */
static const struct Content {
    const char *end;
    ReadTensors *read;
    const char *what;
} CONTENTS[] = {
    /* the first row that matches the end of a member's name */
    {"constants.pkl", NULL,
     "an archive of TorchScript; torch.save(torch.jit.load(FILE).state_dict(), \"w.pt\") writes its weights"},
    {"data.pkl", mgpu_read_torch_archive, NULL},
    {"model.weights.h5", read_keras, NULL},
    {".npy", read_npz, NULL},
};

/* Reads the HDF5 file of weights in a .keras archive. */
static void read_keras(TensorFile *file, const TensorBytes *b)
{
    FileBytes bytes = {.data = b->data, .bytes = b->bytes};
    Archive *a = mgpu_open_archive(&bytes, b->path, "");
    int member = mgpu_find_member(a, "model.weights.h5");
    uint8_t *owned;
    TensorBytes weights = {.path = b->path};
    if (member < 0)
        mgpu_broken_tensors(b->path, NULL, "it has no model.weights.h5 as .keras files have");
    weights.data = mgpu_member_bytes(a, member, &weights.bytes, &owned);
    mgpu_read_hdf5(file, &weights);
    free(owned);
    mgpu_close_archive(a);
}

static void read_archive(TensorFile *file, const TensorBytes *b)
{
    FileBytes bytes = {.data = b->data, .bytes = b->bytes};
    Archive *a = mgpu_open_archive(&bytes, b->path, "");
    const struct Content *found = NULL;
    for (int k = 0; k < MGPU_COUNT(CONTENTS) && !found; k++)
        for (int i = 0; i < mgpu_member_count(a) && !found; i++) {
            char *name = mgpu_member_name(a, i);
            found = mgpu_ends_with(name, CONTENTS[k].end) ? &CONTENTS[k] : NULL;
            free(name);
        }
    mgpu_close_archive(a);
    if (!found || !found->read)
        mgpu_fail(MGPU_BAD_INPUT, "%s holds no tensors that can be read: it is %s", b->path,
                  found ? found->what : "a zip archive; unzip unpacks it");
    found->read(file, b);
}

/* ---- an index: {"weight_map": {"NAME": "FILE", ...}} */
static void read_index(TensorFile *file, const TensorBytes *b)
{
    const char *error = NULL;
    Json *index = mgpu_json_read((const char *)b->data, (size_t)b->bytes, &error);
    const Json *map = index && index->kind == JSON_OBJECT ? mgpu_json_member(index, "weight_map") : NULL;
    if (!map || map->kind != JSON_OBJECT)
        mgpu_fail(MGPU_BAD_INPUT, "%s: no index of weights: %s", b->path, error ? error : "it has no object \"weight_map\"");
    mgpu_adopt_memory(file, index);
    const char **read = NULL;
    int count = 0;
    for (const Json *m = map->first; m; m = m->next) {
        bool is_read = false;
        if (m->kind != JSON_TEXT)
            mgpu_broken_tensors(b->path, m->key, "the index names no file for it");
        for (int i = count - 1; i >= 0 && !is_read; i--)
            is_read = strcmp(read[i], m->text) == 0;
        if (is_read)
            continue;
        MGPU_PUSH(read, count, m->text);
        TensorBytes shard = mgpu_map_in_folder_of(file, b->path, m->text);
        if (mgpu_ends_with(shard.path, ".index.json"))
            mgpu_broken_tensors(b->path, NULL, "an index of indices");
        read_tensors(file, &shard);
    }
    free(read);
}

/* ---- NumPy's archives: NAME.npy */
static void read_npz(TensorFile *file, const TensorBytes *b)
{
    FileBytes bytes = {.data = b->data, .bytes = b->bytes};
    Archive *archive = mgpu_open_archive(&bytes, b->path, "");
    for (int i = 0; i < mgpu_member_count(archive); i++) {
        char *name = mgpu_member_name(archive, i);
        uint8_t *owned;
        int64_t length;
        if (!mgpu_ends_with(name, ".npy")) {
            free(name);
            continue;
        }
        const uint8_t *data = mgpu_member_bytes(archive, i, &length, &owned);
        char *place = mgpu_format("%s: tensor '%.*s'", b->path, (int)strlen(name) - 4, name), *unreadable = NULL;
        Array a;
        mgpu_parse_npy(&a, data, length, place, "", true, &unreadable);
        free(place);
        if (unreadable)
            mgpu_adopt_memory(file, unreadable);
        if (owned)
            mgpu_adopt_memory(file, owned);
        if (a.owned)
            mgpu_adopt_memory(file, a.owned);
        SavedTensor *t = mgpu_add_tensor(file);
        t->tensor = (mgpu_tensor){mgpu_file_copy_text(file, name, (int64_t)strlen(name) - 4), a.dtype, a.rank, {0}};
        memcpy(t->tensor.extent, a.extent, sizeof a.extent);
        t->data = a.data;
        t->unreadable = unreadable;
        free(name);
    }
    mgpu_close_archive(archive);
}
