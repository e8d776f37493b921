/* scan.c: a scan as CUDA C.
 *
 * In: a Kernel with a Scan (fuse/scan.c). Out: k12: each block takes a few samples through all steps. What it calls are functions
 * of a block, for samples [begin, end): k12_0, k12_1 ... of the kernels of the body, with a barrier after each; k12_steps is the
 * loop. What the loop works on is in the block's part of the workspace. Its buffers hold the block's samples alone; their
 * pointers are moved back by the first of them, so that all functions count samples alike. Nothing is __restrict__: what a loop
 * writes in one step it reads in the next. */
#include "compiler/kernel/phase.h"
#include "compiler/target/c/scan.h"
#include "compiler/target/cuda/cuda.h"
#include "compiler/target/cuda/tiles.h"

/* ---- what is called */

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

static void print_call(ScanWriter *w, int number)
{
    const ScanCall *call = &w->scan->calls[number];
    const Kernel *k = call->kernel;
    const CudaKind *kind = &CUDA_KIND[k->kind];
    Text list = {0};
    for (int i = 0; i < k->read_count + k->write_count; i++)
        text_add(&list, "%s, ", scan_pointer(w, scan_argument(k, i)));
    if (call->work >= 0)
        text_add(&list, "work + %lld, ", (long long)call->work);
    text_add(&list, "%s", kind->given);
    emit_line(&w->print, EMIT_OWN "_%d%s(%sbegin, end);", number, kind->end, text_of(&list));
    if (kind->meets)
        emit_line(&w->print, "__syncthreads();");
}

/* ---- pointers */

static void print_parameters(ScanWriter *w)
{
    const Kernel *k = w->kernel;
    text_add(w->print.t, "(\n");
    for (int i = 0; i < k->read_count + k->write_count; i++) {
        const Tensor *t = scan_argument(k, i);
        emit_line(&w->print, "%s *%s,%s", emit_element_type(t->dtype), scan_new_pointer(w, t), emit_shape_comment(&w->print, t));
    }
    emit_line(&w->print, "%schar *shared, const mgpu_step *step, int64_t begin, int64_t end)", k->scan->work_bytes ? "char *work, " : "");
    text_add(w->print.t, "{\n");
}

/* ---- before the first step, and after the last */

static void print_copy(ScanWriter *w, const Tensor *to, const Tensor *from)
{
    const char *a = scan_pointer(w, to), *b = scan_pointer(w, from);
    if (to->sharded)
        emit_line(&w->print, "mgpu_block_copy_rows(%s, %lld, %s, %lld, %lld, begin, end);", a, (long long)tensor_pitch(to), b,
                  (long long)(from->sharded ? tensor_pitch(from) : 0), (long long)scan_elements(to));
    else
        emit_line(&w->print, "mgpu_block_copy_rows(%s, 0, %s, 0, %lld, 0, 1);", a, b, (long long)scan_elements(to));
}

static void print_fill(ScanWriter *w, const Tensor *to, double value)
{
    const char *literal = emit_literal(value, to->dtype);
    if (dtype_is_half(to->dtype))
        literal = format("mgpu_to_%s(%s)", dtype_name(to->dtype), literal);
    emit_line(&w->print, "mgpu_block_fill(%s%s, %s, %s, %lld);", scan_pointer(w, to), to->sharded ? format(" + begin * %lld", (long long)scan_elements(to)) : "",
              literal, to->sharded ? "end - begin" : "1", (long long)scan_elements(to));
}

/* ---- the loop */

static void print_loop(const Kernel *k, Text *t)
{
    static const char *const OWN[] = {"shared"};
    ScanWriter w = {.print = {.kernel = k, .t = t, .indent = 1, .cuda = true, .is_64_bit = cuda_index_is_64_bit, .block = true}, .kernel = k, .scan = k->scan,
                    .call = print_call, .copy = print_copy, .fill = print_fill};
    scan_begin_text(&w, OWN, COUNT(OWN));
    print_parameters(&w);
    scan_print_buffers(&w);
    scan_print_initial(&w);
    if (w.scan->carry_count)
        emit_line(&w.print, "__syncthreads();");
    scan_print_steps(&w, NULL);
    if (scan_print_last(&w))
        emit_line(&w.print, "__syncthreads();");
    text_add(t, "}\n");
}

/* ---- all of it */

void cuda_scan_prepare(Kernel *k) { scan_print_parts(k, cuda_print_block, print_loop); }

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
    emit_named(k, k->text, t);
}

void cuda_scan_print(const Kernel *k, Text *t)
{
    const Scan *s = k->scan;
    Text list = {0};
    cuda_print_block_scan(k, t);
    text_add(t, "\nextern \"C\" __global__ void %s(", k->name);
    for (int i = 0; i < k->read_count + k->write_count; i++) {
        text_add(t, "%s *a%d, ", emit_element_type(scan_argument(k, i)->dtype), i);
        text_add(&list, "a%d, ", i);
    }
    text_add(t, "%sconst mgpu_step *step, int64_t n)\n{\n    " CUDA_FIRST "\n", s->work_bytes ? "char *work, " : "");
    const char *shared = cuda_scan_shared_bytes(k) ? "mgpu_dynamic_shared()" : "NULL";
    if (s->samples) {
        text_add(t, "    for (int64_t chunk = blockIdx.x, begin; (begin = chunk * %lld) < n; chunk += gridDim.x)\n", (long long)s->chunk);
        text_add(t, "        %s_steps(%s%s%s, step, begin, begin + %lld < n ? begin + %lld : n);\n", k->name, text_of(&list),
                 s->work_bytes ? format("work + chunk * %lld, ", (long long)s->work_bytes) : "", shared, (long long)s->chunk, (long long)s->chunk);
    } else {
        text_add(t, "    if (blockIdx.x == 0)\n        %s_steps(%s%s%s, step, 0, 0);\n", k->name, text_of(&list), s->work_bytes ? "work, " : "", shared);
    }
    text_add(t, "}\nMGPU_ENTRY(%s)\n", k->name);
}

mgpu_launch cuda_scan_launch(const Kernel *k)
{
    const Scan *s = k->scan;
    mgpu_launch l = {.function = k->name, .per_block = s->chunk, .most = INT32_MAX, .threads = CUDA_THREADS, .shared_bytes = cuda_scan_shared_bytes(k)};
    *(s->samples ? &l.iterations_per_sample : &l.iterations) = 1;
    return l;
}
