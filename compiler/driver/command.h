/* command.h: mgpuc's command line, what `check` prints, and where what it makes is written. */
#ifndef MGPU_COMMAND_H
#define MGPU_COMMAND_H

#include "compiler/base/json.h"
#include "compiler/ir/program.h"
#include "compiler/kernel/phase.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/schedule.h"

#include <string.h>

Options parse_command(int argc, char **argv);         /* exit 2 for what it does not understand; --help, --version: exit 0 */
/* the options of a compile but --devices, as words for another mgpuc: APPEND(*words, *count, ...) */
void compile_words(const Options *, const char ***words, int *count);
void check_sources(const Model *, const Options *);   /* exit 2 if what would be written is what was read */
const char *bytes_text(double bytes);  /* words.c: 12.3 MiB */
void check_apart(const char *output, const char *input); /* likewise, of two files */
/* device_list.c: "1,2,4"  "1-8"  "host:3"  "cuda:1,2": a plan per device count, ascending, each once; "cuda:0x4": a plan for
 * these; NULL: all GPUs, or one host device */
const Target *parse_devices(const char *list, const struct Machine *named, Plan **plans, int *count); /* named: by --machine, or NULL */
const char *selected_gpus(const char *list);          /* the list, if it names GPUs ("cuda:0x4"), not counts; else NULL */
const char *check_architectures(const char *list);    /* each once, in order; NULL: the default */
const char *planned_architectures(const struct Machine *, bool any); /* of its GPUs; if kernels are made for none of them: NULL, exit 1 unless `any` */
/* devices.c: what GPUs there are; 0 and why there are none; "sm_80,sm_90" of those that are new enough, NULL if there
 * are none; exit 3 if all are too old */
int gpus_found(const char **why);
const char *architectures_found(void);
int command_devices(int argc, char **argv);           /* mgpuc devices ... */
int command_machines(int argc, char **argv);          /* machines.c: mgpuc machines ..., mgpuc probe ... */
int command_probe(int argc, char **argv);
int command_plot(int argc, char **argv);              /* plot.c: mgpuc plot ... */
int command_import(int argc, char **argv);            /* import.c: mgpuc import MODEL.onnx */
int command_selftest(int argc, char **argv);
/* memory.c: bytes of a device's arena, at most over all phases; what a run on this machine allocates for it, workspaces of all its
 * threads, and what copies of transfers are added from, with it; a warning if there is not as much */
double host_memory(void);                             /* of this machine, or of the control group that this process is in */
int64_t arena_bytes(const Schedule *, int device);
int64_t device_bytes(const Program *, const Plan *, int device);
double needed_bytes(const Program *, const Plan *, int *fullest); /* of the fullest device; of host devices: of all of a node together */
double variables_needed(const Program *, const Plan *); /* likewise, of variables alone: neither recompute nor accumulate makes less of them */
double memory_there(const Program *, const Plan *);    /* what needed_bytes may be: --memory, the named machine's, that of what is here */
void schedule_in_memory(Program *, Plan *);            /* memory.c */
double predicted_step_us(const Program *);             /* of a step, all plans together */
const char *dropped_text(const Dropped *);             /* recompute.c */
const char *recompute_cure(Program *, const Plan *); /* what it would do to a plan that does not fit; NULL: nothing */
/* an error with --memory; silent if there is enough */
void warn_of_memory(const Model *, Program *, const Plan *);
bool memory_is_said(const Options *);                  /* by --memory, or a program is made for the machine that --machine names */
int64_t gathered_bytes(const Schedule *, int device); /* peak.c: of weights in parts, what is whole at the same time, at most */
int64_t variable_bytes(const Schedule *, int device); /* peak.c: weights, states of the optimizer and of layers */
void peak_print(const Schedule *, int device, int most, Text *); /* peak.c: the largest tensors where a device's memory is fullest */
double planned_memory(const struct Machine *, bool host, int devices); /* that each device has, or all host devices of a node together */
const char *cure_of_none(const Program *, const Plan *); /* what helps where not even one sample fits */
int64_t batch_that_fits(const Program *, const Plan *, double bytes); /* the largest whose GPUs take no more each; 0: there is none */
void warn_of_plans(const Program *);                   /* lints.c: what makes steps slower than they have to be */
void warn_of_initials(const Model *, LintSet silenced);               /* initials.c: files that are not there */
int show_initials(const Model *, const Options *);                    /* what weights would begin with; 1: some have no tensor */
double step_flops(const Program *);                    /* of a sample, in a training step */
void check_print(const Model *, const Program *, bool json, Text *);
const char *ms_text(double us);                        /* "146.12", "0.0812": milliseconds, three figures at least */
const char *per_second_text(double per_s);                   /* "219.0", "1,722" */
const char *grouped(int64_t);                          /* 1234567 -> "1,234,567" */
void diagnostics_as_json(void);                        /* diagnostics.c: from here on; exit() prints them, unless they were asked for */
const char *diagnostics_json(void);                    /* so far: {...},{...} */
void phase_print(const Phase *, Text *);              /* --emit fused */
void memory_print(const Schedule *, Text *);          /* --emit memory */
int command_compile(const Options *);                 /* compile.c: mgpuc MODEL.net, mgpuc check; verify.c: mgpuc verify */
int command_check(const Options *);
const char *check_whole(const Options *);             /* what it prints; warnings are said */
/* kernels of programs that differ in their devices alone; freed after them, as they are part of it */
typedef struct KernelCache KernelCache;
KernelCache *kernel_cache_new(void);
void kernel_cache_free(KernelCache *);
Program *make_schedules(const Options *, KernelCache * /* NULL: none */); /* a schedule for each plan */
const Model *read_model(const Options *);             /* its graphs, before anything is planned; nothing is said of it */
int command_plan(const Options *);                    /* plan.c: mgpuc plan */
int command_bench(const Options *);                   /* bench.c: mgpuc bench */
int command_report(const Options *);                  /* report.c: mgpuc report */
int command_verify(const Options *);
char *read_schedules(const char *file);               /* verify.c: its text; exit 1 if it cannot be read, or is no text */
char *cut_schedule(char *text);                       /* a file may hold the schedules of several plans, one after the other: cuts off the first -> the others; NULL: there are none */
int command_schedule(const Options *);                /* view.c: mgpuc schedule, mgpuc diff */
int command_diff(int argc, char **argv);
void view_print(const Options *, Text *);                     /* schedules, one after the other, as --emit schedule prints them */
int command_fmt(int argc, char **argv);               /* mgpuc fmt ..., mgpuc doc ...: what follows these words */
int command_doc(int argc, char **argv);
int command_lsp(int argc, char **argv);               /* lsp.c: mgpuc lsp */

static inline bool is_model_file(const char *file)
{
    size_t length = strlen(file);
    return length > 4 && strcmp(file + length - 4, ".net") == 0;
}
#endif
