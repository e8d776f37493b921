/* rules.c: parses rules (rules.h). In: the name of a library set, a path or the text itself; out: a set. Errors end the program
 * with "WHERE:LINE: what is wrong". */
#include "runtime/base/base.h"
#include "runtime/weights/rules.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 16, LARGEST_TEXT = 1 << 20, MOST_LINES = 256 /* lines from one line with braces */ };
typedef struct Parser {
    TensorFile *file;       /* owns the memory */
    const char *where, *at; /* at: the rest of the line */
    int line;
    RuleSet *sets, *set;
    TensorRule **last; /* where to append the set's next rule */
} Parser;

static _Noreturn void wrong(const Parser *p, const char *what)
{
    mgpu_fail(MGPU_BAD_INPUT, "%s:%d: %s", p->where, p->line, what);
}

static void *adopt(Parser *p, size_t bytes) { return mgpu_adopt_memory(p->file, mgpu_allocate(1, bytes)); }

static bool take(Parser *p, char c)
{
    while (isblank((unsigned char)*p->at) || *p->at == '\r')
        p->at++;
    if (*p->at != c)
        return false;
    p->at += c != 0;
    return true;
}

/* Returns the next word, or NULL. */
static char *word(Parser *p)
{
    take(p, ' ');
    const char *begin = p->at;
    while (*p->at && !isspace((unsigned char)*p->at) && !strchr(",()=[]", *p->at))
        p->at++;
    return p->at > begin ? mgpu_adopt_memory(p->file, mgpu_format("%.*s", (int)(p->at - begin), begin)) : NULL;
}

static char *name(Parser *p, const char *what)
{
    char *found = word(p);
    if (!found)
        wrong(p, what);
    return found;
}

static const struct Function {
    const char *name;
    SourceKind kind;
    int most; /* maximal number of operands */
} FUNCTIONS[] = {{"transpose", SOURCE_TRANSPOSE, 1},
                 {"concat", SOURCE_CONCAT, 8},
                 {"reshape", SOURCE_RESHAPE, 1},
                 {"unpair", SOURCE_UNPAIR, 1},
                 {"chw", SOURCE_CHW, 1},
                 {"sum", SOURCE_SUM, 8},
                 {"gru", SOURCE_GRU, 2},
                 {"split", SOURCE_SPLIT, 1}};

static const char EXPECTED[] =
    "a name of the file is expected, or transpose(..), concat(.., ..), sum(.., ..), split(..), reshape(..), chw(.., CHANNELS), "
    "unpair(.., HEADS) or gru(.., ..)";

static TensorSource *source(Parser *p, int depth);

/* Reads the operands and the other arguments in parentheses, such as transpose's axes. */
static void read_arguments(Parser *p, TensorSource *s, const struct Function *f, int depth)
{
    int count = 0;
    for (TensorSource **last = &s->first; count < f->most; last = &(*last)->next, count++) {
        if (count && !take(p, ','))
            break;
        *last = source(p, depth + 1);
        if ((*last)->kind == SOURCE_SPLIT)
            wrong(p, "split stands first: a.weight, b.weight = split(transpose(ab.weight))");
    }
    if (s->kind == SOURCE_GRU && count < 2)
        wrong(p, "gru takes a tensor and the weights that read the state: gru(transpose(k), transpose(r))");
    while (s->kind == SOURCE_TRANSPOSE && take(p, ',')) {
        const char *axis = name(p, "an axis is expected: transpose(x, 3, 2, 0, 1)");
        if (s->count == MGPU_MAX_RANK || axis[1] || !isdigit((unsigned char)*axis))
            wrong(p, "transpose takes the new order of all axes: transpose(x, 3, 2, 0, 1)");
        s->order[s->count++] = *axis - '0';
    }
    if (s->kind == SOURCE_RESHAPE && take(p, ',')) {
        const char *rank = name(p, "a number of axes is expected: reshape(x, 3)");
        s->count = *rank - '0';
        if (rank[1] || s->count < 1 || s->count > MGPU_MAX_RANK)
            wrong(p, "reshape takes the number of axes that the file's tensor has, 1 to 8: reshape(x, 3)");
    }
    if (s->kind == SOURCE_CHW) {
        if (!take(p, ','))
            wrong(p, "chw takes the number of channels of the picture that is flattened: chw(x, 512)");
        s->name = name(p, "a number of channels, or a note of the file, is expected");
    }
    if (s->kind == SOURCE_UNPAIR) {
        if (!take(p, ','))
            wrong(p,
                  "unpair takes the number of heads, or the note of the file that has it: unpair(x, llama.attention.head_count)");
        s->name = name(p, "a number of heads, or a note of the file, is expected");
    }
    if (!take(p, ')'))
        wrong(p, "a ) is expected");
}

static TensorSource *source(Parser *p, int depth)
{
    if (depth > DEEPEST)
        wrong(p, "too many parentheses in each other");
    TensorSource *s = adopt(p, sizeof *s);
    s->name = name(p, EXPECTED);
    if (!take(p, '('))
        return s;
    const struct Function *f = NULL;
    for (int i = 0; i < MGPU_COUNT(FUNCTIONS) && !f; i++)
        f = strcmp(FUNCTIONS[i].name, s->name) == 0 ? &FUNCTIONS[i] : NULL;
    if (!f)
        wrong(p, EXPECTED);
    s->kind = f->kind;
    read_arguments(p, s, f, depth);
    return s;
}

/* ---- lines */
static void read_rule(Parser *p)
{
    TensorRule *r = adopt(p, sizeof *r);
    do {
        if (r->count == MGPU_COUNT(r->target))
            wrong(p, "a line has at most 8 names of the model");
        r->target[r->count++] = name(p, "a name of the model is expected");
    } while (take(p, ','));
    if (!take(p, '='))
        wrong(p,
              "a line is MODEL = FILE: fc.weight = transpose(classifier.weight); or begins with rules, if, prefix, use or say");
    r->source = source(p, 0);
    if ((r->count > 1) != (r->source->kind == SOURCE_SPLIT))
        wrong(p, r->count > 1 ? "several names of the model come from a split: a.weight, b.weight = split(ab.weight)"
                              : "split makes several tensors: a.weight, b.weight = split(ab.weight)");
    *p->last = r;
    p->last = &r->next;
}

static void begin_set(Parser *p)
{
    RuleSet **end = &p->sets;
    while (*end)
        end = &(*end)->next;
    p->set = *end = adopt(p, sizeof **end);
    p->last = &p->set->rules;
}

static void read_names(Parser *p)
{
    begin_set(p);
    do {
        if (p->set->name_count == MGPU_COUNT(p->set->names))
            wrong(p, "a set has at most 8 names");
        p->set->names[p->set->name_count++] = name(p, "a name of the set is expected");
    } while (take(p, ','));
}

static void read_condition(Parser *p)
{
    Condition *c = adopt(p, sizeof *c);
    c->name = name(p, "a tensor or a note of the file is expected");
    if (take(p, '='))
        c->text = name(p, "the text of the note is expected");
    c->shaped = !c->text && take(p, '[');
    while (c->shaped && !take(p, ']')) {
        if (c->rank == MGPU_MAX_RANK || (c->rank && !take(p, ',')))
            wrong(p, "a shape is expected, of at most 8 axes: [c, 3c]");
        take(p, ' ');
        bool digits = isdigit((unsigned char)*p->at), letter;
        errno = 0;
        c->axis[c->rank].times = digits ? strtoll(p->at, (char **)(uintptr_t)&p->at, 10) : 1;
        letter = islower((unsigned char)*p->at);
        c->axis[c->rank].letter = (char)(letter ? *p->at++ : 0);
        if (errno || (!letter && !digits))
            wrong(p, "an axis is a number, a letter for one, or a multiple of that: [c, 3c]");
        c->rank++;
    }
    c->next = p->set->conditions;
    p->set->conditions = c;
}

static const RuleSet *find_set(const RuleSet *sets, const char *name)
{
    for (; sets; sets = sets->next)
        for (int i = 0; i < sets->name_count; i++)
            if (strcmp(sets->names[i], name) == 0)
                return sets;
    return NULL;
}

static void add_prefix(Parser *p, char *prefix)
{
    if (p->set->prefix_count == MGPU_COUNT(p->set->prefixes))
        wrong(p, "a set has at most 8 prefixes");
    p->set->prefixes[p->set->prefix_count++] = prefix;
}

static char *names_of(const RuleSet *sets)
{
    char *text;
    size_t length;
    FILE *f = mgpu_begin_text(&text, &length);
    for (const RuleSet *s = sets; s; s = s->next)
        for (int i = 0; i < s->name_count; i++)
            fprintf(f, "%s%s", s == sets && !i ? "" : " ", s->names[i]);
    mgpu_end_text(f);
    return text;
}

static void read_use(Parser *p)
{
    const char *asked = name(p, "a set of the library is expected");
    bool library = p->where == mgpu_rules_files[0].name; /* the library may use its own earlier sets */
    const RuleSet *all = library ? p->sets : mgpu_library_rules(p->file), *used = find_set(all, asked);
    if (!used || used == p->set)
        wrong(p, mgpu_format("there is no set '%s' in the library; there are: %s", asked, names_of(all)));
    for (int i = 0; i < used->prefix_count; i++)
        add_prefix(p, used->prefixes[i]);
    for (const TensorRule *r = used->rules; r; r = r->next) {
        TensorRule *copy = adopt(p, sizeof *copy);
        *copy = *r;
        copy->next = NULL;
        *p->last = copy;
        p->last = &copy->next;
    }
}

static void read_remark(Parser *p)
{
    take(p, ' ');
    p->set->remark = mgpu_adopt_memory(p->file, mgpu_format("%s", p->at));
    p->at += strlen(p->at);
}

static void read_prefix(Parser *p) { add_prefix(p, name(p, "a prefix is expected: prefix transformer.")); }

static void read_line(Parser *p, const char *line)
{
    static const struct {
        const char *word;
        void (*read)(Parser *);
    } STATEMENTS[] = {
        {"rules", read_names}, {"if", read_condition}, {"use", read_use}, {"prefix", read_prefix}, {"say", read_remark}};
    p->at = line;
    take(p, ' ');
    if (take(p, 0))
        return;
    const char *begin = p->at, *first = word(p);
    bool statement = first && !take(p, '=') && !take(p, ',') && !take(p, '(');
    for (int i = 0; i < MGPU_COUNT(STATEMENTS) && statement; i++) {
        if (strcmp(first, STATEMENTS[i].word) != 0)
            continue;
        if (!p->set && i)
            begin_set(p);
        STATEMENTS[i].read(p);
        begin = NULL;
        break;
    }
    if (begin) {
        if (!p->set)
            begin_set(p);
        p->at = begin;
        read_rule(p);
    }
    if (!take(p, 0))
        wrong(p, mgpu_format("what is '%s' after what the line says?", p->at));
}

/* Expands the k-th alternative of all braces in the line. *count is the number of alternatives. */
static char *chosen(Parser *p, const char *line, int length, int k, int *count)
{
    char *text = adopt(p, (size_t)length + 1), *to = text;
    *count = 0;
    for (const char *at = line; at < line + length; at++) {
        if (*at != '{') {
            *to++ = *at;
            continue;
        }
        int n = 0;
        for (at++; at < line + length && *at != '}'; at++) {
            if (*at == ',')
                n++;
            else if (n == k)
                *to++ = *at;
        }
        if (at == line + length || (*count && *count != n + 1))
            wrong(p, "what stands in braces is of one length in a line: stages.{0,1}.weight = features.{1,3}.weight");
        *count = n + 1;
    }
    return text;
}

/* ends: the characters after which messages count another line; rules of the command line are counted, too. */
static RuleSet *parse(TensorFile *file, const char *where, const char *text, const char *ends)
{
    Parser p = {.file = file, .where = where, .line = 1};
    while (*text) {
        int length = (int)strcspn(text, "#\n;"), count = 1;
        const char *end = text + length + (text[length] == '#' ? strcspn(text + length, "\n") : 0);
        for (int k = 0; k == 0 || k < count; k++) {
            char *line = chosen(&p, text, length, k, &count);
            if (count > MOST_LINES)
                wrong(&p, "there are more than 256 alternatives in braces");
            read_line(&p, line);
        }
        p.line += *end && strchr(ends, *end);
        text = *end ? end + 1 : end;
    }
    if (!p.sets)
        begin_set(&p);
    return p.sets;
}

const RuleSet *mgpu_library_rules(TensorFile *file)
{
    if (!file->library)
        file->library = parse(file, mgpu_rules_files[0].name, mgpu_rules_files[0].text, "\n");
    return file->library;
}

static char *read_text(TensorFile *file, const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        mgpu_fail(MGPU_BAD_INPUT, "--rules %s: %s; the library has the sets %s", path, strerror(errno),
                  names_of(mgpu_library_rules(file)));
    char *text = mgpu_adopt_memory(file, mgpu_allocate(LARGEST_TEXT + 1, 1));
    size_t length = fread(text, 1, LARGEST_TEXT + 1, f);
    bool failed = ferror(f) != 0;
    fclose(f);
    if (failed || length > LARGEST_TEXT || memchr(text, 0, length))
        mgpu_fail(MGPU_BAD_INPUT, "%s: no text of rules, or more than 1 MiB", path);
    text[length] = 0;
    return text;
}

const RuleSet *mgpu_rules(TensorFile *file, const char *text)
{
    const RuleSet *found = find_set(mgpu_library_rules(file), text);
    if (found)
        return found;
    bool itself = strchr(text, '=') != NULL;
    const RuleSet *sets = itself ? parse(file, "rules", text, "\n;") : parse(file, text, read_text(file, text), "\n"), *s = sets;
    while (s && sets->next && !mgpu_rules_are_for(s, file))
        s = s->next;
    if (!s)
        mgpu_fail(MGPU_BAD_INPUT, "%s: none of its sets is for %s, by their lines `if`", text, file->path);
    return s;
}
