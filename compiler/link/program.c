/* program.c: Program -> the C text of the program's tables (runtime/abi/mgpu.h says what each means).
 *
 * Tables and verbs, no logic: the schedule object is written out row by row, one table for each list, the inner lists
 * (accesses, waits) as compound literals in the row that owns them. Devices and phases whose tables are equal share one.
 * Same input, same bytes. A plan's tables are a text of their own, which a C compiler can take without the others'. */
#include "compiler/base/c_text.h"
#include "compiler/export/export.h"
#include "compiler/ir/dump_records.h"
#include "compiler/ir/program.h"
#include "compiler/link/units.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/policy.h"
#include "compiler/plan/schedule.h"
#include "compiler/kernel/kernel.h"
#include "compiler/kernel/target.h"

#include <string.h>

static const char *dtype_macro(Dtype d) { return c_constant("MGPU_", dtype_name(d)); }

static int count_kind(const Model *m, VariableKind kind)
{
    int count = 0;
    for (int i = 0; i < m->variable_count; i++)
        count += m->variables[i].kind == kind;
    return count;
}

/* variables that replace others: {it, its owner} */
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

/* tables of the model; members: those of the program that say it */
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

static void end_row(Text *t)
{
    t->length -= t->length > 1 && memcmp(t->data + t->length - 2, ", ", 2) == 0 ? 2 : 0;
    text_add(t, "}");
}

static void emit_accesses(const char *word, const Access *list, int count, Text *t)
{
    if (count)
        text_add(t, ".%s_count = %d, .%ss = (mgpu_access[]){", word, count, word);
    for (int i = 0; i < count; i++)
        text_add(t, "{%d, %d, %lld, %lld}%s", list[i].buffer, list[i].slot, (long long)list[i].begin, (long long)list[i].end, i + 1 < count ? ", " : "}, ");
}

static void emit_op(const ScheduledOp *op, Text *t)
{
    static const char *const VERB[VERBS] = {"MGPU_CALL", "MGPU_READ", "MGPU_UPLOAD", "MGPU_TRANSFER", "MGPU_REPORT", "MGPU_FETCH"};
    text_add(t, "    {.id = %s, .verb = %s, .target = %d, .layer = %s, .role = %s, ", c_string(op->id), VERB[op->verb], op->target,
             c_string(op->layer ? op->layer : ""), c_string(op->role ? op->role : ""));
    c_members(&OP_RECORD, op, ", ", t);
    emit_accesses("read", op->reads, op->read_count, t);
    emit_accesses("write", op->writes, op->write_count, t);
    if (op->wait_count)
        text_add(t, ".wait_count = %d, .waits = (mgpu_wait[]){", op->wait_count);
    for (int i = 0; i < op->wait_count; i++)
        text_add(t, "{%d, %d}%s", op->waits[i].op, op->waits[i].back, i + 1 < op->wait_count ? ", " : "}, ");
    if (op->suspect_count)
        text_add(t, ".suspect_count = %d, .suspects = (const mgpu_suspect[]){", op->suspect_count);
    for (int i = 0; i < op->suspect_count; i++) {
        const Suspect *x = &op->suspects[i];
        text_add(t, "{%s, %s, %d, %s}%s", c_string(x->word), c_string(x->layer), x->line, x->required ? c_string(x->required) : "NULL",
                 i + 1 < op->suspect_count ? ", " : "}, ");
    }
    if (op->elements)
        text_add(t, ".elements = %lld, .own = {%lld, %lld}", (long long)op->elements, (long long)op->own.begin, (long long)op->own.end);
    end_row(t);
    text_add(t, ", %s\n", c_comment("%s", op->label));
}

/* a table of the plan: its name, or that of an equal one that is above it */
static const char *emit_table(Map *tables, const char *type, const char *name, const Text *rows, Text *t)
{
    Digest digest = mgpu_sha256_of(text_of(rows), rows->length);
    char digits[65];
    const char *key = format("%s %s", type, mgpu_digest_text(&digest, 32, digits)), *known = map_get(tables, key);
    if (known)
        return known;
    map_set(tables, key, (void *)(uintptr_t)name);
    text_add(t, "static const %s %s[] = {\n", type, name);
    text_bytes(t, text_of(rows), rows->length);
    text_add(t, "    {0}\n};\n");
    return name;
}

static void empty(Text *rows)
{
    rows->length = 0;
}

/* the row of a device in the table of its phase */
static void emit_device(const DeviceSchedule *d, const char *prefix, Map *tables, Text *rows, Text *device, Text *t)
{
    static const char *const KIND[BUFFER_KINDS] = {"MGPU_STAGING", "MGPU_STEP",      "MGPU_INPUT",  "MGPU_VARIABLE", "MGPU_REPORT_BUFFER",
                                                   "MGPU_OUTPUT",  "MGPU_TEMPORARY", "MGPU_BUCKET", "MGPU_WORKSPACE", "MGPU_LOCAL"};
    empty(rows);
    for (int i = 0; i < d->buffer_count; i++) {
        const Buffer *b = &d->buffers[i];
        text_add(rows, "    {.name = %s, .kind = %s, ", c_string(b->name), KIND[b->kind]);
        c_members(&BUFFER_RECORD, b, ", ", rows);
        end_row(rows);
        text_add(rows, ",\n");
    }
    const char *buffers = emit_table(tables, "mgpu_buffer", format("%s_buffers", prefix), rows, t);
    empty(rows);
    for (int i = 0; i < d->op_count; i++)
        emit_op(&d->ops[i], rows);
    const char *ops = emit_table(tables, "mgpu_op", format("%s_ops", prefix), rows, t);
    text_add(device, "    {%s, %d, %s, %d},\n", buffers, d->buffer_count, ops, d->op_count);
}

/* way: AUTO where there is no choice */
static void emit_collective(const CollectiveRecord *c, int devices, int way, Text *t)
{
    const mgpu_parties *p = &c->parties;
    text_add(t, "    {.name = %s, .count = %lld, .dtype = %s, .parties = {%d %s, %d, %d, ", c_string(c->name), (long long)c->count, dtype_macro(c->dtype), p->transfer,
             c_comment("%s", mgpu_transfer_row(p->transfer)->kind), p->from, p->to);
    text_add(t, p->parts ? "(const int64_t[]){" : "NULL");
    for (int d = 0; p->parts && d <= devices; d++)
        text_add(t, "%lld%s", (long long)p->parts[d], d < devices ? ", " : "}");
    text_add(t, "}, .way = %d %s, .lane = %s},\n", way, c_comment("%s", mgpu_way_name(way)), c->lane == LANE_SYNC ? "MGPU_SYNC" : "MGPU_COMM");
}

/* what the tables of other texts need to know of a plan's */
static const char *plan_name(const Plan *plan)
{
    return format("%s%d", plan->kind, plan->devices);
}

void emit_plan(const Program *p, const Plan *plan, Text *t)
{
    const Schedule *s = plan->schedule;
    const Model *m = p->model;
    const char *name = plan_name(plan);
    Map tables = {0};
    Text rows = {0}, devices = {0};
    for (int i = 0; i < s->phase_count; i++) {
        const PhaseSchedule *ph = &s->phases[i];
        text_add(t, "\n%s\n",
                 c_comment("---- %s, %d device%s: %s", plan->kind, plan->devices, plan->devices == 1 ? "" : "s", ph->name));
        empty(&devices);
        for (int d = 0; d < plan->devices; d++)
            emit_device(&ph->devices[d], format("%s_p%d_d%d", name, i, d), &tables, &rows, &devices, t);
        text_add(t, "static const mgpu_device_phase %s_p%d_devices[] = {\n", name, i);
        text_bytes(t, text_of(&devices), devices.length);
        text_add(t, "};\nstatic const mgpu_collective %s_p%d_collectives[] = {\n", name, i);
        for (int k = 0; k < ph->collective_count; k++)
            emit_collective(&ph->collectives[k], plan->devices, p->target->own_memory ? ph->collectives[k].way : MGPU_WAY_AUTO, t);
        text_add(t, "    {0}\n};\nstatic const char *const %s_p%d_reports[] = {", name, i);
        for (int k = 0; k < p->phases[i]->report_count; k++) {
            text_add(t, "%s", c_string(p->phases[i]->reports[k]));
            text_add(t, ", ");
        }
        text_add(t, "NULL};\n");
    }
    text_add(t, "\nconst mgpu_phase %s_phases[] = {\n", name);
    for (int i = 0; i < s->phase_count; i++)
        text_add(t, "    {%s, %d, %s, %s_p%d_devices, %s_p%d_collectives, %d, %s_p%d_reports, %d},\n",
                 c_string(s->phases[i].name), (int)p->phases[i]->kind, p->phases[i]->partial_batch ? "true" : "false", name, i,
                 name, i, s->phases[i].collective_count, name, i, p->phases[i]->report_count);
    text_add(t, "};\n");
    for (int d = 0; d < plan->devices; d++) {
        int64_t *offsets = NEW_ARRAY(int64_t, m->variable_count);
        for (int i = 0; i < s->phase_count; i++)
            for (int b = 0; b < s->phases[i].devices[d].buffer_count; b++) {
                const Buffer *buffer = &s->phases[i].devices[d].buffers[b];
                if (buffer->kind == BUFFER_VARIABLE)
                    offsets[buffer->index] = buffer->offset;
            }
        text_add(t, "static const int64_t %s_d%d_variables[] = {", name, d);
        for (int v = 0; v < m->variable_count; v++)
            text_add(t, "%s%lld", v % 12 ? ", " : v ? ",\n    " : "\n    ", (long long)offsets[v]);
        text_add(t, "%s};\n", m->variable_count ? "\n" : "0");
    }
    text_add(t, "static const mgpu_room %s_rooms[] = {", name);
    int room_count;
    const Room *rooms = find_rooms(p, plan, &room_count);
    for (int i = 0; i < room_count; i++)
        text_add(t, "{%lld, %lld, %lld}, ", (long long)rooms[i].samples, (long long)rooms[i].bytes, (long long)rooms[i].work);
    text_add(t, "{0}};\nconst mgpu_device %s_devices[] = {\n", name);
    for (int d = 0; d < plan->devices; d++) {
        int64_t arena = 0, staging = 0, work = 0;
        for (int i = 0; i < s->phase_count; i++) {
            const DeviceSchedule *ds = &s->phases[i].devices[d];
            arena = ds->arena_bytes > arena ? ds->arena_bytes : arena;
            staging = ds->staging_bytes > staging ? ds->staging_bytes : staging;
            work = ds->work_bytes > work ? ds->work_bytes : work;
        }
        text_add(t, "    {{%lld, %lld, %lld}, %lld, %lld, %lld, %s_d%d_variables, %s_rooms, %d},\n", (long long)plan->shards[d].first,
                 (long long)plan->shards[d].share, (long long)plan->shards[d].capacity, (long long)arena, (long long)staging,
                 (long long)work, name, d, name, room_count);
    }
    Text text = {0};
    schedule_write(s, &text);
    text_add(t, "};\nconst char %s_schedule[] =\n", name);
    for (const char *line = text_of(&text); *line;) {
        const char *end = strchr(line, '\n');
        end = end ? end + 1 : line + strlen(line);
        text_add(t, "    ");
        text_add(t, "%s", c_string(copy_text(line, (size_t)(end - line))));
        text_add(t, "\n");
        line = end;
    }
    text_add(t, "    \"\";\n");
}

/* what `export` writes, a table of bytes for each kind */
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
        text_add(t, "    {%s, export_%s, %zu, %zu, export_%s_variables, %d, ", c_string(e->kind), e->kind, e->packed_bytes, e->bytes, e->kind,
                 e->variable_count);
        if (e->refused)
            text_add(t, "%s", c_string(e->refused));
        else
            text_add(t, "NULL");
        text_add(t, "},\n");
    }
    text_add(t, p->export_count ? "};\n\n" : "");
}

/* of a run without --devices: all GPUs that the program was made for; on a host, whose devices share its cores, the fewest */
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
        text_add(t, "extern const mgpu_device %s_devices[];\nextern const mgpu_phase %s_phases[];\nextern const char %s_schedule[];\n",
                 name, name, name);
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
        text_add(t, "    {%s, %d, %lld, %s, %s_devices, %s_phases, %d, %s_schedule", c_string(plan->kind), plan->devices,
                 (long long)plan->micro, plan->always_partial ? "true" : "false", name, name, plan->schedule->phase_count, name);
        if (x->step_us > 0)
            text_add(t, ", {%s, %s, %s, %.1f, %.1f, %.1f}", c_string(x->machine), c_string(x->bound), c_string(x->from),
                     x->step_us, x->computing_us, x->transfer_us);
        text_add(t, "},\n");
    }
    text_add(t, "};\n\n%sstatic const mgpu_program program = {\n",
             p->options->mpi ? "extern struct mgpu_processes *mgpu_mpi_processes(void);\n\n" : "");
    text_add(t, "    .interface = MGPU_INTERFACE,\n    %s.command = %s,\n    .precision = %s,\n    .parameters = %lld,\n", text_of(&members),
             c_string(p->options->command_line), c_string(dtype_name(m->precision)), (long long)parameters);
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
    text_add(t, "    .plans = plans,\n    .plan_count = %d,\n    .default_plan = %d,\n", p->plan_count,
             default_plan(p));
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
