/* contraction.c: emits a Contraction as host C: its table, and a function that passes it to the runtime library. */
#include "compiler/base/c_text.h"
#include "compiler/kernel/contraction_internal.h"
#include "compiler/kernel/phase.h"

#include <string.h>

static const char *const LIST_NAME[LISTS] = {"batch", "M", "N", "K"};

static const char *operand_text(const Tensor *tensor)
{
    return format("%s %s %s%s%s", tensor->name, dtype_name(tensor->dtype), tensor->has_samples ? "n x " : "",
                  shape_text(&tensor->shape), tensor->partial ? " (a part of the sum)" : "");
}

static const char *count_text(const Contraction *plan, int list)
{
    int64_t count = 1;
    bool samples = false;
    for (int i = 0; i < plan->count[list]; i++)
        if (plan->list[list][i].extent == MGPU_SAMPLES)
            samples = true;
        else
            count *= plan->list[list][i].extent;
    return format(samples && count == 1 ? "n" : samples ? "%lld n" : "%lld", (long long)count);
}

/* Sets *more to the second line, or to NULL if there is none. */
static const char *equation_text(const Contraction *plan, const char **more)
{
    const Node *node = plan->node;
    *more = NULL;
    if (node->op == OP_EINSUM)
        return node->text;
    const char *meaning = node->op == OP_CONVOLVE ? "y[p, o] = sum_{k, c} x'[s p + d k - b, c] w[o, c, k]"
                                                  : "w[o, c, k] = sum_{n, p} x'[s p + d k - b, c] g[p, o]";
    const int64_t *ints = node->ints, *value = ints + 1;
    Text text = {0};
    static const char *const name[] = {"stride", "padding low", "padding high", "dilation", "input dilation"};
    for (int i = 0; i < COUNT(name); i++) {
        text_add(&text, "%s%s", i == 0 ? "" : ", ", name[i]);
        for (int64_t d = 0; d < ints[0]; d++)
            text_add(&text, " %lld", (long long)*value++);
    }
    *more = format("%s, groups %lld", text_take(&text), (long long)*value);
    return meaning;
}

void contraction_print_comment(const Contraction *plan, const char *more, Text *text)
{
    const Node *node = plan->node;
    const Place *at = users_place(node->at);
    Text what = {0};
    if (node->path != NULL && node->path[0] != 0)
        text_add(&what, "%s, ", node->path);
    if (at != NULL && at->source != NULL)
        text_add(&what, "%s:%d: ", at->source->file, at->line);
    const char *line[4], *second, *batch = count_text(plan, BATCH);
    int lines = 1;
    text_add(&what, "%s %s", OP_INFO[node->op].name, equation_text(plan, &second));
    line[0] = text_take(&what);
    if (second)
        line[lines++] = second;
    line[lines++] =
        format("%s, %s -> %s", operand_text(plan->tensor[A]), operand_text(plan->tensor[B]), operand_text(plan->tensor[C]));
    line[lines++] =
        format("M x N x K = %s x %s x %s%s; A is %s%s", count_text(plan, M), count_text(plan, N), count_text(plan, K),
               strcmp(batch, "1") != 0 ? format(", %s times", batch) : "", plan->tensor[plan->swapped ? B : A]->name, more);
    text_add(text, "%s\n", c_comment_lines(line, lines));
}

static void print_list(const char *name, const int64_t *value, int count, Text *text)
{
    text_add(text, ".%s = {", name);
    for (int i = 0; i < count; i++)
        text_add(text, "%s%lld", i > 0 ? ", " : "", (long long)value[i]);
    text_add(text, "}");
}

static void print_convolution(const mgpu_convolution *v, const char *name, Text *text)
{
    text_add(text,
             "static const mgpu_convolution %s_convolution = {\n    .weight = %s, .dims = %d, .groups = %lld, .in = %lld, "
             ".out = %lld",
             name, v->weight ? "true" : "false", v->dims, (long long)v->groups, (long long)v->in, (long long)v->out);
    const struct {
        const char *name;
        const int64_t *value;
        int more;
    } list[] = {{"x", v->x, 0},
                {"w", v->w, 0},
                {"y", v->y, 0},
                {"stride", v->stride, 0},
                {"dilation", v->dilation, 0},
                {"padding_low", v->padding_low, 0},
                {"input_dilation", v->input_dilation, 0},
                {"x_stride", v->x_stride, 2},
                {"w_stride", v->w_stride, 2},
                {"y_stride", v->y_stride, 2}};
    for (int i = 0; i < COUNT(list); i++) {
        text_add(text, i == 3 || i == 7 ? ",\n    " : ", ");
        print_list(list[i].name, list[i].value, v->dims + list[i].more, text);
    }
    text_add(text, "};\n");
}

void contraction_print_table(const Contraction *plan, const char *name, Text *text)
{
    const mgpu_contraction *t = &plan->table;
    const int counts[LISTS] = {t->batch, t->m, t->n, t->k};
    const mgpu_axis *axis = t->axis;
    int axes = 0;
    for (int list = 0; list < LISTS; list++)
        for (int i = 0; i < counts[list]; i++, axis++) {
            if (axes++ == 0)
                text_add(text, "static const mgpu_axis %s_axis[] = {\n    /* a, b, c: strides in A, B, C */\n", name);
            const char *row = C_ROW({"extent", axis->extent, axis->extent == MGPU_SAMPLES ? "MGPU_SAMPLES" : NULL},
                                    C_NUMBER("a", axis->a), C_NUMBER("b", axis->b), C_NUMBER("c", axis->c),
                                    C_NUMBER("window", axis->window), C_NUMBER("step", axis->step));
            text_add(text, "    %s, %s\n", row, c_comment("%s: %s", LIST_NAME[list], plan->label[axes - 1]));
        }
    if (axes > 0)
        text_add(text, "};\n");
    if (t->windows > 0)
        text_add(text, "static const mgpu_window %s_window[] = {\n", name);
    for (int w = 0; w < t->windows; w++)
        text_add(text, "    %s,\n",
                 C_ROW(C_NUMBER("extent", t->window[w].extent), C_NUMBER("stride", t->window[w].stride),
                       C_NUMBER("first", t->window[w].first), C_NUMBER("input_dilation", t->window[w].input_dilation)));
    if (t->windows > 0)
        text_add(text, "};\n");
    if (t->convolution)
        print_convolution(t->convolution, name, text);
    text_add(text, "static const mgpu_contraction %s_contraction = {\n    .type = MGPU_%s, .swapped = %s, ", name,
             t->type == MGPU_F64 ? "F64" : "F32", t->swapped ? "true" : "false");
    if (t->convolution)
        text_add(text, ".convolution = &%s_convolution, ", name);
    const mgpu_half half[] = {t->half_a, t->half_b, t->half_c};
    for (int i = 0; i < 3; i++)
        if (half[i] != MGPU_HALF_NOT)
            text_add(text, ".half_%c = %s, ", "abc"[i], half_text(half[i]));
    text_add(text, ".batch = %d, .m = %d, .n = %d, .k = %d, ", t->batch, t->m, t->n, t->k);
    text_add(text, "%s%s", axes > 0 ? format(".axis = %s_axis,", name) : "",
             t->windows > 0 ? format(" .windows = %d, .window = %s_window,", t->windows, name) : "");
    text_add(text, "\n    .copy = %lld, .sums = %lld, .packed = %lld, .keep = %s", (long long)t->copy, (long long)t->sums,
             (long long)t->packed, t->keep ? "true" : "false");
    if (t->unroll)
        text_add(text, ", .unroll = true");
    if (t->a != 0)
        text_add(text, ", .a = %lld", (long long)t->a);
    if (t->b != 0)
        text_add(text, ", .b = %lld", (long long)t->b);
    text_add(text, "};\n");
}

static void print_body(const Contraction *plan, const char *name, Text *text)
{
    contraction_print_table(plan, name, text);
    text_add(text, "static void %s(void *const *argument, const mgpu_step *step, const mgpu_part *part)\n{\n", name);
    text_add(text, "    (void)step;\n    mgpu_contract%s(&%s_contraction, argument, part);\n}\n",
             plan->workers_share ? "_shared" : "", name);
}

void contraction_print(const Contraction *plan, const char *kernel_name, Text *text)
{
    contraction_print_comment(plan, "", text);
    print_body(plan, kernel_name, text);
}
