/* target.h: the interface of a target, for which kernels are printed. Fusion, plan and link ask the target and never test which
 * one it is. The instances are target/host/target.c and target/cuda/target.c; target/targets.c has the table. */
#ifndef MGPU_KERNEL_TARGET_H
#define MGPU_KERNEL_TARGET_H

#include "compiler/kernel/epilogue.h"
#include "compiler/kernel/kernel.h"
#include "runtime/abi/mgpu.h"

/* What the time of a convolution depends on: the extents of its matmul, the channels that are contiguous in x, the elements of x
 * and y, and, of this layout, the elements that are copied and the kernels that copy them. */
typedef struct ConvolutionSizes {
    Dtype type;
    bool tf32;
    int64_t channels;
    double rows, columns, depth, elements, moved;
    int kernels;
} ConvolutionSizes;

/* what a translation unit needs for its kernels */
typedef struct UnitNeeds {
    unsigned headers; /* bit set; the target defines the bits */
    int slow;         /* functions that take long to compile */
    bool warpgroups;  /* contains code for compute capability 9.0 only */
} UnitNeeds;

struct Target {
    const char *name;   /* as in --devices */
    const char *suffix; /* of the name of the file of all kernels */
    uint8_t transfers;  /* MGPU_IMPLEMENTATION_...: how values go between devices; AUTO: there are several ways */
    bool images;     /* kernels are compiled to images for the architectures of --arch; false: they are linked with the program */
    bool own_memory; /* a device has its own memory and one workspace; false: the machine's memory, a workspace per worker */
    bool regions;    /* consecutive calls may become a barrier-free region */
    int workspace_alignment; /* bytes */
    int64_t row_elements;    /* long rows of a matmul's matrices are padded to a multiple of so many elements; 0: they are not */
    double (*convolution_cost)(const ConvolutionSizes *); /* returns cycles; 0, or NULL: no layout is faster than others */
    bool reads_reversed; /* contractions read weights in reverse order of taps in place; false: they read a reversed copy */

    /* ---- nests and fusion */
    double flops_of_byte;            /* operations that take as long as moving one byte */
    int64_t (*lane)(int64_t extent); /* returns the extent of the tile's innermost axis, where a nest transposes a matrix */
    /* a kernel that reduces rows of at most so many elements may also sum across rows; 0: none may */
    int64_t over_rows_columns;
    bool random_in_arrays; /* consecutive random numbers are computed together; false: each on its own */
    bool stores_runs;    /* a value that short runs of neighbours share is stored for each of them, so that vectors can load it */
    int64_t least_group; /* groups of fewer neighbours are summed over columns first, then over the group; at least 1 */
    bool scalars_by_thread; /* each thread computes the scalars of a kernel; false: they are computed once */
    /* Sets how threads share a kernel whose nests and arguments are complete. in_scan: a scan calls the kernel. */
    void (*map_threads)(Kernel *, const Model *, bool in_scan);
    /* Small kernels are packed into one. may_pack returns true if the kernel's nests may run side by side with others; NULL:
     * small kernels run one after the other in one thread. packed is called when all nests of a kernel are there. */
    bool (*may_pack)(const Kernel *);
    void (*packed)(Kernel *);
    /* May one launch execute several calls of updates, of this and of other kernels with the same function? `calls_per_launch`
     * returns how many at most, when all kernels are built; 0: one. NULL: each call has its own launch. */
    bool (*may_join)(const Kernel *);
    int (*calls_per_launch)(const Kernel *);
    /* Returns the samples of a scan's chunk; NULL: as many as fit into the cache. If set, a scan includes its
     * calls' workspaces per sample. */
    int64_t (*chunk)(int64_t samples);
    /* Returns the bytes of workspace, and sets those of each sample, which are 0 before. in_scan: as in map_threads. */
    int64_t (*workspace)(const Kernel *, const char *archs, bool in_scan, int64_t *per_sample);
    int64_t (*workspace_for)(const Kernel *, int64_t samples, const char *archs); /* of a contraction; NULL: as above */
    /* may_epilogue returns true if a contraction and a kernel that is its epilogue may be one call; result: the call writes the
     * contraction's result, or something in its place. NULL: there are none. epilogue_workspace returns the bytes of workspace of
     * such a call. */
    bool (*may_epilogue)(const Task *contraction, const Task *, const Epilogue *, bool result);
    int64_t (*epilogue_workspace)(const char *archs);
    void (*end_kernels)(Program *); /* called after all kernels of all phases are built; may be NULL */

    /* ---- code */
    void (*lower_scan)(Kernel *); /* lowers the scan and the kernels that it calls */
    /* Lowers nests to their function, or to their finishing function; NULL: `print` prints nests as they are. */
    const struct Code *(*lower)(const Kernel *, bool finish);
    bool (*finishes)(const Kernel *); /* Returns true if the kernel has a finishing function. */
    /* Returns a name of the form that kernels share if they differ only in launch parameters; NULL: it has no such form. */
    const char *(*shared_name)(const Kernel *);
    /* Kernels that differ only in paths of random numbers share a body, whose last parameter is the path. false: launches pass
     * the paths, and such kernels share all functions. */
    bool bodies;
    void (*print)(const Kernel *, Text *);      /* prints all that belongs to a kernel, for translation units, too */
    void (*print_all)(const Program *, Text *); /* Prints the file of all kernels. */

    /* ---- link. `function`: the name to use in place of the kernel's own */
    const char *(*words)(const Kernel *); /* Returns words for the names of its functions; NULL: use those of its title. */
    const char *(*runtime_kernels)(const Program *); /* a translation unit of kernels for the runtime; NULL: none */
    void (*needs)(const Kernel *, UnitNeeds *);      /* Adds the kernel's needs; NULL: kernels have none. */
    double (*begin_unit)(const UnitNeeds *, size_t bytes,
                         Text *); /* prints the beginning of a unit; returns estimated seconds of compilation */
    void (*export)(const Kernel *, const char *name, const char *function, Text *); /* NULL: functions are found by name */
    void (*declare)(const Kernel *, const char *function, Text *);
    void (*print_row)(const Kernel *, const char *function, Text *); /* Prints the kernel's row of the table of kernels. */
    void (*print_table)(const Text *rows, Text *);
    /* Sets the launches of its one or two functions; NULL: they are called. */
    void (*launches)(const Kernel *, mgpu_launch[2]);
    /* Describes the matmul that a library may compute in place of the kernel; false: none. NULL: the target has no library. */
    bool (*library_matmul)(const struct Contraction *, mgpu_library_matmul *);
};
#endif
