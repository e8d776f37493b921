/* patterns.c: which rules of the train block reach a weight or an instance, and what they say of it together. */
#include "dsl/elaborate.h"

#include <string.h>

static bool matches(const char *pattern, const char *text, const char *end)
{
    const char *star = NULL, *retry = NULL;
    while (text < end) {
        if (*pattern == '*') {
            star = ++pattern;
            retry = text;
        } else if (*pattern && (*pattern == '?' || *pattern == *text)) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star;
            text = ++retry;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == 0;
}

int pattern_reaches(const char *pattern, const char *name)
{
    for (const char *end = name;; end++)
        if ((*end == '.' || *end == 0) && matches(pattern, name, end))
            return (int)(end - name);
        else if (*end == 0)
            return -1;
}

Reached rules_of(Elaborator *e, const char *name)
{
    Reached all = {0};
    for (int k = 0; k < e->rule_count; k++) {
        const Rule *r = &e->rules[k];
        const char *pattern = NULL;
        int n = 0, below = -1;
        for (const Tree *p = r->tree->first->first; p; p = p->next, n++) {
            int end = pattern_reaches(p->text, name);
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
            hit = pattern_reaches(p->text, path) >= 0;
        frozen = hit ? r->frozen : frozen;
    }
    return frozen;
}
