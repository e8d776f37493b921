/* match.c: finds the tensor of a file for each tensor of the model, or the tensors that it is made of, by names and rules. All
 * tensors that are wanted are found in the same way.
 *
 * A part of the model is some of its variables. Each name, such as backbone.block_1.conv_1.weight, has a prefix that belongs
 * to the part; here block_1.conv_1.weight follows it. The file may have the whole name, or omit any number of the prefix's
 * components, the same number for all variables. If that does not find all, a prefix that all names of the file have (torch's
 * "module.") is removed from them: their first component, then their first two, up to all that they have in common. The first
 * way that finds all tensors with their shapes is taken, the longest names first; otherwise the one that finds most, for the
 * message. The library's rules that apply to the file are tried before plain names. */
#include "runtime/base/base.h"
#include "runtime/weights/rules.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct Lookup { /* one way of looking up the model's names in the file */
    TensorFile *file;
    const mgpu_program *program;
    const RuleSet *set; /* NULL if no rules are applied */
    int prefix;         /* characters to remove from all names of the file */
    int kept;           /* number of the prefix's components that are kept */
} Lookup;
typedef struct FoundTensor {
    SavedTensor *tensor;
    char *text;
    const char *why;
} FoundTensor; /* text: what was found or expected; the caller frees */

/* Returns the end of the name, with the last `kept` components before `below`. */
static const char *name_with(const char *whole, int below, int kept)
{
    const char *at = whole + below;
    for (; kept && at > whole; kept--)
        for (at--; at > whole && at[-1] != '.';)
            at--;
    return at;
}

static int depth_of(const char *whole, int below)
{
    int depth = 0;
    for (int i = 0; i < below; i++)
        depth += whole[i] == '.';
    return depth;
}

/* Returns the length of the components that all names of the file begin with. */
static int common_prefix(const TensorFile *file)
{
    if (!file->count)
        return 0;
    const char *first = file->tensors[0].tensor.name, *last = file->tensors[file->count - 1].tensor.name; /* sorted */
    int length = 0;
    for (int i = 0; first[i] && first[i] == last[i]; i++)
        if (first[i] == '.')
            length = i + 1;
    return length;
}

/* Returns the length of the prefix that has one more of the components that all names of the file begin with, or -1. */
static int longer_prefix(const TensorFile *file, int prefix)
{
    if (prefix == common_prefix(file))
        return -1;
    const char *first = file->tensors[0].tensor.name;
    return (int)(strchr(first + prefix, '.') + 1 - first);
}

static const char *common(const Lookup *w) { return w->prefix ? w->file->tensors[0].tensor.name : ""; }

/* Finds the tensor of this name, or of this name after one of the set's prefixes. */
static FoundTensor find_named(const Lookup *w, const char *name)
{
    for (int i = -1; i < (w->set ? w->set->prefix_count : 0); i++) {
        char *text = mgpu_format("%.*s%s%s", w->prefix, common(w), i < 0 ? "" : w->set->prefixes[i], name);
        SavedTensor *t = mgpu_find_tensor(w->file, text);
        if (t)
            return (FoundTensor){t, text, NULL};
        free(text);
    }
    return (FoundTensor){NULL, mgpu_format("%.*s%s", w->prefix, common(w), name), NULL};
}

/* ---- patterns */
/* Each * matches as few characters as possible. */
bool mgpu_fits_pattern(const char *pattern, const char *name, Capture *captured)
{
    const char *after = NULL; /* what follows the last * */
    int stars = 0;
    while (*name) {
        if (*pattern == '*' && stars < MGPU_MOST_STARS) {
            after = ++pattern;
            captured[stars++] = (Capture){name, 0};
        } else if (*pattern && *pattern == *name) {
            pattern++, name++;
        } else if (after) {
            pattern = after;
            name = captured[stars - 1].begin + ++captured[stars - 1].length;
        } else {
            return false;
        }
    }
    for (; *pattern == '*' && stars < MGPU_MOST_STARS; pattern++)
        captured[stars++] = (Capture){name, 0};
    return !*pattern;
}

/* Prints what a * has matched; *+1 and *-1 print a number that differs by so many. Returns how many characters follow the *. */
static int fill_star(FILE *f, const char *pattern, const Capture *captured)
{
    char *end, digits[8] = "";
    bool sum = (pattern[1] == '+' || pattern[1] == '-') && pattern[2] >= '0' && pattern[2] <= '9';
    if (captured->length < (int)sizeof digits)
        memcpy(digits, captured->begin, (size_t)captured->length);
    long number = strtol(digits, &end, 10);
    if (!sum || !*digits || *end) {
        fprintf(f, "%.*s", captured->length, captured->begin);
        return 0;
    }
    fprintf(f, "%ld", pattern[1] == '+' ? number + (pattern[2] - '0') : number - (pattern[2] - '0'));
    return 2;
}

char *mgpu_filled(const char *pattern, const Capture *captured)
{
    char *text;
    size_t length;
    FILE *f = mgpu_begin_text(&text, &length);
    for (int star = 0; *pattern; pattern++)
        if (*pattern != '*')
            fputc(*pattern, f);
        else if (star < MGPU_MOST_STARS && captured[star].begin)
            pattern += fill_star(f, pattern, &captured[star++]);
    mgpu_end_text(f);
    return text;
}

/* ---- sources */
bool mgpu_same_shape(const mgpu_tensor *a, const mgpu_tensor *b)
{
    bool same = a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++)
        same = a->extent[i] == b->extent[i];
    return same;
}

static const char *fact_of(const TensorFile *file, const char *key)
{
    for (int i = 0; i < file->fact_count; i++)
        if (strcmp(file->facts[i].key, key) == 0)
            return file->facts[i].text;
    return NULL;
}

/* Returns the number of heads or channels, or 0. */
static int64_t number_of(const Lookup *w, const TensorSource *s)
{
    const char *said = fact_of(w->file, s->name);
    char *end;
    errno = 0;
    long long n = strtoll(said ? said : s->name, &end, 10);
    return errno || *end ? 0 : n;
}

/* Makes the tensor of a source. If its operands exist but do not fit, the tensor is NULL and `why` is set. */
static FoundTensor make(const Lookup *w, const TensorSource *s, const Capture *captured, const mgpu_tensor *wanted)
{
    static const char *const WHY[] = {[SOURCE_TRANSPOSE] = "transpose takes an order of all axes",
                                      [SOURCE_CONCAT] = "its tensors do not fit beside each other",
                                      [SOURCE_RESHAPE] = "reshape adds and drops axes of one element alone",
                                      [SOURCE_UNPAIR] =
                                          "its rows are no such number of heads, or the file does not say how many there are",
                                      [SOURCE_CHW] = "its columns are no such number of channels",
                                      [SOURCE_SUM] = "sum takes tensors of one shape",
                                      [SOURCE_GRU] = "its rows are not those of three gates, or of one"};
    static const char *const WORD[] = {"", "transpose", "concat", "reshape", "unpair", "chw", "sum", "gru", ""};
    if (s->kind == SOURCE_NAME) {
        char *name = mgpu_filled(s->name, captured);
        FoundTensor f = find_named(w, name);
        free(name);
        return f;
    }
    SavedTensor *of[8] = {0}, *made = NULL;
    const char *why = NULL;
    char *inner = NULL, *text;
    int count = 0;
    bool all = true;
    for (const TensorSource *k = s->first; k; k = k->next) {
        FoundTensor f = make(w, k, captured, wanted);
        char *longer = mgpu_format("%s%s%s", inner ? inner : "", inner ? ", " : "", f.text);
        free(f.text);
        free(inner);
        inner = longer;
        why = why ? why : f.why;
        all = all && f.tensor;
        of[count++] = f.tensor;
    }
    switch (all ? s->kind : SOURCE_NAME) {
    case SOURCE_TRANSPOSE: made = mgpu_transposed(w->file, of[0], s->order, s->count); break;
    case SOURCE_CONCAT: made = mgpu_joined(w->file, of, count); break;
    case SOURCE_RESHAPE: made = mgpu_reshaped(w->file, of[0], wanted); break;
    case SOURCE_UNPAIR: made = mgpu_unpaired(w->file, of[0], number_of(w, s)); break;
    case SOURCE_CHW: made = mgpu_channels_last(w->file, of[0], number_of(w, s)); break;
    case SOURCE_SUM: made = mgpu_summed(w->file, of, count); break;
    case SOURCE_GRU: made = mgpu_gru_gates(w->file, of[0], of[1]); break;
    case SOURCE_SPLIT: made = of[0]; break;
    case SOURCE_NAME: break;
    }
    if (count == 1 && made && made == of[0]) /* nothing to do, such as transposing a bias */
        return (FoundTensor){made, inner, NULL};
    text = s->kind == SOURCE_SPLIT ? mgpu_format("%s", inner) : mgpu_format("%s(%s)", WORD[s->kind], inner);
    free(inner);
    return (FoundTensor){made, text, made ? NULL : all ? WHY[s->kind] : why};
}

static const mgpu_tensor *variable_named(const mgpu_program *program, const char *name)
{
    for (int i = 0; i < program->variable_count; i++)
        if (strcmp(program->variables[i].tensor.name, name) == 0)
            return &program->variables[i].tensor;
    return NULL;
}

/* Takes one target of `split`: the model's tensors get their rows in order. `before` is the length of the prefix of the model's
 * names that the rule's names do not have. */
static FoundTensor split(const Lookup *w, const TensorRule *r, int target, const Capture *captured, const char *whole, int before,
                         const mgpu_tensor *wanted)
{
    FoundTensor f = make(w, r->source, captured, wanted);
    if (!f.tensor)
        return f;
    int64_t begin = 0, end = 0, rows = 0;
    bool known = true;
    for (int i = 0; i < r->count && known; i++) {
        char *below = mgpu_filled(r->target[i], captured), *name = mgpu_format("%.*s%s", before, whole, below);
        const mgpu_tensor *t = variable_named(w->program, name);
        known = t && t->rank && !__builtin_add_overflow(rows, t->extent[0], &rows);
        begin = known && i + 1 == target ? rows : begin;
        end = known && i == target ? rows : end;
        free(name);
        free(below);
    }
    if (!known || !f.tensor->tensor.rank || rows != f.tensor->tensor.extent[0]) {
        f.tensor = NULL;
        f.why = "the model's tensors do not have as many rows together";
        return f;
    }
    char *text = mgpu_format("rows %lld:%lld of %s", (long long)begin, (long long)end, f.text);
    free(f.text);
    f.tensor = mgpu_rows_of(w->file, f.tensor, begin, end);
    f.text = text;
    return f;
}

/* Applies the rules to `name`, the part of the whole name that they see. Prefers the first rule that makes the wanted shape, then
 * the first whose tensors exist. */
static bool by_rules(const Lookup *w, const char *whole, const char *name, const mgpu_tensor *wanted, FoundTensor *first)
{
    for (const TensorRule *r = w->set->rules; r; r = r->next)
        for (int i = 0; i < r->count; i++) {
            Capture captured[MGPU_MOST_STARS] = {{0}};
            if (!mgpu_fits_pattern(r->target[i], name, captured))
                continue;
            FoundTensor f = r->count > 1 ? split(w, r, i, captured, whole, (int)(name - whole), wanted)
                                         : make(w, r->source, captured, wanted);
            bool fits = f.tensor && mgpu_same_shape(&f.tensor->tensor, wanted);
            bool better = fits || (!first->tensor && (f.tensor || (f.why && !first->why) || !first->text));
            free(better ? first->text : f.text);
            *first = better ? f : *first;
            if (fits)
                return true;
        }
    return first->tensor != NULL;
}

static FoundTensor find_one(const Lookup *w, const char *whole, int below, const mgpu_tensor *wanted)
{
    const char *name = name_with(whole, below, w->kept);
    FoundTensor first = {0};
    for (int i = -1; w->set && i < w->set->prefix_count; i++) {
        size_t length = i < 0 ? 0 : strlen(w->set->prefixes[i]);
        bool begins = i < 0 || strncmp(name, w->set->prefixes[i], length) == 0;
        if (begins && by_rules(w, whole, name + length, wanted, &first))
            return first;
    }
    for (int i = -1; i < (w->set ? w->set->prefix_count : 0); i++) { /* without a rule: the tensor of the same name */
        size_t length = i < 0 ? 0 : strlen(w->set->prefixes[i]);
        if (i >= 0 && strncmp(name, w->set->prefixes[i], length) != 0)
            continue;
        FoundTensor f = find_named(w, name + length);
        bool better = f.tensor || !first.text;
        free(better ? first.text : f.text);
        first = better ? f : first;
        if (f.tensor)
            break;
    }
    return first;
}

static void close_found(Match *m, const TensorView *v)
{
    for (int i = 0; i < v->count; i++)
        free(m->name[i]);
}

/* Returns how many tensors are found with the model's shapes. */
static int find_all(const Lookup *w, const TensorView *v, Match *m)
{
    int fitting = 0;
    m->found = 0;
    for (int i = 0; i < v->count; i++) {
        const mgpu_tensor *wanted = &w->program->variables[v->variable[i]].tensor;
        FoundTensor f = find_one(w, v->name[i], v->below[i], wanted);
        m->tensor[i] = f.tensor;
        m->name[i] = f.text;
        m->why[i] = f.why;
        m->found += f.tensor != NULL;
        fitting += f.tensor && mgpu_same_shape(&f.tensor->tensor, wanted);
    }
    return fitting;
}

/* ---- which sets apply to a file */
static bool has_shape(const Condition *c, const mgpu_tensor *t)
{
    int64_t size[26] = {0};
    if (!c->shaped)
        return true;
    bool fits = t->rank == c->rank;
    for (int pass = 0; pass < 2; pass++) /* first the axes that are a letter without a factor */
        for (int k = 0; fits && k < c->rank; k++) {
            int letter = c->axis[k].letter ? c->axis[k].letter - 'a' : -1;
            int64_t times = c->axis[k].times;
            if (letter < 0)
                fits = t->extent[k] == times;
            else if (!size[letter] && (times == 1 || pass))
                size[letter] = times && t->extent[k] % times == 0 ? t->extent[k] / times : -1;
            if (letter >= 0 && size[letter])
                fits = size[letter] > 0 && t->extent[k] % size[letter] == 0 && t->extent[k] / size[letter] == times;
        }
    return fits;
}

static bool holds(const Lookup *w, const Condition *c)
{
    Capture captured[MGPU_MOST_STARS];
    const char *fact = c->text ? fact_of(w->file, c->name) : NULL;
    bool any = c->text && fact && strcmp(fact, c->text) == 0;
    for (int i = 0; i < w->file->count && !c->text && strchr(c->name, '*') && !any; i++) {
        const mgpu_tensor *t = &w->file->tensors[i].tensor;
        any = mgpu_fits_pattern(c->name, t->name + w->prefix, captured) && has_shape(c, t);
    }
    if (c->text || any)
        return any;
    FoundTensor f = find_named(w, c->name);
    free(f.text);
    return f.tensor && has_shape(c, &f.tensor->tensor);
}

bool mgpu_rules_are_for(const RuleSet *set, const TensorFile *file)
{
    bool any = !set->conditions;
    for (int prefix = 0; !any && prefix >= 0; prefix = longer_prefix(file, prefix)) {
        Lookup w = {.file = (TensorFile *)(uintptr_t)file, .set = set, .prefix = prefix};
        for (const Condition *c = set->conditions; c && !any; c = c->next)
            any = holds(&w, c);
    }
    return any;
}

/* ---- */
static void try_set(Match *best, int *fitting, Lookup way, const TensorView *v, int deepest)
{
    for (way.prefix = 0; *fitting < v->count && way.prefix >= 0; way.prefix = longer_prefix(way.file, way.prefix))
        for (way.kept = deepest; way.kept >= 0 && *fitting < v->count; way.kept--) {
            Match m = mgpu_new_match(v);
            m.set = way.set;
            int fits = find_all(&way, v, &m);
            if (fits > *fitting || (fits == *fitting && m.found > best->found)) {
                Match worse = *best;
                *best = m;
                *fitting = fits;
                m = worse;
            }
            mgpu_close_match(&m, v);
        }
}

Match mgpu_new_match(const TensorView *v)
{
    return (Match){.tensor = mgpu_allocate((size_t)v->count, sizeof(SavedTensor *)),
                   .name = mgpu_allocate((size_t)v->count, sizeof(char *)),
                   .why = mgpu_allocate((size_t)v->count, sizeof(char *)),
                   .found = -1};
}

/* Forgets a set that finds the same tensors as names alone, such as nanoGPT's rules for a file with the model's names. */
static void forget_idle_set(Match *m, Lookup way, const TensorView *v, int deepest)
{
    Match plain = mgpu_new_match(v);
    int fitting = -1;
    way.set = NULL;
    try_set(&plain, &fitting, way, v, deepest);
    bool same = !m->set->remark;
    for (int i = 0; i < v->count; i++)
        same = same && plain.tensor[i] == m->tensor[i];
    m->set = same ? NULL : m->set;
    mgpu_close_match(&plain, v);
}

void mgpu_match(Match *m, const mgpu_program *program, TensorFile *file, const TensorView *v, const char *rules)
{
    int deepest = 0, fitting = -1;
    for (int i = 0; i < v->count; i++) {
        int depth = depth_of(v->name[i], v->below[i]);
        deepest = depth > deepest ? depth : deepest;
    }
    *m = mgpu_new_match(v);
    Lookup way = {.file = file, .program = program};
    if (rules && strcmp(rules, "none") != 0) {
        way.set = mgpu_rules(file, rules);
        try_set(m, &fitting, way, v, deepest);
    }
    for (const RuleSet *s = rules || file->step >= 0 ? NULL : mgpu_library_rules(file); s; s = s->next)
        if (mgpu_rules_are_for(s, file)) {
            way.set = s;
            try_set(m, &fitting, way, v, deepest);
        }
    way.set = NULL;
    if (!rules || strcmp(rules, "none") == 0)
        try_set(m, &fitting, way, v, deepest);
    if (m->set && !rules)
        forget_idle_set(m, way, v, deepest);
    for (int i = 0; i < v->count; i++)
        if (m->tensor[i])
            mgpu_mark_used(file, m->tensor[i]);
}

void mgpu_close_match(Match *m, const TensorView *v)
{
    if (m->name)
        close_found(m, v);
    free(m->name);
    free(m->why);
    free(m->tensor);
    *m = (Match){0};
}
