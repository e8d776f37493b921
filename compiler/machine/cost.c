/* cost.c: the time of kernels and transfers (formulas: cost.h). collectives.c has that of collectives. */
#include "compiler/machine/cost.h"

#include <math.h>

/* The fraction of the nominal rate that kernels of a kind reach: of arithmetic for contractions, of instructions for all other
 * operations (as a fraction of the plain rate), of the memory's rate; and the least time of a kernel, besides its launch.
 * `apart`: loads and arithmetic do not overlap, so their times add up.
 *
 * Host: fitted to 1,900 calls of seventeen examples on two cores of an Intel Xeon (Sapphire Rapids) with oneDNN 2.6.3, and to
 * what `mgpuc probe` measures there (2026-11-24, bench/results/plan.md): the fractions with the least mean of |log(predicted /
 * measured)|, weighted by their part of a step. Sums, functions, depthwise convolutions and rows: fitted to single layers on one
 * core of such a machine (`bench/layers`, 2026-11-28). With input dilation each class of positions is a matmul of its own, whose
 * few columns fill vectors badly (1, 3 channels, strides of 2 to 16: .09 to .2; `bench/layers`, 2026-11-29). More than all of the
 * memory's rate: what was just written is still in a cache. GPU: assumptions for an H100 that were not measured here: matrix
 * instructions by mma.sync reach 62.5 % of the peak (published microbenchmarks), 72 % of issue slots; cuBLASLt 70 %; streams 87 %
 * of the memory's rate; plain code 75 % of issue slots, and a multiply-add counts twice in the plain rate. Convolutions and
 * attention: from bench/gpu/counts of ResNet-50 and GPT-2 (2026-11-26). */
/* measured: the fractions, on some such card */
typedef struct Efficiency {
    double contractions, operations, bytes, least_us;
    bool apart, measured;
} Efficiency;
static const Efficiency EFFICIENCY[PROCESSORS][WORK_KINDS] =
    {
        [PROCESSOR_HOST] =
            {
                [WORK_ELEMENTWISE] = {.25, .25, 1.5, 0, true, false},
                [WORK_SUMS] = {.28, .28, 1.5, 0, true, false},
                [WORK_SCATTER] = {.18, .18, 1.2, 0, true, false},
                [WORK_MATMUL] = {.74, .12, .3, 0, false, false},
                [WORK_CONVOLUTION] = {.9, .12, .2, 0, false, false},
                [WORK_DEPTHWISE] = {.35, .12, 1.5, 0, false, false},
                [WORK_DEPTHWISE_WEIGHT] = {.27, .12, 1.5, 0, false, false},
                [WORK_DILATED] = {.12, .12, .2, 0, false, false},
                [WORK_ATTENTION] = {.55, .12, .2, 0, true, false},
                [WORK_ROWS] = {.026, .026, 1.2, 0, true, false},
                [WORK_SCAN] = {.6, .5, 1.2, 0, true, false},
            },
        [PROCESSOR_CUDA] =
            {
                [WORK_ELEMENTWISE] = {.37, .37, .87, .8, false, false},
                [WORK_SUMS] = {.37, .37, .87, .8, false, false},
                [WORK_SCATTER] = {.1, .1, .4, 2, false, false},
                [WORK_MATMUL] = {.7, .37, .87, 2.3, false, false}, /* with cuBLASLt */
                [WORK_CONVOLUTION] = {.5, .37, .87, 2.3, false, true},
                [WORK_DEPTHWISE] = {.05, .37, .6, 2.3, false, false},
                [WORK_DEPTHWISE_WEIGHT] = {.03, .37, .6, 2.3, false, false},
                [WORK_DILATED] = {.5, .37, .87, 2.3, false, true},
                [WORK_ATTENTION] = {.3, .37, .87, 2.3, false, true},
                [WORK_ROWS] = {.1, .1, .4, 2, false, false},
                [WORK_SCAN] = {.05, .1, .4, 2, false, false},
            },
};
/* fraction that a large matmul reaches where the table's fractions fit (17 rows of bench/plan, 2026-11-26) */
static const double LARGE_MATMUL = .7;
/* in place of .3, on compute capability 9.0 with 16-bit types: GPT-2's on an H100 (2026-11-26), .24 forward and .22 backward */
static const double ATTENTION_BY_WGMMA = .23;
/* Factor for the operations that ops.def has of exp, sin, pow and the like, for arrays in a cache; with f64 (second column) they
 * are calls of the C library, one element at a time. */
static const double FUNCTION_TIMES[PROCESSORS][2] = {[PROCESSOR_HOST] = {2, 12}, [PROCESSOR_CUDA] = {1, 1}};
/* Additions per element of a row sum: on hosts it is accumulated in double, in few vectors that depend on each other. In sums of
 * columns neighbours belong to different results. */
static const double ROW_SUM[PROCESSORS] = {[PROCESSOR_HOST] = 5, [PROCESSOR_CUDA] = 1};
static const double STEP_US[PROCESSORS] = {[PROCESSOR_HOST] = .2, [PROCESSOR_CUDA] = 2}; /* of a scan: its barriers */

/* Operations a second; a type without a rate of its own computes in f32. */
static const Fact *plain_fact(const Device *d, Dtype t) { return d->plain[t].value > 0 ? &d->plain[t] : &d->plain[F32]; }
static double plain_rate(const Device *d, Dtype t) { return plain_fact(d, t)->value; }

/* of: the nominal rate that it is a fraction of */
static double contraction_rate(const Device *d, const Work *w, const Efficiency *e, Bound *bound, const Fact **of)
{
    bool by_wgmma = w->kind == WORK_ATTENTION && d->capability == 90 && (w->type == BF16 || w->type == F16);
    double share = by_wgmma ? ATTENTION_BY_WGMMA : e->contractions;
    if (d->matmul > 0)
        share *= d->matmul / LARGE_MATMUL;
    bool matrix = d->matrix[w->type].value > 0 && (w->type != F32 || w->tf32);
    *bound = matrix ? BOUND_MATRIX : BOUND_INSTRUCTIONS;
    *of = matrix ? &d->matrix[w->type] : plain_fact(d, w->type);
    if (w->kind == WORK_MATMUL && d->large[w->type].value > 0 && (w->type != F32 || !w->tf32))
        return (*of = &d->large[w->type])->value;
    return share * (*of)->value;
}

double cost_stream_share(Processor p) { return EFFICIENCY[p][WORK_ELEMENTWISE].bytes; }

static double us_of(double amount, double rate)
{
    if (amount > 0 && rate <= 0)
        die("a machine without a rate that is needed");
    return amount > 0 ? amount / rate * 1e6 : 0;
}

static Ground ground_of(const Fact *from, bool latency, bool share_measured)
{
    return from->measured ? GROUND_RATES : latency ? GROUND_ASSUMED : share_measured ? GROUND_SHARES : GROUND_SHEETS;
}

Ground cost_link_ground(const Machine *m, Processor p, bool latency)
{
    const Fact *from = latency ? &m->host.synchronize_us : &m->host.bandwidth;
    for (int i = 0; i < m->link_count && p == PROCESSOR_CUDA; i++)
        if (i == 0 || !from->measured)
            from = latency ? &m->links[i].latency_us : &m->links[i].rate[0];
    return ground_of(from, latency, false);
}

Cost cost_kernel(const Device *d, const Work *w)
{
    const Efficiency *e = &EFFICIENCY[d->processor][w->kind];
    Bound arithmetic;
    const Fact *of, *instructions = plain_fact(d, w->wide ? F64 : F32);
    double rate = contraction_rate(d, w, e, &arithmetic, &of), contractions = us_of(w->contractions, rate);
    double operations = us_of(w->operations + (FUNCTION_TIMES[d->processor][w->wide] - 1) * w->functions +
                                  (ROW_SUM[d->processor] - 1) * w->row_sums,
                              e->operations * plain_rate(d, w->wide ? F64 : F32));
    double memory = us_of(w->bytes, e->bytes * d->bandwidth.value),
           least = (w->joins ? 0 : e->least_us) + w->steps * STEP_US[d->processor];
    Cost c = {.us = memory, .bound = BOUND_MEMORY};
    if (contractions + operations > memory)
        c = (Cost){.us = contractions + operations, .bound = contractions > operations ? arithmetic : BOUND_INSTRUCTIONS};
    if (e->apart)
        c.us = memory + contractions + operations;
    if (c.us < least)
        c = (Cost){.us = least, .bound = BOUND_LAUNCH};
    if (c.us < d->launch_us.value && !w->joins)
        c.bound = BOUND_LAUNCH;
    const Fact *from = c.bound == BOUND_LAUNCH     ? &d->launch_us
                       : c.bound == BOUND_MEMORY   ? &d->bandwidth
                       : contractions > operations ? of
                                                   : instructions;
    c.ground = ground_of(from, c.bound == BOUND_LAUNCH, e->measured || d->processor == PROCESSOR_HOST);
    return c;
}

/* ---- transfers */

/* Computes what each direction of a link carries, and the time that it needs for that. */
Cost cost_transfers(const Machine *m, const Transfer *transfers, int count)
{
    double *bytes = NEW_ARRAY(double, 2 * m->link_count), latency = 0, longest = 0;
    for (int i = 0; i < count; i++) {
        Route r;
        const Transfer *t = &transfers[i];
        if (!machine_route(m, t->from, t->to, &r))
            return (Cost){.us = INFINITY, .bound = BOUND_LINK};
        for (int k = 0; k < r.count && t->bytes > 0; k++)
            bytes[2 * r.link[k] + r.back[k]] += t->bytes;
        latency = r.latency_us > latency ? r.latency_us : latency;
    }
    for (int i = 0; i < 2 * m->link_count; i++) {
        double us = us_of(bytes[i], m->links[i / 2].rate[i % 2].value);
        longest = us > longest ? us : longest;
    }
    return (Cost){.us = latency + longest, .bound = longest > latency ? BOUND_LINK : BOUND_LATENCY};
}

Cost cost_transfer(const Machine *m, int from, int to, double bytes)
{
    Transfer t = {from, to, bytes};
    return cost_transfers(m, &t, 1);
}

/* A host device is in the host's memory: a copy reads and writes it. */
static Cost cost_copy(const Machine *m, double bytes)
{
    double memory = us_of(2 * bytes, m->host.bandwidth.value),
           link = m->host.link.value > 0 ? us_of(bytes, m->host.link.value) : 0;
    return link > memory ? (Cost){.us = link, .bound = BOUND_LINK} : (Cost){.us = memory, .bound = BOUND_MEMORY};
}

static int gpu_of(const Machine *m, int device) { return device < m->device_count ? device : m->device_count - 1; }

Cost cost_upload(const Machine *m, Processor p, int device, double bytes)
{
    return p == PROCESSOR_HOST ? cost_copy(m, bytes) : cost_transfer(m, machine_host(m), gpu_of(m, device), bytes);
}

Cost cost_download(const Machine *m, Processor p, int device, double bytes)
{
    return p == PROCESSOR_HOST ? cost_copy(m, bytes) : cost_transfer(m, gpu_of(m, device), machine_host(m), bytes);
}
