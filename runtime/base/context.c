/* context.c: contexts, in which the threads of a library handle errors. */
#include "runtime/base/context.h"
#include "runtime/base/base.h"
#include "runtime/base/terminal.h"

#include <limits.h>
#include <linux/futex.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Any function may fail, so this is no argument. */
static _Thread_local struct {
    Context *context;
    jmp_buf *out; /* where longjmp goes */
    bool apart, releases;
} this_thread;

void mgpu_context_open(Context *c)
{
    *c = (Context){.failed = false};
    pthread_mutex_init(&c->lock, NULL);
}

void mgpu_context_close(Context *c) { pthread_mutex_destroy(&c->lock); }

Context *mgpu_context(void) { return this_thread.context; }
Context *mgpu_context_noting(void) { return this_thread.apart ? NULL : this_thread.context; }
void mgpu_context_none(void) { this_thread.context = NULL; }

bool mgpu_context_apart(bool apart)
{
    bool before = this_thread.apart;
    this_thread.apart = apart;
    return before;
}

/* longjmp skips only frames of the runtime, none of which has cleanup code. */
bool mgpu_context_call(Context *c, void (*call)(void *argument), void *argument)
{
    jmp_buf out;
    if (atomic_load(&c->failed))
        return false;
    this_thread.context = c;
    this_thread.out = &out;
    if (_setjmp(out) == 0)
        call(argument);
    this_thread.context = NULL;
    this_thread.out = NULL;
    this_thread.apart = false;
    return !atomic_load(&c->failed);
}

void *mgpu_context_run(Context *c, void *(*run)(void *argument), void *argument)
{
    jmp_buf out;
    this_thread.context = c;
    this_thread.out = &out;
    return _setjmp(out) == 0 ? run(argument) : NULL;
}

static _Noreturn void leave(void) { longjmp(*this_thread.out, 1); }

void mgpu_context_leave(void)
{
    if (this_thread.context && atomic_load(&this_thread.context->failed) && !this_thread.releases)
        leave();
}

/* The lock is held. */
static void wake_all(Context *c)
{
    for (Sleeper *s = c->sleepers; s; s = s->next) {
        atomic_fetch_add(s->word, 1);
        syscall(SYS_futex, s->word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX, NULL, NULL, 0);
    }
}

void mgpu_context_fail(const char *kind, const char *pattern, va_list arguments, const char *after)
{
    Context *c = mgpu_context();
    if (!c)
        return;
    char text[sizeof c->error] = "";
    FILE *f = fmemopen(text, sizeof text, "w");
    if (f) {
        fputs(kind, f);
        mgpu_print_message(f, pattern, arguments);
        fputs(after, f);
        fclose(f);
    }
    text[sizeof text - 1] = 0;
    pthread_mutex_lock(&c->lock);
    if (!atomic_load(&c->failed))
        memcpy(c->error, *text ? text : "out of memory", sizeof c->error);
    atomic_store(&c->failed, true);
    wake_all(c);
    pthread_mutex_unlock(&c->lock);
    leave();
}

void mgpu_sleep_begin(Sleeper *s, _Atomic uint32_t *word)
{
    Context *c = this_thread.context;
    if (!c)
        return;
    *s = (Sleeper){.word = word};
    pthread_mutex_lock(&c->lock);
    if (atomic_load(&c->failed) && !this_thread.releases) {
        pthread_mutex_unlock(&c->lock);
        leave();
    }
    s->next = c->sleepers;
    s->at = &c->sleepers;
    if (s->next)
        s->next->at = &s->next;
    c->sleepers = s;
    pthread_mutex_unlock(&c->lock);
}

void mgpu_sleep_end(Sleeper *s)
{
    Context *c = this_thread.context;
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    *s->at = s->next;
    if (s->next)
        s->next->at = s->at;
    pthread_mutex_unlock(&c->lock);
    mgpu_context_leave();
}

/* ---- resources that are not the system's */
void mgpu_context_add(Release *r, void (*release)(void *), void *what)
{
    Context *c = mgpu_context_noting();
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    *r = (Release){release, what, c->releases, &c->releases};
    if (r->next)
        r->next->at = &r->next;
    c->releases = r;
    pthread_mutex_unlock(&c->lock);
}

void mgpu_context_disown(Release *r)
{
    Context *c = this_thread.context;
    if (!c || !r->at)
        return;
    pthread_mutex_lock(&c->lock);
    *r->at = r->next;
    if (r->next)
        r->next->at = r->at;
    r->at = NULL;
    pthread_mutex_unlock(&c->lock);
}

void mgpu_context_release(Context *c)
{
    this_thread.context = c;
    this_thread.releases = true;
    while (c->releases) {
        Release *r = c->releases;
        jmp_buf out;
        this_thread.out = &out;
        mgpu_context_disown(r);
        if (_setjmp(out) == 0)
            r->release(r->what);
    }
    this_thread.context = NULL;
    this_thread.out = NULL;
    this_thread.releases = false;
}
