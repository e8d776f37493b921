/* kernels.c: emits kernels as host C.
 *
 * In: a Kernel (kernel.h), which does not depend on C. Out: one C function, with pointers named after tensors, tables of
 * constants, and its nests (host/nest.c); and the file of all kernels, from which a program is compiled. */
#include "compiler/base/c_text.h"
#include "compiler/target/host/host.h"
#include "compiler/kernel/phase.h"
#include "runtime/abi/mgpu.h"

/* ---- functions */

static bool uses_tensor(const Lowering *p, const Tensor *tensor)
{
    for (int i = 0; i < p->kernel->nest_count; i++) {
        const Nest *nest = &p->kernel->nests[i];
        for (int k = 0; k < nest->store_count; k++)
            if (nest->stores[k].tensor->id == tensor->id && (!nest->partial || nest->stores[k].outer == p->finish))
                return true;
        for (int k = 0; k < nest->exprs->count; k++)
            if (p->needed[i][k] && nest->exprs->all[k]->kind == X_LOAD && nest->exprs->all[k]->tensor->id == tensor->id)
                return true;
    }
    return false;
}

static void declare_arguments(Lowering *p)
{
    const Kernel *k = p->kernel;
    int total = k->read_count + k->write_count;
    p->argument = NEW_ARRAY(const Term *, total);
    p->tensor = NEW_ARRAY(const Tensor *, total);
    p->argument_count = total;
    for (int i = 0; i < total; i++) {
        bool output = i >= k->read_count;
        const Tensor *tensor = output ? k->writes[i - k->read_count] : k->reads[i];
        if (!output && kernel_writes(k, tensor))
            continue; /* updated in place: the output has the only pointer */
        if (!uses_tensor(p, tensor))
            continue;
        p->tensor[i] = tensor;
        p->argument[i] = name_like(p, argument_name(p, tensor));
        const char *type = format("%s%s *restrict", output ? "" : "const ", element_type(tensor->dtype));
        code_array(&p->to, type, p->argument[i], NULL, term_element(term_word("argument"), term_whole(i)))->remark =
            shape_remark(tensor);
    }
}

static bool is_divided_samples(const Kernel *k, const Nest *nest, int axis)
{
    return k->split == MGPU_SPLIT_SAMPLES && nest->divided == axis + 1;
}

static void declare_own(Lowering *p)
{
    static const char *const TYPE[DTYPES] = {
        [U8] = "U8", [I8] = "I8", [U16] = "U16", [I16] = "I16", [U32] = "U32", [I32] = "I32", [I64] = "I64"};
    const Kernel *k = p->kernel;
    const Tensor *index = k->index;
    const Term *count = index ? term_whole(shape_count(&index->shape)) : term_word("0");
    if (index && index->has_samples)
        count = term_times(count, term_word("part->samples"));
    p->owned_part = fresh_name(p, "own");
    code_declare(&p->to, "const mgpu_own", p->owned_part,
                 CALL("mgpu_own_part", term_whole(k->owned_rows), term_whole(k->owned_columns), term_whole(k->column_grain),
                      index ? argument_of(p, index) : term_word("NULL"),
                      term_word(format("MGPU_%s", index ? TYPE[index->dtype] : "I32")), count, term_word("part")));
}

static const Term *not_used(const char *name) { return term_unary("(void)", term_word(name)); }

/* The parameters that a function uses. */
typedef struct Uses {
    bool step, n, part, divided;
} Uses;

static Uses uses_of(const Lowering *p)
{
    const Kernel *k = p->kernel;
    Uses u = {.part = p->finish};
    for (int i = 0; i < k->nest_count; i++) {
        const Exprs *x = k->nests[i].exprs;
        for (int j = 0; j < x->count; j++)
            u.step = u.step ||
                     (p->needed[i][j] && (x->all[j]->kind == X_VALID || x->all[j]->kind == X_RUN || x->all[j]->kind == X_PLACE ||
                                          x->all[j]->kind == X_RANDOM || (x->all[j]->kind == X_COUNT && x->all[j]->other)));
        for (int j = 0; j < x->axis_count; j++)
            u.n = u.n || (!p->finish && !is_divided_samples(k, &k->nests[i], j) &&
                          (x->axis[j].samples || x->axis[j].kind != AXIS_PLAIN));
        u.divided = u.divided || k->nests[i].divided;
    }
    u.divided = u.divided && !p->finish && k->split != MGPU_SPLIT_WORKERS;
    u.part = u.part || u.divided || u.n || k->split == MGPU_SPLIT_WORKERS;
    return u;
}

static void declare_uses(Lowering *p, Uses u)
{
    if (u.n)
        code_declare(&p->to, "const int64_t", term_word("n"), term_word("part->samples"));
    if (u.divided) {
        code_declare(&p->to, "const int64_t", term_word("begin"), term_word("part->begin"));
        code_declare_too(&p->to, term_word("end"), term_word("part->end"));
    }
    if (!u.step)
        code_do(&p->to, not_used("step"));
    if (!u.part)
        code_do(&p->to, not_used("part"));
    if (!u.step && !u.part)
        p->to.code->body.list[p->to.code->body.count - 1]->joins = true;
}

Code *host_function(void)
{
    static const struct {
        const char *type, *name;
    } PARAMETER[] = {{"void *const *", "argument"}, {"const mgpu_step *", "step"}, {"const mgpu_part *", "part"}};
    Code *code = NEW(Code);
    *code = (Code){.by_path = "const uint64_t *"};
    for (int i = 0; i < COUNT(PARAMETER); i++)
        APPEND(code->parameters, code->parameter_count, ((CodeParameter){PARAMETER[i].type, term_word(PARAMETER[i].name), NULL}));
    return code;
}

const Code *host_lower(const Kernel *k, bool finish)
{
    Lowering p = {.to.code = host_function(), .kernel = k, .finish = finish};
    reserve_names(&p);
    p.needed = NEW_ARRAY(const bool *, k->nest_count);
    for (int i = 0; i < k->nest_count; i++)
        p.needed[i] = needed_expressions(&k->nests[i], finish);
    declare_arguments(&p);
    declare_uses(&p, uses_of(&p));
    declare_tables(&p);
    if (k->owned_rows)
        declare_own(&p);
    for (int i = 0; i < k->nest_count; i++)
        host_nest(&p, &k->nests[i]);
    return p.to.code;
}

/* Emits the kernel, or a call of the body that it shares with others; and its finishing function. */
void nests_emit(const Kernel *k, Text *t)
{
    const char *small = k->small ? "MGPU_SMALL " : "";
    const CodePrint plain = {.kernel = k->name}, by_path = {.kernel = k->name, .paths = k->paths, .path_count = k->path_count};
    if (k->finish_code) {
        text_add(t, "static void %s_finish", k->name);
        code_print(k->finish_code, &plain, t);
    }
    if (!k->body || k->body->body_users < 2) {
        text_add(t, "static %svoid %s", small, k->name);
        code_print(k->code, &plain, t);
        return;
    }
    if (k->body == k) {
        text_add(t, "static MGPU_SHARED void %s_body", k->name);
        code_print(k->code, &by_path, t);
        text_add(t, "\n");
    }
    text_add(t,
             "static %svoid %s(void *const *argument, const mgpu_step *step, const mgpu_part *part)\n{\n"
             "    static const uint64_t path[] = {",
             small, k->name);
    for (int i = 0; i < k->path_count; i++)
        text_add(t, "%s0x%llxu", i ? ", " : "", (unsigned long long)k->paths[i]);
    text_add(t, "};\n    %s_body(argument, step, part, path);\n}\n", k->body->name);
}

/* Emits the kernel's row in the table. function: prefix of the names of its functions and of its contraction's table */
void kernel_emit_row(const Kernel *k, const char *function, Text *t)
{
    static const char *const MODE[] = {NULL, "MGPU_SPLIT_SAMPLES", "MGPU_SPLIT_RANGE", "MGPU_SPLIT_WORKERS"};
    text_add(t, "    %s,\n",
             C_ROW(C_TEXT("name", c_string(k->name)), C_TEXT("run", function),
                   C_TEXT("finish", k->partial_bytes ? format("%s_finish", function) : NULL), C_NUMBER("line", model_line(k->at)),
                   C_TEXT("split", MODE[k->split]), C_NUMBER("extent", k->extent), C_NUMBER("grain", k->grain),
                   C_TEXT("contraction", k->contraction ? format("&%s_contraction", function) : NULL), C_NUMBER("unit", k->unit),
                   C_TEXT("sums", k->partial_bytes ? NULL : kernel_types_of_sums(k))));
}

void emit_kernels(const Program *program, Text *t)
{
    const char *const head[] = {
        format("Kernels of %s, written by mgpuc %s.", program->model->name, MGPU_VERSION),
        "argument[]: the tensors that a kernel reads, then those that it writes, then its workspace; n: the samples of",
        "this device. [n, 28, 28] in the comments is the shape of all samples, [28, 28] the same for all of them."};
    text_add(t, "%s\n#define MGPU_KERNELS 1\n#include \"mgpu.h\"\n", c_comment_lines(head, COUNT(head)));
    for (int i = 0; i < program->kernel_count; i++) {
        const Kernel *k = program->kernels[i];
        text_add(t, "\n");
        emit_kernel_title(k, t);
        host_target.print(k, t);
    }
    text_add(t, "\nconst mgpu_kernel mgpu_kernels[] = {\n");
    for (int i = 0; i < program->kernel_count; i++)
        kernel_emit_row(program->kernels[i], program->kernels[i]->name, t);
    text_add(t, "%s};\n", program->kernel_count ? "" : "    {0},\n");
}
