/* engine.c: runs a target on input after input.
 *
 * A worker, a child process, runs case after case in one process: it longjmps out of exit() and _exit() (the linker's
 * --wrap), which is how the compiler and the runtime end at a mistake; what they leave behind (memory, files) goes with
 * the worker, which is replaced now and then, and whenever a case kills it. Standard error is a file in memory that is
 * judged after every case. Inputs that run code which none before them ran (the library's objects call
 * __sanitizer_cov_trace_pc in every block) join the corpus; corpus, coverage and numbers are in memory that parent and
 * workers share. All is a function of the seed and of the corpus, so the same cases come again.
 *
 * Cases: first the target's own corpus, with what failed once; then, in turns, a file of the folders that it shares with
 * others and an input that is made from any of both. Fewer cases than there are files take files at equal distances.
 *
 * An input that fails is made smaller (lines, then bytes, are left out as long as the same happens) and kept. */
#include "compiler/base/base.h"
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAP = 1 << 17, MOST_INPUT = 1 << 20, CORPUS_BYTES = 1 << 26, MOST_ENTRIES = 1 << 16, SAID = 1 << 14 };
enum { HANGS_S = 120 /* with work beside it */ };
enum { WORKER_CASES = 2000, WORKER_MEMORY_MB = 600, CASE_MEMORY_MB = 400 };
enum { STATUS_NONE = -1, EXIT_RENEW = 91, EXIT_WRONG = 92, EXIT_THREAD = 93 };

typedef struct Entry {
    size_t at, length;
} Entry;
typedef struct Shared {
    uint8_t seen[MAP]; /* by place in the code: the counts that were seen, as bits */
    Entry entries[MOST_ENTRIES];
    size_t entry_count, corpus_bytes, own_entries, first_entries; /* own: of the target's corpus alone; first: all files */
    size_t accepted[MOST_ENTRIES], accepted_count;                /* entries without a mistake */
    int64_t cases, changed, refused; /* changed: made of entries; refused: with an error message, as it should be */
    double slowest_s;
    size_t input_length;
    char wrong[1024]; /* what is not so; "" */
    char folder[256]; /* for targets that read folders; "": none is there */
    uint8_t input[MOST_INPUT + 1], corpus[CORPUS_BYTES];
} Shared;

static Shared *shared;
static const FuzzOptions *options;
static int said_file = -1;
static char said[SAID + 1];

/* ---- coverage */
static uint8_t covered[MAP];
static uintptr_t before;
__attribute__((no_sanitize("address", "undefined"))) void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void)
{
    uintptr_t here = ((uintptr_t)__builtin_return_address(0) - (uintptr_t)&__sanitizer_cov_trace_pc) * 0x9e3779b1u >> 7;
    uint8_t *count = &covered[(here ^ before) % MAP];
    *count = (uint8_t)(*count + (*count < 255));
    before = here >> 1;
}

/* new bits for what ran: once, twice, up to 4, 8, 16, 32, 128 times, more often */
static bool note_coverage(void)
{
    bool new = false;
    static const uint8_t none[256];
    for (int i = 0; i < MAP; i++) {
        if (i % (int)sizeof none == 0 && memcmp(&covered[i], none, sizeof none) == 0) {
            i += (int)sizeof none - 1;
            continue;
        }
        uint8_t n = covered[i];
        if (!n)
            continue;
        uint8_t bit = (uint8_t)(n == 1 ? 1 : n == 2 ? 2 : n < 5 ? 4 : n < 9 ? 8 : n < 17 ? 16 : n < 33 ? 32 : n < 129 ? 64 : 128);
        new = new || !(shared->seen[i] & bit);
        shared->seen[i] |= bit;
    }
    return new;
}

/* ---- leaving a case */
static jmp_buf out;
static volatile bool inside;
static volatile int left_with;

_Noreturn void __real_exit(int status);
_Noreturn void __real__exit(int status);
_Noreturn void __wrap_exit(int status);
_Noreturn void __wrap__exit(int status);

static bool is_alone(void) /* no thread but this one runs */
{
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;
    for (const struct dirent *d; tasks && (d = readdir(tasks));)
        count += d->d_name[0] != '.';
    if (tasks)
        closedir(tasks);
    return count == 1;
}

/* locked: stderr is, by the runtime's last message, for good */
static _Noreturn void leave(int status, bool locked)
{
    if (gettid() != getpid() || !is_alone()) /* threads work on this stack: the process ends, and the parent judges */
        __real__exit(status == 1 ? EXIT_THREAD : status);
    if (locked)
        funlockfile(stderr);
    inside = false;
    left_with = status;
    longjmp(out, 1);
}
void __wrap_exit(int status)
{
    if (inside)
        leave(status, false);
    __real_exit(status);
}
void __wrap__exit(int status)
{
    if (inside)
        leave(status, true);
    __real__exit(status);
}

void fuzz_wrong(const char *pattern, ...)
{
    va_list arguments;
    va_start(arguments, pattern);
    vsnprintf(shared->wrong, sizeof shared->wrong, pattern, arguments);
    va_end(arguments);
    __real__exit(EXIT_WRONG);
}

const char *fuzz_file(const uint8_t *data, size_t length)
{
    static int file = -1;
    static char path[64];
    if (file < 0) {
        file = memfd_create("case", 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    }
    if (file < 0 || ftruncate(file, 0) != 0 || pwrite(file, data, length, 0) != (ssize_t)length)
        fuzz_wrong("a file in memory cannot be written: %s", strerror(errno));
    return path;
}

static int remove_inside(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status, (void)kind;
    return where->level ? remove(path) : 0;
}

const char *fuzz_folder(void)
{
    const char *temporary = getenv("TMPDIR");
    if (!shared->folder[0]) {
        char path[sizeof shared->folder];
        snprintf(path, sizeof path, "%s/mgpu-fuzz-XXXXXX", temporary ? temporary : "/tmp");
        if (!mkdtemp(path))
            fuzz_wrong("no folder %s: %s", path, strerror(errno));
        memcpy(shared->folder, path, sizeof path);
    } else if (nftw(shared->folder, remove_inside, 16, FTW_DEPTH | FTW_PHYS) != 0) {
        fuzz_wrong("the folder %s cannot be emptied: %s", shared->folder, strerror(errno));
    }
    return shared->folder;
}

static void remove_folder(void)
{
    if (shared->folder[0] && (nftw(shared->folder, remove_inside, 16, FTW_DEPTH | FTW_PHYS) != 0 || rmdir(shared->folder) != 0))
        fprintf(stderr, "fuzz: the folder %s is left: %s\n", shared->folder, strerror(errno));
}

/* ---- judging */
static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static long memory_mb(void)
{
    long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%ld %ld", &pages, &resident) != 2)
        resident = 0;
    if (f)
        fclose(f);
    return resident / 256;
}

static const char *read_said(void)
{
    ssize_t n = pread(said_file, said, SAID, 0);
    said[n > 0 ? n : 0] = 0;
    return said;
}

/* lines of source and notes are indented; others are messages */
static bool is_message(const char *line, bool located)
{
    const char *error = strstr(line, ": error: "), *end = strchr(line, '\n');
    if (*line == ' ' || !error || (end && error > end))
        return false;
    if (!located)
        return true;
    int numbers = 0; /* FILE:LINE:COLUMN */
    for (const char *p = error; p > line && numbers < 2; numbers++) {
        const char *end_of_number = p;
        while (p > line && p[-1] >= '0' && p[-1] <= '9')
            p--;
        if (p == end_of_number || p == line || p[-1] != ':' || *p == '0')
            return false;
        p--;
    }
    return numbers == 2;
}

/* what is wrong with a case that left with this status; NULL: nothing */
static const char *judge(int status)
{
    static char wrong[200];
    const FuzzTarget *t = options->target;
    const char *text = read_said();
    int messages = 0, all = 0, placed = 0;
    for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        messages += is_message(line, t->located);
        all += is_message(line, false);
        placed += is_message(line, true);
    }
    if (status == STATUS_NONE)
        return all ? "an error message, and yet it goes on" : NULL;
    snprintf(wrong, sizeof wrong, "exit status %d after %d error messages, %d of them with a place", status, all, placed);
    /* several: all errors of a model, and after 20 that there are more */
    bool one = messages == 1 && all == 1, several = placed > 1 && all - placed <= (placed == 20);
    if (status != 1 || !(one || several))
        return wrong;
    shared->refused++;
    return NULL;
}

/* ---- one case, in a worker */
static void set_timer(double limit)
{
    struct itimerval timer = {.it_value = {(time_t)limit, (suseconds_t)((limit - (double)(time_t)limit) * 1e6)}};
    setitimer(ITIMER_PROF, &timer, NULL);
    alarm(limit > 0 ? HANGS_S : 0);
}

static void run_case(void)
{
    uint8_t *copy = malloc(shared->input_length + 1); /* of its length: ASan sees who reads on */
    if (!copy || ftruncate(said_file, 0) != 0)
        fuzz_wrong("no memory for a case");
    memcpy(copy, shared->input, shared->input_length);
    copy[shared->input_length] = 0;
    lseek(said_file, 0, SEEK_SET);
    long memory = memory_mb();
    double began = seconds(CLOCK_PROCESS_CPUTIME_ID);
    left_with = STATUS_NONE;
    memset(covered, 0, sizeof covered);
    before = 0;
    diagnostics_to(NULL); /* as in a new process: nothing was said, nobody goes on after errors */
    set_timer(options->limit_s);
    if (setjmp(out) == 0) {
        inside = true;
        options->target->run(copy, shared->input_length);
        inside = false;
    }
    set_timer(0);
    fflush(stdout);
    double took = seconds(CLOCK_PROCESS_CPUTIME_ID) - began;
    shared->slowest_s = took > shared->slowest_s ? took : shared->slowest_s;
    const char *wrong = judge(left_with);
    if (wrong)
        fuzz_wrong("%s", wrong);
    if (memory_mb() - memory > CASE_MEMORY_MB)
        fuzz_wrong("it took %ld MB of memory", memory_mb() - memory);
    free(copy);
    for (int f = said_file + 8; f < said_file + 64; f++) /* files that were open when it left */
        close(f);
}

/* ---- corpus */
static bool add_entry(const uint8_t *data, size_t length)
{
    if (shared->entry_count == MOST_ENTRIES || shared->corpus_bytes + length > CORPUS_BYTES || length > options->target->most)
        return false;
    memcpy(shared->corpus + shared->corpus_bytes, data, length);
    shared->entries[shared->entry_count++] = (Entry){shared->corpus_bytes, length};
    shared->corpus_bytes += length;
    return true;
}

static Bytes entry(size_t i) { return (Bytes){shared->corpus + shared->entries[i].at, shared->entries[i].length}; }

static uint8_t *read_whole(const char *path, size_t *length)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = malloc(MOST_INPUT + 1);
    if (!f || !data) {
        fprintf(stderr, "fuzz: %s: %s\n", path, strerror(errno));
        exit(2);
    }
    *length = fread(data, 1, MOST_INPUT, f);
    fclose(f);
    return data;
}

static int hidden(const struct dirent *d) { return d->d_name[0] != '.'; }

static void read_folder(const char *folder)
{
    struct dirent **names;
    int count = scandir(folder, &names, hidden, alphasort);
    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        const char *suffix = strrchr(names[i]->d_name, '.');
        bool other =
            options->target->text && strstr(options->target->folders, "tests/lang") && suffix && strcmp(suffix, ".net") != 0;
        struct stat status;
        if (!other && stat(path, &status) == 0 && S_ISREG(status.st_mode) && (size_t)status.st_size <= options->target->most) {
            size_t length;
            uint8_t *data = read_whole(path, &length);
            add_entry(data, length);
            free(data);
        }
        free(names[i]);
    }
    if (count >= 0)
        free(names);
}

static void read_corpus(void)
{
    char path[4096], folders[1024];
    snprintf(path, sizeof path, "%s/tests/fuzz/corpus/%s", options->root, options->target->name);
    read_folder(path);
    shared->own_entries = shared->entry_count;
    snprintf(folders, sizeof folders, "%s", options->target->folders);
    for (char *rest = NULL, *f = strtok_r(folders, " ", &rest); f; f = strtok_r(NULL, " ", &rest)) {
        snprintf(path, sizeof path, "%s/%s", options->root, f);
        read_folder(path);
    }
    shared->first_entries = shared->entry_count;
}

static void keep_input(const char *folder, const uint8_t *data, size_t length, char *path, size_t room)
{
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < length; i++)
        h = (h ^ data[i]) * 1099511628211u;
    mkdir(folder, 0777);
    snprintf(path, room, "%s/%s-%08x", folder, options->target->name, (unsigned)(h >> 16));
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, length, f) != length || fclose(f) != 0)
        fprintf(stderr, "fuzz: %s cannot be written: %s\n", path, strerror(errno));
}

/* ---- workers */
static void begin_worker(void)
{
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(null, 1);
    dup2(said_file, 2);
    struct rlimit core = {0, 0};
    setrlimit(RLIMIT_CORE, &core);
}

static bool over(double began)
{
    return options->cases ? shared->cases >= options->cases : seconds(CLOCK_MONOTONIC) - began >= options->seconds;
}

/* one of the corpus: what had no mistake gives more that has few */
static Bytes pick_entry(Random *r)
{
    if (shared->accepted_count && random_below(r, 4))
        return entry(shared->accepted[random_below(r, shared->accepted_count)]);
    size_t recent = shared->entry_count - shared->first_entries;
    return entry(recent && random_below(r, 2) ? shared->first_entries + random_below(r, recent)
                                              : random_below(r, shared->entry_count));
}

static void set_input(const uint8_t *data, size_t length)
{
    memcpy(shared->input, data, length);
    shared->input[length] = 0;
    shared->input_length = length;
}

/* the entry that case n is, if it is a file as it stands; else MOST_ENTRIES */
static size_t file_of_case(size_t n)
{
    size_t own = shared->own_entries, files = shared->first_entries - own;
    if (n < own)
        return n;
    size_t turn = (n - own) / 2, turns = files;
    if (options->cases && (size_t)options->cases < own + 2 * files)
        turns = ((size_t)options->cases - own + 1) / 2;
    return (n - own) % 2 == 0 && turn < turns ? own + turn * files / turns : MOST_ENTRIES;
}

/* -> the entry that it is; MOST_ENTRIES: it is made of some */
static size_t choose_input(void)
{
    size_t n = (size_t)shared->cases, file = file_of_case(n);
    if (file < MOST_ENTRIES) {
        set_input(entry(file).data, entry(file).length);
        return file;
    }
    Random r = {options->seed * 0x100000001b3u + n};
    Bytes from = pick_entry(&r), made = mutate(&r, options->target, from, pick_entry(&r));
    set_input(made.data, made.length);
    free(made.data);
    shared->changed++;
    return MOST_ENTRIES;
}

static _Noreturn void work(double began)
{
    begin_worker();
    for (int i = 0; !over(began); i++) {
        if (i >= WORKER_CASES || memory_mb() > WORKER_MEMORY_MB)
            __real__exit(EXIT_RENEW);
        size_t number = choose_input();
        shared->cases++; /* a case that kills is not tried again */
        run_case();
        if (note_coverage() && number == MOST_ENTRIES && add_entry(shared->input, shared->input_length))
            number = shared->entry_count - 1;
        if (number < MOST_ENTRIES && left_with == STATUS_NONE)
            shared->accepted[shared->accepted_count++] = number;
    }
    __real__exit(0);
}

/* what ended a worker: 0, EXIT_RENEW, or a failure, which is described */
static int wait_for(pid_t worker, char *what, size_t room)
{
    int status;
    while (waitpid(worker, &status, 0) < 0)
        if (errno != EINTR)
            return 0;
    what[0] = 0;
    if (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == EXIT_RENEW))
        return WEXITSTATUS(status);
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_THREAD) {
        const char *wrong = judge(1);
        snprintf(what, room, "%s", wrong ? wrong : "");
        return wrong ? EXIT_WRONG : EXIT_RENEW;
    }
    read_said();
    static const char *const TELLING[] = {"internal error at ", "SUMMARY: ", "runtime error: "};
    for (int i = 0; i < 3; i++) {
        const char *found = strstr(said, TELLING[i]);
        if (!found)
            continue;
        while (found > said && found[-1] != '\n')
            found--;
        snprintf(what, room, "%.*s", (int)strcspn(found, "\n"), found);
        return EXIT_WRONG;
    }
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF)
        snprintf(what, room, "it takes more than %g s of processor time", options->limit_s);
    else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        snprintf(what, room, "it hangs: %d s", HANGS_S);
    else if (WIFSIGNALED(status))
        snprintf(what, room, "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) == EXIT_WRONG)
        snprintf(what, room, "%s", shared->wrong);
    else
        snprintf(what, room, "the process ended with status %d", WEXITSTATUS(status));
    return EXIT_WRONG;
}

/* shared->input in a process of its own; true: it fails */
static bool try_input(char *what, size_t room)
{
    fflush(stdout);
    pid_t worker = fork();
    if (worker == 0) {
        begin_worker();
        run_case();
        __real__exit(0);
    }
    return worker > 0 && wait_for(worker, what, room) == EXIT_WRONG;
}

/* ---- making it smaller */
static bool same_kind(const char *a, const char *b) /* numbers may differ */
{
    while (*a && *b) {
        if (*a >= '0' && *a <= '9' && *b >= '0' && *b <= '9') {
            while ((*a >= '0' && *a <= '9') || (*a >= 'a' && *a <= 'f'))
                a++;
            while ((*b >= '0' && *b <= '9') || (*b >= 'a' && *b <= 'f'))
                b++;
        } else if (*a++ != *b++) {
            return false;
        }
    }
    return !*a && !*b;
}

static void make_smaller(const char *expected)
{
    char what[1024];
    size_t length = shared->input_length;
    uint8_t *best = malloc(length + 1), *trial = malloc(length + 1);
    if (!best || !trial)
        exit(3);
    memcpy(best, shared->input, length);
    double began = seconds(CLOCK_MONOTONIC);
    size_t size = length / 2 ? length / 2 : 1;
    while (seconds(CLOCK_MONOTONIC) - began < 30) {
        bool smaller = false;
        for (size_t at = 0; at < length && seconds(CLOCK_MONOTONIC) - began < 30;) {
            size_t end = at + size < length ? at + size : length;
            memcpy(trial, best, at);
            memcpy(trial + at, best + end, length - end);
            set_input(trial, length - (end - at));
            if (try_input(what, sizeof what) && same_kind(what, expected)) {
                length -= end - at;
                memcpy(best, trial, length);
                smaller = true;
            } else {
                at = end;
            }
        }
        if (size == 1 && !smaller)
            break;
        size = size > 1 ? size / 2 : 1;
    }
    set_input(best, length);
    free(best);
    free(trial);
}

static void show_input(void)
{
    size_t shown = shared->input_length < 400 ? shared->input_length : 400;
    printf("# %zu bytes: ", shared->input_length);
    for (size_t i = 0; i < shown; i++) {
        uint8_t c = shared->input[i];
        if (c == '\n')
            printf("\n#     ");
        else if (c < 32 || c > 126)
            printf("\\x%02x", c);
        else
            putchar(c);
    }
    puts(shown < shared->input_length ? " ..." : "");
}

static void show_said(void)
{
    read_said();
    int lines = 0;
    for (char *rest = NULL, *line = strtok_r(said, "\n", &rest); line && lines < 24; line = strtok_r(NULL, "\n", &rest), lines++)
        printf("#   | %s\n", line);
}

static void tell(const char *what)
{
    char path[4096], again[1024];
    int64_t number = shared->cases;
    printf("not ok fuzz %s: case %lld of seed %llu: %s\n", options->target->name, (long long)number,
           (unsigned long long)options->seed, what);
    if (try_input(again, sizeof again)) {
        char expected[1024];
        snprintf(expected, sizeof expected, "%s", again);
        make_smaller(expected);
        try_input(again, sizeof again);
        show_said();
    } else {
        printf("# alone, in a new process, it does not happen: something of an earlier case is left\n");
    }
    keep_input(options->keep, shared->input, shared->input_length, path, sizeof path);
    show_input();
    printf("# again: %s --replay %s %s\n", program_invocation_name, options->target->name, path);
    fflush(stdout);
}

/* ---- all cases */
static void open_shared(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    said_file = memfd_create("said", 0);
    if (shared == MAP_FAILED || said_file < 0 || options->target->most > MOST_INPUT) {
        fprintf(stderr, "fuzz: no memory to share: %s\n", strerror(errno));
        exit(3);
    }
}

static void save_new(void)
{
    char path[4096];
    for (size_t i = shared->first_entries; options->save && i < shared->entry_count; i++)
        keep_input(options->save, entry(i).data, entry(i).length, path, sizeof path);
}

int fuzz(const FuzzOptions *o)
{
    enum { MOST_FAILURES = 64 };
    static char known[MOST_FAILURES][1024];
    char what[1024];
    int failures = 0;
    options = o;
    open_shared();
    read_corpus();
    double began = seconds(CLOCK_MONOTONIC);
    while (!over(began)) {
        fflush(stdout);
        pid_t worker = fork();
        if (worker < 0) {
            fprintf(stderr, "fuzz: no process: %s\n", strerror(errno));
            return 3;
        }
        if (worker == 0)
            work(began);
        if (wait_for(worker, what, sizeof what) != EXIT_WRONG)
            continue;
        bool new = true;
        for (int i = 0; i < failures; i++)
            new = new && !same_kind(known[i], what);
        if (!new)
            continue;
        snprintf(known[failures++], sizeof known[0], "%s", what);
        tell(what);
        if (failures >= o->failures || failures == MOST_FAILURES)
            break;
    }
    save_new();
    remove_folder();
    size_t places = 0;
    for (int i = 0; i < MAP; i++)
        places += shared->seen[i] != 0;
    if (!failures)
        printf(
            "ok fuzz %s: %lld cases, %lld of them changed, %lld refused with one message, %zu in the corpus, %zu of them new; %zu places of the code; "
            "%.0f s, the slowest case %.2f s\n",
            o->target->name, (long long)shared->cases, (long long)shared->changed, (long long)shared->refused,
            shared->entry_count, shared->entry_count - shared->first_entries, places, seconds(CLOCK_MONOTONIC) - began,
            shared->slowest_s);
    return failures != 0;
}

int fuzz_replay(const FuzzOptions *o, const char *path)
{
    char what[1024];
    size_t length;
    options = o;
    open_shared();
    uint8_t *data = read_whole(path, &length);
    set_input(data, length);
    free(data);
    bool wrong = try_input(what, sizeof what);
    remove_folder();
    read_said();
    fputs(said, stdout);
    if (wrong)
        printf("not ok %s: %s\n", path, what);
    else
        printf("ok %s: %.2f s\n", path, shared->slowest_s);
    return wrong;
}
