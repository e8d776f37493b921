/* reduce.h: transfers in shared memory. */
#ifndef MGPU_RUNTIME_HOST_REDUCE_H
#define MGPU_RUNTIME_HOST_REDUCE_H

#include "runtime/base/base.h"
#include "runtime/engine/collective.h"

/* ---- reduce.c: sums are formed in the order of the devices: the same bits on every device */
typedef struct Reduction Reduction;
Reduction *mgpu_reduction_open(int members);
void mgpu_reduction_close(Reduction *);
/* Every member calls it with its own data; returns when all have what they receive. false: the members disagree about what they
 * do. */
bool mgpu_exchange(Reduction *, int member, const Operand *);
/* The same without a thread for each member, but for what members gather (mgpu_gathers): parts, between which all members meet, and before and after which they do.
 * operands: by member */
int mgpu_exchange_parts(const Operand *, int members);
void mgpu_exchange_part(Operand *operands, int members, int member, int part);
void mgpu_meet(Reduction *);           /* every member calls it; returns when all have */
bool mgpu_operands_agree(const Operand *, const Operand *, int members);
void mgpu_add_operands(Operand *operands, int members, mgpu_stretch); /* operands[members] gets these elements of the others' sum */
/* of what member `from` sends, that which `to` receives */
mgpu_stretch mgpu_moved(const Operand *, int from, int to);

/* ---- bits.c: codes of mgpu_bits.h, of f32 and f64 */
bool mgpu_encode(void *codes, const void *values, int64_t count, uint8_t dtype); /* false: a segment has more than two numbers */
void mgpu_add_codes(const void *const *codes, int members, void *sum, int64_t count, uint8_t dtype); /* in the members' order */

/* ---- gathered.c: of a transfer that gathers: what a member sends; false: it cannot. And the result, of what all have sent */
int64_t mgpu_sent_bytes(const Operand *);
bool mgpu_put_sent(const Operand *, void *sent);
void mgpu_add_sent(const void *const *sent, int members, const Operand *);
#endif
