/* lsp.c: `mgpuc lsp`: starts the language server (compiler/lsp/) with the check of `mgpuc check`. */
#include "compiler/driver/command.h"
#include "compiler/lsp/lsp.h"

#include <stdlib.h>

static const char HELP[] =
    "mgpuc lsp: a language server for editors (Language Server Protocol 3.17), on standard input and output\n"
    "\n"
    "  mgpuc lsp        started by the editor: docs/editors.md\n"
    "\n"
    "Errors and warnings as one types, hover, definition, references, completion, rename, symbols, and the layout of mgpuc fmt.\n"
    "Exit status: 0 the editor has ended it; 1 the editor is gone; 2 usage.\n";

static void check(const char *path)
{
    Options o = parse_command(3, (char *[]){(char[]){"mgpuc"}, (char[]){"check"}, (char *)(uintptr_t)path, NULL});
    check_whole(&o);
}

int command_lsp(int argc, char **argv)
{
    bool stdio; /* added by editors */
    own_words("lsp", argc, argv, HELP, (const OwnOption[]){{"--stdio", .flag = &stdio}, {.name = NULL}}, 0);
    setenv("MGPUC_PATIENCE", "0", 1);
    unsetenv("MGPUC_MACHINE");
    return lsp_serve(check);
}
