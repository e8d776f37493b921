/* picture.c: writes preprocessor_config.json: what transformers does to a picture before the first convolution. In: the program's
 * outline from its input of bytes to that convolution, in which each step adds a number to each channel or multiplies it. Out:
 * the size, and for each channel the mean and deviation of values from 0 to 1. */
#include "runtime/base/base.h"
#include "runtime/export/family.h"
#include "runtime/export/outline.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_CHANNELS = 16 };
typedef struct PictureScaling { /* the convolution reads factor[k] v + term[k] for byte v of channel k */
    const mgpu_program *program;
    int channels;
    double factor[MOST_CHANNELS], term[MOST_CHANNELS];
} PictureScaling;

/* Returns the row that is read as a whole, or NULL. */
static const mgpu_call *argument(const PictureScaling *p, const mgpu_call *row, const char *name)
{
    RowView v = view_of(row, name);
    return v.row >= 0 && v.first == 0 ? &p->program->outline[v.row] : NULL;
}

/* Returns false if the constant is neither one number nor one for each channel. */
static bool apply(PictureScaling *p, const char *operation, const mgpu_option *value)
{
    if (!value || (value->count != 1 && value->count != p->channels))
        return false;
    for (int k = 0; k < p->channels; k++) {
        double v = value->items[value->count == 1 ? 0 : k].number;
        double factor = strcmp(operation, "mul") == 0 ? v : strcmp(operation, "div") == 0 ? 1 / v : 1;
        double term = strcmp(operation, "add") == 0 ? v : strcmp(operation, "sub") == 0 ? -v : 0;
        p->term[k] = p->term[k] * factor + term;
        p->factor[k] *= factor;
    }
    return true;
}

/* Returns false if the row is more than a scale and a term for each channel of its input. */
static bool follow(PictureScaling *p, const mgpu_call *row)
{
    static const char *const OPERATION[] = {"add", "sub", "mul", "div"};
    if (is(row, "input"))
        return true;
    bool known = false;
    for (int i = 0; i < MGPU_COUNT(OPERATION); i++)
        known = known || is(row, OPERATION[i]);
    const mgpu_call *a = known ? argument(p, row, "a*") : NULL, *b = known ? argument(p, row, "b*") : NULL;
    return a && b && is(b, "constant") && follow(p, a) && apply(p, row->name, option_of(b, "value"));
}

static bool reads_bytes(const PictureScaling *p, const mgpu_call *row)
{
    while (row && !is(row, "input"))
        row = argument(p, row, "a*");
    for (int i = 0; row && i < p->program->input_count; i++)
        if (strcmp(p->program->inputs[i].tensor.name, text_of(row, "path")) == 0)
            return p->program->inputs[i].tensor.dtype == MGPU_U8;
    return false;
}

static void write_list(FILE *f, const char *key, const double *values, int count)
{
    fprintf(f, ",\n  \"%s\": [", key);
    for (int k = 0; k < count; k++)
        fprintf(f, "%s%.12g", k ? ", " : "", values[k]);
    fputs("]", f);
}

void mgpu_write_image_processor(const Published *published, const char *folder)
{
    const Computed *c = &published->computed;
    PictureScaling p = {.program = published->export->program, .channels = (int)mgpu_family_fact(c, "channels")->number};
    double mean[MOST_CHANNELS], deviation[MOST_CHANNELS];
    bool few = p.channels <= MOST_CHANNELS;
    const mgpu_call *row = &p.program->outline[c->image];
    for (int k = 0; k < p.channels && few; k++)
        p.factor[k] = 1;
    if (!few || !reads_bytes(&p, row) || !follow(&p, row)) {
        mgpu_print(
            "%s: no preprocessor_config.json: what the first convolution reads is not made of bytes by a mean and a deviation of "
            "each channel\n",
            folder);
        return;
    }
    for (int k = 0; k < p.channels; k++) {
        deviation[k] = 1 / (255 * p.factor[k]);
        mean[k] = -p.term[k] * deviation[k];
    }
    char *path = mgpu_format("%s/preprocessor_config.json", folder);
    WholeFile file = mgpu_begin_export(path);
    fprintf(file.f,
            "{\n  \"image_processor_type\": \"ViTImageProcessor\",\n  \"do_resize\": true,\n  \"size\": {\"height\": %.0f, "
            "\"width\": %.0f},\n  \"resample\": 2,\n  \"do_rescale\": true,\n  \"rescale_factor\": %.17g,\n  "
            "\"do_normalize\": true",
            mgpu_family_fact(c, "height")->number, mgpu_family_fact(c, "wide")->number, 1.0 / 255);
    write_list(file.f, "image_mean", mean, p.channels);
    write_list(file.f, "image_std", deviation, p.channels);
    fputs("\n}\n", file.f);
    mgpu_end_export(&file, path, "what a picture becomes before the model");
    free(path);
}
