/* decode.c: the bytes of a JPEG or PNG file -> pixels.
 *
 * libjpeg-turbo (its C interface of version 1.4 and later, libturbojpeg.so.0) and libpng 1.6 are opened with dlopen for the first
 * picture that needs them. So programs without pictures need neither, and a build needs no header of them. Both interfaces are
 * functions with opaque pointers: https://libjpeg-turbo.org/Documentation and http://www.libpng.org/pub/png/libpng-manual.txt.
 *
 * Pixels are those of torchvision's ImageFolder, which are those of Pillow's Image.open(file).convert("RGB"): - JPEG with the
 * accurate integer DCT and smooth upsampling, the libraries' defaults; - an orientation in the EXIF data is not applied, nor are
 * gamma or colour profiles; - CMYK and YCCK as Adobe writes them, inverted; red = k (1 - c); - alpha is dropped, not blended; 16
 * bits: the upper 8; grey of colours: (19595 r + 38470 g + 7471 b + 32768) >> 16. Stricter than Pillow: a JPEG whose coded data
 * is damaged or truncated is an error; superfluous bytes are not. */
#include "runtime/base/base.h"
#include "runtime/data/image/image.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t MOST_PIXELS = 178956970; /* Pillow's limit: more is an attack or a mistake */

/* ---- the libraries */
enum { TJ_RGB = 0, TJ_GRAY = 6, TJ_RGBA = 7, TJ_CMYK = 11 };
enum { TJ_SPACE_GRAY = 2, TJ_SPACE_CMYK = 3, TJ_SPACE_YCCK = 4 };
enum { TJ_STOP_ON_WARNING = 8192, TJ_LIMIT_SCANS = 32768 };
enum { TJ_CODE_WARNING = 0 };

static struct {
    bool there;
    char why[MGPU_IMAGE_WHY];
    void *(*open)(void);
    int (*close)(void *);
    int (*header)(void *, const unsigned char *, unsigned long, int *width, int *height, int *sampling, int *space);
    int (*decompress)(void *, const unsigned char *, unsigned long, unsigned char *to, int width, int pitch, int height,
                      int format, int flags);
    char *(*message)(void *);
    int (*code)(void *);
} jpeg;

enum { PNG_PALETTE = 1, PNG_COLOUR = 2, PNG_ALPHA = 4, PNG_AFTER = 1 };

static struct {
    bool there;
    char why[MGPU_IMAGE_WHY];
    const char *(*version)(const void *);
    void *(*open)(const char *version, void *error_context, void (*error)(void *, const char *),
                  void (*warning)(void *, const char *));
    void *(*open_info)(void *);
    void (*close)(void **, void **, void **);
    void *(*error_context)(const void *);
    void (*fail)(const void *, const char *);
    void (*set_read)(void *, void *context, void (*read)(void *, unsigned char *, size_t));
    void *(*read_context)(const void *);
    void (*read_info)(void *, void *);
    uint32_t (*width)(const void *, const void *);
    uint32_t (*height)(const void *, const void *);
    unsigned char (*colour)(const void *, const void *);
    unsigned char (*depth)(const void *, const void *);
    void (*palette_to_rgb)(void *);
    void (*transparency_to_alpha)(void *);
    void (*expand_grey)(void *);
    void (*grey_to_rgb)(void *);
    void (*strip_16)(void *);
    void (*strip_alpha)(void *);
    void (*add_alpha)(void *, uint32_t value, int where);
    void (*unpack)(void *);
    int (*interlace)(void *);
    void (*update_info)(void *, void *);
    size_t (*row_bytes)(const void *, const void *);
    void (*read_image)(void *, unsigned char **rows);
} png;

typedef struct DecoderSymbol {
    void *pointer;
    const char *name;
} DecoderSymbol;
static const DecoderSymbol JPEG_ENTRIES[] = {{&jpeg.open, "tjInitDecompress"},      {&jpeg.close, "tjDestroy"},
                                             {&jpeg.header, "tjDecompressHeader3"}, {&jpeg.decompress, "tjDecompress2"},
                                             {&jpeg.message, "tjGetErrorStr2"},     {&jpeg.code, "tjGetErrorCode"}};
static const DecoderSymbol PNG_ENTRIES[] = {{&png.version, "png_get_libpng_ver"},
                                            {&png.open, "png_create_read_struct"},
                                            {&png.open_info, "png_create_info_struct"},
                                            {&png.close, "png_destroy_read_struct"},
                                            {&png.error_context, "png_get_error_ptr"},
                                            {&png.fail, "png_error"},
                                            {&png.set_read, "png_set_read_fn"},
                                            {&png.read_context, "png_get_io_ptr"},
                                            {&png.read_info, "png_read_info"},
                                            {&png.width, "png_get_image_width"},
                                            {&png.height, "png_get_image_height"},
                                            {&png.colour, "png_get_color_type"},
                                            {&png.depth, "png_get_bit_depth"},
                                            {&png.palette_to_rgb, "png_set_palette_to_rgb"},
                                            {&png.transparency_to_alpha, "png_set_tRNS_to_alpha"},
                                            {&png.expand_grey, "png_set_expand_gray_1_2_4_to_8"},
                                            {&png.grey_to_rgb, "png_set_gray_to_rgb"},
                                            {&png.strip_16, "png_set_strip_16"},
                                            {&png.strip_alpha, "png_set_strip_alpha"},
                                            {&png.add_alpha, "png_set_add_alpha"},
                                            {&png.unpack, "png_set_packing"},
                                            {&png.interlace, "png_set_interlace_handling"},
                                            {&png.update_info, "png_read_update_info"},
                                            {&png.row_bytes, "png_get_rowbytes"},
                                            {&png.read_image, "png_read_image"}};

/* variable: of the environment, which may name another file */
static bool open_library(const char *variable, const char *name, const char *package, const DecoderSymbol *entries, int count,
                         char why[MGPU_IMAGE_WHY])
{
    const char *other = getenv(variable);
    if (other && *other)
        name = other;
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(
            why, MGPU_IMAGE_WHY,
            "pictures need the library %s, which cannot be opened; install it (Debian: apt-get install %s) or name its file in %s",
            name, package, variable);
        return false;
    }
    for (int i = 0; i < count; i++) {
        void *address = dlsym(handle, entries[i].name);
        if (!address) {
            snprintf(why, MGPU_IMAGE_WHY, "the library %s has no %s: it is too old (Debian: apt-get install %s)", name,
                     entries[i].name, package);
            return false;
        }
        memcpy(entries[i].pointer, &address, sizeof address);
    }
    return true;
}

static void open_jpeg(void)
{
    jpeg.there =
        open_library("MGPU_TURBOJPEG", "libturbojpeg.so.0", "libturbojpeg0", JPEG_ENTRIES, MGPU_COUNT(JPEG_ENTRIES), jpeg.why);
}

static void open_png(void)
{
    png.there = open_library("MGPU_LIBPNG", "libpng16.so.16", "libpng16-16", PNG_ENTRIES, MGPU_COUNT(PNG_ENTRIES), png.why);
}

ImageKind mgpu_image_kind(const uint8_t *bytes, int64_t size)
{
    static const uint8_t PNG_MAGIC[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
    if (size >= 3 && bytes[0] == 0xFF && bytes[1] == 0xD8 && bytes[2] == 0xFF)
        return IMAGE_JPEG;
    return size >= (int64_t)sizeof PNG_MAGIC && memcmp(bytes, PNG_MAGIC, sizeof PNG_MAGIC) == 0 ? IMAGE_PNG : IMAGE_UNKNOWN;
}

bool mgpu_image_library(ImageKind kind, char why[MGPU_IMAGE_WHY])
{
    static pthread_once_t jpeg_once = PTHREAD_ONCE_INIT, png_once = PTHREAD_ONCE_INIT;
    if (kind == IMAGE_UNKNOWN)
        return true;
    if (kind == IMAGE_JPEG)
        pthread_once(&jpeg_once, open_jpeg);
    else
        pthread_once(&png_once, open_png);
    bool there = kind == IMAGE_JPEG ? jpeg.there : png.there;
    if (!there)
        memcpy(why, kind == IMAGE_JPEG ? jpeg.why : png.why, MGPU_IMAGE_WHY);
    return there;
}

/* ---- pictures */
typedef struct DecodedPicture {
    int64_t width, height;
    int channels;
    uint8_t *pixels;
} DecodedPicture;

static bool say(char why[MGPU_IMAGE_WHY], const char *what, const char *message)
{
    snprintf(why, MGPU_IMAGE_WHY, "%s: %s", what, message);
    return false;
}

static bool make_picture(Reading *reading, int64_t width, int64_t height, int channels, DecodedPicture *p,
                         char why[MGPU_IMAGE_WHY])
{
    if (width <= 0 || height <= 0 || width > MOST_PIXELS / height) {
        snprintf(why, MGPU_IMAGE_WHY, "it says that it has %lld x %lld pixels; up to %lld in all are read", (long long)width,
                 (long long)height, (long long)MOST_PIXELS);
        return false;
    }
    *p = (DecodedPicture){width, height, channels, mgpu_reading_allocate(reading, width * height * channels)};
    return true;
}

static uint8_t grey_of(const uint8_t *rgb)
{
    return (uint8_t)((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 32768u) >> 16);
}

/* In place: pixel i of the grey picture precedes the pixels that are still to be read. */
static void make_grey(DecodedPicture *p)
{
    for (int64_t i = 0; i < p->width * p->height; i++)
        p->pixels[i] = grey_of(p->pixels + 3 * i);
    p->channels = 1;
}

/* ---- JPEG */
static void cmyk_to_rgb(const uint8_t *from, uint8_t *to, int64_t count, int channels)
{
    for (int64_t i = 0; i < count; i++, from += 4, to += channels) {
        unsigned light = from[3]; /* stored inverted: 255 is no ink */
        for (int c = 0; c < 3; c++) {
            unsigned product = (255u - from[c]) * light + 128;
            to[c] = (uint8_t)(light - ((product + (product >> 8)) >> 8));
        }
        if (channels == 4)
            to[3] = 255;
    }
}

/* Warnings of libjpeg after which all pixels are still right. */
static bool harmless(const char *message)
{
    static const char *const HARMLESS[] = {"extraneous bytes before marker", "Adobe color transform", "JFIF revision",
                                           "SOS parameters", "ICC profile"};
    for (int i = 0; i < MGPU_COUNT(HARMLESS); i++)
        if (strstr(message, HARMLESS[i]))
            return true;
    return false;
}

/* Decoding stops at the first warning. If it is harmless, the picture is decoded again; the library then reports its last
 * warning. */
static bool decompress(void *handle, const uint8_t *bytes, int64_t size, const DecodedPicture *p, int format, int pixel_bytes,
                       uint8_t *to, char why[MGPU_IMAGE_WHY])
{
    int width = (int)p->width, height = (int)p->height;
    for (int flags = TJ_LIMIT_SCANS | TJ_STOP_ON_WARNING;; flags = TJ_LIMIT_SCANS) {
        if (jpeg.decompress(handle, bytes, (unsigned long)size, to, width, width * pixel_bytes, height, format, flags) == 0)
            return true;
        if (!harmless(jpeg.message(handle)))
            return say(why, "not a whole JPEG file", jpeg.message(handle));
        if (!(flags & TJ_STOP_ON_WARNING))
            return true;
    }
}

static bool read_jpeg(Reading *reading, void *handle, const uint8_t *bytes, int64_t size, int channels, DecodedPicture *p,
                      char why[MGPU_IMAGE_WHY])
{
    int width = 0, height = 0, sampling, space = 0;
    if (jpeg.header(handle, bytes, (unsigned long)size, &width, &height, &sampling, &space) != 0 &&
        !(jpeg.code(handle) == TJ_CODE_WARNING && harmless(jpeg.message(handle))))
        return say(why, "not a JPEG file that can be read", jpeg.message(handle));
    bool one = channels == MGPU_IMAGE_LABELS || channels == 1;
    int made = !one ? channels : space == TJ_SPACE_GRAY ? 1 : 3;
    if (!make_picture(reading, width, height, made, p, why))
        return false;
    if (space == TJ_SPACE_CMYK || space == TJ_SPACE_YCCK) {
        uint8_t *inks = mgpu_reading_allocate(reading, p->width * p->height * 4);
        if (!decompress(handle, bytes, size, p, TJ_CMYK, 4, inks, why))
            return false;
        cmyk_to_rgb(inks, p->pixels, p->width * p->height, made);
    } else if (!decompress(handle, bytes, size, p, made == 1 ? TJ_GRAY : made == 3 ? TJ_RGB : TJ_RGBA, made, p->pixels, why)) {
        return false;
    }
    if (one && made == 3)
        make_grey(p);
    return true;
}

static bool decode_jpeg(Reading *reading, const uint8_t *bytes, int64_t size, int channels, DecodedPicture *p,
                        char why[MGPU_IMAGE_WHY])
{
    void *handle = jpeg.open();
    if (!handle)
        mgpu_no_memory((size_t)size);
    bool good = read_jpeg(reading, handle, bytes, size, channels, p, why);
    jpeg.close(handle);
    return good;
}

/* ---- PNG. libpng reports errors by calling a function that must not return; ours calls longjmp. */
typedef struct PngFile {
    jmp_buf back;
    const uint8_t *bytes;
    int64_t size, at;
    void *file, *info;
    Reading *reading;
    char *why;
} PngFile;

static void png_failed(void *file, const char *message)
{
    PngFile *f = png.error_context(file);
    say(f->why, "not a whole PNG file", message);
    longjmp(f->back, 1);
}

static void png_warned(void *file, const char *message)
{
    (void)file;
    (void)message;
}

static void png_bytes(void *file, unsigned char *to, size_t count)
{
    PngFile *f = png.read_context(file);
    if (count > (size_t)(f->size - f->at))
        png.fail(file, "it ends early");
    memcpy(to, f->bytes + f->at, count);
    f->at += (int64_t)count;
}

/* Returns the number of channels of the output, or 0 and `why`. */
static int choose_png_form(PngFile *f, int channels)
{
    int colour = png.colour(f->file, f->info), depth = png.depth(f->file, f->info);
    if (channels == MGPU_IMAGE_LABELS) {
        if (depth == 16 || (colour != 0 && colour != (PNG_COLOUR | PNG_PALETTE))) {
            snprintf(f->why, MGPU_IMAGE_WHY, "classes of pixels are read from PNG files of up to 8 bits, grey or with a palette");
            return 0;
        }
        png.unpack(f->file);
        return 1;
    }
    bool grey = !(colour & PNG_COLOUR);
    if (colour & PNG_PALETTE)
        png.palette_to_rgb(f->file);
    else if (grey)
        png.expand_grey(f->file);
    png.strip_16(f->file);
    if (channels == 4) {
        png.transparency_to_alpha(f->file);
        png.add_alpha(f->file, 255, PNG_AFTER); /* if there is no alpha */
    } else {
        png.strip_alpha(f->file);
    }
    if (grey && channels != 1)
        png.grey_to_rgb(f->file);
    return channels == 1 && !grey ? 3 : channels;
}

static bool read_png(PngFile *f, int channels, DecodedPicture *p)
{
    png.set_read(f->file, f, png_bytes);
    png.read_info(f->file, f->info);
    int made = choose_png_form(f, channels);
    if (!made || !make_picture(f->reading, png.width(f->file, f->info), png.height(f->file, f->info), made, p, f->why))
        return false;
    png.interlace(f->file);
    png.update_info(f->file, f->info);
    if ((int64_t)png.row_bytes(f->file, f->info) != p->width * made)
        mgpu_die("rows of a PNG file of %lld bytes for %lld x %d", (long long)png.row_bytes(f->file, f->info),
                 (long long)p->width, made);
    unsigned char **rows = mgpu_reading_allocate(f->reading, p->height * (int64_t)sizeof *rows);
    for (int64_t y = 0; y < p->height; y++)
        rows[y] = p->pixels + y * p->width * made;
    png.read_image(f->file, rows);
    if (channels == 1 && made == 3)
        make_grey(p);
    return true;
}

static bool decode_png(Reading *reading, const uint8_t *bytes, int64_t size, int channels, DecodedPicture *p,
                       char why[MGPU_IMAGE_WHY])
{
    PngFile f = {.bytes = bytes, .size = size, .reading = reading, .why = why};
    volatile bool good = false;
    f.file = png.open(png.version(NULL), &f, png_failed, png_warned);
    f.info = f.file ? png.open_info(f.file) : NULL;
    if (!f.info)
        mgpu_no_memory((size_t)size);
    else if (setjmp(f.back) == 0)
        good = read_png(&f, channels, p);
    if (f.file)
        png.close(&f.file, &f.info, NULL);
    return good;
}

bool mgpu_image_decode(Reading *reading, const uint8_t *bytes, int64_t size, int channels, Image *image, char why[MGPU_IMAGE_WHY])
{
    ImageKind kind = mgpu_image_kind(bytes, size);
    if (kind == IMAGE_UNKNOWN)
        return say(why, "neither a JPEG nor a PNG file", size ? "its first bytes are others" : "it is empty");
    if (!mgpu_image_library(kind, why))
        mgpu_fail(MGPU_MACHINE_FAILED, "%s", why);
    DecodedPicture p;
    if (!(kind == IMAGE_JPEG ? decode_jpeg : decode_png)(reading, bytes, size, channels, &p, why))
        return false;
    *image = (Image){(int)p.width, (int)p.height, p.channels, p.width * p.channels, p.pixels};
    return true;
}
