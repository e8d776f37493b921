/* context.h: where errors go. A program has no context: mgpu_fail prints the first error and ends it. In a library each open model has
 * one, in which all of its threads are: mgpu_fail keeps the first error there, and every thread leaves what it does by longjmp: those
 * of the library's own end, the caller's returns from its call. What the runtime has taken of the system by then is released when the
 * context is closed (library/resources.c). */
#ifndef MGPU_CONTEXT_H
#define MGPU_CONTEXT_H

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct Sleeper { _Atomic uint32_t *word; struct Sleeper *next, **at; } Sleeper; /* a thread that sleeps on a futex */
typedef struct Release { void (*release)(void *); void *what; struct Release *next, **at; } Release; /* of what is not the system's */
typedef struct Context {
    pthread_mutex_t lock;        /* of all below but `failed` */
    _Atomic bool failed;         /* every thread leaves what it does */
    char error[2000];            /* the first one; "": there is none */
    Sleeper *sleepers;
    Release *releases;           /* the last one first */
    struct Resources *resources; /* of the system; NULL: nothing is noted */
} Context;

void mgpu_context_open(Context *);
void mgpu_context_close(Context *);              /* once its threads have ended */
Context *mgpu_context(void);                     /* of the calling thread; NULL: none, as in programs */
/* by a thread of the caller; false: it failed, now or before */
bool mgpu_context_call(Context *, void (*call)(void *argument), void *argument);
/* by a thread of the context's own: what `run` returns, or NULL if it fails */
void *mgpu_context_run(Context *, void *(*run)(void *argument), void *argument);
void mgpu_context_none(void);                    /* the calling thread is in no context any more: of a child that was forked */
/* the error of the calling thread, which leaves; returns if it is in no context */
void mgpu_context_fail(const char *kind, const char *pattern, va_list arguments, const char *after);
void mgpu_context_leave(void);                   /* the calling thread leaves if its context has failed */
/* around a sleep on a futex, from which a failure wakes */
void mgpu_sleep_begin(Sleeper *, _Atomic uint32_t *word);
void mgpu_sleep_end(Sleeper *);
/* What the calling thread takes between these is kept for the process, and not noted; -> what it was before */
bool mgpu_context_apart(bool);
Context *mgpu_context_noting(void);              /* that of the calling thread, if what it takes is noted */
/* what is to be called if an error leaves the thing behind; the Release is part of it, and begins as {0} */
void mgpu_context_own(Release *, void (*release)(void *), void *what);
void mgpu_context_disown(Release *);
void mgpu_context_release(Context *);            /* calls them */
#endif
