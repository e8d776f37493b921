/* onednn_run.c: the runs of prepared products: widen or reorder operands, execute, narrow or reorder the result. */
#include "runtime/host/onednn_product.h"

#include <string.h>

#include "runtime/base/base.h"

/* the innermost axis of W, which is alone or lies inside another one */
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

/* W with its taps in reverse, elsewhere, in the same order of axes */
static void flip_taps(const MgpuLibraryProduct *product, const char *from, char *to)
{
    const Tap *tap = product->flip;
    int last = product->flips - 1;
    int64_t index[5] = {0}, count = 1;
    for (int i = 0; i < last; i++)
        count *= tap[i].extent;
    for (int64_t n = 0; n < count; n++) {
        int64_t at = 0, other = 0;
        for (int i = 0; i < last; i++) {
            at += index[i] * tap[i].stride;
            other += (tap[i].flipped ? tap[i].extent - 1 - index[i] : index[i]) * tap[i].stride;
        }
        flip_run(&tap[last], product->element, from + at * product->element, to + other * product->element);
        for (int i = last - 1; i >= 0 && ++index[i] == tap[i].extent; i--)
            index[i] = 0;
    }
}

static void execute(const OnednnPrimitive *primitive, OnednnSeat *seat, void *x, void *w, void *y, void *scratch)
{
    void *const data[] = {x, w, y, scratch};
    if (!onednn_execute(primitive, seat, data))
        mgpu_fail(MGPU_MACHINE_FAILED, "oneDNN failed (%s); MGPU_ONEDNN=off goes without it", primitive->said);
}

static OnednnSeat *seat_of(MgpuLibraryProduct *product, int thread)
{
    if (product->seat[thread] == NULL)
        product->seat[thread] = mgpu_allocate(1, sizeof *product->seat[thread]);
    return *product->seat[thread];
}

/* an operand to where the primitive has it */
static void *convert_in(MgpuLibraryProduct *product, OnednnSeat *seat, int argument, char *data, char *scratch)
{
    if (argument == W && product->flips > 0) {
        flip_taps(product, data, scratch + product->flipped);
        data = scratch + product->flipped;
    }
    if (product->convert[argument].primitive == NULL)
        return data;
    void *to = scratch + product->staged[argument];
    execute(&product->convert[argument], &seat[1 + argument], data, NULL, to, scratch);
    return to;
}

static void add_up(void *sum, const void *part, size_t count)
{
    float *restrict to = sum;
    const float *restrict from = part;
    for (size_t i = 0; i < count; i++)
        to[i] += from[i];
}

void mgpu_onednn_run(MgpuLibraryProduct *product, const void *a, const void *b, void *c, const void *packed, int64_t begin,
                     void *scratch, int thread)
{
    if (product->zeros > 0)
        memset(c, 0, (size_t)product->zeros);
    if (product->from == product->to)
        return;
    OnednnSeat *seat = seat_of(product, thread);
    /* nothing of a and b is written; the library's interface knows no const */
    char *base[] = {(char *)(uintptr_t)a, (char *)(uintptr_t)b, c};
    for (int i = 0; i < 3; i++)
        base[i] += product->offset[i] + begin * product->sample[i];
    void *data[3];
    for (int i = 0; i < 3; i++) {
        bool ready = i == W && packed != NULL && product->convert[W].primitive != NULL;
        if (i != product->result && !product->moves[i])
            data[i] = ready ? (void *)(uintptr_t)packed : convert_in(product, seat, i, base[product->operand[i]], scratch);
    }
    int result = product->result;
    bool converts = product->convert[result].primitive != NULL, adds = product->flipped > product->sums;
    for (int64_t n = product->from; n < product->to; n++) {
        int64_t move[3] = {0}, rest = n;
        for (int i = product->loops - 1; i >= 0; i--) {
            const Loop *loop = &product->loop[i];
            int64_t index = rest % loop->count;
            rest /= loop->count;
            for (int j = 0; j < 3; j++)
                move[j] += index * loop->move[j];
        }
        for (int i = 0; i < 3; i++)
            if (i != product->result && product->moves[i])
                data[i] = convert_in(product, seat, i, base[product->operand[i]] + move[product->operand[i]], scratch);
        char *to = base[C] + move[C];
        bool staged = converts || (adds && n > product->from);
        data[result] = !staged ? to : (char *)scratch + (adds && n == product->from ? product->sums : product->staged[result]);
        execute(&product->main, &seat[0], data[X], data[W], data[Y], scratch);
        if (adds && n > product->from)
            add_up(converts ? (char *)scratch + product->sums : to, data[result], product->main.bytes[result] / sizeof(float));
        if (converts && !adds)
            execute(&product->convert[result], &seat[1 + result], data[result], NULL, to, scratch);
    }
    if (converts && adds)
        execute(&product->convert[result], &seat[1 + result], (char *)scratch + product->sums, NULL, base[C], scratch);
}

int64_t mgpu_onednn_packed(const MgpuLibraryProduct *product)
{
    bool packs = product->result != W && product->operand[W] == B && !product->moves[W] && product->convert[W].primitive != NULL;
    return packs ? ((int64_t)product->main.bytes[W] + 63) / 64 * 64 : 0;
}

void mgpu_onednn_pack(MgpuLibraryProduct *product, const void *b, void *packed, void *scratch, int thread)
{
    OnednnSeat *seat = seat_of(product, thread);
    char *data = (char *)(uintptr_t)b + product->offset[B];
    if (product->flips > 0) {
        flip_taps(product, data, (char *)scratch + product->flipped);
        data = (char *)scratch + product->flipped;
    }
    execute(&product->convert[W], &seat[1 + W], data, NULL, packed, scratch);
}
