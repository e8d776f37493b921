/* compare.c: `mgpuc plan --compare`: the step times of all plans of --plan, for the same devices and batch.
 *
 * Each plan is compiled up to its schedule, which is simulated, as for every row of `mgpuc plan`. `auto` comes first and is the
 * baseline. Plans that are not synchronous do different work, and say so. A plan that --plan makes of policies comes last. */
#include "compiler/driver/plan.h"
#include "compiler/plan/policy.h"

/* What a policy asks of graphs is done before kernels are made of them (driver/stages.c). */
static bool has_usual_kernels(const Policy *policy)
{
    return policy->gradients == GRADIENTS_EXACT && policy->order != ORDER_STALE && !policy->forward;
}

static void add_row(Planning *p, KernelCache *usual, const Policy *policy, Count devices, int64_t batch, bool weak)
{
    Options o = *p->options;
    Planning one = *p;
    o.policy = policy;
    one.options = &o;
    one.kernels = has_usual_kernels(policy) ? usual : NULL;
    PlanRow row = plan_row(&one, devices, batch, weak, NULL);
    row.policy = policy;
    row.least_us = policy == PRESETS ? row.step_us : p->rows[p->row_count - 1].least_us;
    APPEND(p->rows, p->row_count, row);
}

void plan_compare(Planning *p, Count devices, int64_t batch, bool weak)
{
    KernelCache *usual = kernel_cache_new();
    for (const Policy *policy = PRESETS; policy->name; policy++) {
        bool compared = !policy->forward && (!policy->split || p->options->split) &&
                        (policy->order != ORDER_STALE || p->may_be_stale) && (devices.nodes == 1 || policy_spans_nodes(policy)) &&
                        (p->options->shard == SHARD_NOTHING || policy_shards(policy));
        if (compared)
            add_row(p, usual, policy, devices, batch, weak);
    }
    if (strchr(p->options->policy->name, ',') && !p->options->policy->split) /* a preset with a changed policy */
        add_row(p, usual, p->options->policy, devices, batch, weak);
    kernel_cache_free(usual);
}

static void print_row(const PlanRow *r, Text *t)
{
    const char *label = policy_label(r->policy);
    text_add(t, "%-16s %10s %11s %8.2f %10s %10s  %-22s %10s  %-13s %s%s%s%s\n", r->policy->split ? "weights" : r->policy->name,
             ms_text(r->step_us), per_second_text(r->samples_per_s), r->step_us / r->least_us, ms_text(r->exposed_us),
             bytes_text(r->bytes), r->link ? format("%s %.0f%%", r->link, 100 * r->link_share) : "-",
             r->link ? bytes_text(r->link_bytes) : "-", r->bound, r->policy->scheme, label ? " [" : "", label ? label : "",
             label ? "]" : "");
}

static void print_table(const Planning *p, Text *t)
{
    text_add(t, "%s, %s, on %s (%s). Everything here is predicted.\n", p->model, p->precision, p->machine_name, p->machine->name);
    for (int i = 0; i < p->row_count; i++) {
        const PlanRow *r = &p->rows[i];
        if (r->policy == PRESETS) {
            text_add(t, "\n%s devices, a global batch of %lld, %lld of each (%s scaling)\n", row_devices(r), (long long)r->batch,
                     (long long)r->most, r->weak ? "weak" : "strong");
            text_add(t, "%-16s %10s %11s %8s %10s %10s  %-22s %10s  %-13s %s\n", "plan", "step ms", "samples/s", "of auto",
                     "exposed ms", "memory", "busiest link", "its bytes", "bound by", "reproduces");
        }
        print_row(r, t);
    }
    text_add(t, "\nof auto: times as long as the step of auto, the default; exposed: communication that computing waits for.\n");
}

static void print_json(const Planning *p, Text *t)
{
    text_add(t, "{\"model\":");
    json_text(t, p->model);
    text_add(t, ",\"machine\":");
    json_text(t, p->machine_name);
    text_add(t, ",\"kind\":\"%s\",\"precision\":\"%s\",\"plans\":[", p->kind, p->precision);
    for (int i = 0; i < p->row_count; i++) {
        const PlanRow *r = &p->rows[i];
        text_add(t, "%s{\"plan\":\"%s\",\"label\":", i ? "," : "", r->policy->name);
        if (policy_label(r->policy))
            json_text(t, policy_label(r->policy));
        else
            text_add(t, "null");
        text_add(
            t,
            ",\"scaling\":\"%s\",\"devices\":%d,\"batch\":%lld,\"most\":%lld,\"step_ms\":%.9g,\"samples_per_s\":%.9g,\"of_auto\":%.9g,\"exposed_ms\":%.9g,\"bytes\":%.0f,",
            r->weak ? "weak" : "strong", r->devices, (long long)r->batch, (long long)r->most, r->step_us / 1e3, r->samples_per_s,
            r->step_us / r->least_us, r->exposed_us / 1e3, r->bytes);
        text_add(t, "\"link\":");
        if (r->link)
            json_text(t, r->link);
        else
            text_add(t, "null");
        text_add(t, ",\"link_bytes\":%.0f,\"link_share\":%.9g,\"bound\":\"%s\"}", r->link_bytes, r->link_share, r->bound);
    }
    text_add(t, "]}\n");
}

void compare_print(const Planning *p, bool json, Text *t) { (json ? print_json : print_table)(p, t); }
