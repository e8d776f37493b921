/* emit_scan.c: a scan as host C.
 *
 * In: a Kernel with a Scan (fuse_scan.c). Out: the functions of the kernels that it calls, named k12_0, k12_1 ..., and
 * k12 itself: for each chunk of samples pointers to its buffers, then the loop over steps: pointers to the step's slices, and
 * the calls. Buffers of a chunk hold its samples alone; their pointers are moved back by the chunk's first sample, so that
 * all kernels count samples alike. */
#include "compiler/emit.h"

#include <math.h>
#include <string.h>

typedef struct Writer {
    Printer print;            /* lines and names */
    const Kernel *kernel;
    const Scan *scan;
    const char **name;        /* of the pointers, by the tensors' ids */
} Writer;

static const char *shape_comment(const Writer *l, const Tensor *t)
{
    if (l->print.canonical)
        return "";
    return format(" /* [%s%s */", t->sharded ? t->shape.rank ? "n, " : "n" : "", shape_text(&t->shape) + 1);
}

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

/* ---- pointers */

static void print_arguments(Writer *l)
{
    const Kernel *k = l->kernel;
    for (int i = 0; i < k->read_count + k->write_count; i++) {
        const Tensor *t = i < k->read_count ? k->reads[i] : k->writes[i - k->read_count];
        emit_line(&l->print, "%s *const %s = argument[%d];%s", emit_element_type(t->dtype), new_name(l, t), i,
                  shape_comment(l, t));
    }
    bool works = l->scan->carry_count + l->scan->buffer_count > 0;
    for (int i = 0; i < l->scan->call_count; i++)
        works = works || l->scan->calls[i].work >= 0;
    if (works)
        emit_line(&l->print, "char *const work = argument[%d];", k->read_count + k->write_count);
}

static void print_buffer(Writer *l, const Tensor *t, int64_t offset, const char *qualifier)
{
    const char *type = emit_element_type(t->dtype), *back = "";
    if (t->sharded)
        back = format(" - begin * %lld", (long long)elements(t));
    emit_line(&l->print, "%s *%s%s = (%s *)(work + %lld)%s;%s", type, qualifier, new_name(l, t), type, (long long)offset, back,
         shape_comment(l, t));
}

/* ---- before the first step, and behind the last */

/* count elements from one place to another, for the chunk's samples if the target has any */
static void print_copy(Writer *l, const Tensor *to, const Tensor *from)
{
    const char *a = name_of(l, to), *b = name_of(l, from);
    int64_t count = elements(to), bytes = count * dtype_bytes(to->dtype);
    if (!to->sharded) {
        emit_line(&l->print, "memcpy(%s, %s, %lld);", a, b, (long long)bytes);
    } else if (from->sharded && tensor_pitch(to) == count && tensor_pitch(from) == count) {
        emit_line(&l->print, "memcpy(%s + begin * %lld, %s + begin * %lld, (size_t)(end - begin) * %lld);", a, (long long)count,
                  b, (long long)count, (long long)bytes);
    } else {
        emit_line(&l->print, "for (int64_t i = begin; i < end; i++)");
        emit_line(&l->print, "    memcpy(%s + i * %lld, %s%s, %lld);", a, (long long)tensor_pitch(to), b,
             from->sharded ? format(" + i * %lld", (long long)tensor_pitch(from)) : "", (long long)bytes);
    }
}

static void print_fill(Writer *l, const Tensor *to, double value)
{
    const char *name = name_of(l, to);
    int64_t count = elements(to);
    if (value == 0 && !signbit(value)) {
        if (to->sharded)
            emit_line(&l->print, "memset(%s + begin * %lld, 0, (size_t)(end - begin) * %lld);", name, (long long)count,
                 (long long)count * dtype_bytes(to->dtype));
        else
            emit_line(&l->print, "memset(%s, 0, %lld);", name, (long long)count * dtype_bytes(to->dtype));
        return;
    }
    if (to->sharded)
        emit_line(&l->print, "for (int64_t i = begin * %lld; i < end * %lld; i++)", (long long)count, (long long)count);
    else
        emit_line(&l->print, "for (int64_t i = 0; i < %lld; i++)", (long long)count);
    emit_line(&l->print, "    %s[i] = %s;", name, emit_literal(value, to->dtype));
}

/* ---- the loop */

static void print_call(Writer *l, int number, const char *function)
{
    const Scan *s = l->scan;
    const ScanCall *call = &s->calls[number];
    const Kernel *k = call->kernel;
    Text list = {0};
    for (int i = 0; i < k->read_count + k->write_count; i++)
        text_add(&list, "%s%s", i ? ", " : "", name_of(l, i < k->read_count ? k->reads[i] : k->writes[i - k->read_count]));
    if (call->work >= 0)
        text_add(&list, ", work + %lld", (long long)call->work);
    emit_line(&l->print, "%s_%d((void *const[]){%s}, step, &%s);", function, number, text_of(&list),
              call->fresh ? "fresh" : "own");
}

static void print_steps(Writer *l, const char *function)
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
             (long long)elements(slice), shape_comment(l, slice));
    }
    for (int i = 0; i < s->call_count; i++)
        print_call(l, i, function);
    for (int i = 0; i < s->carry_count; i++) {
        const ScanCarry *c = &s->carries[i];
        const char *now = name_of(l, c->now), *next = name_of(l, c->next);
        emit_line(&l->print, "void *const last%s = %s;", i ? format("_%d", i + 1) : "", now);
        emit_line(&l->print, "%s = %s;", now, next);
        emit_line(&l->print, "%s = last%s;", next, i ? format("_%d", i + 1) : "");
    }
    if (scan_keeps(s))
        emit_line(&l->print, "own.first = false;");
    l->print.indent--;
    emit_line(&l->print, "}");
}

static bool any_fresh(const Scan *s)
{
    for (int i = 0; i < s->call_count; i++)
        if (s->calls[i].fresh)
            return true;
    return false;
}

static void larger(int *most, const Tensor *t) { *most = t->id > *most ? t->id : *most; }

int scan_most_id(const Kernel *k)
{
    const Scan *s = k->scan;
    int most = 0;
    for (int i = 0; i < k->read_count; i++)
        larger(&most, k->reads[i]);
    for (int i = 0; i < k->write_count; i++)
        larger(&most, k->writes[i]);
    for (int i = 0; i < s->carry_count; i++) {
        larger(&most, s->carries[i].now);
        larger(&most, s->carries[i].next);
    }
    for (int i = 0; i < s->slice_count; i++)
        larger(&most, s->slices[i].slice);
    for (int i = 0; i < s->buffer_count; i++)
        larger(&most, s->buffers[i].tensor);
    return most;
}

static void print_loop(const Kernel *k, Text *t, const char *function, bool canonical)
{
    const Scan *s = k->scan;
    static const char *const OWN[] = {"work", "own", "fresh", "chunks", "t", "i", "last"};
    Writer l = {.print = {.kernel = k, .t = t, .canonical = canonical, .indent = 1}, .kernel = k, .scan = s};
    bool fresh = any_fresh(s);
    l.name = NEW_ARRAY(const char *, scan_most_id(k) + 1);
    emit_reserve(&l.print);
    for (int i = 0; i < COUNT(OWN); i++)
        map_set(&l.print.names, OWN[i], EMIT_TAKEN);
    for (int i = 1; i < s->carry_count; i++)
        map_set(&l.print.names, format("last_%d", i + 1), EMIT_TAKEN);
    text_add(t, "static void %s(void *const *argument, const mgpu_step *step, const mgpu_part *part)\n{\n", function);
    print_arguments(&l);
    emit_line(&l.print, "mgpu_part own = *part;");
    emit_line(&l.print, "own.thread = 0;");
    emit_line(&l.print, "own.threads = 1;");
    if (s->samples) {
        emit_line(&l.print, "int64_t end, chunks = (part->end - part->begin + %lld) / %lld;", (long long)s->chunk - 1,
                  (long long)s->chunk);
        emit_line(&l.print, "for (int64_t begin = part->begin; begin < part->end; begin = end, chunks--) {");
        l.print.indent++;
        emit_line(&l.print, "end = begin + (part->end - begin + chunks - 1) / chunks;");
        emit_line(&l.print, "own.begin = begin;");
        emit_line(&l.print, "own.end = end;");
    }
    if (fresh) {
        emit_line(&l.print, "mgpu_part fresh = own;");
        emit_line(&l.print, "fresh.first = true;");
    }
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
    print_steps(&l, function);
    for (int i = 0; i < s->carry_count; i++)
        if (s->carries[i].last)
            print_copy(&l, s->carries[i].last, s->carries[i].now);
    if (s->samples) {
        l.print.indent--;
        emit_line(&l.print, "}");
    }
    text_add(t, "}\n");
}

/* ---- all of it */

/* while the numbers of tensors are those of the fuser */
void scan_name(Kernel *k)
{
    Text loop = {0};
    for (int i = 0; i < k->scan->call_count; i++) {
        Kernel *called = k->scan->calls[i].kernel;
        called->name = format("%s_%d", k->name, i);
        if (called->scan) {
            scan_name(called);
        } else if (called->nest_count) {
            Text t = {0};
            kernel_print(called, &t);
            called->text = text_of(&t);
        }
    }
    print_loop(k, &loop, k->name, false);
    k->text = text_of(&loop);
}

void scan_emit(const Kernel *k, Text *t)
{
    const Scan *s = k->scan;
    for (int i = 0; i < s->call_count; i++) {
        const Kernel *called = s->calls[i].kernel;
        if (called->nest_count || called->scan)
            text_add(t, "/* %s: %s */\n", called->name, called->title);
        kernel_emit(called, t);
        text_add(t, "\n");
    }
    text_add(t, "/* %s: %lld steps%s%s */\n", k->name, (long long)s->steps, s->reverse ? ", the last one first" : "",
             s->samples ? format(", %lld samples at a time", (long long)s->chunk) : "");
    text_add(t, "%s", k->text);
}

const char *scan_key(const Kernel *k)
{
    Text t = {0};
    for (int i = 0; i < k->scan->call_count; i++) {
        const Kernel *called = k->scan->calls[i].kernel;
        if (called->contraction)
            text_add(&t, "%s", contraction_key(called->contraction));
        else if (called->attention)
            text_add(&t, "%s", attention_key(called->attention));
        else if (called->rows)
            text_add(&t, "%s", rows_key(called->rows));
        else if (called->scan)
            text_add(&t, "%s", scan_key(called));
        else
            kernel_print_canonical(called, &t);
        text_add(&t, "\n");
    }
    print_loop(k, &t, "kernel", true);
    return text_take(&t);
}
