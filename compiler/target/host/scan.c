/* scan.c: a scan as host C.
 *
 * In: a Kernel with a Scan (fuse/scan.c). Out: the functions of the kernels that it calls, named k12_0, k12_1 ..., and
 * k12 itself: for each chunk of samples pointers to its buffers, then the loop over steps: pointers to the step's slices, and
 * the calls. Buffers of a chunk hold its samples alone; their pointers are moved back by the chunk's first sample, so that
 * all kernels count samples alike. */
#include "compiler/target/host/host.h"
#include "compiler/kernel/phase.h"
#include "compiler/target/c/scan.h"

#include <math.h>

/* ---- pointers */

static void print_arguments(ScanWriter *w)
{
    const Kernel *k = w->kernel;
    for (int i = 0; i < k->read_count + k->write_count; i++) {
        const Tensor *t = scan_argument(k, i);
        emit_line(&w->print, "%s *const %s = argument[%d];%s", emit_element_type(t->dtype), scan_new_pointer(w, t), i,
                  emit_shape_comment(&w->print, t));
    }
    bool works = w->scan->carry_count + w->scan->buffer_count > 0;
    for (int i = 0; i < w->scan->call_count; i++)
        works = works || w->scan->calls[i].work >= 0;
    if (works)
        emit_line(&w->print, "char *const work = argument[%d];", k->read_count + k->write_count);
}

/* ---- before the first step, and after the last */

/* count elements from one place to another, for the chunk's samples if the target has any */
static void print_copy(ScanWriter *w, const Tensor *to, const Tensor *from)
{
    const char *a = scan_pointer(w, to), *b = scan_pointer(w, from);
    int64_t count = scan_elements(to), bytes = count * dtype_bytes(to->dtype);
    if (!to->sharded) {
        emit_line(&w->print, "memcpy(%s, %s, %lld);", a, b, (long long)bytes);
    } else if (from->sharded && tensor_pitch(to) == count && tensor_pitch(from) == count) {
        emit_line(&w->print, "memcpy(%s + begin * %lld, %s + begin * %lld, (size_t)(end - begin) * %lld);", a, (long long)count,
                  b, (long long)count, (long long)bytes);
    } else {
        emit_line(&w->print, "for (int64_t i = begin; i < end; i++)");
        emit_line(&w->print, "    memcpy(%s + i * %lld, %s%s, %lld);", a, (long long)tensor_pitch(to), b,
             from->sharded ? format(" + i * %lld", (long long)tensor_pitch(from)) : "", (long long)bytes);
    }
}

static void print_fill(ScanWriter *w, const Tensor *to, double value)
{
    const char *name = scan_pointer(w, to);
    int64_t count = scan_elements(to);
    if (value == 0 && !signbit(value)) {
        if (to->sharded)
            emit_line(&w->print, "memset(%s + begin * %lld, 0, (size_t)(end - begin) * %lld);", name, (long long)count,
                 (long long)count * dtype_bytes(to->dtype));
        else
            emit_line(&w->print, "memset(%s, 0, %lld);", name, (long long)count * dtype_bytes(to->dtype));
        return;
    }
    if (to->sharded)
        emit_line(&w->print, "for (int64_t i = begin * %lld; i < end * %lld; i++)", (long long)count, (long long)count);
    else
        emit_line(&w->print, "for (int64_t i = 0; i < %lld; i++)", (long long)count);
    emit_line(&w->print, "    %s[i] = %s;", name, emit_literal(value, to->dtype));
}

/* ---- the loop */

static void print_call(ScanWriter *w, int number)
{
    const Scan *s = w->scan;
    const ScanCall *call = &s->calls[number];
    const Kernel *k = call->kernel;
    Text list = {0};
    for (int i = 0; i < k->read_count + k->write_count; i++)
        text_add(&list, "%s%s", i ? ", " : "", scan_pointer(w, scan_argument(k, i)));
    if (call->work >= 0)
        text_add(&list, ", work + %lld", (long long)call->work);
    emit_line(&w->print, EMIT_OWN "_%d((void *const[]){%s}, step, &%s);", number, text_take(&list), call->fresh ? "fresh" : "own");
}

static bool any_fresh(const Scan *s)
{
    for (int i = 0; i < s->call_count; i++)
        if (s->calls[i].fresh)
            return true;
    return false;
}

static void print_loop(const Kernel *k, Text *t)
{
    const Scan *s = k->scan;
    static const char *const OWN[] = {"own", "fresh", "chunks", "i"};
    ScanWriter w = {.print = {.kernel = k, .t = t, .indent = 1}, .kernel = k, .scan = s, .call = print_call, .copy = print_copy, .fill = print_fill};
    scan_begin_text(&w, OWN, COUNT(OWN));
    text_add(t, "static void " EMIT_OWN "(void *const *argument, const mgpu_step *step, const mgpu_part *part)\n{\n");
    print_arguments(&w);
    emit_line(&w.print, "mgpu_part own = *part;");
    emit_line(&w.print, "own.thread = 0;");
    emit_line(&w.print, "own.threads = 1;");
    if (s->samples) {
        emit_line(&w.print, "int64_t end, chunks = (part->end - part->begin + %lld) / %lld;", (long long)s->chunk - 1,
                  (long long)s->chunk);
        emit_line(&w.print, "for (int64_t begin = part->begin; begin < part->end; begin = end, chunks--) {");
        w.print.indent++;
        emit_line(&w.print, "end = begin + (part->end - begin + chunks - 1) / chunks;");
        emit_line(&w.print, "own.begin = begin;");
        emit_line(&w.print, "own.end = end;");
    }
    if (any_fresh(s)) {
        emit_line(&w.print, "mgpu_part fresh = own;");
        emit_line(&w.print, "fresh.first = true;");
    }
    scan_print_buffers(&w);
    scan_print_initial(&w);
    scan_print_steps(&w, scan_keeps(s) ? "own.first = false;" : NULL);
    scan_print_last(&w);
    if (s->samples)
        emit_close(&w.print);
    text_add(t, "}\n");
}

/* ---- all of it */

/* while the numbers of tensors are those of the fuser */
void scan_print(Kernel *k) { scan_print_parts(k, kernel_print, print_loop); }

void scan_emit(const Kernel *k, Text *t)
{
    const Scan *s = k->scan;
    for (int i = 0; i < s->call_count; i++) {
        const Kernel part = scan_part(k, i);
        if (part.nest_count || part.scan)
            text_add(t, "%s\n", c_comment("%s: %s", part.name, part.title));
        host_target.print(&part, t);
        text_add(t, "\n");
    }
    text_add(t, "%s\n", c_comment("%s: %lld steps%s%s", k->name, (long long)s->steps, s->reverse ? ", the last one first" : "",
                                  s->samples ? format(", %lld samples at a time", (long long)s->chunk) : ""));
    emit_named(k, k->text, t);
}
