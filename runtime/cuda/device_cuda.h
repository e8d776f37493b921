/* device_cuda.h: what device_cuda.c, cuda/image.c and the collectives of GPUs share. */
#ifndef MGPU_DEVICE_CUDA_H
#define MGPU_DEVICE_CUDA_H

#include "runtime/cuda/driver.h"
#include "runtime/cuda/gpus.h"
#include "runtime/engine/collective.h"
#include "runtime/engine/device.h"
#include "runtime/engine/processes.h"

#include <pthread.h>

extern const DeviceKind mgpu_device_cuda;

struct Machine {
    const CudaDriver *cuda;
    GpuList list;
    int count;               /* of devices, of all processes */
    DeviceSpan own;          /* of this one; of the others there is nothing: */
    const Gpu **gpu;         /* [device]; the same one for logical devices of one GPU */
    CUcontext *context;      /* [device]: the primary one of its GPU */
    bool shared;             /* some GPU has two devices */
    int version;             /* of the driver: 12040 is 12.4 */
    const char *achieved;    /* NULL: not yet */
    int (*nccl_allocate)(void **memory, size_t bytes), (*nccl_free)(void *memory); /* ncclMemAlloc, ncclMemFree; NULL: NCCL is not wanted, or has none */
};

typedef struct Cublaslt Cublaslt;    /* cublaslt.c */
typedef struct Cudnn Cudnn;          /* cudnn.c */
typedef struct Tuning Tuning;        /* ways.c */
typedef struct BothCall { const mgpu_op *op; int row; } BothCall; /* row: of the table of kernels, in place of the call's own; -1: nothing */
typedef struct CudaDevice {
    const CudaDriver *cuda;
    const Gpu *gpu;
    CUcontext context;
    const mgpu_program *program;
    const mgpu_plan *plan;
    const Machine *machine;
    CUstream stream[MGPU_LANES];       /* of the lane host: copies to the host */
    CUmodule *modules; int module_count, last_module; /* last: that a function was found in */
    const mgpu_image **images;         /* [module]: what it was loaded from */
    CUfunction (*function)[2];         /* [kernel]; NULL: none */
    int *instead;                      /* [kernel]: that is launched in its place, of --tune; NULL: each itself */
    BothCall *both; int both_count;    /* by operation: statistics with their contractions, and these (both.c) */
    int most_shared;                   /* bytes of shared memory that a block can have, static and dynamic */
    const mgpu_gpu_kernel *kernels;
    int kernel_count;
    CUdeviceptr arena;
    bool nccl_arena;                   /* it is memory of NCCL's */
    int64_t arena_bytes, samples;
    int64_t besides;                   /* bytes for all-reduces, and cuDNN's workspace */
    uint8_t *staging;
    uint8_t *bounce;                   /* page-locked, for copies from and to any memory */
    CUevent *marks; int mark_count;
    _Atomic uint32_t *noted;           /* [mark], page-locked; NULL: the driver cannot write there from a stream */
    struct { CUevent *events; int count; } clocks[MGPU_LANES];
    void **parameters; int most_parameters;
    Cublaslt *library;                 /* NULL: kernels do all matmuls */
    Cudnn *cudnn;                      /* NULL: and all convolutions */
    _Atomic int64_t launches, launch_ns; /* graphs and calls that were issued, and the host's time in that */
    bool overlaps, after_kernel;       /* a kernel may begin before the one before it has ended; the last work of the lane comp is a kernel of the program's */
    bool captures, captures_transfers; /* the lane comp is being captured; the lane comm, too; its thread's own */
    CUevent turns[2];                  /* of the lane comp, of comm: what the other follows around a graph with transfers; NULL: there is none */
    CUdeviceptr launched;              /* what such graphs note: their launch writes it; 0: nothing */
    pthread_mutex_t *alone;            /* MGPU_GRAPHS=wait: held by the thread whose operation is under way */
    int number;
    char said[400];
    __attribute__((noreturn)) void (*fail)(void *context, int lane, const char *what);
    void (*fail_late)(void *context, const char *error, const char *call);
    void (*stage)(void *context, const char *what); /* while devices are opened: what may hang from now on */
    void *owner;
    _Atomic int64_t *returned;         /* calls of the driver that have */
} CudaDevice;

static inline CudaDevice *cuda_device(Device *d) { return (CudaDevice *)d; }

/* ---- calls.c */
/* ends the program if the call failed; lane: whose operation it belongs to, -1: none's */
void mgpu_cuda_check(const CudaDevice *, int lane, CUresult, const char *call);
const char *mgpu_cuda_error_text(const CudaDevice *, CUresult, const char *call, char text[400]); /* of one that failed */
void mgpu_cuda_alone_on(const CudaDevice *);         /* MGPU_GRAPHS=wait: the calling thread's operation is under way there; NULL: none is */
void mgpu_cuda_enter(const CudaDevice *, int lane);  /* its context becomes that of the calling thread */
/* ends the program, as a call of a library failed; status: in its words; variable: whose value `off` goes without it */
__attribute__((noreturn)) void mgpu_cuda_library_failed(const CudaDevice *, int lane, const char *call, const char *status, const char *variable);

/* To a stand-in that checks: what is issued to the lane from now on belongs to `operation` and touches these bytes; count -1:
 * nothing is known. */
void mgpu_cuda_declare(const CudaDevice *, int lane, const char *operation, const CudaRange *, int count);

/* where an argument of a call is, in its first slot; the step block is none. Bytes of the workspace, its last argument */
void *mgpu_cuda_argument(const CudaDevice *, const mgpu_device_phase *, const mgpu_op *, int argument);
int64_t mgpu_cuda_workspace(const mgpu_op *);

/* cuda/memory.c: memory of the GPU, zeroed by nobody. Ends the program if there is not enough, and says what would do. besides: how
 * much more than its arena a device takes, this memory among it; what: the begin of a sentence, "its arena takes" */
CUdeviceptr mgpu_cuda_allocate(const CudaDevice *, int64_t bytes, int64_t besides, const char *what);

/* cuda/image.c: the image for the device's GPU, and the functions of all kernels in it */
char *mgpu_image_archs(const mgpu_image *); /* "sm_90, compute_90", each once, for the caller to free */
void mgpu_cuda_load(CudaDevice *, const mgpu_program *, bool tune); /* tune: those of contractions in other tiles, too */
CUfunction mgpu_cuda_function(CudaDevice *, const char *name);

/* cublaslt.c: matmuls by cuBLASLt. NULL: there is none, or it is not wanted; said: its name, or why not */
Cublaslt *mgpu_cublaslt_open(const CudaDevice *, int kernels, char *said, size_t room);
void mgpu_cublaslt_close(const CudaDevice *, Cublaslt *);
/* before the first step: what it does of the calls, and says so after `said`; tuning: what it does faster than kernels, by its fastest
 * algorithms here; NULL: all that it can, by its own rules */
void mgpu_cublaslt_prepare(const CudaDevice *, Cublaslt *, Tuning *, char *said, size_t room);
/* what it issues to the lane comp in place of a call: 1: the matmul, 0: nothing, as the next call does both; -1: it does not do
 * this one */
int mgpu_cublaslt_run(const CudaDevice *, const Cublaslt *, const DeviceCall *);
bool mgpu_cublaslt_does(const Cublaslt *, const mgpu_op *); /* or leaves it out */

/* tiles.c: before libraries are asked: contractions by our own kernels in the tiles that are the fastest here */
void mgpu_cuda_tune_tiles(CudaDevice *, Tuning *);
/* the row of the table of kernels that is launched for a call of it */
static inline int mgpu_cuda_row(const CudaDevice *d, int kernel) { return d->instead ? d->instead[kernel] : kernel; }

/* launch.c: the call's kernel, whatever a library would do of it. argument: all but the step block; follows: a kernel of the program's, and
 * nothing comes between; returns how many functions it launches */
int mgpu_cuda_launch(const CudaDevice *, const mgpu_op *, void *const *argument, int arguments, const mgpu_step *, bool follows);
int mgpu_cuda_launch_together(const CudaDevice *, const DeviceCall *, int count, const mgpu_step *, bool follows); /* kernels of one function, with a table */
int mgpu_cuda_launch_both(const CudaDevice *, const mgpu_op *, int row, void *const *argument, int arguments, const mgpu_step *, bool follows); /* of BothCall */
/* the same in the first slots, to be timed; both: row of a kernel that does the call before, too; -1: the call's own */
void mgpu_cuda_launch_first(const CudaDevice *, const mgpu_device_phase *, const mgpu_op *, int both);

/* both.c: when it is known what libraries do: statistics that are made with their contractions. find: NULL: each call is for itself */
void mgpu_cuda_join_calls(CudaDevice *, Tuning *);
const BothCall *mgpu_cuda_find_both(const CudaDevice *, const mgpu_op *);

/* cudnn.c: convolutions by cuDNN, likewise. run: how many kernels it issues in place of a call; 0: it does not do this one */
bool mgpu_cudnn_wanted(const CudaDevice *, bool tuned);
Cudnn *mgpu_cudnn_open(CudaDevice *, int kernels, int64_t besides, char *said, size_t room); /* besides: that all-reduces will take */
void mgpu_cudnn_close(const CudaDevice *, Cudnn *);
CudaRange mgpu_cudnn_workspace(const Cudnn *); /* that its calls write to */
void mgpu_cudnn_prepare(const CudaDevice *, Cudnn *, Tuning *, char *said, size_t room);
int mgpu_cudnn_run(const CudaDevice *, const Cudnn *, const DeviceCall *);
bool mgpu_cudnn_does(const Cudnn *, int kernel);

/* cuda/nccl.c: memory that NCCL can register for all of its ways, NVLink's switches among them; 0: there is none. Freed by nccl_free. */
void mgpu_nccl_find_memory(Machine *, const mgpu_program *);
CUdeviceptr mgpu_nccl_allocate(const CudaDevice *, int64_t bytes);

/* cuda/own.c: the GPUs of m->own, of those in m->list; `named`: what --devices says */
void mgpu_own_gpus(Machine *m, const DeviceList *named, Processes *);

/* cuda/collective.c */
bool mgpu_cuda_may_use_nccl(const Machine *, const mgpu_plan *); /* if it is there */
Collective *mgpu_cuda_connect(Machine *, Device **, const mgpu_plan *, Processes *, Collective *beside);
int64_t mgpu_cuda_scratch(const mgpu_plan *); /* bytes that each device takes besides its arena, if that is known beforehand */
#endif
