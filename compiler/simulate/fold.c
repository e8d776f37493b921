/* fold.c: a phase of a schedule -> the same phase with one of all equivalent nodes. */
#include "compiler/simulate/simulate.h"

static bool same_node(const PhaseSchedule *p, int each, int a, int b)
{
    for (int k = 0; k < each; k++) {
        const DeviceSchedule *x = &p->devices[a * each + k], *y = &p->devices[b * each + k];
        if (x->ops != y->ops || x->buffers != y->buffers || x->share != y->share || x->capacity != y->capacity)
            return false;
    }
    return true;
}

/* Restricts the members of collectives to the simulated devices. */
static CollectiveRecord *fold_collectives(const PhaseSchedule *p, const int *first, const Fold *f)
{
    CollectiveRecord *all = NEW_ARRAY(CollectiveRecord, p->collective_count);
    for (int c = 0; c < p->collective_count; c++) {
        all[c] = p->collectives[c];
        all[c].ops = NEW_ARRAY(int, f->nodes * f->each);
        for (int d = 0; d < f->nodes * f->each; d++)
            all[c].ops[d] = p->collectives[c].ops[first[d / f->each] * f->each + d % f->each];
    }
    return all;
}

Fold fold_phase(const Schedule *s, const PhaseSchedule *p)
{
    Fold f = {.each = schedule_each(s), .as = NEW_ARRAY(int, s->devices)};
    int *first = NEW_ARRAY(int, s->nodes);
    for (int n = 0; n < s->nodes; n++) {
        int k = 0;
        while (k < f.nodes && !same_node(p, f.each, first[k], n))
            k++;
        if (k == f.nodes)
            first[f.nodes++] = n;
        for (int d = 0; d < f.each; d++)
            f.as[n * f.each + d] = k * f.each + d;
    }
    f.phase = NEW(PhaseSchedule);
    *f.phase = *p;
    f.phase->devices = NEW_ARRAY(DeviceSchedule, f.nodes * f.each);
    for (int d = 0; d < f.nodes * f.each; d++)
        f.phase->devices[d] = p->devices[first[d / f.each] * f.each + d % f.each];
    f.phase->collectives = fold_collectives(p, first, &f);
    return f;
}
