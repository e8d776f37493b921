/* tensors.c: makes the tensors of a phase: those that exist before any kernel, those that the stages make, and their final
 * numbers.
 *
 * In: a Fusion. Out: tensors that live as long as the program. In a scan's body they belong to the phase around it. */
#include "compiler/ir/placement.h"
#include "compiler/kernel/fuse/fuse.h"

#include <string.h>

Memory *fuse_use_program_memory(const Fusion *f)
{
    while (f->around)
        f = f->around;
    return memory_use(f->program_memory);
}

Tensor *fuse_add_tensor(Fusion *f, TensorKind kind, const char *name, int index, Dtype dtype, const Shape *shape,
                        bool has_samples, Node *node)
{
    Memory *outer = fuse_use_program_memory(f);
    Tensor *t = NEW(Tensor);
    while (f->around) /* ids are unique in the outermost fusion, since a scan's kernels use tensors of all enclosing graphs */
        f = f->around;
    *t = (Tensor){.id = f->tensor_count,
                  .kind = kind,
                  .name = copy_text(name, strlen(name)),
                  .index = index,
                  .dtype = dtype,
                  .shape = *shape,
                  .has_samples = has_samples,
                  .node = node};
    APPEND(f->tensors, f->tensor_count, t);
    memory_use(outer);
    return t;
}

void fuse_add_leaves(Fusion *f)
{
    const Model *m = f->graph->model;
    Node **input = NEW_ARRAY(Node *, m->input_count), **variable = NEW_ARRAY(Node *, m->variable_count);
    for (int i = 0; i < f->graph->node_count; i++) {
        Node *n = f->graph->nodes[i];
        if (n->op == OP_INPUT)
            input[n->ints[0]] = n;
        if (n->op == OP_VARIABLE)
            variable[n->ints[0]] = n;
    }
    bool *used = NEW_ARRAY(bool, m->variable_count);
    for (int i = 0; i < m->variable_count; i++)
        used[i] = variable[i] != NULL;
    for (int i = 0; i < f->graph->result_count; i++)
        if (f->graph->results[i].role == ROLE_UPDATE || f->graph->results[i].role == ROLE_INIT)
            used[f->graph->results[i].index] = true;
    f->inputs = NEW_ARRAY(Tensor *, m->input_count);
    f->variables = NEW_ARRAY(Tensor *, m->variable_count);
    for (int i = 0; i < m->input_count; i++)
        f->inputs[i] = fuse_add_tensor(f, TENSOR_INPUT, format("in.%s", m->inputs[i].name), i, m->inputs[i].dtype,
                                       &m->inputs[i].shape, true, input[i]);
    for (int i = 0; i < m->variable_count; i++) {
        const Variable *v = &m->variables[i];
        if (!used[i])
            continue;
        Shape shape = v->shape;
        for (int k = 0; k < shape.rank; k++)
            shape.extent[k] = v->shape.extent[v->order[k]];
        f->variables[i] = fuse_add_tensor(f, TENSOR_VARIABLE, format("w.%s", v->name), i, v->dtype, &shape,
                                          variable_is_placed(v, OVER_SAMPLES), variable[i]);
        f->variables[i]->order = v->order;
    }
    Phase *phase = f->phase;
    for (int i = 0; i < f->graph->result_count; i++)
        if (f->graph->results[i].role == ROLE_REPORT)
            APPEND(phase->reports, phase->report_count, f->graph->results[i].name);
    if (phase->report_count) {
        Shape slots = SHAPE(phase->report_count);
        f->report = fuse_add_tensor(f, TENSOR_REPORT, "report", 0, F64, &slots, false, NULL);
    }
}

static void mark_used(bool *used, Tensor *const *list, int count)
{
    for (int i = 0; i < count; i++)
        used[list[i]->id] = true;
}

void fuse_number_tensors(Fusion *f)
{
    Phase *p = f->phase;
    bool *used = NEW_ARRAY(bool, f->tensor_count);
    for (int i = 0; i < p->task_count; i++) {
        mark_used(used, p->tasks[i]->reads, p->tasks[i]->read_count);
        mark_used(used, p->tasks[i]->writes, p->tasks[i]->write_count);
    }
    for (int i = 0; i < f->tensor_count; i++) {
        Tensor *t = f->tensors[i];
        if (!used[i])
            continue;
        t->id = p->tensor_count;
        APPEND(p->tensors, p->tensor_count, t);
    }
}
