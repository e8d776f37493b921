/* probe.h: this machine, measured: the text of a machine file (compiler/machine/read.c says what is in one).
 *
 *   host.c      cores, memory, disk
 *   steps.c     how long threads wait for each other in a step
 *   pictures.c  how fast a core decodes pictures
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
/* a line: "host bandwidth 61.2GB/s measured 2026-11-25    # 60.1 to 61.9"; nothing, where nothing was measured */

/* ---- host.c; memory: bytes of it */
void probe_host(Text *, ProbeLength, double memory);

/* ---- steps.c; of each the lowest of a few tries, below 0 where other programs disturbed them */
typedef struct StepCosts { double barrier_us, step_us, meeting_us, idle_meeting_us; } StepCosts;
StepCosts probe_steps(int cores);

/* ---- pictures.c: to be called by as many threads as there are cores */
typedef struct Picture { const unsigned char *bytes; unsigned long length; } Picture; /* a JPEG; length 0: there is no library that makes one */
Picture probe_picture(void);
double pictures_per_second(const Picture *, int times); /* decoded and cut to 224 x 224; of the thread's processor time; 0: it cannot be decoded */

/* ---- here.c: the machine that this is. NULL unless asked for: nothing was measured, and there is no cache to keep it in */
const Machine *machine_here(double memory, bool asked);
const char *measure_here(ProbeLength, double memory); /* now: the text of its file; the cache keeps it */
const char *here_text(const Machine *); /* "AMD EPYC, 2 cores, measured 2026-11-25" */
#endif
