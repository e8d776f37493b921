/* reduce.h: transfers in shared memory. */
#ifndef MGPU_RUNTIME_HOST_REDUCE_H
#define MGPU_RUNTIME_HOST_REDUCE_H

#include "runtime/base/base.h"
#include "runtime/engine/collective.h"

/* ---- reduce.c: sums are formed in the order of the devices, so every device gets the same bits. */
typedef struct Reduction Reduction;
Reduction *mgpu_reduction_open(int members);
void mgpu_reduction_close(Reduction *);
/* Every member calls it with its own data; returns when all have received theirs. Returns false if members disagree. */
bool mgpu_exchange(Reduction *, int member, const Operand *);
/* The same without a thread per member, and without gathered sums (mgpu_gathers): parts, before, between and after which all
 * members synchronize. operands: [member]. */
int mgpu_exchange_rounds(const Operand *, int members);
void mgpu_exchange_round(Operand *operands, int members, int member, int part);
void mgpu_wait_for_members(Reduction *); /* barrier of all members */
bool mgpu_operands_agree(const Operand *, const Operand *, int members);
void mgpu_add_operands(Operand *operands, int members, mgpu_range); /* sums all operands to operands[members] */
/* Returns the part of what member `from` sends that `to` receives. */
mgpu_range mgpu_moved(const Operand *, int from, int to);

/* ---- bits.c: codes of mgpu_bits.h, for f32 and f64 */
bool mgpu_encode(void *codes, const void *values, int64_t count, uint8_t dtype); /* false: a segment has more than two values */
void mgpu_add_codes(const void *const *codes, int members, void *sum, int64_t count, uint8_t dtype); /* in the members' order */

/* ---- gathered_sums.c: the bytes that a member sends in a gathered sum, what it sends (false: impossible), and the sum of what
 * all have sent. */
int64_t mgpu_sent_bytes(const Operand *);
bool mgpu_put_sent(const Operand *, void *sent);
/* own: the elements that the member receives, of sums of numbers */
void mgpu_add_sent(const void *const *sent, int members, const Operand *, mgpu_range own);
#endif
