/* image.h: pictures of a data set: files decoded, brought to size, cut.
 *
 * image/decode.c   the bytes of a JPEG or PNG file -> pixels; the libraries are opened when the first file asks for one
 * image/resize.c   pixels -> pixels of another size
 * image/stages.c   the stages of a pipeline: resize, center_crop, random_crop, random_resized_crop
 * image/stream.c   streams: paths become pictures; the stages
 * image/folder.c   the reader images(dir)
 * image/array.c    pictures for `predict`
 *
 * The first three end no program: a picture that cannot be had is `false` and a text that says why, because what follows
 * is the reader's decision. All memory is the Reading's: it lives until the sample is done. */
#ifndef MGPU_IMAGE_H
#define MGPU_IMAGE_H

#include "runtime/data/data.h"

enum { MGPU_IMAGE_WHY = 240 }; /* characters of a reason */

/* [height, width, channels] bytes, rows `stride` bytes apart */
typedef struct Image {
    int width, height, channels;
    int64_t stride;
    const uint8_t *pixels;
} Image;

/* ---- image/decode.c */
typedef enum ImageKind { IMAGE_UNKNOWN, IMAGE_JPEG, IMAGE_PNG } ImageKind;
/* by its first bytes; the name of a file says nothing */
ImageKind mgpu_image_kind(const uint8_t *bytes, int64_t size);
/* whether the library for a kind is there; why: "the library libturbojpeg.so.0 cannot be opened; install it ..." */
bool mgpu_image_library(ImageKind, char why[MGPU_IMAGE_WHY]);

enum { MGPU_IMAGE_LABELS = 0 }; /* `channels` of a picture whose bytes are numbers of classes */
/* channels: 1 (grey), 3 (red, green, blue), 4 (and alpha) whatever the file has, or MGPU_IMAGE_LABELS: one channel of the
 * numbers that the file holds, entries of a palette as they are. */
bool mgpu_image_decode(Reading *, const uint8_t *bytes, int64_t size, int channels, Image *, char why[MGPU_IMAGE_WHY]);

/* ---- image/resize.c */
typedef struct ImageWindow {
    int x, y, width, height;
} ImageWindow;
/* Pixels of `window` of what the whole of `from` is when it is brought to `width` x `height`. nearest: for numbers of
 * classes, which have no mean. */
void mgpu_image_resize(Reading *, const Image *from, int width, int height, ImageWindow, bool nearest, Image *to);

/* ---- image/stages.c */
typedef enum ImageStageKind { STAGE_RESIZE, STAGE_CENTER_CROP, STAGE_RANDOM_CROP, STAGE_RANDOM_RESIZED_CROP } ImageStageKind;
typedef struct ImageStage {
    ImageStageKind kind;
    const char *name;          /* of its random numbers */
    int width, height;         /* of the result; STAGE_RESIZE with height 0: the shorter side is `width` */
    double scale[2], ratio[2]; /* STAGE_RANDOM_RESIZED_CROP: parts of the area; width / height */
} ImageStage;
/* what the bytes of a picture are: colours, or numbers of classes, which have no mean */
typedef struct ImageMeaning {
    bool labels;
    int fill;
} ImageMeaning; /* fill: what is around labels; -1: there is nothing */
ImageMeaning mgpu_image_meaning(const mgpu_input *); /* NULL: colours */
/* the stages one after the other, on the same sample; false: a crop does not fit */
bool mgpu_image_stages(Reading *, const Image *from, const ImageStage *, int count, int64_t sample, ImageMeaning, Image *to,
                       char why[MGPU_IMAGE_WHY]);

/* ---- image/stream.c */
OpenStream mgpu_open_decode, mgpu_open_image_stage;
/* a stream whose columns `columns` are words that are paths -> a stream in which they are pictures. The set's reader has the
 * options on_bad and cache. folder: of paths that do not begin with '/'; NULL: the current one */
Stream *mgpu_decode_paths(const Opening *, const char *folder, const char *const *columns, int count);

int mgpu_image_channels(const mgpu_input *); /* that pictures for an input have, for mgpu_image_decode; NULL: 3 */
bool mgpu_image_read(Reading *, const char *path, int channels, Image *, char why[MGPU_IMAGE_WHY]);
/* of a call of resize, ..., after others; the caller frees its name */
ImageStage mgpu_image_stage(const mgpu_call *, const ImageStage *before, int count);

/* ---- image/folder.c */
OpenStream mgpu_open_images;
bool mgpu_is_picture(const char *name); /* it ends in .jpg, .jpeg or .png */
/* the pictures below a folder, sorted; their paths are the caller's to free. Fails if there are none */
char **mgpu_list_pictures(const char *folder, int64_t *count);

/* ---- image/array.c */
/* pictures, and those below folders, as samples of an input, through the stages of the set `valid`, else `test`, that are not
 * random -> by sample its file, the caller's to free */
char **mgpu_read_pictures(Array *, const mgpu_program *, const mgpu_input *, const char *const *paths, int count);

/* ---- image_sums_*.c: weighted sums of pixels, once for every instruction set: weights have 22 bits of fraction, sums are
 * rounded. rows: to[i] = sum of weight[k] from[k stride + i], i < count. pixels: pixel x of `to` is the sum over k of
 * weight[x weights + k] times pixel first[x] + k of `from`, k < taps[x] (at least 1). */
typedef struct ImageSums {
    const char *name;
    void (*rows)(const uint8_t *from, int64_t stride, const int32_t *weight, int taps, int64_t count, uint8_t *to);
    void (*pixels)(const uint8_t *from, int channels, const int32_t *weight, int weights, const int *first, const int *taps,
                   int count, uint8_t *to);
} ImageSums;
extern const ImageSums mgpu_image_sums_base, mgpu_image_sums_avx2; /* rows NULL: not built for it */
const ImageSums *mgpu_image_sums_choice(int number);               /* those that run here, the fastest first, then NULL */
#endif
