/* lints.h: warnings with names, about models that compile but are probably not meant or needlessly slow. -Wno-NAME silences one.
 * docs/warnings.md has an example of each. */
#ifndef MGPU_LINTS_H
#define MGPU_LINTS_H

#include "compiler/base/base.h"

/* clang-format off */
#define LINTS(L)                                                                                                      \
    L(LOSS_SHAPES, "loss-shapes")           /* a loss broadcasts one of its two values */                             \
    L(DOUBLE_SOFTMAX, "double-softmax")     /* probabilities where a loss takes logits */                             \
    L(LOG_SOFTMAX, "log-softmax")           /* -inf if a probability is too small */                                     \
    L(UNTRAINED, "untrained")               /* training settings without a loss */                                    \
    L(UNUSED_WEIGHTS, "unused-weights")     /* weights that no loss depends on */                                     \
    L(SHARD_STATISTICS, "shard-statistics") /* results depend on the number of devices */                             \
    L(TORCH_ARGUMENTS, "torch-arguments")   /* positional numbers as for PyTorch's modules */                              \
    L(CHANNEL_ORDER, "channel-order")       /* another framework's weights after flattening channels last */              \
    L(UNSCALED_BYTES, "unscaled-bytes")     /* pictures of 0 to 255 used without scaling */                           \
    L(MISSING_FILE, "missing-file")         /* files of initial values that do not exist */                           \
    L(MEMORY, "memory")                     /* more than the devices have */                                          \
    L(IDLE_DEVICES, "idle-devices")         /* devices without samples */                                             \
    L(UNEVEN_BATCH, "uneven-batch")         /* not divisible by the devices */                                        \
    L(BATCH_STATISTICS, "batch-statistics") /* all-reduces in the middle of a step */                                 \
    L(SLOW_INPUT, "slow-input")             /* steps that wait for their samples */                                   \
    L(LEARNING_RATE, "learning-rate")       /* a batch many times the file's, with the file's rate */                 \
    L(REPLACED_SCHEDULE, "replaced-schedule") /* a number of --set in place of a rate schedule */
/* clang-format on */
#define LINT_NUMBER(name, text) LINT_##name,
typedef enum Lint { LINTS(LINT_NUMBER) LINT_COUNT } Lint;

typedef unsigned LintSet; /* a bit for each */
const char *lint_name(Lint);
void lint_silence(LintSet *, const char *name); /* exit 2 for an unknown name */
/* Warns as warning_at, with the name after the message, unless it is silenced. */
void lint_at(LintSet silenced, Lint, const Place *, const char *pattern, ...) PRINTF(4, 5);
#endif
