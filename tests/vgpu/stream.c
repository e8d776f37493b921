/* stream.c: Ops, and the order in which they run. An Op is ready when all Ops before it are done; of a sum over devices, when
 * all its members are. Which ready one runs is drawn; some chains are kept waiting for a while, others run ahead. */
#include "tests/vgpu/vgpu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CHAINS = 4096 };

pthread_mutex_t vgpu_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t issued = PTHREAD_COND_INITIALIZER;
static Op *pending; /* all that are not done, the last issued first */
static Op **ready;
static int ready_count, ready_room;
static Op *paused[VGPU_DEVICES * 4]; /* kernels that wait for memory that another one is to write */
static int paused_count;
static uint32_t priority[CHAINS];

/* ---- labels and names */

Label *vgpu_share_label(Label *l)
{
    if (l)
        l->references++;
    return l;
}

void vgpu_drop_label(Label *l)
{
    if (l && --l->references == 0) {
        free(l->ranges);
        free(l);
    }
}

Actor vgpu_actor(const Op *op)
{
    return (Actor){op->chain, op->time, op->work.label ? op->work.label->name : NULL, op->work.what};
}

const char *vgpu_name(const Actor *a, char *text, size_t room)
{
    if (a->operation)
        snprintf(text, room, "%s (%s)", a->operation, a->what);
    else
        snprintf(text, room, "%s", a->what);
    return text;
}

/* ---- Ops */

void vgpu_free_work(Work *w)
{
    if (w->kind == OP_LAUNCH)
        free(w->call.values);
    else if (w->kind == OP_COPY)
        free(w->copy.kept);
    else if (w->kind == OP_LIBRARY)
        free(w->library.data);
    else if (w->kind == OP_COLLECTIVE && w->part.kept)
        w->part.kept->drop(w->part.kept);
    vgpu_drop_label(w->label);
}

Op *vgpu_hold(Op *op)
{
    if (op)
        op->references++;
    return op;
}

void vgpu_let_go(Op *op)
{
    if (!op || --op->references)
        return;
    vgpu_free_work(&op->work);
    for (int i = 0; i < op->before_count; i++)
        vgpu_let_go(op->before[i]);
    free(op->before);
    free(op->after);
    vgpu_drop(op->host);
    vgpu_drop(op->clock);
    free(op);
}

static void add_edge(Op *op, Op *before)
{
    if (!before)
        return;
    op->before = realloc(op->before, (size_t)(op->before_count + 1) * sizeof *op->before);
    op->before[op->before_count++] = vgpu_hold(before);
    if (before->done)
        return;
    before->after = realloc(before->after, (size_t)(before->after_count + 1) * sizeof *before->after);
    before->after[before->after_count++] = op;
    op->unmet++;
}

static void add_ready(Op *op)
{
    if (ready_count == ready_room) {
        ready_room = ready_room ? 2 * ready_room : 64;
        ready = realloc(ready, (size_t)ready_room * sizeof *ready);
    }
    ready[ready_count++] = op;
}

static void make_ready(Op *op)
{
    Gathering *g = op->work.kind == OP_COLLECTIVE ? op->work.part.gathering : NULL;
    if (g && ++g->ready < g->members)
        return;
    if (g && g->begin && !g->begin(g))
        g->away = true;
    else
        add_ready(op);
}

void vgpu_gather_on(Gathering *g)
{
    g->away = false;
    add_ready(g->op[0]);
    pthread_cond_broadcast(&issued);
}

Op *vgpu_issue_node(int chain, VirtualDevice *d, Work work, Op *const *before, int count)
{
    Op *op = calloc(1, sizeof *op);
    if (!op)
        abort();
    work.device = d;
    *op = (Op){.work = work,
               .references = 2 /* the caller's, that of `pending` */,
               .chain = chain,
               .host = vgpu_share(vgpu_host_clock()),
               .next = pending};
    for (int i = 0; i < count; i++)
        add_edge(op, before[i]);
    if (pending)
        pending->previous = op;
    pending = op;
    if (work.kind == OP_COLLECTIVE)
        work.part.gathering->op[work.part.member] = vgpu_hold(op);
    if (op->unmet == 0)
        make_ready(op);
    pthread_cond_broadcast(&issued);
    return op;
}

Op *vgpu_issue(CUstream s, Work work, Op *const *more, int count)
{
    Op **before = malloc((size_t)(count + 1) * sizeof *before);
    before[0] = s->last;
    for (int i = 0; i < count; i++)
        before[i + 1] = more[i];
    Op *op = vgpu_issue_node(s->chain, s->device, work, before, count + 1);
    free(before);
    vgpu_follow(s, op);
    if (vgpu_machine.order == ORDER_ISSUED)
        vgpu_advance(1 << 30);
    return op;
}

/* takes the reference */
void vgpu_follow(CUstream s, Op *op)
{
    vgpu_let_go(s->last);
    s->last = op;
}

/* ---- running */

static Clock *clock_before(const Op *op)
{
    Clock *c = vgpu_join(NULL, op->host);
    for (int i = 0; i < op->before_count; i++)
        c = vgpu_join(c, op->before[i]->clock);
    return c;
}

static void set_clock(Op *op, Clock *c)
{
    op->time = vgpu_tick(op->chain);
    c->at[op->chain] = op->time;
    op->clock = c;
}

static double begin_of(const Op *op)
{
    double begin = 0;
    for (int i = 0; i < op->before_count; i++)
        begin = op->before[i]->end_us > begin ? op->before[i]->end_us : begin;
    return begin;
}

/* others have done something: they look again */
static void wake(void)
{
    while (paused_count > 0)
        add_ready(paused[--paused_count]);
}

static void pause_op(Op *op)
{
    if (paused_count == VGPU_DEVICES * 4)
        abort();
    paused[paused_count++] = op;
}

static void complete(Op *op)
{
    wake();
    op->done = true;
    for (int i = 0; i < op->before_count; i++)
        vgpu_let_go(op->before[i]);
    op->before_count = 0;
    for (int i = 0; i < op->after_count; i++)
        if (--op->after[i]->unmet == 0)
            make_ready(op->after[i]);
    op->after_count = 0;
    if (op->previous)
        op->previous->next = op->next;
    else
        pending = op->next;
    if (op->next)
        op->next->previous = op->previous;
    op->previous = op->next = NULL;
    vgpu_let_go(op);
}

/* the members of a sum come before all that follows any of them */
static void run_gathering(Gathering *g)
{
    Clock *c = NULL;
    double begin = 0;
    for (int m = 0; m < g->members; m++) {
        Clock *one = clock_before(g->op[m]);
        c = vgpu_join(c, one);
        vgpu_drop(one);
        begin = begin_of(g->op[m]) > begin ? begin_of(g->op[m]) : begin;
    }
    for (int m = 0; m < g->members; m++) {
        g->op[m]->time = vgpu_tick(g->op[m]->chain);
        c->at[g->op[m]->chain] = g->op[m]->time;
    }
    for (int m = 0; m < g->members; m++) {
        g->op[m]->clock = vgpu_share(c);
        g->op[m]->end_us = begin;
    }
    vgpu_drop(c);
    Op *members[VGPU_DEVICES];
    memcpy(members, g->op, sizeof members);
    int count = g->members;
    g->run(g); /* frees it */
    for (int m = 0; m < count; m++) {
        complete(members[m]);
        vgpu_let_go(members[m]);
    }
}

static Op *pick(void)
{
    int best = 0;
    if (vgpu_machine.order == ORDER_RANDOM) {
        uint64_t r = vgpu_random();
        best = (int)((r >> 32) % (uint64_t)ready_count);
        for (int i = 0; i < ready_count && (r & 7) != 0; i++)
            if (priority[ready[i]->chain] > priority[ready[best]->chain])
                best = i;
        if ((r >> 3 & 15) == 0) /* from now on others have their turn */
            priority[ready[best]->chain] = (uint32_t)(vgpu_random() >> 40);
    }
    Op *op = ready[best];
    memmove(ready + best, ready + best + 1, (size_t)(--ready_count - best) * sizeof *ready);
    return op;
}

static void run_one(void)
{
    Op *op = pick();
    if (op->work.kind == OP_COLLECTIVE) {
        run_gathering(op->work.part.gathering);
        return;
    }
    vgpu_hold(op);
    bool first = !op->again;
    vgpu_drop(op->clock);
    set_clock(op, clock_before(op));
    op->end_us = begin_of(op);
    op->hangs = !vgpu_execute(op);
    if (op->again && first)
        wake();
    if (op->again)
        pause_op(op);
    else if (!op->hangs)
        complete(op);
    vgpu_let_go(op);
}

void vgpu_advance(int ops)
{
    while (ready_count > 0 && ops-- > 0)
        run_one();
}

/* ---- waiting */

enum { LONGEST_CHAIN = 4096 };
typedef struct Chain {
    const Op *op[LONGEST_CHAIN];
    int count;
} Chain; /* who waits for whom */

/* has the chain `op`, or one of its name, as operations of other steps have? */
static bool has(const Chain *c, const Op *op, bool by_name)
{
    char name[160], other[160];
    Actor a = vgpu_actor(op);
    vgpu_name(&a, name, sizeof name);
    for (int i = 0; i < c->count; i++) {
        Actor b = vgpu_actor(c->op[i]);
        if (c->op[i] == op || (by_name && strcmp(vgpu_name(&b, other, sizeof other), name) == 0))
            return true;
    }
    return false;
}

static const Op *waits_for(const Op *op)
{
    for (int i = 0; i < op->before_count; i++)
        if (!op->before[i]->done)
            return op->before[i];
    const Gathering *g = op->work.kind == OP_COLLECTIVE ? op->work.part.gathering : NULL;
    for (int m = 0; g && m < g->members; m++)
        if (!g->op[m])
            return NULL;
    for (int m = 0; g && m < g->members; m++)
        if (g->op[m]->unmet > 0)
            return g->op[m];
    return NULL;
}

/* why the last of a chain does not run; true: for a member that nobody has issued, or for what has no end */
static bool explain_last(const Op *op, char *text, size_t room)
{
    const Gathering *g = op->work.kind == OP_COLLECTIVE ? op->work.part.gathering : NULL;
    for (int m = 0; g && m < g->members; m++)
        if (!g->op[m]) {
            snprintf(text, room, "member %d of %s, which has not begun it", m, g->name);
            return true;
        }
    if (g && g->away) {
        snprintf(text, room, "%s of other processes", g->name);
        return true;
    }
    snprintf(text, room, "%s",
             op->hangs   ? "its own end, which does not come"
             : op->again ? "memory that no kernel has written"
                         : "nothing");
    return op->hangs || op->again;
}

/* why `op` cannot run, as a list of who waits for whom, each name once, and of the last one; true as of explain_last */
static bool explain(const Op *op, char *text, size_t room)
{
    enum { FOR_THE_LAST = 400 };
    static Chain chain; /* with the lock */
    bool brief = false;
    size_t used = 0;
    char name[160];
    for (chain.count = 0; op; op = waits_for(op)) {
        const Op *next = waits_for(op);
        bool again = has(&chain, op, false);
        Actor a = vgpu_actor(op);
        vgpu_name(&a, name, sizeof name);
        if (again || chain.count == LONGEST_CHAIN) {
            snprintf(text + used, room - used, "%s%s again", brief ? "others, the last for " : "", name);
            return false;
        }
        brief = brief || has(&chain, op, true) || used + FOR_THE_LAST > room;
        if (!brief || !next)
            used += (size_t)snprintf(text + used, room - used, "%s%s of device %d, which waits for ",
                                     brief ? "others, the last for " : "", name, op->work.device->number);
        chain.op[chain.count++] = op;
        if (!next)
            return explain_last(op, text + used, room - used);
    }
    return false;
}

/* nothing is ready: others may issue what is missing, or nobody ever will */
static bool wait_for_others(const Op *op)
{
    char text[900] = "";
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)vgpu_machine.patience;
    until.tv_nsec += (long)((vgpu_machine.patience - (double)(time_t)vgpu_machine.patience) * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    bool missing = explain(op, text, sizeof text);
    if (missing && pthread_cond_timedwait(&issued, &vgpu_lock, &until) != ETIMEDOUT)
        return true;
    if (op->done || ready_count > 0)
        return true;
    vgpu_violation(NULL, CUDA_ERROR_LAUNCH_FAILED, "deadlock", "the host waits for %s", text);
    return false;
}

static bool run_until(const Op *op)
{
    bool goes_on = true;
    while (!op->done && goes_on) {
        if (ready_count > 0)
            run_one();
        else
            goes_on = wait_for_others(op);
    }
    return goes_on;
}

bool vgpu_finish(Op *op)
{
    if (!op)
        return true;
    vgpu_hold(op);
    bool goes_on = run_until(op);
    if (op->done)
        vgpu_know(op);
    vgpu_let_go(op);
    return goes_on;
}

bool vgpu_finish_issued(void)
{
    int count = 0;
    bool goes_on = true;
    for (const Op *op = pending; op; op = op->next)
        count++;
    Op **issued_ops = malloc((size_t)(count + 1) * sizeof *issued_ops);
    count = 0;
    for (Op *op = pending; op; op = op->next)
        issued_ops[count++] = vgpu_hold(op);
    while (count-- > 0) {
        goes_on = goes_on && run_until(issued_ops[count]);
        vgpu_let_go(issued_ops[count]);
    }
    free(issued_ops);
    return goes_on;
}

bool vgpu_finish_device(VirtualDevice *d)
{
    for (Op *op = pending; op;) {
        bool here = op->work.device == d;
        if (here && !vgpu_finish(op))
            return false;
        op = here ? pending : op->next;
    }
    return true;
}

/* ---- what is still to be done with memory of the host */

/* a function of the host touches what is declared, or may touch anything */
static bool may_touch(const Op *op, uintptr_t begin, size_t bytes, bool writes)
{
    const Label *l = op->work.label;
    bool may = op->work.kind == OP_HOST && (!l || l->count < 0);
    for (int k = 0; op->work.kind == OP_HOST && l && k < l->count && !may; k++)
        may = (l->ranges[k].writes != 0) == writes && l->ranges[k].begin < begin + bytes && begin < l->ranges[k].end;
    uintptr_t at = writes ? op->work.copy.to : op->work.copy.from;
    return may || (op->work.kind == OP_COPY && at < begin + bytes && begin < at + op->work.copy.bytes);
}

static bool is_pending(uintptr_t begin, size_t bytes, bool writes)
{
    for (const Op *op = pending; op; op = op->next)
        if (may_touch(op, begin, bytes, writes))
            return true;
    return false;
}

bool vgpu_pending_write(uintptr_t begin, size_t bytes) { return is_pending(begin, bytes, true); }
bool vgpu_pending_read(uintptr_t begin, size_t bytes) { return is_pending(begin, bytes, false); }
