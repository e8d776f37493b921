/* gpu.h: what the files that measure GPUs share: the GPUs themselves, opened, and how long what is issued to them takes. */
#ifndef MGPU_PROBE_GPU_H
#define MGPU_PROBE_GPU_H

#include "compiler/probe/probe.h"
#include "runtime/cuda/gpus.h"

typedef struct ProbedGpu {
    const CudaDriver *cuda;
    const Gpu *gpu;
    int number, multiprocessors;
    bool virtual;               /* a stand-in: what takes a GPU a millisecond takes it minutes, and its times are made up */
    const char *image;          /* a file: of mgpu_device_probe.h */
    CUcontext context;
    CUmodule module;
    CUstream *streams; int stream_count; /* as many as there are GPUs, and at least two */
    CUevent begin, end, *over;  /* over: of each stream */
    CUdeviceptr memory, other;  /* `bytes` each */
    int64_t bytes, locked;
    void *host;                 /* page-locked, `locked` bytes */
} ProbedGpu;
typedef struct ProbedGpus { const CudaDriver *cuda; ProbedGpu *gpus; int count; bool virtual; } ProbedGpus;

/* ---- gpus.c */
void probe_check(const ProbedGpu *, CUresult, const char *call); /* ends mgpuc if the call failed */
#define PROBE_CALL(g, field, name, ...) probe_check(g, (g)->cuda->field(__VA_ARGS__), #name)
void probe_enter(const ProbedGpu *); /* its context becomes that of the calling thread */
typedef void Issue(const ProbedGpu *, void *context);
/* microseconds by the GPU's clock of what is issued to its streams: to the first one, or to all, which begin together */
double probe_time_us(const ProbedGpu *, Issue *, void *context, bool all_streams);
int next_name(const ProbedGpus *, int first); /* the first GPU after it that has another name */
const char *gpus_text(int first, int next);   /* "0-3", as a machine file has them */
/* a line, as of write_measured, for each run of GPUs of one name: the median of theirs; a GPU that is farther than a tenth away has one
 * of its own. of: of each GPU; words before and after the number of the GPU */
void write_of_gpus(Text *, const ProbedGpus *, const char *before, const char *after, const Measurements *of, double unit, const char *unit_name);

/* ---- links.c: between GPUs and with the host */
void probe_links(Text *, const ProbedGpus *);

/* ---- matmuls.c: large ones, by programs */
void probe_matmuls(Text *, const ProbedGpus *);
#endif
