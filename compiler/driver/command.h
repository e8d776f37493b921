/* command.h: mgpuc's command line and commands. */
#ifndef MGPU_COMMAND_H
#define MGPU_COMMAND_H

#include "compiler/base/json.h"
#include "compiler/ir/program.h"
#include "compiler/kernel/phase.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/schedule.h"

#include <string.h>

Options parse_command(int argc, char **argv); /* exit 2 for invalid ones; --help, --version: exit 0 */
/* Appends the options of a compile, except --devices, as arguments for another mgpuc. */
void compile_words(const Options *, const char ***words, int *count);
void check_sources(const Model *, const Options *);      /* exit 2 if an output would overwrite a source */
const char *bytes_text(double bytes);                    /* words.c: 12.3 MiB */
void check_apart(const char *output, const char *input); /* exit 2 if they are the same file */
/* device_list.c: "1,2,4" "1-8" "host:3" "cuda:1,2": a plan for each device count, ascending, without duplicates; "cuda:0x4": a
 * plan for these; NULL: all GPUs, or one host device. */
/* named: --machine, or NULL */
const Target *parse_devices(const char *list, const struct Machine *named, Plan **plans, int *count);
const char *selected_gpus(const char *list);       /* the list if it names GPUs ("cuda:0x4") and not counts; else NULL */
const char *check_architectures(const char *list); /* without duplicates, in order; NULL: the default */
const char *planned_architectures(const struct Machine *, bool any); /* NULL: none is supported; exit 1 unless `any` */
/* devices.c: the number of GPUs, with the reason for 0; the architectures of supported ones, "sm_80,sm_90", NULL if there are no
 * GPUs, exit 3 if none is supported. */
int gpus_found(const char **why);
const char *architectures_found(void);
/* arguments.c: The words of a command's own line that are no options, at most so many, NULL behind them; --help prints `help` and
 * ends. An option sets a flag or a value; behind the last one is {NULL}. */
typedef struct OwnOption {
    const char *name;
    bool *flag;
    const char **value;
} OwnOption;
const char **own_words(const char *command, int argc, char **argv, const char *help, const OwnOption *, int most);
int command_devices(int argc, char **argv);  /* mgpuc devices ... */
int command_machines(int argc, char **argv); /* machines.c: mgpuc machines ..., mgpuc probe ... */
int command_probe(int argc, char **argv);
int command_plot(int argc, char **argv);   /* plot.c: mgpuc plot ... */
int command_import(int argc, char **argv); /* import.c: mgpuc import MODEL.onnx */
int command_selftest(int argc, char **argv);
/* memory.c: bytes of a device's arena, the maximum over all phases; what a run on this machine allocates for it: with workspaces
 * of all threads and scratch memory of transfers; a warning if there is not enough. */
double host_memory(void); /* of this machine, or of this process's control group */
int64_t arena_bytes(const Schedule *, int device);
int64_t device_bytes(const Program *, const Plan *, int device);
double needed_bytes(const Program *, const Plan *, int *fullest); /* of the fullest device; host devices: of a node */
double variables_needed(const Program *, const Plan *);           /* likewise, of variables, which nothing reduces */
double memory_there(const Program *, const Plan *);  /* limit of needed_bytes: --memory, the named machine's, or this one's */
void schedule_in_memory(Program *, Plan *);          /* memory.c */
double predicted_step_us(const Program *);           /* per step, summed over all plans */
const char *dropped_text(const Dropped *);           /* recompute.c */
const char *recompute_cure(Program *, const Plan *); /* what it would do for a plan that does not fit; NULL: nothing */
/* An error with --memory or for a named machine, else a warning; silent if there is enough. */
void warn_of_memory(const Model *, Program *, const Plan *);
bool memory_is_limited(const Options *);                         /* by --memory, or by --machine for a program */
int64_t gathered_bytes(const Schedule *, int device);            /* peak.c: the most bytes of gathered weights at the same time */
int64_t variable_bytes(const Schedule *, int device);            /* peak.c: of weights, states of the optimizer and of layers */
void peak_print(const Schedule *, int device, int most, Text *); /* peak.c: the largest tensors at the peak of memory */
double planned_memory(const struct Machine *, bool host, int devices); /* per device; host devices: of a node together */
const char *cure_of_none(const Program *, const Plan *);               /* advice if not even one sample fits */
int64_t batch_that_fits(const Program *, const Plan *, double bytes);  /* largest batch with at most `bytes` per GPU; 0: none */
void warn_of_plans(const Program *);                                   /* lints.c: of what makes steps slower than necessary */
void warn_of_initials(const Model *, LintSet silenced);                /* initials.c: of files that do not exist */
int show_initials(const Model *, const Options *);                     /* the initial values of weights; 1: some have no tensor */
double step_flops(const Program *);                                    /* per sample, of a training step */
void check_print(const Model *, const Program *, bool json, Text *);
const char *ms_text(double us);            /* "146.12", "0.0812": milliseconds, at least three digits */
const char *per_second_text(double per_s); /* "219.0", "1,722" */
const char *grouped(int64_t);              /* 1234567 -> "1,234,567" */
void diagnostics_as_json(void);          /* diagnostics.c: from now on; exit() prints them, unless diagnostics_json was called */
const char *diagnostics_json(void);      /* so far: {...},{...} */
void phase_print(const Phase *, Text *); /* --emit fused */
void memory_print(const Schedule *, Text *); /* --emit memory */
int command_compile(const Options *);        /* compile.c: mgpuc MODEL.net, mgpuc check; verify.c: mgpuc verify */
int command_check(const Options *);
const char *check_whole(const Options *); /* what `check` prints; prints warnings */
/* Kernels of programs that differ only in their devices. Free it after the programs, which refer to it. */
typedef struct KernelCache KernelCache;
KernelCache *kernel_cache_new(void);
void kernel_cache_free(KernelCache *);
Program *make_schedules(const Options *, KernelCache * /* NULL: none */); /* a schedule for each plan */
const Model *read_model(const Options *);                                 /* graphs before planning; without warnings */
int command_plan(const Options *);                                        /* plan.c: mgpuc plan */
int command_bench(const Options *);                                       /* bench.c: mgpuc bench */
int command_report(const Options *);                                      /* report.c: mgpuc report */
int command_verify(const Options *);
char *read_schedules(const char *file);       /* verify.c: its text; exit 1 if it cannot be read, or is no text */
const char *edited_devices(const char *file); /* edited.c: of --schedule FILE, as --devices has them */
void take_schedules(Program *);               /* replaces those of the plans by those of --schedule */
char *cut_schedule(char *text);               /* cuts off the first of several schedules in a text; returns the rest, or NULL */
int command_schedule(const Options *);        /* view.c: mgpuc schedule, mgpuc diff */
int command_diff(int argc, char **argv);
int command_compare(int argc, char **argv);
void view_print(const Options *, Text *); /* schedules, one after the other, as --emit schedule prints them */
int command_fmt(int argc, char **argv);   /* mgpuc fmt ..., mgpuc doc ...: the following arguments */
int command_doc(int argc, char **argv);
int command_lsp(int argc, char **argv); /* lsp.c: mgpuc lsp */

static inline bool is_model_file(const char *file)
{
    size_t length = strlen(file);
    return length > 4 && strcmp(file + length - 4, ".net") == 0;
}
#endif
