/* gpu.h: what the files that measure GPUs share: the opened GPUs, and timing of what is issued to them. */
#ifndef MGPU_PROBE_GPU_H
#define MGPU_PROBE_GPU_H

#include "compiler/probe/probe.h"
#include "runtime/cuda/gpus.h"

typedef struct ProbedGpu {
    const CudaDriver *cuda;
    const Gpu *gpu;
    int number, multiprocessors;
    bool virtual;      /* emulated: what takes a GPU a millisecond takes minutes, and the times are made up */
    const char *image; /* a file with the kernels of mgpu_device_probe.h */
    CUcontext context;
    CUmodule module;
    CUstream *streams;
    int stream_count;          /* as many as there are GPUs, and at least two */
    CUevent begin, end, *over; /* over: one for each stream */
    CUdeviceptr memory, other; /* of `bytes` each */
    int64_t bytes, locked;
    void *host; /* page-locked, of `locked` bytes */
} ProbedGpu;
typedef struct ProbedGpus {
    const CudaDriver *cuda;
    ProbedGpu *gpus;
    int count;
    bool virtual;
} ProbedGpus;

/* ---- gpus.c */
void probe_check(const ProbedGpu *, CUresult, const char *call); /* ends mgpuc if the call failed */
#define PROBE_CALL(g, field, name, ...) probe_check(g, (g)->cuda->field(__VA_ARGS__), #name)
void probe_enter(const ProbedGpu *); /* makes its context that of the calling thread */
typedef void Issue(const ProbedGpu *, void *context);
/* Returns the microseconds, by the GPU's clock, of what is issued to its first stream, or to all streams, which then begin
 * together. */
double probe_time_us(const ProbedGpu *, Issue *, void *context, bool all_streams);
int next_name(const ProbedGpus *, int first); /* the first GPU after it that has another name */
const char *gpus_text(int first, int next);   /* "0-3", as in a machine file */
/* Writes a line, as write_measured does, for each run of GPUs of the same name: the median of theirs. A GPU that differs by more
 * than a tenth gets a line of its own. of: one for each GPU; before, after: the words around the GPU's number. */
void write_of_gpus(Text *, const ProbedGpus *, const char *before, const char *after, const Measurements *of, double unit,
                   const char *unit_name);

/* ---- links.c: between GPUs and with the host */
void probe_links(Text *, const ProbedGpus *);

/* ---- matmuls.c: large ones, measured by programs */
void probe_matmuls(Text *, const ProbedGpus *);
#endif
