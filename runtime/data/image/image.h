/* image.h: pictures of a data set: decoding, resizing, cropping.
 *
 * image/decode.c   the bytes of a JPEG or PNG file -> pixels; the libraries are opened for the first such file image/resize.c
 * pixels -> pixels of another size image/stages.c   the stages of a pipeline: resize, center_crop, random_crop,
 * random_resized_crop image/stream.c   streams: paths become pictures; the stages image/folder.c   the reader images(dir)
 * image/array.c    pictures for `predict`
 *
 * The first three never end the program: they return false and a reason, because the reader decides what to do about a bad
 * picture. All memory belongs to the Reading and is valid until the sample has been read. */
#ifndef MGPU_IMAGE_H
#define MGPU_IMAGE_H

#include "runtime/data/data.h"

enum { MGPU_IMAGE_WHY = 240 }; /* size of the buffer for a reason */

/* Bytes in shape [height, width, channels]; rows are `stride` bytes apart. */
typedef struct Image {
    int width, height, channels;
    int64_t stride;
    const uint8_t *pixels;
} Image;

/* ---- image/decode.c */
typedef enum ImageKind { IMAGE_UNKNOWN, IMAGE_JPEG, IMAGE_PNG } ImageKind;
/* Detects the format by the first bytes and ignores the file's name. */
ImageKind mgpu_image_kind(const uint8_t *bytes, int64_t size);
/* Returns whether the library for a format is available. why: "the library libturbojpeg.so.0 cannot be opened; install it ..." */
bool mgpu_image_library(ImageKind, char why[MGPU_IMAGE_WHY]);

enum { MGPU_IMAGE_LABELS = 0 }; /* `channels` of pictures whose bytes are numbers of classes */
/* Decodes to 1 (grey), 3 (red, green, blue) or 4 channels (with alpha), whatever the file has, or MGPU_IMAGE_LABELS: one channel
 * with the numbers in the file, or its palette's indices. */
bool mgpu_image_decode(Reading *, const uint8_t *bytes, int64_t size, int channels, Image *, char why[MGPU_IMAGE_WHY]);

/* ---- image/resize.c */
typedef struct ImageWindow {
    int x, y, width, height;
} ImageWindow;
/* Computes the pixels in `window` of `from` resized to `width` x `height`. nearest: for numbers of classes, which cannot be
 * averaged. */
void mgpu_image_resize(Reading *, const Image *from, int width, int height, ImageWindow, bool nearest, Image *to);

/* ---- image/stages.c */
typedef enum ImageStageKind { STAGE_RESIZE, STAGE_CENTER_CROP, STAGE_RANDOM_CROP, STAGE_RANDOM_RESIZED_CROP } ImageStageKind;
typedef struct ImageStage {
    ImageStageKind kind;
    const char *name;          /* key of its random numbers */
    int width, height;         /* of the result; if height is 0, STAGE_RESIZE makes the shorter side `width` */
    double scale[2], ratio[2]; /* STAGE_RANDOM_RESIZED_CROP: fraction of the area; width / height */
} ImageStage;
/* The meaning of a picture's bytes: colours, or numbers of classes, which cannot be averaged. */
typedef struct ImageMeaning {
    bool labels;
    int fill;
} ImageMeaning;                                      /* fill: the class outside of the picture; -1 if there is none */
ImageMeaning mgpu_image_meaning(const mgpu_input *); /* NULL: colours */
/* Applies the stages in order. Returns false if a crop does not fit. */
bool mgpu_image_stages(Reading *, const Image *from, const ImageStage *, int count, int64_t sample, ImageMeaning, Image *to,
                       char why[MGPU_IMAGE_WHY]);

/* ---- image/stream.c */
OpenStream mgpu_open_image_stage;
/* Makes a stream in which columns of paths become pictures. The set's reader has the options on_bad and cache. Relative paths
 * begin in `folder`, or in the current folder if it is NULL. */
Stream *mgpu_decode_paths(const Opening *, const char *folder, const char *const *columns, int count);

int mgpu_image_channels(const mgpu_input *); /* the `channels` of mgpu_image_decode for an input; 3 for NULL */
bool mgpu_image_read(Reading *, const char *path, int channels, Image *, char why[MGPU_IMAGE_WHY]);
/* Makes the stage of a call of resize, ... that follows others. The caller frees its name. */
ImageStage mgpu_image_stage(const mgpu_call *, const ImageStage *before, int count);

/* ---- image/folder.c */
bool mgpu_is_picture(const char *name); /* the name ends in .jpg, .jpeg or .png */
/* Returns the sorted paths of pictures below a folder, which the caller frees. Fails if there are none. */
char **mgpu_list_pictures(const char *folder, int64_t *count);

/* ---- image/array.c */
/* Reads pictures, and those below folders, as samples of an input, with the stages of the set `valid`, else `test`, that are not
 * random. Returns the file of each sample; the caller frees. */
char **mgpu_read_pictures(Array *, const mgpu_program *, const mgpu_input *, const char *const *paths, int count);

/* ---- sums_*.c: weighted sums of pixels for each instruction set. Weights have 22 bits of fraction, sums are rounded. rows:
 * to[i] = sum of weight[k] from[k stride + i], i < count. pixels: pixel x of `to` is the sum over k of weight[x weights + k]
 * times pixel first[x] + k of `from`, k < taps[x] (at least 1). */
typedef struct ImageSums {
    const char *name;
    void (*rows)(const uint8_t *from, int64_t stride, const int32_t *weight, int taps, int64_t count, uint8_t *to);
    void (*pixels)(const uint8_t *from, int channels, const int32_t *weight, int weights, const int *first, const int *taps,
                   int count, uint8_t *to);
} ImageSums;
extern const ImageSums mgpu_image_sums_base, mgpu_image_sums_avx2; /* rows NULL: not built */
const ImageSums *mgpu_image_sums_choice(int number); /* those that this processor has, the fastest first, then NULL */
#endif
