/* phase.c: names of phases, of 16-bit types and of kernel arguments; bytes of tensors; copies of phases. */
#include "compiler/base/c_text.h"
#include "compiler/kernel/kernel.h"
#include "compiler/kernel/phase.h"
#include "runtime/abi/mgpu.h"

#include <string.h>

#define OF_OBJECTIVE(n) [PHASE_TRAIN_MORE + n - 2] = {"train" #n ".full", "train" #n ".partial"}

const char *phase_name(PhaseKind kind, bool partial_batch)
{
    static const char *const NAMES[PHASE_KINDS][2] = {
        [PHASE_INIT] = {"init", "init"},
        [PHASE_PROLOGUE] = {"prologue.full", "prologue.partial"},
        [PHASE_ACCUMULATE] = {"accumulate.full", "accumulate.partial"},
        [PHASE_TRAIN] = {"train.full", "train.partial"},
        [PHASE_EVAL] = {"eval.full", "eval.partial"},
        [PHASE_PREDICT] = {"predict.full", "predict.partial"},
        [PHASE_REPORT_TRAIN] = {"report.train", "report.train"},
        [PHASE_REPORT_EVAL] = {"report.eval", "report.eval"},
        [PHASE_DECODE] = {"decode", "decode"},
        OF_OBJECTIVE(2),
        OF_OBJECTIVE(3),
        OF_OBJECTIVE(4),
        OF_OBJECTIVE(5),
        OF_OBJECTIVE(6),
        OF_OBJECTIVE(7),
        OF_OBJECTIVE(8),
    };
    return NAMES[kind][partial_batch];
}

double share_of_steps(const Model *m, bool predicts, PhaseKind kind)
{
    double round = 0, own = 0;
    for (int k = 0; k < m->objective_count; k++) {
        round += (double)m->objectives[k].times;
        own += (int)kind == mgpu_train_kind(k) ? (double)m->objectives[k].times : 0;
    }
    return predicts || !m->objective_count ? kind == step_kind(predicts) : own / round;
}

uint8_t half_of(Dtype t) { return t == BF16 ? MGPU_HALF_BF16 : t == F16 ? MGPU_HALF_F16 : MGPU_HALF_NOT; }

const char *half_text(uint8_t half)
{
    return half == MGPU_HALF_BF16 ? "MGPU_HALF_BF16" : half == MGPU_HALF_F16 ? "MGPU_HALF_F16" : "MGPU_HALF_NOT";
}

int64_t tensor_bytes(const Tensor *t, int64_t samples)
{
    int64_t bytes; /* an overflow saturates: nothing so large fits anywhere */
    if (__builtin_mul_overflow(shape_count(&t->shape) * dtype_bytes(t->dtype), t->has_samples ? samples : 1, &bytes))
        return INT64_MAX;
    return bytes;
}

const char *kernel_argument_name(const Tensor *tensor)
{
    const char *name = tensor->name, *dot = strrchr(name, '.');
    if (tensor->kind == TENSOR_TEMPORARY && name[0] == 't') { /* t12_relu -> relu */
        const char *end = name + 1 + strspn(name + 1, "0123456789");
        if (*end == '_')
            return end + 1;
    }
    return dot && dot[1] ? dot + 1 : name;
}

int tensor_place(const Tensor *const *list, int count, const Tensor *t)
{
    for (int i = 0; i < count; i++)
        if (list[i] == t)
            return i;
    return -1;
}

const char *tensor_text(const Tensor *t)
{
    return format("%s %s %s%s", t->name, dtype_name(t->dtype), t->has_samples ? "n x " : "", shape_text(&t->shape));
}

bool task_is_joined(const Task *t) { return t->kind == TASK_KERNEL && t->read_count > t->kernel->read_count; }

double task_least_samples(const Task *t)
{
    static const double FLOPS_PER_WEIGHT_BYTE = 16; /* with fewer, reading the weights takes most of the time */
    double weights = 0;
    for (int i = 0; i < t->read_count; i++)
        weights += t->reads[i]->has_samples ? 0 : (double)tensor_bytes(t->reads[i], 1);
    double times = t->kernel->scan ? (double)t->kernel->scan->steps : 1; /* that it reads them */
    return t->flops_per_sample > 0 ? weights * times * FLOPS_PER_WEIGHT_BYTE / t->flops_per_sample : 1;
}

Task *copy_task(const Task *t)
{
    Task *copy = NEW(Task);
    *copy = *t;
    copy->reads = NEW_ARRAY(Tensor *, t->read_count);
    copy->writes = NEW_ARRAY(Tensor *, t->write_count);
    for (int i = 0; i < t->read_count; i++)
        copy->reads[i] = t->reads[i];
    for (int i = 0; i < t->write_count; i++)
        copy->writes[i] = t->writes[i];
    return copy;
}

Phase *copy_phase(const Phase *p)
{
    Phase *copy = NEW(Phase);
    *copy = *p;
    copy->tasks = NEW_ARRAY(Task *, p->task_count);
    copy->tensors = NEW_ARRAY(Tensor *, p->tensor_count);
    for (int i = 0; i < p->task_count; i++)
        copy->tasks[i] = copy_task(p->tasks[i]);
    for (int i = 0; i < p->tensor_count; i++)
        copy->tensors[i] = p->tensors[i];
    return copy;
}

const char *kernel_types_of_sums(const Kernel *k)
{
    Text t = {0};
    bool samples = false;
    if (!kernel_sums_shards(k))
        return NULL;
    for (int i = 0; i < k->write_count; i++)
        samples = samples || (k->writes[i]->partial && k->writes[i]->node && node_sums_samples(k->writes[i]->node));
    for (int i = 0; i < k->write_count; i++) {
        const Tensor *x = k->writes[i];
        if (samples && !x->partial && !x->has_samples)
            die("%s sums samples and computes something else without samples", k->name);
        text_add(&t, "%s%s", i ? ", " : "",
                 x->node && x->node->op == OP_MOMENTS ? "MGPU_MOMENTS" : c_constant("MGPU_", dtype_name(x->dtype)));
    }
    return format("(const uint8_t[]){%s}", text_of(&t));
}
