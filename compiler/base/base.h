/* base.h: what every part of the compiler uses: memory, text, places in source files, and the two ways to stop.
 *
 * Memory: a zeroing arena that lives until exit. What would grow with a deep model and is needed for a while only (graphs that
 * a pass has replaced, the loops of a kernel that the program has already) is in a Memory of its own, given back whole.
 * Errors: the user's mistake is located (error_at) and ends the run with exit 1, or, where a Recovery is under way, what that is
 * of; ours is die(). Neither returns. */
#ifndef MGPU_BASE_H
#define MGPU_BASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))
#define PRINTF(a, b) __attribute__((format(printf, a, b)))

/* ---- memory and text */
_Noreturn void no_memory(size_t bytes);                      /* exit 3 */
void *allocate(size_t bytes);                                /* zeroed; of the Memory in use: at first, until exit */
typedef struct Memory Memory;
Memory *memory_new(void);
Memory *memory_in_use(void);
Memory *memory_use(Memory *);                                /* from now on; -> the one before, to be used again */
void memory_free(Memory *);                                  /* all that was taken from it */
void memory_join(Memory *to, Memory *from);                  /* what was taken from `from` now lives as long as `to` */
void *grow(void *old, size_t old_bytes, size_t new_bytes);   /* a copy of old in a larger zeroed block */
#define NEW(type) ((type *)allocate(sizeof(type)))
#define NEW_ARRAY(type, count) ((type *)allocate(sizeof(type) * (size_t)((count) > 0 ? (count) : 1)))
/* APPEND(list, count, item): `list` grows at powers of two; its room is implied by `count`. */
#define APPEND(list, count, item)                                                                                     \
    (((count) & ((count)-1)) == 0 && ((count) == 0 || (count) > 0)                                                    \
         ? (void)((list) = grow((list), sizeof *(list) * (size_t)(count),                                             \
                                sizeof *(list) * (size_t)((count) ? 2 * (count) : 1)))                                \
         : (void)0,                                                                                                   \
     (list)[(count)++] = (item))

const char *copy_text(const char *text, size_t length);
const char *plain_text(const char *text, bool lines);          /* for a terminal: runtime/base/terminal.h */
const char *format(const char *pattern, ...) PRINTF(1, 2); /* printf into the arena */
const char *vformat(const char *pattern, va_list);

typedef struct Text { /* a growing string; data is NUL-terminated, "" when empty (call text_of) */
    char *data;
    size_t length, room;
} Text;
void text_add(Text *, const char *pattern, ...) PRINTF(2, 3);
void text_bytes(Text *, const void *bytes, size_t length);
const char *text_of(const Text *);
const char *text_take(Text *); /* a copy in the arena; the text is empty again */

uint64_t hash_bytes(uint64_t seed, const void *bytes, size_t length); /* FNV-1a, then finalised */
uint64_t hash_words(uint64_t seed, const void *words, size_t count); /* of 8 bytes, as many times faster; for what no text shows */
double logistic(double x); /* 1 / (1 + e^-x) */
/* "; did you mean 'stride'?" for the nearest of the names within a third of its length, else "" */
const char *did_you_mean(const char *word, const char *const *names, int count);

/* "KiB" and the unit "B": 1024; 0: the text is not this unit, with or without a prefix. kB and KB are 1000 bytes. */
double unit_factor(const char *text, const char *unit);
/* "24GiB", "5838614.016kB", "24G" (a letter alone counts in powers of 1024), "100": -> bytes; negative: it is no size */
double bytes_in_text(const char *text);

typedef struct Map { /* text -> pointer; keeps insertion order in keys[] / values[] */
    const char **keys;
    void **values;
    int count;
    int *slots, slot_count;
} Map;
void *map_get(const Map *, const char *key); /* NULL: absent */
void map_set(Map *, const char *key, void *value);

/* ---- places: where in the user's text something is. Inside a library layer `caller` is the call that led there. */
typedef struct Source {
    const char *file, *text; /* text is NUL-terminated; NULL: what a dump names, and cannot be shown */
    size_t length;
    bool library; /* a file of dsl/stdlib, embedded into mgpuc */
    bool setting; /* the value of --set, which is no file */
    bool dump;    /* of --from: what is wrong with its graphs is the file's mistake, not ours */
} Source;
typedef struct Place {
    const Source *source;
    int line, column;           /* from 1 */
    const struct Place *caller; /* the call of the layer that this place is in; NULL in a model, data or train block */
    const char *layer;          /* the name of that layer; NULL likewise */
} Place;

/* the innermost place in a file of the user's own on the way to `at`, which may be in the library; NULL for NULL */
const Place *users_place(const Place *at);
int users_line(const Place *at); /* its line; 0 if there is none */
/* the line of the innermost place in the model's own file: of what an imported file says, the line that calls it; 0: none */
int model_line(const Place *at);

/* file:line:col: error: message, the line, a caret; "in 'conv', called here:" chains, the user's call first. To the innermost
 * Recovery; exit 1 if there is none. */
_Noreturn void error_at(const Place *at, const char *pattern, ...) PRINTF(2, 3);
_Noreturn void verror_at(const Place *at, const char *pattern, va_list arguments);
_Noreturn void last_error_at(const Place *at, const char *pattern, ...)
    PRINTF(2, 3); /* to the outermost Recovery: to go on would take too long */
void show_error_at(const Place *at, const char *pattern, ...) PRINTF(2, 3); /* likewise, but it returns */
void warning_at(const Place *at, const char *pattern, ...) PRINTF(2, 3);
void warning_named(const char *name, const Place *at, const char *message); /* name: of lints.h, or NULL */

/* ---- going on after an error, so that one run says all that is wrong. Of each place one error is said.
 *     if (setjmp(*recovery_begin(&r)) == 0) { ...; recovery_end(&r); } else { an error was said; the recovery has ended } */
typedef struct Recovery {
    jmp_buf jump;
    struct Recovery *outer;
    Memory *memory;
} Recovery;
jmp_buf *recovery_begin(Recovery *);
void recovery_end(Recovery *);
_Noreturn void give_up(void); /* what is wrong was said: to the innermost Recovery, or exit 1 */
int errors_said(void);
void stop_after_errors(void); /* gives up if there were any */

/* ---- what was said, for programs: in place of messages on stderr */
typedef struct Related {
    const Place *at;
    const char *text;
} Related; /* another place on the way to it: "in 'conv'", "called here" */
typedef struct Diagnostic {
    bool warning;
    const char *name; /* of a warning (lints.h); NULL: it has none */
    const Place *at;  /* in a file of the user's own; NULL: of no place */
    const char *message;
    const Related *related;
    int related_count;
} Diagnostic;
void diagnostics_to(void (*sink)(const Diagnostic *)); /* from here on, errors before are forgotten; NULL: stderr */

/* exit status of the command line: 0 done; 1 input is wrong; 2 usage; 3 the machine failed */
_Noreturn void fail(int status, const char *pattern, ...) PRINTF(2, 3); /* "mgpuc: error: ..." */
void end_output(void);                                                  /* flushes standard output; exit 3 if something was lost */
_Noreturn void die_at(const char *file, int line, const char *pattern, ...) PRINTF(3, 4);
#define die(...) die_at(__FILE__, __LINE__, __VA_ARGS__)

/* the whole file, NUL-terminated; NULL with errno set if it cannot be read */
char *read_file(const char *path, size_t *length);
#endif
