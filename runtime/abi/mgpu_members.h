/* mgpu_members.h: the parameter of kernels that sum the values of several devices (mgpu_device_collective.h). */
#ifndef MGPU_MEMBERS_H
#define MGPU_MEMBERS_H

enum { MGPU_MOST_MEMBERS = 64 };
typedef struct mgpu_members {
    const void *from[MGPU_MOST_MEMBERS]; /* added in this order; they point to element 0 */
    void *to[MGPU_MOST_MEMBERS];         /* receive the sum; may be those of `from` */
    int from_count, to_count;
} mgpu_members;
#endif
