/* family.c: parses families (dsl/stdlib/families.rules), which are part of the library: errors in them are internal. */
#include "runtime/base/base.h"
#include "runtime/export/family.h"

#include <stdlib.h>
#include <string.h>

typedef struct FamilyReader {
    TensorFile *file; /* owns the memory */
    const char *at;
    char *each;
    Family *list;
    int count;
} FamilyReader;

static char *copy(FamilyReader *r, const char *begin, size_t length)
{
    return mgpu_adopt_memory(r->file, mgpu_format("%.*s", (int)length, begin));
}

static void blanks(FamilyReader *r)
{
    while (*r->at == ' ')
        r->at++;
}

static char *word(FamilyReader *r)
{
    blanks(r);
    size_t length = strcspn(r->at, " (),=\n");
    char *text = copy(r, r->at, length);
    r->at += length;
    blanks(r);
    return text;
}

static char *rest(FamilyReader *r)
{
    blanks(r);
    size_t length = strcspn(r->at, "\n");
    char *text = copy(r, r->at, length);
    r->at += length;
    return text;
}

static Term *term(FamilyReader *r)
{
    Term *t = mgpu_adopt_memory(r->file, mgpu_allocate(1, sizeof *t));
    t->word = word(r);
    t->call = *r->at == '(';
    while (t->call && (*r->at == '(' || *r->at == ',')) {
        r->at++;
        t->args[t->count++] = term(r);
        blanks(r);
    }
    r->at += t->call; /* the ) */
    return t;
}

static void add(FamilyReader *r, FamilyLine **list, int *count, FamilyLine line)
{
    FamilyLine *longer = mgpu_adopt_memory(r->file, mgpu_allocate((size_t)*count + 1, sizeof *longer));
    if (*count)
        memcpy(longer, *list, (size_t)*count * sizeof *longer);
    longer[(*count)++] = line;
    *list = longer;
}

/* Adds a line, or replaces the one with the same key. */
static void set(FamilyReader *r, FamilyLine **list, int *count)
{
    FamilyLine line = {.name = word(r)};
    r->at += *r->at == '=';
    line.text = rest(r);
    for (int i = 0; i < *count; i++)
        if (strcmp((*list)[i].name, line.name) == 0) {
            (*list)[i] = line;
            return;
        }
    add(r, list, count, line);
}

/* Makes the list one of its own, since lines with the same key are replaced in place. */
static void separate(FamilyReader *r, FamilyLine **list, int count)
{
    const FamilyLine *shared = *list;
    *list = mgpu_adopt_memory(r->file, mgpu_allocate((size_t)count + 1, sizeof **list));
    if (count)
        memcpy(*list, shared, (size_t)count * sizeof **list);
}

static void like(FamilyReader *r, Family *f)
{
    char *name = f->name, *other = word(r);
    for (int i = 0; i < r->count; i++)
        if (strcmp(r->list[i].name, other) == 0)
            *f = r->list[i];
    f->name = name;
    separate(r, &f->config, f->config_count);
    separate(r, &f->metadata, f->metadata_count);
}

static void read_line(FamilyReader *r)
{
    blanks(r);
    if (*r->at == '#' || *r->at == '\n' || !*r->at)
        return;
    const char *begin = r->at;
    char *first = word(r);
    Family *f = &r->list[r->count ? r->count - 1 : 0];
    if (strcmp(first, "family") == 0)
        r->list[r->count++] = (Family){.name = word(r)};
    else if (strcmp(first, "rules") == 0)
        f->rules = word(r);
    else if (strcmp(first, "like") == 0)
        like(r, f);
    else if (strcmp(first, "each") == 0)
        r->each = word(r);
    else if (strcmp(first, "end") == 0)
        r->each = NULL;
    else if (strcmp(first, "gguf") == 0)
        f->gguf = word(r), f->gguf_act = word(r);
    else if (strcmp(first, "config") == 0)
        set(r, &f->config, &f->config_count);
    else if (strcmp(first, "note") == 0)
        set(r, &f->metadata, &f->metadata_count);
    else {
        FamilyLine line = {.name = first, .text = copy(r, begin, strcspn(begin, "\n")), .each = r->each};
        r->at++; /* the = */
        line.term = term(r);
        add(r, &f->computes, &f->compute_count, line);
    }
}

Family *mgpu_families(TensorFile *file, int *count)
{
    FamilyReader r = {.file = file, .at = mgpu_family_files[0].text};
    int most = 0;
    for (const char *at = r.at; (at = strstr(at, "\nfamily ")); at++)
        most++;
    r.list = mgpu_adopt_memory(file, mgpu_allocate((size_t)most, sizeof *r.list));
    while (*r.at) {
        read_line(&r);
        r.at += strcspn(r.at, "\n");
        r.at += *r.at == '\n';
    }
    *count = r.count;
    return r.list;
}

char *mgpu_in_block(const char *word, const char *each, Block block)
{
    char stage[16], number[16];
    snprintf(stage, sizeof stage, "%d", block.stage);
    snprintf(number, sizeof number, "%d", block.number);
    bool staged = each && strchr(strchr(each, '*') + 1, '*'), below = each && strncmp(word, "*.", 2) == 0;
    Capture star[MGPU_MOST_STARS] = {{staged ? stage : number, 0}, {number, 0}};
    for (int i = 0; i < 2; i++)
        star[i].length = (int)strlen(star[i].begin);
    char *pattern = mgpu_format("%s%s", below ? each : word, below ? word + 1 : ""), *name = mgpu_filled(pattern, star);
    free(pattern);
    return name;
}
