/* onednn_library.c: opens oneDNN by dlopen, and calls it. */
#include "runtime/host/onednn_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* version 2: opaque descriptors by value, whose sizes there are 696, 5976 and 2800 bytes */
enum { TENSOR_BYTES = 2048, OPERATION_BYTES = 16384 };
enum { CPU = 1, IN_ORDER = 1, DIRECT = 1, ANY = 1, USER_SCRATCHPAD = 1 };
enum { RUNTIME_SEQUENTIAL = 1, RUNTIME_OMP = 2, RUNTIME_THREADPOOL = 8 /* none set: sequential */ };
enum { QUERY_IMPLEMENTATION = 8, QUERY_ARGUMENT = 255, QUERY_SCRATCHPAD = 136 };

typedef int64_t Extents[ONEDNN_RANK];
typedef struct OnednnArgument {
    int id;
    void *memory;
} OnednnArgument;

static struct {
    void *handle;
    const OnednnVersion *version;
    void *engine, *attributes;
    void (*set_threads)(int);
    int (*get_threads)(void);
    /* both versions */
    const OnednnVersion *(*get_version)(void);
    int (*get_effective_cpu_isa)(void);
    int (*engine_create)(void **, int kind, size_t index);
    int (*stream_create)(void **, void *engine, unsigned flags);
    int (*stream_destroy)(void *);
    int (*attr_create)(void **);
    int (*attr_set_scratchpad_mode)(void *, int);
    int (*pd_destroy)(void *);
    const void *(*pd_query_md)(const void *, int what, int index);
    int (*pd_query)(const void *, int what, int index, void *);
    int (*primitive_create)(void **, const void *pd);
    int (*primitive_execute)(const void *, void *stream, int count, const OnednnArgument *);
    int (*primitive_destroy)(void *);
    int (*memory_create)(void **, const void *md, void *engine, void *data);
    int (*memory_set_data_handle)(void *, void *data);
    int (*memory_destroy)(void *);
    size_t (*md_get_size)(const void *);
    int (*md_equal)(const void *, const void *);
    int (*reorder_pd_create)(void **, const void *from, void *engine, const void *to, void *engine_to, const void *attr);
    /* version 2 */
    int (*md_init_by_strides)(void *, int rank, const int64_t *extent, int type, const int64_t *stride);
    int (*md_init_by_tag)(void *, int rank, const int64_t *extent, int type, int tag);
    int (*pd_create)(void **, const void *operation, const void *attr, void *engine, const void *hint);
    int (*iterator_create)(void **, const void *operation, const void *attr, void *engine, const void *hint);
    int (*iterator_next)(void *);
    void *(*iterator_fetch)(const void *);
    int (*iterator_destroy)(void *);
    int (*forward_init)(void *, int kind, int algorithm, const void *x, const void *w, const void *bias, const void *y,
                        const int64_t *, const int64_t *, const int64_t *, const int64_t *);
    int (*data_init)(void *, int algorithm, const void *x, const void *w, const void *y, const int64_t *, const int64_t *,
                     const int64_t *, const int64_t *);
    int (*weights_init)(void *, int algorithm, const void *x, const void *w, const void *bias, const void *y, const int64_t *,
                        const int64_t *, const int64_t *, const int64_t *);
    int (*matmul_init)(void *, const void *a, const void *b, const void *bias, const void *c);
    /* version 3 */
    int (*md_create_with_strides)(void **, int rank, const int64_t *extent, int type, const int64_t *stride);
    int (*md_create_with_tag)(void **, int rank, const int64_t *extent, int type, int tag);
    int (*md_destroy)(void *);
    int (*pd_next)(void *);
    int (*forward_create)(void **, void *engine, int kind, int algorithm, const void *x, const void *w, const void *bias,
                          const void *y, const int64_t *, const int64_t *, const int64_t *, const int64_t *, const void *attr);
    int (*data_create)(void **, void *engine, int algorithm, const void *x, const void *w, const void *y, const int64_t *,
                       const int64_t *, const int64_t *, const int64_t *, const void *hint, const void *attr);
    int (*weights_create)(void **, void *engine, int algorithm, const void *x, const void *w, const void *bias, const void *y,
                          const int64_t *, const int64_t *, const int64_t *, const int64_t *, const void *hint, const void *attr);
    int (*matmul_create)(void **, void *engine, const void *a, const void *b, const void *bias, const void *c, const void *attr);
} library;

/* ---- loading */

typedef struct OnednnSymbol {
    void *pointer;
    const char *name;
    int version; /* 0: both */
} OnednnSymbol;

/* clang-format off */
#define BOTH(field, name) {&library.field, "dnnl_" name, 0}
#define TWO(field, name) {&library.field, "dnnl_" name, 2}
#define THREE(field, name) {&library.field, "dnnl_" name, 3}
/* clang-format on */
static const OnednnSymbol ENTRIES[] = {
    BOTH(get_effective_cpu_isa, "get_effective_cpu_isa"),
    BOTH(engine_create, "engine_create"),
    BOTH(stream_create, "stream_create"),
    BOTH(stream_destroy, "stream_destroy"),
    BOTH(attr_create, "primitive_attr_create"),
    BOTH(attr_set_scratchpad_mode, "primitive_attr_set_scratchpad_mode"),
    BOTH(pd_destroy, "primitive_desc_destroy"),
    BOTH(pd_query_md, "primitive_desc_query_md"),
    BOTH(pd_query, "primitive_desc_query"),
    BOTH(primitive_create, "primitive_create"),
    BOTH(primitive_execute, "primitive_execute"),
    BOTH(primitive_destroy, "primitive_destroy"),
    BOTH(memory_create, "memory_create"),
    BOTH(memory_set_data_handle, "memory_set_data_handle"),
    BOTH(memory_destroy, "memory_destroy"),
    BOTH(md_get_size, "memory_desc_get_size"),
    BOTH(md_equal, "memory_desc_equal"),
    BOTH(reorder_pd_create, "reorder_primitive_desc_create"),
    TWO(md_init_by_strides, "memory_desc_init_by_strides"),
    TWO(md_init_by_tag, "memory_desc_init_by_tag"),
    TWO(pd_create, "primitive_desc_create"),
    TWO(iterator_create, "primitive_desc_iterator_create"),
    TWO(iterator_next, "primitive_desc_iterator_next"),
    TWO(iterator_fetch, "primitive_desc_iterator_fetch"),
    TWO(iterator_destroy, "primitive_desc_iterator_destroy"),
    TWO(forward_init, "dilated_convolution_forward_desc_init"),
    TWO(data_init, "dilated_convolution_backward_data_desc_init"),
    TWO(weights_init, "dilated_convolution_backward_weights_desc_init"),
    TWO(matmul_init, "matmul_desc_init"),
    THREE(md_create_with_strides, "memory_desc_create_with_strides"),
    THREE(md_create_with_tag, "memory_desc_create_with_tag"),
    THREE(md_destroy, "memory_desc_destroy"),
    THREE(pd_next, "primitive_desc_next_impl"),
    THREE(forward_create, "convolution_forward_primitive_desc_create"),
    THREE(data_create, "convolution_backward_data_primitive_desc_create"),
    THREE(weights_create, "convolution_backward_weights_primitive_desc_create"),
    THREE(matmul_create, "matmul_primitive_desc_create"),
};

/* Stores a function's address through memory, since ISO C has no cast from an object pointer. */
static bool find(void *field, const char *name)
{
    void *address = dlsym(library.handle, name);
    memcpy(field, &address, sizeof address);
    return address != NULL;
}

static bool open_library(const char *name, char *description, size_t capacity)
{
    library.handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library.handle == NULL) {
        const char *reason = dlerror();
        snprintf(description, capacity, "%s", reason != NULL ? reason : "not found");
        return false;
    }
    if (!find(&library.get_version, "dnnl_version")) {
        snprintf(description, capacity, "%s is no oneDNN", name);
        return false;
    }
    library.version = library.get_version();
    int major = library.version->major;
    if (major != 2 && major != 3) {
        snprintf(description, capacity, "oneDNN %d is not known", major);
        return false;
    }
    for (size_t i = 0; i < sizeof ENTRIES / sizeof *ENTRIES; i++)
        if ((ENTRIES[i].version == 0 || ENTRIES[i].version == major) && !find(ENTRIES[i].pointer, ENTRIES[i].name)) {
            snprintf(description, capacity, "oneDNN %d.%d has no %s", major, library.version->minor, ENTRIES[i].name);
            return false;
        }
    unsigned runtime = library.version->cpu_runtime;
    if (runtime != RUNTIME_SEQUENTIAL && runtime != RUNTIME_OMP && runtime != RUNTIME_THREADPOOL) {
        snprintf(description, capacity, "oneDNN %d.%d is built on threads (TBB or SYCL) that cannot be switched off", major,
                 library.version->minor);
        return false;
    }
    if (runtime == RUNTIME_OMP &&
        !(find(&library.set_threads, "omp_set_num_threads") && find(&library.get_threads, "omp_get_max_threads"))) {
        snprintf(description, capacity, "oneDNN without omp_set_num_threads");
        return false;
    }
    if (library.engine_create(&library.engine, CPU, 0) != 0 || library.attr_create(&library.attributes) != 0 ||
        library.attr_set_scratchpad_mode(library.attributes, USER_SCRATCHPAD) != 0) {
        snprintf(description, capacity, "oneDNN has no engine here");
        return false;
    }
    snprintf(description, capacity, "oneDNN %d.%d.%d", major, library.version->minor, library.version->patch);
    return true;
}

static bool load(const char *name, char *description, size_t capacity)
{
    static const char *const NAMES[] = {"libdnnl.so.3", "libdnnl.so.2"};
    if (library.engine != NULL) {
        snprintf(description, capacity, "oneDNN %d.%d.%d", library.version->major, library.version->minor,
                 library.version->patch);
        return true;
    }
    if (name != NULL)
        return open_library(name, description, capacity);
    bool there = false;
    for (int i = 0; i < 2 && !there; i++) {
        if (open_library(NAMES[i], description, capacity))
            return true;
        there = library.handle != NULL;
    }
    if (!there)
        snprintf(description, capacity, "no oneDNN, with which many models are faster (Debian: apt-get install libdnnl2)");
    return false;
}

bool onednn_load(const char *name, char *description, size_t capacity)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    bool good = load(name, description, capacity);
    pthread_mutex_unlock(&lock);
    return good;
}

bool onednn_has_amx(void)
{
    enum { AMX = 0x200 }; /* set in dnnl_cpu_isa_avx512_core_amx and later ones */
    return (library.get_effective_cpu_isa() & AMX) != 0;
}

bool onednn_converts(void)
{
    enum { AVX512 = 0x20 }; /* set in dnnl_cpu_isa_avx512_core and later ones */
    return (library.get_effective_cpu_isa() & AVX512) != 0;
}

int onednn_threads(int threads)
{
    int before = library.get_threads != NULL ? library.get_threads() : threads;
    if (before != threads)
        library.set_threads(threads);
    return before;
}

/* ---- tensors */

typedef struct Tensor {
    void *pointer;
    _Alignas(64) char value[TENSOR_BYTES];
} Tensor;

static bool make_tensor(const OnednnTensor *from, Tensor *tensor)
{
    bool two = library.version->major == 2;
    tensor->pointer = two ? tensor->value : NULL;
    if (from->any)
        return two ? library.md_init_by_tag(tensor->value, from->rank, from->extent, from->type, ANY) == 0
                   : library.md_create_with_tag(&tensor->pointer, from->rank, from->extent, from->type, ANY) == 0;
    return two ? library.md_init_by_strides(tensor->value, from->rank, from->extent, from->type, from->stride) == 0
               : library.md_create_with_strides(&tensor->pointer, from->rank, from->extent, from->type, from->stride) == 0;
}

static void drop_tensor(Tensor *tensor)
{
    if (library.version->major == 3 && tensor->pointer != NULL)
        library.md_destroy(tensor->pointer);
}

bool onednn_is(const void *tensor, const OnednnTensor *plain)
{
    Tensor other;
    if (!make_tensor(plain, &other))
        return false;
    bool same = library.md_equal(tensor, other.pointer) != 0;
    drop_tensor(&other);
    return same;
}

/* ---- primitives */

static const char *name_of(const void *descriptor)
{
    const char *name = NULL;
    return library.pd_query(descriptor, QUERY_IMPLEMENTATION, 0, &name) == 0 && name != NULL ? name : "";
}

/* Makes a primitive of a descriptor. */
static bool finish(OnednnPrimitive *primitive, const int id[3])
{
    if (library.primitive_create(&primitive->primitive, primitive->descriptor) != 0) {
        library.pd_destroy(primitive->descriptor);
        *primitive = (OnednnPrimitive){0};
        return false;
    }
    for (int i = 0; i < 3; i++) {
        primitive->id[i] = id[i];
        primitive->tensor[i] = id[i] != 0 ? library.pd_query_md(primitive->descriptor, QUERY_ARGUMENT, id[i]) : NULL;
        primitive->bytes[i] = id[i] != 0 ? library.md_get_size(primitive->tensor[i]) : 0;
    }
    primitive->scratch = library.pd_query_md(primitive->descriptor, QUERY_SCRATCHPAD, 0);
    primitive->scratch_bytes = primitive->scratch != NULL ? library.md_get_size(primitive->scratch) : 0;
    primitive->implementation = name_of(primitive->descriptor);
    return true;
}

static bool avoided(const void *descriptor, const char *avoid)
{
    return avoid != NULL && strncmp(name_of(descriptor), avoid, strlen(avoid)) == 0;
}

/* Version 2: finds the first implementation of an operation that is not to be avoided. */
static bool create_two(void **descriptor, const void *operation, const void *hint, const char *avoid)
{
    void *iterator;
    if (library.iterator_create(&iterator, operation, library.attributes, library.engine, hint) != 0)
        return false;
    *descriptor = library.iterator_fetch(iterator);
    while (*descriptor != NULL && avoided(*descriptor, avoid)) {
        library.pd_destroy(*descriptor);
        *descriptor = library.iterator_next(iterator) == 0 ? library.iterator_fetch(iterator) : NULL;
    }
    library.iterator_destroy(iterator);
    return *descriptor != NULL;
}

static bool pass_avoided(void *descriptor, const char *avoid)
{
    while (avoided(descriptor, avoid))
        if (library.pd_next(descriptor) != 0) {
            library.pd_destroy(descriptor);
            return false;
        }
    return true;
}

static bool describe_convolution(const OnednnConvolution *c, int kind, const void *x, const void *w, const void *y,
                                 const void *hint, void **descriptor)
{
    int64_t dilation[3];
    for (int i = 0; i < 3; i++)
        dilation[i] = c->dilation[i] - 1;
    if (library.version->major == 3) {
        int status = kind == ONEDNN_FORWARD
                         ? library.forward_create(descriptor, library.engine, kind, DIRECT, x, w, NULL, y, c->stride, dilation,
                                                  c->padding_low, c->padding_high, library.attributes)
                     : kind == ONEDNN_BACKWARD_DATA
                         ? library.data_create(descriptor, library.engine, DIRECT, x, w, y, c->stride, dilation, c->padding_low,
                                               c->padding_high, hint, library.attributes)
                         : library.weights_create(descriptor, library.engine, DIRECT, x, w, NULL, y, c->stride, dilation,
                                                  c->padding_low, c->padding_high, hint, library.attributes);
        return status == 0 && pass_avoided(*descriptor, kind == c->kind ? c->avoid : NULL);
    }
    _Alignas(64) char operation[OPERATION_BYTES];
    int status =
        kind == ONEDNN_FORWARD
            ? library.forward_init(operation, kind, DIRECT, x, w, NULL, y, c->stride, dilation, c->padding_low, c->padding_high)
        : kind == ONEDNN_BACKWARD_DATA
            ? library.data_init(operation, DIRECT, x, w, y, c->stride, dilation, c->padding_low, c->padding_high)
            : library.weights_init(operation, DIRECT, x, w, NULL, y, c->stride, dilation, c->padding_low, c->padding_high);
    return status == 0 && create_two(descriptor, operation, hint, kind == c->kind ? c->avoid : NULL);
}

bool onednn_convolution(const OnednnConvolution *convolution, OnednnPrimitive *primitive)
{
    static const int FORWARD[] = {ONEDNN_SRC, ONEDNN_WEIGHTS, ONEDNN_DST};
    static const int DATA[] = {ONEDNN_DIFF_SRC, ONEDNN_WEIGHTS, ONEDNN_DIFF_DST};
    static const int WEIGHTS[] = {ONEDNN_SRC, ONEDNN_DIFF_WEIGHTS, ONEDNN_DIFF_DST};
    *primitive = (OnednnPrimitive){0};
    Tensor x, w, y, free_w;
    bool x_made = make_tensor(&convolution->x, &x), w_made = make_tensor(&convolution->w, &w);
    bool y_made = make_tensor(&convolution->y, &y), done = x_made && w_made && y_made;
    void *hint = NULL;
    if (done && convolution->kind != ONEDNN_FORWARD) {
        OnednnTensor any = convolution->w;
        any.any = true;
        any.type = convolution->y.type;
        done = make_tensor(&any, &free_w);
        if (done) {
            done = describe_convolution(convolution, ONEDNN_FORWARD, x.pointer, free_w.pointer, y.pointer, NULL, &hint);
            drop_tensor(&free_w);
        }
    }
    done = done &&
           describe_convolution(convolution, convolution->kind, x.pointer, w.pointer, y.pointer, hint, &primitive->descriptor);
    if (hint != NULL)
        library.pd_destroy(hint);
    if (x_made)
        drop_tensor(&x);
    if (w_made)
        drop_tensor(&w);
    if (y_made)
        drop_tensor(&y);
    if (!done)
        primitive->descriptor = NULL;
    return done && finish(primitive, convolution->kind == ONEDNN_FORWARD         ? FORWARD
                                     : convolution->kind == ONEDNN_BACKWARD_DATA ? DATA
                                                                                 : WEIGHTS);
}

bool onednn_matmul(const OnednnTensor *a, const OnednnTensor *b, const OnednnTensor *c, OnednnPrimitive *primitive)
{
    static const int ID[] = {ONEDNN_SRC, ONEDNN_WEIGHTS, ONEDNN_DST};
    *primitive = (OnednnPrimitive){0};
    Tensor x, w, y;
    bool x_made = make_tensor(a, &x), w_made = make_tensor(b, &w), y_made = make_tensor(c, &y);
    bool done = x_made && w_made && y_made;
    _Alignas(64) char operation[OPERATION_BYTES];
    if (done && library.version->major == 3)
        done = library.matmul_create(&primitive->descriptor, library.engine, x.pointer, w.pointer, NULL, y.pointer,
                                     library.attributes) == 0;
    else if (done)
        done = library.matmul_init(operation, x.pointer, w.pointer, NULL, y.pointer) == 0 &&
               library.pd_create(&primitive->descriptor, operation, library.attributes, library.engine, NULL) == 0;
    if (x_made)
        drop_tensor(&x);
    if (w_made)
        drop_tensor(&w);
    if (y_made)
        drop_tensor(&y);
    return done && finish(primitive, ID);
}

bool onednn_reorder(const OnednnTensor *plain, const void *tensor, bool to_plain, OnednnPrimitive *primitive)
{
    static const int ID[] = {ONEDNN_SRC, 0, ONEDNN_DST};
    *primitive = (OnednnPrimitive){0};
    Tensor other;
    if (!make_tensor(plain, &other))
        return false;
    bool done = library.reorder_pd_create(&primitive->descriptor, to_plain ? tensor : other.pointer, library.engine,
                                          to_plain ? other.pointer : tensor, library.engine, library.attributes) == 0;
    drop_tensor(&other);
    return done && finish(primitive, ID);
}

void onednn_free(OnednnPrimitive *primitive)
{
    if (primitive->primitive != NULL)
        library.primitive_destroy(primitive->primitive);
    if (primitive->descriptor != NULL)
        library.pd_destroy(primitive->descriptor);
    *primitive = (OnednnPrimitive){0};
}

/* ---- execution */

bool onednn_execute(const OnednnPrimitive *primitive, OnednnThread *seat, void *const data[4])
{
    OnednnArgument argument[4];
    if (seat->stream == NULL && library.stream_create(&seat->stream, library.engine, IN_ORDER) != 0)
        return false;
    int count = 0;
    for (int i = 0; i < 4; i++) {
        const void *tensor = i < 3 ? primitive->tensor[i] : primitive->scratch;
        if (i < 3 ? primitive->id[i] == 0 : primitive->scratch_bytes == 0)
            continue;
        if (seat->memory[i] == NULL && library.memory_create(&seat->memory[i], tensor, library.engine, data[i]) != 0)
            return false;
        else if (seat->data[i] != data[i] && library.memory_set_data_handle(seat->memory[i], data[i]) != 0)
            return false;
        seat->data[i] = data[i];
        argument[count++] = (OnednnArgument){i < 3 ? primitive->id[i] : ONEDNN_SCRATCHPAD, seat->memory[i]};
    }
    int before = onednn_threads(1);
    bool good = library.primitive_execute(primitive->primitive, seat->stream, count, argument) == 0;
    onednn_threads(before);
    return good;
}

void onednn_leave(OnednnThread *seat)
{
    for (int i = 0; i < 4; i++)
        if (seat->memory[i] != NULL)
            library.memory_destroy(seat->memory[i]);
    if (seat->stream != NULL)
        library.stream_destroy(seat->stream);
    *seat = (OnednnThread){0};
}
