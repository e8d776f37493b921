/* kinds.c: the kinds of kernels as CUDA C, one row each. */
#include "compiler/base/c_text.h"
#include "compiler/target/cuda/cuda.h"
#include "compiler/target/cuda/tiles.h"

/* ---- contractions */

static void print_contraction(const Kernel *k, Text *t)
{
    cuda_print_contraction(k->contraction, k->name, k->canonical ? k->canonical->name : NULL, t);
}
static void launches_contraction(const Kernel *k, mgpu_launch launch[2])
{
    cuda_launches_contraction(k->contraction, k->name, launch);
}
static void block_contraction(const Kernel *k, Text *t) { cuda_print_block_contraction(k->contraction, k->name, t); }
static int contraction_shared_bytes(const Kernel *k) { return cuda_block_shared_bytes(k->contraction); }

static int64_t contraction_bytes(const Kernel *k, const char *archs, bool in_scan, int64_t *per_sample)
{
    (void)per_sample;
    return in_scan ? 0 : cuda_contraction_or_library_workspace(k->contraction, contraction_samples(k->contraction), archs);
}

/* ---- attention */

static void print_attention(const Kernel *k, Text *t) { cuda_print_attention(k->attention, k->name, t); }
static void launches_attention(const Kernel *k, mgpu_launch launch[2]) { cuda_launches_attention(k->attention, k->name, launch); }
static void block_attention(const Kernel *k, Text *t) { cuda_print_block_attention(k->attention, k->name, t); }
static int attention_shared_bytes(const Kernel *k) { return cuda_block_attention_shared_bytes(k->attention); }

static int64_t attention_bytes(const Kernel *k, const char *archs, bool in_scan, int64_t *per_sample)
{
    (void)archs, (void)in_scan;
    return cuda_attention_workspace(k->attention, per_sample);
}

/* ---- rows */

static void print_rows(const Kernel *k, Text *t) { cuda_print_rows(k->rows, k->name, t); }
static void launches_rows(const Kernel *k, mgpu_launch launch[2]) { cuda_launches_rows(k->rows, k->name, launch); }
static void block_rows(const Kernel *k, Text *t) { cuda_print_block_rows(k->rows, k->name, t); }
static int rows_shared_bytes(const Kernel *k) { return cuda_block_rows_shared_bytes(k->rows); }

static int64_t rows_bytes(const Kernel *k, const char *archs, bool in_scan, int64_t *per_sample)
{
    (void)archs, (void)per_sample;
    return (in_scan ? cuda_block_rows_workspace : cuda_rows_workspace)(k->rows);
}

/* ---- scans */

static void launches_scan(const Kernel *k, mgpu_launch launch[2]) { launch[0] = cuda_scan_launch(k); }

static int64_t scan_bytes(const Kernel *k, const char *archs, bool in_scan, int64_t *per_sample)
{
    (void)archs; /* each block has its own workspace */
    *per_sample = k->scan->samples && !in_scan ? (k->scan->work_bytes + k->scan->chunk - 1) / k->scan->chunk : 0;
    return k->scan->work_bytes;
}

/* ---- nests */

static int no_shared_bytes(const Kernel *k) { return (void)k, 0; }

static void block_nests(const Kernel *k, Text *t)
{
    text_add(t, "%s\nstatic __device__ void %s", c_comment("%s: %s", k->name, k->title), k->name);
    code_print(k->code, &(CodePrint){.kernel = k->name}, t);
}

static int64_t nests_bytes(const Kernel *k, const char *archs, bool in_scan, int64_t *per_sample)
{
    (void)archs, (void)in_scan, (void)per_sample;
    return k->partial_bytes;
}

const CudaKind CUDA_KIND[KERNEL_KINDS] = {
    [KERNEL_NESTS] = {cuda_print_nests, cuda_launches_nests, nests_bytes, block_nests, no_shared_bytes, "", "step", true, 0},
    [KERNEL_CONTRACTION] = {print_contraction, launches_contraction, contraction_bytes, block_contraction,
                            contraction_shared_bytes, "", "shared", false, HEADER_CONTRACT},
    [KERNEL_ATTENTION] = {print_attention, launches_attention, attention_bytes, block_attention, attention_shared_bytes, "", "",
                          true, HEADER_ATTENTION},
    [KERNEL_ROWS] = {print_rows, launches_rows, rows_bytes, block_rows, rows_shared_bytes, "", "", true, HEADER_ROWS},
    [KERNEL_SCAN] = {cuda_scan_print, launches_scan, scan_bytes, cuda_print_block_scan, cuda_scan_shared_bytes, "_steps",
                     "shared, step", false, 0},
};

void cuda_launches(const Kernel *k, mgpu_launch launch[2])
{
    launch[0] = launch[1] = (mgpu_launch){0};
    CUDA_KIND[k->kind].launches(k, launch);
    launch[0].waits = launch[1].waits = cuda_waits(k);
}

static void add_needs(const Kernel *k, bool block, UnitNeeds *needs)
{
    needs->headers |= CUDA_KIND[k->kind].header;
    if (k->contraction)
        cuda_contraction_needs(k->contraction, block, needs);
    if (k->attention)
        needs->warpgroups = needs->warpgroups || cuda_attention_by_warpgroups(k->attention, block);
    for (int i = 0; k->scan && i < k->scan->call_count; i++)
        add_needs(k->scan->calls[i].kernel, true, needs);
}

void cuda_needs(const Kernel *k, UnitNeeds *needs) { add_needs(k, false, needs); }

void cuda_print(const Kernel *k, Text *t) { CUDA_KIND[k->kind].print(k, t); }
