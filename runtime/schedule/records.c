/* records.c: tables that describe the text of a schedule's records. docs/schedule.md says what they mean.
 *
 *   file        "mgpu-schedule 3" model [plan] [phases] kernel* phase*       one record a line; # begins a comment
 *   phases      "phases" (NAME HHHHHHHH)*
 *                 all phases of the program in order, each with a digest of its name and of its calls' digests, which identifies
 *                 what it computes; absent in texts of earlier versions, which are not proved
 *   phase       "phase" NAME device* (buffer | op)* collective*
 *   device      "device" N fields ["as" N]
 *                 as: it has the buffers and operations of device N, an earlier device that has records itself
 *   buffer, op  dN.NAME fields
 *   access      dN.BUFFER ["[" BEGIN ":" END ["of" N] "]"] [("@+" | "@-") K]      no range: all of it;
 *                                                            K: slot (step + K) mod slots
 *   wait        dN.OP ["@-" K]                               the operation K steps ago; absent: in this step
 *   parameter   DTYPE (BYTES | "each" BYTES) ["over" N]      over: overwrites input N, counted from 0
 *
 * Names of letters, digits and . _ - / need no quotes. Other names are in quotes, where \" \\ and \xHH (two hexadecimal digits)
 * stand for characters. */
#include "runtime/schedule/schedule.h"

const char *const LANE_NAME[LANES] = MGPU_LANE_NAMES;
const char *const VERB_NAME[VERBS] = {"call", "read", "upload", "reduce", "report", "fetch"};
const char *const BUFFER_KIND_NAME[BUFFER_KINDS] = {"staging", "step",      "input",  "variable",  "report",
                                                    "output",  "temporary", "bucket", "workspace", "local"};
const char *const CAUSE_NAME[CAUSES] = {"computation", "upload", "communication", "input", "other devices", "nothing to do"};
static const char *const IMPLEMENTATION[MGPU_IMPLEMENTATIONS] = MGPU_IMPLEMENTATION_NAMES;
static const char *const INPUT_NAME[INPUT_POLICIES] = {"ahead", "slice", "whole"};
static const char *const VARIABLES_NAME[VARIABLE_POLICIES] = {"replicated", "host", "device"};
static const char *const REDUCE_NAME[REDUCE_POLICIES] = {"auto", "host", "copy", "peer", "ring", "tree", "nccl"};
static const char *const ORDER_NAME[ORDER_POLICIES] = {"synchronous", "stale", "none"};
static const char *const WAITED_NAME[WAITED_POLICIES] = {"comm", "auto", "sync"};
static const char *const GRADIENT_NAME[GRADIENT_POLICIES] = {"exact", "bf16", "one-bit"};

static const mgpu_field MODEL[] = {
    {NULL, MGPU_FIELD_NAME, MGPU_AT(Schedule, model), .what = "the name of the model"},
    {"precision", MGPU_FIELD_NAME, MGPU_AT(Schedule, precision), .what = "the name of a number type"},
    {"batch", MGPU_FIELD_WHOLE, MGPU_AT(Schedule, batch), .what = "the batch"},
    {"accumulate", MGPU_FIELD_INT, MGPU_AT(Schedule, accumulate), .least = 1, .what = "the number of micro-batches"},
    {"devices", MGPU_FIELD_INT, MGPU_AT(Schedule, devices), .least = 1, .what = "the number of devices"},
    {"nodes", MGPU_FIELD_INT, MGPU_AT(Schedule, nodes), .optional = true, .usual = 1, .least = 1, .what = "the number of nodes"},
    {"exact", MGPU_FIELD_WHOLE, MGPU_AT(Schedule, exact), .optional = true, .what = "the number of virtual shards"},
    {"group", MGPU_FIELD_WHOLE, MGPU_AT(Schedule, group), .optional = true, .usual = 1, .least = 1,
     .what = "the samples of a group"},
    {"predicts", MGPU_FIELD_FLAG, MGPU_AT(Schedule, predicts), .optional = true},
};
static const mgpu_field PLAN[] = {
    /* POLICY_WORDS of these */
    {"input", MGPU_FIELD_CHOICE, MGPU_AT(Policy, input), MGPU_NAMES(INPUT_NAME), .what = "a policy"},
    {"variables", MGPU_FIELD_CHOICE, MGPU_AT(Policy, variables), MGPU_NAMES(VARIABLES_NAME), .what = "a policy"},
    {"reduce", MGPU_FIELD_CHOICE, MGPU_AT(Policy, reduce), MGPU_NAMES(REDUCE_NAME), .what = "a policy"},
    {"order", MGPU_FIELD_CHOICE, MGPU_AT(Policy, order), MGPU_NAMES(ORDER_NAME), .what = "a policy"},
    {"waited", MGPU_FIELD_CHOICE, MGPU_AT(Policy, waited), MGPU_NAMES(WAITED_NAME), .what = "a policy"},
    {"gradients", MGPU_FIELD_CHOICE, MGPU_AT(Policy, gradients), MGPU_NAMES(GRADIENT_NAME), .what = "a policy"},
    {"slots", MGPU_FIELD_INT, MGPU_AT(Policy, slots), .what = "the number of slots"},
    {.word = "label", .kind = FIELD_LABEL},
};
const mgpu_field *const POLICY_WORD = PLAN;
static const mgpu_field KERNEL[] = {
    {.kind = FIELD_KERNEL},
    {"in", FIELD_PARAMETERS, MGPU_AT(Signature, in), .more = offsetof(Signature, in_count)},
    {"out", FIELD_PARAMETERS, MGPU_AT(Signature, out), .more = offsetof(Signature, out_count)},
    {"own of", MGPU_FIELD_WHOLE, MGPU_AT(Signature, elements), .optional = true, .what = "the elements of the whole value"},
    {"work", MGPU_FIELD_WHOLE, MGPU_AT(Signature, work), .optional = true, .what = "the size of the workspace"},
    {"each", MGPU_FIELD_WHOLE, MGPU_AT(Signature, work_each), .within = true, .what = "the size of the workspace of a sample"},
    {"extent", MGPU_FIELD_TEXT, MGPU_AT(Signature, extent), .optional = true, .what = "what its threads run over"},
};
/* The fields of a phase that only the image has; in the text, the phase's name implies them. */
static const mgpu_field PHASE[] = {
    {"kind", MGPU_FIELD_INT, MGPU_AT(PhaseSchedule, kind), .what = "the kind of the phase"},
    {"partial", MGPU_FIELD_FLAG, MGPU_AT(PhaseSchedule, partial_batch), .optional = true},
    {"reports", MGPU_FIELD_NAMES, MGPU_AT(PhaseSchedule, reports), .more = offsetof(PhaseSchedule, report_count),
     .optional = true, .what = "what it reports"},
};
static const mgpu_field DEVICE[] = {
    {"name", MGPU_FIELD_TEXT, MGPU_AT(DeviceSchedule, name), .what = "the name of the device"},
    {"arena", MGPU_FIELD_WHOLE, MGPU_AT(DeviceSchedule, arena_bytes), .what = "the size of the arena"},
    {"work", MGPU_FIELD_WHOLE, MGPU_AT(DeviceSchedule, work_bytes), .what = "the size of the workspaces"},
    {"staging", MGPU_FIELD_WHOLE, MGPU_AT(DeviceSchedule, staging_bytes), .what = "the size of the staging arena"},
    {.word = "samples", .kind = FIELD_SAMPLES},
    {"capacity", MGPU_FIELD_WHOLE, MGPU_AT(DeviceSchedule, capacity), .what = "the capacity"},
};
static const mgpu_field BUFFER[] = {
    {"kind", MGPU_FIELD_CHOICE, MGPU_AT(Buffer, kind), MGPU_NAMES(BUFFER_KIND_NAME), .what = "a kind of buffer"},
    {"offset", MGPU_FIELD_WHOLE, MGPU_AT(Buffer, offset), .what = "the offset"},
    {"bytes", MGPU_FIELD_WHOLE, MGPU_AT(Buffer, bytes), .what = "the size"},
    {"slots", MGPU_FIELD_INT, MGPU_AT(Buffer, slots), .optional = true, .usual = 1, .least = 1, .what = "the number of slots"},
    {"each", MGPU_FIELD_WHOLE, MGPU_AT(Buffer, each), .optional = true, .what = "the size of a sample"},
    {"own of", MGPU_FIELD_WHOLE, MGPU_AT(Buffer, elements), .optional = true, .what = "the elements of the whole value"},
    {"index", MGPU_FIELD_INT, MGPU_AT(Buffer, index), .optional = true, .usual = -1, .what = "the index"},
    {"type", MGPU_FIELD_TYPE_OR_NONE, MGPU_AT(Buffer, type), .optional = true},
    {"updated", MGPU_FIELD_FLAG, MGPU_AT(Buffer, updated), .optional = true},
    {"replaced", MGPU_FIELD_FLAG, MGPU_AT(Buffer, replaced), .optional = true},
};
static const mgpu_field OP[] = {
    {"lane", MGPU_FIELD_CHOICE, MGPU_AT(ScheduledOp, lane), MGPU_NAMES(LANE_NAME), .what = "a lane"},
    {.kind = FIELD_VERB},
    {"region", MGPU_FIELD_INT, MGPU_AT(ScheduledOp, region), .optional = true, .usual = -1, .what = "the number of the region"},
    {"samples", MGPU_FIELD_FLAG, MGPU_AT(ScheduledOp, by_sample), .within = true},
    {"chunk", MGPU_FIELD_WHOLE, MGPU_AT(ScheduledOp, chunk), .within = true, .what = "the samples of a chunk"},
    {.word = "own", .kind = FIELD_OWN},
    {.word = "reads", .kind = FIELD_READS},
    {.word = "writes", .kind = FIELD_WRITES},
    {.word = "waits", .kind = FIELD_WAITS},
    {.word = "digest", .kind = FIELD_CALL_DIGEST},
    {.kind = FIELD_NAN_SOURCES},
    {"begin_us", MGPU_FIELD_TIME, MGPU_AT(ScheduledOp, begin_us), .what = "the begin"},
    {"time_us", MGPU_FIELD_TIME, MGPU_AT(ScheduledOp, time_us), .what = "the time"},
    {"line", MGPU_FIELD_INT, MGPU_AT(ScheduledOp, line), .what = "the line"},
    {"layer", MGPU_FIELD_NAME, MGPU_AT(ScheduledOp, layer), .optional = true, .what = "the path of a layer"},
    {"role", MGPU_FIELD_NAME, MGPU_AT(ScheduledOp, role), .optional = true, .what = "the role of an operation"},
    {"other_pass", MGPU_FIELD_NUMBER, MGPU_AT(ScheduledOp, other_pass), .optional = true, .what = "the part of another pass"},
    {"flops", MGPU_FIELD_AMOUNT, MGPU_AT(ScheduledOp, flops), .optional = true,
     .what = "the number of floating-point operations"},
    {"bytes", MGPU_FIELD_AMOUNT, MGPU_AT(ScheduledOp, bytes), .optional = true, .what = "the bytes that the call moves"},
};
static const mgpu_field COLLECTIVE[] = {
    {.word = "group", .kind = FIELD_MEMBERS},
    {.word = "kind", .kind = FIELD_PARTICIPANTS},
    {.word = "bytes", .kind = FIELD_COUNT},
    {"via", MGPU_FIELD_CHOICE, MGPU_AT(CollectiveRecord, implementation), MGPU_NAMES(IMPLEMENTATION), .what = "how it is made"},
    {"why", MGPU_FIELD_TEXT, MGPU_AT(CollectiveRecord, why), .optional = true, .what = "why"},
    {"of", MGPU_FIELD_NAMES, MGPU_AT(CollectiveRecord, of), .more = offsetof(CollectiveRecord, of_count), .optional = true,
     .what = "what it sums"},
};
const mgpu_record MODEL_RECORD = {"model", MGPU_FIELDS(MODEL)}, PLAN_RECORD = {"plan", MGPU_FIELDS(PLAN)},
                  KERNEL_RECORD = {"kernel", MGPU_FIELDS(KERNEL)}, PHASE_RECORD = {"phase", MGPU_FIELDS(PHASE)},
                  DEVICE_RECORD = {"device", MGPU_FIELDS(DEVICE)}, BUFFER_RECORD = {"buffer", MGPU_FIELDS(BUFFER)},
                  OP_RECORD = {"op", MGPU_FIELDS(OP)}, COLLECTIVE_RECORD = {"collective", MGPU_FIELDS(COLLECTIVE)};

/* ---- predictions */
static const mgpu_field STEP[] = {
    {"step_us", MGPU_FIELD_TIME, MGPU_AT(Schedule, step.step_us), .what = "the time of a step"},
    {"machine", MGPU_FIELD_TEXT, MGPU_AT(Schedule, step.machine), .what = "the name of a machine"},
    {"bound", MGPU_FIELD_TEXT, MGPU_AT(Schedule, step.bound), .what = "what bounds a step"},
};
static const mgpu_field ROOFS[] = {
    {"bandwidth", MGPU_FIELD_NUMBER, MGPU_AT(Schedule, step.bandwidth), .what = "bytes a second"},
    {"plain", MGPU_FIELD_NUMBER, MGPU_AT(Schedule, step.plain), .what = "operations a second"},
    {"matrix", MGPU_FIELD_NUMBER, MGPU_AT(Schedule, step.matrix), .what = "operations a second"},
};
static const mgpu_field LANE_USE[] = {
    {"devices", MGPU_FIELD_INT, MGPU_AT(LaneRecord, first), .what = "the number of a device"},
    {NULL, MGPU_FIELD_INT, MGPU_AT(LaneRecord, last), .what = "the number of a device"},
    {NULL, MGPU_FIELD_CHOICE, MGPU_AT(LaneRecord, lane), MGPU_NAMES(LANE_NAME), .what = "a lane"},
    {"busy_us", MGPU_FIELD_TIME, MGPU_AT(LaneRecord, use.busy_us), .what = "a time"},
    {"idle_us", MGPU_FIELD_TIMES, MGPU_AT(LaneRecord, use.idle_us), .name_count = CAUSES, .what = "a time"},
};
static const mgpu_field LINK[] = {
    {NULL, MGPU_FIELD_TEXT, MGPU_AT(LinkRecord, name), .what = "the name of a link"},
    {"bytes", MGPU_FIELD_AMOUNT, MGPU_AT(LinkRecord, bytes), .what = "the bytes that it carries"},
    {"share", MGPU_FIELD_SHARE, MGPU_AT(LinkRecord, share), .what = "the share of its rate"},
};
static const mgpu_field TRANSFERS[] = {
    {"bytes", MGPU_FIELD_WHOLE, MGPU_AT(Schedule, outside_arena_bytes), .optional = true, .what = "the bytes of transfers"}};
const mgpu_record REMARK[REMARKS] = {
    {"predicted", MGPU_FIELDS(STEP)},
    {"roofs", MGPU_FIELDS(ROOFS)},
    {"lane", MGPU_LIST(LaneRecord, Schedule, step.lanes, step.lane_count), MGPU_FIELDS(LANE_USE)},
    {"link", MGPU_LIST(LinkRecord, Schedule, step.links, step.link_count), MGPU_FIELDS(LINK)},
    {"transfers", MGPU_FIELDS(TRANSFERS)},
};

const char *policy_label(const Policy *p)
{
    static const char *const LABEL[2][GRADIENT_POLICIES] = {
        {NULL, "bf16 gradients", "one-bit gradients"},
        {"one step stale", "one step stale, bf16 gradients", "one step stale, one-bit gradients"}};
    const char *label = LABEL[p->order == ORDER_STALE][p->gradients];
    return p->order == ORDER_NONE ? "NOT TRAINING, UPPER BOUND" : label ? label : p->forward ? PREDICTS_ONLY : NULL;
}
