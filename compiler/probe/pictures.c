/* pictures.c: measure how many pictures a core decodes per second with the runtime's own decoder and resizer.
 *
 * The picture is made here. It has 500 x 375 points and as many coded bytes as the mean picture of ImageNet (110 kB), since
 * decoding time depends on the bytes. What is timed is what a reader with random_resized_crop(224) does: it decodes, takes 54 %
 * of the area (the mean of what it draws), and resizes that to 224 x 224. */
#include "compiler/probe/probe.h"
#include "runtime/data/image/image.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WIDTH = 500, HEIGHT = 375, CROP = 224, QUALITY = 90, NOISE = 40 };
enum { TJ_RGB = 0, TJ_420 = 2 };

/* Paints waves with noise over them: "x * 1103515245 + 12345", so that the picture is the same everywhere. */
static uint8_t *paint(void)
{
    uint8_t *pixels = NEW_ARRAY(uint8_t, WIDTH * HEIGHT * 3);
    uint32_t noise = 1;
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            for (int c = 0; c < 3; c++) {
                noise = noise * 1103515245u + 12345u;
                int wave = (x * (c + 2) + y * 3) % 256;
                pixels[(y * WIDTH + x) * 3 + c] = (uint8_t)((wave < 128 ? wave : 255 - wave) + (int)(noise >> 16) % NOISE);
            }
    return pixels;
}

Picture probe_picture(void)
{
    const char *name = getenv("MGPU_TURBOJPEG");
    void *library = dlopen(name && *name ? name : "libturbojpeg.so.0", RTLD_NOW | RTLD_LOCAL);
    void *(*open)(void);
    int (*compress)(void *, const unsigned char *, int width, int pitch, int height, int format, unsigned char **,
                    unsigned long *, int sampling, int quality, int flags);
    Picture made = {0};
    void *entries[2] = {library ? dlsym(library, "tjInitCompress") : NULL, library ? dlsym(library, "tjCompress2") : NULL};
    if (!entries[0] || !entries[1])
        return made;
    memcpy(&open, &entries[0], sizeof open);
    memcpy(&compress, &entries[1], sizeof compress);
    void *handle = open();
    unsigned char *bytes = NULL; /* belongs to the library until mgpuc ends */
    if (handle && compress(handle, paint(), WIDTH, 0, HEIGHT, TJ_RGB, &bytes, &made.length, TJ_420, QUALITY, 0) == 0)
        made.bytes = bytes;
    else
        made.length = 0;
    return made;
}

static double thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double pictures_per_second(const Picture *p, int times)
{
    static const double KEPT = .735; /* of each side */
    Reading room = {0};
    char why[MGPU_IMAGE_WHY];
    bool good = p->length > 0;
    double begin = thread_seconds();
    for (int k = 0; k < times && good; k++) {
        Image whole, small;
        good = mgpu_image_decode(&room, p->bytes, (int64_t)p->length, 3, &whole, why);
        if (good) {
            Image part = whole;
            part.width = (int)(KEPT * whole.width);
            part.height = (int)(KEPT * whole.height);
            mgpu_image_resize(&room, &part, CROP, CROP, (ImageWindow){0, 0, CROP, CROP}, false, &small);
        }
        mgpu_reading_reset(&room);
    }
    double took = thread_seconds() - begin;
    mgpu_reading_close(&room);
    return good && took > 0 ? times / took : 0;
}
