/* progress.h: progress messages. A stage that takes longer than two seconds (MGPUC_PATIENCE: other seconds; 0: no messages) is
 * named once on stderr, with the stages around it, while it runs. */
#ifndef MGPU_BASE_PROGRESS_H
#define MGPU_BASE_PROGRESS_H

#include "compiler/base/base.h"

typedef struct Stage {
    char name[96];       /* "8 devices with a batch of 64" */
    const char *detail;  /* printed for the innermost stage; NULL: the name is enough */
    struct Stage *outer; /* set by progress.c */
    double begin_s;
    bool printed;
} Stage;

void stage_begin(Stage *, const char *detail, const char *name, ...) PRINTF(3, 4);
void stage_end(Stage *); /* the one that was begun last */
#endif
