/* categories.c: maps words to classes.
 *
 * The training set decides for each class input: if all its words are whole numbers below n, in any spelling (3, 3.0, +3,
 * 3e0), they are the classes. Otherwise its words in order (numbers by value, others by bytes) are classes 0, 1, ..., without
 * those that `other` and `ignore` name. If all words are whole numbers, different spellings of one are one word. Words with
 * `places`, such as names of folders, are always in byte order. With `other`, words that no sample has are not categories, and
 * if there are too many, only the most frequent have classes. A missing word (text NULL) and a word without a class are
 * `other`. A word that is the number of `ignore` is that label. The tables are saved in the metadata of the file of weights,
 * as JSON: input -> list of words by class (null: `other`) or "numbers". */
#include "runtime/base/base.h"
#include "runtime/data/data.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct CategoryEntry {
    const char *text;
    int64_t class, number;
} CategoryEntry;

/* Finds the class of a word; if all words are whole numbers, also by value. */
typedef struct Lookup {
    CategoryEntry *texts, *numbers;
    int64_t count;
} Lookup;

typedef struct CategoryTable {
    char *input;
    bool numbers;
    bool renewable; /* from weights of a part: training may replace it */
    Words words;
    Lookup lookup; /* texts NULL: not built yet */
} CategoryTable;
struct Categories {
    bool fixed;
    CategoryTable *tables;
    int count;
};

Categories *mgpu_new_categories(bool fixed)
{
    Categories *c = mgpu_allocate(1, sizeof *c);
    c->fixed = fixed;
    return c;
}

static void free_table(CategoryTable *t)
{
    for (int64_t k = 0; k < t->words.count; k++)
        free(t->words.text[k]);
    free(t->words.text);
    free(t->lookup.texts);
    free(t->lookup.numbers);
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

static CategoryTable *find_table(const Categories *c, const char *input)
{
    for (int i = 0; c && i < c->count; i++)
        if (strcmp(c->tables[i].input, input) == 0)
            return &c->tables[i];
    return NULL;
}

const Words *mgpu_words_of_classes(const Categories *c, const mgpu_input *in)
{
    const CategoryTable *t = find_table(c, in->tensor.name);
    return t && !t->numbers ? &t->words : NULL;
}

static CategoryTable *add_table(Categories *c, const char *input, bool numbers)
{
    c->tables = mgpu_resize(c->tables, (size_t)(c->count + 1) * sizeof *c->tables);
    c->tables[c->count] = (CategoryTable){.input = mgpu_format("%s", input), .numbers = numbers};
    return &c->tables[c->count++];
}

/* ---- saving and loading */
char *mgpu_categories_text(const Categories *c)
{
    if (!c || !c->count)
        return NULL;
    char *text;
    size_t length;
    FILE *f = mgpu_begin_text(&text, &length);
    for (int i = 0; i < c->count; i++) {
        const CategoryTable *t = &c->tables[i];
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
        CategoryTable *t = add_table(c, m->key, m->kind != JSON_LIST);
        for (const Json *w = m->first; m->kind == JSON_LIST && w; w = w->next) {
            MGPU_PUSH(t->words.text, t->words.count, w->kind == JSON_TEXT ? mgpu_format("%s", w->text) : NULL);
        }
    }
    free(json);
}

/* ---- merging tables of several files */
static bool same_words(const CategoryTable *a, const CategoryTable *b)
{
    bool same = a->numbers == b->numbers;
    for (int64_t k = 0; k < a->words.count && k < b->words.count && same; k++)
        same = a->words.text[k] && b->words.text[k] ? strcmp(a->words.text[k], b->words.text[k]) == 0
                                                    : a->words.text[k] == b->words.text[k];
    return same;
}

const char *mgpu_join_categories(Categories *c, const Categories *more)
{
    const char *differs = NULL;
    for (int i = 0; i < more->count; i++) {
        const CategoryTable *t = &more->tables[i], *own = find_table(c, t->input);
        differs = own && !same_words(own, t) ? own->input : differs;
        if (own)
            continue;
        CategoryTable *copy = add_table(c, t->input, t->numbers);
        copy->renewable = !c->fixed;
        copy->words.text = mgpu_allocate((size_t)t->words.count + 1, sizeof *copy->words.text);
        for (int64_t k = 0; k < t->words.count; k++)
            copy->words.text[k] = t->words.text[k] ? mgpu_format("%s", t->words.text[k]) : NULL;
        copy->words.count = t->words.count;
    }
    return differs;
}

/* ---- making a table */
/* Reads a whole number in any spelling: "12", "012", "+12", " 12", "12.0", "1.2e1". */
static bool whole_number(const char *text, int64_t *value)
{
    char *end;
    const char *begin = text ? text + strspn(text, " \t") : "";
    size_t length = strspn(begin, "+-.0123456789eE");
    if (!length || begin[length + strspn(begin + length, " \t")])
        return false;
    errno = 0;
    *value = strtoll(begin, &end, 10);
    if (end == begin + length)
        return errno == 0;
    double v = strtod(begin, &end);
    bool whole = end == begin + length && v == floor(v) && fabs(v) < 0x1p53;
    *value = whole ? (int64_t)v : 0;
    return whole;
}

/* True if `ignore` is one of the classes 0 to n - 1, so that no word may have it. */
static bool ignores_class(const mgpu_input *in) { return in->ignore >= 0 && in->ignore < in->classes; }

/* Returns how many classes words may have: all but those that `other` and `ignore` name. */
static int64_t classes_for_words(const mgpu_input *in)
{
    return in->classes - (in->other != MGPU_NO_LABEL) - (ignores_class(in) && in->ignore != in->other);
}

static char *number_text(int64_t value) { return mgpu_format("%lld", (long long)value); }

static bool usual_spelling(const char *text, int64_t value)
{
    char usual[32];
    snprintf(usual, sizeof usual, "%lld", (long long)value);
    return strcmp(usual, text) == 0;
}

static bool admitted(const mgpu_input *in, int64_t value)
{
    return (value >= 0 && value < in->classes) || (in->ignore != MGPU_NO_LABEL && value == in->ignore);
}

/* Returns whether all words (with `used`, those in use) are numbers of classes; with `places`, each its own index. */
static bool are_classes(const mgpu_input *in, const Words *words, const int64_t *used)
{
    int64_t place = 0, value;
    for (int64_t k = 0; k < words->count; k++)
        if (words->text[k] && !(used && !used[k]) &&
            !(whole_number(words->text[k], &value) && admitted(in, value) && (!words->places || value == place++)))
            return false;
    return true;
}

/* A word that is the number of `ignore` is that label, even among other words. */
static bool is_ignored(const mgpu_input *in, const Words *words, int64_t k)
{
    int64_t value;
    return in->ignore != MGPU_NO_LABEL && !words->places && whole_number(words->text[k], &value) && value == in->ignore;
}

typedef struct SimilarWord {
    const char *text;
    int64_t used, number;
} SimilarWord;

static int by_text(const void *a, const void *b)
{
    return strcmp(((const SimilarWord *)a)->text, ((const SimilarWord *)b)->text);
}

static int by_number(const void *a, const void *b)
{
    int64_t x = ((const SimilarWord *)a)->number, y = ((const SimilarWord *)b)->number;
    return (x > y) - (x < y);
}

static int by_use(const void *a, const void *b)
{
    const SimilarWord *x = a, *y = b;
    return x->used != y->used ? (x->used < y->used) - (x->used > y->used) : strcmp(x->text, y->text);
}

static void list_words(const char *const *words, int64_t count, char *text, size_t capacity)
{
    enum { SHOWN = 6 };
    size_t at = 0;
    int shown = 0;
    text[0] = 0;
    for (int64_t k = 0; k < count && at < capacity; k++)
        if (words[k] && shown++ < SHOWN)
            at += (size_t)snprintf(text + at, capacity - at, "%s'%.40s'", shown > 1 ? ", " : "", words[k]);
    if (shown > SHOWN && at < capacity)
        snprintf(text + at, capacity - at, " and %d more", shown - SHOWN);
}

int64_t mgpu_word_beyond(const mgpu_input *in, const Words *words)
{
    int64_t count = 0, beyond = -1, strange = -1, value;
    bool numbers = !words->places;
    for (int64_t k = 0; k < words->count; k++) {
        if (!words->text[k] || is_ignored(in, words, k))
            continue;
        if (count++ == classes_for_words(in))
            beyond = k;
        numbers = numbers && whole_number(words->text[k], &value);
        if (numbers && strange < 0 && !admitted(in, value))
            strange = k;
    }
    return beyond >= 0 && numbers && strange >= 0 ? strange : beyond;
}

/* If all words are whole numbers and one is negative, that is probably no class: prints how to ignore it, else "". */
static void ignore_negative(const mgpu_input *in, const SimilarWord *list, int64_t count, char *text, size_t capacity)
{
    int64_t value, below = 0, found = 0;
    bool numbers = true;
    for (int64_t k = 0; k < count && numbers; k++) {
        numbers = whole_number(list[k].text, &value);
        found += numbers && value < 0;
        below = numbers && value < 0 ? value : below;
    }
    *text = 0;
    if (numbers && found == 1)
        snprintf(text, capacity, "; class(%lld, ignore = %lld) leaves %lld out", (long long)in->classes, (long long)below,
                 (long long)below);
}

static _Noreturn void too_many(const mgpu_input *in, const Words *all, const SimilarWord *list, int64_t count, const char *place)
{
    char text[400], cure[100], ignored[40] = "";
    int64_t beyond = mgpu_word_beyond(in, all);
    bool apart = ignores_class(in);
    const char **words = mgpu_allocate((size_t)count, sizeof *words);
    for (int64_t k = 0; k < count; k++)
        words[k] = list[k].text;
    list_words(words, count, text, sizeof text);
    ignore_negative(in, list, count, cure, sizeof cure);
    if (apart)
        snprintf(ignored, sizeof ignored, ", ignore = %lld", (long long)in->ignore);
    mgpu_fail(MGPU_BAD_INPUT,
              "%s: '%.40s' is one of %lld categories (%s); input '%s' has %lld classes%s; write class(%lld%s), or class(%lld%s, "
              "other = %d), where the most frequent ones have classes of their own%s",
              place, beyond >= 0 ? all->text[beyond] : "", (long long)count, text, in->tensor.name,
              (long long)classes_for_words(in), apart ? " beside the one that is ignored" : "", (long long)count + apart, ignored,
              (long long)in->classes, ignored, in->ignore == 0, cure);
}

/* Reports how words that look like numbers are understood. table: they get classes, otherwise they are the classes. */
static void say_guess(const mgpu_input *in, const SimilarWord *list, int64_t count, bool table, const char *place)
{
    int64_t numbers = 0, value, odd = -1, spelled = -1;
    char cure[100];
    for (int64_t k = 0; k < count; k++) {
        bool number = whole_number(list[k].text, &value);
        numbers += number;
        odd = number || odd >= 0 ? odd : k;
        spelled = number && spelled < 0 && !usual_spelling(list[k].text, value) ? k : spelled;
    }
    if (numbers < count && 2 * numbers >= count)
        mgpu_say(
            "%s: '%.40s' is no whole number, so all values of '%s' are words, which have their classes in the order of their bytes",
            place, list[odd].text, in->tensor.name);
    else if (numbers == count && table) {
        ignore_negative(in, list, count, cure, sizeof cure);
        mgpu_say("%s: the numbers in it are not the classes 0 to %lld of '%s', which are given to them in their order%s", place,
                 (long long)in->classes - 1, in->tensor.name, cure);
    } else if (numbers == count && spelled >= 0)
        mgpu_say("%s: all values are whole numbers, such as '%.40s': they are the classes of '%s'", place, list[spelled].text,
                 in->tensor.name);
}

/* Merges equal numbers in a list sorted by number. Returns the new length. */
static int64_t join_spellings(SimilarWord *list, int64_t count)
{
    int64_t left = 0;
    for (int64_t k = 0; k < count; k++)
        if (left && list[left - 1].number == list[k].number)
            list[left - 1].used += list[k].used;
        else
            list[left++] = list[k];
    return left;
}

static CategoryTable *make_table(Categories *c, const mgpu_input *in, const Words *words, const int64_t *used, const char *place,
                                 const char *beyond)
{
    SimilarWord *list = mgpu_allocate((size_t)words->count, sizeof *list);
    int64_t count = 0, capacity = classes_for_words(in);
    bool numbers = !words->places, any = false;
    for (int64_t k = 0; k < words->count; k++) {
        if (!words->text[k] || (used && !used[k]))
            continue;
        any = true;
        if (is_ignored(in, words, k))
            continue;
        SimilarWord *one = &list[count++];
        *one = (SimilarWord){.text = words->text[k], .used = used ? used[k] : 0};
        numbers = numbers && whole_number(one->text, &one->number);
    }
    CategoryTable *t = add_table(c, in->tensor.name, any && are_classes(in, words, used));
    if (!words->places && count)
        say_guess(in, list, count, !t->numbers, place);
    if (!t->numbers) {
        qsort(list, (size_t)count, sizeof *list, numbers ? by_number : by_text);
        count = numbers ? join_spellings(list, count) : count;
        if (count > capacity && in->other == MGPU_NO_LABEL)
            too_many(in, words, list, count, beyond);
        if (count > capacity) {
            mgpu_say("%s: %lld categories; the %lld most frequent ones have classes of '%s', the others are class %lld", place,
                     (long long)count, (long long)capacity, in->tensor.name, (long long)in->other);
            qsort(list, (size_t)count, sizeof *list, by_use);
            count = capacity;
            qsort(list, (size_t)count, sizeof *list, numbers ? by_number : by_text);
        }
        t->words.text = mgpu_allocate((size_t)count + 2, sizeof *t->words.text); /* and those of `other` and `ignore` */
        for (int64_t k = 0, class = 0; k < count; k++, class ++) {
            while (class == in->other || class == in->ignore)
                class ++;
            t->words.text[class] = numbers ? number_text(list[k].number) : mgpu_format("%s", list[k].text);
            t->words.count = class + 1;
        }
    }
    free(list);
    return t;
}

/* ---- using a table */
static int by_entry(const void *a, const void *b)
{
    return strcmp(((const CategoryEntry *)a)->text, ((const CategoryEntry *)b)->text);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = ((const CategoryEntry *)a)->number, y = ((const CategoryEntry *)b)->number;
    return (x > y) - (x < y);
}

static void make_lookup(CategoryTable *t)
{
    Lookup l = {.texts = mgpu_allocate((size_t)t->words.count + 1, sizeof *l.texts)};
    bool numbers = true;
    for (int64_t k = 0; k < t->words.count; k++) {
        if (!t->words.text[k])
            continue;
        CategoryEntry *e = &l.texts[l.count++];
        *e = (CategoryEntry){.text = t->words.text[k], .class = k};
        numbers = numbers && whole_number(e->text, &e->number);
    }
    if (numbers) {
        l.numbers = mgpu_allocate((size_t)l.count + 1, sizeof *l.numbers);
        memcpy(l.numbers, l.texts, (size_t)l.count * sizeof *l.numbers);
        qsort(l.numbers, (size_t)l.count, sizeof *l.numbers, by_value);
    }
    qsort(l.texts, (size_t)l.count, sizeof *l.texts, by_entry);
    t->lookup = l;
}

/* Returns a class or MGPU_NO_LABEL. places: see Words. */
static int64_t look_up(CategoryTable *t, const char *text, bool places)
{
    if (!t->lookup.texts)
        make_lookup(t);
    const Lookup *l = &t->lookup;
    CategoryEntry key = {.text = text};
    const CategoryEntry *found = bsearch(&key, l->texts, (size_t)l->count, sizeof key, by_entry);
    if (!found && l->numbers && !places && whole_number(text, &key.number))
        found = bsearch(&key, l->numbers, (size_t)l->count, sizeof key, by_value);
    return found ? found->class : MGPU_NO_LABEL;
}

void mgpu_may_renew(Categories *c, const mgpu_input *in)
{
    for (int i = 0; i < c->count; i++)
        if (strcmp(c->tables[i].input, in->tensor.name) == 0)
            c->tables[i].renewable = true;
}

static bool covers(CategoryTable *t, const mgpu_input *in, const Words *words, const int64_t *used)
{
    bool all = t->words.count <= in->classes;
    for (int64_t k = 0; k < words->count && all && in->other == MGPU_NO_LABEL; k++) {
        int64_t value;
        if (!words->text[k] || (used && !used[k]) || is_ignored(in, words, k))
            continue;
        all = t->numbers ? whole_number(words->text[k], &value) && admitted(in, value)
                         : look_up(t, words->text[k], words->places) != MGPU_NO_LABEL;
    }
    return all;
}

/* Returns the input's table. Removes it and returns NULL if it may be renewed and does not have these words. */
static CategoryTable *table_for(Categories *c, const mgpu_input *in, const Words *words, const int64_t *used, const char *place)
{
    CategoryTable *t = find_table(c, in->tensor.name);
    if (!t || !t->renewable || covers(t, in, words, used))
        return t;
    mgpu_say("%s: words are others than those that the weights know; input '%s' gets classes for these", place, in->tensor.name);
    CategoryTable *old = &c->tables[t - c->tables];
    free_table(old);
    *old = c->tables[--c->count];
    return NULL;
}

int64_t *mgpu_classes_of_words(Categories *c, const mgpu_input *in, const Words *words, const int64_t *used, const char *place,
                               const char *beyond, char **complaint)
{
    CategoryTable *t = table_for(c, in, words, used, place), numbers = {.numbers = true};
    bool fixed = !c || c->fixed;
    if (!t && fixed && !are_classes(in, words, used)) {
        mgpu_complain(complaint,
                      "%s: words, whose classes training decides and saves with its weights; these weights have none for the "
                      "input '%s': train anew, or give numbers",
                      place, in->tensor.name);
        return NULL;
    }
    if (t && t->words.count > in->classes)
        mgpu_fail(MGPU_BAD_INPUT,
                  "%s: the table of the input '%s' that is saved with the weights has %lld classes, the program class(%lld): "
                  "take the program that these weights are of, train anew, or take parts of them: --init PART=FILE",
                  place, in->tensor.name, (long long)t->words.count, (long long)in->classes);
    if (!t)
        t = fixed ? &numbers /* needs no table */ : make_table(c, in, words, used, place, beyond);
    int64_t *class = mgpu_allocate((size_t)words->count, sizeof *class);
    for (int64_t k = 0; k < words->count; k++) {
        const char *word = words->text[k];
        int64_t value, found = word && !t->numbers ? look_up(t, word, words->places) : MGPU_NO_LABEL;
        class[k] = in->other;
        if (!word)
            continue;
        if (found != MGPU_NO_LABEL)
            class[k] = found;
        else if (is_ignored(in, words, k))
            class[k] = in->ignore;
        else if (t->numbers && whole_number(word, &value) && admitted(in, value))
            class[k] = value;
    }
    return class;
}
