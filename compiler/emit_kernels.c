/* emit_kernels.c: kernels as host C.
 *
 * In: a Kernel (kernel.h). Out: one C function: pointers named after tensors, tables of constants, then its nests
 * (emit_nest.c); and the file of all kernels, which a program is compiled from. Another language would take over from
 * here: a Kernel says nothing of C. */
#include "compiler/emit.h"
#include "runtime/mgpu.h"

#include <string.h>

/* ---- functions */

static const char *const RESERVED[] = {
    "argument", "step", "n", "auto", "bool", "break", "case", "char", "const", "continue", "default", "do", "double", "else",
    "enum", "extern", "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short",
    "signed", "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while", "true",
    "false", "asm", "typeof", "linux", "unix", "NULL", "INFINITY", "NAN",
    "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t"};

static void print_arguments(Printer *p)
{
    const Kernel *k = p->kernel;
    int total = k->read_count + k->write_count;
    p->argument = NEW_ARRAY(const char *, total);
    p->tensor = NEW_ARRAY(const Tensor *, total);
    p->argument_count = total;
    for (int i = 0; i < total; i++) {
        bool output = i >= k->read_count;
        const Tensor *tensor = output ? k->writes[i - k->read_count] : k->reads[i];
        if (!output && emit_written(k, tensor))
            continue; /* updated in place: one pointer */
        p->tensor[i] = tensor;
        p->argument[i] = emit_name(p, kernel_argument_name(tensor));
        emit_line(p, "%s%s *restrict %s = argument[%d];%s", output ? "" : "const ", C_TYPE[tensor->dtype], p->argument[i], i,
             p->canonical ? ""
                          : format(" /* [%s%s */", tensor->sharded ? tensor->shape.rank ? "n, " : "n" : "",
                                   shape_text(&tensor->shape) + 1));
    }
}

static void print_tables(Printer *p)
{
    for (int k = 0; k < p->kernel->nest_count; k++) {
        const Exprs *x = p->kernel->nests[k].exprs;
        for (int i = 0; i < x->count; i++) {
            const Expr *e = x->all[i];
            if (e->kind == X_RANDOM) {
                const char *id = format("key %llx", (unsigned long long)e->hash);
                if (map_get(&p->names, id))
                    continue;
                const char *name = emit_name(p, "key");
                map_set(&p->names, id, (void *)(uintptr_t)name);
                const char *path = format("0x%llxu", (unsigned long long)e->hash);
                for (int j = 0; p->by_path && j < p->kernel->path_count; j++)
                    if (p->kernel->paths[j] == e->hash)
                        path = format("path[%d]", j);
                emit_line(p, "const uint64_t %s = mgpu_random_key(step->seed, %s);", name, path);
            }
            if (e->kind != X_TABLE)
                continue;
            bool known = false;
            for (int j = 0; j < p->table_count; j++)
                known = known || p->table[j] == e->node;
            if (known)
                continue;
            const char *name = emit_name(p, e->node->name ? e->node->name : "constant");
            int count = p->table_count;
            APPEND(p->table, p->table_count, e->node);
            APPEND(p->table_name, count, name);
            text_add(p->t, "    static const %s %s[] = {", C_TYPE[e->node->dtype], name);
            for (int64_t j = 0; j < e->node->data_count; j++)
                text_add(p->t, "%s%s", j == 0 ? "" : j % 12 ? ", " : ",\n        ", emit_literal(e->node->data[j], e->node->dtype));
            text_add(p->t, "};\n");
        }
    }
}

static void print_function(const Kernel *k, Text *t, bool canonical, bool by_path)
{
    Printer p = {.kernel = k, .t = t, .canonical = canonical, .by_path = by_path, .indent = 1};
    for (int i = 0; i < COUNT(RESERVED); i++)
        map_set(&p.names, RESERVED[i], &p);
    bool uses_step = false, uses_n = false;
    for (int i = 0; i < k->nest_count; i++) {
        const Exprs *x = k->nests[i].exprs;
        for (int j = 0; j < x->count; j++)
            uses_step = uses_step || x->all[j]->kind == X_ALIVE || x->all[j]->kind == X_RUN || x->all[j]->kind == X_RANDOM;
        for (int j = 0; j < x->axis_count; j++)
            uses_n = uses_n || x->axis[j].samples || x->axis[j].kind != AXIS_PLAIN;
    }
    text_add(t, "(void *const *argument, const mgpu_step *step, int64_t n%s)\n{\n", by_path ? ", const uint64_t *path" : "");
    print_arguments(&p);
    if (!uses_step && !uses_n)
        emit_line(&p, "(void)step, (void)n;");
    else if (!uses_step || !uses_n)
        emit_line(&p, "(void)%s;", uses_step ? "n" : "step");
    print_tables(&p);
    for (int i = 0; i < k->nest_count; i++)
        emit_nest(&p, &k->nests[i]);
    text_add(t, "}\n");
}

void kernel_print(const Kernel *k, Text *t) { print_function(k, t, false, false); }
void kernel_print_body(const Kernel *k, Text *t) { print_function(k, t, false, true); }
void kernel_print_canonical(const Kernel *k, Text *t) { print_function(k, t, true, k->path_count > 0); }

/* the kernel, or a call of the body that it shares with others */
static void emit_function(const Kernel *k, Text *t)
{
    const char *small = k->small ? "MGPU_SMALL " : "";
    if (!k->body || k->body->body_users < 2) {
        text_add(t, "static %svoid %s%s", small, k->name, k->text);
        return;
    }
    if (k->body == k)
        text_add(t, "static MGPU_SHARED void %s_body%s\n", k->name, k->body_text);
    text_add(t, "static %svoid %s(void *const *argument, const mgpu_step *step, int64_t n)\n{\n"
                "    static const uint64_t path[] = {", small, k->name);
    for (int i = 0; i < k->path_count; i++)
        text_add(t, "%s0x%llxu", i ? ", " : "", (unsigned long long)k->paths[i]);
    text_add(t, "};\n    %s_body(argument, step, n, path);\n}\n", k->body->name);
}

void emit_kernels(const Program *program, Text *t)
{
    text_add(t,
             "/* Kernels of %s, written by mgpuc %s.\n"
             " * argument[]: the tensors that a kernel reads, then those that it writes, then its workspace; n: the samples of\n"
             " * this device. [n, 28, 28] in the comments is the shape of all samples, [28, 28] the same for all of them. */\n"
             "#define MGPU_KERNELS 1\n#include \"mgpu.h\"\n",
             program->model->name, MGPU_VERSION);
    for (int i = 0; i < program->kernel_count; i++) {
        const Kernel *k = program->kernels[i];
        text_add(t, "\n");
        if (k->contraction) {
            contraction_print(k->contraction, k->name, t);
            continue;
        }
        text_add(t, "/* %s: %s", k->name, k->title);
        const Place *user = users_place(k->at);
        if (user && user->source)
            text_add(t, "  %s:%d", user->source->file, user->line);
        text_add(t, " */\n");
        emit_function(k, t);
    }
    text_add(t, "\nconst mgpu_kernel mgpu_kernels[] = {\n");
    for (int i = 0; i < program->kernel_count; i++) {
        const Kernel *k = program->kernels[i];
        text_add(t, "    {\"%s\", %s, %d},\n", k->name, k->name, users_line(k->at));
    }
    if (!program->kernel_count)
        text_add(t, "    {\"\", 0, 0},\n");
    text_add(t, "};\nconst int mgpu_kernel_count = %d;\n", program->kernel_count);
}
