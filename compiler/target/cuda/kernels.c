/* kernels.c: kernels for GPUs.
 *
 * In: a Kernel. Out: one or two __global__ functions, whose parameters are the kernel's arguments in order, its workspace if it
 * has one, the step block and n, the samples of the device; and the file of all kernels. */
#include "compiler/kernel/phase.h"
#include "compiler/target/cuda/cuda.h"
#include "compiler/target/cuda/tiles.h"

/* ---- parameters */

static void add_parameter(Code *code, const char *type, const Term *name, const char *remark)
{
    APPEND(code->parameters, code->parameter_count, ((CodeParameter){type, name, remark}));
}

static void add_parameters(Lowering *p)
{
    const Kernel *k = p->kernel;
    Code *code = p->to.code;
    const Term *step = term_word("step");
    p->argument_count = k->read_count + k->write_count;
    p->argument = NEW_ARRAY(const Term *, p->argument_count);
    p->tensor = NEW_ARRAY(const Tensor *, p->argument_count);
    const char *restricted = p->block ? "" : cuda_waits(k) ? "MGPU_RESTRICT" : "__restrict__";
    for (int i = 0; i < p->argument_count; i++) {
        bool output = i >= k->read_count;
        const Tensor *tensor = output ? k->writes[i - k->read_count] : k->reads[i];
        const char *type = format("%s%s *", output ? "" : "const ", element_type(tensor->dtype));
        if (!output && kernel_writes(k, tensor)) { /* updated in place: accessed by its pointer among the writes */
            add_parameter(code, type, NULL, NULL);
            continue;
        }
        p->tensor[i] = tensor;
        p->argument[i] = name_like(p, argument_name(p, tensor));
        add_parameter(code, format("%s%s", type, restricted), p->argument[i], shape_remark(tensor));
    }
    if (k->partial_bytes && !p->block)
        add_parameter(code, format("char *%s", restricted), term_word("work"), "");
    add_parameter(code, format("const mgpu_step *%s", restricted), step, NULL);
    add_parameter(code, "int64_t", term_word(p->block ? "begin" : "n"), NULL);
    if (p->block)
        add_parameter(code, "int64_t", term_word("end"), NULL);
    if (cuda_waits(k) && !p->block)
        code_do(&p->to, term_word(CUDA_FIRST_CALL));
}

/* ---- functions of nests */

/* The two functions of a scatter have a nest each; other finishing functions have the nests with partial results. */
static bool is_in_function(const Kernel *k, int nest, bool finish, bool parts)
{
    return parts ? nest == finish : !finish || k->nests[nest].partial || k->nests[nest].row_sum_count;
}

/* Launches pass the paths of random numbers: kernels that differ only in paths share functions. */
static const Code *lower_function(const Kernel *k, bool finish, bool block)
{
    Code *code = NEW(Code);
    *code = (Code){.lines = true};
    if (k->path_count && !block)
        code->by_path = format("const __grid_constant__ mgpu_path<%d> ", k->path_count);
    Lowering p = {.to.code = code, .kernel = k, .cuda = true, .is_64_bit = cuda_index_is_64_bit, .block = block};
    reserve_names(&p);
    bool two = cuda_finishes(k) && !k->partial_bytes, parts = two && !block; /* the first nest, then the second */
    p.finish = finish && !parts;
    p.needed = NEW_ARRAY(const bool *, k->nest_count);
    for (int i = 0; i < k->nest_count; i++)
        p.needed[i] = is_in_function(k, i, finish, parts) ? needed_expressions(&k->nests[i], finish)
                                                          : NEW_ARRAY(bool, k->nests[i].exprs->count);
    add_parameters(&p);
    declare_tables(&p);
    for (int i = 0; i < k->nest_count; i++) {
        if (is_in_function(k, i, finish, parts))
            cuda_nest(&p, &k->nests[i]);
        if (two && block && i == 0)
            code_do(&p.to, term_call("__syncthreads", 0, NULL));
    }
    return code;
}

const Code *cuda_lower(const Kernel *k, bool finish) { return lower_function(k, finish, false); }
const Code *cuda_lower_block(const Kernel *k) { return lower_function(k, false, true); }

void cuda_print_parameters(const Kernel *k, Text *t)
{
    if (k->contraction) {
        cuda_contraction_numbers(k->contraction, t);
        return;
    }
    if (k->parameter_count) {
        text_add(t, ", .parameters = (const uint32_t[]){");
        for (int i = 0; i < k->parameter_count; i++)
            text_add(t, "%s%uu", i ? ", " : "", k->parameters[i]);
        text_add(t, "}");
        return;
    }
    text_add(t, k->path_count ? ", .parameters = (const uint64_t[]){" : "");
    for (int i = 0; i < k->path_count; i++)
        text_add(t, "%s0x%llxu", i ? ", " : "", (unsigned long long)k->paths[i]);
    text_add(t, k->path_count ? "}" : "");
}

void cuda_print_nests(const Kernel *k, Text *t)
{
    if (k->canonical) {
        const char *other = k->parameters   ? format(" with other numbers: %s", k->parameter_words)
                            : k->path_count ? " with other paths"
                                            : "";
        text_add(t, "%s\n", c_comment("%s is %s%s", k->name, k->canonical->name, other));
        return;
    }
    if (k->parameters)
        text_add(t, "%s\n", c_comment("its launch gives %s", k->parameter_words));
    if (k->calls_per_launch) {
        cuda_print_call_table(k, t);
        return;
    }
    text_add(t, "extern \"C\" __global__ void %s", k->name);
    cuda_print_with_parameters(k, false, t);
    text_add(t, "MGPU_ENTRY(%s)\n", k->name);
    if (!k->finish_code)
        return;
    text_add(t, "\nextern \"C\" __global__ void %s_finish", k->name);
    cuda_print_with_parameters(k, true, t);
    text_add(t, "MGPU_ENTRY(%s_finish)\n", k->name);
}

/* ---- the file */

void emit_cuda_includes(const UnitNeeds *needs, Text *t)
{
    static const char *const HEADER[] = {"contract", "attention", "rows"}; /* in the order of the bits HEADER_... */
    text_add(t, "#include \"mgpu_device.h\"\n");
    for (int i = 0; i < COUNT(HEADER); i++)
        if (needs->headers >> i & 1)
            text_add(t, "#include \"mgpu_device_%s.h\"\n", HEADER[i]);
}

void emit_cuda(const Program *program, Text *t)
{
    UnitNeeds needs = {0};
    for (int i = 0; i < program->kernel_count; i++)
        cuda_needs(program->kernels[i], &needs);
    const char *const head[] = {
        format("Kernels of %s, written by mgpuc %s.", program->model->name, MGPU_VERSION),
        "Parameters: the tensors that a kernel reads, then those that it writes, then its workspace if it has one; n: the "
        "samples",
        "of this device. [n, 28, 28] in the comments is the shape of all samples, [28, 28] the same for all of them."};
    text_add(t, "%s\n", c_comment_lines(head, COUNT(head)));
    emit_cuda_includes(&needs, t);
    for (int i = 0; i < program->kernel_count; i++) {
        text_add(t, "\n");
        emit_kernel_title(program->kernels[i], t);
        cuda_print(program->kernels[i], t);
    }
}
