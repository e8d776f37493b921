/* target.h: what kernels are printed for. Fusion, plan and link ask a target; none asks which one it is. The instances are
 * target/host/target.c and target/cuda/target.c, the table of them target/targets.c. */
#ifndef MGPU_KERNEL_TARGET_H
#define MGPU_KERNEL_TARGET_H

#include "compiler/kernel/epilogue.h"
#include "compiler/kernel/kernel.h"
#include "runtime/abi/mgpu.h"

/* what the time of a convolution depends on: its matmul; channels that are next to each other in x; elements of x and y; those that are
 * moved because of this form, and kernels */
typedef struct ConvolutionSizes {
    Dtype type;
    bool tf32;
    int64_t channels;
    double rows, columns, depth, elements, moved;
    int kernels;
} ConvolutionSizes;

/* what a translation unit needs for its kernels */
typedef struct UnitNeeds {
    unsigned headers; /* of the target: a bit each */
    int slow;         /* functions that take long to compile */
    bool warpgroups;  /* code for compute capability 9.0 alone */
} UnitNeeds;

struct Target {
    const char *name;           /* of --devices */
    const char *suffix;         /* of the file of all kernels */
    uint8_t transfers;          /* MGPU_WAY_...: how devices meet; AUTO: there are several ways */
    bool images;                /* kernels are images for the architectures of --arch; false: they are linked with the program */
    bool own_memory;            /* a device has memory of its own, with one workspace; false: the machine's, one for each worker */
    bool regions;                /* calls that follow each other may take the samples region by region */
    int workspace_alignment;    /* bytes */
    int64_t row_elements;       /* long rows of matrices that matmuls read and make are padded to so many; 0: they are not */
    double (*convolution_cost)(const ConvolutionSizes *); /* cycles, 0: none is better than others; NULL likewise */
    bool reads_reversed;        /* contractions read weights in place from the last tap to the first; false: of a copy */

    /* ---- nests and fusion */
    double flops_of_byte;       /* operations that take as long as it takes to move a byte */
    int64_t (*lane)(int64_t extent); /* of the innermost axis, where a nest transposes a matrix */
    int64_t across_columns;     /* rows of so many elements at most are also summed across by the kernel that goes through them; 0: none are */
    bool random_in_arrays;       /* random numbers that follow each other are computed together; false: each on its own */
    bool stores_runs;           /* what short runs of neighbours share is stored for each of them, for vectors; false: each computes its index */
    int64_t least_group;        /* sums over groups of fewer neighbours go over columns first, then over the group; at least 1 */
    bool scalars_by_thread;     /* what is the same for the whole kernel is computed by each thread, not once */
    /* sets how threads share a kernel whose nests and arguments are complete; alone: it is called by a scan */
    void (*map_threads)(Kernel *, const Model *, bool alone);
    /* Kernels of little work become one. NULL: those that one thread does in turn; else which may run side by side, */
    bool (*may_pack)(const Kernel *);
    void (*packed)(Kernel *);   /* and what is settled when all of them are there */
    bool (*may_join)(const Kernel *); /* a launch may do several calls of updates, of this kernel and of others of its function, of */
    int (*together)(const Kernel *);  /* so many at most, once all kernels are there; 0: one. NULL: each call is for itself */
    /* samples that a scan takes at a time, so many at most; NULL: as many as stay near. By samples: workspaces in it are, too */
    int64_t (*chunk)(int64_t samples);
    /* bytes, and those of each sample, which are 0 before; alone: as above */
    int64_t (*workspace)(const Kernel *, const char *archs, bool alone, int64_t *per_sample);
    int64_t (*workspace_for)(const Kernel *, int64_t samples, const char *archs); /* of a contraction; NULL: no other than above */
    /* a contraction and what its kernel's epilogue makes of it, in one call. result: it stores something in place of the result; NULL:
     * none. The workspace of such a call, and what each sample adds to it */
    bool (*may_epilogue)(const Task *contraction, const Task *, const Epilogue *, bool result);
    int64_t (*epilogue_workspace)(const Task *contraction, const Task *, const Epilogue *, const char *archs, int64_t *per_sample);
    void (*end_kernels)(Program *);                /* all kernels of all phases are there; NULL: nothing is left to do */

    /* ---- code */
    void (*lower_scan)(Kernel *);                    /* gives it and its kernels their code */
    const struct Code *(*lower)(const Kernel *,
                                bool finish); /* of nests: their function, or their second one; NULL: prints them as they are */
    bool (*finishes)(const Kernel *);                /* it has one */
    /* Kernels that differ only in what launches hand over are one: a name of what they have in common; NULL: of this one nothing */
    const char *(*form)(const Kernel *);
    /* Kernels that differ only in the paths of random numbers have a common body, with a last parameter, path; false: one launch
     * or another hands the paths over, and they are one */
    bool bodies;
    void (*print)(const Kernel *, Text *);           /* all that belongs to a kernel, in the file of all kernels and in translation units */
    void (*print_all)(const Program *, Text *);      /* the file of all kernels */

    /* ---- link. `function`: the name in place of the kernel's own */
    const char *(*words)(const Kernel *);            /* parts of its functions' names; NULL: those of its title */
    const char *(*runtime_kernels)(const Program *); /* a translation unit of kernels that are no kernels of the model; NULL: none */
    void (*needs)(const Kernel *, UnitNeeds *);      /* adds those of a kernel; NULL: it has none */
    double (*begin_unit)(const UnitNeeds *, size_t bytes,
                         Text *); /* what is before these kernels; seconds to compile them, a guess */
    void (*export)(const Kernel *, const char *name, const char *function, Text *); /* NULL: functions are found by their names */
    void (*declare)(const Kernel *, const char *function, Text *);
    void (*print_row)(const Kernel *, const char *function, Text *);  /* of the table of kernels */
    void (*print_table)(const Text *rows, Text *);
    void (*launches)(const Kernel *, mgpu_launch[2]); /* of its one or two functions; NULL: they are called */
};
#endif
