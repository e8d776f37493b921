/* check_plan.c: does a plan's schedule fit the program? What a schedule says was proved before it became an image; here it is
 * compared with the program's tables before the first step: kernels, variables, inputs, outputs. A wrong table ends the program
 * with a message instead of a wrong result. */
#include "runtime/base/base.h"
#include "runtime/engine/device.h"
#include "runtime/engine/engine.h"

#include <string.h>

enum { MOST_OPERATIONS = 1 << 23 }; /* of a phase on a device; engine.c counts them in PLACE_BITS */

typedef struct PlanCheck {
    const mgpu_program *program;
    const mgpu_plan *plan;
    const mgpu_phase *phase;
    int device;
    const mgpu_op *op;
} PlanCheck;

static _Noreturn void wrong(const PlanCheck *c, const char *what)
{
    mgpu_die("the program's tables are wrong: %s, device %d%s%s: %s (line %d of %s)", c->phase ? c->phase->name : "plan",
             c->device, c->op ? ", operation " : "", c->op ? c->op->id : "", what, c->op ? c->op->line : 0,
             c->program->model_file);
}

static void require(const PlanCheck *c, bool condition, const char *what)
{
    if (!condition)
        wrong(c, what);
}

static int64_t bytes_of_variable(const PlanCheck *c, const mgpu_variable *v)
{
    int64_t bytes = mgpu_tensor_bytes(&v->tensor), each = mgpu_dtype_bytes(v->tensor.dtype), count = bytes / each;
    int devices = c->plan->devices;
    if (v->sharded)
        return bytes * c->plan->device[c->device].shard.capacity;
    return v->split ? (mgpu_even_part(count, devices, c->device + 1) - mgpu_even_part(count, devices, c->device)) * each : bytes;
}

/* Returns the samples of all devices together. */
static int64_t whole_batch(const mgpu_plan *p)
{
    int64_t end = 0;
    for (int d = 0; d < p->devices; d++)
        end = p->device[d].shard.first + p->device[d].shard.capacity > end
                  ? p->device[d].shard.first + p->device[d].shard.capacity
                  : end;
    return end;
}

static void check_buffer(const PlanCheck *c, const mgpu_buffer *b)
{
    const mgpu_device *device = &c->plan->device[c->device];
    const mgpu_program *p = c->program;
    int count = b->kind == MGPU_VARIABLE ? p->variable_count : b->kind == MGPU_OUTPUT ? p->output_count : p->input_count;
    if (b->kind == MGPU_VARIABLE || b->kind == MGPU_OUTPUT || b->kind == MGPU_INPUT)
        require(c, b->index >= 0 && b->index < count, "a buffer belongs to nothing");
    if (b->kind == MGPU_STAGING)
        require(c, b->index >= -1 && b->index < count, "a staging buffer belongs to nothing");
    if (b->kind == MGPU_VARIABLE)
        require(c, b->bytes == bytes_of_variable(c, &p->variables[b->index]) && b->offset == device->variable_offset[b->index],
                "a variable has another size or place");
    if (b->kind == MGPU_INPUT || (b->kind == MGPU_STAGING && b->index >= 0))
        require(c,
                b->bytes == mgpu_tensor_bytes(&p->inputs[b->index].tensor) * device->shard.capacity ||
                    b->bytes == mgpu_tensor_bytes(&p->inputs[b->index].tensor) * whole_batch(c->plan),
                "an input's buffer has another size");
    if (b->kind == MGPU_STEP || (b->kind == MGPU_STAGING && b->index < 0))
        require(c, b->bytes >= (int64_t)sizeof(mgpu_step), "the step block does not fit its buffer");
    if (b->kind == MGPU_OUTPUT)
        require(c, b->bytes == mgpu_tensor_bytes(&p->outputs[b->index]) * device->shard.capacity,
                "an output's buffer has another size");
}

/* Returns the kind of the i-th access's buffer. For READ and UPLOAD it determines which memory the access is in. */
static uint8_t kind_of(const mgpu_device_phase *p, const mgpu_op *op, int i)
{
    return p->buffers[mgpu_access_of(op, i)->buffer].kind;
}

bool mgpu_is_joined(const mgpu_gpu_kernel *k, const mgpu_op *op)
{
    return k->epilogue.kind != MGPU_EPILOGUE_NONE && op->read_count > k->epilogue.reads + 1; /* the step block is one more */
}

const mgpu_op *mgpu_comp_before(const mgpu_device_phase *p, const mgpu_op *op)
{
    while (op-- > p->ops)
        if (op->lane == MGPU_COMP)
            return op;
    return NULL;
}

/* Checks a call that a library may replace: it reads two operands and the step block, and writes the result and, for matmuls, a
 * workspace. */
static void check_library(const PlanCheck *c, const mgpu_device_phase *p, const mgpu_gpu_kernel *k)
{
    const mgpu_op *op = c->op;
    const mgpu_library_matmul *m = k->matmul;
    const mgpu_library_convolution *v = k->convolution;
    bool work = op->write_count == 2 && kind_of(p, op, 4) == MGPU_WORKSPACE;
    require(c, op->read_count == 3 && (work || (v && op->write_count == 1)) && !(m && v), "a matmul has other arguments");
    require(c,
            !v || (v->dims >= 2 && v->dims <= 3 && v->groups > 0 && v->filter <= MGPU_FILTER_OUT_IN_TAPS &&
                   v->x + v->w + v->y == 3 &&
                   (v->result == MGPU_CONVOLUTION_Y   ? v->y
                    : v->result == MGPU_CONVOLUTION_X ? v->x
                                                      : v->w) == 2),
            "a convolution makes no sense");
    require(c, !m || (m->a.argument < 2 && m->b.argument < 2 && m->d.argument == 2 && m->sampled >= -1 && m->sampled < 4),
            "a matmul makes no sense");
}

/* Checks a call that follows a matmul's and has its operands, too. */
static void check_epilogue(const PlanCheck *c, const mgpu_device_phase *p, const mgpu_epilogue *e)
{
    const mgpu_op *op = c->op, *matmul = mgpu_comp_before(p, op);
    const mgpu_access *write = op->writes;
    require(c, matmul && matmul->verb == MGPU_CALL && matmul->read_count == 3 && c->program->gpu_kernels[matmul->target].matmul,
            "an epilogue follows no matmul");
    int result = mgpu_access_of(matmul, matmul->read_count)->buffer,
        x = e->x < 0 || e->x >= e->reads ? -1 : mgpu_access_of(op, e->x)->buffer;
    bool stored = op->write_count == e->writes + 2;
    require(c,
            op->read_count >= e->reads + 3 && (stored || op->write_count == e->writes + 1) &&
                (!stored || write[e->writes].buffer == result) &&
                p->buffers[write[op->write_count - 1].buffer].kind == MGPU_WORKSPACE &&
                mgpu_access_of(op, e->reads)->buffer == mgpu_access_of(matmul, 0)->buffer &&
                mgpu_access_of(op, e->reads + 1)->buffer == mgpu_access_of(matmul, 1)->buffer,
            "an epilogue has other arguments");
    require(
        c,
        e->kind <= MGPU_EPILOGUE_BGRAD && e->bias < e->reads && e->before < e->reads && e->y < e->writes && e->sums < e->writes &&
            (e->kind == MGPU_EPILOGUE_BGRAD
                 ? stored && e->sums >= 0 && (x == mgpu_access_of(matmul, 0)->buffer || x == mgpu_access_of(matmul, 1)->buffer)
                 : e->y >= 0 && x == result && (e->kind == MGPU_EPILOGUE_DGELU) == (e->before >= 0)),
        "an epilogue makes no sense");
}

/* Returns true if chunks begin where units of virtual shards do (mgpu_kernel.unit). */
static bool has_whole_units(const PlanCheck *c)
{
    const mgpu_program *p = c->program;
    int64_t unit = p->exact && p->kernels ? p->kernels[c->op->target].unit : 0, group = p->group > 1 ? p->group : 1;
    int64_t largest = (c->plan->micro / group + p->exact - 1) / (p->exact ? p->exact : 1) * group;
    return unit == 0 || c->op->chunk % unit == 0 || c->op->chunk >= largest;
}

static void check_verb(const PlanCheck *c, const mgpu_device_phase *p)
{
    const mgpu_op *op = c->op;
    switch (op->verb) {
    case MGPU_CALL:
        require(c, op->target >= 0 && op->target < c->program->kernel_count, "there is no such kernel");
        require(c, has_whole_units(c), "a chunk ends within a unit of a virtual shard");
        if (c->program->gpu_kernels &&
            (c->program->gpu_kernels[op->target].matmul || c->program->gpu_kernels[op->target].convolution))
            check_library(c, p, &c->program->gpu_kernels[op->target]);
        if (c->program->gpu_kernels && mgpu_is_joined(&c->program->gpu_kernels[op->target], op))
            check_epilogue(c, p, &c->program->gpu_kernels[op->target].epilogue);
        break;
    case MGPU_REPORT:
        require(c, mgpu_access_of(op, 0)->end - mgpu_access_of(op, 0)->begin >= c->phase->report_count * (int64_t)sizeof(double),
                "the report is smaller than its names");
        break;
    case MGPU_FETCH: require(c, op->target >= 0 && op->target < c->program->output_count, "there is no such output"); break;
    default: break;
    }
}

void mgpu_check_plan(const DeviceKind *kind, const mgpu_program *program, const mgpu_plan *plan)
{
    PlanCheck c = {.program = program, .plan = plan};
    require(&c, plan->devices >= 1 && plan->micro >= 1 && plan->phase_count >= 1, "the plan is empty");
    require(&c, kind->async ? program->gpu_kernels && program->images : program->kernels != NULL,
            "the plan has no kernels for its devices");
    for (int k = 0; k < plan->phase_count; k++) {
        c.phase = &plan->phases[k];
        for (c.device = 0; c.device < plan->devices; c.device++) {
            const mgpu_device_phase *p = &c.phase->devices[c.device];
            c.op = NULL;
            require(&c, p->op_count <= MOST_OPERATIONS, "too many operations");
            for (int b = 0; b < p->buffer_count; b++)
                check_buffer(&c, &p->buffers[b]);
            for (int i = 0; i < p->op_count; i++) {
                c.op = &p->ops[i];
                check_verb(&c, p);
            }
        }
    }
}
