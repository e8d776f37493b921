/* link.h: the stage `link`, for the driver. */
#ifndef MGPU_LINK_H
#define MGPU_LINK_H

#include "compiler/ir/program.h"

/* A program on its way from C to an executable, by the last passes of the driver's table, in this order. Each says, for -v, what it
 * did. */
typedef struct Build Build;
/* A test of the C compiler, which is made once for each compiler, with its flags, on each processor: ends mgpuc if it fails.
 * -> false: the compiler could not be tested */
struct Compiler;
typedef bool CompilerTest(const struct Compiler *, const char *folder);
Build *build_begin(Program *, CompilerTest *);
const char *build_texts(Build *);     /* C in translation units; with options->keep leaves OUT.c, OUT.kernels.c and OUT.sched beside the output */
const char *build_images(Build *);    /* of kernels for GPUs, by NVRTC */
const char *build_objects(Build *);   /* by the C compiler, or from the cache */
const char *build_link(Build *);      /* the output */
void check_library_name(const char *output); /* of --shared; exit 2 if it is none */
void build_print_images(const Build *, Text *); /* --emit images: what the kernels for GPUs need, compiled */
double now_ms(void); /* of a clock that only runs forward */
#endif
