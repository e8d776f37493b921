/* units.h: from C texts to a program: what the files of the stage `link` share.
 *
 *   units.c     Program -> translation units: texts that a C compiler takes one by one, in any order and at the same time
 *   tools.c     the C compiler: what it is, its flags, running it
 *   ask.c       what it takes and finds
 *   mpi.c       of programs that are several processes: mpicc, and the calls of its MPI
 *   shared.c    of --shared: the functions, the header, pkg-config
 *   images.c    CUDA C -> images for every architecture, and the unit that holds them
 *   nvrtc.c     NVRTC, in a process of its own
 *   cubin.c     what an image needs: registers, shared and local memory
 *   cache.c     objects by the content that they were compiled from
 *   temporary.c what goes when mgpuc ends, in whatever way
 *   link.c      the stage
 */
#ifndef MGPU_UNITS_H
#define MGPU_UNITS_H

#include "compiler/ir/program.h"
#include "runtime/base/records.h"
#include "compiler/link/cubin.h"
#include "compiler/link/link.h"
#include "compiler/plan/plan.h"
#include "runtime/base/sha256.h"

#include <signal.h>

/* ---- link/program.c: tables; `emit_program` writes all of them as one text */
void emit_tables_head(const Program *, Text *);
void emit_plan(const Program *, const Plan *, Text *);
void emit_main(const Program *, Text *);            /* needs mgpu_kernels (and mgpu_images), and the names that emit_plan exports */
void emit_program(const Program *, Text *);
/* rows.c: what a table of fields says, in C */
const char *c_constant(const char *prefix, const char *word); /* "MGPU_F32" */
const char *c_tensor(const char *name, Dtype, const Shape *);
const char *c_ints(const int *, int count);     /* "{1, 2}" */
void c_members(const mgpu_record *, const void *base, const char *between, Text *); /* ".batch = 10", each with `between` after it */
/* the table of the list in `above`, if it is not empty; members: what the program says of it */
void c_table(const mgpu_record *, const void *above, Text *, Text *members);
/* as it is fetched */
static inline Dtype output_dtype(const Model *m, const Result *r)
{
    return r->value->dtype == F32 && m->precision == F64 ? F64 : r->value->dtype;
}

/* ---- shared.c: of --shared */
const char *shared_beside(const char *output, const char *suffix); /* "lib/digits.h" of "lib/libdigits.so" */
void emit_functions(const Program *, Text *);       /* exit 2 if the output's name is none of a library */
const char *shared_header(const Program *);
const char *shared_package(const Program *);        /* for pkg-config */

/* ---- units.c */
typedef struct TranslationUnit {
    Text text;
    bool kernels;       /* compiled with the kernels' flags */
    double cost;        /* a guess: seconds of the C compiler */
    bool passing;       /* not for the cache */
    bool warpgroups;    /* CUDA C with code for compute capability 9.0 alone: its image is for sm_90a */
} TranslationUnit;
/* of a program for GPUs all but its kernels */
void make_units(const Program *, TranslationUnit **, int *count);
void make_gpu_units(const Program *, bool large, TranslationUnit **, int *count); /* its kernels as CUDA C; large: few of them */
/* the functions of all kernels as images have them, each once */
typedef struct GpuFunction { const char *name; const Place *at; int threads, shared_bytes; } GpuFunction; /* shared: dynamic */
GpuFunction *gpu_functions(const Program *, int *count);

/* ---- tools.c */
typedef struct Arguments { const char **list; int count; } Arguments;
void add_argument(Arguments *, const char *);
void add_arguments(Arguments *, const Arguments *);
Arguments words_of(const char *text, const char *otherwise); /* of CC and the like; otherwise: where there are none */
typedef struct Compiler {
    Arguments words;                      /* of CC, which may hold options: "ccache gcc -fsanitize=address -I more" */
    Arguments linker;                     /* what links: the same words, or those that ask_linker has found */
    int programs;                         /* so many of them are before the options */
    Arguments kernel_flags, table_flags;
    Arguments tuning_flags;               /* ask_flags adds to kernel_flags those that the compiler takes, */
    const char *refused;                  /* and notes the others here; NULL: there are none */
    Arguments mistakes;                   /* known_mistakes of it */
    const char *include;                  /* the flag that names the headers' folder */
    Digest identity;                      /* all that objects depend on besides their texts and flags */
} Compiler;
/* `home` is the folder of the runtime library and of its headers. Exit 3 if there is no C compiler. */
Compiler find_compiler(const char *cc, bool cxx, const char *home);
/* what this version is known to compile wrongly, by what it says of itself, and how emitted C avoids it: a sentence each */
Arguments known_mistakes(const char *said);
/* runs them, the first ones first, so many at a time; stops at the first that fails: its number, else -1. What each says is
 * printed when it ends; nothing after a failure. */
int run_tools(const Arguments *, int count, int at_a_time);
int cores_available(void);
/* runs one: its status, 128 + N where signal N ended it; -1 and errno where it cannot be started. What it says is added. */
int tool_says(const Arguments *, Text *said);
/* one text to one object: programs, flags, options of CC, files */
Arguments compile_command(const Compiler *, const Arguments *flags, const char *text, const char *object);

/* the headers of the runtime, by content */
void add_headers(Sha256 *, const char *home);

/* ---- temporary.c: at exit, or by a signal, running tools are stopped and temporaries removed */
enum { MOST_TOOLS = 256 };            /* at a time */
void temporary_add(const char *path); /* a file, or a folder for those that are added later */
void temporary_keep(const char *path);
const char *fresh_path(const char *path); /* to write to, beside it; what killed ones have left there is removed by */
void remove_old_outputs(const char *output);
const char *temporary_folder(void);   /* a new one, under TMPDIR; what killed ones have left there is removed */
sigset_t temporary_signals(void);     /* held back while a tool is started, until tool_begins has it */
void tool_begins(pid_t);              /* the leader of a process group */
void tool_ends(pid_t);

/* ---- shared.c, too */
void shared_flags(Compiler *);                      /* for objects */
void shared_exports(const char *output, Text *);    /* for the linker: what is exported */
void shared_link(Arguments *, const char *output, const char *exports); /* exports: the file of that */

/* ---- link.c */
typedef struct Cache Cache;
const char *runtime_folder(void);                /* of the runtime library and of its headers */
void write_text(const char *path, const Text *); /* exit 3 if it cannot be */
/* objects and the runtime library to a program; mpicc: the words of the compiler of --mpi, or none */
Arguments link_command(const Compiler *, const Arguments *mpicc, const Arguments *objects, const char *home, const char *output);

/* ---- mpi.c: of --mpi */
Arguments find_mpi(void); /* the words of mpicc; exit 3 if there is none */
const char *compile_mpi(const Arguments *mpicc, const char *home, const char *folder); /* -> the object */

/* ---- ask.c; `folder`: of temporaries */
void ask_programs(Compiler *, Cache *, const char *folder);
void ask_flags(Compiler *, Cache *, const char *folder);
/* `cc` links what CC compiles where CC links programs, but not the runtime library; it is said */
void ask_linker(Compiler *, Cache *, const char *home, const char *folder);
/* before the compiler is used for the first time, if answers are kept, and MGPUC_SELFTEST is not off */
void ask_test(const Compiler *, Cache *, const char *home, const char *folder, CompilerTest *);
/* when the compiler failed: the end of a sentence that names what is not installed, or "" */
const char *what_is_missing(const Compiler *, const char *home, const char *folder);

/* ---- images.c, nvrtc.c, cubin.c */
typedef struct Images {
    Arguments files, archs; /* parallel */
    int compiled;
    const char *failed;     /* an architecture; NULL: none */
} Images;
/* `folder`: of temporaries; what the cache holds is not compiled */
bool has_real_images(const Program *);               /* some are not for virtual GPUs */
void check_images(const Program *);                 /* before there are files: ends mgpuc if NVRTC is missing, or cannot make them */
Images make_images(const Program *, const char *home, const char *folder, Cache *, int at_a_time);
const char *make_image(const char *text, const char *arch); /* of one text for mgpuc itself: its file, until mgpuc ends; NULL: it does not compile, which was said */
void images_text(const Images *, Text *);           /* a C text that takes them in */
int nvrtc_version(void);                            /* 13000 is 13.0; exit 3 as below */
const char *nvrtc_name(void);                       /* "NVRTC 13.0"; exit 3, with what to install, if there is none */
void nvrtc_check(const char *arch);                 /* exit 2 if NVRTC does not know it, 3 if there is none */

/* ---- toolkit.c */
void *toolkit_nvrtc(void);                          /* opened; exit 3, with what to install, if there is none */
void toolkit_compare(int version);                  /* warns if the driver here is older than this version of NVRTC */
const char *toolkit_folders(void);                  /* mgpu_program.library_folders */
int command_nvrtc(int argc, char **argv);           /* of a process of its own; nvrtc.c says its arguments */
void images_print(const Program *, const Images *, Text *); /* --emit images */

/* ---- cache.c: every failure of it is a miss */
struct Cache {
    const char *folder; /* NULL: off */
    const char *trouble;/* why it is off, or does not work */
    int64_t limit, stored; /* bytes */
};
Cache cache_open(void);
bool cache_fetch(Cache *, const Digest *key, const char *path);  /* writes the object to `path`; false: it is not there */
void cache_store(Cache *, const Digest *key, const char *path);
void cache_close(Cache *);                          /* if there is too much, what was used longest ago goes */
#endif
