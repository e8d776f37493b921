/* decode.c: pictures a second of processor time that one thread decodes and cuts, as the reader images(dir) does it; decode.py
 * does the same with Pillow. Usage: decode DIR [SECONDS]; DIR holds folders of pictures. Files are read once before, so none is
 * timed. */
#include "runtime/base/base.h"
#include "runtime/data/image/image.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct File {
    uint8_t *bytes;
    int64_t size;
} File;
static File *files;
static int count;

static void load(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0)
        mgpu_fail(1, "%s: %s", path, strerror(errno));
    File file = {NULL, ftell(f)};
    rewind(f);
    file.bytes = mgpu_allocate((size_t)file.size, 1);
    if (fread(file.bytes, 1, (size_t)file.size, f) != (size_t)file.size)
        mgpu_fail(1, "%s: %s", path, strerror(errno));
    fclose(f);
    if (mgpu_image_kind(file.bytes, file.size) == IMAGE_UNKNOWN) {
        free(file.bytes);
        return;
    }
    files = mgpu_resize(files, (size_t)(count + 1) * sizeof *files);
    files[count++] = file;
}

static void load_folder(const char *path)
{
    DIR *d = opendir(path);
    for (struct dirent *entry; d && (entry = readdir(d));) {
        char *inner = mgpu_format("%s/%s", path, entry->d_name);
        if (entry->d_name[0] != '.' && entry->d_type == DT_DIR)
            load_folder(inner);
        else if (entry->d_type == DT_REG)
            load(inner);
        free(inner);
    }
    if (d)
        closedir(d);
}

static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void measure(const char *name, const ImageStage *stages, int stage_count, double seconds)
{
    Reading r = {.seed = 1};
    char why[MGPU_IMAGE_WHY];
    int64_t done = 0;
    double begin = processor_seconds(), spent = 0;
    for (; spent < seconds; spent = processor_seconds() - begin)
        for (int i = 0; i < count; i++, done++) {
            Image image;
            if (!mgpu_image_decode(&r, files[i].bytes, files[i].size, 3, &image, why) ||
                !mgpu_image_stages(&r, &image, stages, stage_count, done, (ImageMeaning){false, 0}, &image, why))
                mgpu_fail(1, "%s", why);
            mgpu_reading_reset(&r);
        }
    printf("%-40s %8.1f pictures/s\n", name, (double)done / spent);
    mgpu_reading_close(&r);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        mgpu_fail(2, "usage: decode DIR [SECONDS]");
    double seconds = argc > 2 ? atof(argv[2]) : 3;
    load_folder(argv[1]);
    if (!count)
        mgpu_fail(1, "%s holds no pictures", argv[1]);
    const ImageStage whole[] = {{.kind = STAGE_RESIZE, .name = "0", .width = 256},
                                {.kind = STAGE_CENTER_CROP, .name = "1", .width = 224, .height = 224}};
    const ImageStage part[] = {{.kind = STAGE_RANDOM_RESIZED_CROP,
                                .name = "0",
                                .width = 224,
                                .height = 224,
                                .scale = {0.08, 1},
                                .ratio = {0.75, 4.0 / 3}}};
    measure("decode", NULL, 0, seconds);
    measure("decode, resize(256), center_crop(224)", whole, 2, seconds);
    measure("decode, random_resized_crop(224)", part, 1, seconds);
    return 0;
}
