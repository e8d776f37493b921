/* cuda_scan.c: a scan as CUDA C.
 *
 * In: a Kernel with a Scan (fuse_scan.c). Out: k12: each block takes a few samples through all steps. What it calls are functions
 * of a block, for samples [begin, end): k12_0, k12_1 ... of the kernels of the body, with a barrier behind each; k12_steps is the
 * loop. What the loop works on lies in the block's part of the workspace. Its buffers hold the block's samples alone; their
 * pointers are moved back by the first of them, so that all functions count samples alike. Nothing is __restrict__: what a loop
 * writes in one step it reads in the next. */
#include "compiler/cuda.h"
#include "compiler/cuda_tiles.h"

#include <math.h>

typedef struct Writer {
    Printer print;            /* lines and names */
    const Kernel *kernel;
    const Scan *scan;
    const char **name;        /* of the pointers, by the tensors' ids */
} Writer;

static const char *name_of(const Writer *l, const Tensor *t)
{
    if (!l->name[t->id])
        die("a scan does not know where '%s' lies", t->name);
    return l->name[t->id];
}

static const char *new_name(Writer *l, const Tensor *t)
{
    return l->name[t->id] = emit_name(&l->print, kernel_argument_name(t));
}

static int64_t elements(const Tensor *t) { return shape_count(&t->shape); }

static const Tensor *argument(const Kernel *k, int i) { return i < k->read_count ? k->reads[i] : k->writes[i - k->read_count]; }

/* ---- what is called */

static int max_of(int a, int b) { return a > b ? a : b; }

static int shared_bytes(const Scan *s)
{
    int most = 0;
    for (int i = 0; i < s->call_count; i++) {
        const Kernel *k = s->calls[i].kernel;
        if (k->contraction)
            most = max_of(most, cuda_block_shared_bytes(k->contraction));
        if (k->attention)
            most = max_of(most, cuda_block_attention_shared_bytes(k->attention));
        if (k->rows)
            most = max_of(most, cuda_block_rows_shared_bytes(k->rows));
        if (k->scan)
            most = max_of(most, shared_bytes(k->scan));
    }
    return most;
}

static void print_call(Writer *l, int number)
{
    const ScanCall *call = &l->scan->calls[number];
    const Kernel *k = call->kernel;
    Text list = {0};
    for (int i = 0; i < k->read_count + k->write_count; i++)
        text_add(&list, "%s, ", name_of(l, argument(k, i)));
    if (call->work >= 0)
        text_add(&list, "work + %lld, ", (long long)call->work);
    text_add(&list, k->contraction ? "shared, " : k->scan ? "shared, step, " : k->nest_count ? "step, " : "");
    emit_line(&l->print, "%s%s(%sbegin, end);", k->name, k->scan ? "_steps" : "", text_of(&list));
    if (!k->contraction && !k->scan) /* they end with one */
        emit_line(&l->print, "__syncthreads();");
}

/* ---- pointers */

static void print_parameters(Writer *l)
{
    const Kernel *k = l->kernel;
    text_add(l->print.t, "(\n");
    for (int i = 0; i < k->read_count + k->write_count; i++) {
        const Tensor *t = argument(k, i);
        emit_line(&l->print, "%s *%s,%s", emit_element_type(t->dtype), new_name(l, t), cuda_shape_comment(&l->print, t));
    }
    emit_line(&l->print, "%schar *shared, const mgpu_step *step, int64_t begin, int64_t end)", k->scan->work_bytes ? "char *work, " : "");
    text_add(l->print.t, "{\n");
}

static void print_buffer(Writer *l, const Tensor *t, int64_t offset, const char *qualifier)
{
    const char *type = emit_element_type(t->dtype), *back = "";
    if (t->sharded)
        back = format(" - begin * %lld", (long long)elements(t));
    emit_line(&l->print, "%s *%s%s = (%s *)(work + %lld)%s;%s", type, qualifier, new_name(l, t), type, (long long)offset, back,
              cuda_shape_comment(&l->print, t));
}

/* ---- before the first step, and behind the last */

static void print_copy(Writer *l, const Tensor *to, const Tensor *from)
{
    const char *a = name_of(l, to), *b = name_of(l, from);
    if (to->sharded)
        emit_line(&l->print, "mgpu_block_copy_rows(%s, %lld, %s, %lld, %lld, begin, end);", a, (long long)tensor_pitch(to), b,
                  (long long)(from->sharded ? tensor_pitch(from) : 0), (long long)elements(to));
    else
        emit_line(&l->print, "mgpu_block_copy_rows(%s, 0, %s, 0, %lld, 0, 1);", a, b, (long long)elements(to));
}

static void print_fill(Writer *l, const Tensor *to, double value)
{
    const char *literal = emit_literal(value, to->dtype);
    if (dtype_is_half(to->dtype))
        literal = format("mgpu_to_%s(%s)", dtype_name(to->dtype), literal);
    emit_line(&l->print, "mgpu_block_fill(%s%s, %s, %s, %lld);", name_of(l, to), to->sharded ? format(" + begin * %lld", (long long)elements(to)) : "",
              literal, to->sharded ? "end - begin" : "1", (long long)elements(to));
}

/* ---- the loop */

static void print_steps(Writer *l)
{
    const Scan *s = l->scan;
    if (s->reverse)
        emit_line(&l->print, "for (int64_t t = %lld; t >= 0; t--) {", (long long)s->steps - 1);
    else
        emit_line(&l->print, "for (int64_t t = 0; t < %lld; t++) {", (long long)s->steps);
    l->print.indent++;
    for (int i = 0; i < s->slice_count; i++) {
        const Tensor *slice = s->slices[i].slice, *whole = s->slices[i].whole;
        const char *from = name_of(l, whole);
        emit_line(&l->print, "%s *const %s = %s + t * %lld;%s", emit_element_type(slice->dtype), new_name(l, slice), from,
                  (long long)elements(slice), cuda_shape_comment(&l->print, slice));
    }
    for (int i = 0; i < s->call_count; i++)
        print_call(l, i);
    for (int i = 0; i < s->carry_count; i++) {
        const ScanCarry *c = &s->carries[i];
        const char *now = name_of(l, c->now), *next = name_of(l, c->next), *last = i ? format("last_%d", i + 1) : "last";
        emit_line(&l->print, "%s *const %s = %s;", emit_element_type(c->now->dtype), last, now);
        emit_line(&l->print, "%s = %s;", now, next);
        emit_line(&l->print, "%s = %s;", next, last);
    }
    emit_close(&l->print);
}

static void print_loop(const Kernel *k, Text *t)
{
    static const char *const OWN[] = {"work", "shared", "end", "t", "last"};
    const Scan *s = k->scan;
    Writer l = {.print = {.kernel = k, .t = t, .indent = 1, .cuda = true, .block = true}, .kernel = k, .scan = s};
    l.name = NEW_ARRAY(const char *, scan_most_id(k) + 1);
    emit_reserve(&l.print);
    for (int i = 0; i < COUNT(OWN); i++)
        map_set(&l.print.names, OWN[i], EMIT_TAKEN);
    for (int i = 1; i < s->carry_count; i++)
        map_set(&l.print.names, format("last_%d", i + 1), EMIT_TAKEN);
    print_parameters(&l);
    for (int i = 0; i < s->carry_count; i++) {
        print_buffer(&l, s->carries[i].now, s->carries[i].at[0], "");
        print_buffer(&l, s->carries[i].next, s->carries[i].at[1], "");
    }
    for (int i = 0; i < s->buffer_count; i++)
        print_buffer(&l, s->buffers[i].tensor, s->buffers[i].offset, "const ");
    for (int i = 0; i < s->carry_count; i++) {
        const ScanCarry *c = &s->carries[i];
        if (c->initial)
            print_copy(&l, c->now, c->initial);
        else
            print_fill(&l, c->now, c->fill);
    }
    if (s->carry_count)
        emit_line(&l.print, "__syncthreads();");
    print_steps(&l);
    bool any = false;
    for (int i = 0; i < s->carry_count; i++)
        if (s->carries[i].last) {
            print_copy(&l, s->carries[i].last, s->carries[i].now);
            any = true;
        }
    if (any)
        emit_line(&l.print, "__syncthreads();");
    text_add(t, "}\n");
}

/* ---- all of it */

void cuda_scan_name(Kernel *k)
{
    Text loop = {0};
    for (int i = 0; i < k->scan->call_count; i++) {
        Kernel *called = k->scan->calls[i].kernel;
        called->name = format("%s_%d", k->name, i);
        if (called->scan) {
            cuda_scan_name(called);
        } else if (called->nest_count) {
            Text t = {0};
            cuda_print_block(called, &t);
            called->text = text_of(&t);
        }
    }
    print_loop(k, &loop);
    k->text = text_of(&loop);
}

static void print_functions(const Kernel *k, Text *t)
{
    const Scan *s = k->scan;
    for (int i = 0; i < s->call_count; i++) {
        const Kernel *called = s->calls[i].kernel;
        if (called->contraction) {
            cuda_print_block_contraction(called->contraction, called->name, t);
        } else if (called->attention) {
            cuda_print_block_attention(called->attention, called->name, t);
        } else if (called->rows) {
            cuda_print_block_rows(called->rows, called->name, t);
        } else if (called->scan) {
            print_functions(called, t);
        } else {
            text_add(t, "/* %s: %s */\nstatic __device__ void %s%s", called->name, called->title, called->name, called->text);
        }
        text_add(t, "\n");
    }
    text_add(t, "/* %s: %lld steps%s */\nstatic __device__ void %s_steps%s", k->name, (long long)s->steps,
             s->reverse ? ", the last one first" : "", k->name, k->text);
}

void cuda_scan_print(const Kernel *k, Text *t)
{
    const Scan *s = k->scan;
    Text list = {0};
    print_functions(k, t);
    text_add(t, "\nextern \"C\" __global__ void %s(", k->name);
    for (int i = 0; i < k->read_count + k->write_count; i++) {
        text_add(t, "%s *a%d, ", emit_element_type(argument(k, i)->dtype), i);
        text_add(&list, "a%d, ", i);
    }
    text_add(t, "%sconst mgpu_step *step, int64_t n)\n{\n", s->work_bytes ? "char *work, " : "");
    const char *shared = shared_bytes(s) ? "mgpu_dynamic_shared()" : "NULL";
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
    mgpu_launch l = {.function = k->name, .per_block = s->chunk, .most = INT32_MAX, .threads = CUDA_THREADS, .shared_bytes = shared_bytes(s)};
    *(s->samples ? &l.points_per_sample : &l.points) = 1;
    return l;
}
