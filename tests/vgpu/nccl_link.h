/* nccl_link.h: the other processes of a communicator (nccl_link.c). */
#ifndef VGPU_NCCL_LINK_H
#define VGPU_NCCL_LINK_H

#include <stdbool.h>
#include <stddef.h>

typedef struct Link Link;
enum { LINK_ONCE, LINK_KEEP /* for those that come later, too */, LINK_LAST /* this process may go now */ };

bool vgpu_link_id(char id[128]); /* false: this process has one */
/* Both are called by a thread of the link: what another process has sent, not empty; another one is gone. NULL: nobody made the
 * id */
Link *vgpu_link_open(const char id[128], void (*arrived)(void *, const void *, size_t), void (*lost)(void *), void *context);
void vgpu_link_send(Link *, const void *head, size_t head_bytes, const void *data, size_t bytes, int how);
void vgpu_link_close(Link *); /* where the id was made: once all others have closed theirs */
#endif
