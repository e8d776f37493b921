/* onednn.c: a oneDNN for MGPU_ONEDNN, in tests, that computes nothing. FAKE says what is wrong with it: "version" (it is too
 * new), "threads" (it is built on TBB), "engine" (it makes none), "execute" (its primitives fail), "memory" (they need
 * 2^50 bytes); else a function is missing. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct Version {
    int major, minor, patch;
    const char *hash;
    unsigned cpu_runtime, gpu_runtime;
} Version;

static int is(const char *word)
{
    const char *wish = getenv("FAKE");
    return wish && strcmp(wish, word) == 0;
}

const Version *dnnl_version(void);
const Version *dnnl_version(void)
{
    static Version v = {3, 9, 0, "", 1, 0};
    v.major = is("version") ? 9 : 3;
    v.cpu_runtime = is("threads") ? 4 : 1;
    return &v;
}

int dnnl_engine_create(void), dnnl_primitive_execute(void);
int dnnl_engine_create(void) { return is("engine"); }
int dnnl_primitive_execute(void) { return is("execute"); }

int dnnl_primitive_desc_query(const void *, int, int, const char **name);
int dnnl_primitive_desc_query(const void *descriptor, int what, int index, const char **name)
{
    (void)descriptor, (void)what, (void)index;
    *name = "fake";
    return 0;
}

/* clang-format off */
#define NOTHING(name) int dnnl_##name(void); int dnnl_##name(void) { return 0; }
/* clang-format on */
/* clang-format off */
NOTHING(get_effective_cpu_isa) NOTHING(stream_create) NOTHING(stream_destroy) NOTHING(primitive_attr_create) NOTHING(primitive_attr_set_scratchpad_mode)
NOTHING(primitive_desc_destroy) NOTHING(primitive_create) NOTHING(primitive_destroy) NOTHING(memory_create)
NOTHING(memory_set_data_handle) NOTHING(memory_destroy) NOTHING(memory_desc_equal) NOTHING(reorder_primitive_desc_create)
NOTHING(memory_desc_create_with_strides) NOTHING(memory_desc_create_with_tag) NOTHING(memory_desc_destroy)
NOTHING(primitive_desc_next_impl) NOTHING(convolution_forward_primitive_desc_create)
NOTHING(convolution_backward_data_primitive_desc_create) NOTHING(convolution_backward_weights_primitive_desc_create)
NOTHING(matmul_primitive_desc_create)
    /* clang-format on */

    void *dnnl_primitive_desc_query_md(void);
void *dnnl_primitive_desc_query_md(void)
{
    static char tensor[64];
    return is("memory") ? tensor : NULL;
}
size_t dnnl_memory_desc_get_size(void);
size_t dnnl_memory_desc_get_size(void) { return is("memory") ? (size_t)1 << 50 : 64; }
