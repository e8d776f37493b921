/* mgpu_vgpu_block.h: a block of threads on one core, for mgpu_vgpu.h: barriers, warps, asynchronous copies, launches.
 *
 * A thread of a block is a fiber only where it has to be. A fiber runs one thread after the other in a loop; a thread that
 * has to wait keeps its fiber, and another one goes on with the loop. So blocks without barriers are plain loops, with no
 * annotation and nothing run twice, and a barrier costs a switch of stacks per thread. Blocks run in an order that the seed
 * chooses; so do the threads of a block. */
#ifndef MGPU_VGPU_BLOCK_H
#define MGPU_VGPU_BLOCK_H

#include <sys/mman.h>

enum {
    MGPU_VGPU_STACK = 256 * 1024,       /* of a fiber; touched pages alone take memory */
    MGPU_VGPU_LANE_BYTES = 64,          /* what a lane gives away in an operation of its warp, at most */
    MGPU_VGPU_BARRIERS = 16,            /* of a block, as in PTX */
    MGPU_VGPU_COPIES = 256,             /* asynchronous copies of a thread in flight */
    MGPU_VGPU_MAP = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
};

struct mgpu_vgpu_fiber {
    void *stack_pointer;
    char *stack;
    mgpu_vgpu_fiber *next;              /* in the list of those that are idle, or ready, or wait for the same */
    unsigned thread;                    /* that it runs */
};
struct mgpu_vgpu_queue { mgpu_vgpu_fiber *first, *last; };
struct mgpu_vgpu_barrier {
    unsigned arrived, expected;
    int line;
    int value, result, how;             /* how: 0 none, else the operator of __syncthreads_and, _or, _count */
    mgpu_vgpu_queue waiting;
};
/* An operation that lanes of a warp do together; after the last has arrived `left` is how many have not yet read. */
struct mgpu_vgpu_meeting {
    bool used;
    uint32_t mask, arrived, done;
    unsigned left, bytes;
    int kind, line;
    mgpu_vgpu_queue waiting;
    alignas(16) char lane[MGPU_VGPU_WARP][MGPU_VGPU_LANE_BYTES];
};
struct mgpu_vgpu_warp { uint32_t present; int open; mgpu_vgpu_meeting meeting[MGPU_VGPU_WARP]; };
struct mgpu_vgpu_copy { void *to; const void *from; unsigned bytes, zeros; int group; };
struct mgpu_vgpu_copies { int count, groups; mgpu_vgpu_copy copy[MGPU_VGPU_COPIES]; };

/* All state of a module. It has an initial value, so that it is not in .bss: all of .bss is shared memory. */
struct mgpu_vgpu_engine {
    int ready_first;
    mgpu_vgpu_launch *launch;
    void (*call)(void *const *);
    mgpu_vgpu_fiber *fiber, *idle;      /* the running one; those without a thread */
    mgpu_vgpu_fiber *fibers[MGPU_VGPU_THREADS + 1];
    int fiber_count;
    void *launcher;                     /* stack pointer of who called the entry */
    mgpu_vgpu_queue ready, paused;      /* paused: they wait for memory that another kernel is to write */
    unsigned threads, begun, ended, turn;
    bool descending, failed;
    uint64_t blocks, next_block, last_block, stride, offset, random, begins; /* begins: these blocks run; 0: all */
    mgpu_vgpu_barrier barrier[MGPU_VGPU_BARRIERS];
    mgpu_vgpu_warp *warps;
    mgpu_vgpu_copies *copies[MGPU_VGPU_THREADS];
    char *shared;
};
__attribute__((section(".data.mgpu_vgpu"))) static mgpu_vgpu_engine mgpu_vgpu_e = {1};
__attribute__((section(".data.mgpu_vgpu"))) static mgpu_vgpu_now mgpu_vgpu_n = {};
#ifdef MGPU_VGPU_STATICS_ELSEWHERE /* static shared memory is a part of what the launch asks for */
static char *const mgpu_vgpu_statics = NULL, *const mgpu_vgpu_statics_end = NULL;
#else
extern "C" char __bss_start[] __attribute__((visibility("hidden")));
extern "C" char _end[] __attribute__((visibility("hidden")));
static char *const mgpu_vgpu_statics = __bss_start, *const mgpu_vgpu_statics_end = _end;
#endif

#define MGPU_VGPU_ENGINE static __attribute__((noinline)) MGPU_VGPU_OWN

/* ---- stacks */

MGPU_VGPU_ENGINE void mgpu_vgpu_work(void);

#if defined MGPU_VGPU_UCONTEXT || !(defined __x86_64__ || defined __aarch64__) /* slower: it asks the kernel for the signal mask */
#include <ucontext.h>
MGPU_VGPU_ENGINE void mgpu_vgpu_switch(void **from, void *to)
{
    ucontext_t here;
    *from = &here;
    swapcontext(&here, (ucontext_t *)to);
}
/* the context of a stack that begins with `body` is at its top */
MGPU_VGPU_ENGINE void *mgpu_vgpu_new_stack(char *bottom, char *top, void (*body)(void))
{
    ucontext_t *c = (ucontext_t *)(top - (sizeof *c + 63) / 64 * 64);
    getcontext(c);
    c->uc_stack.ss_sp = bottom;
    c->uc_stack.ss_size = (size_t)((char *)c - bottom);
    c->uc_link = NULL;
    makecontext(c, body, 0);
    return c;
}
#else
extern "C" void mgpu_vgpu_switch(void **from, void *to) __attribute__((visibility("hidden")));
extern "C" void mgpu_vgpu_start(void) __attribute__((visibility("hidden")));
#ifdef __x86_64__
asm(".pushsection .text\n"
    ".hidden mgpu_vgpu_switch\n.globl mgpu_vgpu_switch\n.type mgpu_vgpu_switch, @function\n"
    "mgpu_vgpu_switch:\n"
    "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
    "    movq %rsp, (%rdi)\n    movq %rsi, %rsp\n"
    "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n    ret\n"
    ".size mgpu_vgpu_switch, . - mgpu_vgpu_switch\n"
    ".hidden mgpu_vgpu_start\n.globl mgpu_vgpu_start\n.type mgpu_vgpu_start, @function\n"
    "mgpu_vgpu_start:\n    pushq $0\n    jmp *%rbx\n"
    ".size mgpu_vgpu_start, . - mgpu_vgpu_start\n"
    ".popsection\n");
enum { MGPU_VGPU_SAVED = 7, MGPU_VGPU_BODY = 4, MGPU_VGPU_LINK = 6 }; /* words: r15 r14 r13 r12 rbx rbp, where to return to */
#else
asm(".pushsection .text\n"
    ".hidden mgpu_vgpu_switch\n.globl mgpu_vgpu_switch\n.type mgpu_vgpu_switch, %function\n"
    "mgpu_vgpu_switch:\n"
    "    sub sp, sp, #160\n"
    "    stp x19, x20, [sp, #0]\n    stp x21, x22, [sp, #16]\n    stp x23, x24, [sp, #32]\n    stp x25, x26, [sp, #48]\n"
    "    stp x27, x28, [sp, #64]\n    stp x29, x30, [sp, #80]\n"
    "    stp d8, d9, [sp, #96]\n    stp d10, d11, [sp, #112]\n    stp d12, d13, [sp, #128]\n    stp d14, d15, [sp, #144]\n"
    "    mov x9, sp\n    str x9, [x0]\n    mov sp, x1\n"
    "    ldp x19, x20, [sp, #0]\n    ldp x21, x22, [sp, #16]\n    ldp x23, x24, [sp, #32]\n    ldp x25, x26, [sp, #48]\n"
    "    ldp x27, x28, [sp, #64]\n    ldp x29, x30, [sp, #80]\n"
    "    ldp d8, d9, [sp, #96]\n    ldp d10, d11, [sp, #112]\n    ldp d12, d13, [sp, #128]\n    ldp d14, d15, [sp, #144]\n"
    "    add sp, sp, #160\n    ret\n"
    ".size mgpu_vgpu_switch, . - mgpu_vgpu_switch\n"
    ".hidden mgpu_vgpu_start\n.globl mgpu_vgpu_start\n.type mgpu_vgpu_start, %function\n"
    "mgpu_vgpu_start:\n    mov x30, xzr\n    br x19\n"
    ".size mgpu_vgpu_start, . - mgpu_vgpu_start\n"
    ".popsection\n");
enum { MGPU_VGPU_SAVED = 20, MGPU_VGPU_BODY = 0, MGPU_VGPU_LINK = 11 };
#endif
/* the stack pointer of a stack that begins with `body`; aligned to 16 bytes there */
MGPU_VGPU_ENGINE void *mgpu_vgpu_new_stack(char *, char *top, void (*body)(void))
{
    void **words = (void **)top - MGPU_VGPU_SAVED;
    memset(words, 0, MGPU_VGPU_SAVED * sizeof *words);
    words[MGPU_VGPU_BODY] = (void *)body;
    words[MGPU_VGPU_LINK] = (void *)mgpu_vgpu_start;
    return words;
}
#endif

/* a fiber at the beginning of its loop. Tops of stacks differ, so that threads do not share a set of the cache */
MGPU_VGPU_ENGINE void mgpu_vgpu_reset_fiber(mgpu_vgpu_fiber *f, int index)
{
    f->stack_pointer = mgpu_vgpu_new_stack(f->stack, f->stack + MGPU_VGPU_STACK - 64 - 192 * (index % 61 + 1), mgpu_vgpu_work);
    f->next = mgpu_vgpu_e.idle;
    mgpu_vgpu_e.idle = f;
}

MGPU_VGPU_ENGINE void mgpu_vgpu_no_memory(void)
{
    fprintf(stderr, "virtual GPU: no memory for the threads of a block\n");
    abort();
}

MGPU_VGPU_ENGINE mgpu_vgpu_fiber *mgpu_vgpu_idle_fiber(void)
{
    mgpu_vgpu_engine &e = mgpu_vgpu_e;
    if (!e.idle) {
        mgpu_vgpu_fiber *f = (mgpu_vgpu_fiber *)malloc(sizeof *f);
        void *stack = mmap(NULL, MGPU_VGPU_STACK, PROT_READ | PROT_WRITE, MGPU_VGPU_MAP, -1, 0);
        if (!f || stack == MAP_FAILED)
            mgpu_vgpu_no_memory();
        mprotect(stack, 4096, PROT_NONE);
        f->stack = (char *)stack;
        e.fibers[e.fiber_count] = f;
        mgpu_vgpu_reset_fiber(f, e.fiber_count++);
    }
    mgpu_vgpu_fiber *f = e.idle;
    e.idle = f->next;
    return f;
}

/* ---- what goes wrong */

MGPU_VGPU_ENGINE void mgpu_vgpu_leave(void)
{
    mgpu_vgpu_e.failed = true;
    void *nobody;
    mgpu_vgpu_switch(&nobody, mgpu_vgpu_e.launcher);
    __builtin_unreachable();
}

MGPU_VGPU_ENGINE void mgpu_vgpu_fail(const char *kind, int line, const char *what)
{
    mgpu_vgpu_launch *l = mgpu_vgpu_e.launch;
    unsigned long long b = mgpu_vgpu_n.block;
    char text[512];
    snprintf(text, sizeof text, "kernel %s, line %d, block %llu, thread %u: %s", l->name, line, b, mgpu_vgpu_n.thread, what);
    if (l->report)
        l->report(l, kind, text);
    else
        fprintf(stderr, "virtual GPU: %s: %s\n", kind, text);
    mgpu_vgpu_leave();
}

/* ---- threads */

MGPU_VGPU_ENGINE uint64_t mgpu_vgpu_random(void)
{
    uint64_t z = mgpu_vgpu_e.random += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static inline MGPU_VGPU_OWN void mgpu_vgpu_append(mgpu_vgpu_queue *q, mgpu_vgpu_fiber *f)
{
    f->next = NULL;
    *(q->first ? &q->last->next : &q->first) = f;
    q->last = f;
}

static inline MGPU_VGPU_OWN void mgpu_vgpu_release(mgpu_vgpu_queue *waiting)
{
    mgpu_vgpu_queue *ready = &mgpu_vgpu_e.ready;
    if (waiting->first) {
        *(ready->first ? &ready->last->next : &ready->first) = waiting->first;
        ready->last = waiting->last;
        waiting->first = NULL;
    }
}

static inline MGPU_VGPU_OWN void mgpu_vgpu_be(unsigned thread)
{
    const dim3 &d = mgpu_vgpu_built_in_variables.threads;
    uint3 &t = mgpu_vgpu_built_in_variables.thread;
    mgpu_vgpu_n.thread = thread;
    if (thread < d.x)
        t = {thread, 0, 0};
    else
        t = {thread % d.x, thread / d.x % d.y, thread / d.x / d.y};
}

MGPU_VGPU_ENGINE bool mgpu_vgpu_next_block(void)
{
    mgpu_vgpu_engine &e = mgpu_vgpu_e;
    if (e.next_block == e.last_block)
        return false;
    uint64_t b = e.next_block++ * e.stride % e.blocks + e.offset;
    b -= b >= e.blocks ? e.blocks : 0;
    if (e.begins && b < 64 && !(e.begins >> b & 1))
        return mgpu_vgpu_next_block();
    const dim3 &g = mgpu_vgpu_built_in_variables.blocks;
    mgpu_vgpu_built_in_variables.block = {(unsigned)(b % g.x), (unsigned)(b / g.x % g.y), (unsigned)(b / g.x / g.y)};
    mgpu_vgpu_now &n = mgpu_vgpu_n;
    n.block = b;
    n.blocks_begun++;
    n.time = n.block_time = 0;
    memset(n.warp_time, 0, sizeof n.warp_time);
    memset(n.warp_met, 0, sizeof n.warp_met);
    e.begun = e.ended = 0;
    if (e.launch->seed) {
        uint64_t r = mgpu_vgpu_random();
        e.descending = r & 1;
        e.ready_first = r >> 1 & 1;
        e.turn = (unsigned)(r >> 32) % ((e.threads + 31) / 32) * 32;
    }
    for (unsigned w = 0; w * 32 < e.threads; w++)
        e.warps[w].present = e.threads - w * 32 >= 32 ? ~0u : (1u << (e.threads - w * 32)) - 1;
    if (e.launch->begin_block)
        e.launch->begin_block(e.launch);
    return true;
}

MGPU_VGPU_ENGINE void mgpu_vgpu_end_thread(void);
MGPU_VGPU_ENGINE void mgpu_vgpu_stuck(void);

/* the fiber that goes on: one that is ready, or an idle one for the threads that have not begun */
MGPU_VGPU_ENGINE mgpu_vgpu_fiber *mgpu_vgpu_next_fiber(void)
{
    mgpu_vgpu_engine &e = mgpu_vgpu_e;
    mgpu_vgpu_fiber *f = e.ready.first;
    if (e.begun < e.threads && !(f && e.ready_first))
        return mgpu_vgpu_idle_fiber();
    if (!f)
        mgpu_vgpu_stuck();
    e.ready.first = f->next;
    return f;
}

static inline MGPU_VGPU_OWN void mgpu_vgpu_switch_to(mgpu_vgpu_fiber *f)
{
    mgpu_vgpu_fiber *self = mgpu_vgpu_e.fiber;
    mgpu_vgpu_e.fiber = f;
    mgpu_vgpu_switch(&self->stack_pointer, f->stack_pointer);
}

/* the body of every fiber */
MGPU_VGPU_ENGINE void mgpu_vgpu_work(void)
{
    mgpu_vgpu_engine &e = mgpu_vgpu_e;
    mgpu_vgpu_fiber *self = e.fiber;
    for (;;) {
        if (e.begun < e.threads && !(e.ready.first && e.ready_first)) {
            unsigned k = e.begun++, t = (e.descending ? e.threads - 1 - k : k) + e.turn;
            mgpu_vgpu_be(t >= e.threads ? t - e.threads : t);
            e.call(e.launch->params);
            mgpu_vgpu_end_thread();
        } else if (e.ready.first) {
            mgpu_vgpu_fiber *f = e.ready.first;
            e.ready.first = f->next;
            self->next = e.idle;
            e.idle = self;
            mgpu_vgpu_switch_to(f);
        } else if (e.ended < e.threads)
            mgpu_vgpu_stuck();
        else if (!mgpu_vgpu_next_block()) {
            self->next = e.idle;
            e.idle = self;
            mgpu_vgpu_switch(&self->stack_pointer, e.launcher);
        }
    }
}

/* the running thread waits in q */
MGPU_VGPU_ENGINE void mgpu_vgpu_wait(mgpu_vgpu_queue *q)
{
    mgpu_vgpu_fiber *self = mgpu_vgpu_e.fiber;
    unsigned thread = mgpu_vgpu_n.thread;
    mgpu_vgpu_append(q, self);
    self->thread = thread;
    mgpu_vgpu_switch_to(mgpu_vgpu_next_fiber());
    mgpu_vgpu_be(thread);
}

/* The running thread waits for memory that another kernel is to write: others of its block go on. The block is left where none
 * can, and begun again with the next launch, as kernels run one after the other here; until then it may have written nothing that
 * it reads itself. */
MGPU_VGPU_ENGINE void mgpu_vgpu_pause(void) { mgpu_vgpu_wait(&mgpu_vgpu_e.paused); }

/* nobody can go on */
MGPU_VGPU_ENGINE void mgpu_vgpu_stuck(void)
{
    mgpu_vgpu_engine &e = mgpu_vgpu_e;
    char text[256];
    if (e.paused.first && mgpu_vgpu_n.block < 64) {
        e.launch->again |= 1ull << mgpu_vgpu_n.block;
        mgpu_vgpu_leave();
    }
#ifdef MGPU_VGPU_ALSO_STUCK /* there is more that threads wait for */
    MGPU_VGPU_ALSO_STUCK();
#endif
    for (int k = 0; k < MGPU_VGPU_BARRIERS; k++)
        if (e.barrier[k].waiting.first) {
            mgpu_vgpu_be(e.barrier[k].waiting.first->thread);
            snprintf(text, sizeof text, "%u threads wait at barrier %d for %u others, %u of which have ended", e.barrier[k].arrived, k,
                     e.barrier[k].expected - e.barrier[k].arrived, e.ended);
            mgpu_vgpu_fail("barrier", e.barrier[k].line, text);
        }
    for (unsigned w = 0; w * 32 < e.threads; w++)
        for (int k = 0; k < MGPU_VGPU_WARP; k++) {
            mgpu_vgpu_meeting *m = &e.warps[w].meeting[k];
            if (m->used && m->waiting.first) {
                mgpu_vgpu_be(m->waiting.first->thread);
                snprintf(text, sizeof text, "lanes %08x of warp %u wait for lanes %08x, which the mask names", m->arrived, w,
                         m->mask & e.warps[w].present & ~m->arrived);
                mgpu_vgpu_fail("lanes", m->line, text);
            }
        }
    mgpu_vgpu_fail("stuck", 0, "no thread can go on");
}

/* ---- barriers */

enum { MGPU_VGPU_SYNC, MGPU_VGPU_SYNC_COUNT, MGPU_VGPU_SYNC_AND, MGPU_VGPU_SYNC_OR };

MGPU_VGPU_ENGINE int mgpu_vgpu_arrive(int id, unsigned expected, int how, int value, bool waits, int line)
{
    mgpu_vgpu_barrier *b = &mgpu_vgpu_e.barrier[id];
    if (b->arrived == 0) {
        b->expected = expected;
        b->line = line;
        b->how = how;
        b->value = how == MGPU_VGPU_SYNC_AND;
    } else if (b->expected != expected || b->how != how || (id == 0 && b->line != line)) {
        char text[128];
        snprintf(text, sizeof text, "threads meet at different barriers: others wait at that of line %d", b->line);
        mgpu_vgpu_fail("barrier", line, text);
    }
    b->value = how == MGPU_VGPU_SYNC_AND ? b->value & (value != 0) : how == MGPU_VGPU_SYNC_OR ? b->value | (value != 0) : b->value + (value != 0);
    if (++b->arrived < b->expected) {
        if (waits)
            mgpu_vgpu_wait(&b->waiting);
    } else {
        b->arrived = 0;
        b->result = b->value; /* nobody arrives again before all have read it: it takes all to set it */
        mgpu_vgpu_n.block_time = ++mgpu_vgpu_n.time;
        mgpu_vgpu_release(&b->waiting);
    }
    return b->result;
}

static inline void __syncthreads(int line = __builtin_LINE())
{
    mgpu_vgpu_arrive(0, mgpu_vgpu_e.threads, MGPU_VGPU_SYNC, 0, true, line);
}
static inline int __syncthreads_count(int v, int line = __builtin_LINE())
{
    return mgpu_vgpu_arrive(0, mgpu_vgpu_e.threads, MGPU_VGPU_SYNC_COUNT, v, true, line);
}
static inline int __syncthreads_and(int v, int line = __builtin_LINE())
{
    return mgpu_vgpu_arrive(0, mgpu_vgpu_e.threads, MGPU_VGPU_SYNC_AND, v, true, line);
}
static inline int __syncthreads_or(int v, int line = __builtin_LINE())
{
    return mgpu_vgpu_arrive(0, mgpu_vgpu_e.threads, MGPU_VGPU_SYNC_OR, v, true, line);
}
/* bar.sync id, threads and bar.arrive id, threads */
static inline void mgpu_vgpu_barrier_sync(int id, unsigned threads, int line = __builtin_LINE())
{
    mgpu_vgpu_arrive(id, threads, MGPU_VGPU_SYNC, 0, true, line);
}
static inline void mgpu_vgpu_barrier_arrive(int id, unsigned threads, int line = __builtin_LINE())
{
    mgpu_vgpu_arrive(id, threads, MGPU_VGPU_SYNC, 0, false, line);
}

/* ---- launches */

enum { MGPU_VGPU_SYNC_WARP, MGPU_VGPU_SHUFFLE, MGPU_VGPU_VOTE, MGPU_VGPU_GATHER };

/* all lanes of a meeting have come */
static inline MGPU_VGPU_OWN void mgpu_vgpu_meet(mgpu_vgpu_meeting *m)
{
    unsigned warp = mgpu_vgpu_n.thread / MGPU_VGPU_WARP;
    mgpu_vgpu_n.warp_met[warp] = ++mgpu_vgpu_n.time;
    if (m->kind == MGPU_VGPU_SYNC_WARP)
        mgpu_vgpu_n.warp_time[warp] = mgpu_vgpu_n.time;
    m->done = m->arrived;
    m->left = (unsigned)__popc(m->arrived);
    mgpu_vgpu_release(&m->waiting);
}

MGPU_VGPU_ENGINE void mgpu_vgpu_end_thread(void)
{
    mgpu_vgpu_engine &e = mgpu_vgpu_e;
    unsigned thread = mgpu_vgpu_n.thread;
    mgpu_vgpu_warp *w = &e.warps[thread / MGPU_VGPU_WARP];
    e.ended++;
    w->present &= ~(1u << thread % MGPU_VGPU_WARP);
    for (int k = 0; k < MGPU_VGPU_WARP && w->open; k++) { /* who ends is not waited for */
        mgpu_vgpu_meeting *m = &w->meeting[k];
        if (m->used && !m->done && (m->mask & w->present & ~m->arrived) == 0)
            mgpu_vgpu_meet(m);
    }
    if (e.copies[thread] && e.copies[thread]->count) {
        e.copies[thread]->count = 0;
        mgpu_vgpu_fail("copy", 0, "the thread ended and had not waited for its asynchronous copies");
    }
}

static uint64_t mgpu_vgpu_common(uint64_t a, uint64_t b) { return b ? mgpu_vgpu_common(b, a % b) : a; }

/* nothing that threads were at is left */
MGPU_VGPU_ENGINE void mgpu_vgpu_clear(void)
{
    mgpu_vgpu_engine &e = mgpu_vgpu_e;
    e.idle = NULL;
    e.ready.first = e.paused.first = NULL;
    for (int k = 0; k < e.fiber_count; k++)
        mgpu_vgpu_reset_fiber(e.fibers[k], k);
    memset(e.barrier, 0, sizeof e.barrier);
    for (int w = 0; w < MGPU_VGPU_WARPS; w++)
        for (int k = e.warps[w].open = 0; k < MGPU_VGPU_WARP; k++)
            e.warps[w].meeting[k].used = false;
    for (int k = 0; k < MGPU_VGPU_THREADS; k++)
        if (e.copies[k])
            e.copies[k]->count = e.copies[k]->groups = 0;
}

MGPU_VGPU_ENGINE int mgpu_vgpu_run(mgpu_vgpu_launch *launch, void (*call)(void *const *))
{
    mgpu_vgpu_engine &e = mgpu_vgpu_e;
    e.launch = launch;
    e.call = call;
    const unsigned *g = launch->grid, *b = launch->block;
    mgpu_vgpu_built_in_variables.blocks = dim3(g[0], g[1], g[2]);
    mgpu_vgpu_built_in_variables.threads = dim3(b[0], b[1], b[2]);
    e.blocks = (uint64_t)g[0] * g[1] * g[2];
    e.threads = b[0] * b[1] * b[2];
    e.failed = false;
    e.ready.first = e.paused.first = NULL;
    e.begins = launch->again;
    launch->again = 0;
    e.next_block = 0;
    e.last_block = e.blocks;
    e.stride = 1, e.offset = 0;
    e.descending = false, e.turn = 0, e.ready_first = 1;
    if (launch->seed && e.blocks > 0) {
        e.random = launch->seed;
        do
            e.stride = mgpu_vgpu_random() % e.blocks + 1;
        while (mgpu_vgpu_common(e.stride, e.blocks) != 1);
        e.offset = mgpu_vgpu_random() % e.blocks;
    }
    if (launch->most_blocks && launch->most_blocks < e.blocks) {
        e.last_block = launch->most_blocks;
        e.stride = e.blocks / e.last_block;
        e.offset = e.stride / 2;
    }
    if (!e.warps) {
        e.warps = (mgpu_vgpu_warp *)calloc(MGPU_VGPU_WARPS, sizeof *e.warps);
        void *shared = mmap(NULL, MGPU_VGPU_SHARED + 1024, PROT_READ | PROT_WRITE, MGPU_VGPU_MAP, -1, 0);
        if (!e.warps || shared == MAP_FAILED)
            mgpu_vgpu_no_memory();
        e.shared = (char *)shared;
    }
    mgpu_vgpu_n.shared = e.shared;
    mgpu_vgpu_n.statics = mgpu_vgpu_statics;
    mgpu_vgpu_n.statics_end = mgpu_vgpu_statics_end;
    mgpu_vgpu_n.blocks_begun = 0;
    memset(mgpu_vgpu_n.waited, 0, sizeof mgpu_vgpu_n.waited);
    launch->now = &mgpu_vgpu_n;
    launch->leave = mgpu_vgpu_leave;
    memset(e.shared, 255, launch->shared_bytes);
    memset(mgpu_vgpu_statics, 255, (size_t)(mgpu_vgpu_statics_end - mgpu_vgpu_statics));
    if (e.threads == 0 || e.threads > MGPU_VGPU_THREADS || e.blocks >> 32 || launch->shared_bytes > MGPU_VGPU_SHARED || !mgpu_vgpu_next_block())
        return 1;
    bool left;
    do {
        uint64_t before = launch->again;
        mgpu_vgpu_fiber *first = e.fiber = mgpu_vgpu_idle_fiber();
        mgpu_vgpu_switch(&e.launcher, first->stack_pointer);
        e.fiber = NULL;
        left = e.failed && launch->again != before;
        if (e.failed)
            mgpu_vgpu_clear();
        e.failed = e.failed && !left;
    } while (left && mgpu_vgpu_next_block());
    return e.failed;
}

template <int... I> struct mgpu_vgpu_places {};
template <int N, int... I> struct mgpu_vgpu_count : mgpu_vgpu_count<N - 1, N - 1, I...> {};
template <int... I> struct mgpu_vgpu_count<0, I...> { typedef mgpu_vgpu_places<I...> places; };

/* calls a kernel with parameters of cuLaunchKernel */
template <auto Kernel> struct mgpu_vgpu_kernel;
template <typename... P, void (*Kernel)(P...)> struct mgpu_vgpu_kernel<Kernel> {
    static constexpr unsigned bytes[] = {(unsigned)sizeof(P)..., 0};
    template <int... I> static MGPU_VGPU_OWN void call(void *const *params, mgpu_vgpu_places<I...>)
    {
        (void)params;
        Kernel(*(P *)params[I]...);
    }
    static MGPU_VGPU_OWN void run(void *const *params) { call(params, typename mgpu_vgpu_count<sizeof...(P)>::places()); }
};

/* one for each __global__ function, anywhere after it */
#define MGPU_ENTRY(name)                                                                                                  \
    extern "C" __attribute__((visibility("default"))) const unsigned *const mgpu_params_##name = mgpu_vgpu_kernel<name>::bytes; \
    extern "C" __attribute__((visibility("default"))) int mgpu_entry_##name(mgpu_vgpu_launch *launch)                     \
    {                                                                                                                     \
        return mgpu_vgpu_run(launch, mgpu_vgpu_kernel<name>::run);                                                        \
    }

#endif
