/* progress.h: what is being done, for those who wait. A stage that takes longer than two seconds (MGPUC_PATIENCE: as many; 0: none is
 * said) is named once on stderr, with the stages around it, while it runs. */
#ifndef MGPU_BASE_PROGRESS_H
#define MGPU_BASE_PROGRESS_H

#include "compiler/base/base.h"

typedef struct Stage {
    char name[96];       /* "8 devices with a batch of 64" */
    const char *detail;  /* what it does, which is said of the innermost stage; NULL: the name says it */
    struct Stage *outer; /* of progress.c */
    double begin_s;
    bool said;
} Stage;

void stage_begin(Stage *, const char *detail, const char *name, ...) PRINTF(3, 4);
void stage_end(Stage *); /* the one that was begun last */
#endif
