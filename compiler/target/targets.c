/* targets.c: the table of targets; the first is that of a list of devices that names none. */
#include "compiler/target/cuda/cuda.h"
#include "compiler/target/host/host.h"
#include "compiler/target/target.h"

const Target *const TARGETS[] = {&host_target, &cuda_target, NULL};
