/* decode.c: runs the phase `decode`, which knows what it needs of the places before (compiler/passes/decode.c): a token and its
 * place go in as settings, the output's row for it comes back in a variable. */
#include "runtime/run/decode.h"
#include "runtime/base/base.h"

#include <stdlib.h>
#include <string.h>

static int find_setting(const mgpu_program *p, const char *name)
{
    for (int i = 0; i < p->setting_count; i++)
        if (strcmp(p->settings[i].name, name) == 0)
            return i;
    mgpu_die("no setting %s", name);
}

/* Other phases use their memory, too (compiler/plan/place.c), and what is in rows of later places must be finite. The step before was
 * one of predict. */
static void clear_caches(const Feed *feed)
{
    const mgpu_program *p = feed->program;
    for (int i = 0; i < p->variable_count; i++) {
        if (p->variables[i].kind != MGPU_CACHE)
            continue;
        void *zeros = mgpu_allocate(1, (size_t)mgpu_tensor_bytes(&p->variables[i].tensor));
        for (int d = 0; d < feed->plan->devices; d++)
            mgpu_engine_write_variable(feed->engine, d, i, zeros);
        free(zeros);
    }
}

bool mgpu_open_decoder(Decoder *d, const Feed *feed)
{
    const mgpu_program *p = feed->program;
    *d = (Decoder){.feed = *feed};
    if (!mgpu_engine_phase(feed->engine, MGPU_PHASE_DECODE, false))
        return false;
    memcpy(d->setting, feed->setting, sizeof d->setting);
    d->token = find_setting(p, MGPU_DECODE_TOKEN);
    d->place = find_setting(p, MGPU_DECODE_PLACE);
    while (strcmp(p->variables[d->row].tensor.name, MGPU_DECODE_ROW) != 0)
        d->row++;
    d->bytes = mgpu_allocate(1, (size_t)mgpu_tensor_bytes(&p->variables[d->row].tensor));
    clear_caches(feed);
    return true;
}

/* all processes decode; all take the row of rank 0, so that they go on with the same text */
static void read_row(const Decoder *d, Processes *p, double *row)
{
    const mgpu_tensor *t = &d->feed.program->variables[d->row].tensor;
    int64_t at[mgpu_ranks(p) + 1];
    mgpu_engine_drain(d->feed.engine);
    mgpu_engine_read_variable(d->feed.engine, mgpu_own_devices(p, d->feed.plan->devices).first, d->row, d->bytes);
    for (int r = 0; r <= mgpu_ranks(p); r++)
        at[r] = r ? mgpu_tensor_bytes(t) : 0;
    if (p)
        p->gather(p, d->bytes, at);
    for (int64_t k = 0; k < t->extent[0]; k++)
        row[k] = mgpu_to_double(d->bytes, t->dtype, k);
}

void mgpu_decode(Decoder *d, const int64_t *tokens, int64_t count, Processes *p, double *row)
{
    Feed feed = d->feed;
    feed.setting = d->setting;
    for (d->count = count < d->count ? 0 : d->count; d->count < count; d->count++) {
        d->setting[d->token] = (double)tokens[d->count];
        d->setting[d->place] = (double)d->count;
        mgpu_post_alone(&feed, MGPU_PHASE_DECODE, feed.applied, 0);
    }
    read_row(d, p, row);
}

void mgpu_close_decoder(Decoder *d)
{
    free(d->bytes);
}
