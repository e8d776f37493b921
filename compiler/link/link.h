/* link.h: the stage `link`, for the driver. */
#ifndef MGPU_LINK_H
#define MGPU_LINK_H

#include "compiler/ir/program.h"

typedef struct Linked {
    int pieces, compiled, at_a_time;                  /* the others came from the cache */
    int images, images_compiled;                      /* of GPUs, likewise */
    double emit_ms, compile_ms, link_ms;
    const char *cache;                                /* its folder; NULL: off */
    const char *trouble;                              /* with the cache; NULL: none */
    const char *refused;                              /* flags that the compiler does not take; NULL: none */
    const char *const *mistakes;                      /* of this version of the compiler, known ones */
    int mistake_count;
} Linked;
/* emits C and schedule, compiles, links; with options->keep leaves OUT.c, OUT.kernels.c and OUT.sched beside the output */
Linked write_program(Program *);
void emit_images(const Program *, Text *);            /* --emit images: what the kernels for GPUs need, compiled */
double now_ms(void); /* of a clock that only runs forward */
#endif
