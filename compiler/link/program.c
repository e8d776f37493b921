/* program.c: write the C source of a Program's tables (runtime/abi/mgpu.h says what each means).
 *
 * It writes tables, no logic: the model's as rows, and each plan's schedule as one image (runtime/schedule/image.c), which is the
 * schedule that was proved and that runs. Equal inputs give equal bytes. A plan's tables are a source of their own, which can be
 * compiled without the others. */
#include "compiler/base/c_text.h"
#include "compiler/export/export.h"
#include "compiler/ir/dump_records.h"
#include "compiler/ir/program.h"
#include "compiler/link/translation_units.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/policy.h"
#include "compiler/plan/schedule.h"
#include "compiler/kernel/kernel.h"
#include "compiler/kernel/target.h"

#include <string.h>

static int count_kind(const Model *m, VariableKind kind)
{
    int count = 0;
    for (int i = 0; i < m->variable_count; i++)
        count += m->variables[i].kind == kind;
    return count;
}

/* Writes the variables that stand for others, as {variable, its owner}. */
static void emit_pairs(const Model *m, VariableKind kind, const char *list, const char *one, Text *t, Text *members)
{
    if (!count_kind(m, kind))
        return;
    text_add(t, "static const mgpu_copy %s[] = {\n", list);
    for (int i = 0; i < m->variable_count; i++)
        if (m->variables[i].kind == kind)
            text_add(t, "    {%d, %d},\n", i, m->variables[i].owner);
    text_add(t, "};\n\n");
    text_add(members, ".%s = %s,\n    .%s_count = %d,\n    ", list, list, one, count_kind(m, kind));
}

static void emit_outputs(const Model *m, Text *t, Text *members)
{
    Text rows = {0};
    int count = 0;
    for (int i = 0; i < m->eval->result_count; i++) {
        const Result *r = &m->eval->results[i];
        if (r->role != ROLE_OUTPUT)
            continue;
        text_add(&rows, "    %s,\n", c_tensor(r->name, output_dtype(m, r), &r->value->shape));
        count++;
    }
    if (!count)
        return;
    text_add(t, "static const mgpu_tensor outputs[] = {\n%s};\n\n", text_of(&rows));
    text_add(members, ".outputs = outputs,\n    .output_count = %d,\n    ", count);
}

/* Writes the model's tables, and adds to members how the program refers to them. */
static void emit_model(const Model *m, Text *t, Text *members)
{
    for (int i = 0; i < RECORD_COUNT; i++)
        if (RECORDS[i].c_list)
            c_table(&RECORDS[i], m, t, members);
        else if (!RECORDS[i].size)
            c_members(&RECORDS[i], m, ",\n    ", members);
    emit_pairs(m, ROUNDED, "copies", "copy", t, members);
    emit_pairs(m, AVERAGE, "averages", "average", t, members);
    emit_outputs(m, t, members);
}

/* Returns the name that other sources know a plan's tables by. */
static const char *plan_name(const Plan *plan) { return format("%s%d", plan->kind, plan->devices); }

void emit_plan(const Program *p, const Plan *plan, Text *t)
{
    const uint64_t *image = schedule_pack(plan->schedule);
    char digits[65];
    text_add(t, "\n%s\nconst uint64_t %s_image[] = {",
             c_comment("---- the schedule of %s, %d device%s: %s... (./%s schedule prints it)", plan->kind, plan->devices,
                       plan->devices == 1 ? "" : "s", mgpu_image_digest(image, 8, digits), p->model->name),
             plan_name(plan));
    for (int64_t i = 0; i < mgpu_image_words(image); i++)
        text_add(t, "%s0x%llx,", i % 6 ? " " : "\n    ", (unsigned long long)image[i]);
    text_add(t, "\n};\n");
    if (!p->target->own_memory)
        return;
    int count;
    const ArenaSize *rooms = find_arena_sizes(p, plan, &count);
    text_add(t, "const mgpu_room %s_rooms[] = {", plan_name(plan));
    for (int i = 0; i < count; i++)
        text_add(t, "{%lld, %lld, %lld}, ", (long long)rooms[i].samples, (long long)rooms[i].bytes, (long long)rooms[i].work);
    text_add(t, "{0}};\n");
}

/* Writes the models that `export` writes, as a table of bytes for each kind. */
static void emit_exports(const Program *p, Text *t)
{
    for (int i = 0; i < p->export_count; i++) {
        const ExportText *e = &p->exports[i];
        text_add(t, "static const int export_%s_variables[] = {", e->kind);
        for (int k = 0; k < e->variable_count; k++)
            text_add(t, "%s%d", k % 24 ? ", " : k ? ",\n    " : "\n    ", e->variables[k]);
        text_add(t, "%s};\nstatic const char export_%s[] =", e->variable_count ? "\n" : "0", e->kind);
        for (size_t k = 0; k < e->packed_bytes; k++)
            text_add(t, k % 40 ? "\\%03o" : k ? "\"\n    \"\\%03o" : "\n    \"\\%03o", (unsigned char)e->packed[k]);
        text_add(t, e->packed_bytes ? "\";\n" : " \"\";\n");
    }
    if (p->export_count)
        text_add(t, "static const mgpu_exported exported[] = {\n");
    for (int i = 0; i < p->export_count; i++) {
        const ExportText *e = &p->exports[i];
        text_add(t, "    {%s, export_%s, %zu, %zu, export_%s_variables, %d, ", c_string(e->kind), e->kind, e->packed_bytes,
                 e->bytes, e->kind, e->variable_count);
        if (e->refused)
            text_add(t, "%s", c_string(e->refused));
        else
            text_add(t, "NULL");
        text_add(t, "},\n");
    }
    text_add(t, p->export_count ? "};\n\n" : "");
}

/* Returns the plan of a run without --devices: on GPUs the last one, which uses all that the program was made for; on a host,
 * whose devices share its cores, that with the fewest devices. */
static int default_plan(const Program *p)
{
    int best = p->plan_count - 1;
    for (int i = 0; i < p->plan_count && !p->target->own_memory; i++)
        if (p->plans[i].devices < p->plans[best].devices)
            best = i;
    return best;
}

void emit_main(const Program *p, Text *t)
{
    const Model *m = p->model;
    int64_t parameters = 0;
    for (int i = 0; i < m->variable_count; i++)
        if (m->variables[i].kind == WEIGHT)
            parameters += shape_count(&m->variables[i].shape);
    Text members = {0};
    emit_model(m, t, &members);
    emit_exports(p, t);
    for (int i = 0; i < p->plan_count; i++) {
        const char *name = plan_name(&p->plans[i]);
        text_add(t, "extern const uint64_t %s_image[];\n", name);
        if (p->target->own_memory)
            text_add(t, "extern const mgpu_room %s_rooms[];\n", name);
    }
    if (p->kernel_count)
        text_add(t, "\nstatic const uint64_t kernel_digests[] = {");
    for (int i = 0; i < p->kernel_count; i++)
        text_add(t, "%s0x%016llx,", i % 6 ? " " : "\n    ", (unsigned long long)p->kernels[i]->digest);
    text_add(t, "%s\nstatic const mgpu_plan plans[] = {\n", p->kernel_count ? "\n};\n" : "");
    for (int i = 0; i < p->plan_count; i++) {
        const Plan *plan = &p->plans[i];
        const char *name = plan_name(plan);
        const Prediction *x = &plan->predicted;
        text_add(t, "    {.kind = %s, .devices = %d, .micro = %lld, .always_partial = %s, .image = %s_image",
                 c_string(plan->kind), plan->devices, (long long)plan->micro, plan->always_partial ? "true" : "false", name);
        if (p->target->own_memory)
            text_add(t, ", .rooms = %s_rooms", name);
        if (x->step_us > 0)
            text_add(t, ", .predicted = {%s, %s, %s, %.1f, %.1f, %.1f}", c_string(x->machine), c_string(x->bound),
                     c_string(x->from), x->step_us, x->computing_us, x->transfer_us);
        text_add(t, "},\n");
    }
    text_add(t, "};\n\n%sstatic const mgpu_program program = {\n",
             p->options->mpi ? "extern struct mgpu_processes *mgpu_mpi_processes(void);\n\n" : "");
    text_add(t, "    .interface = MGPU_INTERFACE,\n    %s.command = %s,\n    .precision = %s,\n    .parameters = %lld,\n",
             text_of(&members), c_string(p->options->command_line), c_string(dtype_name(m->precision)), (long long)parameters);
    const Policy *policy = policy_of(p->options);
    if (!policy_is_auto(policy))
        text_add(t, "    .policy = %s,\n", c_string(policy->name));
    if (policy_label(policy))
        text_add(t, "    .policy_label = %s,\n", c_string(policy_label(policy)));
    if (policy->order == ORDER_NONE)
        text_add(t, "    .unsaved = true,\n");
    if (p->predicts)
        text_add(t, "    .predicts = true,\n");
    if (p->target->images)
        text_add(t, "    .gpu_kernels = mgpu_kernels,\n    .images = mgpu_images,\n");
    else
        text_add(t, "    .kernels = mgpu_kernels,\n");
    text_add(t, "    .kernel_count = %d,\n", p->kernel_count);
    if (p->kernel_count)
        text_add(t, "    .kernel_digests = kernel_digests,\n");
    if (m->outline_count && !p->options->shared)
        text_add(t, "    .families = &mgpu_family_exports,\n");
    text_add(t, "    .plans = plans,\n    .plan_count = %d,\n    .default_plan = %d,\n", p->plan_count, default_plan(p));
    if (p->gpus)
        text_add(t, "    .gpus = %s,\n", c_string(p->gpus));
    if (p->library_folders)
        text_add(t, "    .library_folders = %s,\n", c_string(p->library_folders));
    if (p->export_count)
        text_add(t, "    .exported = exported,\n    .exported_count = %d,\n", p->export_count);
    if (p->options->mpi)
        text_add(t, "    .processes = mgpu_mpi_processes,\n");
    text_add(t, "};\n");
    if (p->options->shared)
        emit_functions(p, t);
    else
        text_add(t, "\nint main(int argc, char **argv) { return mgpu_main(&program, argc, argv); }\n");
}

void emit_tables_head(const Program *p, Text *t)
{
    text_add(t, "%s\n",
             c_comment("%s: made by mgpuc of %s. The tables of the program; mgpu.h says what each column means.", p->model->name,
                       p->model->file));
    text_add(t, "#include \"mgpu.h\"\n\n#define MGPU_NAN (0.0 / 0.0)\n\n");
}

void emit_program(const Program *p, Text *t)
{
    emit_tables_head(p, t);
    if (p->target->images) {
        Text rows = {0};
        for (int i = 0; i < p->kernel_count; i++)
            p->target->print_row(p->kernels[i], kernel_function(p->kernels[i])->name, &rows);
        p->target->print_table(&rows, t);
    } else {
        text_add(t, "extern const mgpu_kernel mgpu_kernels[];\n");
    }
    for (int i = 0; i < p->plan_count; i++)
        emit_plan(p, &p->plans[i], t);
    text_add(t, "\n");
    emit_main(p, t);
}
