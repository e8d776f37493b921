/* graph.c: capturing what is issued to streams as a graph, and launching it. A graph's nodes run in any order that its edges
 * allow; every launch of it follows the one before. */
#include "tests/vgpu/graph.h"

#include <stdlib.h>
#include <string.h>

static CUstream streams;
static int next_capture = 1;

/* ---- lists of nodes */

static void copy_tips(int **to, int *to_count, const int *from, int count)
{
    free(*to);
    *to = count ? memcpy(malloc((size_t)count * sizeof **to), from, (size_t)count * sizeof **to) : NULL;
    *to_count = count;
}

static void join_tips(CUstream s, const int *tips, int count)
{
    for (int k = 0; k < count; k++) {
        bool there = false;
        for (int i = 0; i < s->tip_count; i++)
            there |= s->tips[i] == tips[k];
        if (there)
            continue;
        s->tips = realloc(s->tips, (size_t)(s->tip_count + 1) * sizeof *s->tips);
        s->tips[s->tip_count++] = tips[k];
    }
}

static void add_node(CUstream s, Node node)
{
    struct CUgraph_st *g = s->capture;
    copy_tips(&node.before, &node.before_count, s->tips, s->tip_count);
    g->nodes = realloc(g->nodes, (size_t)(g->count + 1) * sizeof *g->nodes);
    g->nodes[g->count] = node;
    copy_tips(&s->tips, &s->tip_count, &g->count, 1);
    g->count++;
}

/* ---- capture */

void vgpu_add_stream(CUstream s)
{
    s->next = streams;
    streams = s;
}

void vgpu_remove_stream(CUstream s)
{
    CUstream *at = &streams;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
}

static struct CUgraph_st *active(int capture) /* the graph of a capture that goes on */
{
    for (CUstream s = streams; s; s = s->next)
        if (s->capture && s->capture->capture == capture)
            return s->capture;
    return NULL;
}

/* "potentially unsafe API calls": they are not enqueued in a stream, so no capture sees them (cuda.h,
 * cuThreadExchangeStreamCaptureMode); which they are no manual lists: here, all that allocate, free, load or wait for what was
 * issued. GPUS: a driver may make them wait until GPUs are idle, also those that can reach each other's memory. */
typedef enum { UNSAFE = 1, GPUS = 2 } Needs;
static bool needs(const char *call, Needs what)
{
    static const struct {
        const char *call;
        int needs;
    } CALLS[] = {
        {"cuMemAlloc", UNSAFE | GPUS},
        {"cuMemFree", UNSAFE | GPUS},
        {"cuMemHostAlloc", UNSAFE | GPUS},
        {"cuMemFreeHost", UNSAFE | GPUS},
        {"cuModuleLoadDataEx", UNSAFE | GPUS},
        {"cuModuleUnload", UNSAFE | GPUS},
        {"cuModuleGetFunction", UNSAFE | GPUS},
        {"cuCtxEnablePeerAccess", UNSAFE | GPUS},
        {"cuCtxDisablePeerAccess", UNSAFE | GPUS},
        {"cuStreamSynchronize", UNSAFE},
        {"cuEventSynchronize", UNSAFE},
        {"ncclCommInitAll", UNSAFE | GPUS},
        {"ncclCommInitRank", UNSAFE},
        {"ncclCommDestroy", UNSAFE | GPUS},
        {"ncclCommAbort", UNSAFE},
        {"ncclMemAlloc", UNSAFE | GPUS},
        {"ncclMemFree", UNSAFE | GPUS},
        {"cuStreamCreateWithPriority", GPUS},
        {"cuStreamDestroy", GPUS},
        {"cuEventCreate", GPUS},
        {"cuEventDestroy", GPUS},
        {"cuGraphInstantiateWithFlags", GPUS},
        {"cuGraphUpload", GPUS},
        {"cuGraphExecDestroy", GPUS},
    };
    for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++)
        if (strcmp(CALLS[i].call, call) == 0)
            return (CALLS[i].needs & (int)what) != 0;
    return false;
}

CUresult vgpu_check_capture(const char *call)
{
    CUresult r = CUDA_SUCCESS;
    for (CUstream s = needs(call, UNSAFE) ? streams : NULL; s; s = s->next) {
        struct CUgraph_st *g = s->capture;
        bool own = g && pthread_equal(g->thread, pthread_self());
        if (!g || g->mode == CU_STREAM_CAPTURE_MODE_RELAXED || (!own && g->mode != CU_STREAM_CAPTURE_MODE_GLOBAL))
            continue;
        g->spoiled = true;
        r = VGPU_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (r == CUDA_SUCCESS && vgpu_machine.calls_wait && needs(call, GPUS) && !vgpu_finish_issued())
        r = CUDA_ERROR_LAUNCH_FAILED;
    return r;
}

CUresult vgpu_captured_event(CUevent e)
{
    struct CUgraph_st *g = active(e->capture);
    if (g)
        g->spoiled = true;
    return VGPU_ERROR_CAPTURED_EVENT;
}

CUresult vgpu_begin_capture(CUstream s, int mode)
{
    if (s->capture || mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    s->capture = calloc(1, sizeof *s->capture);
    s->capture->capture = next_capture++;
    s->capture->uses = 1;
    s->capture->mode = mode;
    s->capture->thread = pthread_self();
    s->capture->device = s->device;
    s->origin = true;
    return CUDA_SUCCESS;
}

int vgpu_capture_work(CUstream s, Work work)
{
    work.device = s->device;
    if (s->capture->spoiled) {
        vgpu_free_work(&work);
        return VGPU_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    add_node(s, (Node){.kind = NODE_WORK, .work = work});
    return CUDA_SUCCESS;
}

int vgpu_capture_record(CUstream s, CUevent e, unsigned flags)
{
    if (s->capture->spoiled)
        return VGPU_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (flags & CU_EVENT_RECORD_EXTERNAL) {
        add_node(s, (Node){.kind = NODE_RECORD, .event = e});
        return CUDA_SUCCESS;
    }
    e->capture = s->capture->capture;
    copy_tips(&e->tips, &e->tip_count, s->tips, s->tip_count);
    return CUDA_SUCCESS;
}

/* a call that breaks a rule invalidates the capture */
static int spoil(struct CUgraph_st *g, int error)
{
    if (g)
        g->spoiled = true;
    return error;
}

int vgpu_capture_wait(CUstream s, CUevent e, unsigned flags)
{
    if (s->capture && s->capture->spoiled)
        return VGPU_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (flags & CU_EVENT_WAIT_EXTERNAL) {
        if (!s->capture)
            return CUDA_ERROR_INVALID_VALUE;
        add_node(s, (Node){.kind = NODE_WAIT, .event = e});
        return CUDA_SUCCESS;
    }
    struct CUgraph_st *g = e->capture ? active(e->capture) : NULL;
    if (!g)
        return spoil(s->capture, e->capture ? VGPU_ERROR_CAPTURED_EVENT : VGPU_ERROR_STREAM_CAPTURE_ISOLATION);
    if (g->spoiled)
        return VGPU_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (s->capture && s->capture != g) {
        spoil(g, 0);
        return spoil(s->capture, VGPU_ERROR_STREAM_CAPTURE_MERGE);
    }
    s->capture = g;
    join_tips(s, e->tips, e->tip_count);
    return CUDA_SUCCESS;
}

/* "It may only be used between kernel nodes" (cuda.h, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC) */
bool vgpu_follows_kernel(CUstream s)
{
    const struct CUgraph_st *g = s->capture;
    if (!g)
        return s->last && s->last->work.kind == OP_LAUNCH;
    const Node *last = s->tip_count == 1 ? &g->nodes[s->tips[0]] : NULL;
    return last && last->kind == NODE_WORK && last->work.kind == OP_LAUNCH;
}

static void mark_before(const struct CUgraph_st *g, int node, bool *marked)
{
    marked[node] = true;
    for (int k = 0; k < g->nodes[node].before_count; k++)
        if (!marked[g->nodes[node].before[k]])
            mark_before(g, g->nodes[node].before[k], marked);
}

/* every stream that was drawn in has to lead back */
static bool joined(const struct CUgraph_st *g, CUstream origin)
{
    bool *marked = calloc((size_t)g->count + 1, sizeof *marked), all = true;
    for (int k = 0; k < origin->tip_count; k++)
        mark_before(g, origin->tips[k], marked);
    for (CUstream s = streams; s; s = s->next)
        for (int k = 0; s->capture == g && k < s->tip_count; k++)
            all &= marked[s->tips[k]];
    free(marked);
    return all;
}

CUresult vgpu_end_capture(CUstream s, struct CUgraph_st **graph)
{
    struct CUgraph_st *g = s->capture;
    if (!g || !s->origin)
        return g ? VGPU_ERROR_STREAM_CAPTURE_UNMATCHED : CUDA_ERROR_INVALID_VALUE;
    if (g->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(g->thread, pthread_self()))
        return VGPU_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    CUresult r = g->spoiled     ? VGPU_ERROR_STREAM_CAPTURE_INVALIDATED
                 : joined(g, s) ? CUDA_SUCCESS
                                : VGPU_ERROR_STREAM_CAPTURE_UNJOINED;
    for (CUstream other = streams; other; other = other->next)
        if (other->capture == g) {
            other->capture = NULL;
            copy_tips(&other->tips, &other->tip_count, NULL, 0);
        }
    s->origin = false;
    *graph = r == CUDA_SUCCESS ? g : NULL;
    if (*graph)
        vgpu_add_handle(g);
    if (r != CUDA_SUCCESS)
        vgpu_free_graph(g);
    return r;
}

void vgpu_free_graph(struct CUgraph_st *g)
{
    if (--g->uses > 0)
        return;
    for (int k = 0; k < g->count; k++) {
        if (g->nodes[k].kind == NODE_WORK)
            vgpu_free_work(&g->nodes[k].work);
        free(g->nodes[k].before);
    }
    free(g->nodes);
    free(g);
}

/* ---- launches */

/* A node goes on with the chain of one that it follows, if no other has; so a path of the graph is one chain. */
CUresult vgpu_instantiate(struct CUgraph_st *g, struct CUgraphExec_st **exec)
{
    struct CUgraphExec_st *e = calloc(1, sizeof *e);
    bool *taken = calloc((size_t)g->count + 1, sizeof *taken);
    e->graph = g;
    g->uses++;
    e->chain = malloc(((size_t)g->count + 1) * sizeof *e->chain);
    e->chains = malloc(((size_t)g->count + 1) * sizeof *e->chains);
    for (int k = 0; k < g->count; k++) {
        e->chain[k] = -1;
        for (int i = 0; i < g->nodes[k].before_count && e->chain[k] < 0; i++) {
            int before = g->nodes[k].before[i];
            if (!taken[before]) {
                taken[before] = true;
                e->chain[k] = e->chain[before];
            }
        }
        if (e->chain[k] < 0)
            e->chain[k] = e->chains[e->chain_count++] = vgpu_new_chain();
    }
    free(taken);
    *exec = e;
    vgpu_add_handle(e);
    return CUDA_SUCCESS;
}

static Work nothing(const char *what) { return (Work){.kind = OP_JOIN, .what = what}; }

static Work copy_of(const Work *from)
{
    Work w = *from;
    if (w.kind == OP_COLLECTIVE) {
        w.part.kept = NULL;
        w.part.gathering = from->part.kept->launch(from->part.kept, &w.part.member);
        if (!w.part.gathering)
            return nothing("a collective that is not begun");
    }
    vgpu_share_label(w.label);
    if (w.kind == OP_LAUNCH) {
        size_t bytes = vgpu_parameter_bytes(w.call.function);
        w.call.values = memcpy(malloc(bytes + 1), from->call.values, bytes);
    } else if (w.kind == OP_COPY) {
        vgpu_issue_copy(&w.copy);
    } else if (w.kind == OP_LIBRARY) {
        w.library.data = memcpy(malloc(w.library.bytes), from->library.data, w.library.bytes);
    }
    return w;
}

static Op *issue_node(struct CUgraphExec_st *e, int k, Op **ops, Op *begin)
{
    const Node *n = &e->graph->nodes[k];
    Op **before = malloc(((size_t)n->before_count + 2) * sizeof *before);
    int count = 0;
    before[count++] = begin;
    for (int i = 0; i < n->before_count; i++)
        before[count++] = ops[n->before[i]];
    if (n->kind == NODE_WAIT && n->event->op)
        before[count++] = n->event->op;
    Work w =
        n->kind == NODE_WORK ? copy_of(&n->work) : nothing(n->kind == NODE_WAIT ? "a wait in a graph" : "a record in a graph");
    Op *op = vgpu_issue_node(e->chain[k], n->kind == NODE_WORK ? n->work.device : e->graph->device, w, before, count);
    if (n->kind == NODE_RECORD) {
        vgpu_let_go(n->event->op);
        n->event->op = vgpu_hold(op);
    }
    free(before);
    return op;
}

CUresult vgpu_launch_graph(struct CUgraphExec_st *e, CUstream s)
{
    struct CUgraph_st *g = e->graph;
    Op **ops = malloc(((size_t)g->count + 1) * sizeof *ops);
    Op *begin = vgpu_hold(vgpu_issue(s, nothing("the beginning of a graph"), &e->last, e->last ? 1 : 0));
    for (int k = 0; k < g->count; k++)
        ops[k] = issue_node(e, k, ops, begin);
    Op *end = vgpu_issue(s, nothing("the end of a graph"), ops, g->count);
    vgpu_let_go(e->last);
    e->last = vgpu_hold(end);
    for (int k = 0; k < g->count; k++)
        vgpu_let_go(ops[k]);
    vgpu_let_go(begin);
    free(ops);
    return CUDA_SUCCESS;
}

void vgpu_free_exec(struct CUgraphExec_st *e)
{
    vgpu_finish(e->last);
    vgpu_let_go(e->last);
    for (int k = 0; k < e->chain_count; k++)
        vgpu_free_chain(e->chains[k]);
    vgpu_free_graph(e->graph);
    free(e->chain);
    free(e->chains);
    free(e);
}
