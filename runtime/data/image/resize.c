/* resize.c: pixels -> pixels of another size, as Pillow's Image.resize(..., BILINEAR) and torchvision's Resize of its images:
 * antialiased, with the same bits as Pillow up to 12.3. Pillow 13 resizes along y first if the height shrinks and loses more than
 * twice as many pixels as the width does. Bytes are rounded between the two, so values may differ by one there; otherwise they
 * are equal (compared on random pictures).
 *
 * Along one axis, from `in` to `out` pixels, with s = in / out and r = max(s, 1): output x has its centre at c = (x + 1/2) s;
 * input i in [c - r, c + r] has the weight max(0, 1 - |i + 1/2 - c| / r), and weights are divided by their sum. They are rounded
 * to 22 bits of fraction. The first pass is along x, rounded to bytes, the second along y. An axis that keeps its size is not
 * resized. Numbers of classes are taken from the input whose pixel contains the output's centre. Colours with alpha are
 * multiplied by it before and divided by it after, rounded to bytes: transparent pixels have no colour. */
#include "runtime/data/image/image.h"

#include <math.h>
#include <string.h>

enum { FRACTION = 22 };

/* For outputs [begin, begin + count): weight[output room + k] is that of input first[output] + k, k < taps[output]. */
typedef struct Weights {
    int capacity;
    int *first, *taps;
    int32_t *weight;
} Weights;

static Weights weights_of(Reading *reading, int in, int out, int begin, int count)
{
    double scale = (double)in / out, radius = scale < 1 ? 1 : scale;
    Weights w = {.capacity = (int)ceil(radius) * 2 + 1};
    w.first = mgpu_reading_allocate(reading, count * (int64_t)sizeof *w.first);
    w.taps = mgpu_reading_allocate(reading, count * (int64_t)sizeof *w.taps);
    w.weight = mgpu_reading_allocate(reading, (int64_t)count * w.capacity * (int64_t)sizeof *w.weight);
    double *exact = mgpu_reading_allocate(reading, w.capacity * (int64_t)sizeof *exact);
    for (int i = 0; i < count; i++) {
        double centre = (begin + i + 0.5) * scale, sum = 0;
        int low = (int)(centre - radius + 0.5), high = (int)(centre + radius + 0.5);
        low = low < 0 ? 0 : low;
        high = high > in ? in : high;
        for (int k = 0; k < high - low; k++) {
            double distance = fabs((k + low - centre + 0.5) * (1 / radius));
            exact[k] = distance < 1 ? 1 - distance : 0;
            sum += exact[k];
        }
        for (int k = 0; k < high - low; k++)
            w.weight[(int64_t)i * w.capacity + k] = (int32_t)(0.5 + (sum != 0 ? exact[k] / sum : exact[k]) * (1 << FRACTION));
        w.first[i] = low;
        w.taps[i] = high - low;
    }
    return w;
}

static int64_t bytes_for(const Image *to) { return to->stride * to->height; }

static void pick_nearest(const Image *from, int width, int height, ImageWindow window, uint8_t *to)
{
    for (int y = 0; y < window.height; y++) {
        const uint8_t *row =
            from->pixels + (2 * (int64_t)(window.y + y) + 1) * from->height / (2 * (int64_t)height) * from->stride;
        for (int x = 0; x < window.width; x++, to += from->channels)
            memcpy(to, row + (2 * (int64_t)(window.x + x) + 1) * from->width / (2 * (int64_t)width) * from->channels,
                   (size_t)from->channels);
    }
}

/* Returns columns [x, x + width) of rows [y, y + height) of `from` resized to `full` columns. */
static Image along_x(Reading *reading, const Image *from, int full, int x, int width, int y, int height)
{
    const ImageSums *sums = mgpu_image_sums_choice(0);
    Image to = {width, height, from->channels, (int64_t)width * from->channels, NULL};
    Weights w = weights_of(reading, from->width, full, x, width);
    uint8_t *pixels = mgpu_reading_allocate(reading, bytes_for(&to));
    for (int row = 0; row < height; row++)
        sums->pixels(from->pixels + (y + row) * from->stride, from->channels, w.weight, w.capacity, w.first, w.taps, width,
                     pixels + row * to.stride);
    to.pixels = pixels;
    return to;
}

/* Multiplies the colours of a [height, width, 4] picture by alpha / 255, rounded. */
static Image multiply_alpha(Reading *reading, const Image *from)
{
    Image to = {from->width, from->height, 4, (int64_t)from->width * 4, NULL};
    uint8_t *at = mgpu_reading_allocate(reading, bytes_for(&to));
    to.pixels = at;
    for (int y = 0; y < from->height; y++) {
        const uint8_t *pixel = from->pixels + y * from->stride;
        for (int x = 0; x < from->width; x++, pixel += 4, at += 4) {
            for (int c = 0; c < 3; c++) {
                int product = pixel[c] * pixel[3] + 128;
                at[c] = (uint8_t)((product + (product >> 8)) >> 8);
            }
            at[3] = pixel[3];
        }
    }
    return to;
}

static void divide_alpha(uint8_t *pixel, int64_t count)
{
    for (; count; count--, pixel += 4)
        for (int c = 0; c < 3 && pixel[3]; c++) {
            int colour = 255 * pixel[c] / pixel[3];
            pixel[c] = (uint8_t)(colour < 255 ? colour : 255);
        }
}

void mgpu_image_resize(Reading *reading, const Image *from, int width, int height, ImageWindow window, bool nearest, Image *to)
{
    const ImageSums *sums = mgpu_image_sums_choice(0);
    *to = (Image){window.width, window.height, from->channels, (int64_t)window.width * from->channels, NULL};
    uint8_t *pixels = mgpu_reading_allocate(reading, bytes_for(to));
    to->pixels = pixels;
    if (nearest) {
        pick_nearest(from, width, height, window, pixels);
        return;
    }
    Image multiplied;
    if (from->channels == 4) {
        multiplied = multiply_alpha(reading, from);
        from = &multiplied;
    }
    int first = window.y, rows = window.height; /* the rows of `from` that the result needs */
    Weights w = {0};
    if (height != from->height) {
        w = weights_of(reading, from->height, height, window.y, window.height);
        first = w.first[0];
        rows = w.first[window.height - 1] + w.taps[window.height - 1] - first;
    }
    Image wide = {window.width, rows, from->channels, from->stride,
                  from->pixels + first * from->stride + (int64_t)window.x * from->channels};
    if (width != from->width)
        wide = along_x(reading, from, width, window.x, window.width, first, rows);
    for (int y = 0; y < window.height; y++) {
        uint8_t *row = pixels + y * to->stride;
        if (height != from->height)
            sums->rows(wide.pixels + (w.first[y] - first) * wide.stride, wide.stride, w.weight + (int64_t)y * w.capacity,
                       w.taps[y], to->stride, row);
        else
            memcpy(row, wide.pixels + y * wide.stride, (size_t)to->stride);
    }
    if (to->channels == 4)
        divide_alpha(pixels, (int64_t)to->width * to->height);
}
