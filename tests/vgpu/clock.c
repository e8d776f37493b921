/* clock.c: vector clocks (Mattern, "Virtual time and global states of distributed systems", 1989). */
#include "tests/vgpu/vgpu.h"

#include <stdlib.h>
#include <string.h>

enum { CHAINS = 4096 };
static uint32_t ticks[CHAINS];
static bool used[CHAINS];
static int chains;

/* a chain that was freed goes on where it was, so that old times stay before new ones */
int vgpu_new_chain(void)
{
    int c = 0;
    while (c < chains && used[c])
        c++;
    if (c == CHAINS)
        abort();
    chains += c == chains;
    used[c] = true;
    return c;
}

void vgpu_free_chain(int chain) { used[chain] = false; }

uint32_t vgpu_tick(int chain) { return ++ticks[chain]; }

static Clock *new_clock(int count)
{
    Clock *c = calloc(1, sizeof *c + (size_t)count * sizeof c->at[0]);
    if (!c)
        abort();
    c->references = 1;
    c->count = count;
    return c;
}

Clock *vgpu_join(Clock *a, const Clock *b)
{
    int count = a ? a->count : 0;
    if (!a || count < chains) {
        Clock *wide = new_clock(chains);
        if (a)
            memcpy(wide->at, a->at, (size_t)count * sizeof a->at[0]);
        vgpu_drop(a);
        a = wide;
    }
    for (int i = 0; b && i < b->count; i++)
        a->at[i] = b->at[i] > a->at[i] ? b->at[i] : a->at[i];
    return a;
}

Clock *vgpu_share(Clock *c)
{
    if (c)
        c->references++;
    return c;
}

void vgpu_drop(Clock *c)
{
    if (c && --c->references == 0)
        free(c);
}
