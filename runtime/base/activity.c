/* activity.c: records what each thread does that may block: opening, reading and writing files, waiting for others. engine/hang.c
 * reports it if a run makes no progress. It is global because any function may block, so it cannot be a parameter of all. */
#include "runtime/base/base.h"
#include "runtime/base/context.h"

#include <stdlib.h>
#include <string.h>

typedef struct Activity {
    struct Activity *next;
    const char *what;
    char file[200];
} Activity; /* of a thread; what: NULL if it does nothing that may block */

static struct {
    pthread_mutex_t lock;
    pthread_once_t once;
    pthread_key_t leave;
    Activity *all;
    uint64_t count;
} activities = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};
static _Thread_local Activity *this_thread;

/* Removes the entry of a thread that has ended. */
static void leave(void *doing)
{
    pthread_mutex_lock(&activities.lock);
    Activity **at = &activities.all;
    while (*at != doing)
        at = &(*at)->next;
    *at = (*at)->next;
    pthread_mutex_unlock(&activities.lock);
    free(doing);
}

static void make_key(void) { pthread_key_create(&activities.leave, leave); }

static void enter(void)
{
    pthread_once(&activities.once, make_key);
    this_thread = mgpu_allocate(1, sizeof *this_thread);
    pthread_setspecific(activities.leave, this_thread);
    pthread_mutex_lock(&activities.lock);
    this_thread->next = activities.all;
    activities.all = this_thread;
    pthread_mutex_unlock(&activities.lock);
}

const char *mgpu_doing(const char *what)
{
    if (mgpu_context()) /* in a library, hangs are not detected, and the thread is the caller's */
        return NULL;
    if (!this_thread)
        enter();
    pthread_mutex_lock(&activities.lock);
    const char *before = this_thread->what;
    this_thread->what = what;
    this_thread->file[0] = 0;
    activities.count++;
    pthread_mutex_unlock(&activities.lock);
    return before;
}

void mgpu_doing_with(const char *file)
{
    if (!this_thread || !this_thread->what)
        return;
    pthread_mutex_lock(&activities.lock);
    size_t length = strlen(file), capacity = sizeof this_thread->file;
    snprintf(this_thread->file, capacity, "%s%s", length < capacity ? "" : "...",
             length < capacity ? file : file + length - capacity + 4); /* the end of a path identifies it better */
    activities.count++;
    pthread_mutex_unlock(&activities.lock);
}

uint64_t mgpu_doings(FILE *to, const char *before, bool *any)
{
    pthread_mutex_lock(&activities.lock);
    uint64_t count = activities.count;
    *any = false;
    for (const Activity *d = activities.all; d; d = d->next) {
        if (to && d->what)
            fprintf(to, "  %s%s%s%s\n", before, d->what, d->file[0] ? ": " : "", d->file);
        *any = *any || d->what;
    }
    pthread_mutex_unlock(&activities.lock);
    return count;
}
