/* initials.h: shows the initial values of a run; also for `mgpuc check`. */
#ifndef MGPU_RUNTIME_RUN_INITIALS_H
#define MGPU_RUNTIME_RUN_INITIALS_H

#include "runtime/base/base.h"

/* Prints which tensors of the files of --init (FILE, PART=FILE), or of those that the program names, would be used for which
 * weights, and how. Reads only the program's variables, initials and model_file. Returns how many weights have no tensor. */
int mgpu_show_initials(const mgpu_program *, const char *const *inits, int count, const char *rules);
#endif
