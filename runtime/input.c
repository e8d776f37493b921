/* input.c: data sets in memory, the order of samples, and the samples of a batch.
 *
 * A file's elements stay as they are (u8 stays u8) and are converted while a batch is gathered; labels are checked and
 * brought to their input's type when the file is read. The order of an epoch is a Fisher-Yates shuffle whose random
 * numbers are Philox with key hash(seed, "shuffle") and counter (index, 0, epoch): a function of seed and epoch alone. */
#include "runtime/internal.h"
#include "runtime/mgpu_random.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- does a file fit its input? */

/* a trailing axis of extent 1 may be missing in the file */
static bool shapes_agree(const mgpu_tensor *t, const Array *a)
{
    if (a->rank > t->rank)
        return false;
    for (int i = 0; i < t->rank; i++)
        if (t->extent[i] != (i < a->rank ? a->extent[i] : 1))
            return false;
    return true;
}

static void check_labels(Array *a, const mgpu_input *in, const char *path, const char *where)
{
    int64_t per_sample = mgpu_elements(&in->tensor), count = a->samples * per_sample, element = mgpu_dtype_bytes(in->tensor.dtype);
    uint8_t *labels = mgpu_allocate((size_t)count, (size_t)element);
    for (int64_t i = 0; i < count; i++) {
        double v = mgpu_to_double(a->data, a->dtype, i);
        bool good = (v >= 0 && v < (double)in->classes && v == floor(v)) || (in->ignore >= 0 && v == (double)in->ignore);
        if (!good && in->other < 0)
            mgpu_fail(MGPU_BAD_INPUT, "%s%s: sample %lld has the label %.9g; input '%s' has the classes 0 to %lld", where, path,
                      (long long)(i / per_sample), v, in->tensor.name, (long long)in->classes - 1);
        mgpu_from_double(labels, in->tensor.dtype, i, good ? v : (double)in->other);
    }
    free(a->data);
    a->data = labels;
    a->dtype = in->tensor.dtype;
    a->sample_bytes = per_sample * element;
}

static void check_array(Array *a, const mgpu_input *in, const char *path, const char *where)
{
    char is[200], expected[200];
    const mgpu_tensor *t = &in->tensor;
    if (!shapes_agree(t, a))
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: its samples have the shape %s, input '%s' has %s", where, path,
                  mgpu_shape_text(a->rank, a->extent, is), t->name, mgpu_shape_text(t->rank, t->extent, expected));
    if (in->classes) {
        check_labels(a, in, path, where);
        return;
    }
    if (mgpu_dtype_is_float(a->dtype) && !mgpu_dtype_is_float(t->dtype))
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: its elements are %s, input '%s' is %s", where, path, mgpu_dtype_name(a->dtype), t->name,
                  mgpu_dtype_name(t->dtype));
    int64_t bad, per_sample = mgpu_elements(t);
    if (!mgpu_values_fit(a->data, a->dtype, a->samples * per_sample, t->dtype, &bad))
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: sample %lld holds %.9g, which is no value of input '%s' (%s)", where, path,
                  (long long)(bad / per_sample), mgpu_to_double(a->data, a->dtype, bad), t->name, mgpu_dtype_name(t->dtype));
}

/* ---- opening */
static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* with and without .gz, in the folder; the caller frees */
static char *find_file(const char *path, const char *folder, const char *where)
{
    bool inside = path[0] != '/' && folder;
    char *full = inside ? mgpu_format("%s/%s", folder, path) : mgpu_format("%s", path);
    if (access(full, F_OK) == 0)
        return full;
    size_t length = strlen(full);
    char *other = ends_with(full, ".gz") ? mgpu_format("%.*s", (int)length - 3, full) : mgpu_format("%s.gz", full);
    if (access(other, F_OK) == 0) {
        free(full);
        return other;
    }
    char here[4096];
    if (path[0] == '/')
        mgpu_fail(MGPU_BAD_INPUT, "%sthere is no file %s, nor %s", where, full, other);
    mgpu_fail(MGPU_BAD_INPUT, "%sthere is no file %s, nor %s, in %s %s; say where the data lies with --data DIR", where, path,
              strrchr(other, '/') && !strchr(path, '/') ? strrchr(other, '/') + 1 : other, inside ? "the folder" : "the current folder",
              inside ? folder : getcwd(here, sizeof here) ? here : ".");
}

const mgpu_set *mgpu_find_set(const mgpu_program *p, const char *name)
{
    for (int i = 0; i < p->set_count; i++)
        if (strcmp(p->sets[i].name, name) == 0)
            return &p->sets[i];
    return NULL;
}

static void open_column(Dataset *d, const mgpu_program *p, const mgpu_column *column, const char *folder)
{
    char *where = mgpu_format("%s:%d: ", p->model_file, column->line);
    char *path = find_file(column->path, folder, where);
    Array *a = &d->columns[column->input];
    mgpu_read_idx(a, path, where);
    check_array(a, &p->inputs[column->input], path, where);
    if (!d->samples)
        d->samples = a->samples;
    if (d->samples != a->samples)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: %lld samples, the other columns of '%s' have %lld", where, path, (long long)a->samples, d->name,
                  (long long)d->samples);
    free(path);
    free(where);
}

void mgpu_open_set(Dataset *d, const mgpu_program *p, const mgpu_set *set, const bool *wanted, const char *folder)
{
    *d = (Dataset){.name = set->name, .columns = mgpu_allocate((size_t)p->input_count, sizeof(Array))};
    if (!set->reader || strcmp(set->reader, "idx") != 0)
        mgpu_fail(MGPU_BAD_INPUT, "%s: the data set '%s' has no reader that this program knows (it knows idx)", p->model_file, set->name);
    for (int i = 0; i < set->column_count; i++)
        if (wanted[set->columns[i].input])
            open_column(d, p, &set->columns[i], folder);
    for (int i = 0; i < p->input_count; i++)
        if (wanted[i] && !d->columns[i].data)
            mgpu_fail(MGPU_BAD_INPUT, "%s: the data set '%s' has no column for the input '%s'", p->model_file, set->name,
                      p->inputs[i].tensor.name);
    if (!d->samples)
        mgpu_fail(MGPU_BAD_INPUT, "%s: the data set '%s' gives no input that the model uses", p->model_file, set->name);
}

void mgpu_close_set(Dataset *d, const mgpu_program *p)
{
    for (int i = 0; d->columns && i < p->input_count; i++)
        free(d->columns[i].data);
    free(d->columns);
}

void mgpu_open_file(Array *a, const mgpu_program *p, int input, const char *path)
{
    const mgpu_input *in = &p->inputs[input];
    if (access(path, F_OK) != 0)
        mgpu_fail(MGPU_BAD_INPUT, "%s: %s", path, strerror(errno));
    if (ends_with(path, ".npy"))
        mgpu_read_npy(a, path, "", in->tensor.rank);
    else
        mgpu_read_idx(a, path, "");
    check_array(a, in, path, "");
}

/* ---- batches */
void mgpu_gather(void *to, const mgpu_input *in, const Array *a, const int64_t *index, int64_t n)
{
    int64_t elements = mgpu_elements(&in->tensor), bytes = elements * mgpu_dtype_bytes(in->tensor.dtype);
    for (int64_t i = 0; i < n; i++)
        mgpu_convert((uint8_t *)to + i * bytes, in->tensor.dtype, a->data + index[i] * a->sample_bytes, a->dtype, elements);
}

static uint64_t hash_text(const char *text) /* FNV-1a, then the finaliser of MurmurHash3, as the compiler hashes paths */
{
    uint64_t h = 14695981039346656037ull;
    for (const char *c = text; *c; c++)
        h = (h ^ (unsigned char)*c) * 1099511628211ull;
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdull;
    h ^= h >> 33;
    h *= 0xc4ceb9fe1a85ec53ull;
    return h ^ h >> 33;
}

void mgpu_permutation(int64_t *order, int64_t n, uint64_t seed, int64_t epoch, bool shuffle)
{
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    if (!shuffle)
        return;
    if (n > UINT32_MAX)
        mgpu_fail(MGPU_BAD_INPUT, "%lld samples are too many to shuffle (2^32 - 1 are possible); use --no-shuffle", (long long)n);
    uint64_t key = mgpu_random_key(seed, hash_text("shuffle"));
    for (int64_t i = n - 1; i > 0; i--) {
        uint32_t words[4];
        mgpu_random_words(key, (uint32_t)i, 0, (uint64_t)epoch, words);
        uint64_t draw = words[0] | (uint64_t)words[1] << 32;
        int64_t other = (int64_t)((__extension__(unsigned __int128)draw * (uint64_t)(i + 1)) >> 64); /* below i + 1 */
        int64_t swap = order[i];
        order[i] = order[other];
        order[other] = swap;
    }
}

void mgpu_fill_random(void *to, const mgpu_input *in, int64_t samples, uint64_t seed)
{
    uint64_t key = mgpu_random_key(seed, hash_text(in->tensor.name));
    int64_t count = samples * mgpu_elements(&in->tensor);
    double whole = in->classes ? (double)in->classes : in->tensor.dtype == MGPU_BOOL ? 2 : in->tensor.dtype == MGPU_U8 ? 256 : 100;
    uint32_t words[4] = {0};
    for (int64_t i = 0; i < count; i++) {
        if (i % 4 == 0)
            mgpu_random_words(key, (uint32_t)(i / 4), 0, (uint64_t)i >> 34, words);
        double u = (double)(words[i % 4] >> 8) * 0x1p-24;
        double v = mgpu_dtype_is_float(in->tensor.dtype) ? (u - 0.5) * sqrt(12) : floor(u * whole); /* deviation 1 */
        mgpu_from_double(to, in->tensor.dtype, i, v);
    }
}
