/* operation.c: shows one operation, what it waits for and what waits for it; or all costs of one part of the model. */
#include "runtime/view/view.h"

#include <stdlib.h>
#include <string.h>

/* ---- an operation */
static int find_op(const ViewDevice *d, const char *asked)
{
    int op = mgpu_view_find_op(d, asked);
    char near[128];
    if (op < 0 && asked[0] == 'd' && strchr(asked, '.')) /* d0.NAME, as in the file */
        op = mgpu_view_find_op(d, strchr(asked, '.') + 1);
    if (op >= 0)
        return op;
    const char **names = mgpu_allocate((size_t)d->op_count + 1, sizeof *names);
    for (int i = 0; i < d->op_count; i++)
        names[i] = d->ops[i].id;
    mgpu_fail(MGPU_BAD_USAGE, "--op %s: the phase has no such operation%s", asked,
              mgpu_did_you_mean(asked, names, d->op_count, near));
}

static void print_accesses(const ViewDevice *d, const ScheduledOp *op, bool writes, FILE *f)
{
    char bytes[32];
    for (int i = 0; i < (writes ? op->write_count : op->read_count); i++) {
        const Access *a = writes ? &op->writes[i] : &op->reads[i];
        const Buffer *b = &d->buffers[a->buffer];
        fprintf(f, "  %-7s %10s  %-9s  %s", writes ? "writes" : "reads", mgpu_view_bytes((double)(a->end - a->begin), bytes),
                BUFFER_KIND_NAME[b->kind], b->name);
        if (a->begin || a->end != b->bytes || a->of)
            fprintf(f, "[%lld:%lld", (long long)a->begin, (long long)a->end);
        if (a->of)
            fprintf(f, " of %lld", (long long)a->of);
        fprintf(f, "%s", a->begin || a->end != b->bytes || a->of ? "]" : "");
        if (a->slot)
            fprintf(f, "@%+d", a->slot);
        fputc('\n', f);
    }
}

static void print_other(const ScheduledOp *other, int back, const char *why, FILE *f)
{
    char a[32];
    const char *step = back == 0 ? "" : back == 1 ? " of the step before" : " of an earlier step";
    fprintf(f, "    %-4s until %10s  %s%s%s%s\n", LANE_NAME[other->lane], mgpu_view_time(other->begin_us + other->time_us, a),
            other->id, step, *why ? ": it " : "", why);
}

/* Returns --device, else that of d1.NAME, unless device 0 has an operation of this name. */
static int device_of(const View *v, const ViewRequest *r)
{
    char *end;
    long asked = r->op[0] == 'd' ? strtol(r->op + 1, &end, 10) : -1;
    bool named = asked >= 0 && asked < v->schedule->devices && *end == '.' && mgpu_view_find_op(&v->devices[0], r->op) < 0;
    return r->device >= 0 ? r->device : named ? (int)asked : 0;
}

void mgpu_view_op(const View *v, const ViewRequest *r, FILE *f)
{
    int device = device_of(v, r);
    const ViewDevice *d = &v->devices[device];
    int number = find_op(d, r->op), before = -1, after = -1, waiting = 0;
    const ScheduledOp *op = &d->ops[number];
    char a[32], b[32], text[MGPU_VIEW_REASON];
    fprintf(f, "%s: %s%s%s of device %d, lane %s, line %d, phase %s\n", op->id, verb_word(v->phase, op),
            strcmp(op->label, "-") ? " " : "", strcmp(op->label, "-") ? op->label : "", device, LANE_NAME[op->lane], op->line,
            v->phase->name);
    int other = mgpu_view_pass(op) == MGPU_BACKWARD ? MGPU_FORWARD : MGPU_BACKWARD;
    double part = 100 * mgpu_view_pass_part(op, other);
    if (*op->role)
        fprintf(f, "  %s%s%s", op->layer, *op->layer ? ", " : "", op->role);
    if (part > 0)
        fprintf(f, "; %.1f %% of its time is of the %s pass", part, MGPU_PASS_NAME[other]);
    if (*op->role)
        fputc('\n', f);
    fprintf(f, "  begins at %s, takes %s (%.1f %% of one step by itself)", mgpu_view_time(op->begin_us, a),
            mgpu_view_time(op->time_us, b), v->end_us > 0 ? 100 * op->time_us / v->end_us : 0);
    if (op->bytes > 0)
        fprintf(f, ", moves %s", mgpu_view_bytes(op->bytes, a));
    fputc('\n', f);
    print_accesses(d, op, false, f);
    print_accesses(d, op, true, f);
    for (int i = 0; i < d->op_count; i++) {
        if (d->ops[i].lane != op->lane || i == number)
            continue;
        before = i < number ? i : before;
        after = i > number && after < 0 ? i : after;
    }
    fprintf(f, "  waits for\n");
    if (before >= 0)
        print_other(&d->ops[before], 0, "has the lane before", f);
    for (int i = 0; i < op->wait_count; i++)
        if (op->waits[i].op >= 0)
            print_other(&d->ops[op->waits[i].op], op->waits[i].back, mgpu_view_reason(d, op, &op->waits[i], text), f);
    if (before < 0 && !op->wait_count)
        fprintf(f, "    nothing\n");
    fprintf(f, "  waited for by\n");
    if (after >= 0)
        fprintf(f, "    %-4s at    %10s  %s, which has the lane after\n", LANE_NAME[op->lane],
                mgpu_view_time(d->ops[after].begin_us, a), d->ops[after].id);
    for (int i = 0; i < d->op_count; i++)
        for (int k = 0; k < d->ops[i].wait_count; k++) {
            const Wait *w = &d->ops[i].waits[k];
            if (w->op != number)
                continue;
            waiting++;
            const char *why = mgpu_view_reason(d, &d->ops[i], w, text);
            fprintf(f, "    %-4s at    %10s  %s%s%s%s\n", LANE_NAME[d->ops[i].lane], mgpu_view_time(d->ops[i].begin_us, a),
                    d->ops[i].id, w->back ? ", of a later step" : "", *why ? ": this " : "", why);
        }
    if (after < 0 && !waiting)
        fprintf(f, "    nothing\n");
}

/* ---- a layer */
static bool is_of(const ScheduledOp *op, const char *layer)
{
    return mgpu_view_has_layer(op->layer, layer) || mgpu_view_has_layer(op->id, layer);
}

static bool sums(const CollectiveRecord *c, const char *layer)
{
    for (int i = 0; i < c->of_count; i++)
        if (mgpu_view_has_layer(c->of[i], layer))
            return true;
    return false;
}

static _Noreturn void no_layer(const ViewDevice *d, const char *layer)
{
    const char **names = mgpu_allocate((size_t)d->op_count + 1, sizeof *names);
    char near[128];
    int count = 0;
    for (int i = 0; i < d->op_count; i++)
        if (*d->ops[i].layer)
            names[count++] = d->ops[i].layer;
    mgpu_fail(MGPU_BAD_USAGE, "--layer %s: no operation of the phase is of such a layer%s", layer,
              mgpu_did_you_mean(layer, names, count, near));
}

static bool updates_it(const ViewDevice *d, const ScheduledOp *op, const char *layer) /* possibly among other variables */
{
    for (int i = 0; i < op->write_count; i++)
        if (strncmp(d->buffers[op->writes[i].buffer].name, "w.", 2) == 0 &&
            mgpu_view_has_layer(d->buffers[op->writes[i].buffer].name + 2, layer))
            return strcmp(op->role, "update") == 0;
    return false;
}

static void print_layer_ops(const View *v, const ViewDevice *d, const char *layer, FILE *f)
{
    double all = 0, of_lane = 0;
    char a[32];
    int found = 0;
    for (int i = 0; i < d->op_count; i++) {
        of_lane += d->ops[i].lane == LANE_COMP ? d->ops[i].time_us : 0;
        found += is_of(&d->ops[i], layer);
    }
    if (!found)
        no_layer(d, layer);
    fprintf(f, "%s of %s, %s\n", layer, v->schedule->model, v->phase->name);
    for (int k = 0; k <= MGPU_PASSES; k++) {
        double us = 0;
        int count = 0;
        for (int i = 0; i < d->op_count; i++) {
            const ScheduledOp *op = &d->ops[i];
            int pass = mgpu_view_pass(op);
            if (op->lane != LANE_COMP || !is_of(op, layer))
                continue;
            us += (k < MGPU_PASSES ? mgpu_view_pass_part(op, k) : pass < 0) * op->time_us;
            count += k < MGPU_PASSES ? pass == k : pass < 0;
        }
        all += us;
        if (count || us > 0)
            fprintf(f, "  %-9s %10s  %5.1f %%  ", k < MGPU_PASSES ? MGPU_PASS_NAME[k] : "other", mgpu_view_time(us, a),
                    of_lane > 0 ? 100 * us / of_lane : 0);
        if (count)
            fprintf(f, "%d operation%s\n", count, count == 1 ? "" : "s");
        else if (us > 0)
            fprintf(f, "in operations of another pass\n");
    }
    fprintf(f, "  %-9s %10s  %5.1f %% of all that is computed\n", "all", mgpu_view_time(all, a),
            of_lane > 0 ? 100 * all / of_lane : 0);
    for (int i = 0; i < d->op_count; i++)
        if (!is_of(&d->ops[i], layer) && updates_it(d, &d->ops[i], layer))
            fprintf(f, "  beside others in %s (%s)\n", d->ops[i].id, mgpu_view_time(d->ops[i].time_us, a));
}

static void print_layer_memory(const ViewDevice *d, const char *layer, FILE *f)
{
    double variables = 0, values = 0, largest = 0;
    const char *name = NULL;
    char a[32], b[32], c[32];
    for (int i = 0; i < d->buffer_count; i++) {
        const Buffer *x = &d->buffers[i];
        bool variable = x->kind == BUFFER_VARIABLE;
        if (variable && mgpu_view_has_layer(x->name + 2, layer))
            variables += (double)mgpu_view_buffer_bytes(x);
        if ((x->kind != BUFFER_TEMPORARY && x->kind != BUFFER_LOCAL) || !mgpu_view_has_layer(x->name, layer))
            continue;
        values += (double)mgpu_view_buffer_bytes(x);
        if ((double)mgpu_view_buffer_bytes(x) > largest) {
            largest = (double)mgpu_view_buffer_bytes(x);
            name = x->name;
        }
    }
    fprintf(f, "  memory: variables %s, values %s (not all at once)", mgpu_view_bytes(variables, a), mgpu_view_bytes(values, b));
    if (name)
        fprintf(f, ", the largest %s %s", name, mgpu_view_bytes(largest, c));
    fputc('\n', f);
}

void mgpu_view_layer(const View *v, const ViewRequest *r, FILE *f)
{
    const ViewDevice *d = &v->devices[r->device < 0 ? 0 : r->device];
    char a[32], b[32], name[512];
    print_layer_ops(v, d, r->layer, f);
    print_layer_memory(d, r->layer, f);
    for (int i = 0; i < v->phase->collective_count; i++) {
        const CollectiveRecord *c = &v->phase->collectives[i];
        if (sums(c, r->layer))
            fprintf(f, "  %s %s, %s, of %d value%s\n", mgpu_transfer_row(c->participants.transfer)->kind, c->name,
                    mgpu_view_bytes((double)mgpu_view_collective_bytes(c), a), c->of_count, c->of_count == 1 ? "" : "s");
    }
    mgpu_view_layers(d, r->layer, r->width, f);
    fprintf(f, "\n      begins       takes  lane  line\n");
    for (int i = 0; i < d->op_count; i++) {
        const ScheduledOp *op = &d->ops[i];
        if (is_of(op, r->layer) || (mgpu_lane_transfers((int)op->lane) && mgpu_view_has_layer(op->label, r->layer)))
            fprintf(f, "  %10s  %10s  %-4s  %4d  %s\n", mgpu_view_time(op->begin_us, a), mgpu_view_time(op->time_us, b),
                    LANE_NAME[op->lane], op->line, mgpu_view_cut(op->id, r->width - 38, name, sizeof name));
    }
}
