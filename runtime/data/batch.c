/* batch.c: connects a set's streams with the model's inputs: which column goes where, whether it fits, and reading batches.
 *
 * Elements keep the type of their files (u8 stays u8) until a batch is read. Then they are checked and converted into the memory
 * that the model reads. Checks that are fast are made when the set is opened, so that a run does not fail after hours. Threads
 * share the samples of a batch if they are costly. */
#include "runtime/base/cores.h"
#include "runtime/base/base.h"
#include "runtime/base/cores.h"
#include "runtime/data/data.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const int64_t MOMENT = 1 << 26; /* at most so many elements are checked when a set is opened */

struct Bound {
    int column;        /* in the stream; -1: not read */
    bool plain;        /* every element of the column is valid for the input and has its type */
    int64_t *class_of; /* for each word; NULL for numbers */
    int64_t known;     /* number of words that have a class, if samples arrive */
};

typedef struct SamplePlace {
    const Dataset *set;
    int input;
    int64_t sample;
    char **complaint; /* see mgpu_complain */
} SamplePlace;        /* the sample being read */

/* Complains of a sample. Returns false for the caller to return. */
static bool misfit(const SamplePlace *p, const char *what)
{
    char text[600];
    mgpu_describe(p->set->stream, p->sample, p->set->bound[p->input].column, text, sizeof text);
    mgpu_complain(p->complaint, "%s%s %s", p->set->stream->where, text, what);
    return false;
}

/* ---- does a sample fit its input? */
/* A trailing axis of extent 1 may be missing. A sequence of classes may have any length. */
bool mgpu_shapes_agree(const mgpu_input *in, int rank, const int64_t *extent)
{
    const mgpu_tensor *t = &in->tensor;
    if (rank > t->rank)
        return false;
    if (in->classes && t->rank == 1 && rank == 1)
        return true;
    for (int i = 0; i < t->rank; i++)
        if (t->extent[i] != (i < rank ? extent[i] : 1))
            return false;
    return true;
}

static bool bad_shape(const SamplePlace *p, int rank, const int64_t *extent)
{
    char is[200], expected[200], text[600];
    const mgpu_tensor *t = &p->set->program->inputs[p->input].tensor;
    bool image = p->set->stream->columns[p->set->bound[p->input].column].image;
    snprintf(text, sizeof text, "has the shape %s, input '%s' has %s%s", mgpu_shape_text(rank, extent, is), t->name,
             mgpu_shape_text(t->rank, t->extent, expected),
             image ? "; |> resize(...) |> center_crop(...) bring pictures to one size" : "");
    return misfit(p, text);
}

static bool bad_label(const SamplePlace *p, double v, int64_t place)
{
    const mgpu_input *in = &p->set->program->inputs[p->input];
    char text[400], where[60] = "", cure[100] = "";
    if (v < 0 && v > INT32_MIN && v == floor(v) && in->ignore == MGPU_NO_LABEL)
        snprintf(cure, sizeof cure, ": class(%lld, ignore = %.9g) leaves it out", (long long)in->classes, v);
    if (in->tensor.rank)
        snprintf(where, sizeof where, ", %lld elements from its first", (long long)place);
    if (v >= 0 && v < INT32_MAX && v == floor(v))
        snprintf(text, sizeof text,
                 "has the label %.9g%s; input '%s' has the classes 0 to %lld: class(%lld) admits it, class(%lld, ignore "
                 "= %.9g) leaves it out",
                 v, where, in->tensor.name, (long long)in->classes - 1, (long long)v + 1, (long long)in->classes, v);
    else
        snprintf(text, sizeof text, "has the label %.9g%s; input '%s' has classes, which are whole numbers from 0 on%s", v, where,
                 in->tensor.name, cure);
    return misfit(p, text);
}

static bool bad_word(const SamplePlace *p, const char *word)
{
    const Dataset *d = p->set;
    const mgpu_input *in = &d->program->inputs[p->input];
    char text[500];
    if (word)
        snprintf(text, sizeof text,
                 "is '%.100s', which is no category that training knew; class(%lld, other = 0) for input '%s' has a class "
                 "for such",
                 word, (long long)in->classes + 1, in->tensor.name);
    else
        snprintf(text, sizeof text, "has no value; class(%lld, other = 0) for input '%s' has a class for such",
                 (long long)in->classes + 1, in->tensor.name);
    return misfit(p, text);
}

static bool put_classes(const SamplePlace *p, const Item *item, const void *data, int64_t count, void *to)
{
    const mgpu_input *in = &p->set->program->inputs[p->input];
    const struct Bound *b = &p->set->bound[p->input];
    const Words *words = p->set->stream->columns[b->column].words;
    for (int64_t i = 0; i < count; i++) {
        double v = mgpu_to_double(data, item->dtype, i);
        if (b->class_of) {
            int64_t class = b->class_of[(int64_t)v];
            if (class == MGPU_NO_LABEL)
                return bad_word(p, words->text[(int64_t)v]);
            mgpu_from_double(to, in->tensor.dtype, i, (double)class);
            continue;
        }
        bool good =
            (v >= 0 && v < (double)in->classes && v == floor(v)) || (in->ignore != MGPU_NO_LABEL && v == (double)in->ignore);
        if (!good && in->other == MGPU_NO_LABEL)
            return bad_label(p, v, i);
        mgpu_from_double(to, in->tensor.dtype, i, good ? v : (double)in->other);
    }
    return true;
}

static bool put_values(const SamplePlace *p, const Item *item, const void *data, int64_t count, void *to)
{
    const mgpu_tensor *t = &p->set->program->inputs[p->input].tensor;
    char text[400];
    int64_t bad;
    if (mgpu_dtype_is_float(item->dtype) && !mgpu_dtype_is_float(t->dtype) && t->dtype != MGPU_BOOL) {
        snprintf(text, sizeof text, "has elements of %s, input '%s' is %s; the model's input may be %s, too",
                 mgpu_dtype_name(item->dtype), t->name, mgpu_dtype_name(t->dtype), mgpu_dtype_name(item->dtype));
        return misfit(p, text);
    }
    if (!mgpu_values_fit(data, item->dtype, count, t->dtype, &bad)) {
        snprintf(text, sizeof text, "holds %.9g, which is no value of input '%s' (%s)", mgpu_to_double(data, item->dtype, bad),
                 t->name, mgpu_dtype_name(t->dtype));
        return misfit(p, text);
    }
    mgpu_convert(to, t->dtype, data, item->dtype, count);
    return true;
}

/* Checks what losses require of an input beyond its type. */
static bool check_required(const SamplePlace *p, const void *elements)
{
    const mgpu_input *in = &p->set->program->inputs[p->input];
    int64_t count = mgpu_elements(&in->tensor);
    char text[600];
    for (int64_t i = 0; i < count; i++) {
        double v = mgpu_to_double(elements, in->tensor.dtype, i);
        if (v >= (double)in->least && v <= (double)in->most)
            continue;
        snprintf(text, sizeof text, "holds %.17g; %s", v, in->required);
        return misfit(p, text);
    }
    return true;
}

/* Converts a sample's column to the input's elements. Returns false if they do not fit. */
static bool put(const SamplePlace *p, const Item *item, void *to, Reading *r)
{
    const mgpu_input *in = &p->set->program->inputs[p->input];
    const struct Bound *b = &p->set->bound[p->input];
    int64_t count = mgpu_elements(&in->tensor), there = 1, element = mgpu_dtype_bytes(item->dtype);
    const void *data = item->data;
    if (b->plain) {
        memcpy(to, data, (size_t)(count * element));
        return true;
    }
    if (!mgpu_shapes_agree(in, item->rank, item->extent))
        return bad_shape(p, item->rank, item->extent);
    for (int i = 0; i < item->rank; i++)
        there *= item->extent[i];
    if (there < count) {
        memset(to, 0, (size_t)(count * mgpu_dtype_bytes(in->tensor.dtype)));
        count = there;
    }
    if ((uintptr_t)data % (uintptr_t)element) {
        void *aligned = mgpu_reading_allocate(r, count * element);
        memcpy(aligned, data, (size_t)(count * element));
        data = aligned;
    }
    return (in->classes ? put_classes : put_values)(p, item, data, count, to) && (!in->required || check_required(p, to));
}

/* ---- binding */
static Item *new_items(const Stream *s) { return mgpu_allocate((size_t)s->column_count, sizeof(Item)); }

/* Counts each word in used[word], until a sample has the word `sought`. Returns that sample, or -1. */
static int64_t count_words(const Stream *s, int column, int64_t sought, int64_t *used)
{
    Item *items = new_items(s);
    Reading r = {0};
    int64_t found = -1;
    for (int64_t i = 0; i < s->samples && found < 0; i++) {
        items[column].wanted = true;
        s->read(s, i, &r, items);
        int64_t count = 1;
        for (int k = 0; k < items[column].rank; k++)
            count *= items[column].extent[k];
        for (int64_t k = 0; k < count; k++) {
            int64_t word = (int64_t)mgpu_to_double(items[column].data, items[column].dtype, k);
            used[word]++;
            found = word == sought ? i : found;
        }
        mgpu_reading_reset(&r);
    }
    mgpu_reading_close(&r);
    free(items);
    return found;
}

static void bind_words(Dataset *d, int input, Categories *categories)
{
    const mgpu_input *in = &d->program->inputs[input];
    struct Bound *b = &d->bound[input];
    const StreamColumn *c = &d->stream->columns[b->column];
    char text[600], far[600], *place, *beyond;
    int64_t *used = mgpu_allocate((size_t)c->words->count, sizeof *used), sample = 0;
    int64_t word = in->classes && in->other == MGPU_NO_LABEL ? mgpu_word_beyond(in, c->words) : -1;
    if (word >= 0 || in->other != MGPU_NO_LABEL)
        sample = count_words(d->stream, b->column, word, used);
    mgpu_describe(d->stream, 0, b->column, text, sizeof text);
    mgpu_describe(d->stream, sample < 0 ? 0 : sample, b->column, far, sizeof far);
    if (!in->classes)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s holds words; input '%s' is %s: class(%lld) takes words", d->stream->where, text,
                  in->tensor.name, mgpu_dtype_name(in->tensor.dtype), (long long)c->words->count);
    place = mgpu_format("%s%s", d->stream->where, text);
    beyond = mgpu_format("%s%s", d->stream->where, far);
    b->class_of = mgpu_classes_of_words(categories, in, c->words, in->other != MGPU_NO_LABEL ? used : NULL, place, beyond, NULL);
    free(beyond);
    free(used);
    free(place);
}

/* True if every value of one type is valid in the other. */
static bool always_fits(uint8_t from, uint8_t to) { return from == to && to != MGPU_BOOL; }

static void bind_input(Dataset *d, int input, Categories *categories)
{
    const mgpu_input *in = &d->program->inputs[input];
    struct Bound *b = &d->bound[input];
    b->column = mgpu_find_column(d->stream, in->tensor.name);
    if (b->column < 0)
        mgpu_die("the data set '%s' has no column for the input '%s'", d->name, in->tensor.name);
    const StreamColumn *c = &d->stream->columns[b->column];
    SamplePlace first = {.set = d, .input = input};
    if (c->uniform && !mgpu_shapes_agree(in, c->rank, c->extent))
        bad_shape(&first, c->rank, c->extent);
    if (c->words && !d->stream->next)
        bind_words(d, input, categories);
    b->plain = c->uniform && !in->classes && !in->required && always_fits(c->dtype, in->tensor.dtype);
    if (c->uniform && c->dtype == MGPU_F64 && in->tensor.dtype == MGPU_F32 && d->program->precision &&
        strcmp(d->program->precision, "f64") == 0)
        mgpu_say_once(
            "input '%s' is f32, which rounds the f64 of its file, although the model computes in f64; declared as f64[...] "
            "it keeps all digits",
            in->tensor.name);
}

/* Checks all samples of an input. Returns false after a complaint. */
static bool check_input(const Dataset *d, int input, char **complaint)
{
    const Stream *s = d->stream;
    const struct Bound *b = &d->bound[input];
    Item *items = new_items(s);
    Reading r = {0};
    bool good = true;
    uint8_t *to = mgpu_allocate((size_t)mgpu_tensor_bytes(&d->program->inputs[input].tensor), 1);
    for (int64_t i = 0; i < d->samples && good; i++) {
        SamplePlace p = {d, input, i, complaint};
        items[b->column].wanted = true;
        s->read(s, i, &r, items);
        good = put(&p, &items[b->column], to, &r);
        mgpu_reading_reset(&r);
    }
    mgpu_reading_close(&r);
    free(to);
    free(items);
    return good;
}

/* True if every sample of such a column fits when its shape does. */
static bool always_good(const Dataset *d, int input)
{
    const mgpu_input *in = &d->program->inputs[input];
    const StreamColumn *c = &d->stream->columns[d->bound[input].column];
    return d->bound[input].plain || c->image || (mgpu_dtype_is_float(in->tensor.dtype) && c->uniform && !in->classes);
}

bool mgpu_check_samples(const Dataset *d, char **complaint)
{
    bool good = true;
    for (int i = 0; i < d->program->input_count && good; i++)
        good = d->bound[i].column < 0 || d->bound[i].plain || check_input(d, i, complaint);
    return good;
}

/* ---- samples that arrive */
/* Assigns classes to words that appear first in this sample. Returns false after a complaint. */
static bool bind_new_words(Dataset *d, int input, int64_t sample, Categories *categories, char **complaint)
{
    struct Bound *b = &d->bound[input];
    const Words *all = d->stream->columns[b->column].words;
    if (!all || all->count == b->known)
        return true;
    char text[600];
    mgpu_describe(d->stream, sample, b->column, text, sizeof text);
    char *place = mgpu_format("%s%s", d->stream->where, text);
    Words fresh = {all->text + b->known, all->count - b->known, all->places};
    int64_t *classes = mgpu_classes_of_words(categories, &d->program->inputs[input], &fresh, NULL, place, place, complaint);
    free(place);
    if (!classes)
        return false;
    b->class_of = mgpu_resize(b->class_of, (size_t)all->count * sizeof *b->class_of);
    memcpy(b->class_of + b->known, classes, (size_t)fresh.count * sizeof *classes);
    b->known = all->count;
    free(classes);
    return true;
}

static bool accept_sample(Dataset *d, int64_t sample, Item *items, Reading *r, Categories *categories, char **complaint)
{
    bool good = true;
    for (int i = 0; i < d->program->input_count && good; i++)
        good = d->bound[i].column < 0 || bind_new_words(d, i, sample, categories, complaint);
    d->stream->read(d->stream, sample, r, items);
    for (int i = 0; i < d->program->input_count && good; i++) {
        const struct Bound *b = &d->bound[i];
        SamplePlace p = {d, i, sample, complaint};
        good = b->column < 0 || b->plain ||
               put(&p, &items[b->column], mgpu_reading_allocate(r, mgpu_tensor_bytes(&d->program->inputs[i].tensor)), r);
    }
    mgpu_reading_reset(r);
    return good;
}

int64_t mgpu_next_samples(Dataset *d, int64_t most, Categories *categories, char **complaint)
{
    Stream *s = d->stream;
    Item *items = new_items(s);
    Reading r = {0};
    int64_t first = s->samples;
    s->forget(s);
    for (int i = 0; i < d->program->input_count; i++)
        d->bound[i].known = 0;
    for (int c = 0; c < s->column_count; c++)
        items[c].wanted = true;
    while (s->samples - first < most && !*complaint && s->next(s, s->samples == first, complaint))
        if (!accept_sample(d, s->samples - 1, items, &r, categories, complaint))
            s->samples--;
    d->samples = s->samples;
    mgpu_reading_close(&r);
    free(items);
    return d->samples - first;
}

/* ---- threads for costly samples */
typedef struct Job {
    const Dataset *set;
    uint8_t *const *to;
    const int64_t *index;
    int64_t n, taken, done;
    uint64_t seed;
    int64_t epoch;
    bool later; /* a prefetch: nobody waits for it, so other jobs precede it */
    struct Job *next;
} Job;

/* Samples that are read while devices are busy, because they will be requested. */
typedef struct Prefetch {
    Job job;
    int64_t *index;
    uint8_t **to;
    int64_t taken; /* number of samples requested */
    int readers;   /* threads that copy from it */
} Prefetch;

struct Workers {
    pthread_mutex_t lock;
    pthread_cond_t more, done;
    Job *jobs;          /* jobs with samples left; the first has priority */
    Prefetch *prefetch; /* NULL if there is none */
    pthread_t *threads;
    int count;
    SpanLog **logs; /* [thread]: log of what it reads; may be NULL */
    bool stop;
};

/* Reads sample k of a job. */
static void read_sample(const Job *j, int64_t k, Item *items, Reading *r)
{
    const Dataset *d = j->set;
    r->seed = j->seed;
    r->epoch = j->epoch;
    for (int c = 0; c < d->stream->column_count; c++)
        items[c].wanted = false;
    for (int i = 0; i < d->program->input_count; i++)
        if (j->to[i])
            items[d->bound[i].column].wanted = true;
    d->stream->read(d->stream, j->index[k], r, items);
    for (int i = 0; i < d->program->input_count; i++) {
        SamplePlace p = {.set = d, .input = i, .sample = j->index[k]};
        if (j->to[i])
            put(&p, &items[d->bound[i].column], j->to[i] + k * mgpu_tensor_bytes(&d->program->inputs[i].tensor), r);
    }
    mgpu_reading_reset(r);
}

/* Reads samples of a job until none is left or another job has priority. The caller holds the lock. worker: -1 for others. */
static void work_on(struct Workers *w, Job *j, Item *items, Reading *r, int worker)
{
    while (j->taken < j->n && !(j->later && w->jobs != j)) {
        int64_t k = j->taken++;
        if (j->taken == j->n)
            for (Job **at = &w->jobs; *at; at = &(*at)->next)
                if (*at == j) {
                    *at = j->next;
                    break;
                }
        double began = w->logs ? mgpu_seconds() : 0;
        pthread_mutex_unlock(&w->lock);
        read_sample(j, k, items, r);
        pthread_mutex_lock(&w->lock);
        if (w->logs && worker >= 0 && began > 0)
            mgpu_spans_add(w->logs[worker], &(Span){.begin = began, .end = mgpu_seconds(), .text = "decode", .kind = SPAN_TEXT});
        if (++j->done == j->n)
            pthread_cond_broadcast(&w->done);
    }
}

typedef struct ReadingWorker {
    struct Workers *workers;
    const Stream *stream;
    int number;
} ReadingWorker;

static void *run_worker(void *argument)
{
    ReadingWorker *self = argument;
    struct Workers *w = self->workers;
    Item *items = new_items(self->stream);
    Reading r = {0};
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        if (w->jobs)
            work_on(w, w->jobs, items, &r, self->number);
        else
            pthread_cond_wait(&w->more, &w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    mgpu_reading_close(&r);
    free(items);
    free(self);
    return NULL;
}

int mgpu_reading_threads(void)
{
    char why[200];
    int count = mgpu_cores_available(why, sizeof why);
    return count < MGPU_MOST_THREADS ? count : MGPU_MOST_THREADS;
}

static struct Workers *start_workers(const Stream *s)
{
    struct Workers *w = mgpu_allocate(1, sizeof *w);
    int count = mgpu_reading_threads();
    w->count = count > 1 ? count - 1 : 1; /* the thread that requests a batch works as well */
    w->threads = mgpu_allocate((size_t)w->count, sizeof *w->threads);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->more, NULL);
    pthread_cond_init(&w->done, NULL);
    for (int i = 0; i < w->count; i++) {
        ReadingWorker *self = mgpu_allocate(1, sizeof *self);
        *self = (ReadingWorker){w, s, i};
        mgpu_start_thread(&w->threads[i], run_worker, self);
    }
    return w;
}

static void free_prefetch(struct Workers *w)
{
    if (!w->prefetch)
        return;
    for (int i = 0; i < w->prefetch->job.set->program->input_count; i++)
        free(w->prefetch->to[i]);
    free(w->prefetch->to);
    free(w->prefetch->index);
    free(w->prefetch);
    w->prefetch = NULL;
}

static void stop_workers(struct Workers *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->more);
    pthread_mutex_unlock(&w->lock);
    for (int i = 0; i < w->count; i++)
        pthread_join(w->threads[i], NULL);
    free_prefetch(w);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->more);
    pthread_cond_destroy(&w->done);
    free(w->threads);
    free(w);
}

/* ---- sets */
static void bind(Dataset *d, const bool *wanted, Categories *categories)
{
    d->bound = mgpu_allocate((size_t)d->program->input_count, sizeof *d->bound);
    for (int i = 0; i < d->program->input_count; i++)
        d->bound[i].column = -1;
    for (int i = 0; i < d->program->input_count; i++)
        if (wanted[i])
            bind_input(d, i, categories);
}

void mgpu_bind_columns(Dataset *d, const bool *wanted) { bind(d, wanted, NULL); }

void mgpu_bind_set(Dataset *d, const bool *wanted, Categories *categories)
{
    bool any = false;
    d->samples = d->stream->samples;
    d->shuffle = d->stream->shuffle;
    for (int i = 0; i < d->program->input_count; i++)
        any = any || wanted[i];
    if (!any)
        mgpu_fail(MGPU_BAD_INPUT, "%s: the losses depend on no input, so the data set '%s' is of no use", d->program->model_file,
                  d->name);
    if (!d->samples && !d->stream->next)
        mgpu_fail(MGPU_BAD_INPUT, "%sthe data set '%s' has no sample", d->stream->where, d->name);
    /* The most elements of an input that is checked as a whole now; more take too long. */
    int64_t most = d->stream->next ? -1 : MOMENT / d->samples;
    bind(d, wanted, categories);
    for (int i = 0; i < d->program->input_count; i++)
        if (wanted[i] && !always_good(d, i) && mgpu_elements(&d->program->inputs[i].tensor) <= most)
            check_input(d, i, NULL);
    d->workers = d->stream->costly ? start_workers(d->stream) : NULL;
}

void mgpu_close_set(Dataset *d)
{
    stop_workers(d->workers);
    for (int i = 0; d->bound && i < d->program->input_count; i++)
        free(d->bound[i].class_of);
    free(d->bound);
    mgpu_close_stream(d->stream);
    *d = (Dataset){0};
}

/* ---- samples of a batch */
static void add_job(struct Workers *w, Job *j)
{
    j->next = w->jobs;
    w->jobs = j;
    pthread_cond_broadcast(&w->more);
}

static void finish_job(struct Workers *w, Job *j, Item *items, Reading *r)
{
    j->later = false;
    work_on(w, j, items, r, -1);
    while (j->done < j->n)
        pthread_cond_wait(&w->done, &w->lock);
}

/* Returns the position of these samples in the job, or -1. */
static int64_t place_in(const Job *j, const int64_t *index, int64_t n, uint64_t seed, int64_t epoch)
{
    if (j->seed != seed || j->epoch != epoch)
        return -1;
    for (int64_t k = 0; k + n <= j->n; k++)
        if (j->index[k] == index[0])
            return memcmp(j->index + k, index, (size_t)n * sizeof *index) == 0 ? k : -1;
    return -1;
}

/* Copies samples that have been read ahead. The caller holds the lock. Returns false if other samples were read. */
static bool take_prefetched(struct Workers *w, uint8_t *const *to, const int64_t *index, int64_t n, uint64_t seed, int64_t epoch,
                            Item *items, Reading *r)
{
    Prefetch *a = w->prefetch;
    int64_t place = a ? place_in(&a->job, index, n, seed, epoch) : -1;
    if (place < 0)
        return false;
    a->readers++;
    finish_job(w, &a->job, items, r);
    pthread_mutex_unlock(&w->lock);
    for (int i = 0; i < a->job.set->program->input_count; i++) {
        int64_t bytes = mgpu_tensor_bytes(&a->job.set->program->inputs[i].tensor);
        if (to[i])
            memcpy(to[i], a->to[i] + place * bytes, (size_t)(n * bytes));
    }
    pthread_mutex_lock(&w->lock);
    a->taken += n;
    if (--a->readers == 0 && a->taken >= a->job.n)
        free_prefetch(w);
    return true;
}

bool mgpu_is_read(const Dataset *d, int input) { return d->bound[input].column >= 0; }

void mgpu_read_samples(const Dataset *d, uint8_t *const *to, const int64_t *index, int64_t n, uint64_t seed, int64_t epoch)
{
    Job job = {.set = d, .to = to, .index = index, .n = n, .seed = seed, .epoch = epoch};
    Item *items = new_items(d->stream);
    Reading r = {0};
    struct Workers *w = d->workers;
    if (w) {
        pthread_mutex_lock(&w->lock);
        if (!take_prefetched(w, to, index, n, seed, epoch, items, &r)) {
            add_job(w, &job);
            finish_job(w, &job, items, &r);
        }
        pthread_mutex_unlock(&w->lock);
    } else {
        for (int64_t k = 0; k < n; k++)
            read_sample(&job, k, items, &r);
    }
    mgpu_reading_close(&r);
    free(items);
}

int mgpu_decoders(const Dataset *d) { return d->workers ? d->workers->count : 0; }

SpanLog **mgpu_log_decoding(Dataset *d, SpanLog **logs)
{
    if (!d->workers)
        return logs;
    pthread_mutex_lock(&d->workers->lock);
    SpanLog **before = d->workers->logs;
    d->workers->logs = logs;
    pthread_mutex_unlock(&d->workers->lock);
    return before;
}

void mgpu_prefetch_samples(const Dataset *d, const int64_t *index, int64_t n, uint64_t seed, int64_t epoch)
{
    struct Workers *w = d->workers;
    if (!w || n < 1)
        return;
    pthread_mutex_lock(&w->lock); /* until the end: a reader may begin with the previous samples at any time */
    if (w->prefetch && (w->prefetch->readers || w->prefetch->job.done < w->prefetch->job.n)) {
        pthread_mutex_unlock(&w->lock);
        return;
    }
    Prefetch *a = mgpu_allocate(1, sizeof *a);
    int inputs = d->program->input_count;
    a->index = mgpu_allocate((size_t)n, sizeof *a->index);
    memcpy(a->index, index, (size_t)n * sizeof *a->index);
    a->to = mgpu_allocate((size_t)inputs + 1, sizeof *a->to);
    for (int i = 0; i < inputs; i++)
        if (d->bound[i].column >= 0)
            a->to[i] = mgpu_allocate((size_t)n, (size_t)mgpu_tensor_bytes(&d->program->inputs[i].tensor));
    a->job = (Job){.set = d, .to = a->to, .index = a->index, .n = n, .seed = seed, .epoch = epoch, .later = true};
    free_prefetch(w);
    w->prefetch = a;
    add_job(w, &a->job);
    pthread_mutex_unlock(&w->lock);
}
