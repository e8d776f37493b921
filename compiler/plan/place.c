/* place.c: Program, capacity -> the persistent buffers of a device; Phase, Order -> all buffers of a phase.
 *
 * The arena begins with what outlives a step: step blocks, inputs, variables, report, at the same offsets in all phases of a
 * plan. Outputs and caches of `decode` follow, in the phases predict and decode only: training has temporaries there, and the
 * engine drains all lanes between these phases (engine.c). Staging buffers are in host memory, an arena of their own. After the
 * persistent part every phase places what lives within a step: temporaries, buckets, workspaces. Such a buffer is needed from the
 * first to the last call that accesses it, in the order of the comp lane. So is a bucket, because the first reader of a sum waits
 * for the collective (a sum without readers is needed to the end). Calls of a region have no order: what one of them accesses is
 * needed by the whole region. Workspaces are at the end, one for each worker. They include values of samples that never leave a
 * region (local): these have room for one chunk, and are needed from call to call, since a worker runs the calls in order.
 *
 * What is transferred between devices has the same offset on all of them, because NCCL requires that for registered memory.
 * Devices with about as many samples have one layout, that of the device with most samples (its `reserved`). Otherwise what is
 * transferred is placed before all else of a step, where offsets do not depend on samples. The persistent part is always that of
 * the device with most samples. */
#include "compiler/ir/placement.h"
#include "compiler/kernel/phase.h"
#include "compiler/plan/policy.h"
#include "compiler/plan/schedule.h"
#include "compiler/plan/schedule_internal.h"

#include "compiler/kernel/target.h"
#include "compiler/kernel/kernel.h"
#include "runtime/abi/mgpu.h"

#include <string.h>

int64_t align_bytes(int64_t bytes) { return align_to(bytes, ALIGNMENT); }

int workspace_alignment(const Program *p) { return p->target->workspace_alignment; }

/* ---- the persistent part */
/* bytes that the device uses; bytes that are reserved on each device */
typedef struct ReservedBytes {
    int64_t used, reserved;
} ReservedBytes;

static int add_buffer(Buffer **buffers, int *count, const char *name, BufferKind kind, ReservedBytes bytes, int slots, int index,
                      int64_t *arena)
{
    Buffer b = {.name = name, .kind = (uint8_t)kind, .offset = *arena, .bytes = bytes.used, .slots = slots, .index = index};
    for (int i = 0; i < slots; i++)
        *arena = add_bytes(*arena, align_bytes(bytes.reserved));
    APPEND(*buffers, *count, b);
    return *count - 1;
}

/* name NULL: no phase has the tensor */
typedef struct Found {
    const char *name;
    ReservedBytes bytes;
    int64_t each;
    int type;
    bool used;
} Found;

static ReservedBytes bytes_for(const Tensor *x, Samples n)
{
    return (ReservedBytes){tensor_bytes(x, n.used), tensor_bytes(x, n.reserved)};
}
static ReservedBytes same_bytes(int64_t bytes) { return (ReservedBytes){bytes, bytes}; }

static void find_tensor(Found *found, const Tensor *x, TensorKind kind, Samples samples, bool used)
{
    if (x->kind != kind)
        return;
    ReservedBytes bytes = bytes_for(x, samples);
    Found *f = &found[x->index];
    f->name = f->name ? f->name : x->name;
    f->bytes = bytes.used > f->bytes.used ? bytes : f->bytes;
    f->used |= used;
    f->each = x->has_samples ? tensor_bytes(x, 1) : 0;
    f->type = (int)x->dtype + 1;
}

/* Finds the tensors of a kind in all phases, by index; used: by a task. */
static Found *find_tensors(const Program *p, TensorKind kind, Samples samples, int *count)
{
    for (int i = 0; i < p->phase_count; i++)
        for (int k = 0; k < p->phases[i]->tensor_count; k++) {
            const Tensor *x = p->phases[i]->tensors[k];
            if (x->kind == kind && x->index >= *count)
                *count = x->index + 1;
        }
    Found *found = NEW_ARRAY(Found, *count);
    for (int i = 0; i < p->phase_count; i++) {
        const Phase *phase = p->phases[i];
        for (int k = 0; k < phase->tensor_count; k++)
            find_tensor(found, phase->tensors[k], kind, samples, false);
        for (int t = 0; t < phase->task_count; t++) {
            for (int k = 0; k < phase->tasks[t]->read_count; k++)
                find_tensor(found, phase->tasks[t]->reads[k], kind, samples, true);
            for (int k = 0; k < phase->tasks[t]->write_count; k++)
                find_tensor(found, phase->tasks[t]->writes[k], kind, samples, true);
        }
    }
    return found;
}

static int *no_buffers(int count)
{
    int *numbers = NEW_ARRAY(int, count);
    for (int i = 0; i < count; i++)
        numbers[i] = -1;
    return numbers;
}

/* caches: adds the caches of `decode`; false: all other variables */
static void add_variables(Persistent *a, const Model *m, const Found *found, int count, bool caches)
{
    for (int i = 0; i < count; i++) {
        const Variable *v = &m->variables[i];
        bool split = variable_is_placed(v, OVER_ELEMENTS), samples = variable_is_placed(v, OVER_SAMPLES);
        int64_t elements = shape_count(&v->shape),
                whole = split ? mgpu_even_part(elements, a->devices, 1) : elements; /* the first part is the largest */
        ReservedBytes bytes = same_bytes(whole * dtype_bytes(v->dtype));
        if ((v->kind == CACHE) != caches)
            continue;
        a->variable[i] =
            add_buffer(&a->buffers, &a->buffer_count, found[i].name ? found[i].name : format("w.%s", v->name), BUFFER_VARIABLE,
                       (samples && found[i].name) || (found[i].bytes.used > bytes.used && !split) ? found[i].bytes : bytes, 1, i,
                       &a->arena_bytes);
        a->buffers[a->variable[i]].elements = split ? elements : 0;
        a->buffers[a->variable[i]].each = samples ? found[i].each : 0;
        a->buffers[a->variable[i]].type = (uint8_t)(found[i].name ? found[i].type : (int)v->dtype + 1);
    }
}

Persistent *place_persistent(const Program *p, Samples samples, int64_t batch, int devices)
{
    Samples of_inputs = batch ? (Samples){.used = batch, .reserved = batch} : samples;
    const Policy *policy = policy_of(p->options);
    int staged = policy->slots > SLOTS ? policy->slots : SLOTS;
    const Model *m = p->model;
    Persistent *a = NEW(Persistent);
    a->devices = devices;
    a->samples = samples;
    a->group = m->group > 1 ? m->group : 1;
    int inputs = 0, variables = m->variable_count, outputs = 0, reports = 0;
    Found *input = find_tensors(p, TENSOR_INPUT, of_inputs, &inputs);
    Found *variable = find_tensors(p, TENSOR_VARIABLE, samples, &variables);
    Found *output = find_tensors(p, TENSOR_OUTPUT, samples, &outputs);
    for (int i = 0; i < p->phase_count; i++)
        reports = p->phases[i]->report_count > reports ? p->phases[i]->report_count : reports;
    a->staging = no_buffers(inputs);
    a->input = no_buffers(inputs);
    a->variable = no_buffers(variables);
    a->output = no_buffers(outputs);
    a->report = -1;
    for (int i = 0; i < inputs; i++)
        if (input[i].used) {
            a->staging[i] = add_buffer(&a->buffers, &a->buffer_count, format("stage.%s", m->inputs[i].name), BUFFER_STAGING,
                                       input[i].bytes, staged, i, &a->staging_bytes);
            a->buffers[a->staging[i]].type = (uint8_t)input[i].type;
        }
    int64_t *arena = &a->arena_bytes;
    a->step =
        add_buffer(&a->buffers, &a->buffer_count, "step", BUFFER_STEP, same_bytes((int64_t)sizeof(mgpu_step)), SLOTS, -1, arena);
    for (int i = 0; i < inputs; i++)
        if (input[i].used) {
            a->input[i] =
                add_buffer(&a->buffers, &a->buffer_count, input[i].name, BUFFER_INPUT, input[i].bytes, policy->slots, i, arena);
            a->buffers[a->input[i]].each = input[i].each;
            a->buffers[a->input[i]].type = (uint8_t)input[i].type;
        }
    add_variables(a, m, variable, variables, false);
    if (reports)
        a->report = add_buffer(&a->buffers, &a->buffer_count, "report", BUFFER_REPORT,
                               same_bytes((int64_t)sizeof(double) * reports), SLOTS, -1, arena);
    if (reports)
        a->buffers[a->report].type = F64 + 1;
    a->common_count = a->buffer_count;
    a->common_bytes = a->arena_bytes;
    add_variables(a, m, variable, variables, true);
    for (int i = 0; i < outputs; i++)
        if (output[i].used) {
            a->output[i] =
                add_buffer(&a->buffers, &a->buffer_count, output[i].name, BUFFER_OUTPUT, output[i].bytes, SLOTS, i, arena);
            a->buffers[a->output[i]].each = output[i].each;
            a->buffers[a->output[i]].type = (uint8_t)output[i].type;
        }
    return a;
}

/* ---- the part of a phase */
enum { NOBODY = -1 };
typedef struct Placing {
    const Phase *phase;
    const Order *order;
    const Persistent *persistent;
    int persistent_count; /* number of the persistent buffers that the phase has */
    Samples samples;
    bool apart; /* transferred buffers are placed before the others */
    int64_t micro;
    const char *archs;
    const Target *target;
    MemoryLayout *layout;
    Block *blocks;   /* lifetimes of the transient buffers */
    Buffer *buffers; /* their records */
    int count;
    int *region_first, *region_last; /* by call: the first and last call of its region */
    int64_t *chunk;                  /* by tensor: samples of a chunk in its region */
    bool *local;                     /* by tensor: only calls of one region access it, and by sample */
    const bool *divided;             /* by tensor: the device has room for its own part only */
} Placing;

static int add_block(Placing *s, const char *name, BufferKind kind, ReservedBytes bytes) /* returns the buffer's index */
{
    Block block = {.bytes = bytes.reserved, .first = NOBODY, .last = NOBODY};
    Buffer buffer = {.name = name, .kind = (uint8_t)kind, .bytes = bytes.used, .slots = 1, .index = -1};
    int count = s->count;
    APPEND(s->blocks, count, block);
    APPEND(s->buffers, s->count, buffer);
    return s->persistent_count + s->count - 1;
}

/* Marks the buffer as needed by the call, and so by the call's whole region, in which calls have no order. */
static void live(Placing *s, int buffer, int call)
{
    if (buffer < s->persistent_count)
        return;
    Block *b = &s->blocks[buffer - s->persistent_count];
    bool inside = call < s->order->call_count && s->buffers[buffer - s->persistent_count].kind != BUFFER_LOCAL;
    int first = inside ? s->region_first[call] : call, last = inside ? s->region_last[call] : call;
    if (b->first == NOBODY || first < b->first)
        b->first = first;
    if (last > b->last)
        b->last = last;
}

static void find_regions(Placing *s)
{
    const Order *o = s->order;
    s->region_first = NEW_ARRAY(int, o->call_count);
    s->region_last = NEW_ARRAY(int, o->call_count);
    for (int i = 0; i < o->call_count; i++)
        s->region_first[i] = i > 0 && o->region[i - 1] == o->region[i] ? s->region_first[i - 1] : i;
    for (int i = o->call_count - 1; i >= 0; i--)
        s->region_last[i] = i + 1 < o->call_count && o->region[i + 1] == o->region[i] ? s->region_last[i + 1] : i;
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static Access access_of(Placing *s, const Tensor *x)
{
    const Persistent *a = s->persistent;
    ReservedBytes bytes = bytes_for(x, s->samples);
    switch (x->kind) {
    case TENSOR_INPUT: return whole_buffer(a->input[x->index], bytes.used);
    case TENSOR_VARIABLE:
        return whole_buffer(a->variable[x->index],
                            a->buffers[a->variable[x->index]].elements ? a->buffers[a->variable[x->index]].bytes : bytes.used);
    case TENSOR_OUTPUT: return whole_buffer(a->output[x->index], bytes.used);
    case TENSOR_REPORT: return whole_buffer(a->report, (int64_t)sizeof(double) * s->phase->report_count);
    case TENSOR_TEMPORARY: {
        if (s->local[x->id]) {
            ReservedBytes chunk = bytes_for(x, (Samples){.used = smaller(s->chunk[x->id], s->samples.used),
                                                         .reserved = smaller(s->chunk[x->id], s->samples.reserved)});
            int buffer = add_block(s, x->name, BUFFER_LOCAL, chunk);
            s->buffers[s->count - 1].each = tensor_bytes(x, 1);
            s->buffers[s->count - 1].type = (uint8_t)(x->dtype + 1);
            return whole_buffer(buffer, chunk.used);
        }
        int64_t elements = s->divided[x->id] ? shape_count(&x->shape) : 0;
        bytes = elements ? same_bytes(mgpu_even_part(elements, a->devices, 1) * dtype_bytes(x->dtype)) : bytes;
        int buffer = add_block(s, x->name, BUFFER_TEMPORARY, bytes);
        s->buffers[s->count - 1].elements = elements;
        s->buffers[s->count - 1].each = x->has_samples ? tensor_bytes(x, 1) : 0;
        s->buffers[s->count - 1].type = (uint8_t)(x->dtype + 1);
        return whole_buffer(buffer, bytes.used);
    }
    }
    die("tensor %s is of no kind", x->name);
}

static void touch(Placing *s, const Tensor *x, int call)
{
    Access *access = &s->layout->tensor[x->id];
    if (access->buffer < 0)
        *access = access_of(s, x);
    if (access->buffer < 0)
        die("tensor %s has no buffer", x->name);
    live(s, access->buffer, call);
}

static void touch_groups(Placing *s)
{
    for (int i = 0; i < s->order->group_count; i++) {
        const Group *g = &s->order->groups[i];
        int bucket = g->bucket ? add_block(s, format("bucket%d", i), BUFFER_BUCKET, same_bytes(g->bytes)) : -1;
        if (g->bucket)
            s->buffers[s->count - 1].type = (uint8_t)(g->members[0]->dtype + 1); /* dtype of the whole sum */
        for (int k = 0; k < g->member_count && g->bucket; k++)
            s->layout->tensor[g->members[k]->id] =
                (Access){.buffer = bucket,
                         .begin = g->begin[k],
                         .end = add_bytes(g->begin[k], tensor_bytes(g->members[k], s->samples.used))};
        touch(s, g->members[0], g->after > 0 ? g->after : 0);
        s->layout->group[i] = g->bucket ? whole_buffer(bucket, g->bytes) : s->layout->tensor[g->members[0]->id];
    }
}

/* Only the workspaces of contractions depend much on the samples. */
static int64_t fixed_workspace(const Placing *s, const Task *t)
{
    const Kernel *k = t->kernel;
    if (!s->micro || !k->contraction || !s->target->workspace_for)
        return t->workspace_bytes;
    return s->target->workspace_for(k, s->micro, s->archs);
}

static void touch_calls(Placing *s)
{
    for (int c = 0; c < s->order->call_count; c++) {
        const Task *task = s->order->calls[c];
        for (int i = 0; i < task->read_count; i++)
            touch(s, task->reads[i], c);
        for (int i = 0; i < task->write_count; i++)
            touch(s, task->writes[i], c);
        ReservedBytes bytes;
        if (__builtin_mul_overflow(task->workspace_bytes_per_sample, s->samples.used, &bytes.used) ||
            __builtin_mul_overflow(task->workspace_bytes_per_sample, s->samples.reserved, &bytes.reserved))
            fail_too_large();
        bytes.used = add_bytes(bytes.used, fixed_workspace(s, task));
        bytes.reserved = add_bytes(bytes.reserved, fixed_workspace(s, task));
        s->layout->work[c].buffer = -1;
        if (bytes.used > 0) {
            s->layout->work[c] = whole_buffer(add_block(s, format("work%d", c), BUFFER_WORKSPACE, bytes), bytes.used);
            live(s, s->layout->work[c].buffer, c);
        }
    }
}

void find_locals(const Phase *p, const Order *o, bool *local, int64_t *chunk)
{
    int *region = NEW_ARRAY(int, p->tensor_count);
    for (int i = 0; i < p->tensor_count; i++) {
        const Tensor *x = p->tensors[i];
        region[i] = -1;
        local[i] = x->kind == TENSOR_TEMPORARY && x->has_samples && !x->partial && o->group_of[i] < 0;
    }
    for (int c = 0; c < o->call_count; c++) {
        const Task *t = o->calls[c];
        for (int i = 0; i < t->read_count + t->write_count; i++) {
            int x = i < t->read_count ? t->reads[i]->id : t->writes[i - t->read_count]->id;
            if (t->kernel->split != MGPU_SPLIT_SAMPLES || o->chunk[c] == 0 || (region[x] >= 0 && region[x] != o->region[c]))
                local[x] = false;
            region[x] = o->region[c];
            chunk[x] = o->chunk[c];
        }
    }
}

static void find_divided_of(const Task *t, Tensor *const *tensors, int count, bool *own)
{
    for (int i = 0; i < count; i++)
        own[tensors[i]->id] = own[tensors[i]->id] && tensor_is_divided(tensors[i], t->elements) && !t->participants.parts;
}

bool *find_divided(const Phase *p, const Order *o)
{
    bool *own = NEW_ARRAY(bool, p->tensor_count);
    for (int i = 0; i < p->tensor_count; i++)
        own[i] = p->tensors[i]->kind == TENSOR_TEMPORARY && o->group_of[i] < 0;
    for (int t = 0; t < p->task_count; t++) {
        find_divided_of(p->tasks[t], p->tasks[t]->reads, p->tasks[t]->read_count, own);
        find_divided_of(p->tasks[t], p->tasks[t]->writes, p->tasks[t]->write_count, own);
    }
    return own;
}

/* A sum without readers is needed to the end: no reader shows when its collective has completed. */
static void keep_unread_sums(Placing *s)
{
    for (int i = 0; i < s->order->group_count; i++) {
        int buffer = s->layout->group[i].buffer, block = buffer - s->persistent_count;
        if (block >= 0 && s->blocks[block].last <= s->order->groups[i].after)
            live(s, buffer, s->order->call_count);
    }
}

/* transferred buffers, if they are placed first; the others; workspaces, of which every worker has its own */
typedef enum Zone { ZONE_TRANSFERRED, ZONE_REST, ZONE_WORKSPACES, ZONES } Zone;

static Zone *find_zones(const Placing *s)
{
    Zone *zone = NEW_ARRAY(Zone, s->count);
    for (int i = 0; i < s->count; i++)
        zone[i] = s->buffers[i].kind == BUFFER_WORKSPACE || s->buffers[i].kind == BUFFER_LOCAL ? ZONE_WORKSPACES : ZONE_REST;
    for (int i = 0; i < s->order->group_count && s->apart; i++) {
        int block = s->layout->group[i].buffer - s->persistent_count;
        if (block >= 0)
            zone[block] = ZONE_TRANSFERRED;
    }
    return zone;
}

/* Places the buffers of a zone after `begin`; returns its bytes. */
static int64_t place_zone(Placing *s, const Zone *zone, Zone which, bool reuse, int alignment, int64_t begin, int64_t *least)
{
    Block *blocks = NEW_ARRAY(Block, s->count);
    int *number = NEW_ARRAY(int, s->count), count = 0;
    for (int i = 0; i < s->count; i++)
        if (zone[i] == which) {
            number[count] = i;
            blocks[count++] = s->blocks[i];
        }
    int64_t bytes = place_blocks(blocks, count, reuse, alignment, least);
    for (int i = 0; i < count; i++) {
        s->blocks[number[i]] = blocks[i];
        s->blocks[number[i]].offset = add_bytes(blocks[i].offset, begin);
    }
    return bytes;
}

/* The answer is the same for all devices of a plan. */
static bool has_own_layout(const Persistent *a)
{
    enum { PART = 8 };
    int64_t apart = a->samples.reserved - a->samples.least;
    return apart > a->group && apart > a->samples.reserved / PART;
}

MemoryLayout *place_phase(const Program *program, const Phase *p, const Order *order, const Persistent *a, int64_t micro)
{
    MemoryLayout *l = NEW(MemoryLayout);
    l->tensor = NEW_ARRAY(Access, p->tensor_count);
    l->work = NEW_ARRAY(Access, order->call_count);
    l->group = NEW_ARRAY(Access, order->group_count);
    for (int i = 0; i < p->tensor_count; i++)
        l->tensor[i].buffer = -1;
    bool apart = has_own_layout(a);
    bool predicts = p->kind == PHASE_PREDICT || p->kind == PHASE_DECODE;
    int64_t kept_bytes = predicts ? a->arena_bytes : a->common_bytes;
    Placing s = {.phase = p,
                 .order = order,
                 .persistent = a,
                 .persistent_count = predicts ? a->buffer_count : a->common_count,
                 .samples = a->samples,
                 .apart = apart,
                 .micro = micro,
                 .archs = program->options->arch,
                 .target = program->target,
                 .layout = l};
    s.samples.reserved = apart ? s.samples.used : s.samples.reserved;
    find_regions(&s);
    s.local = NEW_ARRAY(bool, p->tensor_count);
    s.chunk = NEW_ARRAY(int64_t, p->tensor_count);
    find_locals(p, order, s.local, s.chunk);
    s.divided = find_divided(p, order);
    touch_groups(&s);
    touch_calls(&s);
    keep_unread_sums(&s);
    const Zone *zone = find_zones(&s);
    bool reuse = !program->options->no_reuse;
    int64_t end = kept_bytes, least[ZONES];
    end = add_bytes(end, place_zone(&s, zone, ZONE_TRANSFERRED, reuse, ALIGNMENT, end, &least[ZONE_TRANSFERRED]));
    end = add_bytes(end, place_zone(&s, zone, ZONE_REST, reuse, ALIGNMENT, end, &least[ZONE_REST]));
    l->arena_bytes = align_to(end, workspace_alignment(program));
    l->work_bytes =
        place_zone(&s, zone, ZONE_WORKSPACES, reuse, workspace_alignment(program), l->arena_bytes, &least[ZONE_WORKSPACES]);
    l->least_arena = add_bytes(add_bytes(kept_bytes, least[ZONE_TRANSFERRED]), least[ZONE_REST]);
    l->least_work = least[ZONE_WORKSPACES];
    l->buffer_count = s.persistent_count + s.count;
    l->buffers = NEW_ARRAY(Buffer, l->buffer_count);
    memcpy(l->buffers, a->buffers, sizeof *l->buffers * (size_t)s.persistent_count);
    for (int i = 0; i < s.count; i++) {
        Buffer *b = &l->buffers[s.persistent_count + i];
        *b = s.buffers[i];
        b->offset = s.blocks[i].offset;
    }
    return l;
}
