/* plot.c: `mgpuc plot RUN.jsonl ... [-o CURVES.svg]`: plots the curves of runs, as SVG or in the terminal, with a table. */
#include "compiler/driver/command.h"
#include "runtime/base/terminal.h"
#include "runtime/base/whole_file.h"
#include "runtime/report/runs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char HELP[] =
    "mgpuc plot RUN.jsonl ... [-o CURVES.svg] [--over steps|epochs|time]\n"
    "\n"
    "Curves of runs that ./train --log wrote, over each other: loss, metrics, rate, samples a second, waits; then a table of the settings\n"
    "that differ, and of best values. Without -o the curves are drawn in the terminal. A dashed line is of validation.\n"
    "A metric of at most 16 elements is one plot, of validation where there is one; matrices are left out: ./train eval prints them.\n"
    "  -o, --output FILE    an SVG file, which browsers show, light and dark\n"
    "  --over WHAT          steps (default), epochs or time";

static Over over_of(const char *text)
{
    for (int i = 0; i < OVERS; i++)
        if (strcmp(text, mgpu_over_name[i]) == 0)
            return (Over)i;
    fail(2, "--over %s: steps, epochs or time is expected", text);
}

static int plot_width(void)
{
    const int USUAL = 80, LEAST = 40;
    int columns = mgpu_terminal_columns(stdout);
    return !columns ? USUAL : columns < LEAST ? LEAST : columns;
}

static void write_svg(const Curves *c, const char *path, Sheet *s)
{
    WholeFile file;
    int error = mgpu_open_whole(&file, path);
    s->f = file.f;
    if (!error) {
        mgpu_curves_svg(c, s);
        error = mgpu_close_whole(&file);
    }
    if (error)
        fail(3, "%s cannot be written: %s", path, strerror(error));
}

int command_plot(int argc, char **argv)
{
    enum { ROWS = 10 };
    const char *output = NULL, *over = NULL;
    const OwnOption options[] = {
        {"--output", .value = &output}, {"-o", .value = &output}, {"--over", .value = &over}, {.name = NULL}};
    const char **files = own_words("plot", argc, argv, HELP, options, argc);
    Over axis = over ? over_of(over) : (Over)0;
    if (!files[0])
        fail(2, "mgpuc plot: no log was given: mgpuc plot RUN.jsonl; ./train --log RUN.jsonl writes one");
    RunLog **runs = NULL;
    Sheet sheet = {0};
    int count = 0;
    for (int i = 0; files[i]; i++) {
        if (output)
            check_apart(output, files[i]);
        RunLog *run = mgpu_run_read(files[i], &sheet);
        APPEND(runs, count, run);
    }
    Curves c = mgpu_curves_of(runs, count, axis, &sheet);
    if (output)
        write_svg(&c, output, &sheet);
    char *text;
    size_t length;
    sheet.f = mgpu_begin_text(&text, &length);
    for (int i = 0; !output && i < c.count; i++) {
        mgpu_plot_text(&c.plots[i], plot_width(), ROWS, &sheet);
        fputc('\n', sheet.f);
    }
    Table table = mgpu_runs_table(runs, count, &sheet);
    mgpu_table_print(&table, &sheet);
    mgpu_end_text(sheet.f);
    fputs(plain_text(text, true), stdout);
    free(text);
    mgpu_sheet_end(&sheet);
    return 0;
}
