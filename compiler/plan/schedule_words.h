/* schedule_words.h: the text of a schedule, word by word: what schedule_words.c does for schedule_read.c. A word that is not what is
 * expected is an error at its place. */
#ifndef MGPU_SCHEDULE_WORDS_H
#define MGPU_SCHEDULE_WORDS_H

#include "compiler/plan/schedule.h"

typedef struct OpName { const char *name; Place at; } OpName;
typedef struct DeviceNames {     /* of the device that is being read; numbers are stored + 1 */
    Map buffers, ops;
    int as;                                   /* the device whose buffers and operations it has, too; itself: it has its own */
    OpName *waits; int wait_count;            /* names that are looked up at the end of the phase, */
    struct Pending { int op, wait; } *pending; /* parallel: and what they mean */
} DeviceNames;
typedef struct Reader {
    Source *source;
    const char *at, *line_start;
    int line;
    Schedule *schedule;
    PhaseSchedule *phase;        /* NULL: ahead of the first */
    int device_count;            /* of the phase, so far */
    DeviceNames *names;          /* by device */
    Map collectives, kernels;
    int kernel_count;
    struct Reduce { int device, op, transfer; Place at; } *reduces; int reduce_count; /* whose collective is looked up at the end */
    Place phase_place;
} Reader;

Place schedule_place(const Reader *r);
_Noreturn void schedule_error(const Reader *r, const char *pattern, ...) PRINTF(2, 3);
void schedule_skip_blanks(Reader *r);
bool schedule_next_record(Reader *r); /* to its first word; false: there is none */
void schedule_end_record(Reader *r);
bool schedule_take(Reader *r, const char *text); /* these characters */
bool schedule_at_word(const Reader *r, const char *word);
bool schedule_take_word(Reader *r, const char *word);
void schedule_need_word(Reader *r, const char *word);
const char *schedule_read_quoted(Reader *r);
const char *schedule_read_name(Reader *r, const char *what);
int64_t schedule_read_number(Reader *r, const char *what, int64_t most);
int schedule_read_int(Reader *r, const char *what);
int64_t schedule_read_bytes(Reader *r, const char *what);
uint32_t schedule_read_digest(Reader *r);
double schedule_read_time(Reader *r, const char *what); /* in microseconds */
int schedule_read_choice(Reader *r, const char *what, const char *const *names, int count); /* its number in `names` */
Dtype schedule_read_dtype(Reader *r);
#endif
