/* match.c: which tensor of a file is which of the model's: by name, of all that is wanted in one way.
 *
 * A part of the model is some of its variables. The name of each, backbone.block_1.conv_1.weight, has a place where what is
 * below the part begins: block_1.conv_1.weight. The file may have the whole name, or leave out any number of the components
 * before that place, the same number for all of the part. Where that finds nothing, a prefix that all names of the
 * file have (torch's "module.") may be left out of them. The first way that finds all tensors is taken, the longest names
 * first; else that which finds most, for the message. */
#include "runtime/base/base.h"
#include "runtime/weights/weights.h"

#include <stdlib.h>
#include <string.h>

/* the name with `kept` of the components before `below` */
static const char *name_with(const char *whole, int below, int kept)
{
    const char *at = whole + below;
    for (; kept && at > whole; kept--)
        for (at--; at > whole && at[-1] != '.';)
            at--;
    return at;
}

static int depth_of(const char *whole, int below)
{
    int depth = 0;
    for (int i = 0; i < below; i++)
        depth += whole[i] == '.';
    return depth;
}

/* how many characters the components have that all names of the file begin with */
static int common_prefix(const TensorFile *file)
{
    if (!file->count)
        return 0;
    const char *first = file->tensors[0].tensor.name, *last = file->tensors[file->count - 1].tensor.name; /* in order */
    int length = 0;
    for (int i = 0; first[i] && first[i] == last[i]; i++)
        if (first[i] == '.')
            length = i + 1;
    return length;
}

static int find_all(const TensorFile *file, const char *prefix, const TensorView *v, int kept, SavedTensor **found)
{
    int count = 0;
    for (int i = 0; i < v->count; i++) {
        char *name = mgpu_format("%s%s", prefix, name_with(v->name[i], v->below[i], kept));
        found[i] = mgpu_find_tensor(file, name);
        count += found[i] != NULL;
        free(name);
    }
    return count;
}

void mgpu_match(Match *m, const TensorFile *file, const TensorView *v)
{
    int most = 0, prefix = common_prefix(file), kept_best = 0, prefix_best = 0;
    for (int i = 0; i < v->count; i++) {
        int depth = depth_of(v->name[i], v->below[i]);
        most = depth > most ? depth : most;
    }
    *m = (Match){.tensor = mgpu_allocate((size_t)v->count, sizeof *m->tensor),
                 .name = mgpu_allocate((size_t)v->count, sizeof *m->name),
                 .found = -1};
    for (int length = 0; m->found < v->count; length = prefix) {
        char *text = mgpu_format("%.*s", length, length ? file->tensors[0].tensor.name : "");
        for (int kept = most; kept >= 0 && m->found < v->count; kept--) {
            int found = find_all(file, text, v, kept, m->tensor);
            if (found > m->found)
                m->found = found, kept_best = kept, prefix_best = length;
        }
        free(text);
        if (length == prefix)
            break;
    }
    char *text = mgpu_format("%.*s", prefix_best, prefix_best ? file->tensors[0].tensor.name : "");
    m->found = find_all(file, text, v, kept_best, m->tensor);
    for (int i = 0; i < v->count; i++) {
        m->name[i] = mgpu_format("%s%s", text, name_with(v->name[i], v->below[i], kept_best));
        if (m->tensor[i])
            file->used[m->tensor[i] - file->tensors] = true;
    }
    free(text);
}

void mgpu_close_match(Match *m, const TensorView *v)
{
    for (int i = 0; i < v->count; i++)
        free(m->name[i]);
    free(m->name);
    free(m->tensor);
    *m = (Match){0};
}
