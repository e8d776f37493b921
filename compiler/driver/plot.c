/* plot.c: `mgpuc plot RUN.jsonl ... [-o CURVES.svg]`: the curves of runs, as SVG or in the terminal, and a table. */
#include "compiler/driver/command.h"
#include "compiler/report/runs.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const char HELP[] =
    "mgpuc plot RUN.jsonl ... [-o CURVES.svg] [--over steps|epochs|time]\n"
    "\n"
    "Curves of runs that ./train --log wrote, over each other: loss, metrics, rate, samples a second, waits; then a table of the settings\n"
    "that differ, and of best values. Without -o the curves are drawn in the terminal. A dashed line is of validation.\n"
    "  -o, --output FILE    an SVG file, which browsers show, light and dark\n"
    "  --over WHAT          steps (default), epochs or time";

typedef struct Arguments { const char **files; int file_count; const char *output; Over over; } Arguments;

static Over over_of(const char *text)
{
    for (int i = 0; i < OVERS; i++)
        if (strcmp(text, OVER_NAME[i]) == 0)
            return (Over)i;
    fail(2, "--over %s: steps, epochs or time is expected", text);
}

static Arguments arguments_of(int argc, char **argv)
{
    Arguments a = {0};
    for (int i = 0; i < argc; i++) {
        bool output = strcmp(argv[i], "-o") == 0 || strcmp(argv[i], "--output") == 0, over = strcmp(argv[i], "--over") == 0;
        if ((output || over) && i + 1 == argc)
            fail(2, "mgpuc plot: %s needs a value", argv[i]);
        if (output)
            a.output = argv[++i];
        else if (over)
            a.over = over_of(argv[++i]);
        else if (argv[i][0] == '-' && argv[i][1])
            fail(2, "mgpuc plot: unknown option %s; mgpuc plot --help shows all", argv[i]);
        else
            APPEND(a.files, a.file_count, argv[i]);
    }
    if (!a.file_count)
        fail(2, "mgpuc plot: no log was given: mgpuc plot RUN.jsonl; ./train --log RUN.jsonl writes one");
    return a;
}

static int terminal_width(void)
{
    struct winsize size;
    const int USUAL = 80, LEAST = 40;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 1)
        return USUAL;
    return size.ws_col < LEAST ? LEAST : size.ws_col;
}

static void write_svg(const Curves *c, const char *path)
{
    Text t = {0};
    curves_svg(c, &t);
    FILE *f = fopen(path, "we");
    if (!f || fwrite(text_of(&t), 1, t.length, f) != t.length || fclose(f))
        fail(3, "%s cannot be written: %s", path, strerror(errno));
}

int command_plot(int argc, char **argv)
{
    enum { ROWS = 10 };
    if (argc > 0 && (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0)) {
        puts(HELP);
        return 0;
    }
    Arguments a = arguments_of(argc, argv);
    RunLog **runs = NULL;
    int count = 0;
    for (int i = 0; i < a.file_count; i++) {
        if (a.output)
            check_apart(a.output, a.files[i]);
        RunLog *run = run_read(a.files[i]);
        APPEND(runs, count, run);
    }
    Curves c = curves_of(runs, count, a.over);
    Text t = {0};
    if (a.output)
        write_svg(&c, a.output);
    for (int i = 0; !a.output && i < c.count; i++) {
        plot_text(&c.plots[i], terminal_width(), ROWS, &t);
        text_add(&t, "\n");
    }
    Table table = runs_table(runs, count);
    table_print(&table, &t);
    fputs(plain_text(text_of(&t), true), stdout);
    return 0;
}
