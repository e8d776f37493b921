/* foreign_names.c: names of PyTorch, Keras and NumPy -> names of the language. */
#include "dsl/foreign_names.h"

#include "compiler/base/base.h"

#include <string.h>

typedef struct ForeignName {
    const char *word, *here;
} ForeignName;

static const ForeignName TYPES[] = {
    {"float", "f32"},   {"float32", "f32"}, {"float16", "f16"}, {"half", "f16"},  {"bfloat16", "bf16"},
    {"float64", "f64"}, {"double", "f64"},  {"int", "i32"},     {"int32", "i32"}, {"int64", "i64"},
    {"long", "i64"},    {"uint8", "u8"},    {"byte", "u8"},
};
static const ForeignName FUNCTIONS[] = {
    {"Linear", "dense"},
    {"fully_connected", "dense"},
    {"fc", "dense"},
    {"conv1d", "conv"},
    {"conv2d", "conv"},
    {"conv3d", "conv"},
    {"Conv2d", "conv"},
    {"Conv2D", "conv"},
    {"max_pool2d", "maxpool"},
    {"MaxPool2d", "maxpool"},
    {"avg_pool2d", "avgpool"},
    {"view", "reshape"},
    {"cat", "concat"},
    {"permute", "transpose"},
    {"matmul", "@"},
    {"CrossEntropyLoss", "cross_entropy"},
    {"nll_loss", "cross_entropy"},
    {"MSELoss", "mse"},
    {"L1Loss", "mae"},
    {"bce", "binary_cross_entropy"},
    {"batch_norm", "batchnorm"},
    {"layer_norm", "layernorm"},
    {"swish", "silu"},
    {"conv_transpose2d", "conv_transpose"},
    {"ConvTranspose2d", "conv_transpose"},
    {"interpolate", "resized"},
    {"index_select", "take"},
    {"scatter", "scatter_set"},
    {"sort", "top_k"},
    {"argsort", "top_k"},
    {"fft", "rfft"},
    {"rint", "round"},
    {"bitwise_and", "bit_and"},
    {"bitwise_or", "bit_or"},
    {"bitwise_xor", "bit_xor"},
    {"bitwise_not", "bit_not"},
    {"left_shift", "shift_left"},
    {"right_shift", "shift_right"},
    {"arctan2", "atan2"},
    {"arctan", "atan"},
    {"arcsin", "asin"},
    {"arccos", "acos"},
    {"BatchNorm1d", "batchnorm"},
    {"BatchNorm2d", "batchnorm"},
    {"BatchNorm3d", "batchnorm"},
    {"SyncBatchNorm", "batchnorm"},
    {"LayerNorm", "layernorm"},
    {"GroupNorm", "groupnorm"},
    {"InstanceNorm2d", "instancenorm"},
    {"Embedding", "embedding"},
    {"Dropout", "dropout"},
    {"Dropout2d", "spatial_dropout"},
    {"MultiheadAttention", "self_attention"},
    {"scaled_dot_product_attention", "attention"},
    {"TransformerEncoderLayer", "transformer"},
    {"AdaptiveAvgPool2d", "adaptive_avgpool"},
    {"AvgPool2d", "avgpool"},
    {"PixelShuffle", "pixel_shuffle"},
    {"DropPath", "stochastic_depth"},
    {"BCEWithLogitsLoss", "binary_cross_entropy"},
    {"binary_cross_entropy_with_logits", "binary_cross_entropy"},
    {"SmoothL1Loss", "huber"},
    {"HuberLoss", "huber"},
    {"KLDivLoss", "kl"},
    {"CTCLoss", "ctc"},
    {"ReLU", "relu"},
    {"GELU", "gelu"},
    {"SiLU", "silu"},
    {"Softmax", "softmax"},
    {"Sigmoid", "sigmoid"},
    {"Tanh", "tanh"},
    {"Flatten", "flatten"},
    {"unsqueeze", "insert_axis"},
    {"SGD", "sgd"},
    {"Adam", "adam"},
    {"AdamW", "adamw"},
    {"CosineAnnealingLR", "cosine"},
    {"cosine_annealing", "cosine"},
    {"CosineAnnealing", "cosine"},
    {"CosineDecay", "cosine"},
    {"CosineAnnealingWarmRestarts", "cosine"},
    {"ExponentialLR", "exponential"},
    {"ExponentialDecay", "exponential"},
    {"PolynomialLR", "polynomial"},
    {"PolynomialDecay", "polynomial"},
    {"LinearLR", "linear"},
    {"PiecewiseConstantDecay", "multistep"},
    {"StepLR", "staircase"},
    {"MultiStepLR", "multistep"},
    {"OneCycleLR", "one_cycle"},
    {"ReduceLROnPlateau", "plateau"},
    {"mse_loss", "mse"},
    {"l1_loss", "mae"},
    {"smooth_l1_loss", "huber"},
    {"kl_div", "kl"},
    {"ctc_loss", "ctc"},
    {"triplet_margin_loss", "triplet"},
    {"randn", "random_normal"},
    {"rand", "random"},
    {"detach", "stop_gradient"},
    {"flash_attention", "attention"},
    {"rotary", "rope"},
    {"gqa", "self_attention"},
    {"clip", "clamp"},
    {"amax", "max"},
    {"amin", "min"},
    {"topk", "top_k"},
    {"leakyrelu", "leaky_relu"},
    {"LeakyReLU", "leaky_relu"},
    {"Dense", "dense"},
    {"MaxPooling2D", "maxpool"},
    {"MaxPool1d", "maxpool"},
    {"MaxPool3d", "maxpool"},
    {"MaxPooling1D", "maxpool"},
    {"MaxPooling3D", "maxpool"},
    {"max_pool1d", "maxpool"},
    {"AvgPool1d", "avgpool"},
    {"AvgPool3d", "avgpool"},
    {"AveragePooling1D", "avgpool"},
    {"AveragePooling2D", "avgpool"},
    {"adaptive_avg_pool2d", "adaptive_avgpool"},
    {"AdaptiveAvgPool1d", "adaptive_avgpool"},
    {"adaptive_avg_pool1d", "adaptive_avgpool"},
    {"Conv1d", "conv"},
    {"Conv3d", "conv"},
    {"Conv1D", "conv"},
    {"Conv3D", "conv"},
    {"Conv2DTranspose", "conv_transpose"},
    {"DepthwiseConv2D", "depthwise"},
    {"SeparableConv2D", "separable"},
    {"UpSampling2D", "upsample"},
    {"Upsample", "upsample"},
    {"ZeroPadding2D", "pad"},
    {"Dropout1d", "spatial_dropout"},
    {"Dropout3d", "spatial_dropout"},
    {"SpatialDropout2D", "spatial_dropout"},
    {"InstanceNorm1d", "instancenorm"},
    {"RMSNorm", "rmsnorm"},
    {"NLLLoss", "cross_entropy"},
    {"SparseCategoricalCrossentropy", "cross_entropy"},
    {"CategoricalCrossentropy", "cross_entropy"},
    {"BinaryCrossentropy", "binary_cross_entropy"},
    {"MeanSquaredError", "mse"},
    {"Bidirectional", "bidirectional"},
    {"Concatenate", "concat"},
    {"Reshape", "reshape"},
    {"RMSprop", "rmsprop"},
    {"Adagrad", "adagrad"},
    {"ELU", "elu"},
    {"Hardswish", "hardswish"},
    {"LogSoftmax", "log_softmax"},
    {"BatchNormalization", "batchnorm"},
    {"LayerNormalization", "layernorm"},
    {"LSTM", "lstm"},
    {"GRU", "gru"},
    {"RNN", "rnn"},
};
static const ForeignName SETTINGS[] = {
    {"learning_rate", "lr"},
    {"lr_rate", "lr"},
    {"weight_decay", "decay"},
    {"batch_size", "batch"},
    {"num_epochs", "epochs"},
    {"num_steps", "steps"},
    {"max_steps", "steps"},
    {"random_seed", "seed"},
    {"max_grad_norm", "clip"},
    {"clip_grad_norm", "clip"},
    {"gradient_accumulation_steps", "accumulate"},
    {"grad_accumulation", "accumulate"},
    {"early_stopping", "patience"},
    {"gradient_checkpointing", "recompute"},
    {"activation_checkpointing", "recompute"},
    {"amp", "precision"},
    {"mixed_precision", "precision"},
    {"gradient_clipping", "clip"},
    {"grad_clip", "clip"},
    {"autocast", "precision"},
    {"dtype", "precision"},
    {"num_workers", "workers"},
    {"scheduler", "lr"},
    {"lr_scheduler", "lr"},
};
/* A word may mean several parameters; the one that the layer has is chosen. */
static const ForeignName PARAMETERS[] = {
    {"activation", "act"},
    {"dim", "axis"},
    {"dim", "axes"},
    {"dim", "order"},
    {"dims", "axes"},
    {"dims", "order"},
    {"axis", "axes"},
    {"axes", "axis"},
    {"keepdim", "keep"},
    {"keepdims", "keep"},
    {"p", "rate"},
    {"kernel_size", "size"},
    {"pool_size", "size"},
    {"strides", "stride"},
    {"use_bias", "bias"},
    {"out_channels", "width"},
    {"out_features", "width"},
    {"filters", "width"},
    {"units", "width"},
    {"hidden_size", "width"},
    {"embedding_dim", "width"},
    {"num_embeddings", "count"},
    {"num_heads", "heads"},
    {"num_groups", "groups"},
    {"is_causal", "causal"},
    {"attn_mask", "mask"},
    {"label_smoothing", "smoothing"},
    {"weight", "weights"},
    {"class_weight", "weights"},
    {"epsilon", "eps"},
    {"negative_slope", "slope"},
    {"input", "x"},
    {"tensors", "list"},
    {"size", "shape"},
    {"scale_factor", "by"},
    {"dilation_rate", "dilation"},
    {"kernel_initializer", "init"},
    {"dim_feedforward", "hidden"},
    {"dropout", "rate"},
};
static const ForeignName VALUES[] = {
    {"True", "true"},
    {"False", "false"},
    {"None", "none"},
};
static const char *const MODULES[] = {"torch", "nn", "F",     "functional", "np",    "numpy",      "jnp",
                                      "jax",   "tf", "keras", "layers",     "optim", "torchvision"};
#define PREDICT                                                                                                                  \
    "./PROGRAM predict IN -o OUT.csv writes what `output` of the model says; mgpuc --shared makes a library that predicts"
#define GENERATE                                                                                                                 \
    "./PROGRAM generate TEXT goes on with a text, with --temperature, --top-k and --top-p, and keeps keys and values by itself"
#define EXPORT "./PROGRAM export writes the model with its weights: onnx FILE, torch FILE.py or safetensors FILE (docs/export.md)"
#define INSIDE "`output h` in a model or a layer shows what is inside: ./PROGRAM predict writes it (docs/language.md, section 10)"
#define NOT_FINITE                                                                                                               \
    "a run ends at the first NaN and says what made it, unless on_nan of the train block says otherwise: mgpuc doc on_nan"
#define GRADIENTS                                                                                                                                            \
    "./PROGRAM check-gradients shows how large each weight's gradient is and which are 0, of a first batch or of --init FILE; grad_norm in --log has every " \
    "step's (mgpuc --set observe=gradients)"
#define STALL                                                                                                                    \
    "a run in which nothing moves says after --stall SECONDS (120) what each device and process is at (./PROGRAM --help)"
#define CHANCE                                                                                                                   \
    "a run that has not learned says so at its end, with causes; check-gradients names weights that nothing moves (docs/tour.md, section 10)"
#define LOGS "./PROGRAM --log RUN.jsonl and --tensorboard DIR write what a run did; mgpuc plot RUN.jsonl draws it (docs/logs.md)"
#define TIED                                                                                                                     \
    "a weight may be used twice: logits = x @ transpose(wte), as in examples/gpt2.net; shared(layer) is one layer for several calls"
#define NOT_SPLIT                                                                                                                \
    "devices share samples, gradients, optimizer and weights (--shard); no layer is split over them, and no pipeline is built"
static const ForeignName TOPICS[] = {
    {"predict", PREDICT},
    {"infer", PREDICT},
    {"inference", PREDICT},
    {"serve", PREDICT},
    {"eval", "./PROGRAM eval prints loss and metrics of saved weights; in a model, training is false then"},
    {"evaluate", "./PROGRAM eval prints loss and metrics of saved weights; in a model, training is false then"},
    {"fit", "mgpuc MODEL.net -o PROGRAM makes a program, and ./PROGRAM trains as data and train blocks say"},
    {"summary", "mgpuc check MODEL.net lists layers, shapes, parameters and FLOPs"},
    {"generate", GENERATE},
    {"temperature", GENERATE},
    {"top_p", GENERATE},
    {"kv_cache", GENERATE},
    {"past_key_values", GENERATE},
    {"tokenizer", "the reader text(\"input.txt\", vocabulary = \"FOLDER\") makes tokens of a text: mgpuc doc text"},
    {"export", EXPORT},
    {"onnx", EXPORT},
    {"torchscript", EXPORT},
    {"resume", "./PROGRAM --resume DIR goes on with a saved run (docs/checkpoints.md)"},
    {"state_dict",
     "a run saves DIR/weights.safetensors, with torch.nn's names; --init FILE begins with weights, of PyTorch's files too"},
    {"load_state_dict",
     "--init FILE of a program begins with the weights of a file, and init = \"FILE\" of the train block or of a rule"},
    {"print", INSIDE},
    {"debug", INSIDE},
    {"hook", INSIDE},
    {"register_forward_hook", INSIDE},
    {"nan", NOT_FINITE},
    {"NaN", NOT_FINITE},
    {"isnan", "x == x is false where x is NaN: where(x == x, x, 0)"},
    {"detect_anomaly", NOT_FINITE},
    {"gradient", GRADIENTS},
    {"gradients", GRADIENTS},
    {"grad_norm", GRADIENTS},
    {"exploding", GRADIENTS},
    {"exploding_gradients", GRADIENTS},
    {"vanishing", GRADIENTS},
    {"vanishing_gradients", GRADIENTS},
    {"dead_relu", GRADIENTS},
    {"dying_relu", GRADIENTS},
    {"hang", STALL},
    {"stall", STALL},
    {"stuck", STALL},
    {"deadlock", STALL},
    {"timeout", STALL},
    {"chance", CHANCE},
    {"underfitting", CHANCE},
    {"loss_not_decreasing", CHANCE},
    {"gradcheck", "./PROGRAM check-gradients compares gradients with finite differences (./PROGRAM --help)"},
    {"tensorboard", LOGS},
    {"wandb", LOGS},
    {"history", LOGS},
    {"callbacks", LOGS},
    {"profile", "./PROGRAM bench --profile says how long each operation takes, --trace FILE draws a timeline (docs/traces.md)"},
    {"profiler", "./PROGRAM bench --profile says how long each operation takes, --trace FILE draws a timeline (docs/traces.md)"},
    {"moe", "docs/language.md, section 10, has a mixture of experts whole"},
    {"mixture_of_experts", "docs/language.md, section 10, has a mixture of experts whole"},
    {"tied", TIED},
    {"weight_tying", TIED},
    {"tie_weights", TIED},
    {"tensor_parallel", NOT_SPLIT},
    {"pipeline_parallel", NOT_SPLIT},
    {"sequence_parallel", NOT_SPLIT},
    {"no_grad", "evaluation and prediction compute no gradients; in a model, nothing flows back through stop_gradient(x)"},
    {"label_smoothing", "it is an argument of the loss: cross_entropy(logits, label, smoothing = 0.1)"},
    {"checkpoint", "runs save by themselves, as 'save' and 'keep' of the train block say, and go on with --resume "
                   "(docs/checkpoints.md); activations are "
                   "computed again by 'recompute'"},
    {"GlobalAveragePooling2D", "the mean over height and width is mean(x, [0, 1])"},
    {"global_avg_pool", "the mean over height and width is mean(x, [0, 1])"},
    {"global_avgpool", "the mean over height and width is mean(x, [0, 1])"},
    {"global_average_pooling", "the mean over height and width is mean(x, [0, 1])"},
    {"GlobalAveragePooling1D", "the mean over the steps of a sequence is mean(x, 0)"},
    {"GlobalMaxPooling2D", "the maximum over height and width is max(x, [0, 1])"},
    {"global_max_pool", "the maximum over height and width is max(x, [0, 1])"},
    {"Sequential", "layers follow each other in a pipeline: x |> dense(128, act = relu) |> dense(10)"},
    {"num_layers",
     "layers follow each other: x |> lstm(128) |> dropout(0.2) |> lstm(128) are two of lstm, with a dropout between them"},
    {"batch_first", "a model describes one sample, so there is no axis of the batch: a sequence is [steps, width]"},
    {"return_sequences", "recurrent layers return the outputs of all steps, and the last state: y, h = x |> gru(128)"},
    {"in_channels", "the width of what comes in is that of the input: it is not given"},
    {"in_features", "the width of what comes in is that of the input: it is not given"},
    {"input_size", "the width of what comes in is that of the input: it is not given"},
    {"inplace", "what is computed in place is the compiler's to find: it is not given"},
    {"gan",
     "both networks are in one model, the discriminator as shared(layer). What the generator drew goes into it as (1 + s) * "
     "stop_gradient(x) - s * x, "
     "which reverses the gradient; s = exp(-logit), without which the generator stops learning. docs/recipes.md has it whole"},
    {"DDP", "devices are options, not words of the language: see --devices in mgpuc --help"},
    {"DistributedDataParallel", "devices are options, not words of the language: see --devices in mgpuc --help"},
    {"DataParallel", "devices are options, not words of the language: see --devices in mgpuc --help"},
    {"shuffle", "training takes samples in a new order in every epoch; an option of the reader says otherwise, as in "
                "csv(\"t.csv\", shuffle = false)"},
    {"loss", "a loss is a statement of the model, as in loss cross_entropy(logits, label)"},
    {"metrics", "a metric is a statement of the model, as in metric accuracy(logits, label)"},
    {"device", "devices are options, not words of the language: see --devices in mgpuc --help"},
    {"devices", "they are options, not words of the language: see --devices in mgpuc --help"},
    {"nodes", "they are options, not words of the language: see --devices in mgpuc --help"},
    {"FSDP", "what devices share is an option, not a word of the language: see --shard in mgpuc --help"},
    {"fsdp", "what devices share is an option, not a word of the language: see --shard in mgpuc --help"},
    {"ZeRO", "what devices share is an option, not a word of the language: see --shard in mgpuc --help"},
    {"zero1", "what devices share is an option, not a word of the language: see --shard in mgpuc --help"},
    {"zero3", "what devices share is an option, not a word of the language: see --shard in mgpuc --help"},
    {"DeepSpeed", "what devices share is an option, not a word of the language: see --shard in mgpuc --help"},
    {"shard", "what devices share is an option, not a word of the language: see --shard in mgpuc --help"},
    {"bucket", "it is an option, not a word of the language: see --bucket in mgpuc --help"},
    {"buckets", "they are options, not words of the language: see --bucket in mgpuc --help"},
};

static const char *find(const ForeignName *rows, int count, const char *word)
{
    for (int k = 0; k < count; k++)
        if (strcmp(rows[k].word, word) == 0)
            return rows[k].here;
    return NULL;
}

const char *type_called(const char *word) { return find(TYPES, COUNT(TYPES), word); }
const char *function_called(const char *word) { return find(FUNCTIONS, COUNT(FUNCTIONS), word); }
const char *setting_called(const char *word) { return find(SETTINGS, COUNT(SETTINGS), word); }
const char *value_called(const char *word) { return find(VALUES, COUNT(VALUES), word); }
const char *topic_called(const char *word) { return find(TOPICS, COUNT(TOPICS), word); }

const char *parameter_called(const char *word, const char *const *names, int count)
{
    for (int k = 0; k < COUNT(PARAMETERS); k++)
        for (int n = 0; n < count && strcmp(PARAMETERS[k].word, word) == 0; n++)
            if (strcmp(names[n], PARAMETERS[k].here) == 0)
                return names[n];
    return NULL;
}

const char *any_parameter_called(const char *word) { return find(PARAMETERS, COUNT(PARAMETERS), word); }

bool is_module_elsewhere(const char *word)
{
    for (int k = 0; k < COUNT(MODULES); k++)
        if (strcmp(MODULES[k], word) == 0)
            return true;
    return false;
}
