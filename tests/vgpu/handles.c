/* handles.c: streams, events and graphs that there are. A handle of one that was destroyed is no handle: what is left of it may
 * be memory of something else by then. With the lock. */
#include "tests/vgpu/vgpu.h"

#include <stdlib.h>

static const void **handles; /* open addressing; NULL: free */
static size_t room, count;

static size_t place_of(const void *handle)
{
    size_t at = (uintptr_t)handle / 16 * 0x9E3779B97F4A7C15u >> 20;
    for (at %= room; handles[at] && handles[at] != handle; at = (at + 1) % room)
        ;
    return at;
}

bool vgpu_is_handle(const void *handle) { return handle && room && handles[place_of(handle)] == handle; }

static void resize(size_t to)
{
    const void **old = handles;
    size_t old_room = room;
    handles = calloc(room = to, sizeof *handles);
    if (!handles)
        abort();
    for (size_t i = 0; i < old_room; i++)
        if (old[i])
            handles[place_of(old[i])] = old[i];
    free(old);
}

void vgpu_add_handle(const void *handle)
{
    if (2 * ++count > room)
        resize(room ? 2 * room : 64);
    handles[place_of(handle)] = handle;
}

void vgpu_drop_handle(const void *handle)
{
    size_t at = place_of(handle);
    handles[at] = NULL;
    count--;
    for (at = (at + 1) % room; handles[at]; at = (at + 1) % room) { /* what came after it may belong to its place */
        const void *moved = handles[at];
        handles[at] = NULL;
        handles[place_of(moved)] = moved;
    }
}
