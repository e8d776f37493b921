/* probe.h: this machine, measured: the text of a machine file (compiler/machine/read.c says what is in one).
 *
 *   host.c      cores, memory, disk
 *   steps.c     how long threads wait for each other in a step
 *   pictures.c  how fast a core decodes pictures
 *   gpus.c      what GPUs do; links.c: what is between them; matmuls.c: large matmuls, by programs
 *   here.c      what was measured last, in the cache
 *
 * All of it runs as a program's own code does: the same libraries, opened in the same way. */
#ifndef MGPU_PROBE_H
#define MGPU_PROBE_H

#include "compiler/machine/machine.h"

typedef enum ProbeLength { PROBE_SHORT /* about a second: unasked */, PROBE_LONG, PROBE_LENGTHS } ProbeLength;

/* ---- measurements of one number: the median, or the lowest, with their spread */
enum { MOST_MEASUREMENTS = 16 };
typedef struct Measurements { double values[MOST_MEASUREMENTS]; int count; } Measurements;
typedef enum Choice { CHOOSE_MEDIAN, CHOOSE_LOWEST } Choice;
void measured(Measurements *, double value);
double median_of(const Measurements *); /* 0: nothing was measured */
/* a line: "host bandwidth 61.2GB/s measured 2026-11-25    # 60.1 to 61.9"; nothing, where nothing was measured. emulated: a word that is
 * said in place of the day, for what no real device has done; else NULL */
void write_measured(Text *, const char *what, Measurements *, Choice, double unit, const char *unit_name, const char *emulated);

/* ---- host.c; memory: bytes of it */
void probe_host(Text *, ProbeLength, double memory);
int probe_load(void); /* percent of the cores that other programs take just now from who wants all of them */

/* ---- steps.c; of each the lowest of a few tries, below 0 where other programs disturbed them */
typedef struct StepCosts { double barrier_us, step_us, meeting_us, idle_meeting_us; } StepCosts;
StepCosts probe_steps(int cores);

/* ---- pictures.c: to be called by as many threads as there are cores */
typedef struct Picture { const unsigned char *bytes; unsigned long length; } Picture; /* a JPEG; length 0: there is no library that makes one */
Picture probe_picture(void);
double pictures_per_second(const Picture *, int times); /* decoded and cut to 224 x 224; of the thread's processor time; 0: it cannot be decoded */

/* ---- gpus.c: of all GPUs that are here. count: 0, unless they were measured */
typedef enum ProbedKind { PROBED_NONE, PROBED_OTHERS /* such as no kernels are made for */, PROBED_VIRTUAL, PROBED_REAL } ProbedKind;
ProbedKind probe_gpus(Text *, int *count);

/* ---- here.c: the machine that this is. NULL unless asked for: nothing was measured, and there is no cache to keep it in */
const Machine *machine_here(double memory, bool asked); /* with its GPUs, where the next one has them */
const Machine *machine_here_with_gpus(double memory); /* as `mgpuc probe` has measured it; NULL: never, or other GPUs than those that are here */
const char *measure_here(ProbeLength, double memory, ProbedKind *gpus); /* now: the text of its file; the cache keeps it */
void keep_here(const Text *, double memory, bool gpus); /* in the cache, a file of this machine */
const char *here_text(const Machine *); /* "AMD EPYC, 2 cores, measured 2026-11-25" */
#endif
