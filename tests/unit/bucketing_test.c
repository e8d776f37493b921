/* bucketing_test.c: buckets by cost against all partitions of small steps, and how long the search takes for large ones. */
#include "compiler/plan/bucketing.h"

#include <stdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

static int in_order(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static int *places(int count, int calls)
{
    int *p = NEW_ARRAY(int, count);
    for (int i = 0; i < count; i++)
        p[i] = below(calls);
    qsort(p, (size_t)count, sizeof *p, in_order);
    return p;
}

static bool beside; /* stops are in a lane of their own */

/* each stop is waited for within three calls */
static Timeline *step(const Members *members, int calls, int sums, int stops, int most_bytes, int types)
{
    Timeline *t = NEW(Timeline);
    double *call_us = NEW_ARRAY(double, calls);
    Stop *s = NEW_ARRAY(Stop, stops);
    ReducedValue *all = NEW_ARRAY(ReducedValue, sums);
    int *at = places(stops, calls), *of = places(sums, calls);
    for (int i = 0; i < calls; i++)
        call_us[i] = below(100);
    for (int i = 0; i < stops; i++)
        s[i] = (Stop){at[i], at[i] + 1 + below(3), 10 + below(50), 5, .1 * below(4), beside};
    for (int i = 0; i < stops; i++)
        s[i].before = s[i].before > calls ? calls : s[i].before;
    for (int i = 0; i < sums; i++)
        all[i] = (ReducedValue){.place = of[i],
                                .bytes = 4 + 4 * (int64_t)below(most_bytes),
                                .dtype = below(types) ? BF16 : F32,
                                .own_bucket = types > 1 && below(8) == 0,
                                .update_us = below(20)};
    Update *updates = NEW_ARRAY(Update, sums);
    for (int i = 0; i < sums; i++)
        updates[i] = (Update){i, i % 7 % 5 - 1}; /* four functions, and updates that share no launch */
    *t = (Timeline){members,
                    call_us,
                    calls,
                    s,
                    stops,
                    all,
                    sums,
                    .updates = updates,
                    .update_count = sums,
                    .function_count = 4,
                    .region_us = below(2) * 3,
                    .launch_us = 3,
                    .joins_buckets = sums % 2};
    return t;
}

/* bit i of `cuts`: a bucket ends with sum i */
static Buckets cut(const Timeline *t, unsigned cuts)
{
    Buckets b = {.of = NEW_ARRAY(int, t->reduced_count)};
    int open[DTYPES];
    memset(open, -1, sizeof open);
    for (int i = 0; i < t->reduced_count; i++) {
        int *of = &open[t->reduced[i].dtype], own = -1;
        of = t->reduced[i].own_bucket ? &own : of;
        if (*of < 0)
            *of = b.count++;
        b.of[i] = *of;
        if (cuts >> i & 1)
            memset(open, -1, sizeof open);
    }
    return b;
}

static double best_of_all(const Timeline *t)
{
    double best = 1e300;
    for (unsigned cuts = 0; cuts < 1u << (t->reduced_count - 1); cuts++) {
        Buckets b = cut(t, cuts);
        double us = buckets_end(t, &b);
        best = us < best ? us : best;
    }
    return best;
}

static void against_all(const Members *members, int stops, int types, double most, int equal, const char *name)
{
    int same = 0, steps = 150;
    double worst = 1;
    for (int i = 0; i < steps; i++) {
        Memory *own = memory_new(), *outer = memory_use(own);
        Timeline *t = step(members, 1 + below(30), 1 + below(9), below(stops + 1), 1 << (8 + below(12)), types);
        Buckets b = buckets_by_cost(t);
        double us = buckets_end(t, &b), best = best_of_all(t);
        same += us <= best * 1.0006;
        worst = us / best > worst ? us / best : worst;
        memory_use(outer);
        memory_free(own);
    }
    if (worst > most || same * 100 < equal * steps)
        printf("# %d of %d are within 0.05 %% of the best, the worst takes %.4f times as long\n", same, steps, worst);
    check(worst <= most && same * 100 >= equal * steps, name);
}

/* many sums: buckets that one method alone would get end the step no sooner */
static void against_methods(const Members *members)
{
    double worst = 1;
    for (int i = 0; i < 10; i++) {
        Timeline *t = step(members, 40, 120, 0, 1 << 18, 1);
        t->region_us = 0; /* as on GPUs, whose kernels make no regions */
        Buckets b = buckets_by_cost(t);
        double us = buckets_end(t, &b);
        for (int method = 0; method < METHODS; method++) {
            Members only = *members;
            Timeline alone = *t;
            only.methods = 1u << method;
            alone.members = &only;
            if (!method_works(members, (Method)method))
                continue;
            b = buckets_by_cost(&alone);
            worst = fmax(worst, us / buckets_end(t, &b));
        }
    }
    if (worst > 1.0006)
        printf("# one method's buckets end it %.4f times sooner\n", worst);
    check(worst <= 1.0006, "what one method would bucket is no better");
}

static void whole(const Members *members)
{
    Timeline *t = step(members, 40, 12, 4, 1 << 16, 2);
    Buckets b = buckets_by_cost(t);
    bool right = true;
    Dtype *type = NEW_ARRAY(Dtype, b.count);
    int *held = NEW_ARRAY(int, b.count);
    for (int i = 0; i < t->reduced_count; i++) {
        right = right && b.of[i] >= 0 && b.of[i] < b.count &&
                (!held[b.of[i]] || (type[b.of[i]] == t->reduced[i].dtype && !t->reduced[i].own_bucket));
        type[b.of[i]] = t->reduced[i].dtype;
        held[b.of[i]]++;
    }
    for (int k = 0; k < b.count; k++)
        right = right && held[k] > 0;
    check(right, "each sum has a bucket of its type; what shares none is alone");
}

static double seconds_of(const Members *members, int size)
{
    struct timespec a, b;
    Timeline *t = step(members, 5 * size, size, 2 * size, 1 << 14, 1);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    buckets_by_cost(t);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    return (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
}

int main(void)
{
    Members h100 = members_of(machine_named("h100x8"), PROCESSOR_CUDA, 1, 8),
            slow = members_of(machine_named("7gforce"), PROCESSOR_CUDA, 1, 4),
            host = members_of(machine_named("host2"), PROCESSOR_HOST, 1, 3);
    against_all(&h100, 0, 1, 1.0006, 100, "without stops no partition is 0.05 % better: fast links");
    against_all(&slow, 0, 1, 1.0006, 100, "without stops no partition is 0.05 % better: slow links");
    against_all(&host, 6, 1, 1.06, 95, "with stops hardly one is: host devices");
    against_all(&slow, 6, 1, 1.06, 95, "with stops hardly one is: slow links");
    against_all(&slow, 6, 2, 1.2, 75, "of several types most are the best");
    beside = true;
    against_all(&slow, 6, 1, 1.0006, 100, "... nor with stops in a lane of their own");
    beside = false;
    Members cards = members_of(machine_named("rtx4090x8"), PROCESSOR_CUDA, 1, 8);
    against_methods(&cards);
    whole(&slow);
    double small = seconds_of(&slow, 250), large = seconds_of(&slow, 2000);
    if (large > 24 * small + .02)
        printf("# 250 sums: %.3f s, 2,000: %.3f s\n", small, large);
    check(large <= 24 * small + .02, "the search grows as the step does");
    return !good;
}
