/* options.c: the default options of programs and libraries. */
#include "runtime/base/options.h"

#include <math.h>

RunOptions mgpu_default_options(const mgpu_program *p, const char *program)
{
    RunOptions o = {.command = COMMAND_TRAIN,
                    .program = program,
                    .epochs = -1,
                    .steps = -1,
                    .warmup = 3,
                    .stop_after = -1,
                    .stall = MGPU_STALL_S,
                    .histograms = -1,
                    .keep = -1,
                    .samples = -1,
                    .failed_saves = -1,
                    .length = 500,
                    .temperature = 1,
                    .top_p = 1,
                    .seed = p->seed,
                    .shuffle = true,
                    .evaluate = true,
                    .write = true};
    for (int i = 0; i < MGPU_MAX_SETTINGS; i++)
        o.setting[i] = NAN;
    return o;
}
