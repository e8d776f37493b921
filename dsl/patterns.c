/* patterns.c: finds the rules of the train block that match a weight or an instance, and combines them. */
#include "dsl/elaborate.h"
#include "runtime/base/spelling.h"

#include <string.h>

static int matches(const char *pattern, const char *name)
{
    return mgpu_pattern_match(pattern, (ptrdiff_t)strlen(pattern), name);
}

Reached rules_of(Elaborator *e, const char *name)
{
    Reached all = {0};
    for (int k = 0; k < e->rule_count; k++) {
        const Rule *r = &e->rules[k];
        const char *pattern = NULL;
        int n = 0, below = -1;
        for (const Tree *p = r->tree->first->first; p; p = p->next, n++) {
            int end = matches(p->text, name);
            if (end < 0)
                continue;
            r->matched[n] = true;
            if (!pattern)
                pattern = p->text, below = end;
        }
        if (!pattern)
            continue;
        all.lr = r->lr ? r->lr : all.lr;
        if (r->decay)
            all.decay = r->decay, all.decay_at = r->decay_at;
        all.optimizer = r->optimizer ? r->optimizer : all.optimizer;
        all.clip = r->clip ? r->clip : all.clip;
        all.objective = r->objective ? r->objective : all.objective;
        all.frozen = r->frozen >= 0 ? r->frozen : all.frozen;
        if (r->init_at)
            all.init = r, all.below = below, all.pattern = pattern;
    }
    return all;
}

bool is_frozen(const Elaborator *e, const char *path)
{
    bool frozen = false;
    for (int k = 0; k < e->rule_count; k++) {
        const Rule *r = &e->rules[k];
        bool hit = false;
        for (const Tree *p = r->frozen >= 0 ? r->tree->first->first : NULL; p && !hit; p = p->next)
            hit = matches(p->text, path) >= 0;
        frozen = hit ? r->frozen : frozen;
    }
    return frozen;
}
