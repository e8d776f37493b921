/* names.c: applies rules for names and shapes (runtime/weights/rules.h) backwards: the model's weights -> published tensors. Each
 * action is inverted: the rows of a split are joined, a concatenation is divided into equal parts, a transposed matrix is
 * transposed back, the rows of rotated heads are paired. The first rule applies whose tensors all belong to the family. */
#include "runtime/base/base.h"
#include "runtime/export/family.h"

#include <stdlib.h>
#include <string.h>

typedef struct Weight { /* a weight of the view as a tensor of a file */
    SavedTensor saved;  /* first, so that a SavedTensor can be cast to Weight */
    Names *names;
    int i;
} Weight;

/* Reads the whole weight at once, because a transposed one is requested element by element. */
static void read_weight(const SavedTensor *t, mgpu_range elements, uint8_t *to)
{
    const Weight *w = (const Weight *)t;
    Names *n = w->names;
    int64_t each = mgpu_dtype_bytes(t->tensor.dtype);
    if (n->held != w->i + 1) {
        free(n->data);
        n->data = mgpu_allocate((size_t)mgpu_tensor_bytes(&t->tensor) + 1, 1);
        n->held = w->i + 1;
        mgpu_read_exported(n->export, w->i, (mgpu_range){0, mgpu_elements(&t->tensor)}, n->data);
    }
    memcpy(to, n->data + elements.begin * each, (size_t)((elements.end - elements.begin) * each));
}

typedef struct RuleUse { /* one rule applied to one weight */
    Names *names;
    const Naming *naming;
    const Capture *captured;
    int first; /* index of the first name that it has made; the names count only if all are admitted */
} RuleUse;

static SavedTensor *weight_tensor(Names *n, int i)
{
    Weight *w = mgpu_adopt_memory(&n->owner, mgpu_allocate(1, sizeof *w));
    w->saved.tensor = *mgpu_exported_tensor(n->export, i);
    w->saved.read = read_weight;
    w->names = n;
    w->i = i;
    return &w->saved;
}

static void add_name(Names *n, char *name, SavedTensor *t, const Piece *piece, int count)
{
    Renamed r = {.name = mgpu_adopt_memory(&n->owner, name), .tensor = t, .piece_count = count};
    memcpy(r.piece, piece, (size_t)count * sizeof *piece);
    MGPU_PUSH(n->list, n->count, r);
}

/* Returns the name, with a prefix of the set if necessary, that the family has, or NULL. */
static char *admitted(const Naming *naming, const char *name)
{
    for (int i = -1; i < naming->rules->prefix_count; i++) {
        char *whole = mgpu_format("%s%s", i < 0 ? "" : naming->rules->prefixes[i], name);
        if (!naming->admits || naming->admits(naming->context, whole))
            return whole;
        free(whole);
    }
    return NULL;
}

/* Prepends axes of extent 1 up to the rank of the file's tensor. */
static SavedTensor *with_rank(TensorFile *file, SavedTensor *t, int rank)
{
    mgpu_tensor as = {.rank = rank};
    int more = rank - t->tensor.rank;
    if (!rank || more <= 0)
        return t;
    for (int k = 0; k < rank; k++)
        as.extent[k] = k < more ? 1 : t->tensor.extent[k - more];
    return mgpu_reshaped(file, t, &as);
}

static SavedTensor *transposed_back(TensorFile *file, const TensorSource *s, SavedTensor *t)
{
    int order[MGPU_MAX_RANK] = {0};
    for (int k = 0; k < s->count; k++)
        order[s->order[k]] = k;
    return mgpu_transposed(file, t, order, s->count);
}

/* Undoes a source: finds its operands from its result. Returns false if the family does not have them. */
static bool undo(const RuleUse *w, const TensorSource *s, SavedTensor *t, const Piece *piece, int count)
{
    Names *n = w->names;
    int parts = 0;
    if (!t)
        return false;
    switch (s->kind) {
    case SOURCE_NAME: {
        char *name = mgpu_filled(s->name, w->captured), *whole = admitted(w->naming, name);
        free(name);
        if (whole && mgpu_renamed(n, whole)) {
            free(whole);
            return false;
        }
        if (whole)
            add_name(n, whole, t, piece, count);
        return whole != NULL;
    }
    case SOURCE_TRANSPOSE: return undo(w, s->first, transposed_back(&n->owner, s, t), piece, count);
    case SOURCE_RESHAPE: return undo(w, s->first, with_rank(&n->owner, t, s->count), piece, count);
    case SOURCE_UNPAIR: {
        int64_t heads = w->naming->heads ? w->naming->heads(w->naming->context, s->name) : 0;
        return heads && undo(w, s->first, mgpu_paired(&n->owner, t, heads), piece, count);
    }
    case SOURCE_CHW: {
        int64_t channels = strtoll(s->name, NULL, 10), columns = t->tensor.rank ? t->tensor.extent[t->tensor.rank - 1] : 0;
        bool whole = channels > 0 && columns % channels == 0;
        return whole && undo(w, s->first, mgpu_channels_last(&n->owner, t, columns / channels), piece, count);
    }
    case SOURCE_SUM: /* the summands are unknown */
    case SOURCE_GRU: /* of Keras, whose files are not written */ return false;
    case SOURCE_SPLIT: return undo(w, s->first, t, piece, count);
    case SOURCE_CONCAT: break;
    }
    for (const TensorSource *k = s->first; k; k = k->next)
        parts++;
    int64_t rows = t->tensor.rank ? t->tensor.extent[0] : 0, part = 0;
    if (count != 1 || !parts || rows % parts)
        return false;
    for (const TensorSource *k = s->first; k; k = k->next, part += rows / parts) {
        Piece some = {piece->weight, piece->from + part, rows / parts, 0};
        if (!undo(w, k, mgpu_rows_of(&n->owner, t, part, part + rows / parts), &some, 1))
            return false;
    }
    return true;
}

static int weight_named(const Names *n, const char *name)
{
    const TensorView *v = &n->export->weights;
    for (int i = 0; i < v->count; i++)
        if (strcmp(v->name[i], name) == 0)
            return i;
    return -1;
}

/* Exports the weights of all targets of a rule, one of which has been matched. */
static bool by_rule(RuleUse *w, const TensorRule *r, const char *whole, int before, bool *named)
{
    SavedTensor *of[8];
    Piece piece[8];
    int64_t rows = 0;
    int first = w->names->count, weight[8];
    for (int k = 0; k < r->count; k++) {
        char *below = mgpu_filled(r->target[k], w->captured), *name = mgpu_format("%.*s%s", before, whole, below);
        weight[k] = weight_named(w->names, name);
        free(name);
        free(below);
        if (weight[k] < 0 || named[weight[k]])
            return false;
        of[k] = weight_tensor(w->names, weight[k]);
        int64_t its = of[k]->tensor.rank ? of[k]->tensor.extent[0] : 1;
        piece[k] = (Piece){weight[k], 0, its, rows};
        rows += its;
    }
    SavedTensor *all = r->count > 1 ? mgpu_joined(&w->names->owner, of, r->count) : of[0];
    if (!undo(w, r->source, all, piece, r->count)) {
        w->names->count = first;
        return false;
    }
    for (int k = 0; k < r->count; k++)
        named[weight[k]] = true;
    return true;
}

static bool by_rules(Names *n, const Naming *naming, const char *whole, bool *named)
{
    for (int i = -1; i < naming->rules->prefix_count; i++) {
        size_t before = i < 0 ? 0 : strlen(naming->rules->prefixes[i]);
        if (i >= 0 && strncmp(whole, naming->rules->prefixes[i], before) != 0)
            continue;
        for (const TensorRule *r = naming->rules->rules; r; r = r->next)
            for (int k = 0; k < r->count; k++) {
                Capture captured[MGPU_MOST_STARS] = {{0}};
                RuleUse w = {.names = n, .naming = naming, .captured = captured};
                if (mgpu_fits_pattern(r->target[k], whole + before, captured) && by_rule(&w, r, whole, (int)before, named))
                    return true;
            }
        char *same = naming->admits ? admitted(naming, whole + before) : NULL;
        int weight = weight_named(n, whole);
        if (same && !mgpu_renamed(n, same)) {
            SavedTensor *t = weight_tensor(n, weight);
            add_name(n, same, t, &(Piece){weight, 0, t->tensor.rank ? t->tensor.extent[0] : 1, 0}, 1);
            named[weight] = true;
            return true;
        }
        free(same);
    }
    return false;
}

void mgpu_rename_weights(Names *n, const Export *e, const Naming *naming)
{
    bool *named = mgpu_allocate((size_t)e->weights.count + 1, sizeof *named);
    n->export = e;
    for (int i = 0; i < e->weights.count && !n->left; i++)
        if (!named[i] && !by_rules(n, naming, e->weights.name[i], named))
            n->left = e->weights.name[i];
    free(named);
}

const Renamed *mgpu_renamed(const Names *n, const char *name)
{
    for (int i = 0; i < n->count; i++)
        if (strcmp(n->list[i].name, name) == 0)
            return &n->list[i];
    return NULL;
}

void mgpu_close_names(Names *n)
{
    free(n->list);
    free(n->data);
    mgpu_close_tensors(&n->owner);
    *n = (Names){0};
}
