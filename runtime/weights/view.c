/* view.c: the variables of a file and their names. There are three views: weights and states; what else a run needs to continue;
 * and the model as evaluation reads it, in which an average replaces its variable under the variable's name. Tensors are saved
 * with their declared axes, whatever their order in memory. Rounded copies of variables are not saved. */
#include "runtime/base/base.h"
#include "runtime/data/data.h"
#include "runtime/weights/view.h"

#include <stdlib.h>
#include <string.h>

bool mgpu_as_declared(const mgpu_variable *v)
{
    for (int k = 0; k < v->tensor.rank; k++)
        if (v->order[k] != k)
            return false;
    return true;
}

/* order[k] is the declared axis that is k-th in memory. `declared` points to the first of the elements, `memory` to the whole
 * tensor. */
void mgpu_reorder(const mgpu_variable *v, mgpu_range elements, uint8_t *declared, uint8_t *memory, bool save)
{
    const mgpu_tensor *t = &v->tensor;
    int64_t bytes = mgpu_dtype_bytes(t->dtype), step = bytes;
    Strided s = {.rank = t->rank};
    for (int k = t->rank - 1; k >= 0; k--) {
        int axis = v->order[k];
        s.extent[axis] = t->extent[axis];
        s.stride[axis] = step;
        step *= t->extent[axis];
    }
    mgpu_strided_begin(&s, elements.begin);
    for (int64_t i = 0; i < elements.end - elements.begin; i++) {
        if (save)
            memcpy(declared + i * bytes, memory + s.offset, (size_t)bytes);
        else
            memcpy(memory + s.offset, declared + i * bytes, (size_t)bytes);
        mgpu_strided_next(&s);
    }
}

bool mgpu_is_partial(const mgpu_variable *v) { return v->kind == MGPU_ACCUMULATOR && v->partial; }

TensorView mgpu_new_view(int capacity)
{
    return (TensorView){.name = mgpu_allocate((size_t)capacity, sizeof(char *)),
                        .variable = mgpu_allocate((size_t)capacity, sizeof(int)),
                        .below = mgpu_allocate((size_t)capacity, sizeof(int))};
}

void mgpu_close_view(TensorView *v)
{
    free(v->name);
    free(v->variable);
    free(v->below);
}

void mgpu_view_add(TensorView *v, const char *name, int variable)
{
    v->name[v->count] = name;
    v->variable[v->count++] = variable;
}

static void mark_accumulators(const mgpu_program *program, const mgpu_phase *phase, bool *found, bool as)
{
    const mgpu_device_phase *p = &phase->devices[0];
    for (int i = 0; i < p->op_count; i++)
        for (int a = 0; a < p->ops[i].read_count + p->ops[i].write_count; a++) {
            const mgpu_buffer *b = &p->buffers[mgpu_access_of(&p->ops[i], a)->buffer];
            if (b->kind == MGPU_VARIABLE && program->variables[b->index].kind == MGPU_ACCUMULATOR)
                found[b->index] = as;
        }
}

/* Finds the accumulators that outlive a step: those of the training report, which its phase accesses, gradients that are applied
 * one step late, and residuals of one-bit gradients. Those of micro-batches are reset in each step. */
static bool *outliving(const mgpu_program *program, const mgpu_plan *plan)
{
    static const struct {
        uint8_t kind;
        bool outlives;
    } IN_TURN[] = {
        {MGPU_PHASE_TRAIN, true}, {MGPU_PHASE_ACCUMULATE, false}, {MGPU_PHASE_PROLOGUE, false}, {MGPU_PHASE_REPORT_TRAIN, true}};
    bool *found = mgpu_allocate((size_t)program->variable_count, sizeof *found);
    for (size_t i = 0; i < sizeof IN_TURN / sizeof *IN_TURN; i++)
        for (int k = 0; k < plan->phase_count; k++)
            if (plan->phases[k].kind == IN_TURN[i].kind ||
                (IN_TURN[i].kind == MGPU_PHASE_TRAIN && mgpu_is_train_kind(plan->phases[k].kind)))
                mark_accumulators(program, &plan->phases[k], found, IN_TURN[i].outlives);
    return found;
}

int *mgpu_read_instead(const mgpu_program *program, int which)
{
    int *reads = mgpu_allocate((size_t)program->variable_count, sizeof *reads);
    for (int i = 0; i < program->variable_count; i++)
        reads[i] = i;
    for (int i = 0; which == MGPU_MODEL_VIEW && i < program->average_count; i++)
        reads[program->averages[i].master] = program->averages[i].copy;
    return reads;
}

TensorView mgpu_view_of(const mgpu_program *program, const mgpu_plan *plan, int which)
{
    TensorView v = mgpu_new_view(program->variable_count);
    bool *sums = outliving(program, plan);
    int *reads = mgpu_read_instead(program, which);
    for (int i = 0; i < program->variable_count; i++) {
        uint8_t kind = program->variables[i].kind;
        bool model = kind == MGPU_WEIGHT || kind == MGPU_STATE;
        if (which == MGPU_OPTIMIZER_VIEW ? kind == MGPU_OPTIMIZER_STATE || sums[i] : model)
            mgpu_view_add(&v, program->variables[i].tensor.name, reads[i]);
    }
    free(reads);
    free(sums);
    return v;
}

/* ---- as a file */
ViewFile mgpu_view_file(const mgpu_program *program, const mgpu_plan *plan, int which, const FileMetadata *notes)
{
    ViewFile f = {.view = mgpu_view_of(program, plan, which)};
    f.tensors = mgpu_allocate((size_t)f.view.count, sizeof *f.tensors);
    for (int i = 0; i < f.view.count; i++) {
        f.tensors[i].tensor = program->variables[f.view.variable[i]].tensor;
        f.tensors[i].tensor.name = f.view.name[i];
    }
    f.layout = mgpu_lay_out(f.tensors, f.view.count,
                            &(FileMetadata){notes->step, which == MGPU_OPTIMIZER_VIEW ? NULL : notes->categories});
    return f;
}

void mgpu_close_view_file(ViewFile *f)
{
    mgpu_close_layout(&f->layout);
    free(f->tensors);
    mgpu_close_view(&f->view);
}
