/* lints.h: warnings that have a name: of what compiles, but is hardly meant or needlessly slow. -Wno-NAME silences one. docs/warnings.md
 * has an example of each. */
#ifndef MGPU_LINTS_H
#define MGPU_LINTS_H

#include "compiler/base/base.h"

#define LINTS(L)                                                                                                      \
    L(LOSS_SHAPES, "loss-shapes")           /* a loss repeats one of its two values against the other */              \
    L(DOUBLE_SOFTMAX, "double-softmax")     /* probabilities where a loss takes logits */                             \
    L(LOG_SOFTMAX, "log-softmax")           /* -inf where a probability is too small */                                  \
    L(UNTRAINED, "untrained")               /* settings of training, and no loss */                                   \
    L(UNUSED_WEIGHTS, "unused-weights")     /* weights that no loss depends on */                                     \
    L(SHARD_STATISTICS, "shard-statistics") /* results depend on the number of devices */                             \
    L(TORCH_ARGUMENTS, "torch-arguments")   /* numbers by place that PyTorch's modules take, and the layer does not */     \
    L(CHANNEL_ORDER, "channel-order")       /* weights of another framework after a flatten that is channels last */      \
    L(UNSCALED_BYTES, "unscaled-bytes")     /* pictures of 0 to 255 that weights meet as they are */                  \
    L(MISSING_FILE, "missing-file")         /* initial values that are not there */                                   \
    L(MEMORY, "memory")                     /* more than the devices have */                                          \
    L(IDLE_DEVICES, "idle-devices")         /* that have no samples */                                                \
    L(UNEVEN_BATCH, "uneven-batch")         /* that the devices do not divide */                                      \
    L(BATCH_STATISTICS, "batch-statistics") /* all-reduces in the middle of a step */                                 \
    L(SLOW_INPUT, "slow-input")             /* steps that wait for their samples */                                   \
    L(LEARNING_RATE, "learning-rate")       /* a batch many times the file's, with the file's rate */                 \
    L(REPLACED_SCHEDULE, "replaced-schedule") /* one number of --set in place of a rate that changes */
#define LINT_NUMBER(name, text) LINT_##name,
typedef enum Lint { LINTS(LINT_NUMBER) LINT_COUNT } Lint;

typedef unsigned LintSet; /* a bit for each */
const char *lint_name(Lint);
void lint_silence(LintSet *, const char *name); /* exit 2 for what is no name */
/* warning_at, with the name after the message; nothing if it is one of the silenced */
void lint_at(LintSet silenced, Lint, const Place *, const char *pattern, ...) PRINTF(4, 5);
#endif
