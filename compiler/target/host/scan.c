/* scan.c: emits a scan as host C.
 *
 * In: a Kernel with a Scan (fuse/scan.c). Out: the functions of the kernels that it calls, named k12_0, k12_1 ..., and k12
 * itself: a loop over chunks of samples, with pointers to the chunk's buffers; in it the loop over steps, with pointers to the
 * step's slices, and the calls. Buffers have one chunk's samples; their pointers are offset by the chunk's first sample, so that
 * all kernels use the same sample numbers. */
#include "compiler/target/host/host.h"
#include "compiler/kernel/phase.h"
#include "compiler/loops/scan.h"

#include <math.h>

/* ---- pointers */

static void declare_arguments(ScanLowering *w)
{
    const Kernel *k = w->kernel;
    const Term *argument = term_word("argument");
    for (int i = 0; i < k->read_count + k->write_count; i++) {
        const Tensor *t = scan_argument(k, i);
        const char *type = format("%s *const", element_type(t->dtype));
        code_array(&w->base.to, type, scan_new_pointer(w, t), NULL, term_element(argument, term_whole(i)))->remark =
            shape_remark(t);
    }
    bool works = w->scan->carry_count + w->scan->buffer_count > 0;
    for (int i = 0; i < w->scan->call_count; i++)
        works = works || w->scan->calls[i].work >= 0;
    if (works)
        code_declare(&w->base.to, "char *const", term_word("work"),
                     term_element(argument, term_whole(k->read_count + k->write_count)));
}

/* ---- before the first step, and after the last */

static const Term *begin(void) { return term_word("begin"); }

/* Returns the bytes of the chunk's samples. */
static const Term *chunk_bytes(int64_t sample_bytes)
{
    return term_times(term_cast("size_t", term_binary(LEVEL_SUM, term_word("end"), "-", begin())), term_whole(sample_bytes));
}

/* Emits a copy of a tensor, or of the chunk's samples if the target has samples. */
static void add_copy(ScanLowering *w, const Tensor *to, const Tensor *from)
{
    const Term *a = scan_pointer(w, to), *b = scan_pointer(w, from), *i = term_word("i");
    int64_t count = scan_elements(to), bytes = count * dtype_bytes(to->dtype);
    if (!to->has_samples) {
        code_do(&w->base.to, CALL("memcpy", a, b, term_whole(bytes)));
    } else if (from->has_samples && tensor_pitch(to) == count && tensor_pitch(from) == count) {
        const Term *at = term_times(begin(), term_whole(count));
        code_do(&w->base.to, CALL("memcpy", term_add(a, at), term_add(b, at), chunk_bytes(bytes)));
    } else {
        code_count(&w->base.to, "int64_t", i, begin(), term_word("end"), NULL);
        a = term_add(a, term_times(i, term_whole(tensor_pitch(to))));
        b = from->has_samples ? term_add(b, term_times(i, term_whole(tensor_pitch(from)))) : b;
        code_do(&w->base.to, CALL("memcpy", a, b, term_whole(bytes)));
        code_bare(&w->base.to);
    }
}

static void add_fill(ScanLowering *w, const Tensor *to, double value)
{
    const Term *name = scan_pointer(w, to), *i = term_word("i"), *zero = term_word("0");
    int64_t count = scan_elements(to), bytes = count * dtype_bytes(to->dtype);
    const Term *all = term_whole(count), *first = term_times(begin(), all);
    if (value == 0 && !signbit(value)) {
        code_do(&w->base.to, CALL("memset", to->has_samples ? term_add(name, first) : name, zero,
                                  to->has_samples ? chunk_bytes(bytes) : term_whole(bytes)));
        return;
    }
    code_count(&w->base.to, "int64_t", i, to->has_samples ? first : zero,
               to->has_samples ? term_times(term_word("end"), all) : all, NULL);
    const Term *literal = literal_term(value, to->dtype);
    if (dtype_is_half(to->dtype))
        literal = CALL(format("mgpu_to_%s", dtype_name(to->dtype)), literal);
    code_set(&w->base.to, term_element(name, i), "=", literal);
    code_bare(&w->base.to);
}

/* ---- the loop */

static void add_call(ScanLowering *w, int number)
{
    const ScanCall *call = &w->scan->calls[number];
    const Kernel *k = call->kernel;
    const Term **list = NULL;
    int count = 0;
    for (int i = 0; i < k->read_count + k->write_count; i++)
        APPEND(list, count, scan_pointer(w, scan_argument(k, i)));
    if (call->work >= 0)
        APPEND(list, count, term_add(term_word("work"), term_whole(call->work)));
    const Term *arguments = term_cast("void *const[]", term_list(count, list));
    code_do(&w->base.to,
            term_call_of(term_kernel(format("_%d", number)), 3,
                         (const Term *[]){arguments, term_word("step"), term_word(call->fresh ? "&fresh" : "&own")}));
}

static bool any_fresh(const Scan *s)
{
    for (int i = 0; i < s->call_count; i++)
        if (s->calls[i].fresh)
            return true;
    return false;
}

/* Opens a loop over chunks [begin, end) of the call's samples, as even as possible. */
static void open_chunks(ScanLowering *w)
{
    CodeBuilder *to = &w->base.to;
    const Term *end = term_word("end"), *chunks = term_word("chunks"), *first = term_word("part->begin"),
               *last = term_word("part->end");
    const Term *one = term_word("1"), *chunk = term_whole(w->scan->chunk);
    code_declare(to, "int64_t", end, NULL);
    const Term *all = term_add(term_binary(LEVEL_SUM, last, "-", first), term_whole(w->scan->chunk - 1));
    code_declare_too(to, chunks, term_binary(LEVEL_PRODUCT, all, "/", chunk));
    Statement *loop = code_for(to, "int64_t", begin(), first, term_binary(LEVEL_LESS, begin(), "<", last));
    code_step(loop, begin(), "=", end);
    code_step(loop, chunks, "--", NULL);
    const Term *rest = term_binary(LEVEL_SUM, term_add(term_binary(LEVEL_SUM, last, "-", begin()), chunks), "-", one);
    code_set(to, end, "=", term_add(begin(), term_binary(LEVEL_PRODUCT, rest, "/", chunks)));
    code_set(to, term_word("own.begin"), "=", begin());
    code_set(to, term_word("own.end"), "=", end);
}

static const Code *lower_loop(const Kernel *k)
{
    const Scan *s = k->scan;
    static const char *const OWN[] = {"own", "fresh", "chunks", "i"};
    ScanLowering w = {.base = {.kernel = k, .to.code = host_function()},
                      .kernel = k,
                      .scan = s,
                      .call = add_call,
                      .copy = add_copy,
                      .fill = add_fill};
    CodeBuilder *to = &w.base.to;
    scan_reserve_names(&w, OWN, COUNT(OWN));
    declare_arguments(&w);
    code_declare(to, "mgpu_part", term_word("own"), term_word("*part"));
    code_set(to, term_word("own.thread"), "=", term_word("0"));
    code_set(to, term_word("own.threads"), "=", term_word("1"));
    if (s->samples)
        open_chunks(&w);
    if (any_fresh(s)) {
        code_declare(to, "mgpu_part", term_word("fresh"), term_word("own"));
        code_set(to, term_word("fresh.first"), "=", term_word("true"));
    }
    scan_declare_buffers(&w);
    scan_add_initial(&w);
    scan_open_steps(&w);
    if (scan_keeps(s))
        code_set(to, term_word("own.first"), "=", term_word("false"));
    code_close(to);
    scan_add_last(&w);
    return to->code;
}

/* ---- kernels */

static const Code *lower_nests(const Kernel *k) { return host_lower(k, false); }

/* Must be called while tensors have the numbers of the fuser. */
void host_lower_scan(Kernel *k) { scan_lower_parts(k, lower_nests, lower_loop); }

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
    text_add(t, "%s\nstatic void %s",
             c_comment("%s: %lld steps%s%s", k->name, (long long)s->steps, s->reverse ? ", the last one first" : "",
                       s->samples ? format(", %lld samples at a time", (long long)s->chunk) : ""),
             k->name);
    code_print(k->code, &(CodePrint){.kernel = k->name}, t);
}
