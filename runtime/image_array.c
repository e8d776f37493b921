/* image_array.c: pictures for `predict`: a file, or the pictures in a folder in order of their names -> an array of one
 * input's samples. They go through the stages with which the model is validated: those of the set `valid`, else of `test`,
 * without the random ones. */
#include "runtime/image.h"

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

void mgpu_read_pictures(Array *a, const mgpu_program *p, const mgpu_input *in, const char *path)
{
    const mgpu_tensor *t = &in->tensor;
    int channels = mgpu_image_channels(in), count;
    if (t->rank < 2 || t->rank > 3 || channels == 2 || channels > 4)
        mgpu_fail(MGPU_BAD_INPUT, "%s: input '%s' takes no pictures", path, t->name);
    struct stat status;
    char **paths, *one = (char *)path;
    int64_t samples = 1;
    bool folder = stat(path, &status) == 0 && S_ISDIR(status.st_mode);
    paths = folder ? mgpu_list_pictures(path, &samples) : &one;
    ImageStage *stages = validating_stages(p, &count);
    *a = (Array){.dtype = MGPU_U8, .rank = t->rank, .samples = samples, .sample_bytes = mgpu_elements(t)};
    memcpy(a->extent, t->extent, sizeof a->extent);
    uint8_t *data = a->owned = mgpu_allocate((size_t)samples, (size_t)a->sample_bytes);
    a->data = data;
    Reading r = {0};
    for (int64_t i = 0; i < samples; i++) {
        read_one(&r, stages, count, in, paths[i], data + i * a->sample_bytes);
        mgpu_reading_reset(&r);
        if (folder)
            free(paths[i]);
    }
    mgpu_reading_close(&r);
    for (int i = 0; i < count; i++)
        free((char *)stages[i].name);
    free(stages);
    if (folder)
        free(paths);
}
