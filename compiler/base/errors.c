/* errors.c: places, messages about them, and recovery from errors; see base.h. */
#include "compiler/base/base.h"
#include "runtime/base/terminal.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- places */

static void show_line(const Place *at)
{
    if (!at->source->text)
        return;
    const char *line = at->source->text, *end = at->source->text + at->source->length;
    for (int n = 1; n < at->line && line < end; n++) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        line = next ? next + 1 : end;
    }
    const char *stop = memchr(line, '\n', (size_t)(end - line));
    int length = (int)((stop ? stop : end) - line), from = 0, width = 120;
    if (at->column - 1 > width - 20) /* a long line: a window around the place */
        from = at->column - 1 - width / 2;
    if (from > length)
        from = length;
    int shown = length - from < width ? length - from : width;
    fputs("    ", stderr);
    char *text = memcpy(allocate((size_t)shown + 4), line + from, (size_t)shown); /* 4: the last character may be cut */
    for (int i = 0; i < shown;) { /* control characters would garble the terminal; each byte keeps its column */
        uint32_t code;
        int bytes = text[i] ? mgpu_control(text + i, &code) : 1;
        if (bytes)
            memset(text + i, text[i] == '\t' ? ' ' : '?', (size_t)bytes);
        i += bytes ? bytes : mgpu_utf8(text + i, &code);
    }
    fwrite(text, 1, (size_t)shown, stderr);
    fprintf(stderr, "\n    %*s^\n", at->column - 1 - from > 0 ? at->column - 1 - from : 0, "");
}

const Place *users_place(const Place *at)
{
    while (at && at->source && at->source->library && at->caller)
        at = at->caller;
    return at;
}

int users_line(const Place *at)
{
    at = users_place(at);
    return at && at->source && !at->source->library ? at->line : 0;
}

int model_line(const Place *at)
{
    const Place *outermost = at;
    while (outermost && outermost->caller)
        outermost = outermost->caller;
    while (at && at->source != outermost->source)
        at = at->caller;
    return at && at->source && !at->source->library ? at->line : 0;
}

/* ---- recovery */

static void (*receiver)(const Diagnostic *);
static Recovery *recovery;      /* the innermost */
static Map reported_places;     /* of errors */
static Memory *reported_memory; /* the memory of that map */
static int errors, distinct;    /* distinct: the first one of each place */

void diagnostics_to(void (*to)(const Diagnostic *))
{
    receiver = to;
    errors = distinct = 0;
    recovery = NULL;
    reported_places = (Map){0};
    if (reported_memory)
        memory_free(reported_memory);
    reported_memory = NULL;
}

int error_count(void) { return errors; }

jmp_buf *recovery_begin(Recovery *r)
{
    *r = (Recovery){.outer = recovery, .memory = memory_in_use()};
    recovery = r;
    return &r->jump;
}

void recovery_end(Recovery *r) { recovery = r->outer; }

void give_up(void)
{
    Recovery *r = recovery;
    if (!r)
        exit(1);
    recovery = r->outer;
    memory_use(r->memory);
    longjmp(r->jump, 1);
}

void stop_after_errors(void)
{
    if (errors)
        give_up();
}

/* Counts an error; returns whether it is the first one at its place. */
static bool is_first_error(const Place *at)
{
    enum { MOST = 20 };
    reported_memory = reported_memory ? reported_memory : memory_new();
    Memory *outer = memory_use(reported_memory);
    const char *place = at && at->source ? format("%s:%d:%d", at->source->file, at->line, at->column) : "";
    bool first = !map_get(&reported_places, place) || !*place;
    map_set(&reported_places, place, &reported_places);
    memory_use(outer);
    errors++;
    if (first && distinct++ == MOST)
        fail(1, "more than %d errors; the others are not shown", MOST);
    return first;
}

/* ---- reports */

/* The calls that led to a place: those within the library, then those of the user's layers, recursive ones once. */
enum { MOST_CALLS = 16 };
typedef struct Trail {
    Related list[2 * MOST_CALLS];
    int inside, count, skipped;
} Trail; /* the first `inside` are in the library */

static Trail trail_of(const Place *at, const Place *user)
{
    Trail t = {0};
    for (const Place *p = at; p != user; p = p->caller)
        *(t.inside < MOST_CALLS ? &t.inside : &t.skipped) += 1;
    t.count = t.inside;
    for (int i = t.inside - 1; i >= 0; i--, at = at->caller)
        t.list[i] = (Related){at, format("in '%s'", at->layer ? at->layer : "?")};
    const Place *shown = user;
    for (const Place *p = user->caller; p && t.count < t.inside + MOST_CALLS; p = p->caller) {
        if (p->source == shown->source && p->line == shown->line && p->column == shown->column)
            continue;
        t.list[t.count++] = (Related){p, "called here"};
        shown = p;
    }
    return t;
}

static void print_trail(const Trail *t)
{
    if (t->skipped)
        fprintf(stderr, "  (%d calls are not shown)\n", t->skipped);
    for (int i = 0; i < t->count; i++) {
        const Place *p = t->list[i].at;
        const char *file = plain_text(p->source->file, false);
        if (i >= t->inside)
            fprintf(stderr, "  called in %s:%d:%d\n", file, p->line, p->column);
        else if (p->source->text)
            fprintf(stderr, "  %s at %s:%d:%d\n", t->list[i].text, file, p->line, p->column);
        else /* dumps have no places in the library */
            fprintf(stderr, "  %s\n", t->list[i].text);
        if (i >= t->inside || (i == t->inside - 1 && p->source->text))
            show_line(p);
    }
}

/* name: of a warning, or NULL */
static void report(const Place *at, bool warning, const char *name, const char *message)
{
    static Trail none;
    bool placed = at && at->source;
    const Place *user = placed ? users_place(at) : NULL; /* the mistake is most likely in the user's own call */
    if (!warning && !is_first_error(user))
        return;
    fflush(stdout);
    message = plain_text(message, true);
    Trail trail = placed ? trail_of(at, user) : none;
    if (receiver) {
        receiver(&(Diagnostic){warning, name, user, message, trail.list, trail.count});
        return;
    }
    const char *kind = warning ? "warning" : "error";
    if (!placed) {
        fprintf(stderr, "mgpuc: %s: %s\n", kind, message);
        return;
    }
    enum { MOST = 2000, TAIL_BYTES = 200 }; /* names may have megabytes */
    size_t length = strlen(message);
    bool whole = length <= MOST;
    fprintf(stderr, "%s:%d:%d: %s: %.*s%s%s%s\n", plain_text(user->source->file, false), user->line, user->column, kind,
            whole ? (int)length : MOST - TAIL_BYTES, message, whole ? "" : " ... ", whole ? "" : message + length - TAIL_BYTES,
            name ? format(" [-W%s]", name) : "");
    show_line(user);
    print_trail(&trail);
}

/* Returns advice if the value of a --set looks like a file name whose quotes the shell has removed, else NULL. */
static const char *quoting_hint(const Source *s)
{
    bool path = false, letter = false;
    for (const char *c = s->setting ? s->text : ""; *c; c++) {
        if (!isalnum((unsigned char)*c) && !strchr("_-./~", *c))
            return NULL;
        letter = letter || isalpha((unsigned char)*c);
        path = path || *c == '/' || (*c == '.' && isalpha((unsigned char)c[1]));
    }
    return path && letter ? format("; a string is written in quotes, which others keep from the shell: --set '%s=\"%s\"'",
                                   s->file + strlen("--set "), s->text)
                          : NULL;
}

void show_error_at(const Place *at, const char *pattern, ...)
{
    va_list arguments;
    va_start(arguments, pattern);
    report(at, false, NULL, vformat(pattern, arguments));
    va_end(arguments);
    fflush(stderr);
}

void last_error_at(const Place *at, const char *pattern, ...)
{
    va_list arguments;
    va_start(arguments, pattern);
    report(at, false, NULL, vformat(pattern, arguments));
    va_end(arguments);
    while (recovery && recovery->outer)
        recovery = recovery->outer;
    give_up();
}

void verror_at(const Place *at, const char *pattern, va_list arguments)
{
    const char *message = vformat(pattern, arguments), *hint = at && at->source ? quoting_hint(at->source) : NULL;
    const char *end = hint ? strstr(message, "; ") : NULL; /* replaces the advice for an expression */
    report(at, false, NULL, hint ? format("%.*s%s", end ? (int)(end - message) : (int)strlen(message), message, hint) : message);
    give_up();
}

void error_at(const Place *at, const char *pattern, ...)
{
    va_list arguments;
    va_start(arguments, pattern);
    verror_at(at, pattern, arguments);
}

void warning_at(const Place *at, const char *pattern, ...)
{
    va_list arguments;
    va_start(arguments, pattern);
    report(at, true, NULL, vformat(pattern, arguments));
    va_end(arguments);
}

void warning_named(const char *name, const Place *at, const char *message) { report(at, true, name, message); }

void fail(int status, const char *pattern, ...)
{
    va_list arguments;
    va_start(arguments, pattern);
    fflush(stdout);
    if (receiver) {
        receiver(&(Diagnostic){.message = plain_text(vformat(pattern, arguments), true)});
        exit(status);
    }
    fputs("mgpuc: error: ", stderr);
    mgpu_print_message(stderr, pattern, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(status);
}

void end_output(void)
{
    errno = 0;
    bool good = fflush(stdout) == 0 && !ferror(stdout);
    if (!good && !errno && write(STDOUT_FILENO, "\n", 1) == 1) /* an earlier write has failed: one more sets errno */
        errno = ENOSPC;
    if (!good)
        fail(3, "standard output cannot be written: %s", strerror(errno));
}

void die_at(const char *file, int line, const char *pattern, ...)
{
    va_list arguments;
    va_start(arguments, pattern);
    fflush(stdout);
    fprintf(stderr, "mgpuc: internal error at %s:%d: ", file, line);
    mgpu_print_message(stderr, pattern, arguments);
    fputs("\nThis is a mistake in mgpuc; please report it with the model.\n", stderr);
    va_end(arguments);
    abort();
}
