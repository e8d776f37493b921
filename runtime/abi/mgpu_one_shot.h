/* mgpu_one_shot.h: small transfers by one kernel of each GPU (mgpu_device_one_shot.h): its parameter, given by the runtime, read
 * by the kernel.
 *
 * Each GPU has a mailbox, with two slots, each with a part for each member, of words of 8 bytes: 4 bytes of what the member
 * sends, and the number of the exchange. A word is written and read at once, so who finds the number has the bytes, and nothing
 * else has to be in order (as NCCL's protocol LL does). Exchanges of a lane are numbered alike by all members, from 1 on; the
 * slots take turns, so no word is reset:
 *
 *   a member writes into a slot again, in exchange e + 2, after it has all words of e + 1, which others send after their
 *   kernel of e has ended
 *
 * The number in a word has 32 bits. So that no word is ever older than that, all words of a part are sent every
 * MGPU_ONE_SHOT_REFRESH exchanges. */
#ifndef MGPU_ONE_SHOT_H
#define MGPU_ONE_SHOT_H

#include "mgpu_members.h"

#ifndef MGPU_DEVICE_H /* which has what is needed of them */
#include "mgpu_transfers.h"
#endif

enum {
    /* Of every exchange, however small. All blocks wait, so all must be on the GPU at the same time: they have fewer threads than
     * two SMs. Each block counts its exchanges. */
    MGPU_ONE_SHOT_BLOCKS = 8,
    MGPU_ONE_SHOT_THREADS = 256,
    MGPU_ONE_SHOT_BYTES = 256 << 10, /* of a value, at most */
    MGPU_ONE_SHOT_REFRESH = 1 << 21
};
typedef struct mgpu_mailboxes {
    uint64_t *box[MGPU_MOST_MEMBERS]; /* [slot, member, words] of each member */
    uint64_t *exchanges;              /* [block]: that the own GPU has made */
    int64_t words;                    /* of a part */
    int members, member;
} mgpu_mailboxes;

#ifndef MGPU_DEVICE_H
/* transfers of this kind and size; each: bytes of an element */
static inline bool mgpu_may_be_one_shot(int transfer, int64_t count, int64_t each)
{
    return (transfer == MGPU_TRANSFER_REDUCE || transfer == MGPU_TRANSFER_REDUCE_MOMENTS) && count * each <= MGPU_ONE_SHOT_BYTES;
}

/* for values of so many bytes at most: words of a part, bytes of a mailbox, and with its numbers of exchanges, of each device
 * besides its arena */
static inline int64_t mgpu_one_shot_words(int64_t bytes) { return (bytes + 7) / 8 * 2; }
static inline int64_t mgpu_mailbox_bytes(int64_t bytes, int members) { return 2 * members * mgpu_one_shot_words(bytes) * 8; }
static inline int64_t mgpu_one_shot_bytes(int64_t bytes, int members)
{
    return bytes ? mgpu_mailbox_bytes(bytes, members) + MGPU_ONE_SHOT_BLOCKS * 8 : 0;
}
#endif
#endif
