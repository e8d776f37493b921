/* lints.c: the names of warnings, and which of them are silenced. */
#include "compiler/base/lints.h"

#include <string.h>

#define LINT_TEXT(name, text) text,
static const char *const NAMES[] = {LINTS(LINT_TEXT)};

const char *lint_name(Lint lint) { return NAMES[lint]; }

void lint_silence(LintSet *silenced, const char *name)
{
    for (int i = 0; i < LINT_COUNT; i++)
        if (strcmp(NAMES[i], name) == 0) {
            *silenced |= 1u << i;
            return;
        }
    fail(2, "-Wno-%s: no warning is called '%s'%s; see mgpuc --help", name, name, did_you_mean(name, NAMES, LINT_COUNT));
}

void lint_at(LintSet silenced, Lint lint, const Place *at, const char *pattern, ...)
{
    if (silenced >> lint & 1)
        return;
    va_list arguments;
    va_start(arguments, pattern);
    warning_named(NAMES[lint], at, vformat(pattern, arguments));
    va_end(arguments);
}
