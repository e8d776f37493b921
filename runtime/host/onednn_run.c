/* onednn_run.c: runs prepared contractions: widens or reorders operands, executes the primitive, narrows or reorders the
 * result. */
#include "runtime/host/onednn_matmul.h"

#include <string.h>

#include "runtime/base/base.h"

/* Copies the innermost axis of W, reversed if it is flipped. */
static void flip_run(const Tap *tap, int64_t element, const char *from, char *to)
{
    if (!tap->flipped && tap->stride == 1) {
        memcpy(to, from, (size_t)(tap->extent * element));
    } else if (element == 4) {
        for (int64_t i = 0; i < tap->extent; i++)
            memcpy(to + (tap->flipped ? tap->extent - 1 - i : i) * tap->stride * 4, from + i * tap->stride * 4, 4);
    } else {
        for (int64_t i = 0; i < tap->extent; i++)
            memcpy(to + (tap->flipped ? tap->extent - 1 - i : i) * tap->stride * 2, from + i * tap->stride * 2, 2);
    }
}

/* Copies W with reversed taps, in the same order of axes. */
static void flip_taps(const MgpuLibraryMatmul *matmul, const char *from, char *to)
{
    const Tap *tap = matmul->flip;
    int last = matmul->flips - 1;
    int64_t index[5] = {0}, count = 1;
    for (int i = 0; i < last; i++)
        count *= tap[i].extent;
    for (int64_t n = 0; n < count; n++) {
        int64_t at = 0, other = 0;
        for (int i = 0; i < last; i++) {
            at += index[i] * tap[i].stride;
            other += (tap[i].flipped ? tap[i].extent - 1 - index[i] : index[i]) * tap[i].stride;
        }
        flip_run(&tap[last], matmul->element, from + at * matmul->element, to + other * matmul->element);
        for (int i = last - 1; i >= 0 && ++index[i] == tap[i].extent; i--)
            index[i] = 0;
    }
}

static void execute(const OnednnPrimitive *primitive, OnednnThread *seat, void *x, void *w, void *y, void *scratch)
{
    void *const data[] = {x, w, y, scratch};
    if (!onednn_execute(primitive, seat, data))
        mgpu_fail(MGPU_MACHINE_FAILED, "oneDNN failed (%s); MGPU_ONEDNN=off goes without it", primitive->implementation);
}

static OnednnThread *thread_of(MgpuLibraryMatmul *matmul, int thread)
{
    if (matmul->per_thread[thread] == NULL)
        matmul->per_thread[thread] = mgpu_allocate(1, sizeof *matmul->per_thread[thread]);
    return *matmul->per_thread[thread];
}

/* Converts an operand to the primitive's format. */
static void *convert_in(MgpuLibraryMatmul *matmul, OnednnThread *seat, int argument, char *data, char *scratch)
{
    if (argument == W && matmul->flips > 0) {
        flip_taps(matmul, data, scratch + matmul->flipped);
        data = scratch + matmul->flipped;
    }
    if (matmul->convert[argument].primitive == NULL)
        return data;
    void *to = scratch + matmul->staged[argument];
    execute(&matmul->convert[argument], &seat[1 + argument], data, NULL, to, scratch);
    return to;
}

static void add_up(void *sum, const void *part, size_t count)
{
    float *restrict to = sum;
    const float *restrict from = part;
    for (size_t i = 0; i < count; i++)
        to[i] += from[i];
}

void mgpu_onednn_run(MgpuLibraryMatmul *matmul, const void *a, const void *b, void *c, const void *packed, int64_t begin,
                     void *scratch, int thread)
{
    if (matmul->zeros > 0)
        memset(c, 0, (size_t)matmul->zeros);
    if (matmul->from == matmul->to)
        return;
    OnednnThread *seat = thread_of(matmul, thread);
    /* a and b are not written; the library's interface has no const */
    char *base[] = {(char *)(uintptr_t)a, (char *)(uintptr_t)b, c};
    for (int i = 0; i < 3; i++)
        base[i] += matmul->offset[i] + begin * matmul->sample[i];
    void *data[3];
    for (int i = 0; i < 3; i++) {
        bool ready = i == W && packed != NULL && matmul->convert[W].primitive != NULL;
        if (i != matmul->result && !matmul->moves[i])
            data[i] = ready ? (void *)(uintptr_t)packed : convert_in(matmul, seat, i, base[matmul->operand[i]], scratch);
    }
    int result = matmul->result;
    bool converts = matmul->convert[result].primitive != NULL, adds = matmul->flipped > matmul->sums;
    for (int64_t n = matmul->from; n < matmul->to; n++) {
        int64_t move[3] = {0}, rest = n;
        for (int i = matmul->loops - 1; i >= 0; i--) {
            const Loop *loop = &matmul->loop[i];
            int64_t index = rest % loop->count;
            rest /= loop->count;
            for (int j = 0; j < 3; j++)
                move[j] += index * loop->move[j];
        }
        for (int i = 0; i < 3; i++)
            if (i != matmul->result && matmul->moves[i])
                data[i] = convert_in(matmul, seat, i, base[matmul->operand[i]] + move[matmul->operand[i]], scratch);
        char *to = base[C] + move[C];
        bool staged = converts || (adds && n > matmul->from);
        data[result] = !staged ? to : (char *)scratch + (adds && n == matmul->from ? matmul->sums : matmul->staged[result]);
        execute(&matmul->main, &seat[0], data[X], data[W], data[Y], scratch);
        if (adds && n > matmul->from)
            add_up(converts ? (char *)scratch + matmul->sums : to, data[result], matmul->main.bytes[result] / sizeof(float));
        if (converts && !adds)
            execute(&matmul->convert[result], &seat[1 + result], data[result], NULL, to, scratch);
    }
    if (converts && adds)
        execute(&matmul->convert[result], &seat[1 + result], (char *)scratch + matmul->sums, NULL, base[C], scratch);
}

int64_t mgpu_onednn_packed(const MgpuLibraryMatmul *matmul)
{
    bool packs = matmul->result != W && matmul->operand[W] == B && matmul->sample[B] == 0 && !matmul->moves[W] &&
                 matmul->convert[W].primitive != NULL;
    return packs ? ((int64_t)matmul->main.bytes[W] + 63) / 64 * 64 : 0;
}

void mgpu_onednn_pack(MgpuLibraryMatmul *matmul, const void *b, void *packed, void *scratch, int thread)
{
    OnednnThread *seat = thread_of(matmul, thread);
    char *data = (char *)(uintptr_t)b + matmul->offset[B];
    if (matmul->flips > 0) {
        flip_taps(matmul, data, (char *)scratch + matmul->flipped);
        data = (char *)scratch + matmul->flipped;
    }
    execute(&matmul->convert[W], &seat[1 + W], data, NULL, packed, scratch);
}
