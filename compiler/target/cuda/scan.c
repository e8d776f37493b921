/* scan.c: a scan on GPUs.
 *
 * In: a Kernel with a Scan (fuse/scan.c). Out: k12: each block takes a few samples through all steps. It calls functions of a
 * block, for samples [begin, end): k12_0, k12_1 ... of the kernels of the body, with a barrier after each; k12_steps is the loop.
 * The loop's buffers are in the block's part of the workspace. They hold only the block's samples. Their pointers are moved back
 * by the first of these, so that all functions count samples alike. Nothing is __restrict__: a step reads what the previous one
 * wrote. */
#include "compiler/kernel/phase.h"
#include "compiler/loops/scan.h"
#include "compiler/target/cuda/cuda.h"
#include "compiler/target/cuda/tiles.h"

/* ---- called functions */

int cuda_scan_shared_bytes(const Kernel *k)
{
    int most = 0;
    for (int i = 0; i < k->scan->call_count; i++) {
        const Kernel *called = k->scan->calls[i].kernel;
        int bytes = CUDA_KIND[called->kind].shared_bytes(called);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static const Term *barrier(void) { return term_call("__syncthreads", 0, NULL); }

static void add_call(ScanLowering *w, int number)
{
    const ScanCall *call = &w->scan->calls[number];
    const Kernel *k = call->kernel;
    const CudaKind *kind = &CUDA_KIND[k->kind];
    const Term **list = NULL;
    int count = 0;
    for (int i = 0; i < k->read_count + k->write_count; i++)
        APPEND(list, count, scan_pointer(w, scan_argument(k, i)));
    if (call->work >= 0)
        APPEND(list, count, term_add(term_word("work"), term_whole(call->work)));
    if (*kind->given)
        APPEND(list, count, term_word(kind->given));
    APPEND(list, count, term_word("begin"));
    APPEND(list, count, term_word("end"));
    code_do(&w->base.to, term_call_of(term_kernel(format("_%d%s", number, kind->end)), count, list));
    if (kind->needs_barrier)
        code_do(&w->base.to, barrier());
}

/* ---- pointers */

static void add_parameters(ScanLowering *w)
{
    static const struct {
        const char *type, *name;
    } LAST[] = {
        {"char *", "work"}, {"char *", "shared"}, {"const mgpu_step *", "step"}, {"int64_t", "begin"}, {"int64_t", "end"}};
    const Kernel *k = w->kernel;
    Code *code = w->base.to.code;
    for (int i = 0; i < k->read_count + k->write_count; i++) {
        const Tensor *t = scan_argument(k, i);
        APPEND(code->parameters, code->parameter_count,
               ((CodeParameter){format("%s *", element_type(t->dtype)), scan_new_pointer(w, t), shape_remark(t)}));
    }
    for (int i = k->scan->work_bytes ? 0 : 1; i < COUNT(LAST); i++)
        APPEND(code->parameters, code->parameter_count, ((CodeParameter){LAST[i].type, term_word(LAST[i].name), NULL}));
}

/* ---- before the first step, and after the last */

static void add_copy(ScanLowering *w, const Tensor *to, const Tensor *from)
{
    const Term *a = scan_pointer(w, to), *b = scan_pointer(w, from), *zero = term_word("0");
    const Term *pitch = to->has_samples ? term_whole(tensor_pitch(to)) : zero,
               *pitch_from = to->has_samples && from->has_samples ? term_whole(tensor_pitch(from)) : zero;
    code_do(&w->base.to, CALL("mgpu_block_copy_rows", a, pitch, b, pitch_from, term_whole(scan_elements(to)),
                              to->has_samples ? term_word("begin") : zero, to->has_samples ? term_word("end") : term_word("1")));
}

static void add_fill(ScanLowering *w, const Tensor *to, double value)
{
    const Term *name = scan_pointer(w, to), *literal = literal_term(value, to->dtype), *all = term_whole(scan_elements(to)),
               *begin = term_word("begin");
    if (dtype_is_half(to->dtype))
        literal = CALL(format("mgpu_to_%s", dtype_name(to->dtype)), literal);
    if (to->has_samples)
        name = term_add(name, term_times(begin, all));
    code_do(&w->base.to, CALL("mgpu_block_fill", name, literal,
                              to->has_samples ? term_binary(LEVEL_SUM, term_word("end"), "-", begin) : term_word("1"), all));
}

/* ---- the loop */

static const Code *lower_loop(const Kernel *k)
{
    static const char *const OWN[] = {"shared"};
    Code *code = NEW(Code);
    *code = (Code){.lines = true};
    ScanLowering w = {.base = {.kernel = k, .to.code = code, .cuda = true, .is_64_bit = cuda_index_is_64_bit, .block = true},
                      .kernel = k,
                      .scan = k->scan,
                      .call = add_call,
                      .copy = add_copy,
                      .fill = add_fill};
    scan_reserve_names(&w, OWN, COUNT(OWN));
    add_parameters(&w);
    scan_declare_buffers(&w);
    scan_add_initial(&w);
    if (w.scan->carry_count)
        code_do(&w.base.to, barrier());
    scan_open_steps(&w);
    code_close(&w.base.to);
    if (scan_add_last(&w))
        code_do(&w.base.to, barrier());
    return code;
}

/* ---- the kernel */

void cuda_lower_scan(Kernel *k) { scan_lower_parts(k, cuda_lower_block, lower_loop); }

void cuda_print_block_scan(const Kernel *k, Text *t)
{
    const Scan *s = k->scan;
    for (int i = 0; i < s->call_count; i++) {
        const Kernel part = scan_part(k, i);
        CUDA_KIND[part.kind].print_block(&part, t);
        text_add(t, "\n");
    }
    text_add(t, "%s\nstatic __device__ void %s_steps",
             c_comment("%s: %lld steps%s", k->name, (long long)s->steps, s->reverse ? ", the last one first" : ""), k->name);
    code_print(k->code, &(CodePrint){.kernel = k->name}, t);
}

void cuda_scan_print(const Kernel *k, Text *t)
{
    const Scan *s = k->scan;
    Text list = {0};
    cuda_print_block_scan(k, t);
    text_add(t, "\nextern \"C\" __global__ void %s(", k->name);
    for (int i = 0; i < k->read_count + k->write_count; i++) {
        text_add(t, "%s *a%d, ", element_type(scan_argument(k, i)->dtype), i);
        text_add(&list, "a%d, ", i);
    }
    text_add(t, "%sconst mgpu_step *step, int64_t n)\n{\n    " CUDA_FIRST "\n", s->work_bytes ? "char *work, " : "");
    const char *shared = cuda_scan_shared_bytes(k) ? "mgpu_dynamic_shared()" : "NULL";
    if (s->samples) {
        text_add(t, "    for (int64_t chunk = blockIdx.x, begin; (begin = chunk * %lld) < n; chunk += gridDim.x)\n",
                 (long long)s->chunk);
        text_add(t, "        %s_steps(%s%s%s, step, begin, begin + %lld < n ? begin + %lld : n);\n", k->name, text_of(&list),
                 s->work_bytes ? format("work + chunk * %lld, ", (long long)s->work_bytes) : "", shared, (long long)s->chunk,
                 (long long)s->chunk);
    } else {
        text_add(t, "    if (blockIdx.x == 0)\n        %s_steps(%s%s%s, step, 0, 0);\n", k->name, text_of(&list),
                 s->work_bytes ? "work, " : "", shared);
    }
    text_add(t, "}\nMGPU_ENTRY(%s)\n", k->name);
}

mgpu_launch cuda_scan_launch(const Kernel *k)
{
    const Scan *s = k->scan;
    mgpu_launch l = {.function = k->name,
                     .per_block = s->chunk,
                     .most = INT32_MAX,
                     .threads = CUDA_THREADS,
                     .shared_bytes = cuda_scan_shared_bytes(k)};
    *(s->samples ? &l.iterations_per_sample : &l.iterations) = 1;
    return l;
}
