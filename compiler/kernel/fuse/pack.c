/* pack.c: packs small kernels that follow each other into one.
 *
 * In: groups in order. Out: kernels, fewer than there were groups. On the host each call costs the device's thread pool a
 * barrier, which is too much for what one thread computes in a microsecond (updates of biases, statistics of a batchnorm). The
 * nests of a packed kernel run one after the other, so their order keeps every dependence. On a GPU, where a launch takes as
 * long, they run side by side: a packed nest touches nothing that another one writes. Their partial results share one workspace.
 *
 * Many small updates stay separate calls of one function if they can: a launch executes several of them (plan/update_launches.c),
 * and there is less to compile. */
#include "compiler/kernel/fuse/fuse.h"
#include "compiler/kernel/phase.h"
#include "compiler/machine/machine.h"

#include "runtime/abi/mgpu.h"

enum { MOST_NESTS = 16 };

/* limit for all nests of a kernel */
static int64_t most_iterations(void) { return CHIP[PROCESSOR_HOST].one_thread_iterations; }

static int64_t iterations(const Kernel *k)
{
    int64_t count = 0, most = most_iterations();
    for (int i = 0; i < k->nest_count; i++) {
        const Exprs *x = k->nests[i].exprs;
        int64_t all = 1;
        for (int j = 0; j < x->axis_count && all <= most; j++)
            all = x->axis[j].samples || x->axis[j].kind != AXIS_PLAIN ? most + 1 : all * x->axis[j].extent;
        count += all;
        if (count > most)
            return most + 1;
    }
    return count;
}

bool fuse_is_small(const FusionGroup *g)
{
    const Kernel *k = g->kernel;
    return k && k->nest_count && !k->partial_bytes && k->split == MGPU_SPLIT_NONE && g->members[0]->kind == ROOT_LOOPS &&
           iterations(k) <= most_iterations();
}

static bool listed(const Tensor *const *list, int count, const Tensor *t)
{
    for (int i = 0; i < count; i++)
        if (list[i] == t)
            return true;
    return false;
}

static void join(FusionGroup *to, FusionGroup *from)
{
    Kernel *a = to->kernel;
    const Kernel *b = from->kernel;
    for (int i = 0; i < from->count; i++)
        APPEND(to->members, to->count, from->members[i]);
    Memory *outer = to->memory ? memory_use(to->memory) : NULL;
    for (int i = 0; i < b->read_count; i++) /* what an earlier nest computes is not read as an argument */
        if (!listed(a->writes, a->write_count, b->reads[i]) && !listed(a->reads, a->read_count, b->reads[i]))
            APPEND(a->reads, a->read_count, b->reads[i]);
    for (int i = 0; i < b->write_count; i++)
        if (!listed(a->writes, a->write_count, b->writes[i]))
            APPEND(a->writes, a->write_count, b->writes[i]);
    Nest *nests = NEW_ARRAY(Nest, a->nest_count + b->nest_count);
    for (int i = 0; i < a->nest_count + b->nest_count; i++)
        nests[i] = i < a->nest_count ? a->nests[i] : b->nests[i - a->nest_count];
    for (int i = a->nest_count; i < a->nest_count + b->nest_count; i++)
        for (int k = 0; k < nests[i].reduction_count; k++)
            nests[i].reductions[k].partial += a->partial_bytes;
    a->nests = nests;
    a->nest_count += b->nest_count;
    a->partial_bytes += b->partial_bytes;
    fuse_describe(to);
    if (to->memory) {
        memory_use(outer);
        memory_join(to->memory, from->memory);
        from->memory = NULL;
    }
}

static bool fits_after(const FusionGroup *open, const FusionGroup *g)
{
    return open->early == g->early && open->update == g->update && open->kernel->nest_count < MOST_NESTS;
}

/* ---- GPUs */

static bool has_random(const Kernel *k) /* then it shares its body with other kernels */
{
    for (int i = 0; i < k->nest_count; i++)
        for (int j = 0; j < k->nests[i].exprs->count; j++)
            if (k->nests[i].exprs->all[j]->kind == X_RANDOM)
                return true;
    return false;
}

static bool touches(const Kernel *a, const Kernel *b) /* true if a accesses what b writes */
{
    for (int i = 0; i < b->write_count; i++)
        if (listed(a->reads, a->read_count, b->writes[i]) || listed(a->writes, a->write_count, b->writes[i]))
            return true;
    return false;
}

static bool fits_with(const FusionGroup *open, const FusionGroup *g)
{
    return open->early == g->early && open->update == g->update &&
           open->kernel->nest_count + g->kernel->nest_count <= MOST_NESTS && !touches(g->kernel, open->kernel) &&
           !touches(open->kernel, g->kernel);
}

/* Returns true if there are more small updates than fit into one kernel, and launches may execute several calls of one
 * function. */
static bool has_many_updates(const Fusion *f)
{
    int count = 0;
    for (int i = 0; i < f->group_count; i++)
        count += f->groups[i]->update && f->groups[i]->small;
    return f->program->target->may_join && count > MOST_NESTS;
}

/* ---- in order */

/* Completes a kernel, into which no more is packed. */
static void finish(Fusion *f, FusionGroup *g)
{
    if (!g)
        return;
    f->groups[f->group_count++] = g;
    if (f->program->target->packed && !f->around && !f->separate && g->kernel)
        f->program->target->packed(g->kernel);
    if (f->done)
        f->done(f, g);
}

void fuse_pack(Fusion *f)
{
    int groups = f->group_count;
    bool (*may_pack)(const Kernel *) = f->program->target->may_pack; /* not NULL: nests run side by side */
    bool packs = !f->separate && !(may_pack && f->around), many = has_many_updates(f);
    FusionGroup *open = NULL; /* the last group, while more may be packed into it */
    int64_t open_iterations = 0;
    f->group_count = 0;
    for (int i = 0; i < groups; i++) {
        FusionGroup *g = f->groups[i];
        if (!g->kernel && g->members[0]->kind != ROOT_REDUCE)
            fuse_build(f, g);
        bool little = packs && !g->members[0]->elements &&
                      (may_pack ? g->kernel && may_pack(g->kernel) && !has_random(g->kernel) : fuse_is_small(g));
        little = little && !(many && g->update && f->program->target->may_join(g->kernel));
        int64_t count = little && !may_pack ? iterations(g->kernel) : 0;
        bool fits = little && open &&
                    (may_pack ? fits_with(open, g) : fits_after(open, g) && open_iterations + count <= most_iterations());
        if (fits) {
            join(open, g);
            open_iterations += count;
            continue;
        }
        finish(f, open);
        open = little ? g : NULL;
        open_iterations = count;
        if (!little)
            finish(f, g);
    }
    finish(f, open);
}
