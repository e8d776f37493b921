/* mgpu_vgpu_warp.h: what the threads of a block do together besides barriers, for mgpu_vgpu.h: shuffles and votes, atomics,
 * shared memory, asynchronous copies. */
#ifndef MGPU_VGPU_WARP_H
#define MGPU_VGPU_WARP_H

/* ---- warps */

/* The lanes of `mask` give `bytes` at `own`. All have come when it returns; mgpu_vgpu_part when the caller has read. */
MGPU_VGPU_ENGINE mgpu_vgpu_meeting *mgpu_vgpu_join(uint32_t mask, int kind, const void *own, unsigned bytes, int line)
{
    unsigned thread = mgpu_vgpu_n.thread, lane = thread % MGPU_VGPU_WARP;
    mgpu_vgpu_warp *w = &mgpu_vgpu_e.warps[thread / MGPU_VGPU_WARP];
    if (!(mask >> lane & 1))
        mgpu_vgpu_fail("lanes", line, "the mask does not name the lane that calls");
    mgpu_vgpu_meeting *m = NULL, *end = w->meeting + MGPU_VGPU_WARP;
    for (mgpu_vgpu_meeting *open = w->meeting; open < end && w->open && !m; open++)
        m = open->used && !open->done && open->mask == mask ? open : NULL;
    for (mgpu_vgpu_meeting *place = w->meeting; !m; place++) /* a lane is in one at most: there is room */
        m = place->used ? NULL : place;
    if (!m->used) {
        m->used = true;
        m->mask = mask;
        m->arrived = m->done = 0;
        m->kind = kind;
        m->bytes = bytes;
        m->line = line;
        w->open++;
    } else if (m->kind != kind || m->bytes != bytes) {
        char text[128];
        snprintf(text, sizeof text, "lanes of a warp meet in different operations: others are at line %d", m->line);
        mgpu_vgpu_fail("lanes", line, text);
    }
    memcpy(m->lane[lane], own, bytes);
    m->arrived |= 1u << lane;
    if ((mask & w->present & ~m->arrived) == 0)
        mgpu_vgpu_meet(m);
    else
        mgpu_vgpu_wait(&m->waiting);
    return m;
}

MGPU_VGPU_ENGINE void mgpu_vgpu_part(mgpu_vgpu_meeting *m)
{
    if (--m->left == 0) {
        m->used = false;
        mgpu_vgpu_e.warps[mgpu_vgpu_n.thread / MGPU_VGPU_WARP].open--;
    }
}

/* What lanes of a warp gave, of which those in the result's mask came: for operations on whole warps (mma, ldmatrix).
 * Values of lanes that did not come are all bits set, as NaN. */
template <typename T> MGPU_VGPU_OWN static inline uint32_t mgpu_vgpu_gather(uint32_t mask, const T &own, T (&all)[32], int line = __builtin_LINE())
{
    static_assert(sizeof(T) <= MGPU_VGPU_LANE_BYTES, "a lane gives at most MGPU_VGPU_LANE_BYTES");
    mgpu_vgpu_meeting *m = mgpu_vgpu_join(mask, MGPU_VGPU_GATHER, &own, sizeof own, line);
    uint32_t came = m->done;
    for (int k = 0; k < MGPU_VGPU_WARP; k++)
        if (came >> k & 1)
            memcpy(&all[k], m->lane[k], sizeof(T));
        else
            memset(&all[k], 255, sizeof(T));
    mgpu_vgpu_part(m);
    return came;
}

template <typename T> MGPU_VGPU_OWN static inline T mgpu_vgpu_shuffle(uint32_t mask, T own, int from, int line)
{
    static_assert(sizeof(T) <= 8, "shuffles take 4 or 8 bytes");
    mgpu_vgpu_meeting *m = mgpu_vgpu_join(mask, MGPU_VGPU_SHUFFLE, &own, sizeof own, line);
    T value;
    if (m->done >> from & 1)
        memcpy(&value, m->lane[from], sizeof value);
    else
        memset(&value, 255, sizeof value); /* of a lane that is not there: anything */
    mgpu_vgpu_part(m);
    return value;
}
static inline MGPU_VGPU_OWN int mgpu_vgpu_lane(void) { return (int)(mgpu_vgpu_n.thread % MGPU_VGPU_WARP); }

template <typename T> static inline T __shfl_sync(unsigned mask, T v, int from, int width = 32, int line = __builtin_LINE())
{
    return mgpu_vgpu_shuffle(mask, v, (mgpu_vgpu_lane() & ~(width - 1)) | (from & (width - 1)), line);
}
template <typename T> static inline T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32, int line = __builtin_LINE())
{
    int lane = mgpu_vgpu_lane(), from = lane - (int)by;
    return mgpu_vgpu_shuffle(mask, v, from < (lane & ~(width - 1)) ? lane : from, line);
}
template <typename T> static inline T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32, int line = __builtin_LINE())
{
    int lane = mgpu_vgpu_lane(), from = lane + (int)by;
    return mgpu_vgpu_shuffle(mask, v, from > (lane | (width - 1)) ? lane : from, line);
}
template <typename T> static inline T __shfl_xor_sync(unsigned mask, T v, int with, int width = 32, int line = __builtin_LINE())
{
    int lane = mgpu_vgpu_lane(), from = lane ^ with;
    return mgpu_vgpu_shuffle(mask, v, from > (lane | (width - 1)) ? lane : from, line);
}

MGPU_VGPU_ENGINE unsigned mgpu_vgpu_vote(unsigned mask, int v, int line, unsigned *came)
{
    mgpu_vgpu_meeting *m = mgpu_vgpu_join(mask, MGPU_VGPU_VOTE, &v, sizeof v, line);
    unsigned votes = 0;
    for (int k = 0; k < MGPU_VGPU_WARP; k++) {
        memcpy(&v, m->lane[k], sizeof v);
        votes |= (m->done >> k & 1 && v != 0 ? 1u : 0u) << k;
    }
    *came = m->done;
    mgpu_vgpu_part(m);
    return votes;
}
static inline unsigned __ballot_sync(unsigned mask, int v, int line = __builtin_LINE())
{
    unsigned came;
    return mgpu_vgpu_vote(mask, v, line, &came);
}
static inline int __any_sync(unsigned mask, int v, int line = __builtin_LINE()) { return __ballot_sync(mask, v, line) != 0; }
static inline int __all_sync(unsigned mask, int v, int line = __builtin_LINE())
{
    unsigned came, votes = mgpu_vgpu_vote(mask, v, line, &came);
    return votes == came;
}
MGPU_VGPU_ENGINE unsigned __activemask(void) { return mgpu_vgpu_e.warps[mgpu_vgpu_n.thread / MGPU_VGPU_WARP].present; }
MGPU_VGPU_ENGINE void __syncwarp(unsigned mask = 0xFFFFFFFFu, int line = __builtin_LINE())
{
    char none = 0;
    mgpu_vgpu_part(mgpu_vgpu_join(mask, MGPU_VGPU_SYNC_WARP, &none, 1, line));
}

/* ---- memory */

static inline MGPU_VGPU_OWN void mgpu_vgpu_access(const void *address, unsigned bytes, int how, const void *place)
{
    mgpu_vgpu_launch *l = mgpu_vgpu_e.launch;
    if (l->access && l->access(l, address, bytes, how, place))
        mgpu_vgpu_leave();
}
#ifdef MGPU_VGPU_ACCESS /* the one who includes it knows the place */
#elif defined MGPU_VGPU_CHECKED
#define MGPU_VGPU_ACCESS(address, bytes, how) mgpu_vgpu_access(address, bytes, how, __builtin_return_address(0))
#else
#define MGPU_VGPU_ACCESS(address, bytes, how) ((void)0)
#endif

/* relaxed, of system scope */
static __attribute__((noinline)) MGPU_VGPU_OWN void mgpu_vgpu_store_system(uint64_t *to, uint64_t word)
{
    MGPU_VGPU_ACCESS(to, sizeof word, MGPU_VGPU_SYSTEM_STORE);
    *to = word;
}
static __attribute__((noinline)) MGPU_VGPU_OWN uint64_t mgpu_vgpu_load_system(const uint64_t *from)
{
    MGPU_VGPU_ACCESS(from, sizeof *from, MGPU_VGPU_SYSTEM_LOAD);
    return *from;
}

template <typename T> __attribute__((noinline)) MGPU_VGPU_OWN T mgpu_vgpu_load_constant(const T *p)
{
    MGPU_VGPU_ACCESS(p, sizeof *p, MGPU_VGPU_CONSTANT_LOAD);
    return *p;
}
#ifdef MGPU_VGPU_CHECKED
template <typename T> static inline T __ldg(const T *p) { return mgpu_vgpu_load_constant(p); }
#else
template <typename T> static inline T __ldg(const T *p) { return *p; }
#endif
template <typename T> static inline T __ldcg(const T *p) { return *p; }
template <typename T> static inline T __ldcs(const T *p) { return *p; }
template <typename T> static inline void __stcs(T *p, T v) { *p = v; }

#define MGPU_VGPU_ATOMIC_OPERATION(name, type, changed)                                                                   \
    static __attribute__((unused, noinline)) MGPU_VGPU_OWN type name(type *p, type v)                                     \
    {                                                                                                                     \
        MGPU_VGPU_ACCESS(p, sizeof *p, MGPU_VGPU_ATOMIC);                                                                 \
        type old = *p;                                                                                                    \
        *p = changed;                                                                                                     \
        return old;                                                                                                       \
    }
#define MGPU_VGPU_ATOMICS(type)                                                                                           \
    MGPU_VGPU_ATOMIC_OPERATION(atomicAdd, type, old + v)                                                                  \
    MGPU_VGPU_ATOMIC_OPERATION(atomicSub, type, old - v)                                                                  \
    MGPU_VGPU_ATOMIC_OPERATION(atomicExch, type, v)                                                                       \
    MGPU_VGPU_ATOMIC_OPERATION(atomicMin, type, v < old ? v : old)                                                        \
    MGPU_VGPU_ATOMIC_OPERATION(atomicMax, type, v > old ? v : old)                                                        \
    MGPU_VGPU_ATOMIC_OPERATION(atomicAnd, type, old & v)                                                                  \
    MGPU_VGPU_ATOMIC_OPERATION(atomicOr, type, old | v)                                                                   \
    MGPU_VGPU_ATOMIC_OPERATION(atomicXor, type, old ^ v)                                                                  \
    static __attribute__((unused, noinline)) MGPU_VGPU_OWN type atomicCAS(type *p, type expected, type v)                 \
    {                                                                                                                     \
        MGPU_VGPU_ACCESS(p, sizeof *p, MGPU_VGPU_ATOMIC);                                                                 \
        type old = *p;                                                                                                    \
        *p = old == expected ? v : old;                                                                                   \
        return old;                                                                                                       \
    }
MGPU_VGPU_ATOMICS(int)
MGPU_VGPU_ATOMICS(unsigned)
MGPU_VGPU_ATOMICS(unsigned long long)
#undef MGPU_VGPU_ATOMICS
#undef MGPU_VGPU_ATOMIC_OPERATION

/* the block's dynamic shared memory: what `extern __shared__` names on a GPU */
static inline void *mgpu_vgpu_dynamic_shared(void) { return mgpu_vgpu_n.shared; }

/* ---- asynchronous copies from global to shared memory: cp.async, commit_group, wait_group. The last `zeros` bytes become
 * 0 and are not read. Bytes arrive when they are waited for, and no sooner. */

MGPU_VGPU_ENGINE mgpu_vgpu_copies *mgpu_vgpu_own_copies(void)
{
    mgpu_vgpu_copies **c = &mgpu_vgpu_e.copies[mgpu_vgpu_n.thread];
    if (!*c) {
        *c = (mgpu_vgpu_copies *)malloc(sizeof **c);
        if (!*c)
            mgpu_vgpu_no_memory();
        (*c)->count = (*c)->groups = 0;
    }
    return *c;
}

MGPU_VGPU_ENGINE void mgpu_vgpu_copy_async(void *to, const void *from, unsigned bytes, unsigned zeros = 0, int line = __builtin_LINE())
{
    mgpu_vgpu_copies *c = mgpu_vgpu_own_copies();
    if (c->count == MGPU_VGPU_COPIES)
        mgpu_vgpu_fail("copy", line, "a thread has too many asynchronous copies in flight");
    if (((uintptr_t)to | (uintptr_t)from) % bytes)
        mgpu_vgpu_fail("alignment", line, "an asynchronous copy is not aligned to its size");
    MGPU_VGPU_ACCESS(to, bytes, MGPU_VGPU_STORE);
    if (zeros < bytes)
        MGPU_VGPU_ACCESS(from, bytes - zeros, MGPU_VGPU_LOAD);
    memset(to, 255, bytes);
    c->copy[c->count++] = {to, from, bytes, zeros, c->groups};
}

MGPU_VGPU_ENGINE void mgpu_vgpu_copy_commit(void) { mgpu_vgpu_own_copies()->groups++; }

/* all but the last `groups` that were committed have arrived */
MGPU_VGPU_ENGINE void mgpu_vgpu_copy_wait(int groups)
{
    mgpu_vgpu_copies *c = mgpu_vgpu_own_copies();
    int kept = 0;
    for (int k = 0; k < c->count; k++) {
        mgpu_vgpu_copy *p = &c->copy[k];
        if (p->group >= c->groups - groups) {
            c->copy[kept++] = *p;
            continue;
        }
        if (p->zeros < p->bytes)
            memcpy(p->to, p->from, p->bytes - p->zeros);
        memset((char *)p->to + p->bytes - p->zeros, 0, p->zeros);
        MGPU_VGPU_ACCESS(p->to, p->bytes, MGPU_VGPU_STORE);
    }
    c->count = kept;
}
#endif
