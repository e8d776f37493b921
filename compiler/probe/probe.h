/* probe.h: measure this machine and write the text of a machine file (compiler/machine/read.c describes its contents).
 *
 *   host.c      cores, memory, disk
 *   steps.c     how long threads wait for each other in a step
 *   pictures.c  how fast a core decodes pictures
 *   gpus.c      GPUs; links.c: what connects them; matmuls.c: large matmuls, by programs
 *   this_machine.c      keeps the last measurements in the cache
 *
 * All of it runs as a program's own code does, with the same libraries, opened in the same way. */
#ifndef MGPU_PROBE_H
#define MGPU_PROBE_H

#include "compiler/machine/machine.h"

typedef enum ProbeLength { PROBE_SHORT /* about a second, without being asked */, PROBE_LONG, PROBE_LENGTHS } ProbeLength;

/* ---- measurements of one number: the median or the lowest, and their range */
typedef struct Measurements {
    double *values;
    int count;
} Measurements; /* of one thing, or the medians of several */
typedef enum Choice { CHOOSE_MEDIAN, CHOOSE_LOWEST } Choice;
void add_measurement(Measurements *, double value);
double median_of(const Measurements *); /* 0: nothing was measured */
/* Writes a line: "host bandwidth 61.2GB/s measured 2026-11-25    # 60.1 to 61.9"; or nothing, if nothing was measured. emulated:
 * a word that replaces the date if no real device was measured; else NULL. */
void write_measured(Text *, const char *what, Measurements *, Choice, double unit, const char *unit_name, const char *emulated);

/* ---- host.c; memory: in bytes */
void probe_host(Text *, ProbeLength, double memory);
int probe_load(void); /* percent of the cores that other programs take from a program that wants all of them now */

/* ---- steps.c; each is the lowest of a few tries, and below 0 if other programs disturbed them */
typedef struct StepCosts {
    double barrier_us, step_us, synchronize_us, idle_synchronize_us;
} StepCosts;
StepCosts probe_steps(int cores);

/* ---- pictures.c: called by as many threads as there are cores */
/* a JPEG; length 0: no library makes one */
typedef struct Picture {
    const unsigned char *bytes;
    unsigned long length;
} Picture;
Picture probe_picture(void);
double pictures_per_second(const Picture *, int times); /* per second of the thread's processor time; 0: cannot decode */

/* ---- gpus.c: measures all GPUs of this machine. count: 0 unless they were measured */
typedef enum ProbedKind { PROBED_NONE, PROBED_OTHERS /* no kernels can be made */, PROBED_VIRTUAL, PROBED_REAL } ProbedKind;
ProbedKind probe_gpus(Text *, int *count);

/* ---- this_machine.c: this machine. NULL unless asked for, if nothing was measured and there is no cache to keep it in */
const Machine *machine_here(double memory, bool asked); /* with its GPUs, if the next function returns them */
const Machine *machine_here_with_gpus(double memory);   /* as `mgpuc probe` measured it; NULL: never, or its GPUs have changed */
const char *measure_here(ProbeLength, double memory, ProbedKind *gpus); /* now; returns a machine file, and caches it */
void store_machine(const Text *, double memory, bool gpus);             /* in the cache, as a file of this machine */
const char *here_text(const Machine *);                                 /* "AMD EPYC, 2 cores, measured 2026-11-25" */
#endif
