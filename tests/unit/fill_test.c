/* fill_test.c: calls that run while others wait for transfers: in a legal order, and computing waits for less. */
#include "compiler/plan/fill.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool good = true;

static void check(bool right, const char *name)
{
    printf("%sok %s\n", right ? "" : "not ", name);
    good = good && right;
}

static uint64_t state = 1;
static int below(int n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)n);
}

enum { MOST = 200 };
typedef struct Step {
    FillTask tasks[MOST];
    int before[MOST][4], calls[MOST], task_count, call_count;
} Step;

/* a call, or a transfer that calls wait for; -1 ends what it comes after */
static int add(Step *s, bool stops, double us, int a, int b, int c)
{
    int t = s->task_count++, after[] = {a, b, c};
    s->tasks[t] = (FillTask){.before = s->before[t], .us = us, .stops = stops};
    for (int i = 0; i < 3 && after[i] >= 0; i++)
        s->before[t][s->tasks[t].before_count++] = after[i];
    if (!stops)
        s->calls[s->call_count++] = t;
    return t;
}

/* when the last call is over; -1: the order is none in which they may run */
static double run(const Step *s, const int *calls)
{
    double over[MOST], now = 0;
    for (int t = 0; t < s->task_count; t++)
        over[t] = -1;
    for (int i = 0; i < s->call_count; i++) {
        const FillTask *call = &s->tasks[calls[i]];
        if (over[calls[i]] >= 0 || (call->joined && (i == 0 || calls[i] != calls[i - 1] + 1)))
            return -1;
        for (int b = 0; b < call->before_count; b++) {
            int before = call->before[b];
            const FillTask *transfer = &s->tasks[before];
            for (int k = 0; k < transfer->before_count && transfer->stops; k++)
                over[before] = over[transfer->before[k]] < 0 ? -1 : fmax(over[before], over[transfer->before[k]] + transfer->us);
            if (over[before] < 0)
                return -1;
            now = fmax(now, over[before]);
        }
        over[calls[i]] = now += call->us;
    }
    return now;
}

/* from the last layer back: the gradient of its input, of its weight, sums of the layer before, which are reduced, and what they
 * are needed for */
static void backward(int layers)
{
    Step s = {.task_count = 0};
    int d = add(&s, false, 5, -1, -1, -1);
    for (int i = 0; i < layers; i++) {
        int weight = add(&s, false, 20, d, -1, -1), input = add(&s, false, 20, d, -1, -1),
            sums = add(&s, false, 2, input, -1, -1);
        d = add(&s, false, 5, input, add(&s, true, 10, sums, -1, -1), -1);
        (void)weight;
    }
    double before = run(&s, s.calls);
    fill_waits(s.tasks, s.task_count, s.calls, s.call_count);
    double after = run(&s, s.calls), all = 5 + 47.0 * layers;
    check(before == all + 10 * layers && after == all, "gradients of weights run while sums are reduced");
    check(s.calls[1] == 2 && s.calls[2] == 3 && s.calls[3] == 1, "... in the order of the drawing in fill.c");
}

/* two branches that read the same */
static void branches(bool stays, double us, const char *name)
{
    Step s = {.task_count = 0};
    int x = add(&s, false, 5, -1, -1, -1), left = add(&s, false, 9, x, -1, -1), sum = add(&s, true, 10, left, -1, -1),
        end = add(&s, false, 3, left, sum, -1);
    int right = add(&s, false, 12, x, -1, -1);
    add(&s, false, 3, end, right, -1);
    s.tasks[right].stays = stays;
    fill_waits(s.tasks, s.task_count, s.calls, s.call_count);
    check(run(&s, s.calls) == us, name);
}

/* many gradients before one transfer: what is held keeps memory */
static void held(void)
{
    Step s = {.task_count = 0};
    int x = add(&s, false, 5, -1, -1, -1);
    for (int i = 0; i < 20; i++)
        add(&s, false, 10, x, -1, -1);
    int sum = add(&s, true, 8, add(&s, false, 2, x, -1, -1), -1, -1), at = 0;
    add(&s, false, 3, sum, -1, -1);
    fill_waits(s.tasks, s.task_count, s.calls, s.call_count);
    while (s.calls[at] != 21)
        at++;
    check(at == 1 + 18 && run(&s, s.calls) == 210, "of twenty calls two are held for a transfer of 8 us");
}

static void drawn(void)
{
    int legal = 0, longer = 0, steps = 2000;
    double before = 0, after = 0;
    for (int i = 0; i < steps; i++) {
        Step s = {.task_count = 0};
        int waited = -1, count = 2 + below(MOST - 2);
        while (s.task_count < count) {
            int t = s.task_count, near = t < 12 ? t : 12;
            bool stops = t > 0 && waited < 0 && below(5) == 0;
            int a = t ? t - 1 - below(near) : -1, b = waited >= 0 && below(2) ? waited : t ? t - 1 - below(near) : -1;
            add(&s, stops, 1 + below(30), stops && s.tasks[a].stops ? s.call_count - 1 : a, stops ? -1 : b, -1);
            if (stops && s.tasks[s.before[t][0]].stops)
                s.before[t][0] = s.calls[s.call_count - 1];
            s.tasks[t].joined = !stops && t > 0 && !s.tasks[t - 1].stops && b != t - 1 && below(6) == 0;
            waited = stops ? t : b == waited ? -1 : waited;
        }
        double us = run(&s, s.calls);
        fill_waits(s.tasks, s.task_count, s.calls, s.call_count);
        double now = run(&s, s.calls);
        legal += us >= 0 && now >= 0;
        longer += now > us;
        before += us;
        after += now;
    }
    if (legal < steps || longer * 50 > steps || after > before)
        printf("# of %d orders %d are legal, %d longer, all together %.3f times as long\n", steps, legal, longer, after / before);
    check(legal == steps, "every order is one in which calls may run, once each, with its contraction");
    check(longer * 50 <= steps && after < before, "computing waits for less");
}

int main(void)
{
    backward(6);
    branches(false, 32, "another branch runs while one waits");
    branches(true, 42, "... but updates stay after what comes before them");
    held();
    drawn();
    return good ? 0 : 1;
}
