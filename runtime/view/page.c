/* page.c: the overview: time of a step, use of each lane and why it is idle, links, memory, the longest operations, buckets,
 * input. */
#include "runtime/base/terminal.h"
#include "runtime/view/view.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST = 10, MOST_BUCKETS = 20, MOST_LINKS = 8, BAR = 10, CAUSES_AT = 26 + BAR /* the column */ };

typedef struct Page {
    const View *view;
    const ViewDevice *device;
    int number, width;
    FILE *f;
} Page;

/* ---- head */
static void print_head(const Page *p)
{
    const View *v = p->view;
    char a[32], b[32];
    fprintf(p->f, "%s: %s, %d device%s (%s), batch %lld in %s", v->schedule->model, v->phase->name, v->schedule->devices,
            v->schedule->devices == 1 ? "" : "s", p->device->name, (long long)v->schedule->batch, v->schedule->precision);
    if (v->schedule->nodes > 1)
        fprintf(p->f, ", %d nodes", v->schedule->nodes);
    if (v->schedule->accumulate > 1)
        fprintf(p->f, ", %d micro-batches", v->schedule->accumulate);
    const Policy *plan = v->schedule->policy;
    const char *label = plan ? policy_label(plan) : NULL;
    if (plan)
        fprintf(p->f, ", plan %s%s%s%s", plan->name, label ? " [" : "", label ? label : "", label ? "]" : "");
    fputc('\n', p->f);
    bool step = mgpu_view_is_step(v, true);
    if (v->step->machine && step)
        fprintf(p->f, "predicted on %s: %s a step, %s samples/s, bound by %s\n", v->step->machine,
                mgpu_view_time(v->step->step_us, a),
                mgpu_view_number(v->step->step_us > 0 ? (double)v->schedule->batch / v->step->step_us * 1e6 : 0, b),
                v->step->bound);
    else
        fprintf(p->f, "one step by itself: %s\n", mgpu_view_time(v->end_us, a));
}

/* ---- lanes */
static LaneUse use_of(const Page *p, Lane lane) /* predicted; otherwise that of one isolated step */
{
    const LaneUse *predicted = mgpu_view_is_step(p->view, false) ? mgpu_view_use(p->view, p->number, lane) : NULL;
    LaneUse use = {0};
    for (int i = 0; i < p->device->op_count && !predicted; i++)
        use.busy_us += p->device->ops[i].lane == lane ? p->device->ops[i].time_us : 0;
    return predicted ? *predicted : use;
}

static bool is_predicted(const Page *p)
{
    return mgpu_view_is_step(p->view, false) && mgpu_view_use(p->view, p->number, LANE_COMP);
}

static void print_bar(FILE *f, double share)
{
    int full = share >= 1 ? BAR : share > 0 ? (int)(share * BAR + .5) : 0;
    for (int i = 0; i < BAR; i++)
        fputc(i < full ? '#' : '.', f);
}

static void print_lanes(const Page *p)
{
    double step = p->view->step->machine && mgpu_view_is_step(p->view, false) ? p->view->step->step_us : p->view->end_us;
    char a[32];
    fprintf(p->f, "\nlanes of device %d    busy              idle, and what for\n", p->number);
    for (int l = 0; l < LANES; l++) {
        LaneUse use = use_of(p, (Lane)l);
        if (use.busy_us <= 0 && l != LANE_COMP)
            continue;
        double share = step > 0 ? use.busy_us / step : 0;
        fprintf(p->f, "  %-5s %10s %3.0f %%  ", LANE_NAME[l], mgpu_view_time(use.busy_us, a), 100 * share);
        print_bar(p->f, share > 1 ? 1 : share);
        int at = CAUSES_AT;
        const char *between = "  ";
        for (int c = 0; c < CAUSES; c++) {
            if (use.idle_us[c] < .0005 * step || use.idle_us[c] <= 0)
                continue;
            char text[64];
            int length = snprintf(text, sizeof text, "%s %s", CAUSE_NAME[c], mgpu_view_time(use.idle_us[c], a));
            if (at + length + 3 > p->width && at > CAUSES_AT) { /* a comma may follow it */
                fprintf(p->f, ",\n%*s", CAUSES_AT, "");
                at = CAUSES_AT;
                between = "  ";
            }
            fprintf(p->f, "%s%s", between, text);
            at += length + 2;
            between = ", ";
        }
        fputc('\n', p->f);
    }
    LaneUse comp = use_of(p, LANE_COMP);
    double transfers_us = use_of(p, LANE_COMM).busy_us + use_of(p, LANE_SYNC).busy_us;
    if (transfers_us > 0 && is_predicted(p))
        fprintf(p->f, "  exposed communication: %s of %s (%.0f %% of the step)\n",
                mgpu_view_time(comp.idle_us[CAUSE_COMMUNICATION], a), mgpu_view_time(transfers_us, (char[32]){0}),
                step > 0 ? 100 * comp.idle_us[CAUSE_COMMUNICATION] / step : 0);
}

static int by_share(const void *a, const void *b)
{
    const LinkRecord *x = a, *y = b;
    return x->share != y->share ? (x->share < y->share) - (x->share > y->share) : strcmp(x->name, y->name);
}

static void print_links(const Page *p)
{
    const View *v = p->view;
    if (!v->step->link_count || !mgpu_view_is_step(v, false))
        return;
    LinkRecord *links = mgpu_allocate((size_t)v->step->link_count, sizeof *links);
    memcpy(links, v->step->links, (size_t)v->step->link_count * sizeof *links);
    qsort(links, (size_t)v->step->link_count, sizeof *links, by_share);
    fprintf(p->f, "\nlinks                         bytes a step   in use\n");
    int lines = 0, i = 0;
    for (int same; i < v->step->link_count && lines < MOST_LINKS; i += same, lines++) {
        char a[32];
        for (same = 1; i + same < v->step->link_count && links[i + same].bytes == links[i].bytes &&
                       links[i + same].share == links[i].share;)
            same++;
        fprintf(p->f, "  %-26s %13s   %4.1f %%", links[i].name, mgpu_view_bytes(links[i].bytes, a), 100 * links[i].share);
        fprintf(p->f, same > 1 ? "   %d like it\n" : "\n", same - 1);
    }
    if (i < v->step->link_count)
        fprintf(p->f, "  and %d more, which are in use less\n", v->step->link_count - i);
    free(links);
}

/* ---- the longest operations */
int mgpu_view_by_time(const void *a, const void *b)
{
    const ScheduledOp *x = *(const ScheduledOp *const *)a, *y = *(const ScheduledOp *const *)b;
    return x->time_us != y->time_us ? (x->time_us < y->time_us) - (x->time_us > y->time_us) : strcmp(x->id, y->id);
}

static void print_longest(const Page *p)
{
    const ViewDevice *d = p->device;
    const ScheduledOp **ops = mgpu_allocate((size_t)d->op_count + 1, sizeof *ops);
    for (int i = 0; i < d->op_count; i++)
        ops[i] = &d->ops[i];
    qsort(ops, (size_t)d->op_count, sizeof(ScheduledOp *), mgpu_view_by_time);
    double step = p->view->step->machine && p->view->step->step_us > 0 && mgpu_view_is_step(p->view, false)
                      ? p->view->step->step_us
                      : p->view->end_us;
    fprintf(p->f, "\nlongest operations   of the step   lane  line\n");
    for (int i = 0; i < d->op_count && i < LONGEST; i++) {
        char a[32], name[512];
        fprintf(p->f, "  %12s        %5.1f %%      %-5s %4d  %s\n", mgpu_view_time(ops[i]->time_us, a),
                step > 0 ? 100 * ops[i]->time_us / step : 0, LANE_NAME[ops[i]->lane], ops[i]->line,
                mgpu_view_cut(ops[i]->id, p->width - 48, name, sizeof name));
    }
    if (d->op_count > LONGEST)
        fprintf(p->f, "  %d more operations\n", d->op_count - LONGEST);
    free(ops);
}

/* ---- buckets */
static const ScheduledOp *op_of(const ViewDevice *d, const CollectiveRecord *c)
{
    for (int i = 0; i < d->op_count; i++)
        if (mgpu_lane_transfers((int)d->ops[i].lane) && strcmp(d->ops[i].label, c->name) == 0)
            return &d->ops[i];
    return NULL;
}

static int by_size(const void *a, const void *b)
{
    const CollectiveRecord *x = *(const CollectiveRecord *const *)a, *y = *(const CollectiveRecord *const *)b;
    int64_t x_bytes = mgpu_view_collective_bytes(x), y_bytes = mgpu_view_collective_bytes(y);
    return x_bytes != y_bytes ? (x_bytes < y_bytes) - (x_bytes > y_bytes) : strcmp(x->name, y->name);
}

static void print_bucket(const Page *p, const CollectiveRecord *c)
{
    const ScheduledOp *op = op_of(p->device, c);
    char a[32], b[32], e[32], name[512];
    if (!op)
        return;
    fprintf(p->f, "  %10s  %9s + %-9s  %-5s %s", mgpu_view_bytes((double)mgpu_view_collective_bytes(c), a),
            mgpu_view_time(op->begin_us, b), mgpu_view_time(op->time_us, e), mgpu_implementation_name(c->implementation),
            mgpu_view_cut(c->name, p->width - 55, name, sizeof name));
    if (c->of_count > 1)
        fprintf(p->f, " + %d more", c->of_count - 1);
    fputc('\n', p->f);
    for (int i = 0; i < op->wait_count; i++)
        if (op->waits[i].op >= 0 && op->waits[i].back == 0)
            fprintf(p->f, "              after %s\n",
                    mgpu_view_cut(p->device->ops[op->waits[i].op].id, p->width - 20, name, sizeof name));
    if (c->why && *c->why)
        mgpu_print_wrapped(p->f, c->why, "              ", p->width);
}

static void print_buckets(const Page *p)
{
    const View *v = p->view;
    if (!v->phase->collective_count)
        return;
    const CollectiveRecord **list = mgpu_allocate((size_t)v->phase->collective_count, sizeof *list);
    double bytes = 0;
    char a[32];
    for (int i = 0; i < v->phase->collective_count; i++) {
        list[i] = &v->phase->collectives[i];
        bytes += (double)mgpu_view_collective_bytes(list[i]);
    }
    bool most = v->phase->collective_count > MOST_BUCKETS;
    if (most)
        qsort(list, (size_t)v->phase->collective_count, sizeof(CollectiveRecord *), by_size);
    fprintf(p->f, "\n%d transfer%s, %s%s\n", v->phase->collective_count, v->phase->collective_count == 1 ? "" : "s",
            mgpu_view_bytes(bytes, a), most ? ", the largest first" : "");
    fprintf(p->f, "       bytes  begins + takes         via   what it sums\n");
    for (int i = 0; i < v->phase->collective_count && i < (most ? MOST_BUCKETS / 2 : MOST_BUCKETS); i++)
        print_bucket(p, list[i]);
    if (most)
        fprintf(p->f, "  and %d more\n", v->phase->collective_count - MOST_BUCKETS / 2);
    free(list);
}

/* ---- input */
static void print_input(const Page *p)
{
    const ViewDevice *d = p->device;
    char a[32];
    for (int i = 0; i < d->op_count; i++) {
        const ScheduledOp *op = &d->ops[i];
        bool read = op->verb == VERB_READ, upload = op->verb == VERB_UPLOAD;
        if (!read && !upload)
            continue;
        double bytes = 0;
        for (int k = 0; k < op->write_count; k++)
            if (d->buffers[op->writes[k].buffer].kind != BUFFER_STEP)
                bytes += (double)mgpu_view_buffer_bytes(&d->buffers[op->writes[k].buffer]) / 2; /* the buffer has two slots */
        fprintf(p->f, "%s%s %s in %s", read ? "\ninput: " : "",
                read        ? "reads"
                : bytes > 0 ? ", uploads"
                            : "\ninput: uploads",
                mgpu_view_bytes(bytes, a), mgpu_view_time(op->time_us, (char[32]){0}));
    }
    LaneUse comp = use_of(p, LANE_COMP);
    if (is_predicted(p))
        fprintf(p->f, "\n  computing waits %s for input, %s for uploads", mgpu_view_time(comp.idle_us[CAUSE_INPUT], a),
                mgpu_view_time(comp.idle_us[CAUSE_UPLOAD], (char[32]){0}));
    fputc('\n', p->f);
}

void mgpu_view_page(const View *v, const ViewRequest *r, FILE *f)
{
    int number = r->device < 0 ? 0 : r->device;
    Page p = {.view = v, .device = &v->devices[number], .number = number, .width = r->width, .f = f};
    print_head(&p);
    print_lanes(&p);
    print_links(&p);
    mgpu_view_memory_page(v, p.device, p.number, p.width, f);
    mgpu_view_layers(p.device, NULL, p.width, f);
    print_longest(&p);
    print_buckets(&p);
    print_input(&p);
    fprintf(f, "\n--timeline: lanes as bars; --op NAME, --layer PATH: one of them; --at TIME: what\nis done then; --phase NAME, "
               "--device N: of others; --full: the file, for pipes\n");
}
