/* plan_print.c: prints the rows of `mgpuc plan` as a table and as JSON. */
#include "compiler/driver/plan.h"
#include "compiler/plan/policy.h"
#include "compiler/probe/probe.h"

static const char *input_text(double bytes_a_second) /* as in data sheets */
{
    return bytes_a_second < 1e9    ? format("%.1f MB/s", bytes_a_second / 1e6)
           : bytes_a_second < 1e12 ? format("%.2f GB/s", bytes_a_second / 1e9)
                                   : format("%.2f TB/s", bytes_a_second / 1e12);
}

static const char *samples_text(const PlanRow *r)
{
    return r->least == r->most ? format("%lld", (long long)r->most)
                               : format("%lld-%lld", (long long)r->least, (long long)r->most);
}

/* Returns tokens, or samples if there are none, per second and device. */
static double each_per_second(const PlanRow *r) { return r->samples_per_s * (r->tokens > 0 ? r->tokens : 1) / r->devices; }

/* over: the table has rows of several nodes; exact: of models with `exact`, beside others */
static void print_row(const PlanRow *r, bool over, bool exact, Text *t)
{
    text_add(t, "%-7s %7s%s %7lld %9s %10s %11s %11s %6.1f%% %8.2f%c %9.1f%% %10s%s %10s %10s%c %9s  %-22s %s\n",
             r->weak ? "weak" : "strong", row_devices(r),
             !exact     ? ""
             : r->exact ? format(" %5lld", (long long)r->exact)
                        : "  none",
             (long long)r->batch, samples_text(r), ms_text(r->step_us), per_second_text(r->samples_per_s),
             per_second_text(each_per_second(r)), 100 * r->mfu, r->speed_up, r->unlike ? '*' : ' ', 100 * r->efficiency,
             ms_text(r->exposed_us), over ? format(" %10s", ms_text(r->between_us)) : "", input_text(r->input_per_s),
             bytes_text(r->bytes), r->memory > 0 && r->bytes > r->memory ? '!' : ' ',
             r->fits < 0 ? "-" : format("%lld", (long long)r->fits),
             r->link ? format("%s %.0f%%", r->link, 100 * r->link_share) : "-", r->bound);
}

/* Prints how certain the prediction is, for the last row, which has the most devices. */
static void print_from(const PlanRow *r, Text *t)
{
    text_add(t, "%s predicted from: %s\n", r->devices == 1 ? "1 device is" : format("%s devices are", row_devices(r)),
             grounds_text(&r->from));
}

static void print_table(const Planning *p, Text *t)
{
    bool over = false, exact = false, unlike = false, over_memory = false;
    for (int i = 0; i < p->row_count; i++)
        over |= p->rows[i].nodes > 1, exact |= p->rows[i].exact > 0, unlike |= p->rows[i].unlike != NULL,
            over_memory |= p->rows[i].memory > 0 && p->rows[i].bytes > p->rows[i].memory;
    text_add(t, "%s, %s%s, on %s (%s)%s. Everything here is predicted%s.\n\n", p->model, p->precision, policy_text(p->options),
             p->machine_name, p->machine == p->options->here ? here_text(p->machine) : p->machine->name,
             p->options->machine ? "" : "; --machine names another one",
             p->predicts ? ", of steps that predict, as the model has no loss" : "");
    text_add(t, "%-7s %7s%s %7s %9s %10s %11s %11s %7s %8s  %10s %10s%s %10s %10s  %9s  %-22s %s\n", "scaling", "devices",
             exact ? " exact" : "", "batch", "each", "step ms", "samples/s",
             p->row_count && p->rows[0].tokens > 0 ? "tokens/s/dv" : "per device", "MFU", "speed-up", "efficiency", "exposed ms",
             over ? format(" %10s", "between ms") : "", "input", "memory", "fits", "busiest link", "bound by");
    for (int i = 0; i < p->row_count; i++)
        print_row(&p->rows[i], over, exact, t);
    text_add(
        t,
        "\nbatch: global; each: samples of a device; exposed: communication that computing waits for; %smemory: %s; fits: the largest batch that does.\n",
        over ? "between: of it, that between nodes; " : "",
        p->machine->device_count ? "of a device"
        : over                   ? "of all devices of a node"
                                 : "of all devices");
    text_add(t, "%s a second and device; MFU: FLOPs of the model, of those that the devices have%s.\n",
             p->row_count && p->rows[0].tokens > 0 ? "tokens/s/dv: tokens" : "per device: samples",
             unlike ? "; *: the one device that it is compared with has another program" : "");
    if (p->row_count)
        print_from(&p->rows[p->row_count - 1], t);
    if (over_memory)
        text_add(t, "!: more than there is, so a run would not begin.\n");
    for (int i = 0; i < p->advice_count; i++)
        text_add(t, "%s- %s\n", i ? "" : "\n", p->advice[i]);
}

static void json_from(const char *what, const double *share, Text *t)
{
    static const char *const WORDS[GROUNDS] = {"run", "rates", "shares", "sheets", "assumed"};
    for (int g = 0; g < GROUNDS; g++)
        text_add(t, ",\"%s_from_%s\":%.9g", what, WORDS[g], share[g]);
}

static void json_row(const PlanRow *r, Text *t)
{
    text_add(
        t,
        "{\"scaling\":\"%s\",\"nodes\":%d,\"devices\":%d,\"exact\":%s,\"batch\":%lld,\"least\":%lld,\"most\":%lld,\"step_ms\":%.9g,\"samples_per_s\":%.9g,",
        r->weak ? "weak" : "strong", r->nodes, r->devices, r->exact ? format("%lld", (long long)r->exact) : "null",
        (long long)r->batch, (long long)r->least, (long long)r->most, r->step_us / 1e3, r->samples_per_s);
    text_add(t, "\"tokens_per_s\":%s,\"mfu\":%.9g,\"recomputed\":%.9g,\"micro_batches\":%lld,",
             r->tokens > 0 ? format("%.9g", r->samples_per_s * r->tokens) : "null", r->mfu, r->recomputed, (long long)r->micro);
    text_add(
        t,
        "\"speed_up\":%.9g,\"efficiency\":%.9g,\"computing_ms\":%.9g,\"longer_ms\":%.9g,\"exposed_ms\":%.9g,\"between_ms\":%.9g,\"upload_wait_ms\":%.9g,\"input_wait_ms\":%.9g,\"device_wait_ms\":%.9g,",
        r->speed_up, r->efficiency, r->computing_us / 1e3, r->longer_us / 1e3, r->exposed_us / 1e3, r->between_us / 1e3,
        r->upload_us / 1e3, r->input_us / 1e3, r->devices_us / 1e3);
    text_add(
        t,
        "\"sums\":%d,\"sums_ms\":%.9g,\"input_bytes_per_s\":%.9g,\"decode_cores\":%.9g,\"bytes\":%.0f,\"memory\":%.0f,\"fits\":%s,",
        r->sums, r->sums_us / 1e3, r->input_per_s, r->decode_cores, r->bytes, r->memory,
        r->fits < 0 ? "null" : format("%lld", (long long)r->fits));
    text_add(t, "\"unlike\":");
    if (r->unlike)
        json_text(t, r->unlike);
    else
        text_add(t, "null");
    text_add(t, ",\"link\":");
    if (r->link)
        json_text(t, r->link);
    else
        text_add(t, "null");
    json_from("kernels", r->from.kernels, t);
    json_from("transfers", r->from.transfers, t);
    text_add(t, ",\"link_bytes\":%.0f,\"link_share\":%.9g,\"steady\":%s,\"bound\":\"%s\"}", r->link_bytes, r->link_share,
             r->steady ? "true" : "false", r->bound);
}

static void print_json(const Planning *p, Text *t)
{
    text_add(t, "{\"model\":");
    json_text(t, p->model);
    text_add(t, ",\"machine\":");
    json_text(t, p->machine_name);
    text_add(t, ",\"kind\":\"%s\",\"precision\":\"%s\",\"plan\":\"%s\",\"plan_label\":%s,\"rows\":[", p->kind, p->precision,
             policy_of(p->options)->name,
             policy_label(policy_of(p->options)) ? format("\"%s\"", policy_label(policy_of(p->options))) : "null");
    for (int i = 0; i < p->row_count; i++) {
        text_add(t, i ? "," : "");
        json_row(&p->rows[i], t);
    }
    text_add(t, "],\"advice\":[");
    for (int i = 0; i < p->advice_count; i++) {
        text_add(t, i ? "," : "");
        json_text(t, p->advice[i]);
    }
    text_add(t, "]}\n");
}

void plan_print(const Planning *p, bool json, Text *t) { (json ? print_json : print_table)(p, t); }
