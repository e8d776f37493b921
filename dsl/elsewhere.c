/* elsewhere.c: names of PyTorch, Keras and NumPy -> ours. */
#include "dsl/elsewhere.h"

#include "compiler/base/base.h"

#include <string.h>

typedef struct Row { const char *word, *here; } Row;

static const Row TYPES[] = {
    {"float", "f32"}, {"float32", "f32"}, {"float16", "f16"}, {"half", "f16"}, {"bfloat16", "bf16"}, {"float64", "f64"},
    {"double", "f64"}, {"int", "i32"}, {"int32", "i32"}, {"int64", "i64"}, {"long", "i64"}, {"uint8", "u8"}, {"byte", "u8"},
};
static const Row FUNCTIONS[] = {
    {"Linear", "dense"}, {"fully_connected", "dense"}, {"fc", "dense"}, {"conv1d", "conv"}, {"conv2d", "conv"},
    {"conv3d", "conv"}, {"Conv2d", "conv"}, {"Conv2D", "conv"}, {"max_pool2d", "maxpool"}, {"MaxPool2d", "maxpool"},
    {"avg_pool2d", "avgpool"}, {"view", "reshape"}, {"cat", "concat"}, {"permute", "transpose"}, {"matmul", "@"},
    {"CrossEntropyLoss", "cross_entropy"}, {"nll_loss", "cross_entropy"}, {"MSELoss", "mse"}, {"L1Loss", "mae"},
    {"bce", "binary_cross_entropy"}, {"batch_norm", "batchnorm"}, {"layer_norm", "layernorm"}, {"swish", "silu"},
    {"conv_transpose2d", "conv_transpose"}, {"ConvTranspose2d", "conv_transpose"}, {"interpolate", "resized"},
    {"index_select", "take"}, {"scatter", "scatter_set"}, {"sort", "top_k"}, {"argsort", "top_k"}, {"fft", "rfft"},
    {"rint", "round"}, {"bitwise_and", "bit_and"}, {"bitwise_or", "bit_or"}, {"bitwise_xor", "bit_xor"},
    {"bitwise_not", "bit_not"}, {"left_shift", "shift_left"}, {"right_shift", "shift_right"}, {"arctan2", "atan2"},
    {"arctan", "atan"}, {"arcsin", "asin"}, {"arccos", "acos"}, {"BatchNorm1d", "batchnorm"}, {"BatchNorm2d", "batchnorm"},
    {"BatchNorm3d", "batchnorm"}, {"SyncBatchNorm", "batchnorm"}, {"LayerNorm", "layernorm"}, {"GroupNorm", "groupnorm"},
    {"InstanceNorm2d", "instancenorm"}, {"Embedding", "embedding"}, {"Dropout", "dropout"}, {"Dropout2d", "spatial_dropout"},
    {"MultiheadAttention", "self_attention"}, {"scaled_dot_product_attention", "attention"},
    {"TransformerEncoderLayer", "transformer"}, {"AdaptiveAvgPool2d", "adaptive_avgpool"}, {"AvgPool2d", "avgpool"},
    {"PixelShuffle", "pixel_shuffle"}, {"DropPath", "stochastic_depth"}, {"BCEWithLogitsLoss", "binary_cross_entropy"},
    {"binary_cross_entropy_with_logits", "binary_cross_entropy"}, {"SmoothL1Loss", "huber"}, {"HuberLoss", "huber"},
    {"KLDivLoss", "kl"}, {"CTCLoss", "ctc"}, {"ReLU", "relu"}, {"GELU", "gelu"}, {"SiLU", "silu"}, {"Softmax", "softmax"},
    {"Sigmoid", "sigmoid"}, {"Tanh", "tanh"}, {"Flatten", "flatten"}, {"unsqueeze", "insert_axis"},
    {"SGD", "sgd"}, {"Adam", "adam"}, {"AdamW", "adamw"}, {"CosineAnnealingLR", "cosine"}, {"StepLR", "staircase"},
    {"MultiStepLR", "multistep"}, {"OneCycleLR", "one_cycle"}, {"ReduceLROnPlateau", "plateau"},
};
static const Row SETTINGS[] = {
    {"learning_rate", "lr"}, {"lr_rate", "lr"}, {"weight_decay", "decay"}, {"batch_size", "batch"}, {"num_epochs", "epochs"},
    {"num_steps", "steps"}, {"max_steps", "steps"}, {"random_seed", "seed"}, {"max_grad_norm", "clip"},
    {"clip_grad_norm", "clip"}, {"gradient_accumulation_steps", "accumulate"}, {"grad_accumulation", "accumulate"},
    {"early_stopping", "patience"}, {"gradient_checkpointing", "recompute"}, {"activation_checkpointing", "recompute"},
    {"amp", "precision"}, {"dtype", "precision"}, {"num_workers", "workers"},
};

static const char *find(const Row *rows, int count, const char *word)
{
    for (int k = 0; k < count; k++)
        if (strcmp(rows[k].word, word) == 0)
            return rows[k].here;
    return NULL;
}

const char *type_called(const char *word) { return find(TYPES, COUNT(TYPES), word); }
const char *function_called(const char *word) { return find(FUNCTIONS, COUNT(FUNCTIONS), word); }
const char *setting_called(const char *word) { return find(SETTINGS, COUNT(SETTINGS), word); }
