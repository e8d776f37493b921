/* doing.c: what threads do that may block: opening, reading and writing files, waiting for others. engine/hang.c reports it when
 * nothing has progressed for a while. Any function may block, so this is no argument. */
#include "runtime/base/base.h"
#include "runtime/base/context.h"

#include <stdlib.h>
#include <string.h>

typedef struct Doing {
    struct Doing *next;
    const char *what;
    char file[200];
} Doing; /* of a thread; what: NULL: nothing that may block */

static struct {
    pthread_mutex_t lock;
    pthread_once_t once;
    pthread_key_t leave;
    Doing *all;
    uint64_t count;
} threads = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};
static _Thread_local Doing *own;

/* Removes the entry of a thread that ends. */
static void leave(void *doing)
{
    pthread_mutex_lock(&threads.lock);
    Doing **at = &threads.all;
    while (*at != doing)
        at = &(*at)->next;
    *at = (*at)->next;
    pthread_mutex_unlock(&threads.lock);
    free(doing);
}

static void make_key(void) { pthread_key_create(&threads.leave, leave); }

static void enter(void)
{
    pthread_once(&threads.once, make_key);
    own = mgpu_allocate(1, sizeof *own);
    pthread_setspecific(threads.leave, own);
    pthread_mutex_lock(&threads.lock);
    own->next = threads.all;
    threads.all = own;
    pthread_mutex_unlock(&threads.lock);
}

const char *mgpu_doing(const char *what)
{
    if (mgpu_context()) /* hangs are not looked for, and the thread is the caller's */
        return NULL;
    if (!own)
        enter();
    pthread_mutex_lock(&threads.lock);
    const char *before = own->what;
    own->what = what;
    own->file[0] = 0;
    threads.count++;
    pthread_mutex_unlock(&threads.lock);
    return before;
}

void mgpu_doing_with(const char *file)
{
    if (!own || !own->what)
        return;
    pthread_mutex_lock(&threads.lock);
    size_t length = strlen(file), room = sizeof own->file;
    snprintf(own->file, room, "%s%s", length < room ? "" : "...",
             length < room ? file : file + length - room + 4); /* the end of a path identifies it better */
    threads.count++;
    pthread_mutex_unlock(&threads.lock);
}

uint64_t mgpu_doings(FILE *to, const char *before, bool *any)
{
    pthread_mutex_lock(&threads.lock);
    uint64_t count = threads.count;
    *any = false;
    for (const Doing *d = threads.all; d; d = d->next) {
        if (to && d->what)
            fprintf(to, "  %s%s%s%s\n", before, d->what, d->file[0] ? ": " : "", d->file);
        *any = *any || d->what;
    }
    pthread_mutex_unlock(&threads.lock);
    return count;
}
