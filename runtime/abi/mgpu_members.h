/* mgpu_members.h: parameters of kernels that sum the values of several devices (mgpu_device_collective.h) or virtual shards
 * (mgpu_device_exact.h). */
#ifndef MGPU_MEMBERS_H
#define MGPU_MEMBERS_H

#ifndef MGPU_DEVICE_H /* it declares what is needed of it */
#include <stdint.h>
#endif

enum { MGPU_MOST_MEMBERS = 64 };
typedef struct mgpu_members {
    const void *from[MGPU_MOST_MEMBERS]; /* added in this order; they point to element 0 */
    void *to[MGPU_MOST_MEMBERS];         /* receive the sum; may be those of `from` */
    int from_count, to_count;
} mgpu_members;
/* The first samples of a device's virtual shards. */
typedef struct mgpu_shard_begins {
    int64_t begin[MGPU_MOST_MEMBERS];
} mgpu_shard_begins;
#endif
