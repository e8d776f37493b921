/* base.h: errors, memory, threads, types of elements, counters, crashes, JSON: what every part of the runtime uses. */
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
/* "PROGRAM: error: ..." on stderr, then the end of the program; of several threads the first one speaks. In a library the call
 * fails: context.h */
_Noreturn void mgpu_fail(int status, const char *pattern, ...) MGPU_PRINTF(2, 3);
/* mgpu_fail with MGPU_BAD_INPUT; or, where complaint is not NULL, the message goes there, which who asks for it frees: of several the first */
void mgpu_complain(char **complaint, const char *pattern, ...) MGPU_PRINTF(2, 3);
/* ours, not the user's: "PROGRAM: internal error: ...", status 3 */
/* Before what this process says from now on; `speaks`: not only errors; leave: how it ends with one, NULL: by _exit */
void mgpu_speak_as(const char *speaker, bool speaks, void (*leave)(int status));
_Noreturn void mgpu_die(const char *pattern, ...) MGPU_PRINTF(1, 2);
void mgpu_say(const char *pattern, ...) MGPU_PRINTF(1, 2); /* a line on stderr */
void mgpu_print(const char *pattern, ...) MGPU_PRINTF(1, 2); /* on stdout; of a library: nothing, as all that is said */
void mgpu_say_once(const char *pattern, ...) MGPU_PRINTF(1, 2); /* unless it has said this line; of one thread */
char *mgpu_plain(const char *text);                        /* as terminal.h says; the caller frees */
void mgpu_print_plain(const char *text);                   /* likewise, on stdout */
#define MGPU_OUR_MISTAKE "\nThis is a mistake in mgpuc; please report it with the model."
_Noreturn void mgpu_no_memory(size_t bytes);
void mgpu_end_output(void);                          /* flushes standard output; fails with status 3 if something was lost */
int mgpu_finish_file(FILE *, bool sync);            /* closes it; 0, or errno of the first thing that failed */
void *mgpu_allocate(size_t count, size_t bytes);    /* zeroed; fails with status 3 */
void *mgpu_allocate_aligned(size_t alignment, size_t bytes); /* likewise */
void *mgpu_resize(void *old, size_t bytes);
FILE *mgpu_begin_text(char **text, size_t *length);  /* a stream that makes a text, which the caller frees */
void mgpu_end_text(FILE *);
__attribute__((format(printf, 1, 2))) void mgpu_warn_of_this(const char *pattern, ...); /* of any process, which it names */
void mgpu_start_thread(pthread_t *, void *(*run)(void *), void *argument); /* fails with status 3 */
char *mgpu_format(const char *pattern, ...) MGPU_PRINTF(1, 2); /* the caller frees */
char *mgpu_vformat(const char *pattern, va_list) MGPU_PRINTF(1, 0);
const char *mgpu_grouped(int64_t n, char text[32]); /* 12,345 */
const char *mgpu_kernel_name(const mgpu_program *, int kernel);
/* "; did you mean 'lr'?" into `text`, or "" */
const char *mgpu_near_miss(const char *word, const char *const *names, int count, char text[128]);
char *mgpu_join_names(const char *const *names, int count); /* "lr, decay"; the caller frees */
int mgpu_compare_doubles(const void *, const void *); /* for qsort */
double mgpu_seconds(void);                          /* a clock that never goes back */
double mgpu_seconds_since_start(double main_began); /* of this process */

/* ---- dtype.c */
int64_t mgpu_dtype_bytes(uint8_t dtype);
const char *mgpu_dtype_name(uint8_t dtype);         /* "f32" */
bool mgpu_dtype_is_float(uint8_t dtype);
double mgpu_to_double(const void *data, uint8_t dtype, int64_t index);
void mgpu_from_double(void *data, uint8_t dtype, int64_t index, double value);
void mgpu_convert(void *to, uint8_t to_dtype, const void *from, uint8_t from_dtype, int64_t count);
/* whether every value is a value of the other type too; *bad: the first that is not */
bool mgpu_values_fit(const void *data, uint8_t dtype, int64_t count, uint8_t other, int64_t *bad);
int64_t mgpu_elements(const mgpu_tensor *);
int64_t mgpu_tensor_bytes(const mgpu_tensor *);
const char *mgpu_shape_text(int rank, const int64_t *extent, char text[200]); /* "[28, 28]" */

/* ---- counter.c: a number that only grows; others wait until it is large enough: a short spin, then sleep */
enum { MGPU_WAITING_KINDS = 6 };        /* a counter is one line of the cache */
typedef struct Counter {
    _Alignas(64) _Atomic int64_t value; /* at least 0 */
    _Atomic int64_t wanted[MGPU_WAITING_KINDS];
    _Atomic uint32_t word;
} Counter;
void mgpu_counter_set(Counter *, int64_t value);
void mgpu_counter_wait(Counter *, int64_t at_least);
bool mgpu_counter_spin(const Counter *, int64_t at_least, int spins);    /* whether it is large enough, after so many looks */
void mgpu_counter_wait_spinning(Counter *, int64_t at_least, int spins); /* looks so often before it sleeps */

/* ---- doing.c: what the calling thread is at from now on, if that may stand still; a literal; NULL: nothing. Returns what it was at before */
const char *mgpu_doing(const char *what);
void mgpu_doing_with(const char *file); /* and with which file, until it does something else; for who does nothing that may stand still, nothing */
/* a line for each thread, if `to` is not NULL; any: some thread is at something. Returns how often something of this has changed */
uint64_t mgpu_doings(FILE *to, const char *before, bool *any);

/* ---- crash.c: if the calling thread crashes before guard_end, `say` is called, which ends the program */
typedef struct CrashGuard CrashGuard;
CrashGuard *mgpu_guard_begin(void (*say)(void *context, int signal), void *context);
void mgpu_guard_end(CrashGuard *);
/* text that is cut where there is no more room, made of what a signal handler may call */
typedef struct SafeText { char *text; size_t room, length; } SafeText;
void mgpu_add_text(SafeText *, const char *);
void mgpu_add_number(SafeText *, int64_t);
/* PROGRAM KIND WHERE WHAT SIGNAL BEHIND, and the program ends with status 3 */
_Noreturn void mgpu_end_crashed(const char *kind, const char *where, const char *what, int signal, const char *after);

/* ---- json.c: a small strict reader, and the way that we write text and numbers */
typedef enum JsonKind { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_TEXT, JSON_LIST, JSON_OBJECT } JsonKind;
typedef struct Json Json;
struct Json {
    JsonKind kind;
    const char *key;          /* member of an object */
    const char *text;         /* TEXT: its characters; NUMBER: as written */
    double number;
    Json *first, *next;       /* LIST, OBJECT: members in order */
};
/* NULL and *error for what is not JSON. The result is one block: free(it). */
Json *mgpu_json_read(const char *text, size_t length, const char **error);
const Json *mgpu_json_member(const Json *object, const char *key); /* NULL if there is none */
double mgpu_json_number(const Json *object, const char *key);      /* NAN if it has no such number */
const char *mgpu_json_text(const Json *object, const char *key);   /* "" if it has no such text */
bool mgpu_json_whole(const Json *, int64_t *value);                /* an exact whole number */
void mgpu_json_write_text(FILE *, const char *text);               /* quoted; bytes that are no UTF-8 become U+FFFD */
void mgpu_json_write_bytes(FILE *, const char *text);              /* ... become \\udc80 .. \\udcff, which are read as these bytes */
void mgpu_json_write_number(FILE *, double, int digits);           /* null if it is not finite */
#endif
