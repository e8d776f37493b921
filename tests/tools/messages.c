/* messages.c: messages [--all]: the messages to users in dsl/, compiler/ and runtime/ that no test knows, one a line.
 *
 * A message is a string literal in a call that reports a mistake (REPORTS), or a sentence that is put together or returned
 * for one (FORMATS, `return`, hints that begin with "; "). A test knows it if the longest piece of it between its formats
 * stands in a golden file or a test, or, where all pieces are short, if a line of a golden file is what the format prints.
 * tests/messages/exceptions lists those that cannot be provoked, one a line: a part of the message, or a source, " | ", why. An
 * exception that no message needs is a mistake, too.
 *
 * Exit status 0: every message is known. With --all, all messages are listed, to be read. */
#include <ctype.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const SOURCES[] = {"dsl/*.c",          "dsl/*.h",           "dsl/*.y",
                                      "dsl/*.l",          "compiler/*/*.[ch]", "compiler/*/*/*.[ch]",
                                      "runtime/*/*.[ch]", "runtime/*/*/*.[ch]"};
static const char *const GOLDEN[] = {"tests/lang/*.err", "tests/messages/*.golden", "tests/passes/*.err"};
static const char *const TESTS[] = {"tests/*.test",     "tests/faults/*.sh", "tests/unit/*.[ch]", "tests/mutation/*.[ch]",
                                    "tests/vector/*.c", "tests/library/*.c", "tests/fuzz/*.c"};
/* these print code, dumps, documentation: what they put together is no message */
static const char *const PRINTERS[] = {"compiler/target/",
                                       "compiler/link/program.c",
                                       "compiler/driver/print.c",
                                       "compiler/driver/doc.c",
                                       "compiler/kernel/attention.c",
                                       "compiler/kernel/contraction.c",
                                       "compiler/kernel/rows.c",
                                       "dsl/document.c",
                                       "runtime/run/help.c",
                                       "runtime/base/cores.c",
                                       "runtime/run/reporter.c",
                                       "runtime/run/progress.c",
                                       "runtime/view/page.c",
                                       "runtime/view/diff.c",
                                       "runtime/report/arena.c",
                                       "runtime/report/layers.c",
                                       "runtime/report/roofline.c",
                                       "runtime/report/page.c",
                                       "runtime/report/plot.c"};

static const char *const REPORTS[] = {
    "error_at",
    "show_error_at",
    "last_error_at",
    "error_tree",
    "warning_at",
    "lint_at",
    "fail",
    "mgpu_fail",
    "mgpu_say",
    "mgpu_report_warning",
    "mgpu_report_remark",
    "usage",
    "say",
    "complain",
    "not_yet",
    "no_data_yet",
    "must_be",
    "bad",
    "wrong",
    "mgpu_wrong",
    "broken",
    "bad_row",
    "misfit",
    "fail_at",
};
static const char *const FORMATS[] = {"format", "mgpu_format", "snprintf"};

enum { LONG_PIECE = 10, MOST_PIECES = 64 };

typedef struct Text {
    char *data;
    size_t length;
} Text;

static void add(Text *t, const char *bytes, size_t length)
{
    t->data = realloc(t->data, t->length + length + 1);
    if (!t->data)
        exit(3);
    memcpy(t->data + t->length, bytes, length);
    t->length += length;
    t->data[t->length] = 0;
}

static bool is_one_of(const char *word, size_t length, const char *const *list, size_t count)
{
    for (size_t k = 0; k < count; k++)
        if (strlen(list[k]) == length && memcmp(list[k], word, length) == 0)
            return true;
    return false;
}
#define IS_ONE_OF(word, length, list) is_one_of(word, length, list, sizeof(list) / sizeof *(list))

static Text read_whole(const char *path)
{
    Text t = {0};
    char part[1 << 14];
    FILE *f = fopen(path, "rb");
    if (!f) {
        fprintf(stderr, "messages: %s cannot be read\n", path);
        exit(3);
    }
    for (size_t got; (got = fread(part, 1, sizeof part, f)) > 0;)
        add(&t, part, got);
    fclose(f);
    add(&t, "", 0);
    return t;
}

/* ---- what tests know */

static Text lines, pieces; /* of golden files; of all, with blanks and line ends as one blank and \" as " */

/* blanks and line ends become one blank, \" becomes " */
static void fold(const char *text, Text *to)
{
    for (const char *c = text; *c; c++) {
        if (isspace((unsigned char)*c)) {
            if (!to->length || to->data[to->length - 1] != ' ')
                add(to, " ", 1);
            continue;
        }
        if (*c == '\\' && c[1] == '"')
            c++;
        add(to, c, 1);
    }
}

static void add_known(const char *path, bool golden)
{
    Text t = read_whole(path);
    if (golden) {
        add(&lines, t.data, t.length);
        add(&lines, "\n", 1);
    }
    fold(t.data, &pieces);
    add(&pieces, "\n", 1);
    free(t.data);
}

static void for_each(const char *const *patterns, size_t count, void (*act)(const char *path, bool flag), bool flag)
{
    for (size_t k = 0; k < count; k++) {
        glob_t found;
        if (glob(patterns[k], 0, NULL, &found) == 0)
            for (size_t i = 0; i < found.gl_pathc; i++)
                act(found.gl_pathv[i], flag);
        globfree(&found);
    }
}
#define FOR_EACH(patterns, act, flag) for_each(patterns, sizeof(patterns) / sizeof *(patterns), act, flag)

/* the line that begins at `line` holds the pieces in their order */
static bool can_print(char *const *piece, int count, const char *line, size_t length)
{
    const char *at = line, *end = line + length;
    for (int k = 0; k < count; k++) {
        const char *found = memmem(at, (size_t)(end - at), piece[k], strlen(piece[k]));
        if (!found)
            return false;
        at = found + strlen(piece[k]);
    }
    return true;
}

/* the text between the formats of a printf */
static int split(const char *message, char **piece)
{
    int count = 0;
    Text t = {0};
    for (const char *c = message;; c++) {
        if (*c == '%' && c[1] == '%') {
            add(&t, ++c, 1);
            continue;
        }
        if (*c && *c != '%') {
            add(&t, c, 1);
            continue;
        }
        if (t.length && count < MOST_PIECES)
            piece[count++] = t.data;
        t = (Text){0};
        if (!*c)
            return count;
        c++;
        c += strspn(c, "-+0123456789.*lzh");
        if (!*c)
            return count;
    }
}

static bool is_known(const char *message)
{
    char *piece[MOST_PIECES];
    int count = split(message, piece);
    const char *longest = "";
    for (int k = 0; k < count; k++) {
        char *from = piece[k] + strspn(piece[k], " \n"), *end = from + strlen(from);
        while (end > from && (end[-1] == ' ' || end[-1] == '\n'))
            *--end = 0;
        piece[k] = from;
        if (strlen(from) > strlen(longest))
            longest = from;
    }
    if (strlen(longest) >= LONG_PIECE) {
        Text folded = {0};
        fold(longest, &folded);
        return strstr(pieces.data, folded.data) != NULL;
    }
    for (const char *line = lines.data; *line;) {
        size_t length = strcspn(line, "\n");
        if (can_print(piece, count, line, length))
            return true;
        line += length + (line[length] == '\n');
    }
    return false;
}

/* ---- exceptions */

static struct Exception {
    char *part;
    bool used;
} * exceptions;
static size_t exception_count;

static void read_exceptions(const char *path)
{
    Text t = read_whole(path);
    for (char *line = strtok(t.data, "\n"); line; line = strtok(NULL, "\n")) {
        char *bar = strstr(line, " | ");
        if (line[0] == '#')
            continue;
        if (!bar || !bar[3]) {
            fprintf(stderr, "messages: %s: no reason is given: %s\n", path, line);
            exit(1);
        }
        *bar = 0;
        exceptions = realloc(exceptions, (exception_count + 1) * sizeof *exceptions);
        exceptions[exception_count++] = (struct Exception){line, false};
    }
}

static bool is_exception(const char *path, const char *message)
{
    bool found = false;
    for (size_t k = 0; k < exception_count; k++)
        if (strstr(message, exceptions[k].part) || strcmp(path, exceptions[k].part) == 0)
            found = exceptions[k].used = true;
    return found;
}

/* ---- messages of a source */

static bool show_all;
static int unknown;

static int words_of(const char *text)
{
    int words = 0;
    for (const char *c = text; *c;) {
        size_t n = strspn(c, "abcdefghijklmnopqrstuvwxyz");
        words += n >= 2 && (c == text || c[-1] == ' ') && (!c[n] || strchr(" ,.;:?'", c[n]));
        c += n ? n : 1;
    }
    return words;
}

static void take(const char *path, int line, const char *message)
{
    if (show_all)
        printf("%s:%d: %s\n", path, line, message);
    else if (!is_known(message) && !is_exception(path, message)) {
        printf("%s:%d: no test knows \"%s\"\n", path, line, message);
        unknown++;
    }
}

typedef struct Call {
    const char *name;
    size_t length;
} Call;

static const char *skip_blanks(const char *c, int *line)
{
    for (;; c++) {
        if (*c == '\n')
            ++*line;
        if (c[0] == '/' && c[1] == '*') {
            for (c += 2; *c && !(c[0] == '*' && c[1] == '/'); c++)
                *line += *c == '\n';
            c++;
            continue;
        }
        if (!isspace((unsigned char)*c))
            return c;
    }
}

/* literals that stand side by side, with macros such as PRId64 between them, are one */
static const char *read_literal(const char *c, int *line, Text *t)
{
    for (;;) {
        for (c++; *c && *c != '"' && *c != '\n'; c++) {
            if (*c != '\\' || !c[1]) {
                add(t, c, 1);
                continue;
            }
            c++;
            add(t, *c == 'n' ? "\n" : *c == 't' ? "\t" : c, 1);
        }
        if (*c == '"')
            c++;
        int further = *line;
        const char *next = skip_blanks(c, &further);
        if (strncmp(next, "PRI", 3) == 0) {
            next += strcspn(next, " \n\t,)");
            next = skip_blanks(next, &further);
            add(t, "d", 1);
            if (*next != '"')
                return next;
        }
        if (*next != '"')
            return c;
        c = next;
        *line = further;
    }
}

static void read_source(const char *path, bool flag)
{
    (void)flag;
    bool prints = false;
    for (size_t k = 0; k < sizeof PRINTERS / sizeof *PRINTERS; k++)
        prints = prints || strncmp(path, PRINTERS[k], strlen(PRINTERS[k])) == 0;
    enum { MOST_CALLS = 64 };
    Call calls[MOST_CALLS];
    int depth = 0, line = 1;
    Text t = read_whole(path);
    const char *word = t.data;
    size_t length = 0; /* of the last word */
    bool returns = false;
    for (const char *c = t.data; *c;) {
        c = skip_blanks(c, &line);
        if (isalpha((unsigned char)*c) || *c == '_') {
            word = c;
            length = strspn(c, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
            returns = returns || (length == 6 && memcmp(word, "return", 6) == 0);
            c += length;
            continue;
        }
        if (*c == '\'') {
            c += c[1] == '\\' ? 3 : 2;
        } else if (*c == '"') {
            Text literal = {0};
            int begin = line;
            add(&literal, "", 0);
            c = read_literal(c, &line, &literal);
            bool reported = false, made = returns;
            for (int k = 0; k < depth; k++) {
                reported |= IS_ONE_OF(calls[k].name, calls[k].length, REPORTS);
                made |= IS_ONE_OF(calls[k].name, calls[k].length, FORMATS);
            }
            bool hint = strncmp(literal.data, "; ", 2) == 0;
            if ((reported && words_of(literal.data) > 0) || (!prints && hint && words_of(literal.data) > 0) ||
                (!prints && made && words_of(literal.data) >= 3))
                take(path, begin, literal.data);
            free(literal.data);
            length = 0;
            continue;
        } else if (*c == '(') {
            if (depth < MOST_CALLS)
                calls[depth] = (Call){word, length};
            depth++;
        } else if (*c == ')') {
            depth -= depth > 0;
        } else if (strchr(";{}", *c)) {
            depth = 0;
            returns = false;
        }
        length = 0;
        c += *c != 0;
    }
    free(t.data);
}

int main(int argc, char **argv)
{
    show_all = argc > 1 && strcmp(argv[1], "--all") == 0;
    add(&lines, "", 0);
    add(&pieces, "", 0);
    FOR_EACH(GOLDEN, add_known, true);
    FOR_EACH(TESTS, add_known, false);
    read_exceptions("tests/messages/exceptions");
    FOR_EACH(SOURCES, read_source, false);
    for (size_t k = 0; k < exception_count && !show_all; k++)
        if (!exceptions[k].used) {
            printf("tests/messages/exceptions: no message needs \"%s\"\n", exceptions[k].part);
            unknown++;
        }
    return unknown != 0;
}
