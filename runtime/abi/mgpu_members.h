/* mgpu_members.h: the parameter of the kernels that add up what several devices have (mgpu_device_collective.h): given by the
 * runtime, read by the kernel. */
#ifndef MGPU_MEMBERS_H
#define MGPU_MEMBERS_H

enum { MGPU_MOST_MEMBERS = 64 };
typedef struct mgpu_members {
    const void *from[MGPU_MOST_MEMBERS]; /* added in this order; their first elements are element 0 */
    void *to[MGPU_MOST_MEMBERS];         /* all get the sum; may be those of `from` */
    int from_count, to_count;
} mgpu_members;
#endif
