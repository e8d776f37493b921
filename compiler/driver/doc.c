/* doc.c: `mgpuc doc`: the meaning of a name; the list of all names; docs/layers.md. */
#include "compiler/driver/command.h"
#include "dsl/document.h"
#include "dsl/foreign_names.h"
#include "runtime/base/terminal.h"

#include <ctype.h>
#include <string.h>

static const char HELP[] = "mgpuc doc: what a layer, primitive, reader, setting or word means\n"
                           "\n"
                           "  mgpuc doc                 all names, by group\n"
                           "  mgpuc doc NAME            signature, comment, where it is defined, and a layer's text\n"
                           "  mgpuc doc NAME FILE.net   the same, with the layers of that file and of what it imports\n"
                           "  mgpuc doc FILE.net        the layers of that file and of what it imports\n"
                           "  mgpuc doc --markdown      the layers of the library as Markdown (docs/layers.md)\n"
                           "\n"
                           "Exit status: 0 done; 1 the file does not parse or cannot be read; 2 usage, an unknown name.\n";

enum { WIDTH = 110, LONG_TEXT = 60, EQUATION = 6 };

static void print_list(const Entries *e)
{
    Map groups = {0};
    for (int k = 0; k < e->count; k++) {
        Text *names = map_get(&groups, e->list[k].group);
        if (!names)
            map_set(&groups, e->list[k].group, names = NEW(Text));
        text_add(names, " %s", e->list[k].name);
    }
    for (int g = 0; g < groups.count; g++) {
        printf("%s%s\n", g ? "\n" : "", groups.keys[g]);
        mgpu_print_wrapped(stdout, text_of(groups.values[g]), "    ", WIDTH);
    }
}

static void print_entry(const Entry *e)
{
    printf("%s\n", e->signature);
    if (e->about[0])
        mgpu_print_wrapped(stdout, e->about, "    ", WIDTH);
    if (!e->file) {
        printf("    (%s)\n", e->group);
        return;
    }
    bool own = strcmp(e->group, e->file) == 0;
    printf("    (%s%s%s:%d)\n", own ? "" : e->group, own ? "" : ", ", e->file, e->line);
    if (e->lines <= LONG_TEXT)
        printf("\n%s", e->text);
}

static void print_escaped(const char *text)
{
    for (; *text; text++)
        printf("%s%c", strchr("<*_", *text) ? "\\" : "", *text);
}

static void print_markdown(const Entries *e)
{
    puts("# The library\n\n"
         "Made by `mgpuc doc --markdown` (call `docs/generate`) from the comments and texts in `dsl/stdlib/`; `mgpuc doc NAME`\n"
         "says the same and shows a layer's whole text. A layer of your own with the same name hides one of these in your\n"
         "files.");
    const char *group = "";
    for (int k = 0; k < e->count; k++) {
        const Entry *one = &e->list[k];
        if (strcmp(group, one->group) != 0)
            printf("\n## %s\n\nIn [%s](../%s).\n", one->group, one->file, one->file);
        group = one->group;
        printf("\n### %s\n\n`%s`\n", one->name, one->signature);
        if (one->about[0]) {
            putchar('\n');
            print_escaped(one->about);
            putchar('\n');
        }
        if (one->lines <= EQUATION)
            printf("\n```\n%s```\n", one->text);
    }
}

static bool is_file_name(const char *word)
{
    size_t n = strlen(word);
    return strchr(word, '/') || (n > 4 && strcmp(word + n - 4, ".net") == 0);
}

static bool has_word(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = text; (at = strcasestr(at, word)); at += n)
        if ((at == text || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[n]))
            return true;
    return false;
}

/* Returns "; it is spoken of in standardize, mse": names whose texts have the word; "": none. */
static const char *spoken_of(const char *word, const Entries *e)
{
    enum { SHORTEST = 4, MOST = 8 };
    Text t = {0};
    int count = 0;
    for (int k = 0; k < e->count && strlen(word) >= SHORTEST; k++)
        if (has_word(e->list[k].about, word) && count++ < MOST)
            text_add(&t, "%s%s", count > 1 ? ", " : "; it is spoken of in ", e->list[k].name);
    if (count > MOST)
        text_add(&t, " and %d more", count - MOST);
    return text_of(&t);
}

/* Prints the entries with this name, of which there may be several; returns false if there are none. */
static bool print_entries(const Entries *all, const char *name)
{
    bool found = false;
    for (int k = 0; k < all->count; k++) {
        if (strcmp(all->list[k].name, name) != 0)
            continue;
        if (found)
            putchar('\n');
        print_entry(&all->list[k]);
        found = true;
    }
    return found;
}

/* Returns " conv maxpool": the entries whose signature has the parameter. */
static const char *with_parameter(const char *parameter, const Entries *all)
{
    Text t = {0};
    text_add(&t, "   ");
    for (int k = 0; k < all->count; k++) {
        const char *list = strchr(all->list[k].signature, '(');
        if (list && has_word(list, parameter))
            text_add(&t, " %s", all->list[k].name);
    }
    return text_of(&t);
}

/* For a name of another system, prints our entry, without entries of the same name that mean something else. */
static bool print_elsewhere(const Entries *all, const char *word)
{
    const char *topic = topic_called(word), *function = function_called(word), *setting = setting_called(word);
    const char *here = function ? function : setting ? setting : type_called(word), *parameter = any_parameter_called(word);
    here = here ? here : value_called(word);
    if (topic)
        printf("%s: %s.\n", word, topic);
    else if (!here && parameter)
        printf("%s is called %s, a parameter of these:\n%s\n", word, parameter, with_parameter(parameter, all));
    if (topic || !here)
        return topic || parameter;
    printf("%s is called %s.\n\n", word, here);
    Entries some = {0};
    for (int k = 0; k < all->count; k++)
        if (!function == (strcmp(all->list[k].group, "Settings of train") == 0) || !setting)
            APPEND(some.list, some.count, all->list[k]);
    print_entries(&some, here);
    return true;
}

static _Noreturn void unknown(const char *name, const Entries *all)
{
    const char **names = NEW_ARRAY(const char *, all->count);
    for (int k = 0; k < all->count; k++)
        names[k] = all->list[k].name;
    fail(2, "nothing is called '%s'%s%s; mgpuc doc lists all names", name, did_you_mean(name, names, all->count),
         spoken_of(name, all));
}

int command_doc(int argc, char **argv)
{
    bool markdown = false;
    const OwnOption options[] = {{"--markdown", .flag = &markdown}, {.name = NULL}};
    const char **words = own_words("doc", argc, argv, HELP, options, 2), *last = words[0] ? words[1] : NULL;
    bool only_file = words[0] && !last && words[0][1] && is_file_name(words[0]);
    const char *name = only_file ? NULL : words[0], *file = only_file ? words[0] : last;
    Entries all = {0};
    if (file)
        file_entries(file, &all);
    if (!only_file)
        library_entries(&all);
    if (markdown) {
        print_markdown(&all);
        return 0;
    }
    if (!only_file)
        builtin_entries(&all);
    if (!name) {
        print_list(&all);
        return 0;
    }
    if (!print_entries(&all, name) && !print_elsewhere(&all, name))
        unknown(name, &all);
    return 0;
}
