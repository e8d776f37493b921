/* mgpu.h: the interface between a generated program and the runtime. A generated program includes only this header. It consists
 * of kernels (C functions) and constant tables that describe them; main() calls mgpu_main.
 *
 * Sizes in bytes say so; offsets are bytes from the start of a device's arena. */
#ifndef MGPU_H
#define MGPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MGPU_INTERFACE 31 /* version of this interface; programs reject runtimes of another version */
#define MGPU_VERSION "0.1.0"

#include "mgpu_numbers.h"
#include "mgpu_types.h"
enum { MGPU_MAX_RANK = 8 };

#include "mgpu_step.h"
#include "mgpu_transfers.h"

/* A kernel is run by a device's thread pool: each call does a part of the work. Arguments are the tensors that it reads, those
 * that it writes, then the workspace of the calling thread. */
typedef struct mgpu_part {
    int64_t samples;     /* at full shape: the device's capacity */
    int64_t begin, end;  /* MGPU_SPLIT_SAMPLES: of the samples; MGPU_SPLIT_RANGE: of the kernel's extent; else 0 and 1 */
    int thread, threads; /* number of the calling thread, and of all threads */
    bool first;          /* the thread's first call of this kernel in this operation: its partial sums start at 0 */
    int64_t stride;      /* bytes from one thread's workspace to that of the next */
    bool exact;          /* the order of a sum may depend on its terms alone, not on how many samples or threads there are */
} mgpu_part;
typedef void mgpu_kernel_function(void *const *argument, const mgpu_step *step, const mgpu_part *part);

enum {
    MGPU_SPLIT_NONE, /* one thread does all */
    /* Any ranges of samples, in any number of calls, each sample once. A call accesses only the elements of its samples in
     * tensors that have samples, and otherwise writes only its workspace. */
    MGPU_SPLIT_SAMPLES,
    MGPU_SPLIT_RANGE,  /* any ranges of [0, extent), each index once; ranges begin at multiples of `grain` */
    MGPU_SPLIT_WORKERS /* every thread calls it once; it divides the work by `thread` and `threads` */
};
typedef struct mgpu_kernel {
    const char *name;
    mgpu_kernel_function *run;
    /* NULL, or called by one thread when all parts are done: argument[] is that of thread 0, and the workspaces of all threads
     * have the partial sums */
    mgpu_kernel_function *finish;
    int line; /* in the model */
    uint8_t split;
    int64_t extent, grain;                      /* MGPU_SPLIT_RANGE */
    const struct mgpu_contraction *contraction; /* what `run` computes, if a library can compute it instead; else NULL */
    /* of exact programs, MGPU_SPLIT_SAMPLES: the order of additions depends on how many samples a call has, so each call has so
     * many of a virtual shard, from its first one on, and the last call the rest; 0: it does not depend on it */
    int64_t unit;
    /* of exact programs: the types of its results, which are sums over samples without `finish`: they may be computed for some
     * samples at a time, and added; else NULL */
    const uint8_t *sums;
} mgpu_kernel;

/* Kernels of a GPU are functions of the images (docs/cuda.md). Their parameters are the kernel's arguments, then the step block,
 * then int64_t n, the samples of the device. */
typedef struct mgpu_launch {
    const char *function;                             /* in the image; NULL: no launch */
    int64_t iterations, iterations_per_sample, group; /* + per_sample x samples, or, if group > 0, x ceil(samples / group) */
    int64_t per_block, most;                          /* blocks = ceil(iterations / per_block), at least 1, at most `most` */
    int threads, shared_bytes;                        /* per block; shared_bytes: dynamic */
    int64_t from, to;                                 /* it has work if from <= samples and, if to > 0, samples < to */
    bool waits;                                       /* every thread waits for the previous kernel (mgpu_device.h) */
} mgpu_launch;

static inline bool mgpu_launch_has_work(const mgpu_launch *l, int64_t samples)
{
    return l->function && samples >= l->from && (l->to == 0 || samples < l->to);
}

/* A matmul that a library may compute in place of a kernel, for each element of a batch: d = a b, with matrices stored by
 * columns, or by rows if `transposed`. Numbers are in elements. */
typedef struct mgpu_library_matrix {
    uint8_t argument, type; /* argument: of the kernel; type: MGPU_F32 ... */
    bool transposed;
    int64_t first, pitch, batch_stride; /* offset; distance of columns (rows if transposed; 0: no gaps), of batch elements */
} mgpu_library_matrix;
typedef struct mgpu_library_matmul {
    mgpu_library_matrix a, b, d;
    int64_t extent[4]; /* rows and columns of d, K dimension, batch */
    int sampled;       /* which of these is per sample; -1: none */
    uint8_t sums;      /* MGPU_F32 or MGPU_F64 */
    bool tf32;         /* f32 operands may be rounded to tf32 */
} mgpu_library_matmul;
/* A convolution or one of its gradients, for a library: y = w * x; the kernel computes one of the three from the other two. x and
 * y are [sample, place, channel] without gaps. A one-dimensional convolution has a first dimension of extent 1. */
enum { MGPU_CONVOLUTION_Y, MGPU_CONVOLUTION_X, MGPU_CONVOLUTION_W }; /* the result */
enum {
    MGPU_FILTER_OUT_TAPS_IN, /* order of w in memory, the outermost axis first; this one is the library's */
    MGPU_FILTER_TAPS_IN_OUT,
    MGPU_FILTER_OUT_IN_TAPS
};
typedef struct mgpu_library_convolution {
    uint8_t result, filter, type;                    /* MGPU_CONVOLUTION_..., MGPU_FILTER_..., MGPU_F32 ... of all three */
    bool tf32;                                       /* f32 operands may be rounded to tf32 */
    uint8_t x, w, y;                                 /* arguments of the kernel */
    int dims;                                        /* 2 or 3 */
    int64_t groups, in, out;                         /* channels of all groups */
    int64_t inputs[3], taps[3], outputs[3];          /* extents: places of x, of w, of y */
    int64_t stride[3], dilation[3], low[3], high[3]; /* low, high: padding */
} mgpu_library_convolution;
/* A kernel that is the epilogue of a contraction, which precedes it in the lane. A library may compute both in the call of this
 * kernel, and the contraction's call does nothing. d is the contraction's result; biases and sums have one number per row of it.
 * The call's arguments are what the kernel reads; a, b; what the kernel writes; d, if the library stores something there, which
 * is then also among what is read; and a workspace. */
enum {
    MGPU_EPILOGUE_NONE,
    MGPU_EPILOGUE_BIAS,  /* y = d + bias */
    MGPU_EPILOGUE_RELU,  /* y = relu(d) or relu(d + bias) */
    MGPU_EPILOGUE_GELU,  /* likewise, by tanh. If the call writes d (training), the library stores d + bias there */
    MGPU_EPILOGUE_DGELU, /* y = d gelu'(before + bias), with what the library stored for `before` + bias; sums of y's rows */
    MGPU_EPILOGUE_BGRAD  /* sums of a or b over K; the library stores d, too */
};
typedef struct mgpu_epilogue {
    uint8_t kind;
    uint8_t reads, writes;  /* arguments of the kernel, */
    bool workspace;         /* and whether it has a workspace */
    int8_t x, bias, before; /* indices in what it reads: d, or a or b; -1: none */
    int8_t y, sums;         /* indices in what it writes */
} mgpu_epilogue;
enum { MGPU_MOMENTS = 255 }; /* among types: elements that are merged (mgpu_moments.h) */
typedef struct mgpu_gpu_kernel {
    const char *name;
    int line;                          /* in the model */
    mgpu_launch launch[2];             /* the second one sums the partial results of the first one's blocks */
    const mgpu_library_matmul *matmul; /* what it computes, if a library can instead; the last argument is then a workspace */
    const mgpu_library_convolution *convolution; /* likewise, without workspace; at most one of the two is set */
    mgpu_epilogue epilogue;                      /* used in calls that follow a contraction's */
    /* NULL, or the last parameter, passed by value: of contractions mgpu_numbers, one for each part; of others the paths of their
     * random numbers, uint64_t each, or words of mgpu_parameters */
    const void *parameters;
    bool unused_workspace;       /* the function has a parameter for a workspace, which it does not use here */
    bool library_work;           /* only the library uses the workspace: the function has no parameter for it */
    int calls_per_launch, words; /* > 0: most calls of a table (mgpu_calls in mgpu_device.h); their words of `parameters` */
    int in_tiles_of;             /* --tune: 1 + the kernel of which this is an alternative with other tiles; 0: none */
    /* of exact programs: the types of its results, which are sums over samples, or have samples: it is launched for each virtual
     * shard, and the sums are added; MGPU_MOMENTS: three numbers of f64; else NULL */
    const uint8_t *sums;
} mgpu_gpu_kernel;
/* A table of calls is a parameter; all parameters have at most 4 KB (CUDA C++ Programming Guide, Function Parameters), including
 * the step block's address. A row has a call's samples, arguments, first block and words. */
enum { MGPU_TABLE_BYTES = 4096 - 16 };
static inline int mgpu_call_bytes(int arguments, int words) { return 8 + 8 * arguments + 4 + 4 * words; }
/* Code for an architecture: "sm_90", "compute_80" (PTX), "vgpu". Several images of one architecture contain different kernels.
 * arch NULL ends the list. */
typedef struct mgpu_image {
    const char *arch;
    const uint8_t *bytes;
    int64_t size;
    int cuda; /* NVRTC 13.0: 13000 */
} mgpu_image;

enum { MGPU_COMP, MGPU_COPY, MGPU_COMM, MGPU_SYNC, MGPU_HOST, MGPU_LANES };
/* clang-format off */
#define MGPU_LANE_NAMES {"comp", "copy", "comm", "sync", "host"}
/* clang-format on */
/* Returns true for lanes with transfers between devices. */
static inline bool mgpu_lane_transfers(int lane) { return lane == MGPU_COMM || lane == MGPU_SYNC; }
/* Returns true for lanes that wait for each other at a change of phase. */
static inline bool mgpu_lane_synchronizes(int lane) { return lane == MGPU_COMP || mgpu_lane_transfers(lane); }
enum { MGPU_CALL, MGPU_READ, MGPU_UPLOAD, MGPU_TRANSFER, MGPU_REPORT, MGPU_FETCH };
/* clang-format off */
enum { MGPU_STAGING, MGPU_STEP, MGPU_INPUT, MGPU_VARIABLE, MGPU_REPORT_BUFFER, MGPU_OUTPUT, MGPU_TEMPORARY, MGPU_BUCKET, MGPU_WORKSPACE,
       MGPU_LOCAL /* room for the samples of one chunk of a thread */ };
/* clang-format on */

typedef struct mgpu_buffer {
    const char *name; /* without the device: "in.image", "w.fc.weight", "conv_1.y", "bucket.fc.weight", "work.conv_1.forward" */
    uint8_t kind;     /* MGPU_STAGING ... */
    uint8_t type;     /* 1 + the type of its elements; 0: mixed, or no numbers (the step block, a workspace) */
    int64_t offset, bytes; /* bytes of one slot; slots are contiguous, each aligned to 64 */
    int slots;             /* 1: not slotted */
    int index;             /* of the input, variable or output; else -1 */
    int64_t each;          /* bytes of one sample; 0: the same for all samples */
    int64_t elements;      /* VARIABLE, TEMPORARY: elements of the split value of which it has the device's part; 0: not split */
    int text_line;         /* of the text that it was read from; 0: of none. Likewise in all records of a schedule */
    bool updated;          /* VARIABLE: calls of this phase write all of it, once per step */
    bool replaced;         /* such a call replaces a part of it, and other calls read it afterwards; else they read it before */
} mgpu_buffer;
static inline uint8_t mgpu_buffer_type(const mgpu_buffer *b) { return b->type ? (uint8_t)(b->type - 1) : (uint8_t)MGPU_U8; }
static inline int64_t mgpu_slot_bytes(int64_t bytes) { return (bytes + 63) / 64 * 64; } /* distance of slots */
/* Bytes [begin, end) of slot (step + slot) mod slots. of > 0: they are the device's part of a split value of so many bytes. */
typedef struct mgpu_access {
    int buffer, slot;
    int64_t begin, end, of;
} mgpu_access;
typedef struct mgpu_wait {
    int op, back;
} mgpu_wait;                       /* op of this device and phase, `back` steps ago */
enum { MGPU_STEPS_IN_FLIGHT = 4 }; /* steps that a lane may be ahead of the last step that all lanes have finished */

/* An operation of a kernel that may make NaN or infinity of finite numbers: "log", of the layer "head.fc", in this line. word "":
 * only the size of results may cause it. "require" (these come first): makes NaN of values that violate `required`. */
typedef struct mgpu_nan_source {
    const char *word, *layer;
    int line;
    const char *required;
} mgpu_nan_source;
/* Consecutive calls with the same `region` run without a barrier of the workers between them: each thread takes `chunk` of its
 * samples at a time through all of them. */
typedef struct mgpu_op {
    const char *id; /* without the device: "conv_1.backward.weight" */
    uint8_t lane, verb;
    int target;        /* CALL: number of the kernel; TRANSFER: of the collective; FETCH: of the output */
    const char *label; /* "k3f07aa", "conv_1.weight", "probability"; "-": none; not in programs */
    /* CALL: in the order of the kernel's arguments; the workspace is the last write; the last read is the step block, which is no
     * argument */
    mgpu_access *reads, *writes;
    int read_count, write_count;
    mgpu_wait *waits;
    int wait_count;
    int text_line;
    double begin_us, time_us; /* not in programs */
    int ground;               /* CALL, TRANSFER: the basis of time_us (Ground, machine/cost.h); in neither text nor program */
    int line;                 /* in the model; 0: none */
    const char *layer, *role; /* "layer3.2.conv2", "backward weight" (names.c); NULL: none; "" in programs */
    /* CALL: the part of its time that members of the other pass take: of a forward call those of the backward pass, and the other
     * way round; 0: it has none. Not in programs */
    double other_pass;
    double flops;  /* CALL: operations of one call */
    double bytes;  /* CALL: bytes that it moves by the cost model, for epilogues without the contraction's operands */
    int region;    /* CALL: number of its barrier-free region, from 0; calls of a region are consecutive. Else -1 */
    int64_t chunk; /* CALL: samples that a thread takes through the region at a time; equal in the whole region */
    const mgpu_nan_source *nan_sources;
    int nan_source_count; /* CALL; not in the text */
    uint32_t digest;      /* CALL: of what it computes from what; equal for all numbers of devices except one */
    int64_t elements;     /* CALL: it computes the part `own` of split values of so many elements; 0: of none */
    mgpu_range own;
    bool by_sample; /* CALL: may be called for any samples, and accesses only these in buffers with samples */
} mgpu_op;
static inline mgpu_access *mgpu_access_of(const mgpu_op *op, int i) /* reads, then writes */
{
    return i < op->read_count ? &op->reads[i] : &op->writes[i - op->read_count];
}
static inline int64_t mgpu_own_elements(const mgpu_op *op) { return op->own.end - op->own.begin; }

typedef struct mgpu_collective {
    const char *name; /* "conv_1.weight": its first tensor */
    int *ops;         /* [device]: its member; -1: none */
    int64_t count;
    uint8_t dtype;                  /* of the whole value */
    mgpu_participants participants; /* the transfer, and what each member sends and receives */
    uint8_t implementation;         /* MGPU_IMPLEMENTATION_...: the implementation */
    uint8_t lane;                   /* of its members; not in the text */
    int text_line;
    const char *why; /* for people; NULL: nothing */
    const char **of;
    int of_count; /* likewise: the weights whose gradients it sums, or other values */
} mgpu_collective;

typedef struct mgpu_device_phase {
    const char *name;
    int64_t arena_bytes, staging_bytes, first, share, capacity;
    int64_t work_bytes;  /* the end of the arena, for workspaces; each worker has such a part */
    int64_t least_bytes; /* a lower bound of the arena for any offsets; only while it is planned */
    int as;              /* the device whose lists of buffers and operations it shares; its own number: it has its own */
    mgpu_buffer *buffers;
    int buffer_count;
    mgpu_op *ops;
    int op_count; /* the order within a lane is that of this list */
    int text_line;
    struct mgpu_names *buffer_names, *op_names; /* of a text that was read: numbers of buffers and operations */
} mgpu_device_phase;

/* clang-format off */
enum { MGPU_PHASE_INIT, MGPU_PHASE_PROLOGUE, MGPU_PHASE_ACCUMULATE, MGPU_PHASE_TRAIN, MGPU_PHASE_EVAL, MGPU_PHASE_PREDICT,
       MGPU_PHASE_REPORT_TRAIN, MGPU_PHASE_REPORT_EVAL, MGPU_PHASE_DECODE,
       MGPU_PHASE_TRAIN_MORE /* of the second objective, the third, ... */ };
/* clang-format on */
enum { MGPU_MOST_OBJECTIVES = 8, MGPU_PHASE_KINDS = MGPU_PHASE_TRAIN_MORE + MGPU_MOST_OBJECTIVES - 1 };
static inline int mgpu_train_kind(int objective) /* from 0 */
{
    return objective ? MGPU_PHASE_TRAIN_MORE + objective - 1 : MGPU_PHASE_TRAIN;
}
static inline bool mgpu_is_train_kind(int kind) /* a phase that ends an update */
{
    return kind == MGPU_PHASE_TRAIN || kind >= MGPU_PHASE_TRAIN_MORE;
}
enum {
    MGPU_EVERY_TRAIN_KIND = 1 << MGPU_PHASE_PROLOGUE | 1 << MGPU_PHASE_ACCUMULATE | 1 << MGPU_PHASE_TRAIN |
                            ((1 << MGPU_PHASE_KINDS) - (1 << MGPU_PHASE_TRAIN_MORE))
}; /* bits 1 << kind */
/* MGPU_PHASE_DECODE: its samples are texts. Hidden inputs have the token at one place of each text, and the row of the model's
 * output for that place goes into a variable. Earlier places, from 0 on, have been decoded before, in the same sample. */
#define MGPU_DECODE_TOKEN "decode.token"
#define MGPU_DECODE_PLACE "decode.place"
#define MGPU_DECODE_ROW "decode.row"
typedef struct mgpu_phase {
    const char *name;
    uint8_t kind;
    bool partial_batch;
    int text_line;
    mgpu_device_phase *devices;
    mgpu_collective *collectives;
    int collective_count;
    const char *const *reports;
    int report_count; /* names of the doubles in the report buffer */
} mgpu_phase;

typedef struct mgpu_shard {
    int64_t first, share, capacity;
} mgpu_shard; /* samples of a micro-batch */
typedef struct mgpu_room {
    int64_t samples, bytes, work;
} mgpu_room; /* bytes: bound of the arena without `work`: workspaces */
typedef struct mgpu_device {
    mgpu_shard shard;
    int64_t arena_bytes, staging_bytes;
    int64_t work_bytes;             /* workspaces, at the end of the arena. Those of threads 1, 2, ... are after the arena */
    const int64_t *variable_offset; /* [variable], in the arena */
    const mgpu_room *rooms;
    int room_count; /* of a GPU, for 1, 2, 4, ... groups of samples */
} mgpu_device;

/* Predictions for a training step on the machine that the plan was made for, in microseconds: of the step, and, for the device
 * that computes longest, of computing and transfers. bound: what takes most of it; from: the basis of the prediction, in words.
 * step_us 0: nothing is predicted. */
typedef struct mgpu_prediction {
    const char *machine, *bound, *from;
    double step_us, computing_us, transfer_us;
} mgpu_prediction;
typedef struct mgpu_plan {
    const char *kind; /* "host", "cuda" */
    int devices;
    int64_t micro; /* samples of a full micro-batch */
    bool always_partial;
    const uint64_t *image;  /* the verified schedule: runtime/schedule/image.c */
    const mgpu_room *rooms; /* of a GPU, with 1, 2, 4 ... groups of samples; the last has none. NULL: of no GPU */
    mgpu_prediction predicted;
    /* unpacked from the image when the plan is chosen (runtime/run/plans.c); 0 in the program's table */
    const mgpu_device *device;
    const mgpu_phase *phases;
    int phase_count;
} mgpu_plan;

/* clang-format off */
enum { MGPU_WEIGHT, MGPU_STATE, MGPU_OPTIMIZER_STATE, MGPU_ACCUMULATOR, MGPU_ROUNDED /* a copy; never saved */,
       MGPU_AVERAGE /* of another variable over the steps; evaluation reads it in place of that one */,
       MGPU_OBSERVED /* the last step's gradient, WEIGHT.gradient, for --histograms; never saved */,
       MGPU_CACHE /* kept by MGPU_PHASE_DECODE from place to place; never saved */ };
/* clang-format on */
typedef struct mgpu_tensor {
    const char *name;
    uint8_t dtype;
    int rank;
    int64_t extent[MGPU_MAX_RANK];
} mgpu_tensor;
typedef struct mgpu_variable {
    mgpu_tensor tensor;       /* shape as saved */
    int order[MGPU_MAX_RANK]; /* order of its axes in memory */
    uint8_t kind;
    bool partial;          /* ACCUMULATOR: each device has a partial sum; false: all devices have the same */
    bool split;            /* each device has its part of the elements: mgpu_even_part */
    const char *flattened; /* shape of channels-last images that a dense layer flattens; NULL: no such layer */
    bool sharded;          /* MGPU_CACHE: each device has one per sample; `tensor` is that of a sample */
} mgpu_variable;
typedef struct mgpu_copy {
    int copy, master;
} mgpu_copy; /* of equal shape and order; copy is rounded */
enum { MGPU_NO_LABEL = INT32_MIN };
typedef struct mgpu_input {
    mgpu_tensor tensor;
    int64_t classes, ignore, other; /* classes 0: not a class; ignore, other: MGPU_NO_LABEL if there is none */
    const char *required; /* says in words that elements must be integers from `least` to `most`; NULL: no requirement */
    int64_t least, most;
    bool hidden; /* not an input of the model: the runtime fills it */
} mgpu_input;
/* A data set: its calls are a reader, then stages. Columns are the reader's: `texts` are a column's arguments (paths, columns of
 * a table), none if its name suffices; input -1: only a stage uses it. */
typedef struct mgpu_item {
    const char *text;
    double number;
} mgpu_item; /* text NULL: a number */
typedef struct mgpu_option {
    const char *name;
    const mgpu_item *items;
    int count;
} mgpu_option;
typedef struct mgpu_call {
    const char *name;
    const mgpu_option *options;
    int option_count, line;
} mgpu_call;
typedef struct mgpu_column {
    const char *name;
    int input;
    const char *const *texts;
    int count, line;
} mgpu_column;
typedef struct mgpu_set {
    const char *name;
    const mgpu_column *columns;
    int column_count;
    const mgpu_call *calls;
    int call_count;
} mgpu_set;
typedef struct mgpu_later_set {
    const char *name, *what;
    int line;
} mgpu_later_set; /* a set that needs what mgpuc does not support yet */
/* value: of the model, NaN if computed */
typedef struct mgpu_setting {
    const char *name;
    double value;
    bool hidden;
} mgpu_setting;
/* a setting or param as compiled, for the log */
typedef struct mgpu_setting_text {
    const char *name, *text;
    bool param;
} mgpu_setting_text;
/* ---- the course of a run */
/* clang-format off */
enum { MGPU_UNIT_NONE /* not given */, MGPU_UNIT_NEVER, MGPU_UNIT_STEPS, MGPU_UNIT_EPOCHS, MGPU_UNIT_SAMPLES, MGPU_UNIT_SECONDS,
       MGPU_UNIT_TIMES /* validations */ };
/* clang-format on */
typedef struct mgpu_quantity {
    double amount;
    uint8_t unit;
} mgpu_quantity;
typedef struct mgpu_watch {
    const char *metric;
    bool highest;
} mgpu_watch; /* a validation result; metric NULL: none */
/* settings[setting], initially 1, is multiplied by `factor` when the result has not improved for `patience`. */
typedef struct mgpu_plateau {
    int setting;
    mgpu_watch watch;
    double factor;
    mgpu_quantity patience;
} mgpu_plateau;
/* An objective has updates of its own, which change its weights alone. A round is `times` updates of each. */
typedef struct mgpu_objective {
    const char *name;
    int64_t times;
} mgpu_objective;
/* A file that a fresh run starts from: variables[i] is names[i] in it. pattern NULL: the names are the model's. path NULL: a part
 * that a file of the whole model does not start. array: a .npy file for one variable. */
typedef struct mgpu_initial {
    const char *path, *pattern;
    bool array;
    int line;
    const int *variables;
    const char *const *names;
    int count;
    const char *rules; /* for names and shapes: a name of the library, a path, or their text; NULL: the file's own */
} mgpu_initial;
enum { MGPU_NAN_STOP, MGPU_NAN_SKIP /* by the program itself */, MGPU_NAN_IGNORE };
typedef struct mgpu_layer {
    const char *name;
    mgpu_tensor shape;
    int64_t parameters;
    int line;
} mgpu_layer;

/* What `export KIND` writes, compressed by zlib: ONNX's graph without weights, or a module of PyTorch without its first lines. */
typedef struct mgpu_exported {
    const char *kind, *packed;
    int64_t packed_bytes, bytes;
    const int *variables;
    int variable_count;  /* that it reads */
    const char *refused; /* why it cannot be exported, with layer and line; NULL: it can */
} mgpu_exported;

typedef struct mgpu_program {
    int interface; /* MGPU_INTERFACE */
    const char *name, *model_file, *command, *precision;
    int64_t parameters, batch, accumulate, epochs, steps, group, exact;
    uint64_t seed;
    const mgpu_kernel *kernels;         /* of programs for host devices; else NULL */
    const mgpu_gpu_kernel *gpu_kernels; /* of programs for GPUs, with `images`; else NULL */
    const mgpu_image *images;
    int kernel_count;
    const uint64_t *kernel_digests; /* identify kernels across programs; NULL: not known */
    const mgpu_variable *variables;
    int variable_count;
    const mgpu_copy *copies;
    int copy_count; /* recomputed when their masters are loaded */
    const mgpu_copy *averages;
    int average_count; /* copy: the MGPU_AVERAGE; master: the averaged variable */
    const mgpu_input *inputs;
    int input_count;
    const mgpu_tensor *outputs;
    int output_count;
    const mgpu_set *sets;
    int set_count;
    const mgpu_later_set *later;
    int later_count; /* sets of the model that the program lacks */
    const mgpu_setting *settings;
    int setting_count; /* settings of --set at run time */
    const mgpu_setting_text *told;
    int told_count;
    mgpu_quantity validate, save, patience;
    int64_t keep; /* checkpoints; 0: not given */
    mgpu_watch best;
    uint8_t on_nan;
    const mgpu_objective *objectives;
    int objective_count; /* 0: every update is of all losses and weights */
    const mgpu_plateau *plateaus;
    int plateau_count;
    const mgpu_initial *initials;
    int initial_count;
    const char *const *fixed_settings;
    int fixed_setting_count; /* params and settings fixed at compile time, for a message */
    const mgpu_layer *layers;
    int layer_count;
    /* of evaluation: library layers, inputs, variables, and operations outside of these, before what uses them. Options: "path";
     * arguments that are numbers, texts, layers or nothing; "NAME*": a tensor: the row that makes it, the index of its first
     * element there, its extents */
    const mgpu_call *outline;
    int outline_count;
    const struct mgpu_family_exports *families; /* exports to families of models; NULL: without an outline there are none */
    const mgpu_plan *plans;
    int plan_count;
    int default_plan;
    const char *gpus;                          /* mgpuc's --devices, for runs without that option; NULL: none */
    const char *policy;                        /* mgpuc's --plan: "ps-cpu"; NULL: mgpuc chose */
    const char *policy_label;                  /* its label: "one step stale"; NULL: none */
    bool unsaved;                              /* devices do not train the weights, and nothing is saved */
    bool predicts;                             /* the program has no training phase */
    const char *identity;                      /* 64 hexadecimal digits: identifies what the model computes; NULL: not known */
    struct mgpu_processes *(*processes)(void); /* mgpuc --mpi: the processes started together, NULL: one; else NULL */
    const mgpu_exported *exported;
    int exported_count;          /* 0: the model has no outputs, or is a library */
    const char *library_folders; /* "A:B": further folders where mgpuc found CUDA's libraries, or NULL */
} mgpu_program;

int mgpu_main(const mgpu_program *, int argc, char **argv);
extern const struct mgpu_family_exports mgpu_family_exports; /* runtime/export/export.h; linked only if it is named */

/* ---- called by the functions of a library (mgpuc --shared); its header documents them */
typedef struct mgpu_model mgpu_model;
typedef struct mgpu_model_tensor {
    const char *name, *type;
    int rank;
    const int64_t *shape;
    int64_t bytes;
} mgpu_model_tensor;
mgpu_model *mgpu_model_open(const mgpu_program *, const char *weights, int threads);
const char *mgpu_model_error(void);
const mgpu_model_tensor *mgpu_model_input(const mgpu_model *, int number);
const mgpu_model_tensor *mgpu_model_output(const mgpu_model *, int number);
int mgpu_model_run(mgpu_model *, int64_t samples, const void *const *inputs, void *const *outputs);
void mgpu_model_close(mgpu_model *);

#ifdef MGPU_KERNELS
#include "mgpu_kernel.h"
#endif
#endif
