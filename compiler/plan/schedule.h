/* schedule.h: a schedule (operations on lanes, buffers, waits, collectives) and its text. */
#ifndef MGPU_PLAN_SCHEDULE_H
#define MGPU_PLAN_SCHEDULE_H

#include "compiler/ir/graph.h"
#include "compiler/kernel/phase.h"
#include "runtime/schedule/schedule.h"

#include <string.h>

typedef struct Program Program;
typedef struct Plan Plan;

/* Returns true for the phases that have room for outputs and for caches of `decode`. The engine drains all lanes between these
 * and other phases (mgpu_engine_change_kind). */
bool phase_predicts(const char *phase);
static inline const char *schedule_step(const Schedule *s, bool partial) { return phase_name(step_kind(s->predicts), partial); }
static inline int schedule_each(const Schedule *s) { return s->devices / s->nodes; } /* devices of a node */

/* ---- digests. A call's digest is a hash of its kernel, of the values that it reads and of the names of variables, outputs and
 * the report that it writes. A value's digest is that of the call that computed it, or of its name. The scheduler computes
 * digests from the program's tasks, and the verifier from what the schedule's calls read. */
static inline uint64_t digest_leaf(const char *name, int index) { return hash_bytes((uint64_t)index + 1, name, strlen(name)); }
static inline uint64_t digest_call(const char *kernel) { return hash_bytes(0, kernel, strlen(kernel)); }
static inline uint64_t digest_argument(uint64_t call, uint64_t value) { return hash_bytes(call, &value, sizeof value); }
static inline uint64_t digest_result(uint64_t call, int number) { return hash_bytes(call, &number, sizeof number); }
/* the same on all devices, whatever they receive */
static inline uint64_t digest_transfer(uint64_t value, const mgpu_participants *p)
{
    uint64_t words[] = {p->transfer, (uint64_t)p->from, (uint64_t)p->to};
    return hash_bytes(value, words, sizeof words);
}

/* A phase's digest starts with its name and adds the digest of each call, in any order. */
static inline uint32_t digest_phase(const char *name) { return (uint32_t)hash_bytes(0, name, strlen(name)); }
static inline uint32_t digest_of_phase(uint32_t phase, uint32_t call)
{
    return phase + (uint32_t)hash_bytes(1, &call, sizeof call);
}

/* shards.c */
/* Returns the samples of the largest virtual shard (mgpu_exact.h); 0: the model is not exact. */
int64_t largest_shard(const Model *);
int64_t micro_shards(const Model *); /* virtual shards of a micro-batch */
void split(const Program *, Plan *);
int64_t plan_capacity(const Plan *); /* the most samples of a device */
/* place.c, bucket.c, schedule.c: Make a schedule of all phases and a plan. Persistent buffers have the same offsets in all
 * phases. */
Schedule *schedule(const Program *, const Plan *);
Schedule *schedule_sizes(const Program *, const Plan *); /* only the memory: no operations, digests or names of temporaries */
typedef mgpu_room ArenaSize;
/* of the plan's schedule, ascending; none on devices without memory of their own */
ArenaSize *find_arena_sizes(const Program *, const Plan *, int *count);
ArenaSize find_arena_size(const Program *, const Plan *, int64_t samples); /* of a device with so many samples */
int64_t bytes_of_shard_terms(const Program *, const Schedule *); /* a device's, likewise outside of arenas: transfer_memory.c */
int64_t bytes_outside_arena(const Schedule *);                   /* transfer_memory.c */
/* schedule_text.c */
void schedule_write(const Schedule *, Text *);
const uint64_t *schedule_pack(const Schedule *);                     /* Packs the image that a program carries. */
const uint64_t *schedule_pack_bytes(const void *body, size_t bytes); /* Packs bytes that may be no records, for tests. */
Schedule *schedule_unpack(const char *file, const uint64_t *image);  /* Fails with status 1 if the image is damaged. */
/* Reads a schedule, for the verifier and tests; error_at reports errors. */
Schedule *schedule_read(const char *file, const char *text);
Schedule **schedules_read(const Source *, int *count); /* all that a file has, one after the other */
/* edited.c: Replaces the plan's schedule by one that was read of a text. Reports what the program does not allow at its line. */
void take_edited(const Program *, Plan *, Schedule *, const Source *);
#endif
