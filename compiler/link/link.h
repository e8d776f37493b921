/* link.h: the stage `link`, as the driver uses it. */
#ifndef MGPU_LINK_H
#define MGPU_LINK_H

#include "compiler/ir/program.h"

/* A program between C and executable. The last passes of the driver's table call these functions in this order. Each returns what
 * -v prints about it. */
typedef struct Build Build;
/* Tests the C compiler, once for each compiler with its flags and processor; ends mgpuc if the test fails. Returns false if the
 * compiler could not be tested. */
struct Compiler;
typedef bool CompilerTest(const struct Compiler *, const char *folder);
Build *build_begin(Program *, CompilerTest *);
const char *build_texts(Build *);               /* makes the translation units; with options->keep, also writes their sources */
const char *build_images(Build *);              /* compiles kernels for GPUs */
const char *build_objects(Build *);             /* runs the C compiler, or takes objects from the cache */
const char *build_link(Build *);                /* writes the output */
void check_library_name(const char *output);    /* exit 2 if it is no name for a library of --shared */
void build_print_images(const Build *, Text *); /* prints what the compiled GPU kernels use (--emit images) */
double now_ms(void);                            /* of a monotonic clock */
#endif
