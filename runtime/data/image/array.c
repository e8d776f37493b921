/* array.c: pictures for `predict`: files, and those below folders in order of their names -> an array of one input's samples.
 * They pass the stages of validation: those of the set `valid`, else of `test`, without the random ones. */
#include "runtime/base/base.h"
#include "runtime/data/image/image.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static ImageStage *validating_stages(const mgpu_program *p, int *count)
{
    const mgpu_set *set = mgpu_find_set(p, "valid");
    set = set ? set : mgpu_find_set(p, "test");
    ImageStage *stages = mgpu_allocate(set ? (size_t)set->call_count : 1, sizeof *stages);
    *count = 0;
    for (int i = 1; set && i < set->call_count; i++)
        if (strcmp(set->calls[i].name, "resize") == 0 || strcmp(set->calls[i].name, "center_crop") == 0) {
            stages[*count] = mgpu_image_stage(&set->calls[i], stages, *count);
            ++*count;
        }
    return stages;
}

static void read_one(Reading *r, const ImageStage *stages, int count, const mgpu_input *in, const char *path, uint8_t *to)
{
    const mgpu_tensor *t = &in->tensor;
    char why[MGPU_IMAGE_WHY];
    Image image;
    if (!mgpu_image_read(r, path, mgpu_image_channels(in), &image, why) ||
        !mgpu_image_stages(r, &image, stages, count, 0, mgpu_image_meaning(in), &image, why))
        mgpu_fail(MGPU_BAD_INPUT, "%s: %s", path, why);
    if (image.height != t->extent[0] || image.width != t->extent[1])
        mgpu_fail(MGPU_BAD_INPUT,
                  "%s has %d x %d pixels%s, input '%s' has %lld x %lld: the data set valid says how pictures come to size, as in "
                  "images(\"dir\") |> resize(%lld) |> center_crop(%lld)",
                  path, image.width, image.height, count ? " after the stages of the model" : "", t->name,
                  (long long)t->extent[1], (long long)t->extent[0], (long long)t->extent[0], (long long)t->extent[0]);
    int64_t row = (int64_t)image.width * image.channels;
    for (int y = 0; y < image.height; y++)
        memcpy(to + y * row, image.pixels + y * image.stride, (size_t)row);
}

/* Lists all files, and those below folders. */
static char **list_files(const char *const *paths, int count, int64_t *files)
{
    char **list = NULL;
    *files = 0;
    for (int i = 0; i < count; i++) {
        struct stat status;
        bool folder = stat(paths[i], &status) == 0 && S_ISDIR(status.st_mode);
        int64_t n = 1;
        char **inside = folder ? mgpu_list_pictures(paths[i], &n) : NULL;
        list = mgpu_resize(list, (size_t)(*files + n) * sizeof *list);
        for (int64_t k = 0; k < n; k++)
            list[(*files)++] = folder ? inside[k] : mgpu_format("%s", paths[i]);
        free(inside);
    }
    return list;
}

char **mgpu_read_pictures(Array *a, const mgpu_program *p, const mgpu_input *in, const char *const *paths, int path_count)
{
    const mgpu_tensor *t = &in->tensor;
    int channels = mgpu_image_channels(in), count;
    if (t->rank < 2 || t->rank > 3 || channels == 2 || channels > 4)
        mgpu_fail(MGPU_BAD_INPUT, "%s: input '%s' takes no pictures", paths[0], t->name);
    int64_t samples;
    char **files = list_files(paths, path_count, &samples);
    ImageStage *stages = validating_stages(p, &count);
    *a = (Array){.dtype = MGPU_U8, .rank = t->rank, .samples = samples, .sample_bytes = mgpu_elements(t)};
    memcpy(a->extent, t->extent, sizeof a->extent);
    uint8_t *data = a->owned = mgpu_allocate((size_t)samples, (size_t)a->sample_bytes);
    a->data = data;
    Reading r = {0};
    for (int64_t i = 0; i < samples; i++) {
        read_one(&r, stages, count, in, files[i], data + i * a->sample_bytes);
        mgpu_reading_reset(&r);
    }
    mgpu_reading_close(&r);
    for (int i = 0; i < count; i++)
        free((char *)stages[i].name);
    free(stages);
    return files;
}
