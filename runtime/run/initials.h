/* initials.h: what a run would begin with, for `mgpuc check`, too. */
#ifndef MGPU_RUNTIME_RUN_INITIALS_H
#define MGPU_RUNTIME_RUN_INITIALS_H

#include "runtime/base/base.h"

/* Prints which tensors of the files of --init (FILE, PART=FILE), or of those that the program names, would be used for which
 * weights, and how. Of the program variables, initials and model_file are read. -> how many weights have none */
int mgpu_show_initials(const mgpu_program *, const char *const *inits, int count, const char *rules);
#endif
