/* initials.c: files of initial values that do not exist at `mgpuc check`. The program reads them when a run begins, and fails
 * then. This is only a warning, as they may be created by then, or be elsewhere. */
#include "compiler/driver/command.h"
#include "runtime/run/initials.h"

#include <unistd.h>

/* Builds the part of the program's tables that its runtime reads for this. */
int show_initials(const Model *m, const Options *o)
{
    mgpu_variable *variables = NEW_ARRAY(mgpu_variable, m->variable_count);
    mgpu_initial *initials = NEW_ARRAY(mgpu_initial, m->initial_count);
    for (int i = 0; i < m->variable_count; i++) {
        const Variable *v = &m->variables[i];
        mgpu_tensor t = {v->name, (uint8_t)(v->dtype == F32 && m->precision == F64 ? F64 : v->dtype), v->shape.rank, {0}};
        memcpy(t.extent, v->shape.extent, (size_t)t.rank * sizeof *t.extent);
        variables[i] = (mgpu_variable){.tensor = t,
                                       .kind = v->kind == WEIGHT  ? MGPU_WEIGHT
                                               : v->kind == STATE ? MGPU_STATE
                                                                  : MGPU_OPTIMIZER_STATE,
                                       .flattened = v->flattened};
    }
    for (int i = 0; i < m->initial_count; i++) {
        const Initial *x = &m->initials[i];
        initials[i] = (mgpu_initial){x->path,      x->pattern, x->array,          x->at ? x->at->line : 0,
                                     x->variables, x->names,   x->variable_count, x->rules};
    }
    mgpu_program program = {.name = m->name,
                            .model_file = o->file,
                            .variables = variables,
                            .variable_count = m->variable_count,
                            .initials = initials,
                            .initial_count = m->initial_count};
    return mgpu_show_initials(&program, o->inits, o->init_count, o->rules) ? 1 : 0;
}

void warn_of_initials(const Model *m, LintSet silenced)
{
    for (int i = 0; i < m->initial_count; i++) {
        const Initial *initial = &m->initials[i];
        if (initial->path && access(initial->path, F_OK) != 0)
            lint_at(silenced, LINT_MISSING_FILE, initial->at, "there is no file %s; the program reads it when a run begins%s",
                    initial->path, initial->path[0] == '/' ? "" : ", from the current folder or that of --data");
    }
}
