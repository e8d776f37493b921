/* computes.c: compares what a model computes in evaluation with the published code of a family. In: the program's outline
 * (mgpu.h), the family's lines, and the names of its weights. Each line binds the first row of the outline that matches it. The
 * facts that it names ($eps) are taken from the layers' arguments and must be the same in all layers. Out: the facts, or the
 * first line that no row matches.
 *
 *     embed(T, ids)                 rows of the tensor T, selected by whole numbers
 *     table(T)                      the tensor T, or its first rows
 *     linear(x, T) plain(x, T)      x T.weight' + T.bias; without a bias. linear(x, T, 2/3): the second third of its outputs
 *     unembed(x, T, TIED)           plain(x, T) if there is a T.weight, else x TIED'
 *     layernorm(x, T, $eps) rmsnorm(x, T, $eps)
 *     attention(q, k, v, HOW)       causal, full, or padding: none attends to positions whose number in `ids` is $padding
 *     rope(x) act(x) add(x, y) mul(x, y) concat(x, y) first(x)
 *     image                         what the first convolution reads
 *     patches(x, T, SIZE) depthwise(x, T, SIZE) conv(x, T, SIZE, STRIDE)
 *                                   convolutions: with stride SIZE, of each channel, without a bias; STRIDE `stage`: 2
 *                                   in the first block of each stage but the first, else 1
 *     batchnorm(x, T) maxpool(x) mean(x)
 *     quadruple(x, T)               x, whose channels are four times the rows of T.weight
 *     enter(T, x, y)                x in the first block of a stage if there is a T.weight, else y */
#include "runtime/base/base.h"
#include "runtime/data/data.h"
#include "runtime/export/family.h"
#include "runtime/export/outline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct BoundName {
    const char *name;
    int row;
} BoundName;
typedef struct Comparison {
    const mgpu_program *program;
    const Family *family;
    const Names *names;
    const FamilyLine *line;
    Block block;
    RowView *whole; /* for each row: the largest view that others read of it; rank 0 if none does */
    BoundName bound[32];
    int bound_count;
    Computed *out;
    char differs[160]; /* the fact that differs from an earlier layer's; "" if none does */
    bool any_activation;
} Comparison;

/* ---- rows */
static const mgpu_call *row_at(const Comparison *c, int row) { return &c->program->outline[row]; }

/* ---- facts */
void mgpu_add_fact(Computed *out, const char *name, const char *text, double number)
{
    if (out->fact_count < MGPU_COUNT(out->fact)) /* more than any family has */
        out->fact[out->fact_count++] = (FamilyFact){name, text, number};
}

static bool add_fact(Comparison *c, const char *name, const char *text, double number)
{
    Computed *out = c->out;
    for (int i = 0; i < out->fact_count; i++) {
        FamilyFact *f = &out->fact[i];
        if (strcmp(f->name, name) != 0)
            continue;
        if (text ? f->text && strcmp(f->text, text) == 0 : !f->text && f->number == number)
            return true;
        if (text)
            snprintf(c->differs, sizeof c->differs, "$%s is '%s' here and was '%s' before", name, text, f->text ? f->text : "");
        else
            snprintf(c->differs, sizeof c->differs, "$%s is %g here and was %g before", name, number, f->number);
        return false;
    }
    mgpu_add_fact(out, name, text, number);
    return true;
}

const FamilyFact *mgpu_family_fact(const Computed *computed, const char *name)
{
    for (int i = 0; i < computed->fact_count; i++)
        if (strcmp(computed->fact[i].name, name) == 0)
            return &computed->fact[i];
    return NULL;
}

static int *bound(Comparison *c, const char *name)
{
    for (int i = 0; i < c->bound_count; i++)
        if (strcmp(c->bound[i].name, name) == 0)
            return &c->bound[i].row;
    return NULL;
}

static bool bind(Comparison *c, const char *name, int row)
{
    int *at = bound(c, name);
    if (!at && c->bound_count == MGPU_COUNT(c->bound))
        return false;
    if (!at)
        c->bound[c->bound_count++] = (BoundName){name, row};
    else
        *at = row;
    return true;
}

/* ---- weights */
static const Renamed *tensor_of(const Comparison *c, const char *word, const char *end)
{
    char *base = mgpu_in_block(word, c->line->each, c->block), *name = mgpu_format("%s%s", base, end);
    const Renamed *t = mgpu_renamed(c->names, name);
    free(base);
    free(name);
    return t;
}

/* True if rows [first, first + count) of the variable `name` are rows [begin, begin + count) of the exported tensor. */
static bool holds(const Comparison *c, const Renamed *t, const char *name, int64_t first, int64_t begin, int64_t count)
{
    for (int i = 0; t && i < t->piece_count; i++) {
        const Piece *p = &t->piece[i];
        bool within = first >= p->from && first + count <= p->from + p->rows;
        if (strcmp(c->names->export->weights.name[p->weight], name) == 0 && within && p->at + first - p->from == begin)
            return true;
    }
    return false;
}

static int64_t rows_of(const Renamed *t)
{
    int64_t rows = 0;
    for (int i = 0; i < t->piece_count; i++)
        rows += t->piece[i].rows;
    return rows;
}

/* True if the row is a variable, or a layer with a variable `below`, and that is the exported tensor. */
static bool has_weight(const Comparison *c, const mgpu_call *row, const char *below, const Renamed *t, int64_t first,
                       int64_t begin, int64_t count)
{
    const char *path = text_of(row, "path");
    char *name = *below && *path ? mgpu_format("%s.%s", path, below) : mgpu_format("%s%s", path, below);
    bool found = holds(c, t, name, first, begin, count);
    free(name);
    return found;
}

static bool is_table(const Comparison *c, const RowView *v, const Renamed *t)
{
    return v->row >= 0 && v->first == 0 && t && is(row_at(c, v->row), "variable") &&
           has_weight(c, row_at(c, v->row), "", t, 0, 0, rows_of(t));
}

/* ---- terms */
static bool fits(Comparison *c, const Term *, RowView);

static bool argument(Comparison *c, const Term *t, const mgpu_call *row, const char *name)
{
    RowView v = view_of(row, name);
    return v.row >= 0 && fits(c, t, v);
}

static bool fits_in_any_order(Comparison *c, const Term *t, const mgpu_call *row)
{
    Computed before = *c->out;
    int bound_before = c->bound_count;
    if (argument(c, t->args[0], row, "a*") && argument(c, t->args[1], row, "b*"))
        return true;
    *c->out = before;
    c->bound_count = bound_before;
    return argument(c, t->args[0], row, "b*") && argument(c, t->args[1], row, "a*");
}

/* True for an input of whole numbers. The first one is bound to the name. */
static bool is_index(Comparison *c, const char *name, const RowView *v)
{
    int *row = bound(c, name);
    if (!is(row_at(c, v->row), "input"))
        return false;
    if (!row && v->rank)
        add_fact(c, "length", NULL, (double)v->extent[0]);
    return row ? *row == v->row : bind(c, name, v->row);
}

static bool fits_embed(Comparison *c, const Term *t, const mgpu_call *row)
{
    if (!is(row, "gather") && !is(row, "embedding"))
        return false;
    const Renamed *table = tensor_of(c, t->args[0]->word, "");
    RowView from = view_of(row, "a*"), index = view_of(row, is(row, "embedding") ? "i*" : "b*");
    bool found =
        is(row, "gather") ? is_table(c, &from, table) : table && has_weight(c, row, "weight", table, 0, 0, rows_of(table));
    return found && index.row >= 0 && index.first == 0 && is_index(c, t->args[1]->word, &index);
}

/* Finds the outputs that the term names: all, or the k-th of n equal parts. */
static void part_of(const Term *t, const Renamed *weight, int64_t *begin, int64_t *count)
{
    int k = 1, n = 1;
    if (t->count > 2)
        (void)sscanf(t->args[2]->word, "%d/%d", &k, &n);
    *count = rows_of(weight) / n;
    *begin = (k - 1) * *count;
}

static bool fits_linear(Comparison *c, const Term *t, RowView v, bool biased)
{
    const mgpu_call *row = row_at(c, v.row);
    if (!is(row, "dense") && !is(row, "einsum"))
        return false;
    const Renamed *weight = tensor_of(c, t->args[1]->word, ".weight"), *bias = tensor_of(c, t->args[1]->word, ".bias");
    if (!weight || biased != (bias != NULL))
        return false;
    int64_t begin, count;
    part_of(t, weight, &begin, &count);
    if (features(&v, t->count == 2) != count && features(&v, false) != count)
        return false;
    if (is(row, "einsum")) {
        RowView w = view_of(row, "b*");
        bool product = strcmp(text_of(row, "axes"), "mk,nk->mn") == 0;
        return product && !biased && count == rows_of(weight) && v.first == 0 && is_table(c, &w, weight) &&
               argument(c, t->args[0], row, "a*");
    }
    return (number_of(row, "bias") == 1) == biased && has_weight(c, row, "weight", weight, v.first, begin, count) &&
           (!biased || has_weight(c, row, "bias", bias, v.first, begin, count)) && argument(c, t->args[0], row, "x*");
}

static bool fits_unembed(Comparison *c, const Term *t, RowView v)
{
    if (tensor_of(c, t->args[1]->word, ".weight"))
        return fits_linear(c, t, v, false);
    const mgpu_call *row = row_at(c, v.row);
    RowView w = view_of(row, "b*");
    return is(row, "einsum") && strcmp(text_of(row, "axes"), "mk,nk->mn") == 0 &&
           is_table(c, &w, tensor_of(c, t->args[2]->word, "")) && argument(c, t->args[0], row, "a*");
}

/* Matches a number: $NAME, `stage`, or a literal. */
static bool is_number(Comparison *c, const Term *t, double v)
{
    if (*t->word == '$')
        return add_fact(c, t->word + 1, NULL, v);
    return v == (strcmp(t->word, "stage") == 0 ? c->block.stage && !c->block.number ? 2 : 1 : atof(t->word));
}

static bool fits_norm(Comparison *c, const Term *t, const mgpu_call *row)
{
    if (!is(row, t->word))
        return false;
    const Renamed *weight = tensor_of(c, t->args[1]->word, ".weight"), *bias = tensor_of(c, t->args[1]->word, ".bias");
    bool biased = strcmp(t->word, "layernorm") == 0;
    if (!weight || biased != (bias != NULL) || !has_weight(c, row, "weight", weight, 0, 0, rows_of(weight)))
        return false;
    if (biased && (number_of(row, "bias") != 1 || !has_weight(c, row, "bias", bias, 0, 0, rows_of(bias))))
        return false;
    return argument(c, t->args[0], row, "x*") && is_number(c, t->args[2], number_of(row, "eps"));
}

/* Matches the mask not(ids == n). */
static bool is_padding(Comparison *c, const mgpu_call *row)
{
    RowView mask = view_of(row, "mask*"), equal = {.row = -1}, of, number;
    int *ids = bound(c, "ids");
    if (mask.row >= 0 && is(row_at(c, mask.row), "not"))
        equal = view_of(row_at(c, mask.row), "a*");
    if (equal.row < 0 || !ids || !is(row_at(c, equal.row), "eq"))
        return false;
    of = view_of(row_at(c, equal.row), "a*");
    number = view_of(row_at(c, equal.row), "b*");
    return of.row == *ids && of.first == 0 && number.row >= 0 && is(row_at(c, number.row), "constant") &&
           add_fact(c, "padding", NULL, number_of(row_at(c, number.row), "value"));
}

static bool fits_attention(Comparison *c, const Term *t, const mgpu_call *row)
{
    static const char *const ARG[] = {"q*", "k*", "v*"};
    const char *how = t->args[3]->word;
    if (!is(row, "attention") || (number_of(row, "causal") == 1) != (strcmp(how, "causal") == 0))
        return false;
    RowView q = view_of(row, "q*"), k = view_of(row, "k*"), v = view_of(row, "v*");
    for (int i = 0; i < 3; i++)
        if (!argument(c, t->args[i], row, ARG[i]))
            return false;
    const mgpu_option *window = option_of(row, "window"), *cap = option_of(row, "cap");
    bool padding = strcmp(how, "padding") == 0;
    bool plain = cap && !cap->count && option_of(row, "bias") && (padding || option_of(row, "mask"));
    double width = (double)q.extent[2];
    if (!plain || q.rank != 3 || k.rank != 3 || v.rank != 3 || q.extent[0] != k.extent[0] || v.extent[2] != q.extent[2] ||
        fabs(number_of(row, "scale") * sqrt(width) - 1) > 1e-12)
        return false;
    if (padding && !is_padding(c, row)) {
        snprintf(c->differs, sizeof c->differs, "its mask is not `token != number`");
        return false;
    }
    if (!window || (window->count && strcmp(c->family->name, "mistral") != 0)) {
        snprintf(c->differs, sizeof c->differs, "the family has no window");
        return false;
    }
    if (window->count && !add_fact(c, "window", NULL, window->items[0].number))
        return false;
    return add_fact(c, "heads", NULL, (double)q.extent[1]) && add_fact(c, "groups", NULL, (double)k.extent[1]) &&
           add_fact(c, "width", NULL, width);
}

/* Returns Hugging Face's name of a library activation, or NULL if it has none. */
static const char *activation_name(const char *name, bool approximate)
{
    static const char *const SAME[] = {"silu", "relu", "tanh", "sigmoid", "mish"};
    for (int i = 0; i < MGPU_COUNT(SAME); i++)
        if (strcmp(name, SAME[i]) == 0)
            return SAME[i];
    return strcmp(name, "gelu") == 0 ? approximate ? "gelu_new" : "gelu" : NULL;
}

/* Matches an activation in a row of its own or as an argument of a dense layer. word: "act", or the name of an activation. */
static bool fits_activation(Comparison *c, const Term *t, RowView v)
{
    const mgpu_call *row = row_at(c, v.row);
    const mgpu_option *act = is(row, "dense") ? option_of(row, "act") : NULL;
    const char *name;
    if (act && act->count) {
        name = act->items[0].text ? activation_name(act->items[0].text, act->count > 1 && act->items[1].number == 1) : NULL;
    } else {
        name = activation_name(row->name, number_of(row, "approximate") == 1);
    }
    if (!name || (strcmp(t->word, "act") != 0 && strcmp(t->word, name) != 0))
        return false;
    bool before = c->any_activation;
    c->any_activation = act && act->count;
    RowView of = option_of(row, "x*") ? view_of(row, "x*") : view_of(row, "a*");
    bool found = act ? fits(c, t->args[0], v) : of.row >= 0 && fits(c, t->args[0], of);
    c->any_activation = before;
    return found && (strcmp(t->word, "act") != 0 || add_fact(c, "act", name, 0));
}

static bool one_number(const mgpu_call *row, const char *name)
{
    const mgpu_option *o = option_of(row, name);
    return o && o->count == 1;
}

static bool fits_conv(Comparison *c, const Term *t, const mgpu_call *row)
{
    const char *w = t->word;
    const Renamed *weight = tensor_of(c, t->args[1]->word, ".weight"), *bias = tensor_of(c, t->args[1]->word, ".bias");
    RowView image = view_of(row, "x*");
    bool patches = *w == 'p', biased = *w != 'c';
    if (!is(row, "conv") || strcmp(text_of(row, "act"), "identity") != 0 || !weight || biased != (bias != NULL) ||
        (number_of(row, "bias") == 1) != biased || image.rank != 3)
        return false;
    double groups = *w == 'd' ? (double)image.extent[2] : 1, stride = number_of(row, "stride");
    if (!one_number(row, "size") || !one_number(row, "stride") || number_of(row, "dilation") != 1 ||
        number_of(row, "groups") != groups || strcmp(text_of(row, "padding"), patches ? "valid" : "same") != 0)
        return false;
    return has_weight(c, row, "weight", weight, 0, 0, rows_of(weight)) &&
           (!biased || has_weight(c, row, "bias", bias, 0, 0, rows_of(bias))) && argument(c, t->args[0], row, "x*") &&
           is_number(c, t->args[2], number_of(row, "size")) &&
           (patches         ? stride == number_of(row, "size")
            : t->count == 4 ? is_number(c, t->args[3], stride)
                            : stride == 1);
}

/* Matches what the first convolution reads. */
static bool fits_image(Comparison *c, RowView v)
{
    if (v.rank != 3 || v.first || !bind(c, "image", v.row))
        return false;
    c->out->image = v.row;
    return add_fact(c, "height", NULL, (double)v.extent[0]) && add_fact(c, "wide", NULL, (double)v.extent[1]) &&
           add_fact(c, "channels", NULL, (double)v.extent[2]) &&
           (v.extent[0] != v.extent[1] || add_fact(c, "size", NULL, (double)v.extent[0]));
}

static bool fits_batchnorm(Comparison *c, const Term *t, const mgpu_call *row)
{
    static const char *const PART[] = {"weight", "bias", "running_mean", "running_var"};
    if (!is(row, "batchnorm") || number_of(row, "eps") != 1e-5)
        return false;
    for (int i = 0; i < MGPU_COUNT(PART); i++) {
        char *end = mgpu_format(".%s", PART[i]);
        const Renamed *tensor = tensor_of(c, t->args[1]->word, end);
        free(end);
        if (!tensor || !has_weight(c, row, PART[i], tensor, 0, 0, rows_of(tensor)))
            return false;
    }
    return argument(c, t->args[0], row, "x*");
}

static bool fits_pool(Comparison *c, const Term *t, const mgpu_call *row)
{
    const mgpu_option *axes = option_of(row, "axes");
    RowView of = view_of(row, "x*");
    bool over_places = axes && axes->count == 2 && axes->items[0].number == 0 && axes->items[1].number == 1;
    bool plain = *t->word == 'm' && t->word[1] == 'e' ? over_places && number_of(row, "keep") == 0
                                                      : number_of(row, "size") == 3 && number_of(row, "stride") == 2 &&
                                                            number_of(row, "padding") == 1 && number_of(row, "dilation") == 1;
    return is(row, t->word) && of.rank == 3 && plain && argument(c, t->args[0], row, "x*");
}

/* The first block of a stage may have a projection that others lack. */
static bool fits_enter(Comparison *c, const Term *t, RowView v)
{
    bool enters = !c->block.number && tensor_of(c, t->args[0]->word, ".weight");
    return fits(c, t->args[enters ? 1 : 2], v);
}

static bool fits(Comparison *c, const Term *t, RowView v)
{
    const mgpu_call *row = row_at(c, v.row);
    const char *w = t->word;
    if (!t->call) {
        int *at = bound(c, w);
        return at ? *at == v.row && v.first == 0 : strcmp(w, "image") == 0 && fits_image(c, v);
    }
    if (strcmp(w, "enter") == 0)
        return fits_enter(c, t, v);
    if (strcmp(w, "quadruple") == 0) {
        const Renamed *narrow = tensor_of(c, t->args[1]->word, ".weight");
        return v.rank == 3 && narrow && v.extent[2] == 4 * rows_of(narrow) && fits(c, t->args[0], v);
    }
    if (strcmp(w, "first") == 0)
        return v.rank == 1 && v.first == 0 && fits(c, t->args[0], v);
    if (strcmp(w, "linear") == 0 || strcmp(w, "plain") == 0 || strcmp(w, "unembed") == 0) {
        const char *act = text_of(row, "act");
        bool own = c->any_activation || !*act || strcmp(act, "identity") == 0;
        c->any_activation = false;
        return own && (*w == 'u' ? fits_unembed(c, t, v) : fits_linear(c, t, v, *w == 'l'));
    }
    if (v.first)
        return false;
    if (strcmp(w, "add") == 0 || strcmp(w, "mul") == 0)
        return is(row, w) && fits_in_any_order(c, t, row);
    if (strcmp(w, "concat") == 0)
        return is(row, w) && argument(c, t->args[0], row, "a*") && argument(c, t->args[1], row, "b*");
    if (strcmp(w, "embed") == 0)
        return fits_embed(c, t, row);
    if (strcmp(w, "table") == 0)
        return is_table(c, &v, tensor_of(c, t->args[0]->word, ""));
    if (strcmp(w, "attention") == 0)
        return fits_attention(c, t, row);
    if (strcmp(w, "rope") == 0)
        return is(row, w) && argument(c, t->args[0], row, "x*") && add_fact(c, "theta", NULL, number_of(row, "base"));
    if (strcmp(w, "patches") == 0 || strcmp(w, "conv") == 0 || strcmp(w, "depthwise") == 0)
        return fits_conv(c, t, row);
    if (strcmp(w, "batchnorm") == 0)
        return fits_batchnorm(c, t, row);
    if (strcmp(w, "maxpool") == 0 || strcmp(w, "mean") == 0)
        return fits_pool(c, t, row);
    if (strcmp(w, "layernorm") == 0 || strcmp(w, "rmsnorm") == 0)
        return fits_norm(c, t, row);
    return fits_activation(c, t, v);
}

/* ---- lines */

static void find_whole_rows(Comparison *c)
{
    c->whole = mgpu_allocate((size_t)c->program->outline_count + 1, sizeof *c->whole);
    for (int r = 0; r < c->program->outline_count; r++)
        for (int k = 0; k < row_at(c, r)->option_count; k++) {
            RowView v = {.row = -1};
            if (strchr(row_at(c, r)->options[k].name, '*'))
                v = view_of(row_at(c, r), row_at(c, r)->options[k].name);
            if (v.row >= 0 && v.first == 0 && elements(&v) > (c->whole[v.row].rank ? elements(&c->whole[v.row]) : 0))
                c->whole[v.row] = v;
        }
}

static bool uses(const Comparison *c, const Term *t, const mgpu_call *row)
{
    static const char *const END[] = {".weight", ""};
    bool found = false;
    for (int i = 0; i < 2 && !t->call; i++) {
        const Renamed *tensor = tensor_of(c, t->word, END[i]);
        for (int k = 0; tensor && k < tensor->piece_count; k++) {
            const char *name = c->names->export->weights.name[tensor->piece[k].weight], *path = text_of(row, "path");
            size_t length = strlen(path);
            found = found || (length && strncmp(name, path, length) == 0 && strcmp(name + length, ".weight") == 0);
        }
    }
    for (int i = 0; i < t->count; i++)
        found = found || uses(c, t->args[i], row);
    return found;
}

static void set_wrong(Comparison *c)
{
    const FamilyLine *l = c->line;
    int near = -1;
    for (int r = 0; r < c->program->outline_count; r++)
        if (!is(row_at(c, r), "variable") && uses(c, l->term, row_at(c, r)))
            near = r;
    bool staged = l->each && strchr(strchr(l->each, '*') + 1, '*');
    char *block = !l->each ? mgpu_format("%s", "")
                  : staged ? mgpu_format(", of stage %d, block %d", c->block.stage, c->block.number)
                           : mgpu_format(", of block %d", c->block.number),
         *where = mgpu_format("%s", "");
    if (near >= 0) {
        free(where);
        where = mgpu_format("; line %d, '%s', is nearest", row_at(c, near)->line, text_of(row_at(c, near), "path"));
    }
    c->out->wrong = mgpu_format("nothing in the model is `%s`%s, as the family '%s' has it%s%s%s%s", l->text, block,
                                c->family->name, where, *c->differs ? " (" : "", c->differs, *c->differs ? ")" : "");
    free(where);
    free(block);
}

/* Binds the line to the first row that matches it. */
static bool compare_line(Comparison *c)
{
    Computed before = *c->out;
    int bound_before = c->bound_count;
    *c->differs = 0;
    for (int r = 0; r < c->program->outline_count; r++) {
        if (c->whole[r].rank && fits(c, c->line->term, c->whole[r]))
            return bind(c, c->line->name, r);
        *c->out = before;
        c->bound_count = bound_before;
        c->any_activation = false;
    }
    set_wrong(c);
    return false;
}

/* Returns 1 + the largest number that the first * of a pattern matches. */
static int count_of(const Comparison *c, const char *pattern)
{
    int most = 0;
    size_t length = strcspn(pattern, "*");
    for (int i = 0; i < c->names->count; i++)
        if (strncmp(c->names->list[i].name, pattern, length) == 0) {
            int number = atoi(c->names->list[i].name + length);
            most = number + 1 > most ? number + 1 : most;
        }
    return most;
}

/* Compares lines [begin, end) of the family for each block of a stage, or of the model. */
static void compare_blocks(Comparison *c, int begin, int end)
{
    static const char *const DEPTH[] = {"depth0", "depth1", "depth2", "depth3", "depth4", "depth5", "depth6", "depth7"};
    const char *each = c->family->computes[begin].each, *second = each ? strchr(strchr(each, '*') + 1, '*') : NULL;
    int stages = second ? count_of(c, each) : 1;
    if (second)
        add_fact(c, "stages", NULL, stages);
    for (int stage = 0; stage < stages && !c->out->wrong; stage++) {
        char *pattern = second ? mgpu_format("%.*s%d%s", (int)strcspn(each, "*"), each, stage, strchr(each, '*') + 1) : NULL;
        int blocks = each ? count_of(c, pattern ? pattern : each) : 1;
        free(pattern);
        if (each)
            add_fact(c, second && stage < MGPU_COUNT(DEPTH) ? DEPTH[stage] : "blocks", NULL, blocks);
        for (int i = 0; i < blocks; i++)
            for (int k = begin; k < end && !c->out->wrong; k++) {
                c->block = (Block){stage, i};
                c->line = &c->family->computes[k];
                compare_line(c);
            }
    }
}

/* True if the losses and outputs read the logits themselves, and not only what is computed from them. */
static bool is_result(const Comparison *c, int row)
{
    static const char *const MADE[] = {"add", "sub", "mul", "div", "tanh"};
    bool made = false, read = false;
    for (int r = row + 1; r < c->program->outline_count; r++)
        for (int k = 0; k < row_at(c, r)->option_count; k++) {
            const mgpu_option *o = &row_at(c, r)->options[k];
            if (!o->count || !strchr(o->name, '*') || (int)o->items[0].number != row)
                continue;
            bool plain = false;
            for (int i = 0; i < MGPU_COUNT(MADE); i++)
                plain = plain || is(row_at(c, r), MADE[i]);
            made = made || plain;
            read = read || !plain;
        }
    return read || !made;
}

Computed mgpu_compare_with(const Family *family, const Names *names)
{
    Computed out = {0};
    Comparison c = {.program = names->export->program, .family = family, .names = names, .out = &out};
    find_whole_rows(&c);
    for (int i = 0; i < family->compute_count && !out.wrong;) {
        int end = i + 1;
        const char *each = family->computes[i].each;
        while (each && end < family->compute_count && family->computes[end].each == each)
            end++;
        compare_blocks(&c, i, end);
        i = end;
    }
    free(c.whole);
    int *logits = bound(&c, "logits");
    if (!out.wrong && logits && !is_result(&c, *logits))
        out.wrong = mgpu_format("the model makes something else of its logits before its losses and outputs read them, which the "
                                "family '%s' does not",
                                family->name);
    return out;
}
