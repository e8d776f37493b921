/* mgpu_one_shot.h: the parameter of kernels that make a small transfer by a single launch on each GPU (mgpu_device_one_shot.h).
 *
 * Each GPU has a mailbox with two slots, each with a part for each member, of words of 8 bytes: 4 bytes of the member's data, and
 * the number of the exchange. A word is written and read atomically, so a reader that finds the number has the data, and no other
 * ordering is needed (as in NCCL's protocol LL). All members number the exchanges of a lane equally, from 1 on. Slots alternate,
 * so no word has to be reset:
 *
 *   a member writes into a slot again, in exchange e + 2, after it has all words of e + 1, which others send after their
 *   kernel of e has ended
 *
 * The number in a word has 32 bits. So that no word is older than that, all words of a part are sent every MGPU_ONE_SHOT_REFRESH
 * exchanges. */
#ifndef MGPU_ONE_SHOT_H
#define MGPU_ONE_SHOT_H

#include "mgpu_members.h"

#ifndef MGPU_DEVICE_H /* it declares what is needed of these */
#include "mgpu_transfers.h"
#endif

enum {
    /* For every exchange. All blocks wait, so all must be resident on the GPU at the same time: they have fewer threads than two
     * SMs. Each block counts its exchanges. */
    MGPU_ONE_SHOT_BLOCKS = 8,
    MGPU_ONE_SHOT_THREADS = 256,
    MGPU_ONE_SHOT_BYTES = 256 << 10, /* of the largest value */
    MGPU_ONE_SHOT_REFRESH = 1 << 21
};
typedef struct mgpu_mailboxes {
    uint64_t *box[MGPU_MOST_MEMBERS]; /* [slot, member, words] of each member */
    uint64_t *exchanges;              /* [block]: exchanges so far, on this GPU */
    int64_t words;                    /* of a part */
    int members, member;
} mgpu_mailboxes;

#ifndef MGPU_DEVICE_H
/* Returns true for transfers of this kind and size; each: bytes of an element. */
static inline bool mgpu_may_be_one_shot(int transfer, int64_t count, int64_t each)
{
    return (transfer == MGPU_TRANSFER_REDUCE || transfer == MGPU_TRANSFER_REDUCE_MOMENTS) && count * each <= MGPU_ONE_SHOT_BYTES;
}

/* For values of at most so many bytes: words of a part; bytes of a mailbox; bytes of a mailbox and its counters, which each
 * device allocates outside its arena. */
static inline int64_t mgpu_one_shot_words(int64_t bytes) { return (bytes + 7) / 8 * 2; }
static inline int64_t mgpu_mailbox_bytes(int64_t bytes, int members) { return 2 * members * mgpu_one_shot_words(bytes) * 8; }
static inline int64_t mgpu_one_shot_bytes(int64_t bytes, int members)
{
    return bytes ? mgpu_mailbox_bytes(bytes, members) + MGPU_ONE_SHOT_BLOCKS * 8 : 0;
}
#endif
#endif
