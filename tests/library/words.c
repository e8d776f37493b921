/* words.c: a program that uses the library of tests/shared.test: ./use COMMAND WEIGHTS [MORE]
 *
 *   same     what it computes is what `./words predict` has written, any number of samples at a time
 *   errors   what is wrong is said, and the model goes on
 *   refuse   WEIGHTS cannot be opened: why, and nothing is left behind after MORE times
 *   opens    MORE times open, run, close: no memory, file or thread is left
 *   fails    the n-th call for memory, a mapping or a thread fails, for all n: that is said, and nothing is left behind
 *   threads  eight threads share a model, then each has its own
 */
#include "words.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SAMPLES = 12, CLASSES = 4, NUMBERS = 3, WIDTH = 8, THREADS = 8 };

static char *classes; /* in the input's type */
static const double *numbers, *wanted_h, *wanted_sum;

static _Noreturn void fail(const char *what)
{
    printf("%s\n", what);
    exit(1);
}

/* the elements of a .npy file of version 1, which is small */
static void *read_npy(const char *path)
{
    static char bytes[1 << 16];
    FILE *f = fopen(path, "rb");
    size_t length = f ? fread(bytes, 1, sizeof bytes, f) : 0,
           header = 10 + (unsigned char)bytes[8] + 256u * (unsigned char)bytes[9];
    if (!f || length < header)
        fail(path);
    fclose(f);
    return memcpy(malloc(length), bytes + header, length - header);
}

static void read_samples(const words *model)
{
    const words_tensor *word = words_input(model, 0);
    int *w = read_npy("word.npy");
    size_t each = (size_t)word->bytes / CLASSES;
    classes = calloc(SAMPLES, (size_t)word->bytes);
    for (int i = 0; i < SAMPLES * CLASSES; i++)
        memcpy(classes + (size_t)i * each, &w[i], each);
    free(w);
    numbers = read_npy("x.npy");
    wanted_h = read_npy("out-h.npy");
    wanted_sum = read_npy("out-sum.npy");
}

static words *open_model(const char *weights, int threads)
{
    words *model = words_open(weights, threads);
    if (!model)
        fail(words_error());
    return model;
}

static int differ(const double *a, const double *b, int count)
{
    int different = 0;
    for (int i = 0; i < count; i++)
        different += !(fabs(a[i] - b[i]) <= 1e-10);
    return different;
}

/* `samples` from `at` on */
static const char *compare(words *model, int at, int samples)
{
    double h[SAMPLES * WIDTH], sums[SAMPLES];
    int64_t bytes = words_input(model, 0)->bytes;
    if (words_run(model, samples, (const void *[]){classes + at * bytes, numbers + NUMBERS * at}, (void *[]){h, sums}) != 0)
        return words_error();
    if (differ(h, wanted_h + WIDTH * at, WIDTH * samples) || differ(sums, wanted_sum + at, samples))
        return "other numbers than ./words predict writes";
    if (words_run(model, samples, (const void *[]){classes + at * bytes, numbers + NUMBERS * at}, (void *[]){NULL, sums}) != 0)
        return words_error();
    return differ(sums, wanted_sum + at, samples) ? "other numbers where an output is not wanted" : NULL;
}

static void check(const char *wrong)
{
    if (wrong)
        fail(wrong);
}

static void same(words *model)
{
    const words_tensor *word = words_input(model, 0), *sum = words_output(model, 1);
    if (strcmp(word->name, "word") != 0 || word->rank != 1 || word->shape[0] != CLASSES || words_input(model, 2) ||
        words_input(model, -1) || strcmp(sum->name, "sum") != 0 || strcmp(sum->type, "f64") != 0 || sum->rank != 0 ||
        sum->bytes != 8 || words_output(model, 2))
        fail("inputs and outputs are not those of the model");
    for (int samples = SAMPLES; samples >= 1; samples--)
        check(compare(model, SAMPLES - samples, samples));
}

static void says(int status, const char *what)
{
    if (!status || strcmp(words_error(), what) != 0) {
        printf("status %d, '%s' in place of '%s'\n", status, words_error(), what);
        exit(1);
    }
}

static void errors(words *model)
{
    double h[WIDTH], sum;
    void *out[] = {h, &sum};
    char wrong[64];
    memset(wrong, 9, sizeof wrong);
    for (int i = 0; i < 100; i++)
        says(words_run(model, 1, (const void *[]){wrong, numbers}, out),
             "input 'word': sample 0 has the label 9, 0 elements from its first; input 'word' has the classes 0 to 6: class(10) "
             "admits it, "
             "class(7, ignore = 9) leaves it out");
    says(words_run(model, -1, (const void *[]){classes, numbers}, out), "samples: their number is negative");
    says(words_run(model, 1, (const void *[]){classes, NULL}, out), "inputs: one of them is NULL");
    says(words_run(model, 1, NULL, out), "inputs: an array of pointers is expected, not NULL");
    says(words_run(model, 1, (const void *[]){classes, numbers}, NULL), "outputs: an array of pointers is expected, not NULL");
    says(words_run(NULL, 1, (const void *[]){classes, numbers}, out), "model: NULL is not an open model");
    if (words_run(model, 0, (const void *[]){NULL, NULL}, out) != 0)
        fail("no samples are none too few");
    says(words_open(NULL, 1) == NULL, "weights: a file or folder is expected, not NULL");
    says(words_open("nowhere.safetensors", 1) == NULL, "nowhere.safetensors: No such file or directory");
    words_close(NULL);
    check(compare(model, 0, SAMPLES));
}

/* ---- what the process has */
static int entries(const char *folder)
{
    DIR *d = opendir(folder);
    int count = 0;
    while (d && readdir(d))
        count++;
    closedir(d);
    return count;
}

static long resident_kib(void)
{
    char line[200];
    long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        sscanf(line, "VmRSS: %ld", &kib);
    fclose(f);
    return kib;
}

/* Returns the fewest entries within some milliseconds: a thread that was joined is listed for a moment longer. */
static int settled(const char *path)
{
    int least = entries(path);
    for (int i = 0; i < 10; i++) {
        usleep(2000);
        int now = entries(path);
        least = now < least ? now : least;
    }
    return least;
}

/* `once` so many times, the first ones to warm up */
static void repeat(int times, const char *weights, void (*once)(const char *weights))
{
    enum { GROWTH_KIB = 400 };
    int files = 0, threads = 0, warm = times / 5 + 1;
    long kib = 0;
    for (int i = 0; i < times + warm; i++) {
        if (i == warm) {
            files = settled("/proc/self/fd");
            threads = settled("/proc/self/task");
            kib = resident_kib();
        }
        once(weights);
    }
    if (settled("/proc/self/fd") != files || settled("/proc/self/task") != threads)
        fail("files or threads are left behind");
    if (resident_kib() > kib + GROWTH_KIB) {
        printf("%ld KiB are left behind\n", resident_kib() - kib);
        exit(1);
    }
}

static void open_and_close(const char *weights)
{
    words *model = open_model(weights, 2);
    check(compare(model, 0, SAMPLES));
    words_close(model);
}

static void refuse(const char *weights)
{
    if (words_open(weights, 2))
        fail("it was opened");
}

/* ---- what fails: these are in place of the C library's */
#ifndef NO_FAILS
static _Atomic long asked, fails_at; /* fails_at 0: nothing fails */
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

static int fails(void)
{
    int now = fails_at && ++asked == fails_at;
    errno = now ? ENOMEM : errno;
    return now;
}

void *malloc(size_t bytes) { return fails() ? NULL : __libc_malloc(bytes); }
void *calloc(size_t count, size_t bytes) { return fails() ? NULL : __libc_calloc(count, bytes); }
void *realloc(void *old, size_t bytes) { return fails() ? NULL : __libc_realloc(old, bytes); }
void *aligned_alloc(size_t alignment, size_t bytes) { return fails() ? NULL : __libc_memalign(alignment, bytes); }
void *mmap(void *at, size_t bytes, int rights, int flags, int file, off_t offset)
{
    return fails() ? MAP_FAILED : (void *)syscall(SYS_mmap, at, bytes, rights, flags, file, offset);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
        (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT, "pthread_create");
    return fails() ? EAGAIN : real(thread, attributes, run, argument);
}

static void fail_each(const char *weights)
{
    int opened = 0, refused = 0, broken = 0;
    for (long n = 1, last = 0; !last; n++) {
        asked = 0;
        fails_at = n;
        words *model = words_open(weights, 4);
        const char *wrong = model ? compare(model, 0, SAMPLES) : NULL;
        fails_at = 0;
        last = asked < n;
        if (model && wrong && strstr(wrong, "numbers"))
            fail(wrong);
        if (model && wrong && words_run(model, 1, (const void *[]){classes, numbers}, (void *[]){NULL, NULL}) == 0)
            fail("a model that has failed goes on");
        opened += model && !wrong;
        broken += model && wrong;
        refused += !model;
        if (!model && !*words_error())
            fail("nothing is said");
        words_close(model);
    }
    if (!opened || !refused)
        fail("nothing has failed");
    if (getenv("COUNTS"))
        printf("opened %d, refused %d, broken %d: %s\n", opened, refused, broken, words_error());
}
#else
static void fail_each(const char *weights) { (void)weights; }
#endif

/* ---- threads */
typedef struct Use {
    words *model;
    const char *weights, *wrong;
    int number;
} Use;

static void *use(void *argument)
{
    Use *u = argument;
    words *model = u->weights ? words_open(u->weights, 1 + u->number % 2) : u->model;
    if (!model) {
        u->wrong = strdup(words_error()); /* the text goes with the thread */
        return NULL;
    }
    for (int i = 0; i < 20 && !u->wrong; i++) {
        int samples = 1 + (i + u->number) % SAMPLES;
        const char *wrong = compare(model, SAMPLES - samples, samples);
        u->wrong = wrong ? strdup(wrong) : NULL;
        if (i % 5 == 0 && words_open("nowhere.safetensors", 1))
            u->wrong = "there is nothing, and it was opened";
    }
    if (u->weights)
        words_close(model);
    return NULL;
}

static void use_threads(words *model, const char *weights)
{
    pthread_t threads[THREADS];
    Use uses[THREADS];
    for (int i = 0; i < THREADS; i++) {
        uses[i] = (Use){model, weights, NULL, i};
        pthread_create(&threads[i], NULL, use, &uses[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        check(uses[i].wrong);
}

int main(int argc, char **argv)
{
    const char *command = argv[1], *weights = argv[2];
    int times = argc > 3 ? atoi(argv[3]) : 0;
    if (strcmp(command, "refuse") == 0) {
        repeat(times, weights, refuse);
        puts(words_error());
        return 0;
    }
    words *model = open_model(weights, 2);
    read_samples(model);
    if (strcmp(command, "same") == 0)
        same(model);
    else if (strcmp(command, "errors") == 0)
        errors(model);
    else if (strcmp(command, "fails") == 0)
        repeat(times, weights, fail_each);
    else if (strcmp(command, "opens") == 0)
        repeat(times, weights, open_and_close);
    else {
        use_threads(model, NULL);
        use_threads(NULL, weights);
    }
    words_close(model);
    return 0;
}
