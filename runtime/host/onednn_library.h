/* onednn_library.h: the part of oneDNN's C interface that contractions need, for versions 2 and 3.
 *
 * No header of oneDNN is needed: what is declared here and in onednn_library.c is part of its stable interface
 * (https://oneapi-src.github.io/oneDNN/, dnnl.h and dnnl_types.h of 2.0 to 2.7 and of 3.x). Version 2 has descriptors by value
 * and operation descriptors, version 3 opaque pointers and one function per primitive. OnednnLibrary hides both. */
#ifndef MGPU_ONEDNN_LIBRARY_H
#define MGPU_ONEDNN_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ONEDNN_BF16 = 2, ONEDNN_F32 = 3 };
enum { ONEDNN_RANK = 12 }; /* of the library's arrays */
enum {                     /* arguments of primitives */
       ONEDNN_SRC = 1,
       ONEDNN_DST = 17,
       ONEDNN_WEIGHTS = 33,
       ONEDNN_SCRATCHPAD = 80,
       ONEDNN_DIFF_SRC = 129,
       ONEDNN_DIFF_DST = 145,
       ONEDNN_DIFF_WEIGHTS = 161
};
enum { ONEDNN_FORWARD = 64, ONEDNN_BACKWARD_DATA = 160, ONEDNN_BACKWARD_WEIGHTS = 192 };

/* A tensor with strides in elements; `any`: the library may choose its memory format. */
typedef struct OnednnTensor {
    int type, rank;
    int64_t extent[ONEDNN_RANK], stride[ONEDNN_RANK];
    bool any;
} OnednnTensor;

typedef struct OnednnConvolution {
    int kind;             /* ONEDNN_FORWARD, ... */
    OnednnTensor x, w, y; /* or their gradients; w: [groups], out, in, taps */
    int64_t stride[3], dilation[3] /* 1: none */, padding_low[3], padding_high[3];
    const char *avoid; /* skip implementations whose name begins so; NULL: none */
} OnednnConvolution;

/* A primitive. tensor[i] describes the data of argument id[i], of bytes[i]. Immutable: many threads execute it at once. */
typedef struct OnednnPrimitive {
    void *primitive, *descriptor;
    int id[3];
    const void *tensor[3];
    size_t bytes[3];
    const void *scratch;
    size_t scratch_bytes;
    const char *implementation; /* the implementation's name */
} OnednnPrimitive;

/* Objects with which one thread executes a primitive. */
typedef struct OnednnThread {
    void *memory[4];
    void *data[4];
    void *stream;
} OnednnThread;

typedef struct OnednnVersion {
    int major, minor, patch;
    const char *hash;
    unsigned cpu_runtime, gpu_runtime;
} OnednnVersion;

/* Called once; returns true if the library can be used. name: a file, or NULL for the system's. */
bool onednn_load(const char *name, char *description, size_t capacity);
bool onednn_has_amx(void);  /* with AMX, its bf16 code is faster than its f32 code */
bool onednn_converts(void); /* it vectorizes conversions between bf16 and f32; without AVX-512 it does not */

/* Return false if the library has no such primitive; nothing has to be freed then. */
bool onednn_convolution(const OnednnConvolution *, OnednnPrimitive *);
bool onednn_matmul(const OnednnTensor *a, const OnednnTensor *b, const OnednnTensor *c, OnednnPrimitive *);
/* Sets OpenMP's number of threads for the calling thread, which may be a library caller's; returns the previous one. */
int onednn_threads(int);
/* tensor: of a primitive. Reorders from `plain` to its format, or back. */
bool onednn_reorder(const OnednnTensor *plain, const void *tensor, bool to_plain, OnednnPrimitive *);
bool onednn_is(const void *tensor, const OnednnTensor *plain);
void onednn_free(OnednnPrimitive *);

/* data: of id[0], id[1], id[2], then scratch of scratch_bytes, aligned to 64 bytes. */
bool onednn_execute(const OnednnPrimitive *, OnednnThread *, void *const data[4]);
void onednn_leave(OnednnThread *);
#endif
