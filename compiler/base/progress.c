/* progress.c: prints progress messages from a thread that checks twenty times a second, because the stage itself is busy. */
#include "compiler/base/progress.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static const double PATIENCE_S = 2;
static const struct timespec PAUSE = {.tv_nsec = 50000000};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects `innermost` and the stages linked from it */
static Stage *innermost;
static double patience_s;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void print_names(const Stage *s)
{
    if (s->outer)
        print_names(s->outer);
    fprintf(stderr, "%s%s", s->outer ? ", " : "", s->name);
}

/* Outermost stages first. */
static void say(Stage *s, double now)
{
    if (!s)
        return;
    say(s->outer, now);
    if (s->printed || now - s->begin_s < patience_s)
        return;
    s->printed = true;
    fputs("mgpuc: still working on ", stderr);
    print_names(s);
    fprintf(stderr, "%s%s\n", s->detail ? ": " : "", s->detail ? s->detail : "");
}

static void *watch(void *unused)
{
    for (;;) {
        nanosleep(&PAUSE, NULL);
        pthread_mutex_lock(&lock);
        flockfile(stderr);
        say(innermost, now_s());
        funlockfile(stderr);
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

/* If the thread cannot be started, there are no messages. */
static void start_watch(void)
{
    const char *given = getenv("MGPUC_PATIENCE");
    pthread_t thread;
    patience_s = given && *given ? strtod(given, NULL) : PATIENCE_S;
    if (patience_s > 0 && pthread_create(&thread, NULL, watch, NULL) == 0)
        pthread_detach(thread);
}

void stage_begin(Stage *s, const char *detail, const char *name, ...)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    va_list arguments;
    pthread_once(&once, start_watch);
    va_start(arguments, name);
    vsnprintf(s->name, sizeof s->name, name, arguments);
    va_end(arguments);
    s->detail = detail;
    s->begin_s = now_s();
    s->printed = false;
    pthread_mutex_lock(&lock);
    s->outer = innermost;
    innermost = s;
    pthread_mutex_unlock(&lock);
}

void stage_end(Stage *s)
{
    pthread_mutex_lock(&lock);
    innermost = s->outer;
    pthread_mutex_unlock(&lock);
}
