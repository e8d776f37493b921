/* profile.h: how long each operation of a step takes (`bench --profile`). */
#ifndef MGPU_PROFILE_H
#define MGPU_PROFILE_H

#include "runtime/engine/processes.h"
#include "runtime/engine/engine.h"

Profile *mgpu_profile_begin(const mgpu_program *, const mgpu_plan *, int64_t steps); /* steps: of a training step, with its micro-batches */
void mgpu_profile_end(Profile *);
/* `seconds` more in operation `op` of `phase` on `device`. An operation's times come from one thread at a time, the first
 * of the device's thread pool; different operations may come from different threads at once. */
void mgpu_profile_add(Profile *, const mgpu_phase *phase, int device, int op, double seconds);
/* what one run of an operation takes by the plan: the table and the JSON have it beside what was measured */
void mgpu_profile_predict(Profile *, const mgpu_phase *, int device, int op, double seconds);
void mgpu_profile_gather(Profile *, Processes *); /* by all: rank 0 gets what the devices of the others took */
/* of `steps` steps that took `seconds` together: a table for people, or the members "profiled_step_ms", "comp_ms" (by device)
 * and "operations" of a JSON object */
void mgpu_profile_print(const Profile *, FILE *, int64_t steps, double seconds);
/* the file of `bench --measure`, which `mgpuc --measured` reads: what each operation took, median over the steps */
void mgpu_profile_write(const Profile *, FILE *, int64_t steps, int threads, bool virtual);
void mgpu_profile_print_json(const Profile *, FILE *, int64_t steps, double seconds);
#endif
