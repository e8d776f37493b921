/* profile.c: the time of each operation of a step, summed over steps and sorted, with its rate of work.
 *
 * In: seconds, as the engine measures them around operations; the program's tables, which say what an operation computes (the
 * multiply-adds of a matmul) and moves (for calls as in the schedule, else the bytes of its accesses). Out: a table. Operations
 * of the lane comp do not overlap, so the rest of the step's time is waiting: for other lanes and devices, and between steps. */
#include "runtime/abi/mgpu_gemm.h"
#include "runtime/base/base.h"
#include "runtime/engine/profile.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TIMES = 1000 };

typedef struct Spent {
    double sum, *each;
    int64_t count;
    double predicted;
} Spent; /* seconds: in all; each of the first `most` times; predicted for one run */
struct Profile {
    const mgpu_program *program;
    const mgpu_plan *plan;
    Spent ***spent; /* [phase][device][operation] */
    int64_t most;   /* times kept per operation, for the median */
    bool predicts;  /* the plan has predictions */
};

typedef struct ProfileRow {
    const mgpu_phase *phase;
    const mgpu_op *op;
    int device;
    double seconds, predicted, flops, bytes; /* seconds: per step; flops, bytes: per call */
} ProfileRow;

Profile *mgpu_profile_begin(const mgpu_program *program, const mgpu_plan *plan, int64_t steps)
{
    Profile *p = mgpu_allocate(1, sizeof *p);
    p->program = program;
    p->plan = plan;
    p->most = steps * (program->accumulate > 1 ? program->accumulate : 1);
    p->most = p->most < MOST_TIMES ? p->most : MOST_TIMES;
    p->spent = mgpu_allocate((size_t)plan->phase_count, sizeof *p->spent);
    for (int k = 0; k < plan->phase_count; k++) {
        p->spent[k] = mgpu_allocate((size_t)plan->devices, sizeof **p->spent);
        for (int d = 0; d < plan->devices; d++)
            p->spent[k][d] = mgpu_allocate((size_t)plan->phases[k].devices[d].op_count, sizeof(Spent));
    }
    return p;
}

void mgpu_profile_end(Profile *p)
{
    for (int k = 0; k < p->plan->phase_count; k++) {
        for (int d = 0; d < p->plan->devices; d++) {
            for (int i = 0; i < p->plan->phases[k].devices[d].op_count; i++)
                free(p->spent[k][d][i].each);
            free(p->spent[k][d]);
        }
        free(p->spent[k]);
    }
    free(p->spent);
    free(p);
}

void mgpu_profile_add(Profile *p, const mgpu_phase *phase, int device, int op, double seconds)
{
    Spent *s = &p->spent[phase - p->plan->phases][device][op];
    if (!s->each)
        s->each = mgpu_allocate((size_t)p->most, sizeof *s->each);
    if (s->count < p->most)
        s->each[s->count++] = seconds;
    s->sum += seconds;
}

void mgpu_profile_predict(Profile *p, const mgpu_phase *phase, int device, int op, double seconds)
{
    p->spent[phase - p->plan->phases][device][op].predicted = seconds;
    p->predicts = true;
}

/* ---- several processes */

/* Sets at[r] to the operations that the devices of ranks before r have. */
static void places_of(const Profile *p, const Processes *processes, int64_t *at)
{
    at[0] = 0;
    for (int r = 0; r < processes->count; r++) {
        at[r + 1] = at[r];
        for (int d = mgpu_first_device(processes, p->plan->devices, r); d < mgpu_first_device(processes, p->plan->devices, r + 1);
             d++)
            for (int k = 0; k < p->plan->phase_count; k++)
                at[r + 1] += p->plan->phases[k].devices[d].op_count;
    }
}

/* Copies sum, count and times of an operation to or from a row, and returns the end of the row. */
static double *pack(const Profile *p, Spent *s, double *row, bool in)
{
    if (in) {
        s->sum = row[0];
        s->count = (int64_t)row[1];
        s->each = s->count ? mgpu_allocate((size_t)p->most, sizeof *s->each) : NULL;
        for (int64_t i = 0; i < s->count; i++)
            s->each[i] = row[2 + i];
    } else {
        row[0] = s->sum;
        row[1] = (double)s->count;
        for (int64_t i = 0; i < s->count; i++)
            row[2 + i] = s->each[i];
    }
    return row + 2 + p->most;
}

static void pack_devices(Profile *p, DeviceSpan devices, double *rows, bool in)
{
    for (int d = devices.first; d < devices.end; d++)
        for (int k = 0; k < p->plan->phase_count; k++)
            for (int i = 0; i < p->plan->phases[k].devices[d].op_count; i++)
                rows = pack(p, &p->spent[k][d][i], rows, in);
}

void mgpu_profile_gather(Profile *p, Processes *processes)
{
    DeviceSpan own = mgpu_local_devices(processes, p->plan->devices), others = {own.end, p->plan->devices};
    int64_t at[processes->count + 1], row = (2 + p->most) * (int64_t)sizeof(double);
    places_of(p, processes, at);
    for (int r = 0; r <= processes->count; r++)
        at[r] *= row;
    double *rows = mgpu_allocate((size_t)(at[processes->rank + 1] - at[processes->rank]) + 1, 1);
    double *all = mgpu_speaks(processes) ? mgpu_allocate((size_t)at[processes->count] + 1, 1) : NULL;
    pack_devices(p, own, rows, false);
    processes->collect(processes, rows, all, at);
    if (all)
        pack_devices(p, others, all + at[1] / (int64_t)sizeof(double), true);
    free(all);
    free(rows);
}

/* ---- what an operation computes and moves */
static double flops_of(const mgpu_contraction *c, int64_t samples)
{
    double count = 2;
    for (int i = 0; i < c->batch + c->m + c->n + c->k; i++)
        count *= (double)(c->axis[i].extent == MGPU_SAMPLES ? samples : c->axis[i].extent);
    return count;
}

static double bytes_of(const mgpu_device_phase *p, const mgpu_op *op)
{
    double bytes = op->bytes;
    for (int i = 0; op->verb != MGPU_CALL && i < op->read_count + op->write_count; i++)
        if (p->buffers[mgpu_access_of(op, i)->buffer].kind != MGPU_STEP)
            bytes += (double)(mgpu_access_of(op, i)->end - mgpu_access_of(op, i)->begin);
    return bytes;
}

static const char *does(const Profile *p, const ProfileRow *r)
{
    static const char *const VERB[] = {"", "read", "upload", "", "report", "fetch"};
    if (r->op->verb == MGPU_CALL)
        return mgpu_kernel_name(p->program, r->op->target);
    return r->op->verb == MGPU_TRANSFER ? mgpu_transfer_row(r->phase->collectives[r->op->target].participants.transfer)->kind
                                        : VERB[r->op->verb];
}

/* Writes "M x N x K" of a matmul, or "B of M x N x K" with batch axes. */
static void matmul_text(const mgpu_contraction *c, int64_t samples, char *text, size_t capacity)
{
    const int axes[] = {c->batch, c->m, c->n, c->k};
    double extent[4] = {1, 1, 1, 1};
    for (int list = 0, i = 0; list < 4; list++)
        for (int end = i + axes[list]; i < end; i++)
            extent[list] *= (double)(c->axis[i].extent == MGPU_SAMPLES ? samples : c->axis[i].extent);
    int length = extent[0] > 1 ? snprintf(text, capacity, "%.0f of ", extent[0]) : 0;
    snprintf(text + length, capacity - (size_t)length, "%s%.0f x %.0f x %.0f", c->windows ? "conv " : "", extent[1], extent[2],
             extent[3]);
}

static const mgpu_contraction *matmul_of(const Profile *p, const mgpu_op *op)
{
    if (op->verb != MGPU_CALL)
        return NULL;
    return p->program->gpu_kernels ? NULL : p->program->kernels[op->target].contraction;
}

static int compare(const void *a, const void *b)
{
    const ProfileRow *x = a, *y = b;
    if (x->seconds != y->seconds)
        return x->seconds < y->seconds ? 1 : -1;
    return x->op < y->op ? -1 : x->op > y->op;
}

/* Phases of micro-batches run more than once per step. */
static double times_per_step(const Profile *p, const ProfileRow *r)
{
    return r->phase->kind == MGPU_PHASE_PROLOGUE     ? (double)p->program->accumulate
           : r->phase->kind == MGPU_PHASE_ACCUMULATE ? (double)(p->program->accumulate - 1)
                                                     : 1;
}

/* Returns operations that took time, the longest first. The caller frees them. */
static ProfileRow *rows_of(const Profile *p, int64_t steps, int *count)
{
    int most = 0;
    *count = 0;
    for (int k = 0; k < p->plan->phase_count; k++)
        for (int d = 0; d < p->plan->devices; d++)
            most += p->plan->phases[k].devices[d].op_count;
    ProfileRow *rows = mgpu_allocate((size_t)most, sizeof *rows);
    for (int k = 0; k < p->plan->phase_count; k++)
        for (int d = 0; d < p->plan->devices; d++) {
            const mgpu_device_phase *phase = &p->plan->phases[k].devices[d];
            for (int i = 0; i < phase->op_count; i++) {
                const mgpu_op *op = &phase->ops[i];
                if (p->spent[k][d][i].sum <= 0)
                    continue;
                ProfileRow *r = &rows[(*count)++];
                *r = (ProfileRow){&p->plan->phases[k], op, d, p->spent[k][d][i].sum / (double)steps, 0, 0, bytes_of(phase, op)};
                r->predicted = p->spent[k][d][i].predicted * times_per_step(p, r);
                const mgpu_contraction *c = matmul_of(p, op);
                r->flops = c ? flops_of(c, p->plan->device[d].shard.capacity) : 0;
            }
        }
    qsort(rows, (size_t)*count, sizeof *rows, compare);
    return rows;
}

static double rate(const Profile *p, const ProfileRow *r, double amount)
{
    return amount * times_per_step(p, r) / r->seconds * 1e-9;
}

/* ---- lines of the model */
typedef struct ModelLines {
    char *text;
    char **lines;
    int count;
} ModelLines;

static ModelLines read_source(const char *path)
{
    ModelLines s = {0};
    FILE *f = fopen(path, "re");
    long bytes = f && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
    if (bytes >= 0 && fseek(f, 0, SEEK_SET) == 0) {
        s.text = mgpu_allocate((size_t)bytes + 1, 1);
        s.text[fread(s.text, 1, (size_t)bytes, f)] = 0;
        int lines = 1;
        for (const char *at = s.text; *at; at++)
            lines += *at == '\n';
        s.lines = mgpu_allocate((size_t)lines, sizeof *s.lines);
        for (char *at = s.text; at; s.count++) {
            s.lines[s.count] = at + strspn(at, " \t");
            at = strchr(at, '\n');
            if (at)
                *at++ = 0;
        }
    }
    if (f)
        fclose(f);
    return s;
}

static const char *line_text(const ModelLines *s, int line) { return line >= 1 && line <= s->count ? s->lines[line - 1] : ""; }

/* Returns the bytes of the whole characters that fit into a row. */
static int beginning(const char *line)
{
    enum { TEXT_BYTES = 60 };
    size_t length = strlen(line);
    if (length > TEXT_BYTES)
        for (length = TEXT_BYTES; length > 0 && ((unsigned char)line[length] & 0xc0) == 0x80;)
            length--;
    return (int)length;
}

static double lane_seconds(const ProfileRow *rows, int count, int device, int lane)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        if (rows[i].device == device && rows[i].op->lane == lane)
            sum += rows[i].seconds;
    return sum;
}

enum { MATMUL_WIDTH = 24 };
typedef struct TableStyle {
    const ModelLines *source;
    double step_s;
    int operation_width, kernel_width;
    FILE *f;
} TableStyle;

static char *name_of(int device, const mgpu_op *op) { return mgpu_format("d%d.%s", device, op->id); }

static int wider(int width, const char *text) { return (int)strlen(text) > width ? (int)strlen(text) : width; }

static void print_row(const Profile *p, const ProfileRow *r, const TableStyle *l)
{
    char flops[16] = "", bytes[16] = "", matmul[100] = "", predicted[16] = "";
    if (matmul_of(p, r->op))
        matmul_text(matmul_of(p, r->op), p->plan->device[r->device].shard.capacity, matmul, sizeof matmul);
    if (r->flops > 0)
        snprintf(flops, sizeof flops, "%.1f", rate(p, r, r->flops));
    if (r->bytes > 0)
        snprintf(bytes, sizeof bytes, "%.1f", rate(p, r, r->bytes));
    if (p->predicts)
        snprintf(predicted, sizeof predicted, " %9.3f", 1e3 * r->predicted);
    /* the file may have changed and contain anything */
    char *id = name_of(r->device, r->op), *line = mgpu_plain(line_text(l->source, r->op->line));
    fprintf(l->f, "%9.3f%s %6.1f %9s %7s  %-*s  %-*s  %-*s %5d  %.*s\n", 1e3 * r->seconds, predicted,
            100 * r->seconds / l->step_s, flops, bytes, l->operation_width, id, l->kernel_width, does(p, r), MATMUL_WIDTH, matmul,
            r->op->line, beginning(line), line);
    free(line);
    free(id);
}

static void print_matmul(const Profile *p, const ProfileRow *rows, int count, FILE *f)
{
    double seconds = 0, flops = 0;
    for (int i = 0; i < count; i++)
        if (rows[i].flops > 0) {
            seconds += rows[i].seconds;
            flops += rows[i].flops * times_per_step(p, &rows[i]);
        }
    if (seconds > 0)
        fprintf(f, "matmuls and convolutions: %.3f ms, %.2f GFLOP, %.1f GFLOP/s%s\n", 1e3 * seconds, 1e-9 * flops,
                1e-9 * flops / seconds, p->plan->devices > 1 ? ", all devices together" : "");
}

void mgpu_profile_print(const Profile *p, FILE *f, int64_t steps, double seconds)
{
    static const char *const NAME[MGPU_LANES] = MGPU_LANE_NAMES;
    int count;
    ProfileRow *rows = rows_of(p, steps, &count);
    ModelLines source = read_source(p->program->model_file);
    TableStyle l = {&source, seconds / (double)steps, (int)strlen("operation"), (int)strlen("kernel"), f};
    for (int i = 0; i < count; i++) {
        char *id = name_of(rows[i].device, rows[i].op);
        l.operation_width = wider(l.operation_width, id);
        l.kernel_width = wider(l.kernel_width, does(p, &rows[i]));
        free(id);
    }
    fprintf(f, "%lld more steps with a clock around every operation: %.3f ms each\n", (long long)steps, 1e3 * l.step_s);
    for (int d = 0; d < p->plan->devices; d++) {
        fprintf(f, "device %d:", d);
        for (int lane = 0; lane < MGPU_LANES; lane++)
            fprintf(f, " %s %.3f ms,", NAME[lane], 1e3 * lane_seconds(rows, count, d, lane));
        fprintf(f, " comp outside of operations (waiting) %.3f ms\n", 1e3 * (l.step_s - lane_seconds(rows, count, d, MGPU_COMP)));
    }
    print_matmul(p, rows, count, f);
    fprintf(f, "\n%9s%s %6s %9s %7s  %-*s  %-*s  %-*s %5s\n", "ms/step", p->predicts ? " predicted" : "", "%", "GFLOP/s", "GB/s",
            l.operation_width, "operation", l.kernel_width, "kernel", MATMUL_WIDTH, "matmul: M x N x K", "line");
    for (int i = 0; i < count; i++)
        print_row(p, &rows[i], &l);
    free(source.lines);
    free(source.text);
    free(rows);
}

void mgpu_profile_print_json(const Profile *p, FILE *f, int64_t steps, double seconds)
{
    int count;
    ProfileRow *rows = rows_of(p, steps, &count);
    fprintf(f, "\"profiled_step_ms\": %.4f, \"comp_ms\": [", 1e3 * seconds / (double)steps);
    for (int d = 0; d < p->plan->devices; d++)
        fprintf(f, "%s%.4f", d ? ", " : "", 1e3 * lane_seconds(rows, count, d, MGPU_COMP));
    fputs("], \"operations\": [", f);
    for (int i = 0; i < count; i++) {
        const ProfileRow *r = &rows[i];
        char *id = name_of(r->device, r->op);
        fprintf(f, "%s{\"phase\": \"%s\", \"operation\": ", i ? ", " : "", r->phase->name);
        mgpu_json_write_text(f, id);
        fprintf(f, ", \"does\": \"%s\", \"line\": %d, \"ms\": %.5f", does(p, r), r->op->line, 1e3 * r->seconds);
        free(id);
        if (p->predicts)
            fprintf(f, ", \"predicted_ms\": %.5f", 1e3 * r->predicted);
        fprintf(f, ", \"gflops\": %.2f, \"gbytes_per_s\": %.2f}", rate(p, r, r->flops), rate(p, r, r->bytes));
    }
    fputs("]", f);
    free(rows);
}

/* ---- for mgpuc --measured */
static double median(const Spent *s)
{
    double *sorted = mgpu_allocate((size_t)s->count, sizeof *sorted);
    memcpy(sorted, s->each, (size_t)s->count * sizeof *sorted);
    qsort(sorted, (size_t)s->count, sizeof *sorted, mgpu_compare_doubles);
    double middle = (sorted[(s->count - 1) / 2] + sorted[s->count / 2]) / 2;
    free(sorted);
    return middle;
}

static void write_operation(const Profile *p, FILE *f, int phase, int device, int op, bool first)
{
    static const char *const LANE[MGPU_LANES] = MGPU_LANE_NAMES, *const VERB[] = {"call",     "read",   "upload",
                                                                                  "transfer", "report", "fetch"};
    const mgpu_op *o = &p->plan->phases[phase].devices[device].ops[op];
    char *id = name_of(device, o);
    fprintf(f, "%s\n{\"operation\":", first ? "" : ",");
    mgpu_json_write_text(f, id);
    fprintf(f, ",\"phase\":\"%s\",\"lane\":\"%s\",\"verb\":\"%s\",\"line\":%d,", p->plan->phases[phase].name, LANE[o->lane],
            VERB[o->verb], o->line);
    free(id);
    if (o->verb == MGPU_CALL && p->program->kernel_digests)
        fprintf(f, "\"kernel\":\"%016" PRIx64 "\",\"name\":\"%s\",", p->program->kernel_digests[o->target],
                mgpu_kernel_name(p->program, o->target));
    if (o->verb == MGPU_TRANSFER) {
        const mgpu_collective *c = &p->plan->phases[phase].collectives[o->target];
        fprintf(f, "\"kind\":\"%s\",\"bytes\":%lld,", mgpu_transfer_row(c->participants.transfer)->kind,
                (long long)(c->count * mgpu_dtype_bytes(c->dtype)));
    }
    fprintf(f, "\"samples\":%lld,\"us\":%.4f}", (long long)p->plan->device[device].shard.capacity,
            1e6 * median(&p->spent[phase][device][op]));
}

void mgpu_profile_write(const Profile *p, FILE *f, int64_t steps, int threads, bool virtual)
{
    fputs("{\"measured\":1,\"model\":", f);
    mgpu_json_write_text(f, p->program->name);
    fprintf(
        f,
        ",\"kind\":\"%s\",\"virtual\":%s,\"devices\":%d,\"threads\":%d,\"batch\":%lld,\"precision\":\"%s\",\"steps\":%lld,\"operations\":[",
        p->plan->kind, virtual ? "true" : "false", p->plan->devices, threads, (long long)p->program->batch, p->program->precision,
        (long long)steps);
    bool first = true;
    for (int k = 0; k < p->plan->phase_count; k++)
        for (int d = 0; d < p->plan->devices; d++)
            for (int i = 0; i < p->plan->phases[k].devices[d].op_count; i++)
                if (p->spent[k][d][i].count) {
                    write_operation(p, f, k, d, i, first);
                    first = false;
                }
    fputs("]}\n", f);
}
