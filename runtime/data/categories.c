/* categories.c: words as classes.
 *
 * The set that trains decides, once for each class input: if all its words are whole numbers below n they are the classes
 * themselves; else its words, in order (numbers by value, others byte by byte), are classes 0, 1, ..., leaving out the
 * class `other`. Words whose places count, such as names of folders, are always in order of their bytes. With `other`,
 * words that no sample of the set has are no categories, and of too many the most frequent ones are taken. A missing word
 * (text NULL) and one that has no class go to `other`; one that is the number of `ignore` is that label. The tables are
 * saved in the metadata of the weights' file, as JSON: input -> list of words by class (null: `other`) or "numbers". */
#include "runtime/base/base.h"
#include "runtime/data/data.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct Table {
    char *input;
    bool numbers;
    bool renewable; /* of weights of which only parts are taken */
    Words words;
} Table;
struct Categories {
    bool fixed;
    Table *tables;
    int count;
};

Categories *mgpu_new_categories(bool fixed)
{
    Categories *c = mgpu_allocate(1, sizeof *c);
    c->fixed = fixed;
    return c;
}

static void free_table(Table *t)
{
    for (int64_t k = 0; k < t->words.count; k++)
        free(t->words.text[k]);
    free(t->words.text);
    free(t->input);
}

static void free_tables(Categories *c)
{
    for (int i = 0; i < c->count; i++)
        free_table(&c->tables[i]);
    free(c->tables);
    c->tables = NULL;
    c->count = 0;
}

void mgpu_free_categories(Categories *c)
{
    if (c)
        free_tables(c);
    free(c);
}

static const Table *find_table(const Categories *c, const char *input)
{
    for (int i = 0; c && i < c->count; i++)
        if (strcmp(c->tables[i].input, input) == 0)
            return &c->tables[i];
    return NULL;
}

const Words *mgpu_words_of_classes(const Categories *c, const mgpu_input *in)
{
    const Table *t = find_table(c, in->tensor.name);
    return t && !t->numbers ? &t->words : NULL;
}

static Table *add_table(Categories *c, const char *input, bool numbers)
{
    c->tables = mgpu_resize(c->tables, (size_t)(c->count + 1) * sizeof *c->tables);
    c->tables[c->count] = (Table){.input = mgpu_format("%s", input), .numbers = numbers};
    return &c->tables[c->count++];
}

/* ---- in a file */
char *mgpu_categories_text(const Categories *c)
{
    if (!c || !c->count)
        return NULL;
    char *text;
    size_t length;
    FILE *f = mgpu_begin_text(&text, &length);
    for (int i = 0; i < c->count; i++) {
        const Table *t = &c->tables[i];
        fputs(i ? "," : "{", f);
        mgpu_json_write_bytes(f, t->input);
        fputs(t->numbers ? ":\"numbers\"" : ":[", f);
        for (int64_t k = 0; k < t->words.count; k++) {
            fputs(k ? "," : "", f);
            if (t->words.text[k])
                mgpu_json_write_bytes(f, t->words.text[k]);
            else
                fputs("null", f);
        }
        fputs(t->numbers ? "" : "]", f);
    }
    fputc('}', f);
    mgpu_end_text(f);
    return text;
}

void mgpu_read_categories(Categories *c, const char *text, const char *path)
{
    const char *error;
    Json *json = mgpu_json_read(text, strlen(text), &error);
    if (!json || json->kind != JSON_OBJECT)
        mgpu_fail(MGPU_BAD_INPUT, "%s: its tables of categories are damaged: %s", path, json ? "they are no JSON object" : error);
    free_tables(c);
    for (const Json *m = json->first; m; m = m->next) {
        Table *t = add_table(c, m->key, m->kind != JSON_LIST);
        for (const Json *w = m->first; m->kind == JSON_LIST && w; w = w->next) {
            t->words.text = mgpu_resize(t->words.text, (size_t)(t->words.count + 1) * sizeof *t->words.text);
            t->words.text[t->words.count++] = w->kind == JSON_TEXT ? mgpu_format("%s", w->text) : NULL;
        }
    }
    free(json);
}

/* ---- of several files */
static bool same_words(const Table *a, const Table *b)
{
    bool same = a->numbers == b->numbers;
    for (int64_t k = 0; k < a->words.count && k < b->words.count && same; k++)
        same = a->words.text[k] && b->words.text[k] ? strcmp(a->words.text[k], b->words.text[k]) == 0 : a->words.text[k] == b->words.text[k];
    return same;
}

const char *mgpu_join_categories(Categories *c, const Categories *more)
{
    const char *differs = NULL;
    for (int i = 0; i < more->count; i++) {
        const Table *t = &more->tables[i], *own = find_table(c, t->input);
        differs = own && !same_words(own, t) ? own->input : differs;
        if (own)
            continue;
        Table *copy = add_table(c, t->input, t->numbers);
        copy->renewable = !c->fixed;
        copy->words.text = mgpu_allocate((size_t)t->words.count + 1, sizeof *copy->words.text);
        for (int64_t k = 0; k < t->words.count; k++)
            copy->words.text[k] = t->words.text[k] ? mgpu_format("%s", t->words.text[k]) : NULL;
        copy->words.count = t->words.count;
    }
    return differs;
}

/* ---- making a table */
/* "12" but not "012", "+12", "1.0": one text for each number */
static bool whole_number(const char *text, int64_t *value)
{
    char *end;
    if (!text || !((*text >= '0' && *text <= '9') || *text == '-'))
        return false;
    errno = 0;
    *value = strtoll(text, &end, 10);
    char again[32];
    snprintf(again, sizeof again, "%lld", (long long)*value);
    return errno == 0 && *end == 0 && strcmp(again, text) == 0;
}

static bool admitted(const mgpu_input *in, int64_t value)
{
    return (value >= 0 && value < in->classes) || (in->ignore != MGPU_NO_LABEL && value == in->ignore);
}

/* whether all words are numbers of classes, those that are in use if `used` says it; places: whether each is its place's */
static bool are_classes(const mgpu_input *in, const Words *words, const int64_t *used)
{
    int64_t place = 0, value;
    for (int64_t k = 0; k < words->count; k++)
        if (words->text[k] && !(used && !used[k]) &&
            !(whole_number(words->text[k], &value) && admitted(in, value) && (!words->places || value == place++)))
            return false;
    return true;
}

/* a text that is the number of `ignore` is that label among words, too */
static bool is_ignored(const mgpu_input *in, const Words *words, int64_t k)
{
    int64_t value;
    return in->ignore != MGPU_NO_LABEL && !words->places && whole_number(words->text[k], &value) && value == in->ignore;
}

typedef struct Candidate {
    const char *text;
    int64_t used, number;
} Candidate;

static int by_text(const void *a, const void *b)
{
    return strcmp(((const Candidate *)a)->text, ((const Candidate *)b)->text);
}

static int by_number(const void *a, const void *b)
{
    int64_t x = ((const Candidate *)a)->number, y = ((const Candidate *)b)->number;
    return (x > y) - (x < y);
}

static int by_use(const void *a, const void *b)
{
    const Candidate *x = a, *y = b;
    return x->used != y->used ? (x->used < y->used) - (x->used > y->used) : strcmp(x->text, y->text);
}

static void list_words(const char *const *words, int64_t count, char *text, size_t room)
{
    enum { SHOWN = 6 };
    size_t at = 0;
    int shown = 0;
    text[0] = 0;
    for (int64_t k = 0; k < count && at < room; k++)
        if (words[k] && shown++ < SHOWN)
            at += (size_t)snprintf(text + at, room - at, "%s'%.40s'", shown > 1 ? ", " : "", words[k]);
    if (shown > SHOWN && at < room)
        snprintf(text + at, room - at, " and %d more", shown - SHOWN);
}

int64_t mgpu_word_beyond(const mgpu_input *in, const Words *words)
{
    int64_t count = 0, beyond = -1, strange = -1, value;
    bool numbers = !words->places;
    for (int64_t k = 0; k < words->count; k++) {
        if (!words->text[k] || is_ignored(in, words, k))
            continue;
        if (count++ == in->classes)
            beyond = k;
        numbers = numbers && whole_number(words->text[k], &value);
        if (numbers && strange < 0 && !admitted(in, value))
            strange = k;
    }
    return beyond >= 0 && numbers && strange >= 0 ? strange : beyond;
}

static _Noreturn void too_many(const mgpu_input *in, const Words *all, const Candidate *list, int64_t count, const char *place)
{
    char text[400];
    int64_t beyond = mgpu_word_beyond(in, all);
    const char **words = mgpu_allocate((size_t)count, sizeof *words);
    for (int64_t k = 0; k < count; k++)
        words[k] = list[k].text;
    list_words(words, count, text, sizeof text);
    mgpu_fail(
        MGPU_BAD_INPUT,
        "%s: '%.40s' is one of %lld categories (%s); input '%s' has %lld classes; write class(%lld), or class(%lld, other = 0), "
        "where the most frequent ones have classes of their own",
        place, beyond >= 0 ? all->text[beyond] : "", (long long)count, text, in->tensor.name, (long long)in->classes,
        (long long)count, (long long)in->classes);
}

static const Table *make_table(Categories *c, const mgpu_input *in, const Words *words, const int64_t *used, const char *place,
                               const char *beyond)
{
    Candidate *list = mgpu_allocate((size_t)words->count, sizeof *list);
    int64_t count = 0, room = in->classes - (in->other != MGPU_NO_LABEL);
    bool numbers = !words->places, any = false;
    for (int64_t k = 0; k < words->count; k++) {
        if (!words->text[k] || (used && !used[k]))
            continue;
        any = true;
        if (is_ignored(in, words, k))
            continue;
        Candidate *one = &list[count++];
        *one = (Candidate){.text = words->text[k], .used = used ? used[k] : 0};
        numbers = numbers && whole_number(one->text, &one->number);
    }
    Table *t = add_table(c, in->tensor.name, any && are_classes(in, words, used));
    if (!t->numbers) {
        qsort(list, (size_t)count, sizeof *list, numbers ? by_number : by_text);
        if (count > room && in->other == MGPU_NO_LABEL)
            too_many(in, words, list, count, beyond);
        if (count > room) {
            mgpu_say("%s: %lld categories; the %lld most frequent ones have classes of '%s', the others are class %lld",
                    place, (long long)count, (long long)room, in->tensor.name, (long long)in->other);
            qsort(list, (size_t)count, sizeof *list, by_use);
            count = room;
            qsort(list, (size_t)count, sizeof *list, numbers ? by_number : by_text);
        }
        t->words.text = mgpu_allocate((size_t)count + 1, sizeof *t->words.text);
        for (int64_t k = 0, class = 0; k < count; k++, class ++) {
            if (class == in->other)
                class ++;
            t->words.text[class] = mgpu_format("%s", list[k].text);
            t->words.count = class + 1;
        }
    }
    free(list);
    return t;
}

/* ---- using one */
typedef struct Entry {
    const char *text;
    int64_t class;
} Entry;

static int by_entry(const void *a, const void *b)
{
    return strcmp(((const Entry *)a)->text, ((const Entry *)b)->text);
}

void mgpu_may_renew(Categories *c, const mgpu_input *in)
{
    for (int i = 0; i < c->count; i++)
        if (strcmp(c->tables[i].input, in->tensor.name) == 0)
            c->tables[i].renewable = true;
}

static bool covers(const Table *t, const mgpu_input *in, const Words *words, const int64_t *used)
{
    bool all = t->words.count <= in->classes;
    for (int64_t k = 0; k < words->count && all && in->other == MGPU_NO_LABEL; k++) {
        int64_t value, i = 0;
        if (!words->text[k] || (used && !used[k]) || is_ignored(in, words, k))
            continue;
        while (i < t->words.count && !(t->words.text[i] && strcmp(t->words.text[i], words->text[k]) == 0))
            i++;
        all = t->numbers ? whole_number(words->text[k], &value) && admitted(in, value) : i < t->words.count;
    }
    return all;
}

/* the table, unless it is of other words and may be made anew: then it goes */
static const Table *table_for(Categories *c, const mgpu_input *in, const Words *words, const int64_t *used, const char *place)
{
    const Table *t = find_table(c, in->tensor.name);
    if (!t || !t->renewable || covers(t, in, words, used))
        return t;
    mgpu_say("%s: words are others than those that the weights know; input '%s' gets classes for these", place,
            in->tensor.name);
    Table *old = &c->tables[t - c->tables];
    free_table(old);
    *old = c->tables[--c->count];
    return NULL;
}

int64_t *mgpu_classes_of_words(Categories *c, const mgpu_input *in, const Words *words, const int64_t *used, const char *place,
                               const char *beyond)
{
    const Table *t = table_for(c, in, words, used, place);
    static const Table NUMBERS = {.numbers = true};
    if (!t && (!c || c->fixed) && are_classes(in, words, used))
        t = &NUMBERS; /* no table is needed */
    if (!t && (!c || c->fixed))
        mgpu_fail(MGPU_BAD_INPUT,
                  "%s: words, whose classes training decides and saves with its weights; these weights have none for the "
                  "input '%s': train anew, or give numbers",
                  place, in->tensor.name);
    if (t && t->words.count > in->classes)
        mgpu_fail(MGPU_BAD_INPUT,
                  "%s: the table of the input '%s' that is saved with the weights has %lld classes, the program class(%lld): "
                  "take the program that these weights are of, train anew, or take parts of them: --init PART=FILE",
                  place, in->tensor.name, (long long)t->words.count, (long long)in->classes);
    if (!t)
        t = make_table(c, in, words, used, place, beyond);
    Entry *entries = mgpu_allocate((size_t)t->words.count, sizeof *entries);
    int64_t count = 0, *class = mgpu_allocate((size_t)words->count, sizeof *class);
    for (int64_t k = 0; k < t->words.count; k++)
        if (t->words.text[k])
            entries[count++] = (Entry){t->words.text[k], k};
    qsort(entries, (size_t)count, sizeof *entries, by_entry);
    for (int64_t k = 0; k < words->count; k++) {
        int64_t value;
        class[k] = in->other;
        if (!words->text[k])
            continue;
        Entry key = {.text = words->text[k]};
        const Entry *found = t->numbers ? NULL : bsearch(&key, entries, (size_t)count, sizeof *entries, by_entry);
        if (found)
            class[k] = found->class;
        else if (is_ignored(in, words, k))
            class[k] = in->ignore;
        else if (t->numbers && whole_number(words->text[k], &value) && admitted(in, value))
            class[k] = value;
    }
    free(entries);
    return class;
}
