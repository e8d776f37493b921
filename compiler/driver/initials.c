/* initials.c: files of initial values that `mgpuc check` does not find. The program that is made reads them when a run begins, and
 * fails then if they are not there, so this is a warning: they may be made by then, or be elsewhere. */
#include "compiler/driver/command.h"

#include <unistd.h>

void warn_of_initials(const Model *m, LintSet silenced)
{
    for (int i = 0; i < m->initial_count; i++) {
        const Initial *initial = &m->initials[i];
        if (initial->path && access(initial->path, F_OK) != 0)
            lint_at(silenced, LINT_MISSING_FILE, initial->at, "there is no file %s; the program reads it when a run begins%s", initial->path,
                       initial->path[0] == '/' ? "" : ", from the current folder or that of --data");
    }
}
