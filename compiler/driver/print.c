/* print.c: prints the table of `mgpuc check`, --emit fused and --emit memory. */
#include "compiler/driver/command.h"
#include "compiler/ir/placement.h"
#include "compiler/ir/program.h"
#include "compiler/kernel/kernel.h"
#include "compiler/kernel/phase.h"
#include "compiler/passes/stages.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/policy.h"
#include "compiler/plan/schedule.h"
#include "runtime/base/base.h"

#include <string.h>

/* Names may contain line ends, tabs, and characters that change the order of text. */
static const char *shown(const char *name) { return plain_text(name, false); }

const char *grouped(int64_t n) /* 1234567 -> "1,234,567" */
{
    const char *digits = format("%lld", (long long)n);
    size_t length = strlen(digits);
    Text t = {0};
    for (size_t i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0 && digits[i - 1] != '-')
            text_add(&t, ",");
        text_add(&t, "%c", digits[i]);
    }
    return text_take(&t);
}

static const char *magnitude(double n) /* 3209216 -> "3.21 M" */
{
    static const char *const UNIT[] = {"", " k", " M", " G", " T", " P"};
    int u = 0;
    while (n >= 1000 && u + 1 < COUNT(UNIT))
        n /= 1000, u++;
    return u ? format("%.3g%s", n, UNIT[u]) : format("%.0f", n);
}

/* Counts contractions and convolutions as the literature does: 2 x multiply-adds, without what is recomputed. Of several
 * objectives a step is the mean of a round. */
double step_flops(const Program *p)
{
    double flops = 0;
    for (int i = 0; i < p->phase_count; i++) {
        const Phase *phase = p->phases[i];
        double share = share_of_steps(p->model, p->predicts, phase->kind);
        for (int k = 0; k < phase->task_count && share > 0 && !phase->partial_batch; k++)
            if (phase->tasks[k]->kernel && !phase->tasks[k]->rematerialized)
                flops += share * kernel_contraction_flops(phase->tasks[k]->kernel, phase->tasks[k]->flops_per_sample);
    }
    return flops;
}

/* Returns the bytes that a device has of split variables. */
static int64_t split_bytes(const Model *m, int devices, int device)
{
    int64_t bytes = 0;
    for (int v = 0; v < m->variable_count; v++) {
        int64_t count = variable_is_placed(&m->variables[v], OVER_ELEMENTS) ? shape_count(&m->variables[v].shape) : 0;
        bytes += (mgpu_even_part(count, devices, device + 1) - mgpu_even_part(count, devices, device)) *
                 dtype_bytes(m->variables[v].dtype);
    }
    return bytes;
}

/* Without the final '}', as diagnostics follow. */
static void check_json(const Model *m, const Program *p, int64_t parameters, Text *t)
{
    text_add(t, "{\"parameters\":%lld,\"layers\":[", (long long)parameters);
    for (int i = 0; i < m->layer_count; i++) {
        text_add(t, "%s{\"name\":", i ? "," : "");
        json_text(t, m->layers[i].name);
        text_add(t, ",\"line\":%d,\"shape\":[", model_line(m->layers[i].at));
        for (int k = 0; k < m->layers[i].shape.rank; k++)
            text_add(t, "%s%lld", k ? "," : "", (long long)m->layers[i].shape.extent[k]);
        text_add(t, "],\"parameters\":%lld,\"flops\":%.0f}", (long long)m->layers[i].parameters, m->layers[i].flops);
    }
    text_add(t, "],\"devices\":[");
    if (p->plan_count && p->plans[p->plan_count - 1].schedule) {
        const Plan *plan = &p->plans[p->plan_count - 1];
        for (int d = 0; d < plan->devices; d++)
            text_add(t, "%s{\"samples\":%lld,\"arena_bytes\":%lld,\"bytes\":%lld,\"split_bytes\":%lld,\"gathered_bytes\":%lld}",
                     d ? "," : "", (long long)plan->shards[d].share, (long long)arena_bytes(plan->schedule, d),
                     (long long)device_bytes(p, plan, d), (long long)split_bytes(m, plan->devices, d),
                     (long long)gathered_bytes(plan->schedule, d));
    }
    text_add(t, "],\"recomputed\":[");
    for (int i = 0; i < p->dropped.layer_count; i++) {
        const DroppedLayer *l = &p->dropped.layers[i];
        text_add(t, "%s{\"layer\":", i ? "," : "");
        json_text(t, l->layer);
        text_add(t, ",\"tensors\":%d,\"bytes\":%.0f,\"us\":%.1f}", l->tensors, l->bytes, l->us);
    }
    text_add(t, "]");
}

/* Prints the layers of which something is recomputed; those after MOST are one line. */
static void print_dropped(const Dropped *d, Text *t)
{
    enum { MOST = 12 };
    DroppedLayer rest = {0};
    text_add(t, "%s\n", dropped_text(d));
    for (int i = 0; i < d->layer_count; i++) {
        const DroppedLayer *l = &d->layers[i];
        rest.tensors += i < MOST ? 0 : l->tensors;
        rest.bytes += i < MOST ? 0 : l->bytes;
        rest.us += i < MOST ? 0 : l->us;
        if (i < MOST)
            text_add(t, "  %4d  %10s in %9.1f us  %s\n", l->tensors, bytes_text(l->bytes), l->us,
                     *l->layer ? shown(l->layer) : "(no layer)");
    }
    if (rest.tensors)
        text_add(t, "  %4d  %10s in %9.1f us  %d more\n", rest.tensors, bytes_text(rest.bytes), rest.us, d->layer_count - MOST);
}

/* Prints a line for each range of devices with equal samples and bytes. */
static void print_devices(const Program *p, const Plan *plan, Text *t)
{
    for (int first = 0, next; first < plan->devices; first = next) {
        int64_t samples = plan->shards[first].share, bytes = device_bytes(p, plan, first);
        for (next = first + 1;
             next < plan->devices && plan->shards[next].share == samples && device_bytes(p, plan, next) == bytes;)
            next++;
        if (next - first > 1)
            text_add(t, "  devices %d %s %d: ", first, next - first > 2 ? "to" : "and", next - 1);
        else
            text_add(t, "  device %d: ", first);
        text_add(t, "%lld sample%s, %s bytes%s\n", (long long)samples, samples == 1 ? "" : "s", grouped(bytes),
                 next - first > 1 ? " each" : "");
    }
}

void check_print(const Model *m, const Program *p, bool json, Text *t)
{
    int64_t parameters = 0, trained = 0;
    for (int i = 0; i < m->variable_count; i++)
        if (m->variables[i].kind == WEIGHT) {
            parameters += shape_count(&m->variables[i].shape);
            trained += m->variables[i].trained ? shape_count(&m->variables[i].shape) : 0;
        }
    if (json) {
        check_json(m, p, parameters, t);
        return;
    }
    int width = 5, shape_width = 5;
    for (int i = 0; i < m->layer_count; i++) {
        int n = (int)strlen(shown(m->layers[i].name)), s = (int)strlen(shape_text(&m->layers[i].shape));
        width = n > width ? n : width;
        shape_width = s > shape_width ? s : shape_width;
    }
    text_add(t, "%-*s  %5s  %-*s  %12s  %10s\n", width, "layer", "line", shape_width, "shape", "parameters", "FLOPs");
    for (int i = 0; i < m->layer_count; i++)
        text_add(t, "%-*s  %5d  %-*s  %12s  %10s\n", width, shown(m->layers[i].name), model_line(m->layers[i].at), shape_width,
                 shape_text(&m->layers[i].shape), grouped(m->layers[i].parameters), magnitude(m->layers[i].flops));
    text_add(t, "\n%s: %s parameters", m->name, grouped(parameters));
    if (trained != parameters)
        text_add(t, " (%s trained)", grouped(trained));
    double flops = step_flops(p);
    if (flops > 0)
        text_add(t, ", %s%sFLOPs a sample%s", magnitude(flops), flops < 1000 ? " " : "", p->predicts ? "" : " and training step");
    text_add(t, "%s\n", m->train ? "" : "; without a loss it predicts, and is not trained");
    if (p->dropped.tensors)
        print_dropped(&p->dropped, t);
    for (int i = 0; i < p->plan_count; i++) {
        const Plan *plan = &p->plans[i];
        if (!plan->schedule)
            continue;
        text_add(t, "%s:%d, global batch %lld%s%s\n", plan->kind, plan->devices, (long long)m->batch,
                 m->accumulate > 1 ? format(" in %lld micro-batches", (long long)m->accumulate) : "", policy_text(p->options));
        print_devices(p, plan, t);
        if (split_bytes(m, 1, 0))
            text_add(t, "  split over the devices: %s bytes, device 0 has %s of them\n", grouped(split_bytes(m, 1, 0)),
                     grouped(split_bytes(m, plan->devices, 0)));
        if (gathered_bytes(plan->schedule, 0))
            text_add(t, "  gathered for their use: %s bytes at the same time at most\n",
                     grouped(gathered_bytes(plan->schedule, 0)));
    }
}

/* Prints the calls of one step, for the first scan in this text. */
static void scan_print(const Scan *s, int indent, Text *t)
{
    text_add(t, "%*s%lld steps%s, %lld samples at a time\n", indent, "", (long long)s->steps,
             s->reverse ? ", the last one first" : "", (long long)(s->samples ? s->chunk : 1));
    for (int i = 0; i < s->call_count; i++) {
        const Kernel *k = s->calls[i].kernel;
        text_add(t, "%*s%s", indent + 2, "", k->name);
        for (int r = 0; r < k->read_count; r++)
            text_add(t, "%s%s", r ? ", " : " ", shown(k->reads[r]->name));
        text_add(t, " ->");
        for (int w = 0; w < k->write_count; w++)
            text_add(t, "%s%s", w ? ", " : " ", shown(k->writes[w]->name));
        text_add(t, "\n");
        if (k->scan)
            scan_print(k->scan, indent + 4, t);
    }
}

void phase_print(const Phase *p, Text *t)
{
    text_add(t, "phase %s\n", phase_name(p->kind, p->partial_batch));
    for (int i = 0; i < p->tensor_count; i++) {
        const Tensor *x = p->tensors[i];
        text_add(t, "  tensor %s %s%s%s%s\n", shown(x->name), x->has_samples ? "n x " : "", dtype_name(x->dtype),
                 shape_text(&x->shape), x->partial ? " partial" : "");
    }
    for (int i = 0; i < p->task_count; i++) {
        const Task *k = p->tasks[i];
        text_add(t, "  %s", k->kind == TASK_TRANSFER ? transfer_word(k->participants.transfer) : k->kernel->name);
        for (int r = 0; r < k->read_count; r++)
            text_add(t, "%s%s", r ? ", " : " ", shown(k->reads[r]->name));
        text_add(t, " ->");
        for (int w = 0; w < k->write_count; w++)
            text_add(t, "%s%s", w ? ", " : " ", shown(k->writes[w]->name));
        text_add(t, "%s%s line %d\n", k->backward ? " backward" : "", k->update ? " update" : "", model_line(k->at));
        if (k->kernel && k->kernel->scan)
            scan_print(k->kernel->scan, 4, t);
    }
}

void memory_print(const Schedule *s, Text *t)
{
    for (int i = 0; i < s->phase_count; i++)
        for (int d = 0; d < s->devices; d++) {
            const DeviceSchedule *device = &s->phases[i].devices[d];
            text_add(t, "phase %s device %d of %d: arena %s bytes (at least %s), staging %s bytes\n", s->phases[i].name, d,
                     s->devices, grouped(device->arena_bytes), grouped(device->least_bytes), grouped(device->staging_bytes));
            for (int b = 0; b < device->buffer_count; b++) {
                const Buffer *x = &device->buffers[b];
                text_add(t, "  %12lld  %12lld%s  %-10s %s\n", (long long)x->offset, (long long)x->bytes,
                         x->slots > 1 ? format(" x %d", x->slots) : "    ", BUFFER_KIND_NAME[x->kind], shown(x->name));
            }
        }
}
