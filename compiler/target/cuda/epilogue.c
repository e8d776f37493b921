/* epilogue.c: which epilogues (kernel/epilogue.h) are fused with a contraction. With cuBLASLt: those of matmuls that it computes,
 * if biases and sums have the layout that it requires. */
#include "compiler/base/c_text.h"
#include "compiler/kernel/epilogue.h"
#include "compiler/kernel/kernel.h"
#include "compiler/target/cuda/library.h"

enum { PITCH = 8 /* the library requires the pitch of gelu's operand to be a multiple of it */ };
enum { ROWS, COLUMNS, DEPTH, BATCH }; /* as in mgpu_library_matmul */

static Dtype sums_type(const mgpu_library_matmul *p) { return p->sums == MGPU_F64 ? F64 : F32; }

/* Returns true for a vector with one element per row of the matmul's result, of the type of its sums. */
static bool is_vector(const Tensor *t, const mgpu_library_matmul *p)
{
    return !t->has_samples && t->dtype == sums_type(p) && shape_count(&t->shape) == p->extent[ROWS] && p->extent[ROWS] > 1 &&
           p->sampled != ROWS && p->sampled != BATCH && p->extent[BATCH] == 1;
}

/* Returns true if the result has no gaps and a pitch that the library accepts for gelu's operand. */
static bool is_whole(const mgpu_library_matmul *p)
{
    const mgpu_library_matrix *d = &p->d;
    return p->extent[ROWS] % PITCH == 0 && d->first == 0 && (d->pitch == 0 || d->pitch == p->extent[ROWS]) &&
           p->sampled != ROWS && p->sampled != BATCH && p->extent[BATCH] == 1;
}

/* Returns true for sums of an operand over the matmul's K, if the operand has only K and the other summed axis. */
static bool may_sum(const Task *contraction, const Task *task, const mgpu_library_matmul *p)
{
    const Tensor *t = task->reads[0];
    bool of_a = t == contraction->reads[p->a.argument];
    const mgpu_library_matrix *m = of_a ? &p->a : &p->b;
    int64_t along = p->extent[of_a ? ROWS : COLUMNS];
    return m->transposed != of_a && m->first == 0 && (m->pitch == 0 || m->pitch == along) && p->sampled == DEPTH &&
           p->extent[BATCH] == 1 && along * p->extent[DEPTH] == shape_count(&t->shape) &&
           task->writes[0]->dtype == sums_type(p) && shape_count(&task->writes[0]->shape) == along;
}

bool cuda_may_epilogue(const Task *contraction, const Task *task, const Epilogue *e, bool result)
{
    mgpu_library_matmul p;
    if (!cuda_library_call(contraction->kernel->contraction, &p))
        return false;
    switch (e->kind) {
    case EPILOGUE_SUMS: return may_sum(contraction, task, &p);
    case EPILOGUE_GELU_GRADIENT: return is_whole(&p) && (e->sums < 0 || is_vector(task->writes[e->sums], &p));
    default: return (e->bias < 0 || is_vector(task->reads[e->bias], &p)) && (!result || is_whole(&p));
    }
}

void cuda_print_epilogue(const Kernel *k, Text *t)
{
    static const int KIND[] = {[EPILOGUE_BIAS] = MGPU_EPILOGUE_BIAS,
                               [EPILOGUE_RELU] = MGPU_EPILOGUE_RELU,
                               [EPILOGUE_GELU] = MGPU_EPILOGUE_GELU,
                               [EPILOGUE_GELU_GRADIENT] = MGPU_EPILOGUE_DGELU,
                               [EPILOGUE_SUMS] = MGPU_EPILOGUE_BGRAD};
    const Epilogue *e = k->epilogue;
    if (e)
        text_add(t, ", .epilogue = %s",
                 C_ROW(C_NUMBER("kind", KIND[e->kind]), C_NUMBER("reads", k->read_count), C_NUMBER("writes", k->write_count),
                       C_TEXT("workspace", c_true(k->partial_bytes > 0)), C_NUMBER("x", e->x), C_NUMBER("bias", e->bias),
                       C_NUMBER("before", e->before), C_NUMBER("y", e->y), C_NUMBER("sums", e->sums)));
}
