/* schedule_text_test.c: schedules as text: what is written is read back, and what is no schedule is an error with a place. */
#include "compiler/plan/plan.h"
#include "compiler/plan/schedule.h"
#include "compiler/verify/proof.h"
#include "tests/unit/random_phase.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures;

static void result(const char *name, const char *why)
{
    if (why)
        printf("not ok %s: %s\n", name, why);
    else
        printf("ok %s\n", name);
    failures += why != NULL;
}

/* the verbs of the schedule are the names of nodes */
static void test_verbs(void)
{
    const char *why = NULL;
    for (int i = 0; i < MGPU_TRANSFERS; i++)
        why = strcmp(transfer_word(i), mgpu_transfer_row(i)->verb) != 0 ? mgpu_transfer_row(i)->verb : why;
    result("verbs of transfers", why);
}

static const char *rewritten(const Schedule *s)
{
    Text t = {0};
    schedule_write(s, &t);
    return text_take(&t);
}

static void test_text(int programs)
{
    const char *why = NULL, *again = NULL;
    for (int seed = 0; seed < programs && !why; seed++) {
        const char *first = rewritten(random_plan(random_program((uint64_t)seed, 25), 1 + seed % 3)->schedule);
        const char *second = rewritten(random_plan(random_program((uint64_t)seed, 25), 1 + seed % 3)->schedule);
        if (strcmp(first, second) != 0)
            again = format("program %d", seed);
        if (strcmp(first, rewritten(schedule_read("test", first))) != 0)
            why = format("program %d", seed);
    }
    Plan *plan = random_plan(random_program(3, 12), 2);
    plan->schedule->model = "a \"model\"\n\\ of 100 %";
    for (int i = 0; i < plan->schedule->phase_count; i++) {
        PhaseSchedule *p = &plan->schedule->phases[i];
        p->devices[1].buffers[p->devices[1].buffer_count - 1].name = "w.\xc3\xa4 [0:4]@-1";
        if (p->collective_count)
            p->collectives[0].ops[1] = -1;
    }
    const char *text = rewritten(plan->schedule);
    if (strcmp(text, rewritten(schedule_read("test", text))) != 0)
        why = "strange names";
    result("what is written is read", why);
    result("the same bytes for the same input", again);
}

/* what is packed and unpacked is the same schedule, and the image of a text is that of the schedule it was printed of, but for
 * what no text has; damage is an error */
static void test_image(int programs)
{
    const char *why = NULL;
    for (int seed = 0; seed < programs && !why; seed++) {
        const Schedule *s = random_plan(random_program((uint64_t)seed, 25), 1 + seed % 3)->schedule;
        const char *text = rewritten(s);
        const uint64_t *image = schedule_pack(s);
        Schedule *same = schedule_unpack("test", image);
        const uint64_t *again = schedule_pack(same), *printed = schedule_pack(schedule_read("test", text));
        size_t bytes = (size_t)mgpu_image_words(image) * sizeof *image;
        if (mgpu_image_words(again) != mgpu_image_words(image) || memcmp(again, image, bytes) != 0)
            why = format("program %d: another image", seed);
        else if (strcmp(text, rewritten(same)) != 0 || strcmp(text, rewritten(schedule_unpack("test", printed))) != 0)
            why = format("program %d: another text", seed);
        for (int p = 0; p < s->phase_count; p++)
            if (s->phases[p].kind != same->phases[p].kind || s->phases[p].partial_batch != same->phases[p].partial_batch ||
                s->phases[p].report_count != same->phases[p].report_count)
                why = format("program %d: another phase", seed);
    }
    result("what is packed is unpacked", why);
}

#define HEAD "mgpu-schedule 2\nmodel m precision f32 batch 2 accumulate 1 devices 1\nphase p\n"
#define DEVICE HEAD "device 0 name \"host\" arena 64 work 0 staging 0 samples 0..2 capacity 2\n"
#define TWO                                                                                                                      \
    "mgpu-schedule 3\nmodel m precision f32 batch 2 accumulate 1 devices 2\nphase p\ndevice 0 name \"h\" arena 0 work 0 staging 0 samples 0..2 capacity 2\n"
#define ALIKE "device 1 name \"h\" arena 0 work 0 staging 0 samples 2..2 capacity 2 as 0\n"
#define BUFFER DEVICE "buffer d0.a kind temporary offset 0 bytes 64 slots 1\n"
#define CALL " digest 0123abcd" END
#define END " begin_us 0.0 time_us 0.0 line 0\n"

#define ONE                                                                                                                      \
    "buffer d0.a kind temporary offset 0 bytes 64\nop d0.c lane comp call k1 reads d0.a writes d0.a waits d0.c@-1 digest 0123abcd begin_us 0.0 time_us 0.0 line 0 # c makes a\n"
#define OTHER "buffer d1.a kind temporary offset 0 bytes 64\nop d1.c lane comp call k1 reads d1.a writes d1.a waits d1.c@-1" CALL
#define WRITTEN_OUT "device 1 name \"h\" arena 0 work 0 staging 0 samples 2..2 capacity 2\n"

/* devices that do the same are written once; read, each has what it does for itself */
static void test_classes(void)
{
    Schedule *s = schedule_read("folded", TWO ALIKE ONE);
    result("devices of one class are written once",
           strcmp(rewritten(schedule_read("out", TWO WRITTEN_OUT ONE OTHER)), TWO ALIKE ONE) != 0 ? "they are not" : NULL);
    result("and read", strcmp(rewritten(s), TWO ALIKE ONE) != 0 ? "not as they were" : NULL);
    DeviceSchedule *d = &s->phases[0].devices[1];
    bool own = d->ops != d[-1].ops && d->ops[0].reads != d[-1].ops[0].reads && d->ops[0].writes != d[-1].ops[0].writes &&
               d->ops[0].waits != d[-1].ops[0].waits && d->buffers != d[-1].buffers;
    result("each has its own", own ? NULL : "they share lists");
    d->ops[0].reads[0].begin = 8;
    result("devices that differ are written out",
           strstr(rewritten(s), "reads d1.a[8:64]") && !strstr(rewritten(s), "as 0") ? NULL : "they are not");
}

static void prove_edited(const char *text, const Program *program, Plan *plan)
{
    const Source source = {.file = "junk.sched", .text = text, .length = strlen(text)};
    int count;
    Schedule **read = schedules_read(&source, &count);
    take_edited(program, plan, read[0], &source);
    const char *wrong = verify(plan->schedule);
    if (wrong)
        error_at(&(Place){.source = &source, .line = verify_line(), .column = 1}, "%s", wrong);
    const uint64_t *image = schedule_pack(plan->schedule);
    if (memcmp(image, schedule_pack(schedule_unpack("test", image)), (size_t)mgpu_image_words(image) * sizeof *image) != 0)
        die("what was packed is unpacked as something else");
}

/* the error that schedule_read, or with a plan the proof of the edited text, gives, "" if there is none; NULL if it crashes */
static const char *error_of(const char *text, const Program *program, Plan *plan)
{
    int ends[2];
    if (pipe(ends) != 0)
        die("no pipe");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        if (plan)
            prove_edited(text, program, plan);
        else
            schedule_read("junk.sched", text);
        _exit(0);
    }
    close(ends[1]);
    char message[4096];
    size_t length = 0;
    for (ssize_t n; (n = read(ends[0], message + length, sizeof message - 1 - length)) > 0;)
        length += (size_t)n;
    close(ends[0]);
    int status;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) > 1 || (WEXITSTATUS(status) == 1) != (length > 0))
        return NULL;
    return copy_text(message, length);
}

static void test_errors(void)
{
    static const struct {
        const char *text, *message;
    } CASES[] = {
        {"", "junk.sched:1:1: error: this is no schedule"},
        {"\x7f\x45\x4c\x46\x02", "junk.sched:1:1: error: this is no schedule"},
        {"mgpu-schedule 4\n", "junk.sched:1:15: error: this version"},
        {"mgpu-schedule 1\n", "junk.sched:1:15: error: version 1 of the format has no table of kernels"},
        {"mgpu-schedule 2", "junk.sched:1:16: error: expected 'model'"},
        {"mgpu-schedule 2\nmodel m precision f32 batch 99999999999999999999",
         "junk.sched:2:29: error: the batch is out of range"},
        {"mgpu-schedule 2\nmodel m precision f32 batch 2 accumulate 1 devices 1 x",
         "junk.sched:2:54: error: the record ends here"},
        {"mgpu-schedule 2\nmodel m precision f32 batch 2 accumulate 1 devices 1\nop d0.c0",
         "junk.sched:3:1: error: a 'op' belongs to a phase"},
        {HEAD, "junk.sched:3:6: error: the phase has 0 devices, the schedule 1"},
        {HEAD "buffer d0.a", "junk.sched:4:9: error: the phase has no device 0"},
        {HEAD "device 1 name", "junk.sched:4:7: error: expected device 0"},
        {"mgpu-schedule 3\nmodel m precision f32 batch 2 accumulate 1 devices 0",
         "junk.sched:2:52: error: the number of devices is out of range: 1 to 2147483647 are possible"},
        {"mgpu-schedule 3\nmodel m precision f32 batch 2 accumulate 1 devices 2\nphase init\n"
         "device 0 name \"h\" arena 64 work 0 staging 0 samples 0..1 capacity 1\nbuffer d0.b kind bucket offset 0 bytes 4\n"
         "op d0.r lane comm reduce c reads d0.b writes d0.b begin_us 0 time_us 0 line 0\n"
         "collective c group all members d0.r kind all-reduce bytes 4 dtype f32 via ring\n"
         "device 1 name \"h\" arena 64 work 0 staging 0 samples 1..2 capacity 1 as 0",
         "junk.sched:8:7: error: device 1 comes after a collective: the devices of a phase come before its collectives"},
        {DEVICE "device 1 name", "junk.sched:5:7: error: there are 1 devices only"},
        {HEAD "device 0 name \"host", "junk.sched:4:20: error: the text is not closed"},
        {HEAD "device 0 name \"h\" arena 0 work 0 staging 0 samples 4..2",
         "junk.sched:4:55: error: the end of the samples is before the first"},
        {BUFFER "buffer d0.a kind", "junk.sched:6:11: error: device 0 has a buffer 'a' already"},
        {DEVICE "buffer d0.a kind workspaec",
         "junk.sched:5:18: error: 'workspaec' is not a kind of buffer; did you mean 'workspace'?"},
        {DEVICE "buffer d0.a kind step offset 0 bytes 1 slots 0",
         "junk.sched:5:46: error: the number of slots is out of range: 1 to"},
        {DEVICE "bufer d0.a", "junk.sched:5:1: error: a record is"},
        {HEAD "device 0 name \"h\" arena 0 staging", "junk.sched:4:27: error: expected 'work'"},
        {DEVICE "buffer d0.a kind temporary offset 0 bytes 64 slots 1 each",
         "junk.sched:5:58: error: expected the size of a sample"},
        {BUFFER "op d0.c0 lane comp call k1 region" END, "junk.sched:6:35: error: expected the number of the region"},
        {BUFFER "op d0.c0 lane comp call k1 region 0 chunk" END, "junk.sched:6:43: error: expected the samples of a chunk"},
        {BUFFER "op d0.c0 lane comp call k1 samples" END, "junk.sched:6:28: error: expected 'digest'"},
        {BUFFER "op d0.c0 lane comp call k1 digest 0123abc begin_us", "junk.sched:6:35: error: expected a digest"},
        {TWO "device 1 name \"h\" arena 0 work 0 staging 0 samples 2..2 capacity 2 as 1",
         "junk.sched:5:71: error: an earlier device that has records of its own is expected"},
        {TWO ALIKE "buffer d1.a kind", "junk.sched:6:8: error: device 1 is as device 0, and has no records of its own"},
        {TWO ALIKE "collective r0 group all members d1.m0", "junk.sched:6:33: error: device 1 has no operation 'm0'"},
        {"mgpu-schedule 2\nmodel m precision f32 batch 2 accumulate 1 devices 1\nkernel k1 in f32",
         "junk.sched:3:17: error: expected the size of a parameter"},
        {HEAD "kernel k1 in f32 4", "junk.sched:4:1: error: a record is"},
        {BUFFER "op d0.c0 lane comp call 12" END, "junk.sched:6:25: error: '12' is no kernel"},
        {BUFFER "op d0.c0 lane comp call k1 reads d0.b" CALL, "junk.sched:6:37: error: device 0 has no buffer 'b'"},
        {BUFFER "op d0.c0 lane comp call k1 reads d0.a[0-4]" END, "junk.sched:6:40: error: expected ':'"},
        {BUFFER "op d0.c0 lane comp call k1 reads d0.a@1" CALL, "junk.sched:6:39: error: expected + or -"},
        {BUFFER "op d0.c0 lane comp call k1 waits d0.c1" CALL, "junk.sched:6:37: error: device 0 has no operation 'c1'"},
        {BUFFER "op d0.c0 lane comp call k1" CALL "op d0.c0 lane comp call k1" CALL,
         "junk.sched:7:7: error: device 0 has an operation"},
        {BUFFER "op d0.m0 lane comm reduce r0" END, "junk.sched:6:27: error: the phase has no collective 'r0'"},
        {BUFFER "op d0.c0 lane comp call k1 digest 0123abcd begin_us x", "junk.sched:6:53: error: expected the begin"},
        {BUFFER "collective r0 group all members d0.m0", "junk.sched:6:33: error: device 0 has no operation 'm0'"},
        {BUFFER "op d0.m0 lane comm reduce r0" END "collective r0 group all members d0.m0 d0.m0",
         "junk.sched:7:39: error: device 0 has two"},
        {BUFFER "op d0.m0 lane comm reduce r0" END "collective r0 group all members d0.m0 kind all-reduce bytes 5 dtype f32",
         "junk.sched:7:61: error: 5 bytes are"},
    };
    for (int i = 0; i < COUNT(CASES); i++) {
        const char *error = error_of(CASES[i].text, NULL, NULL);
        const char *wanted = strstr(CASES[i].message, "error: ") + 7;
        bool right = error && strncmp(error, CASES[i].message, strlen(CASES[i].message)) == 0;
        result(format("schedule error: %s", wanted), right ? NULL : error ? error : "a crash");
    }
}

/* exchanges two lines, removes one, has one twice, or puts a word of one into another */
static const char *edit(const char *text, Random *r)
{
    int count = 0, first, second;
    for (const char *c = text; *c; c++)
        count += *c == '\n';
    const char **lines = NEW_ARRAY(const char *, count);
    for (int i = 0; i < count; i++, text = strchr(text, '\n') + 1)
        lines[i] = copy_text(text, strcspn(text, "\n"));
    first = random_below(r, count);
    second = random_below(r, 2)                   ? random_below(r, count)
             : first + random_below(r, 4) < count ? first + random_below(r, 4) % (count - first)
                                                  : first;
    const char *line = lines[first], *other = lines[second];
    size_t words = 0, at = 0, from = 0;
    switch (random_below(r, 4)) {
    case 0: lines[first] = other, lines[second] = line; break;
    case 1: lines[first] = ""; break;
    case 2: lines[second] = format("%s\n%s", other, line); break;
    default:
        for (const char *c = line; *c; c++)
            words += *c == ' ';
        for (size_t k = (size_t)random_below(r, (int)words + 1); k; k--) {
            at += strcspn(line + at, " ") + (line[at + strcspn(line + at, " ")] == ' ');
            from += strcspn(other + from, " ") + (other[from + strcspn(other + from, " ")] == ' ');
        }
        lines[first] = format("%.*s%.*s%s", (int)at, line, (int)strcspn(other + from, " "), other + from,
                              line + at + strcspn(line + at, " "));
    }
    Text t = {0};
    for (int i = 0; i < count; i++)
        text_add(&t, "%s\n", lines[i]);
    return text_take(&t);
}

/* What is changed by hand is proved, and then packed as what it was read as, or is an error with a place. */
static void test_edits(int cases)
{
    Random r = {7};
    const char *why = NULL;
    int proved = 0;
    for (int i = 0; i < cases && !why; i++) {
        Program *p = random_program((uint64_t)(i / 20), 8);
        Plan *plan = random_plan(p, 1 + i / 20 % 3);
        const char *text = edit(rewritten(plan->schedule), &r), *error = error_of(text, p, plan);
        proved += error && !*error;
        if (!error)
            why = format("case %d crashes", i);
        else if (*error && strncmp(error, "junk.sched:", 11) != 0)
            why = format("case %d: %s", i, error);
    }
    result("what is changed by hand is proved, or an error with a place", why ? why
                                                                          : proved < cases / 20
                                                                              ? format("%d of %d are proved", proved, cases)
                                                                              : NULL);
}

static void test_junk(int cases)
{
    const char *whole = rewritten(random_plan(random_program(3, 6), 2)->schedule);
    int length = (int)strlen(whole);
    Random r = {5};
    const char *why = NULL;
    for (int i = 0; i < cases && !why; i++) {
        char *text = NEW_ARRAY(char, length + 1);
        memcpy(text, whole, (size_t)length);
        if (i % 3 == 0)
            text[random_below(&r, length)] = 0;
        for (int k = random_below(&r, 4); k >= 0 && i % 3; k--)
            text[random_below(&r, length)] =
                (char)(i % 3 == 1 ? 1 + random_below(&r, 255) : "0 9.d@[]:\"\n-"[random_below(&r, 12)]);
        const char *error = error_of(text, NULL, NULL);
        if (!error)
            why = format("case %d crashes", i);
        else if (*error && strncmp(error, "junk.sched:", 11) != 0)
            why = format("case %d: %s", i, error);
    }
    result("junk is an error with a place", why);
}

int main(int argc, char **argv)
{
    int scale = argc > 1 ? atoi(argv[1]) : 1; /* more of everything random */
    test_verbs();
    test_classes();
    test_errors();
    test_junk(150 * scale);
    test_edits(200 * scale);
    test_text(20 * scale);
    test_image(20 * scale);
    return failures != 0;
}
