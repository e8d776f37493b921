/* translation_units.h: what the files of the stage `link`, from C sources to a program, share.
 *
 *   translation_units.c     makes translation units of a Program: sources that are compiled separately and in parallel
 *   tools.c     finds the C compiler and its flags, and runs it
 *   compiler_features.c       finds out what the compiler accepts
 *   mpi.c       for programs of several processes: mpicc, and the calls of its MPI
 *   shared.c    for --shared: the functions, the header, pkg-config
 *   images.c    compiles CUDA C to images for every architecture, and writes the unit that holds them
 *   nvrtc.c     runs NVRTC, in a process of its own
 *   cubin.c     reads what an image uses: registers, shared and local memory
 *   cache.c     keeps objects under a hash of what they were compiled from
 *   temporary.c removes temporary files when mgpuc ends, in whatever way
 *   link.c      the passes of the stage */
#ifndef MGPU_UNITS_H
#define MGPU_UNITS_H

#include "compiler/ir/program.h"
#include "runtime/base/records.h"
#include "compiler/link/cubin.h"
#include "compiler/link/link.h"
#include "compiler/plan/plan.h"
#include "runtime/base/sha256.h"

#include <signal.h>

/* ---- program.c: the program's tables; `emit_program` writes all of them as one source */
void emit_tables_head(const Program *, Text *);
void emit_plan(const Program *, const Plan *, Text *);
void emit_main(const Program *, Text *); /* needs mgpu_kernels (and mgpu_images), and the names that emit_plan exports */
void emit_program(const Program *, Text *);
/* rows.c: writes structures as C, by their tables of fields */
const char *c_tensor(const char *name, Dtype, const Shape *);
const char *c_ints(const int *, int count); /* "{1, 2}" */
/* ".batch = 10", then `between`, for each */
void c_members(const mgpu_record *, const void *base, const char *between, Text *);
/* Writes the table of a list in `above` if it is not empty, and adds to members how the program refers to it. */
void c_table(const mgpu_record *, const void *above, Text *, Text *members);
/* Returns the type that the output is fetched as. */
static inline Dtype output_dtype(const Model *m, const Result *r)
{
    return r->value->dtype == F32 && m->precision == F64 ? F64 : r->value->dtype;
}

/* ---- shared.c: for --shared */
const char *path_of_shared(const char *output, const char *suffix); /* "lib/digits.h" of "lib/libdigits.so" */
void emit_functions(const Program *, Text *);                       /* exit 2 if the output's name is not one of a library */
const char *shared_header(const Program *);
const char *shared_package(const Program *); /* for pkg-config */

/* ---- translation_units.c */
typedef struct TranslationUnit {
    Text text;
    bool kernels;    /* is compiled with the kernels' flags */
    double cost;     /* an estimate of the compiler's time in seconds */
    bool uncached;   /* not to be cached */
    bool warpgroups; /* CUDA C with code for compute capability 9.0 only: its image is for sm_90a */
} TranslationUnit;
/* for GPUs: all but the kernels */
void make_units(const Program *, TranslationUnit **, int *count);
void make_gpu_units(const Program *, bool large, TranslationUnit **, int *count); /* the kernels; large: as few, large units */
/* Lists the functions of all kernels by their names in images, each once. */
/* shared_bytes: dynamic shared memory */
typedef struct GpuFunction {
    const char *name;
    const Place *at;
    int threads, shared_bytes;
} GpuFunction;
GpuFunction *gpu_functions(const Program *, int *count);

/* ---- tools.c */
typedef struct Arguments {
    const char **list;
    int count;
} Arguments;
void add_argument(Arguments *, const char *);
void add_arguments(Arguments *, const Arguments *);
Arguments words_of(const char *text, const char *otherwise); /* the words of CC and the like, or `otherwise` if it has none */
typedef struct Compiler {
    Arguments words;  /* of CC, which may hold options: "ccache gcc -fsanitize=address -I more" */
    Arguments linker; /* links: the same words, or those that ask_linker has found */
    int programs;     /* how many of the words precede the options */
    Arguments kernel_flags, table_flags;
    Arguments tuning_flags; /* ask_flags adds those that are accepted to kernel_flags, */
    const char *refused;    /* and lists the others here; NULL: there are none */
    Arguments mistakes;     /* from known_mistakes */
    const char *include;    /* the flag that names the headers' folder */
    Digest identity;        /* a hash of all that objects depend on besides sources and flags */
} Compiler;
/* `home` is the folder of the runtime library and of its headers. Exit 3 if there is no C compiler. */
Compiler find_compiler(const char *cc, bool cxx, const char *home);
/* Returns, for the version in what the compiler says of itself, one sentence for each known mistake and how emitted C avoids
 * it. */
Arguments known_mistakes(const char *said);
/* Runs the tools in order, at_a_time of them in parallel. If one fails, stops the others and returns its number; else returns -1.
 * The output of each is printed when it ends, and none after a failure. */
int run_tools(const Arguments *, int count, int at_a_time);
int cores_available(void);
/* Runs one tool and adds its output to `said`. Returns its status, 128 + N if signal N ended it, or -1 and errno if it cannot be
 * started. */
int run_tool(const Arguments *, Text *said);
/* Compiles one source to one object. The command has, in this order, programs, flags, options of CC, and files. */
Arguments compile_command(const Compiler *, const Arguments *flags, const char *text, const char *object);

/* Adds the contents of the runtime's headers. */
void add_headers(Sha256 *, const char *home);

/* ---- temporary.c: at exit or on a signal, stops running tools and removes temporary files */
enum { MOST_TOOLS = 256 };            /* at a time */
void temporary_add(const char *path); /* a file, or a folder that holds files added later */
void temporary_retain(const char *path);
const char *fresh_path(const char *path); /* a new name beside the path, to write to; see below */
void remove_old_outputs(const char *output, bool shared);
const char *temporary_folder(void); /* a new one, under TMPDIR; removes those that killed processes have left */
sigset_t temporary_signals(void);   /* are blocked while a tool is started, until tool_begins knows it */
void tool_begins(pid_t);            /* the leader of a process group */
void tool_ends(pid_t);

/* ---- shared.c, too */
void shared_flags(Compiler *);                                          /* for compiling */
void shared_exports(const char *output, Text *);                        /* writes the exported names, for the linker */
void shared_link(Arguments *, const char *output, const char *exports); /* exports: the file that holds them */

/* ---- link.c */
typedef struct Cache Cache;
const char *runtime_folder(void);                /* of the runtime library and of its headers */
void write_text(const char *path, const Text *); /* exit 3 if it cannot be written */
/* Links objects and the runtime library to a program. mpicc: the words of the compiler for --mpi, or none. */
Arguments link_command(const Compiler *, const Arguments *mpicc, const Arguments *objects, const char *home, const char *output);

/* ---- mpi.c: for --mpi */
Arguments find_mpi(void); /* the words of mpicc; exit 3 if there is none */
const char *compile_mpi(const Arguments *mpicc, const char *home, const char *folder); /* returns the object */

/* ---- compiler_features.c; `folder` is for temporary files */
void ask_programs(Compiler *, Cache *, const char *folder);
void ask_flags(Compiler *, Cache *, const char *folder);
/* If CC's linker cannot link the runtime library, but `cc` can link what CC compiles, lets `cc` link, and prints a note. */
void ask_linker(Compiler *, Cache *, const char *home, const char *folder);
/* Tests the compiler before its first use, if there is a cache and MGPUC_SELFTEST is not off. */
void ask_test(const Compiler *, Cache *, const char *home, const char *folder, CompilerTest *);
/* Returns, after the compiler failed, the end of a sentence that names what is not installed, or "". */
const char *what_is_missing(const Compiler *, const char *home, const char *folder);

/* ---- images.c, nvrtc.c, cubin.c */
typedef struct Images {
    Arguments files, archs; /* one architecture for each file */
    int compiled;
    const char *failed; /* the architecture whose kernels failed to compile; NULL: none */
} Images;
/* `folder` is for temporary files. What the cache holds is not compiled. */
bool has_real_images(const Program *); /* whether some are not for virtual GPUs */
void check_images(const Program *);    /* ends mgpuc if NVRTC is missing or cannot compile for an architecture */
Images make_images(const Program *, const char *home, const char *folder, Cache *, int at_a_time);
const char *make_image(const char *text, const char *arch); /* compiles a source for mgpuc itself; NULL: errors */
void images_text(const Images *, Text *);                   /* a C source that includes the images */
int nvrtc_version(void);                                    /* 13000 is 13.0; exit 3 as below */
void nvrtc_identity(Sha256 *);                              /* adds its version and the options that it gets */
const char *nvrtc_name(void);                               /* "NVRTC 13.0"; exit 3, saying what to install, if there is none */
void nvrtc_check(const char *arch);                         /* exit 2 if NVRTC does not know it, 3 if there is none */

/* ---- toolkit.c */
void *toolkit_nvrtc(void);                                  /* opens NVRTC; exit 3, saying what to install, if there is none */
void toolkit_compare(int version);                          /* warns if the driver here is older than this version of NVRTC */
const char *toolkit_folders(void);                          /* for mgpu_program.library_folders */
int command_nvrtc(int argc, char **argv);                   /* runs in a process of its own; nvrtc.c explains its arguments */
void images_print(const Program *, const Images *, Text *); /* --emit images */

/* ---- cache.c: every failure of the cache counts as a miss */
struct Cache {
    const char *folder;    /* NULL: off */
    const char *trouble;   /* why it is off or does not work */
    int64_t limit, stored; /* bytes */
};
Cache cache_open(void);
bool cache_fetch(Cache *, const Digest *key, const char *path); /* writes the object to `path`; false: the cache lacks it */
void cache_store(Cache *, const Digest *key, const char *path);
void cache_close(Cache *); /* removes the least recently used objects beyond the limit */
#endif
