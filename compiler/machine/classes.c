/* classes.c: Machine -> which of its GPUs are alike, and the routes between them.
 *
 * GPUs are of one class if their rates are equal and each has links of its own, equally fast and in the same order, to the same
 * switches and the host. A GPU with a link to another GPU is a class of its own. The route between two ends is searched once for
 * each pair of classes; other pairs of the same classes use their own links in place of those of the first. */
#include "compiler/machine/machine.h"

#include <string.h>

static bool same_rates(const Device *a, const Device *b)
{
    for (int t = 0; t < DTYPES; t++)
        if (a->plain[t].value != b->plain[t].value || a->matrix[t].value != b->matrix[t].value ||
            a->large[t].value != b->large[t].value)
            return false;
    return a->bandwidth.value == b->bandwidth.value && a->launch_us.value == b->launch_us.value &&
           a->event_us.value == b->event_us.value && a->memory.value == b->memory.value && a->units.value == b->units.value &&
           a->capability == b->capability;
}

/* Returns true if link `a` of GPU x and link `b` of GPU y are equally fast and lead to one end, which is not a GPU. */
static bool same_link(const Machine *m, int x, const Link *a, int y, const Link *b)
{
    int out = a->end[1] == x;
    return out == (b->end[1] == y) && a->end[!out] == b->end[!out] && a->end[!out] >= m->device_count &&
           a->rate[0].value == b->rate[0].value && a->rate[1].value == b->rate[1].value &&
           a->latency_us.value == b->latency_us.value;
}

static bool alike(const Machine *m, const Classes *c, int x, int y)
{
    if (c->own_count[x] != c->own_count[y] || !same_rates(&m->devices[x], &m->devices[y]))
        return false;
    for (int k = 0; k < c->own_count[x]; k++)
        if (!same_link(m, x, &m->links[c->own[x][k]], y, &m->links[c->own[y][k]]))
            return false;
    return true;
}

static bool find_classes(const Machine *m, Classes *c)
{
    for (int d = 0; d < m->device_count; d++) {
        int k = 0;
        while (k < c->count && !alike(m, c, c->first[k], d))
            k++;
        if (k == MOST_CLASSES)
            return false;
        if (k == c->count) {
            c->first[c->count] = d;
            c->second[c->count++] = -1;
        } else if (c->second[k] < 0) {
            c->second[k] = d;
        }
        c->of[d] = k;
    }
    return true;
}

static int kind_of(const Machine *m, const Classes *c, int end)
{
    return end < m->device_count ? c->of[end] : c->count + end - m->device_count;
}
static int first_of(const Machine *m, const Classes *c, int kind)
{
    return kind < c->count ? c->first[kind] : kind - c->count + m->device_count;
}

const Classes *machine_classes(const Machine *m)
{
    Classes *c = NEW(Classes);
    *c = (Classes){.of = NEW_ARRAY(int, m->device_count),
                   .own = NEW_ARRAY(int *, m->device_count),
                   .own_count = NEW_ARRAY(int, m->device_count)};
    for (int i = 0; i < m->link_count; i++)
        for (int e = 0; e < 2; e++) {
            int d = m->links[i].end[e];
            if (d < m->device_count)
                APPEND(c->own[d], c->own_count[d], i);
        }
    if (!find_classes(m, c))
        return NULL;
    c->kinds = c->count + 1 + m->switch_count;
    c->routes = NEW_ARRAY(Route, c->kinds * c->kinds);
    c->there = NEW_ARRAY(bool, c->kinds * c->kinds);
    for (int i = 0; i < c->kinds * c->kinds; i++) {
        int from = i / c->kinds, to = i % c->kinds, end = first_of(m, c, to);
        if (from == to)
            end = to < c->count ? c->second[to] : -1;
        c->there[i] = end >= 0 && find_route(m, first_of(m, c, from), end, &c->routes[i]);
    }
    return c;
}

/* Replaces a link of `first` in a route by the corresponding link of a device of the same class. */
static int own_link(const Classes *c, int link, int first, int device)
{
    for (int k = 0; k < c->own_count[first]; k++)
        if (c->own[first][k] == link)
            return c->own[device][k];
    return link;
}

bool class_route(const Machine *m, int from, int to, Route *r)
{
    const Classes *c = m->classes;
    int a = kind_of(m, c, from), b = kind_of(m, c, to), pair = a * c->kinds + b;
    *r = (Route){.rate = 1e300};
    if (from == to)
        return true;
    if (!c->there[pair])
        return false;
    *r = c->routes[pair];
    int begin = first_of(m, c, a), end = a == b ? c->second[b] : first_of(m, c, b);
    for (int k = 0; k < r->count; k++) {
        int link = r->link[k];
        if (from < m->device_count && from != begin)
            link = own_link(c, link, begin, from);
        if (to < m->device_count && to != end && link == r->link[k])
            link = own_link(c, link, end, to);
        r->link[k] = link;
    }
    return true;
}

bool machine_alike(const Machine *m, int a, int b)
{
    int last = m->device_count - 1;
    a = a < last ? a : last;
    b = b < last ? b : last;
    if (a == b)
        return true;
    if (m->classes && m->classes->of[a] == m->classes->of[b])
        return true;
    Route x, y;
    int host = machine_host(m);
    return same_rates(&m->devices[a], &m->devices[b]) && machine_route(m, host, a, &x) == machine_route(m, host, b, &y) &&
           x.rate == y.rate && x.latency_us == y.latency_us && machine_route(m, a, host, &x) == machine_route(m, b, host, &y) &&
           x.rate == y.rate;
}
