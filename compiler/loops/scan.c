/* scan.c: what the code of a scan has in common for the targets (loops/scan.h).
 *
 * In: a Kernel with a Scan (fuse/scan.c), and how the language calls, copies and fills. Out: pointers to the buffers of a
 * chunk, moved back by its first sample so that all kernels count samples alike; the carries' first values; the loop over
 * steps: pointers to the step's slices, the calls, and carries that change places; the carries' last values. */
#include "compiler/kernel/phase.h"
#include "compiler/loops/scan.h"

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

void scan_reserve_names(ScanLowering *w, const char *const *own, int own_count)
{
    static const char *const ALL[] = {"work", "end", "t"};
    w->name = NEW_ARRAY(const Term *, most_id(w->kernel) + 1);
    reserve_names(&w->base);
    for (int i = 0; i < COUNT(ALL); i++)
        map_set(&w->base.names, ALL[i], NAME_TAKEN);
    for (int i = 0; i < own_count; i++)
        map_set(&w->base.names, own[i], NAME_TAKEN);
    for (int i = 0; i < w->scan->carry_count || i == 0; i++)
        map_set(&w->base.names, last_name(i), NAME_TAKEN);
}

const Term *scan_pointer(const ScanLowering *w, const Tensor *t)
{
    if (!w->name[t->id])
        die("a scan does not know where '%s' is stored", t->name);
    return w->name[t->id];
}

const Term *scan_new_pointer(ScanLowering *w, const Tensor *t)
{
    return w->name[t->id] = name_like(&w->base, kernel_argument_name(t));
}

const Tensor *scan_argument(const Kernel *k, int i) { return i < k->read_count ? k->reads[i] : k->writes[i - k->read_count]; }

int64_t scan_elements(const Tensor *t) { return shape_count(&t->shape); }

/* ---- buffers */

static void declare_buffer(ScanLowering *w, const Tensor *t, int64_t offset, const char *qualifier)
{
    const char *type = format("%s *", element_type(t->dtype));
    const Term *at = term_cast(type, term_add(term_word("work"), term_whole(offset)));
    if (t->has_samples)
        at = term_binary(LEVEL_SUM, at, "-", term_times(term_word("begin"), term_whole(scan_elements(t))));
    code_array(&w->base.to, format("%s%s", type, qualifier), scan_new_pointer(w, t), NULL, at)->remark = shape_remark(t);
}

void scan_declare_buffers(ScanLowering *w)
{
    const Scan *s = w->scan;
    for (int i = 0; i < s->carry_count; i++) {
        declare_buffer(w, s->carries[i].now, s->carries[i].at[0], "");
        declare_buffer(w, s->carries[i].next, s->carries[i].at[1], "");
    }
    for (int i = 0; i < s->buffer_count; i++)
        declare_buffer(w, s->buffers[i].tensor, s->buffers[i].offset, "const");
}

/* ---- before the first step, and after the last */

void scan_add_initial(ScanLowering *w)
{
    for (int i = 0; i < w->scan->carry_count; i++) {
        const ScanCarry *c = &w->scan->carries[i];
        if (c->initial)
            w->copy(w, c->now, c->initial);
        else
            w->fill(w, c->now, c->fill);
    }
}

bool scan_add_last(ScanLowering *w)
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

void scan_open_steps(ScanLowering *w)
{
    const Scan *s = w->scan;
    CodeBuilder *to = &w->base.to;
    const Term *t = term_word("t"), *zero = term_word("0"), *steps = term_whole(s->reverse ? s->steps - 1 : s->steps);
    if (s->reverse)
        code_step(code_for(to, "int64_t", t, steps, term_binary(LEVEL_LESS, t, ">=", zero)), t, "--", NULL);
    else
        code_count(to, "int64_t", t, zero, steps, NULL);
    for (int i = 0; i < s->slice_count; i++) {
        const Tensor *slice = s->slices[i].slice;
        const Term *at = term_add(scan_pointer(w, s->slices[i].whole), term_times(t, term_whole(scan_elements(slice))));
        code_array(to, format("%s *const", element_type(slice->dtype)), scan_new_pointer(w, slice), NULL, at)->remark =
            shape_remark(slice);
    }
    for (int i = 0; i < s->call_count; i++)
        w->call(w, i);
    for (int i = 0; i < s->carry_count; i++) {
        const ScanCarry *c = &s->carries[i];
        const Term *now = scan_pointer(w, c->now), *next = scan_pointer(w, c->next), *last = term_word(last_name(i));
        const char *type = w->base.cuda ? element_type(c->now->dtype) : "void"; /* C++ converts no void * */
        code_declare(to, format("%s *const", type), last, now);
        code_set(to, now, "=", next);
        code_set(to, next, "=", last);
    }
}

/* ---- all of it */

Kernel scan_part(const Kernel *k, int i)
{
    Kernel part = *k->scan->calls[i].kernel;
    part.name = format("%s_%d", k->name, i);
    return part;
}

void scan_lower_parts(Kernel *k, LowerKernel *nest, LowerKernel *loop)
{
    for (int i = 0; i < k->scan->call_count; i++) {
        Kernel *called = k->scan->calls[i].kernel;
        called->name = format("%s_%d", k->name, i);
        if (called->scan)
            scan_lower_parts(called, nest, loop);
        else if (called->nest_count)
            called->code = nest(called);
    }
    k->code = loop(k);
}
