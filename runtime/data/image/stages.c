/* stages.c: the stages of a pipeline for one picture, with the rules of torchvision's transforms.
 *
 * resize(n)            the shorter side becomes n, the other floor(n long / short) center_crop(n)       from round((height - n) /
 * 2), halves to even; a smaller picture gets borders of 0 random_crop(n)       every position is equally likely
 * random_resized_crop  up to ten tries: area a = u0 in `scale` of the picture's, aspect r = exp(u1 in log `ratio`), width
 *                      round(sqrt(a r)), height round(sqrt(a / r)); the first that fits is cropped at a random position and
 *                      resized; else the largest central one with a valid aspect (Szegedy et al. 2014)
 *
 * A crop is only a window until a stage or the end needs pixels, so that of a resized picture only what remains is computed. The
 * d-th random number of try t has number 4 t + d. */
#include "runtime/data/image/image.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* `from` resized to width x height, and cropped to `window`. */
typedef struct ResizedWindow {
    Image from;
    int width, height;
    ImageWindow window;
} ResizedWindow;

static ResizedWindow whole(Image image)
{
    return (ResizedWindow){image, image.width, image.height, {0, 0, image.width, image.height}};
}

static Image pixels_of(Reading *reading, const ResizedWindow *v, ImageMeaning meaning)
{
    Image to = v->from;
    if (v->width == v->from.width && v->height == v->from.height) {
        to.pixels += v->window.y * to.stride + (int64_t)v->window.x * to.channels;
        to.width = v->window.width;
        to.height = v->window.height;
        return to;
    }
    mgpu_image_resize(reading, &v->from, v->width, v->height, v->window, meaning.labels, &to);
    return to;
}

static void resize(Reading *reading, ResizedWindow *v, int width, int height, ImageMeaning meaning)
{
    *v = whole(pixels_of(reading, v, meaning));
    v->width = width;
    v->height = height;
    v->window = (ImageWindow){0, 0, width, height};
}

static void crop(ResizedWindow *v, int x, int y, int width, int height)
{
    v->window = (ImageWindow){v->window.x + x, v->window.y + y, width, height};
}

static int middle(int capacity, int size)
{
    int rest = capacity - size, half = rest / 2;
    return rest % 2 && half % 2 ? half + 1 : half; /* rounds a half to even */
}

ImageMeaning mgpu_image_meaning(const mgpu_input *in)
{
    bool fits = in && in->ignore >= 0 && in->ignore <= UINT8_MAX;
    return (ImageMeaning){in && in->classes, fits ? (int)in->ignore : -1};
}

static bool add_border(Reading *reading, ResizedWindow *v, int width, int height, ImageMeaning meaning, char why[MGPU_IMAGE_WHY])
{
    Image inner = pixels_of(reading, v, meaning);
    Image to = inner;
    to.width = width > inner.width ? width : inner.width;
    to.height = height > inner.height ? height : inner.height;
    to.stride = (int64_t)to.width * to.channels;
    int fill = meaning.labels ? meaning.fill : 0;
    if (fill < 0) {
        snprintf(
            why, MGPU_IMAGE_WHY,
            "%d x %d is smaller than the crop of %d x %d, and its class has no 'ignore' from 0 to 255 to fill the border with",
            inner.width, inner.height, width, height);
        return false;
    }
    uint8_t *pixels = mgpu_reading_allocate(reading, to.stride * to.height);
    memset(pixels, fill, (size_t)(to.stride * to.height));
    int64_t at = (to.height - inner.height) / 2 * to.stride + (int64_t)((to.width - inner.width) / 2) * to.channels;
    for (int y = 0; y < inner.height; y++)
        memcpy(pixels + at + y * to.stride, inner.pixels + y * inner.stride, (size_t)inner.width * (size_t)inner.channels);
    to.pixels = pixels;
    *v = whole(to);
    return true;
}

/* Returns an integer in [0, count). */
static int place(double uniform, int count) { return (int)(uniform * count); }

static void random_window(const Reading *reading, const ImageStage *s, int64_t sample, const ResizedWindow *v, ImageWindow *w)
{
    enum { TRIES = 10 };
    int width = v->window.width, height = v->window.height;
    uint64_t key = mgpu_stage_key(reading, s->name);
    for (int t = 0; t < TRIES; t++) {
        double part = s->scale[0] + (s->scale[1] - s->scale[0]) * mgpu_stage_random(reading, key, sample, 4 * t);
        double low = log(s->ratio[0]), high = log(s->ratio[1]);
        double ratio = exp(low + (high - low) * mgpu_stage_random(reading, key, sample, 4 * t + 1));
        double area = (double)width * height * part;
        w->width = (int)nearbyint(sqrt(area * ratio));
        w->height = (int)nearbyint(sqrt(area / ratio));
        if (w->width < 1 || w->width > width || w->height < 1 || w->height > height)
            continue;
        w->y = place(mgpu_stage_random(reading, key, sample, 4 * t + 2), height - w->height + 1);
        w->x = place(mgpu_stage_random(reading, key, sample, 4 * t + 3), width - w->width + 1);
        return;
    }
    double ratio = (double)width / height;
    w->width = width;
    w->height = height;
    if (ratio < s->ratio[0])
        w->height = (int)nearbyint(width / s->ratio[0]);
    else if (ratio > s->ratio[1])
        w->width = (int)nearbyint(height * s->ratio[1]);
    w->width = w->width < 1 ? 1 : w->width;
    w->height = w->height < 1 ? 1 : w->height;
    w->y = (height - w->height) / 2;
    w->x = (width - w->width) / 2;
}

static bool do_stage(Reading *reading, const ImageStage *s, int64_t sample, ImageMeaning meaning, ResizedWindow *v,
                     char why[MGPU_IMAGE_WHY])
{
    int width = v->window.width, height = v->window.height;
    ImageWindow w;
    switch (s->kind) {
    case STAGE_RESIZE: {
        int64_t n = s->width, target_width = n, target_height = s->height;
        if (!s->height) {
            target_width = width <= height ? n : n * width / height;
            target_height = width <= height ? n * height / width : n;
        }
        if (target_width > 1 << 20 || target_height > 1 << 20) {
            snprintf(why, MGPU_IMAGE_WHY, "resized, its %d x %d pixels would be %lld x %lld, more than 2^20 on a side", width,
                     height, (long long)target_width, (long long)target_height);
            return false;
        }
        resize(reading, v, (int)target_width, (int)target_height, meaning);
        return true;
    }
    case STAGE_CENTER_CROP:
        if ((width < s->width || height < s->height) && !add_border(reading, v, s->width, s->height, meaning, why))
            return false;
        crop(v, middle(v->window.width, s->width), middle(v->window.height, s->height), s->width, s->height);
        return true;
    case STAGE_RANDOM_CROP: {
        if (width < s->width || height < s->height) {
            snprintf(why, MGPU_IMAGE_WHY, "%d x %d is smaller than the crop of %d x %d: put resize(%d) before it", width, height,
                     s->width, s->height, s->width > s->height ? s->width : s->height);
            return false;
        }
        uint64_t key = mgpu_stage_key(reading, s->name);
        int y = place(mgpu_stage_random(reading, key, sample, 0), height - s->height + 1);
        int x = place(mgpu_stage_random(reading, key, sample, 1), width - s->width + 1);
        crop(v, x, y, s->width, s->height);
        return true;
    }
    case STAGE_RANDOM_RESIZED_CROP:
        random_window(reading, s, sample, v, &w);
        crop(v, w.x, w.y, w.width, w.height);
        resize(reading, v, s->width, s->height, meaning);
        return true;
    }
    return false;
}

bool mgpu_image_stages(Reading *reading, const Image *from, const ImageStage *stages, int count, int64_t sample,
                       ImageMeaning meaning, Image *to, char why[MGPU_IMAGE_WHY])
{
    ResizedWindow v = whole(*from);
    for (int i = 0; i < count; i++)
        if (!do_stage(reading, &stages[i], sample, meaning, &v, why))
            return false;
    *to = pixels_of(reading, &v, meaning);
    return true;
}
