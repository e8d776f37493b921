/* decode.c: runs the phase `decode`, which caches what it needs of earlier positions (compiler/passes/decode.c). A token
 * and its position go in for each text, and the output row comes back in a variable. */
#include "runtime/run/decode.h"
#include "runtime/base/base.h"

#include <stdlib.h>
#include <string.h>

/* Zeroes the caches, whose memory training also uses (compiler/plan/place.c), since rows of later positions must be finite. The
 * previous step was one of predict. */
static void clear_caches(const Feed *feed)
{
    const mgpu_program *p = feed->program;
    for (int i = 0; i < p->variable_count; i++) {
        if (p->variables[i].kind != MGPU_CACHE)
            continue;
        for (int d = 0; d < feed->plan->devices; d++) {
            size_t samples = (size_t)feed->plan->device[d].shard.capacity;
            void *zeros = mgpu_engine_has(feed->engine, d)
                              ? mgpu_allocate(samples, (size_t)mgpu_tensor_bytes(&p->variables[i].tensor))
                              : NULL;
            mgpu_engine_write_variable(feed->engine, d, i, zeros);
            free(zeros);
        }
    }
}

static int32_t *add_input(Decoder *d, Stream *s, int column, const char *name, bool *wanted)
{
    const mgpu_program *p = d->feed.program;
    int64_t samples = d->feed.plan->micro;
    int32_t *data = mgpu_allocate((size_t)samples, sizeof *data);
    Array a = {.dtype = MGPU_I32,
               .rank = 1,
               .extent = {1},
               .samples = samples,
               .sample_bytes = sizeof *data,
               .data = (const uint8_t *)data,
               .owned = data};
    int input = 0;
    while (strcmp(p->inputs[input].tensor.name, name) != 0 || !p->inputs[input].hidden)
        input++;
    wanted[input] = true;
    mgpu_set_array(s, column, name, &p->inputs[input], &a, name, "");
    return data;
}

bool mgpu_open_decoder(Decoder *d, const Feed *feed)
{
    const mgpu_program *p = feed->program;
    *d = (Decoder){.feed = *feed};
    if (!mgpu_engine_phase(feed->engine, MGPU_PHASE_DECODE, false))
        return false;
    while (strcmp(p->variables[d->row].tensor.name, MGPU_DECODE_ROW) != 0)
        d->row++;
    bool *wanted = mgpu_allocate((size_t)p->input_count, sizeof *wanted);
    d->data = (Dataset){.name = "decode", .program = p, .stream = mgpu_array_stream(&(Opening){.program = p, .where = ""}, 2)};
    d->token = add_input(d, d->data.stream, 0, MGPU_DECODE_TOKEN, wanted);
    d->place = add_input(d, d->data.stream, 1, MGPU_DECODE_PLACE, wanted);
    mgpu_bind_set(&d->data, wanted, NULL);
    free(wanted);
    clear_caches(feed);
    return true;
}

void mgpu_decode(Decoder *d, const int64_t *valid)
{
    Batch batch = {.set = &d->data, .samples = d->feed.plan->micro, .applied = d->feed.applied, .valid = valid};
    mgpu_post(&d->feed, MGPU_PHASE_DECODE, &batch, 0);
    mgpu_engine_drain(d->feed.engine);
}

void mgpu_decoded_row(const Decoder *d, int device, int64_t sample, void *to)
{
    int64_t bytes = mgpu_tensor_bytes(&d->feed.program->variables[d->row].tensor);
    int64_t at = (sample - d->feed.plan->device[device].shard.first) * bytes;
    mgpu_engine_read_part(d->feed.engine, device, d->row, (mgpu_range){at, at + bytes}, to);
}

void mgpu_close_decoder(Decoder *d)
{
    if (d->data.stream)
        mgpu_close_set(&d->data);
}
