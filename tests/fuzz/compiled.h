/* compiled.h: a model as a compiled program, in a folder of its own. What is returned is why it fails, or NULL. */
#ifndef MGPU_FUZZ_COMPILED_H
#define MGPU_FUZZ_COMPILED_H

#include "tests/fuzz/training.h"

extern const char *model_file;                                                /* its name in the folder */
const char *write_model(const char *folder, const char *text, const Model *); /* with the samples that the interpreter has */
const char *run_command(const char *folder, const char *command);             /* of the shell; what it says is in `said` */
const char *training_options(void);                                           /* of a program: the interpreter's run */
/* a run that leaves `log` and `save`, then a prediction, if the model has outputs that are no numbers of a run; NULL: none */
const char *run_program(const char *folder, const char *text, const char *train, const char *predict, Trace *found);
#endif
