/* base.h: what every part of the compiler uses: memory, text, places in source files, errors.
 *
 * Memory: a zeroing arena that lives until exit. What grows with a deep model and is needed only for a while (graphs that a pass
 * has replaced, the loops of a kernel that the program already has) is in a Memory of its own, which is freed as a whole. Errors:
 * the user's mistake is located (error_at) and ends the run with exit 1, or goes to the innermost Recovery. Ours is die().
 * Neither returns. */
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
_Noreturn void no_memory(size_t bytes); /* exit 3 */
void *allocate(size_t bytes);           /* zeroed, in the Memory in use; the first one lives until exit */
typedef struct Memory Memory;
Memory *memory_new(void);
Memory *memory_in_use(void);
Memory *memory_use(Memory *);                              /* sets the one in use; returns the previous one */
void memory_free(Memory *);                                /* with everything allocated in it */
void memory_join(Memory *to, Memory *from);                /* what was allocated in `from` now lives as long as `to` */
void *grow(void *old, size_t old_bytes, size_t new_bytes); /* a copy of old in a larger zeroed block */
#define NEW(type) ((type *)allocate(sizeof(type)))
#define NEW_ARRAY(type, count) ((type *)allocate(sizeof(type) * (size_t)((count) > 0 ? (count) : 1)))
/* APPEND(list, count, item): the capacity of `list` is the next power of two of `count`. */
#define APPEND(list, count, item)                                                                                                \
    (((count) & ((count)-1)) == 0 && ((count) == 0 || (count) > 0)                                                               \
         ? (void)((list) = grow((list), sizeof *(list) * (size_t)(count), sizeof *(list) * (size_t)((count) ? 2 * (count) : 1))) \
         : (void)0,                                                                                                              \
     (list)[(count)++] = (item))

const char *copy_text(const char *text, size_t length);
const char *plain_text(const char *text, bool lines);      /* for terminals: runtime/base/terminal.h */
const char *format(const char *pattern, ...) PRINTF(1, 2); /* printf into the arena */
const char *vformat(const char *pattern, va_list);
const char *last_word(const char *name); /* what is after its last dot: "weight" of "fc.weight" */

typedef struct Text { /* a growing string; data is NUL-terminated, NULL if empty (call text_of) */
    char *data;
    size_t length, capacity;
} Text;
void text_add(Text *, const char *pattern, ...) PRINTF(2, 3);
void text_bytes(Text *, const void *bytes, size_t length);
const char *text_of(const Text *);
const char *text_take(Text *); /* returns a copy in the arena and empties the text */

uint64_t hash_bytes(uint64_t seed, const void *bytes, size_t length); /* FNV-1a, then a finalizer */
uint64_t hash_words(uint64_t seed, const void *words, size_t count);  /* of 8 bytes each, as many times faster; never printed */
double logistic(double x);                                            /* 1 / (1 + e^-x) */
/* Returns "; did you mean 'stride'?" for the nearest of the names within a third of its length, else "". */
const char *did_you_mean(const char *word, const char *const *names, int count);

/* Returns the factor of a unit: 1024 for "KiB" and the unit "B"; 0 if the text is not this unit with or without a prefix. kB and
 * KB are 1000 bytes. */
double unit_factor(const char *text, const char *unit);
/* Returns bytes: "24GiB", "5838614.016kB", "24G" (a single letter is a power of 1024), "100"; negative if it is no size. */
double bytes_in_text(const char *text);

typedef struct Map { /* text -> pointer; keys[] and values[] are in order of insertion */
    const char **keys;
    void **values;
    int count;
    int *slots, slot_count;
} Map;
void *map_get(const Map *, const char *key); /* NULL: absent */
void map_set(Map *, const char *key, void *value);

/* ---- Places in the user's text. For a place in a library layer, `caller` is the call that led to it. */
typedef struct Source {
    const char *file, *text; /* text is NUL-terminated; NULL: named by a dump, and not available */
    size_t length;
    bool library; /* a file of dsl/stdlib, embedded into mgpuc */
    bool setting; /* the value of --set, which is no file */
    bool dump;    /* of --from: errors in its graphs are the file's, not ours */
} Source;
typedef struct Place {
    const Source *source;
    int line, column;           /* from 1 */
    const struct Place *caller; /* the call of the layer that contains this place; NULL in a model, data or train block */
    const char *layer;          /* the name of that layer; NULL likewise */
} Place;

/* Returns the innermost place in a file of the user's on the way to `at`, which may be in the library; NULL for NULL. */
const Place *users_place(const Place *at);
int users_line(const Place *at); /* its line; 0 if there is none */
/* Returns the line of the innermost place in the model's own file: for a place in an imported file, the line that calls it; 0 if
 * there is none. */
int model_line(const Place *at);

/* Prints file:line:col: error: message, the line with a caret, and "in 'conv', called here:" for calls, the user's first. Goes to
 * the innermost Recovery, or exit 1. */
_Noreturn void error_at(const Place *at, const char *pattern, ...) PRINTF(2, 3);
_Noreturn void verror_at(const Place *at, const char *pattern, va_list arguments);
_Noreturn void last_error_at(const Place *at, const char *pattern, ...)
    PRINTF(2, 3); /* goes to the outermost Recovery, because continuing would take too long */
void show_error_at(const Place *at, const char *pattern, ...) PRINTF(2, 3); /* likewise, but returns */
void warning_at(const Place *at, const char *pattern, ...) PRINTF(2, 3);
void warning_named(const char *name, const Place *at, const char *message); /* name: of lints.h, or NULL */

/* ---- Recovery from errors, so that one run reports all of them. For each place, one error is reported.
 *     if (setjmp(*recovery_begin(&r)) == 0) { ...; recovery_end(&r); } else { an error was reported; the recovery has ended } */
typedef struct Recovery {
    jmp_buf jump;
    struct Recovery *outer;
    Memory *memory;
} Recovery;
jmp_buf *recovery_begin(Recovery *);
void recovery_end(Recovery *);
_Noreturn void give_up(void); /* after an error was reported: goes to the innermost Recovery, or exit 1 */
int error_count(void);
void stop_after_errors(void); /* gives up if there were any */

/* ---- diagnostics for programs, in place of messages on stderr */
typedef struct Related {
    const Place *at;
    const char *text;
} Related; /* another place on the way to it: "in 'conv'", "called here" */
typedef struct Diagnostic {
    bool warning;
    const char *name; /* of a warning (lints.h); NULL: none */
    const Place *at;  /* in a file of the user's; NULL: no place */
    const char *message;
    const Related *related;
    int related_count;
} Diagnostic;
void diagnostics_to(void (*sink)(const Diagnostic *)); /* from here on, and forgets earlier errors; NULL: stderr */

/* exit status of the command line: 0 done; 1 invalid input; 2 usage; 3 the machine failed */
_Noreturn void fail(int status, const char *pattern, ...) PRINTF(2, 3); /* "mgpuc: error: ..." */
void end_output(void); /* flushes standard output; exit 3 if something was lost */
_Noreturn void die_at(const char *file, int line, const char *pattern, ...) PRINTF(3, 4);
#define die(...) die_at(__FILE__, __LINE__, __VA_ARGS__)

/* Returns the whole file, NUL-terminated; NULL and errno if it cannot be read. */
char *read_file(const char *path, size_t *length);
#endif
