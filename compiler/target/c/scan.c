/* scan.c: what the two texts of a scan have in common (c/scan.h).
 *
 * In: a Kernel with a Scan (fuse/scan.c), and how the language calls, copies and fills. Out: pointers to the buffers of a
 * chunk, moved back by its first sample so that all kernels count samples alike; the carries' first values; the loop over
 * steps: pointers to the step's slices, the calls, and carries that change places; the carries' last values. */
#include "compiler/kernel/phase.h"
#include "compiler/target/c/scan.h"

static void larger(int *most, const Tensor *t) { *most = t->id > *most ? t->id : *most; }

static int most_id(const Kernel *k)
{
    const Scan *s = k->scan;
    int most = 0;
    for (int i = 0; i < k->read_count + k->write_count; i++)
        larger(&most, scan_argument(k, i));
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

/* ---- names */

static const char *last_name(int carry) { return carry ? format("last_%d", carry + 1) : "last"; }

void scan_begin_text(ScanWriter *w, const char *const *own, int own_count)
{
    static const char *const ALL[] = {"work", "end", "t"};
    w->name = NEW_ARRAY(const char *, most_id(w->kernel) + 1);
    emit_reserve(&w->print);
    for (int i = 0; i < COUNT(ALL); i++)
        map_set(&w->print.names, ALL[i], EMIT_TAKEN);
    for (int i = 0; i < own_count; i++)
        map_set(&w->print.names, own[i], EMIT_TAKEN);
    for (int i = 0; i < w->scan->carry_count || i == 0; i++)
        map_set(&w->print.names, last_name(i), EMIT_TAKEN);
}

const char *scan_pointer(const ScanWriter *w, const Tensor *t)
{
    if (!w->name[t->id])
        die("a scan does not know where '%s' is stored", t->name);
    return w->name[t->id];
}

const char *scan_new_pointer(ScanWriter *w, const Tensor *t)
{
    return w->name[t->id] = emit_name(&w->print, kernel_argument_name(t));
}

const Tensor *scan_argument(const Kernel *k, int i) { return i < k->read_count ? k->reads[i] : k->writes[i - k->read_count]; }

int64_t scan_elements(const Tensor *t) { return shape_count(&t->shape); }

/* ---- buffers */

static void print_buffer(ScanWriter *w, const Tensor *t, int64_t offset, const char *qualifier)
{
    const char *type = emit_element_type(t->dtype), *back = "";
    if (t->sharded)
        back = format(" - begin * %lld", (long long)scan_elements(t));
    emit_line(&w->print, "%s *%s%s = (%s *)(work + %lld)%s;%s", type, qualifier, scan_new_pointer(w, t), type, (long long)offset, back,
              emit_shape_comment(&w->print, t));
}

void scan_print_buffers(ScanWriter *w)
{
    const Scan *s = w->scan;
    for (int i = 0; i < s->carry_count; i++) {
        print_buffer(w, s->carries[i].now, s->carries[i].at[0], "");
        print_buffer(w, s->carries[i].next, s->carries[i].at[1], "");
    }
    for (int i = 0; i < s->buffer_count; i++)
        print_buffer(w, s->buffers[i].tensor, s->buffers[i].offset, "const ");
}

/* ---- before the first step, and after the last */

void scan_print_initial(ScanWriter *w)
{
    for (int i = 0; i < w->scan->carry_count; i++) {
        const ScanCarry *c = &w->scan->carries[i];
        if (c->initial)
            w->copy(w, c->now, c->initial);
        else
            w->fill(w, c->now, c->fill);
    }
}

bool scan_print_last(ScanWriter *w)
{
    bool any = false;
    for (int i = 0; i < w->scan->carry_count; i++)
        if (w->scan->carries[i].last) {
            w->copy(w, w->scan->carries[i].last, w->scan->carries[i].now);
            any = true;
        }
    return any;
}

/* ---- the loop */

void scan_print_steps(ScanWriter *w, const char *after)
{
    const Scan *s = w->scan;
    if (s->reverse)
        emit_line(&w->print, "for (int64_t t = %lld; t >= 0; t--) {", (long long)s->steps - 1);
    else
        emit_line(&w->print, "for (int64_t t = 0; t < %lld; t++) {", (long long)s->steps);
    w->print.indent++;
    for (int i = 0; i < s->slice_count; i++) {
        const Tensor *slice = s->slices[i].slice;
        const char *from = scan_pointer(w, s->slices[i].whole);
        emit_line(&w->print, "%s *const %s = %s + t * %lld;%s", emit_element_type(slice->dtype), scan_new_pointer(w, slice), from,
                  (long long)scan_elements(slice), emit_shape_comment(&w->print, slice));
    }
    for (int i = 0; i < s->call_count; i++)
        w->call(w, i);
    for (int i = 0; i < s->carry_count; i++) {
        const ScanCarry *c = &s->carries[i];
        const char *now = scan_pointer(w, c->now), *next = scan_pointer(w, c->next), *last = last_name(i);
        const char *type = w->print.cuda ? emit_element_type(c->now->dtype) : "void"; /* C++ converts no void * */
        emit_line(&w->print, "%s *const %s = %s;", type, last, now);
        emit_line(&w->print, "%s = %s;", now, next);
        emit_line(&w->print, "%s = %s;", next, last);
    }
    if (after)
        emit_line(&w->print, "%s", after);
    emit_close(&w->print);
}

/* ---- all of it */

Kernel scan_part(const Kernel *k, int i)
{
    Kernel part = *k->scan->calls[i].kernel;
    part.name = format("%s_%d", k->name, i);
    return part;
}

void scan_print_parts(Kernel *k, PrintKernel *nest, PrintKernel *loop)
{
    for (int i = 0; i < k->scan->call_count; i++) {
        Kernel *called = k->scan->calls[i].kernel;
        called->name = format("%s_%d", k->name, i);
        if (called->scan) {
            scan_print_parts(called, nest, loop);
        } else if (called->nest_count) {
            Text t = {0};
            nest(called, &t);
            called->text = text_take(&t);
        }
    }
    Text t = {0};
    loop(k, &t);
    k->text = text_take(&t);
}
