/* arguments.c: the command line of commands that have their own: fmt, doc, lsp, diff, devices, machines, probe, plot,
 * selftest. */
#include "compiler/driver/command.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void print_own_help(const char *help)
{
    fputs(help, stdout);
    if (help[strlen(help) - 1] != '\n')
        putchar('\n');
    end_output();
    exit(0);
}

static const OwnOption *find_divided(const char *command, const OwnOption *options, const char *word, size_t length)
{
    const char **names = NULL;
    int count = 0;
    for (const OwnOption *o = options; o && o->name; o++) {
        if (strlen(o->name) == length && memcmp(o->name, word, length) == 0)
            return o;
        APPEND(names, count, o->name);
    }
    APPEND(names, count, "--help");
    fail(2, "mgpuc %s has no option %s%s; see mgpuc %s --help", command, word, did_you_mean(word, names, count), command);
}

const char **own_words(const char *command, int argc, char **argv, const char *help, const OwnOption *options, int most)
{
    const char **words = NULL;
    int count = 0;
    bool ended = false;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        bool option = !ended && word[0] == '-' && (word[1] == '-' || isalpha((unsigned char)word[1]));
        if (option && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0))
            print_own_help(help);
        if (option && strcmp(word, "--") == 0) {
            ended = true;
        } else if (option) {
            size_t length = word[1] == '-' ? strcspn(word, "=") : strlen(word);
            const OwnOption *o = find_divided(command, options, word, length);
            if (o->flag && word[length])
                fail(2, "mgpuc %s: %s takes no value", command, o->name);
            if (!o->flag && !word[length] && i + 1 == argc)
                fail(2, "mgpuc %s: %s needs a value", command, o->name);
            if (o->flag)
                *o->flag = true;
            else
                *o->value = word[length] ? word + length + 1 : argv[++i];
        } else if (count == most) {
            fail(2, "mgpuc %s: what is '%s'? See mgpuc %s --help", command, word, command);
        } else {
            APPEND(words, count, word);
        }
    }
    APPEND(words, count, NULL);
    return words;
}
