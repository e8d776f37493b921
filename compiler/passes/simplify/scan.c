/* scan.c: loops. Unused results are removed, with carries that only they needed; a carry that never changes is no carry; what is
 * one number everywhere becomes a constant in the body; and the body is simplified like any graph. */
#include "compiler/passes/simplify/rules.h"

/* Returns, by result, if the carry or stack is needed. */
static bool *needed_results(const Loop *l, const bool *used)
{
    int count = l->carries + l->stacks;
    bool *needed = NEW_ARRAY(bool, count), *live = NEW_ARRAY(bool, l->body->node_count);
    for (int i = 0; i < count; i++)
        needed[i] = used[i];
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < count; i++)
            if (needed[i])
                live[l->next[i]->id] = true;
        for (int i = l->body->node_count - 1; i >= 0; i--)
            for (int k = 0; live[i] && k < l->body->nodes[i]->inputs; k++)
                live[l->body->nodes[i]->in[k]->id] = true;
        for (int i = 0; i < l->carries; i++)
            if (l->arg[i] && live[l->arg[i]->id] && !needed[i])
                changed = needed[i] = true;
    }
    return needed;
}

static bool stays(const Loop *l, int carry) { return l->next[carry] == l->arg[carry]; }

/* Makes the loop without what is not needed; place[i]: the new number of its result i, -1: none. */
static Node *prune(Simplifier *s, const Loop *l, Node **in, const bool *needed, int *place)
{
    Graph *inner = graph_open_body(s->target, l->body->name);
    int carries = 0, count = 0;
    for (int i = 0; i < l->inputs; i++) {
        Node *arg = l->arg[i];
        CaptureKind kind = loop_kind(l, i);
        if (!arg)
            continue;
        arg->mapped = NULL;
        if (kind == AS_CARRY && !stays(l, i)) {
            if (needed[i])
                arg->mapped = graph_scan_carry(inner, in[i], arg->has_samples);
        } else if (kind == AS_SEQUENCE) {
            arg->mapped = graph_scan_sequence(inner, in[i]);
        } else {
            double value;
            bool known = node_is_constant(in[i], &value) || in[i]->op == OP_ARANGE;
            arg->mapped = known ? graph_rebuild(inner, in[i], NULL) : graph_capture(inner, in[i]);
        }
        if (arg->mapped && !arg->mapped->name)
            arg->mapped->name = arg->name;
    }
    for (int i = 0; i < l->body->node_count; i++) {
        Node *n = l->body->nodes[i];
        bool known = n->op != OP_ARG;
        for (int k = 0; k < n->inputs; k++)
            known = known && n->in[k]->mapped;
        if (known)
            graph_copy_node(inner, n);
        else if (n->op != OP_ARG)
            n->mapped = NULL;
    }
    Node **values = NEW_ARRAY(Node *, l->carries + l->stacks);
    for (int i = 0; i < l->carries + l->stacks; i++) {
        place[i] = -1;
        if (!needed[i] || (i < l->carries && stays(l, i)))
            continue;
        values[count] = l->next[i]->mapped;
        place[i] = count++;
        carries += i < l->carries;
    }
    return count ? graph_close_scan(inner, l->steps, l->reverse, values, values + carries, count - carries) : NULL;
}

static Node *with_simple_body(Simplifier *s, Node *scan)
{
    Node like = *scan;
    like.body = simplify_body(s, scan->body);
    Loop l = loop_of(&like);
    Graph *inner = loop_open(s->target, &l, scan->in);
    for (int i = 0; i < l.body->node_count; i++)
        if (l.body->nodes[i]->op != OP_ARG)
            graph_copy_node(inner, l.body->nodes[i]);
    return loop_close(inner, &l);
}

Node **simplify_scan(Simplifier *s, const Node *scan, Node **in, const bool *used)
{
    Loop l = loop_of(scan);
    bool *needed = needed_results(&l, used);
    int *place = NEW_ARRAY(int, l.carries + l.stacks);
    Node *pruned = prune(s, &l, in, needed, place), *better = pruned ? with_simple_body(s, pruned) : NULL;
    Node **results = NEW_ARRAY(Node *, l.carries + l.stacks);
    for (int i = 0; i < l.carries + l.stacks; i++)
        if (place[i] >= 0)
            results[i] = graph_scan_result(s->target, better, place[i]);
        else
            results[i] = i < l.carries && stays(&l, i) ? in[i] : NULL;
    s->changes += !better || better->body->node_count != scan->body->node_count || better->inputs != scan->inputs;
    return results;
}
