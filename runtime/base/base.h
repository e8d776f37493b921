/* base.h: what every part of the runtime uses: errors, memory, threads, element types, counters, crash handling, JSON. */
#ifndef MGPU_RUNTIME_BASE_BASE_H
#define MGPU_RUNTIME_BASE_BASE_H

#include "runtime/abi/mgpu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define MGPU_PRINTF(a, b) __attribute__((format(printf, a, b)))
#define MGPU_COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* ---- support.c: errors, memory, names, time */
enum { MGPU_BAD_INPUT = 1, MGPU_BAD_USAGE = 2, MGPU_MACHINE_FAILED = 3 };
/* Prints "PROGRAM: error: ..." to stderr and ends the program; if several threads fail, the first one prints. In a library, the
 * call fails instead: context.h. */
_Noreturn void mgpu_fail(int status, const char *pattern, ...) MGPU_PRINTF(2, 3);
/* mgpu_fail with MGPU_BAD_INPUT; or, if complaint is not NULL, sets *complaint to the message, which its reader frees. The first
 * of several messages is kept. */
void mgpu_complain(char **complaint, const char *pattern, ...) MGPU_PRINTF(2, 3);
/* Sets the prefix of this process's messages. speaks: print messages other than errors, too; leave: how the process ends after an
 * error, NULL: _exit. */
void mgpu_speak_as(const char *speaker, bool speaks, void (*leave)(int status));
_Noreturn void mgpu_die(const char *pattern, ...) MGPU_PRINTF(1, 2); /* "PROGRAM: internal error: ...", status 3 */
void mgpu_say(const char *pattern, ...) MGPU_PRINTF(1, 2);           /* a line on stderr */
void mgpu_print(const char *pattern, ...) MGPU_PRINTF(1, 2);         /* on stdout; nothing in libraries */
void mgpu_say_once(const char *pattern, ...) MGPU_PRINTF(1, 2);      /* only the first time; one thread only */
char *mgpu_plain(const char *text);                                  /* mgpu_plain_text without lines; the caller frees */
void mgpu_print_plain(const char *text);                             /* likewise, to stdout */
#define MGPU_OUR_MISTAKE "\nThis is a mistake in mgpuc; please report it with the model."
_Noreturn void mgpu_no_memory(size_t bytes);
void mgpu_end_output(void);                                  /* flushes stdout; fails with status 3 if something was lost */
int mgpu_finish_file(FILE *, bool sync);                     /* closes it; returns 0, or errno of the first failure */
void *mgpu_allocate(size_t count, size_t bytes);             /* zeroed; fails with status 3 */
void *mgpu_allocate_aligned(size_t alignment, size_t bytes); /* likewise */
void *mgpu_resize(void *old, size_t bytes);
/* Appends to a list, which grows at powers of two: `count` implies its room. */
#define MGPU_PUSH(list, count, ...)                                                                                              \
    (((count) & ((count)-1)) == 0 ? (void)((list) = mgpu_resize((list), (size_t)((count) ? 2 * (count) : 1) * sizeof *(list)))   \
                                  : (void)0,                                                                                     \
     (list)[(count)++] = __VA_ARGS__)
FILE *mgpu_begin_text(char **text, size_t *length); /* a stream that writes to *text, which the caller frees */
void mgpu_end_text(FILE *);
__attribute__((format(printf, 1, 2))) void mgpu_warn_of_this(const char *pattern, ...); /* of any process, with its prefix */
void mgpu_start_thread(pthread_t *, void *(*run)(void *), void *argument);              /* fails with status 3 */
char *mgpu_format(const char *pattern, ...) MGPU_PRINTF(1, 2);                          /* the caller frees */
char *mgpu_vformat(const char *pattern, va_list) MGPU_PRINTF(1, 0);
const char *mgpu_grouped(int64_t n, char text[32]);          /* 12,345 */
void mgpu_two_numbers(double a, double b, char text[2][32]); /* with as many digits as show that they differ */
const char *mgpu_kernel_name(const mgpu_program *, int kernel);
/* Writes "; did you mean 'lr'?" to `text`, or "". */
const char *mgpu_did_you_mean(const char *word, const char *const *names, int count, char text[128]);
char *mgpu_join_names(const char *const *names, int count); /* "lr, decay"; the caller frees */
int mgpu_compare_doubles(const void *, const void *);       /* for qsort */
bool mgpu_ends_with(const char *text, const char *end);
double mgpu_seconds(void);                          /* monotonic clock */
double mgpu_seconds_since_start(double main_began); /* since the start of this process */

/* ---- dtype.c */
int64_t mgpu_dtype_bytes(uint8_t dtype);
const char *mgpu_dtype_name(uint8_t dtype); /* "f32" */
bool mgpu_dtype_is_float(uint8_t dtype);
double mgpu_to_double(const void *data, uint8_t dtype, int64_t index);
void mgpu_from_double(void *data, uint8_t dtype, int64_t index, double value);
void mgpu_convert(void *to, uint8_t to_dtype, const void *from, uint8_t from_dtype, int64_t count);
/* Returns true if the other type can represent every value; *bad: the index of the first that it cannot. */
bool mgpu_values_fit(const void *data, uint8_t dtype, int64_t count, uint8_t other, int64_t *bad);
int64_t mgpu_elements(const mgpu_tensor *);
int64_t mgpu_tensor_bytes(const mgpu_tensor *);
const char *mgpu_shape_text(int rank, const int64_t *extent, char text[200]); /* "[28, 28]" */

/* ---- counter.c: a number that only increases; threads wait until it is large enough: they spin shortly, then sleep */
enum { MGPU_WAITING_KINDS = 6 }; /* so that a counter fills one cache line */
typedef struct Counter {
    _Alignas(64) _Atomic int64_t value; /* at least 0 */
    _Atomic int64_t wanted[MGPU_WAITING_KINDS];
    _Atomic uint32_t word;
} Counter;
void mgpu_counter_set(Counter *, int64_t value);
void mgpu_counter_wait(Counter *, int64_t at_least);
bool mgpu_counter_spin(const Counter *, int64_t at_least, int spins);    /* true if it is large enough within so many reads */
void mgpu_counter_wait_spinning(Counter *, int64_t at_least, int spins); /* reads it so often before it sleeps */

/* ---- activity.c: Sets what the calling thread does that may block from now on, a literal, or NULL. Returns the previous one. */
const char *mgpu_doing(const char *what);
void mgpu_doing_with(const char *file); /* adds a file's name until the next mgpu_doing; ignored while that is NULL */
/* Writes a line for each such thread, unless `to` is NULL. any: there is one. Returns a count of all changes. */
uint64_t mgpu_doings(FILE *to, const char *before, bool *any);

/* ---- crash.c: if the calling thread crashes before guard_end, calls `say`, which ends the program */
typedef struct CrashGuard CrashGuard;
CrashGuard *mgpu_guard_begin(void (*say)(void *context, int signal), void *context);
void mgpu_guard_end(CrashGuard *);
/* A text that is truncated when it is full. The functions may be called by signal handlers. */
typedef struct SafeText {
    char *text;
    size_t capacity, length;
} SafeText;
void mgpu_add_text(SafeText *, const char *);
void mgpu_add_number(SafeText *, int64_t);
/* Prints PROGRAM, kind, where, what, the signal's name and `after`, and ends the program with status 3. */
_Noreturn void mgpu_end_crashed(const char *kind, const char *where, const char *what, int signal, const char *after);

/* ---- json.c: a small strict reader, and writers of text and numbers */
typedef enum JsonKind { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_TEXT, JSON_LIST, JSON_OBJECT } JsonKind;
typedef struct Json Json;
struct Json {
    JsonKind kind;
    const char *key;  /* of a member of an object */
    const char *text; /* TEXT: the characters; NUMBER: as written */
    double number;
    Json *first, *next; /* LIST, OBJECT: members in order */
};
/* Returns NULL and sets *error if the text is not JSON. The result is one block, freed by free(). */
Json *mgpu_json_read(const char *text, size_t length, const char **error);
const Json *mgpu_json_member(const Json *object, const char *key); /* NULL if there is none */
double mgpu_json_number(const Json *object, const char *key);      /* NAN if there is no such number */
const char *mgpu_json_text(const Json *object, const char *key);   /* "" if there is no such text */
bool mgpu_json_whole(const Json *, int64_t *value);                /* returns true if it is an exact integer */
void mgpu_json_write_text(FILE *, const char *text);               /* quoted; bytes that are not UTF-8 become U+FFFD */
void mgpu_json_write_bytes(FILE *, const char *text);    /* ... become \\udc80 .. \\udcff, which are read as these bytes */
void mgpu_json_write_number(FILE *, double, int digits); /* null if it is not finite */
#endif
