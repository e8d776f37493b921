/* context.h: error handling. A program has no context: mgpu_fail prints the first error and ends the program. In a library, each
 * open model has a context, which all of its threads belong to. mgpu_fail keeps the first error there, and every thread leaves
 * its work by longjmp: the library's own threads end, and the caller's returns from its call. Resources that the runtime has
 * acquired by then are released when the context is closed (library/resources.c). */
#ifndef MGPU_CONTEXT_H
#define MGPU_CONTEXT_H

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct Sleeper {
    _Atomic uint32_t *word;
    struct Sleeper *next, **at;
} Sleeper; /* a thread that sleeps on a futex */
typedef struct Release {
    void (*release)(void *);
    void *what;
    struct Release *next, **at;
} Release; /* of other resources */
typedef struct Context {
    pthread_mutex_t lock; /* protects everything below except `failed` */
    _Atomic bool failed;  /* every thread leaves its work */
    char error[2000];     /* the first error; "": none */
    Sleeper *sleepers;
    Release *releases;           /* the last one first */
    struct Resources *resources; /* of the system; NULL: they are not tracked */
} Context;

void mgpu_context_open(Context *);
void mgpu_context_close(Context *); /* after its threads have ended */
Context *mgpu_context(void);        /* of the calling thread; NULL: none, as in programs */
/* Calls it on a thread of the caller. Returns false if the context has failed, now or before. */
bool mgpu_context_call(Context *, void (*call)(void *argument), void *argument);
/* Calls it on a thread of the context. Returns its result, or NULL if it fails. */
void *mgpu_context_run(Context *, void *(*run)(void *argument), void *argument);
void mgpu_context_none(void); /* in a forked child: the thread leaves its context */
/* Sets the error of the thread's context and leaves. Returns if the thread has no context. */
void mgpu_context_fail(const char *kind, const char *pattern, va_list arguments, const char *after);
void mgpu_context_leave(void); /* leaves if the thread's context has failed */
/* Enclose a sleep on a futex, so that a failure wakes it up. */
void mgpu_sleep_begin(Sleeper *, _Atomic uint32_t *word);
void mgpu_sleep_end(Sleeper *);
/* true: resources that the thread acquires from now on belong to the process and are not tracked. Returns the previous value. */
bool mgpu_context_apart(bool);
Context *mgpu_context_noting(void); /* the thread's context, if resources are tracked */
/* Registers a function to call if an error leaks `what`. The Release is part of that object and is initialized to {0}. */
void mgpu_context_add(Release *, void (*release)(void *), void *what);
void mgpu_context_disown(Release *);
void mgpu_context_release(Context *); /* calls the registered functions */
#endif
