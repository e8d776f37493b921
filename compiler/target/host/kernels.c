/* kernels.c: kernels as host C.
 *
 * In: a Kernel (kernel.h). Out: one C function: pointers named after tensors, tables of constants, then its nests
 * (host/nest.c); and the file of all kernels, which a program is compiled from. Another language would take over from
 * here: a Kernel says nothing of C. */
#include "compiler/target/host/host.h"
#include "compiler/kernel/phase.h"
#include "runtime/abi/mgpu.h"

/* ---- functions */

/* the expressions that the function computes: of a kernel with partial sums, its end makes the OUTER stores, or those across */
const bool *emit_needed(const Nest *nest, bool finish)
{
    const Exprs *x = nest->exprs;
    bool *needed = NEW_ARRAY(bool, x->count);
    for (int i = 0; i < nest->reduction_count && !finish; i++) {
        needed[nest->reductions[i].value->id] = true;
        if (nest->reductions[i].place)
            needed[nest->reductions[i].place->id] = true;
    }
    for (int i = 0; i < nest->store_count; i++) {
        const Store *s = &nest->stores[i];
        bool at_end = nest->across ? s->across : s->outer;
        if (nest->merges) { /* values of each call, and where those of all go */
            needed[(finish ? s->offset : s->value)->id] = true;
            continue;
        }
        if ((nest->partial || nest->across) && at_end != finish)
            continue;
        needed[s->value->id] = needed[s->offset->id] = true;
        if (s->guard)
            needed[s->guard->id] = true;
    }
    for (int i = x->count - 1; i >= 0; i--)
        for (int k = 0; needed[i] && k < x->all[i]->count; k++)
            needed[x->all[i]->in[k]->id] = true;
    return needed;
}

static bool uses_tensor(const Printer *p, const Tensor *tensor)
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
        if (!uses_tensor(p, tensor))
            continue;
        p->tensor[i] = tensor;
        p->argument[i] = emit_name(p, kernel_argument_name(tensor));
        emit_line(p, "%s%s *restrict %s = argument[%d];%s", output ? "" : "const ", emit_element_type(tensor->dtype), p->argument[i], i,
             emit_shape_comment(p, tensor));
    }
}

void emit_tables(Printer *p)
{
    for (int k = 0; k < p->kernel->nest_count; k++) {
        const Exprs *x = p->kernel->nests[k].exprs;
        for (int i = 0; i < x->count; i++) {
            const Expr *e = x->all[i];
            if (!p->needed[k][i])
                continue;
            if (e->kind == X_RANDOM) {
                const char *id = format("key %llx", (unsigned long long)e->hash);
                if (map_get(&p->names, id))
                    continue;
                const char *name = emit_own_name(p, "key");
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
            const char *name = e->node->name ? emit_name(p, e->node->name) : emit_own_name(p, "constant");
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

static bool is_divided_samples(const Kernel *k, const Nest *nest, int axis)
{
    return k->split == MGPU_SPLIT_SAMPLES && nest->divided == axis + 1;
}

static void print_own(Printer *p)
{
    static const char *const TYPE[DTYPES] = {[U8] = "U8",   [I8] = "I8",   [U16] = "U16", [I16] = "I16",
                                             [U32] = "U32", [I32] = "I32", [I64] = "I64"};
    const Kernel *k = p->kernel;
    const Tensor *index = k->index;
    const char *count = index ? format("%lld%s", (long long)shape_count(&index->shape), index->sharded ? " * part->samples" : "") : "0";
    p->own = emit_own_name(p, "own");
    emit_line(p, "const mgpu_own %s = mgpu_own_part(%lld, %lld, %lld, %s, MGPU_%s, %s, part);", p->own, (long long)k->owned_rows,
              (long long)k->owned_columns, (long long)k->column_grain, index ? emit_argument(p, index) : "NULL",
              index ? TYPE[index->dtype] : "I32", count);
}

static void print_function(const Kernel *k, Text *t, bool by_path, bool finish)
{
    Printer p = {.kernel = k, .t = t, .by_path = by_path, .finish = finish, .indent = 1};
    emit_reserve(&p);
    bool uses_step = false, uses_n = false, uses_part = finish, divided = false;
    p.needed = NEW_ARRAY(const bool *, k->nest_count);
    for (int i = 0; i < k->nest_count; i++) {
        const Exprs *x = k->nests[i].exprs;
        p.needed[i] = emit_needed(&k->nests[i], finish);
        for (int j = 0; j < x->count; j++)
            uses_step = uses_step || (p.needed[i][j] && (x->all[j]->kind == X_VALID || x->all[j]->kind == X_RUN || x->all[j]->kind == X_RANDOM ||
                                                         (x->all[j]->kind == X_COUNT && x->all[j]->other)));
        for (int j = 0; j < x->axis_count; j++)
            uses_n = uses_n || (!finish && !is_divided_samples(k, &k->nests[i], j) &&
                                (x->axis[j].samples || x->axis[j].kind != AXIS_PLAIN));
        divided = divided || k->nests[i].divided;
    }
    divided = divided && !finish && k->split != MGPU_SPLIT_WORKERS;
    uses_part = uses_part || divided || uses_n || k->split == MGPU_SPLIT_WORKERS;
    text_add(t, "(void *const *argument, const mgpu_step *step, const mgpu_part *part%s)\n{\n",
             by_path ? ", const uint64_t *path" : "");
    print_arguments(&p);
    if (uses_n)
        emit_line(&p, "const int64_t n = part->samples;");
    if (divided)
        emit_line(&p, "const int64_t begin = part->begin, end = part->end;");
    if (!uses_step && !uses_part)
        emit_line(&p, "(void)step, (void)part;");
    else if (!uses_step || !uses_part)
        emit_line(&p, "(void)%s;", uses_step ? "part" : "step");
    emit_tables(&p);
    if (k->owned_rows)
        print_own(&p);
    for (int i = 0; i < k->nest_count; i++)
        emit_nest(&p, &k->nests[i]);
    text_add(t, "}\n");
}

void kernel_print(const Kernel *k, Text *t) { print_function(k, t, false, false); }
void kernel_print_body(const Kernel *k, Text *t) { print_function(k, t, true, false); }
void kernel_print_finish(const Kernel *k, Text *t) { print_function(k, t, false, true); }

/* the kernel, or a call of the body that it shares with others; and its end */
void nests_emit(const Kernel *k, Text *t)
{
    const char *small = k->small ? "MGPU_SMALL " : "";
    if (k->finish_text)
        text_add(t, "static void %s_finish%s", k->name, k->finish_text);
    if (!k->body || k->body->body_users < 2) {
        text_add(t, "static %svoid %s%s", small, k->name, k->text);
        return;
    }
    if (k->body == k)
        text_add(t, "static MGPU_SHARED void %s_body%s\n", k->name, k->body_text);
    text_add(t, "static %svoid %s(void *const *argument, const mgpu_step *step, const mgpu_part *part)\n{\n"
                "    static const uint64_t path[] = {", small, k->name);
    for (int i = 0; i < k->path_count; i++)
        text_add(t, "%s0x%llxu", i ? ", " : "", (unsigned long long)k->paths[i]);
    text_add(t, "};\n    %s_body(argument, step, part, path);\n}\n", k->body->name);
}

/* its row in the table; `function`: the name of what it runs, with which those of its end and its contraction begin */
void kernel_emit_row(const Kernel *k, const char *function, Text *t)
{
    static const char *const MODE[] = {"NONE", "SAMPLES", "RANGE", "WORKERS"};
    text_add(t, "    {%s, %s, ", c_string(k->name), function);
    text_add(t, k->partial_bytes ? "%s_finish" : "NULL", function);
    text_add(t, ", %d, MGPU_SPLIT_%s, %lld, %lld, ", model_line(k->at), MODE[k->split], (long long)k->extent, (long long)k->grain);
    text_add(t, k->contraction ? "&%s_contraction" : "NULL", function);
    text_add(t, "},\n");
}

void emit_kernel_title(const Kernel *k, Text *t)
{
    const Place *user = users_place(k->at);
    if (k->nest_count || k->scan)
        text_add(t, "%s\n",
                 c_comment("%s: %s%s", k->name, k->title,
                           user && user->source ? format("  %s:%d", user->source->file, user->line) : ""));
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
    text_add(t,
             "\n/* name, function, its end, line, split, extent, grain, contraction */\nconst mgpu_kernel mgpu_kernels[] = {\n");
    for (int i = 0; i < program->kernel_count; i++)
        kernel_emit_row(program->kernels[i], program->kernels[i]->name, t);
    text_add(t, "%s};\n", program->kernel_count ? "" : "    {0},\n");
}
