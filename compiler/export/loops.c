/* loops.c: lowers SCAN to ONNX's Scan. Its inputs are carries, then sequences; the body reads other values from the outer
 * graph. */
#include "compiler/export/lowering.h"

#include <string.h>

/* Adds an input of the body; arg: the node that reads it, or NULL. */
static void argument(Lowering *in, const Node *arg, Extents e, Dtype dtype, const char *name)
{
    Value *v = NEW(Value);
    *v = (Value){.name = unique_name(in, name),
                 .label = arg && arg->name ? arg->name : name,
                 .dtype = dtype,
                 .rank = e.rank,
                 .variable = -1};
    memcpy(v->extent, e.extent, sizeof v->extent);
    if (arg)
        in->values[arg->id].last = v;
    APPEND(in->out->inputs, in->out->input_count, v);
}

/* Swaps samples and steps, since some implementations of Scan support only axis 0. */
static const Value *steps_first(Lowering *l, const Value *v)
{
    int64_t order[EXPORTED_RANK] = {1, 0};
    for (int i = 2; i < v->rank; i++)
        order[i] = i;
    return transpose(l, v, order);
}

static const Value *for_samples(Lowering *l, const Node *n, bool has_samples)
{
    const Value *v = whole_value(l, n);
    return has_samples && !n->has_samples ? of_all_samples(l, v) : v;
}

void lower_scan(Lowering *l, const Node *n)
{
    Loop loop = loop_of(n);
    int own = loop.carries + loop.sequences, count = 0;
    Exported *body = NEW(Exported);
    *body = (Exported){.model = l->out->model, .real = l->out->real};
    Lowering *in = lowering_of(loop.body, l->torch, body, l);
    const Value **taken = NEW_ARRAY(const Value *, own + 1);
    int64_t axes[64], out_axes[64];
    if (loop.reverse)
        die("a loop of a gradient, in evaluation");
    if (loop.sequences > COUNT(axes) || loop.stacks > COUNT(axes) || loop.carries + loop.stacks > 8)
        cannot_export(l, "a loop of more than eight states and outputs");
    for (int i = 0; i < loop.inputs; i++) {
        const Node *arg = loop.arg[i], *given = loop.in[i];
        in->at = arg ? arg : n;
        if (i >= own) {
            if (arg)
                in->values[arg->id].last = whole_value(l, given);
            continue;
        }
        bool has_samples = arg ? arg->has_samples : given->has_samples;
        taken[count] = i < loop.carries ? for_samples(l, given, has_samples) : for_samples(l, given, arg && arg->has_samples);
        if (i >= loop.carries) {
            axes[i - loop.carries] = taken[count]->extent[0] == BATCH;
            if (!l->torch && axes[i - loop.carries]) {
                taken[count] = steps_first(l, taken[count]);
                axes[i - loop.carries] = 0;
            }
        }
        Extents e = extents_of(taken[count]);
        if (i >= loop.carries) { /* one step */
            int axis = (int)axes[i - loop.carries];
            e.rank--;
            memmove(e.extent + axis, e.extent + axis + 1, (size_t)(e.rank - axis) * sizeof *e.extent);
        }
        argument(in, arg, e, taken[count++]->dtype, i < loop.carries ? "state" : "now");
    }
    int sequences = loop.sequences;
    if (!sequences && !l->torch) { /* ONNX takes the number of steps from a sequence. */
        axes[sequences++] = 0;
        taken[count] = constant_of(l, NEW_ARRAY(double, loop.steps), I32, (Extents){1, {loop.steps}});
        argument(in, NULL, (Extents){0}, taken[count++]->dtype, "now");
    }
    lower_nodes(in);
    Extents e[8] = {0};
    for (int k = 0; k < loop.carries + loop.stacks; k++) {
        const Node *next = loop.next[k];
        in->at = next;
        bool has_samples = k < loop.carries
                               ? (loop.arg[k] ? loop.arg[k]->has_samples : loop.in[k]->has_samples || next->has_samples)
                               : next->has_samples;
        const Value *v = unary(in, "Identity", for_samples(in, next, has_samples));
        APPEND(body->outputs, body->output_count, v);
        e[k] = extents_of(v);
        if (k < loop.carries)
            continue;
        int axis = has_samples && l->torch;
        out_axes[k - loop.carries] = axis;
        for (int i = e[k].rank++; i > axis; i--)
            e[k].extent[i] = e[k].extent[i - 1];
        e[k].extent[axis] = loop.steps;
    }
    l->at = n;
    l->values[n->id].last = emit(l, "Scan", body->outputs[0]->dtype, e[0], count, taken);
    for (int k = 1; k < loop.carries + loop.stacks; k++)
        second_result(l, body->outputs[k]->dtype, e[k]);
    attribute(l, "num_scan_inputs", sequences);
    attribute_list(l, "scan_input_axes", axes, sequences);
    attribute_list(l, "scan_output_axes", out_axes, loop.stacks);
    attribute(l, "steps", loop.steps); /* only for PyTorch */
    attribute_graph(l, "body", body);
}

/* Takes the result from the loop's operation. */
void lower_result(Lowering *l, const Node *n)
{
    const Value *made = l->values[n->in[0]->id].last;
    for (int i = 0; i < l->out->op_count; i++)
        if (l->out->ops[i]->out[0] == made && n->ints[0] < l->out->ops[i]->outputs) {
            const Value *v = l->out->ops[i]->out[n->ints[0]];
            set_lowered(l, n, n->has_samples && v->rank > 1 && v->extent[0] != BATCH ? steps_first(l, v) : v, false);
            return;
        }
    cannot_export(l, "the result of a loop");
}
