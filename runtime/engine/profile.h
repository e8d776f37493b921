/* profile.h: how long each operation of a step takes (`bench --profile`). */
#ifndef MGPU_PROFILE_H
#define MGPU_PROFILE_H

#include "runtime/engine/processes.h"
#include "runtime/engine/engine.h"

/* steps: per training step, with its micro-batches */
Profile *mgpu_profile_begin(const mgpu_program *, const mgpu_plan *, int64_t steps);
void mgpu_profile_end(Profile *);
/* Adds `seconds` to operation `op` of `phase` on `device`. Only one thread at a time adds to the same operation; other threads
 * may add to others meanwhile. */
void mgpu_profile_add(Profile *, const mgpu_phase *phase, int device, int op, double seconds);
/* Sets the plan's prediction for one run of an operation, which the table and the JSON show next to the measured time. */
void mgpu_profile_predict(Profile *, const mgpu_phase *, int device, int op, double seconds);
void mgpu_profile_gather(Profile *, Processes *); /* every process calls it: rank 0 receives the times of all devices */
/* Print the profile of `steps` steps that took `seconds` in all: as a table, or as members "profiled_step_ms", "comp_ms" (by
 * device) and "operations" of a JSON object. */
void mgpu_profile_print(const Profile *, FILE *, int64_t steps, double seconds);
/* Writes the file of `bench --measure`, which `mgpuc --measured` reads: the median time of each operation over the steps. */
void mgpu_profile_write(const Profile *, FILE *, int64_t steps, int threads, bool virtual);
void mgpu_profile_print_json(const Profile *, FILE *, int64_t steps, double seconds);
#endif
