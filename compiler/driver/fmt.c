/* fmt.c: `mgpuc fmt`: rewrites files in the standard layout (dsl/format.c). All files are formatted before the first is written,
 * so that an error in one leaves all unchanged. A file is written under another name and renamed. */
#include "compiler/driver/command.h"
#include "dsl/dsl.h"
#include "runtime/base/whole_file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char HELP[] =
    "mgpuc fmt: the standard layout, for models\n"
    "\n"
    "  mgpuc fmt FILE.net ...     rewrite the files in place\n"
    "  mgpuc fmt --check FILE ... write nothing; list the files that would change, and end with 1 if there are any\n"
    "  mgpuc fmt -                from standard input to standard output\n"
    "\n"
    "Tokens and comments stay as they are, and so do line breaks and single empty lines; a file that does not parse is\n"
    "left alone. The layout: docs/language.md, section 16.\n"
    "Exit status: 0 done; 1 a file does not parse or cannot be read, or would change; 2 usage; 3 a file cannot be written.\n";

static bool is_same(const Source *s, const Text *t)
{
    return s->length == t->length && memcmp(s->text, text_of(t), t->length) == 0;
}

static void replace(const char *path, const Text *t)
{
    WholeFile file;
    int error = access(path, W_OK) == 0 ? mgpu_open_whole(&file, path) : errno;
    if (!error) {
        fwrite(text_of(t), 1, t->length, file.f);
        error = mgpu_close_whole(&file);
    }
    if (error)
        fail(3, "%s cannot be written: %s", path, strerror(error));
}

int command_fmt(int argc, char **argv)
{
    bool check = false;
    int count = 0;
    const char **files =
        own_words("fmt", argc, argv, HELP, (const OwnOption[]){{"--check", .flag = &check}, {.name = NULL}}, argc);
    while (files[count])
        count++;
    if (count == 0)
        fail(2, "no file was given: mgpuc fmt FILE.net ..., or - for standard input");
    bool changes = false;
    Text *made = NEW_ARRAY(Text, count);
    bool *differs = NEW_ARRAY(bool, count);
    for (int i = 0; i < count; i++) {
        bool input = strcmp(files[i], "-") == 0;
        if (input && count > 1)
            fail(2, "- is given alone: standard input goes to standard output");
        const Source *s = read_source(files[i]);
        made[i] = format_source(s);
        differs[i] = !is_same(s, &made[i]);
        changes |= differs[i];
        if (input && !check) {
            fwrite(text_of(&made[i]), 1, made[i].length, stdout);
            return 0;
        }
    }
    for (int i = 0; i < count; i++) {
        if (differs[i] && check)
            puts(files[i]);
        else if (differs[i])
            replace(files[i], &made[i]);
    }
    return check && changes ? 1 : 0;
}
