/* stream.c: streams of pictures: paths become pixels (for images(dir) and decode("column")), and the stages resize, center_crop,
 * random_crop and random_resized_crop; consecutive ones are one stream.
 *
 * A picture that cannot be read ends the run with its file's name. With on_bad = "skip", threads decode all pictures once when
 * the set is opened and remove the bad ones, so that the length of an epoch is known and the order is the same in every run. With
 * cache = "ram", decoded pictures stay in memory until the set is closed. */
#include "runtime/base/base.h"
#include "runtime/data/image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a file's picture */
typedef struct CachedImage {
    int width, height, channels;
    uint8_t pixels[];
} CachedImage; /* in the cache */

typedef struct Decoding {
    char *folder;                  /* NULL: the current folder */
    bool *decoded;                 /* for each column */
    int64_t *sample;               /* for each sample its number in the previous stream; NULL: the same */
    _Atomic(CachedImage *) *cache; /* for each column, then for each sample of the previous stream; NULL: no cache */
} Decoding;

/* Reads a file into the Reading's memory. Returns false and why. */
static bool read_file(Reading *r, const char *path, const uint8_t **bytes, int64_t *size, char why[MGPU_IMAGE_WHY])
{
    struct stat status;
    const char *before = mgpu_doing("a picture is being read");
    mgpu_doing_with(path);
    int f = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* O_NONBLOCK: does not wait for a pipe */
    bool good = f >= 0 && fstat(f, &status) == 0, plain = good && S_ISREG(status.st_mode);
    int64_t done = 0;
    if (good && S_ISDIR(status.st_mode))
        errno = EISDIR;
    bool strange = good && !plain && !S_ISDIR(status.st_mode);
    good = plain;
    uint8_t *to = good ? mgpu_reading_allocate(r, (int64_t)status.st_size) : NULL;
    while (good && done < (int64_t)status.st_size) {
        ssize_t n = read(f, to + done, (size_t)((int64_t)status.st_size - done));
        if (n < 0 && errno == EINTR)
            continue;
        good = n >= 0;
        if (n <= 0)
            break;
        done += n;
    }
    if (!good)
        snprintf(why, MGPU_IMAGE_WHY, "%s", strange ? "it is a pipe, a device or a socket, a file is expected" : strerror(errno));
    if (f >= 0)
        close(f);
    mgpu_doing(before);
    *bytes = to;
    *size = done;
    return good;
}

int mgpu_image_channels(const mgpu_input *in)
{
    if (!in)
        return 3;
    if (in->classes)
        return MGPU_IMAGE_LABELS;
    return in->tensor.rank == 3 ? (int)in->tensor.extent[2] : 1;
}

bool mgpu_image_read(Reading *r, const char *path, int channels, Image *image, char why[MGPU_IMAGE_WHY])
{
    const uint8_t *bytes;
    int64_t size;
    return read_file(r, path, &bytes, &size, why) && mgpu_image_decode(r, bytes, size, channels, image, why);
}

/* rank: 3, or 2 if the column's input has no channel axis. */
static Item item_of(Reading *r, const Image *image, int rank)
{
    Item item = {.wanted = true, .dtype = MGPU_U8, .rank = rank, .extent = {image->height, image->width, image->channels}};
    int64_t row = (int64_t)image->width * image->channels;
    if (image->stride == row) {
        item.data = image->pixels;
        return item;
    }
    uint8_t *to = mgpu_reading_allocate(r, row * image->height);
    for (int y = 0; y < image->height; y++)
        memcpy(to + y * row, image->pixels + y * image->stride, (size_t)row);
    item.data = to;
    return item;
}

/* ---- paths -> pictures */
static char *path_of(const Decoding *d, const StreamColumn *c, const Item *item)
{
    int64_t word = (int64_t)mgpu_to_double(item->data, item->dtype, 0);
    return c->words->text[word] ? mgpu_path_in(d->folder, c->words->text[word]) : NULL;
}

static Image cached_image(const CachedImage *k)
{
    return (Image){k->width, k->height, k->channels, (int64_t)k->width * k->channels, k->pixels};
}

static void cache_image(_Atomic(CachedImage *) *place, const Image *image)
{
    size_t bytes = (size_t)image->width * (size_t)image->height * (size_t)image->channels;
    CachedImage *k = mgpu_allocate(1, sizeof *k + bytes), *other = NULL;
    *k = (CachedImage){image->width, image->height, image->channels};
    memcpy(k->pixels, image->pixels, bytes);
    if (!atomic_compare_exchange_strong(place, &other, k))
        free(k); /* another thread was faster */
}

/* Replaces a path by the picture. `sample` is of the previous stream. Returns false, why, and the path, which the caller
 * frees. */
static bool decode_item(const Stream *s, int column, int64_t sample, Reading *r, Item *item, char **path,
                        char why[MGPU_IMAGE_WHY])
{
    const Decoding *d = s->state;
    _Atomic(CachedImage *) *place = d->cache ? &d->cache[column * s->from->samples + sample] : NULL;
    const CachedImage *kept = place ? atomic_load(place) : NULL;
    Image image;
    *path = NULL;
    if (kept) {
        image = cached_image(kept);
    } else {
        *path = path_of(d, &s->from->columns[column], item);
        if (!*path) {
            snprintf(why, MGPU_IMAGE_WHY, "the path is missing");
            return false;
        }
        if (!mgpu_image_read(r, *path, mgpu_image_channels(s->columns[column].input), &image, why))
            return false;
        if (place)
            cache_image(place, &image);
    }
    *item = item_of(r, &image, s->columns[column].rank);
    free(*path);
    *path = NULL;
    return true;
}

static void read_decoded(const Stream *s, int64_t number, Reading *r, Item *items)
{
    const Decoding *d = s->state;
    int64_t sample = d->sample ? d->sample[number] : number;
    s->from->read(s->from, sample, r, items);
    for (int c = 0; c < s->column_count; c++) {
        char why[MGPU_IMAGE_WHY], text[600], *path;
        if (!d->decoded[c] || !items[c].wanted || decode_item(s, c, sample, r, &items[c], &path, why))
            continue;
        mgpu_describe(s->from, sample, c, text, sizeof text);
        if (path && strncmp(text, path, strlen(path)) == 0)
            mgpu_fail(MGPU_BAD_INPUT, "%s%s: %s; on_bad = \"skip\" leaves such samples out", s->where, path, why);
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: %s%s%s; on_bad = \"skip\" leaves such samples out", s->where, text, path ? path : "",
                  path ? ": " : "", why);
    }
}

static void describe_decoded(const Stream *s, int64_t number, int column, char *text, size_t capacity)
{
    const Decoding *d = s->state;
    mgpu_describe(s->from, d->sample ? d->sample[number] : number, column, text, capacity);
}

static const char *name_decoded(const Stream *s, int64_t number, char *text, size_t capacity)
{
    const Decoding *d = s->state;
    return mgpu_name_sample(s->from, d->sample ? d->sample[number] : number, text, capacity);
}

static uint64_t decoded_identity(const Stream *s, int64_t number)
{
    const Decoding *d = s->state;
    int64_t sample = d->sample ? d->sample[number] : number;
    return s->from->identity ? s->from->identity(s->from, sample) : (uint64_t)sample;
}

static void close_decoded(Stream *s)
{
    Decoding *d = s->state;
    for (int64_t i = 0; d->cache && i < s->column_count * s->from->samples; i++)
        free(atomic_load(&d->cache[i]));
    free(d->cache);
    free(d->sample);
    free(d->decoded);
    free(d->folder);
    free(d);
}

/* ---- on_bad = "skip" */
typedef struct BadImageSearch {
    const Stream *stream;
    bool *bad; /* for each sample of the previous stream */
    _Atomic int64_t next;
    pthread_mutex_t lock;
    int64_t count, first; /* number of bad ones, and the first */
    char text[1000];      /* file and reason of the first */
} BadImageSearch;

static void found_bad(BadImageSearch *f, int64_t sample, int column, const char *path, const char *why)
{
    pthread_mutex_lock(&f->lock);
    f->bad[sample] = true;
    if (!f->count++ || sample < f->first) {
        f->first = sample;
        if (path)
            snprintf(f->text, sizeof f->text, "%s: %s", path, why);
        else {
            char place[600];
            mgpu_describe(f->stream->from, sample, column, place, sizeof place);
            snprintf(f->text, sizeof f->text, "%s: %s", place, why);
        }
    }
    pthread_mutex_unlock(&f->lock);
}

static void *search(void *context)
{
    BadImageSearch *f = context;
    const Stream *s = f->stream;
    const Decoding *d = s->state;
    Reading r = {0};
    Item *items = mgpu_allocate((size_t)s->column_count, sizeof *items);
    for (int64_t i; (i = atomic_fetch_add(&f->next, 1)) < s->from->samples; mgpu_reading_reset(&r)) {
        char why[MGPU_IMAGE_WHY], *path;
        for (int c = 0; c < s->column_count; c++)
            items[c].wanted = d->decoded[c];
        s->from->read(s->from, i, &r, items);
        for (int c = 0; c < s->column_count; c++)
            if (d->decoded[c] && !decode_item(s, c, i, &r, &items[c], &path, why)) {
                found_bad(f, i, c, path, why);
                free(path);
                break;
            }
    }
    mgpu_reading_close(&r);
    free(items);
    return NULL;
}

static void skip_bad(Stream *s)
{
    Decoding *d = s->state;
    int count = mgpu_reading_threads();
    pthread_t *threads = mgpu_allocate((size_t)count, sizeof *threads);
    BadImageSearch f = {.stream = s, .lock = PTHREAD_MUTEX_INITIALIZER};
    f.bad = mgpu_allocate((size_t)s->samples, sizeof *f.bad);
    for (int t = 0; t < count; t++)
        mgpu_start_thread(&threads[t], search, &f);
    for (int t = 0; t < count; t++)
        pthread_join(threads[t], NULL);
    free(threads);
    if (f.count == s->samples)
        mgpu_fail(MGPU_BAD_INPUT, "%snone of %lld pictures can be read: %s", s->where, (long long)s->samples, f.text);
    if (f.count) {
        mgpu_say("%s: warning: %s%lld of %lld samples are left out, their pictures cannot be read: %s%s",
                 program_invocation_short_name, s->where, (long long)f.count, (long long)s->samples, f.text,
                 f.count > 1 ? "; ..." : "");
        d->sample = mgpu_allocate((size_t)(s->samples - f.count), sizeof *d->sample);
        int64_t kept = 0;
        for (int64_t i = 0; i < s->samples; i++)
            if (!f.bad[i])
                d->sample[kept++] = i;
        s->samples = kept;
    }
    free(f.bad);
}

Stream *mgpu_decode_paths(const Opening *o, const char *folder, const char *const *columns, int count)
{
    Stream *s = mgpu_new_stream(o, o->from->column_count);
    Decoding *d = s->state = mgpu_allocate(1, sizeof *d);
    d->folder = folder ? mgpu_format("%s", folder) : NULL;
    d->decoded = mgpu_allocate((size_t)s->column_count, sizeof *d->decoded);
    s->costly = true;
    s->read = read_decoded;
    s->describe = describe_decoded;
    s->name = name_decoded;
    s->identity = decoded_identity;
    s->close = close_decoded;
    for (int i = 0; i < count; i++) {
        int c = mgpu_find_column(s, columns[i]);
        StreamColumn *column = &s->columns[c];
        int channels = mgpu_image_channels(column->input);
        if (column->input && (column->input->tensor.rank < 2 || column->input->tensor.rank > 3 || channels == 2 || channels > 4))
            mgpu_fail(MGPU_BAD_INPUT,
                      "%sinput '%s' cannot be a picture: f32 or u8 [height, width, 1, 3 or 4], or class [height, width]",
                      o->where, column->name);
        d->decoded[c] = true;
        *column = (StreamColumn){.name = column->name,
                                 .image = true,
                                 .dtype = MGPU_U8,
                                 .input = column->input,
                                 .rank = column->input ? column->input->tensor.rank : 3,
                                 .extent = {0, 0, channels == MGPU_IMAGE_LABELS ? 1 : channels}};
    }
    const mgpu_call *reader = &o->set->calls[0];
    if (strcmp(mgpu_option_text(reader, "cache", ""), "ram") == 0)
        d->cache = mgpu_allocate((size_t)(s->column_count * s->samples), sizeof *d->cache);
    if (strcmp(mgpu_option_text(reader, "on_bad", ""), "skip") == 0)
        skip_bad(s);
    return s;
}

Stream *mgpu_open_decode(const Opening *o)
{
    const mgpu_option *columns = mgpu_find_option(o->call, "columns");
    const char **names = mgpu_allocate((size_t)columns->count, sizeof *names);
    int count = 0;
    for (int i = 0; i < columns->count; i++)
        if (mgpu_find_column(o->from, columns->items[i].text) >= 0) /* only columns that are read */
            names[count++] = columns->items[i].text;
    for (int i = 0; i < count; i++)
        if (!o->from->columns[mgpu_find_column(o->from, names[i])].words)
            mgpu_die("decode: the column for '%s' holds numbers", names[i]);
    Stream *s = count ? mgpu_decode_paths(o, o->folder, names, count) : o->from;
    free(names);
    return s;
}

/* ---- stages */
typedef struct Stages {
    ImageStage *stage;
    int count;
} Stages;

static void read_staged(const Stream *s, int64_t sample, Reading *r, Item *items)
{
    const Stages *stages = s->state;
    s->from->read(s->from, sample, r, items);
    for (int c = 0; c < s->column_count; c++) {
        Item *item = &items[c];
        if (!s->columns[c].image || !item->wanted)
            continue;
        const mgpu_input *in = s->columns[c].input;
        ImageMeaning meaning = mgpu_image_meaning(in);
        int channels = item->rank == 3 ? (int)item->extent[2] : 1;
        Image image = {(int)item->extent[1], (int)item->extent[0], channels, item->extent[1] * channels, item->data};
        char why[MGPU_IMAGE_WHY], text[600];
        if (!mgpu_image_stages(r, &image, stages->stage, stages->count, sample, meaning, &image, why)) {
            mgpu_describe(s, sample, c, text, sizeof text);
            mgpu_fail(MGPU_BAD_INPUT, "%s%s: %s", s->where, text, why);
        }
        *item = item_of(r, &image, item->rank);
    }
}

static void close_staged(Stream *s)
{
    Stages *stages = s->state;
    for (int i = 0; i < stages->count; i++)
        free((char *)stages->stage[i].name);
    free(stages->stage);
    free(stages);
}

ImageStage mgpu_image_stage(const mgpu_call *call, const ImageStage *before, int count)
{
    static const char *const NAMES[] = {"resize", "center_crop", "random_crop", "random_resized_crop"};
    static const double SCALE[] = {0.08, 1}, RATIO[] = {3.0 / 4, 4.0 / 3};
    const mgpu_option *size = mgpu_find_option(call, "size"), *scale = mgpu_find_option(call, "scale"),
                      *ratio = mgpu_find_option(call, "ratio");
    ImageStage s = {.height = (int)size->items[0].number};
    s.width = size->count > 1 ? (int)size->items[1].number : s.height;
    for (int i = 0; i < MGPU_COUNT(NAMES); i++)
        if (strcmp(NAMES[i], call->name) == 0)
            s.kind = (ImageStageKind)i;
    if (s.kind == STAGE_RESIZE && size->count == 1)
        s.height = 0;
    for (int k = 0; k < 2; k++) {
        s.scale[k] = scale ? scale->items[k].number : SCALE[k];
        s.ratio[k] = ratio ? ratio->items[k].number : RATIO[k];
    }
    int same = 0;
    for (int i = 0; i < count; i++)
        same += before[i].kind == s.kind;
    s.name = same ? mgpu_format("%s %d", call->name, same) : mgpu_format("%s", call->name);
    return s;
}

Stream *mgpu_open_image_stage(const Opening *o)
{
    Stream *s = o->from;
    bool images = false;
    for (int c = 0; c < s->column_count; c++)
        images = images || s->columns[c].image;
    if (!images)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s needs pictures, [height, width, channels] of u8; %s gives none", o->where, o->call->name,
                  s->what);
    if (s->read != read_staged) {
        s = mgpu_new_stream(o, o->from->column_count);
        s->state = mgpu_allocate(1, sizeof(Stages));
        s->costly = true;
        s->read = read_staged;
        s->close = close_staged;
    }
    Stages *stages = s->state;
    stages->stage = mgpu_resize(stages->stage, (size_t)(stages->count + 1) * sizeof *stages->stage);
    stages->stage[stages->count] = mgpu_image_stage(o->call, stages->stage, stages->count);
    const ImageStage *stage = &stages->stage[stages->count++];
    for (int c = 0; c < s->column_count; c++)
        if (s->columns[c].image) {
            s->columns[c].uniform = stage->height != 0;
            s->columns[c].extent[0] = stage->height;
            s->columns[c].extent[1] = stage->width;
        }
    return s;
}
