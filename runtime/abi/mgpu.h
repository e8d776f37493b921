/* mgpu.h: the interface between a generated program and the runtime. A generated program includes this header and
 * nothing else: it consists of kernels (C functions) and constant tables that describe them; main() calls mgpu_main.
 *
 * Everything whose size is in bytes says so; offsets are bytes from the start of a device's arena. */
#ifndef MGPU_H
#define MGPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MGPU_INTERFACE 27  /* version of this interface; a program refuses a runtime of another one */
#define MGPU_VERSION "0.1.0"

#include "mgpu_numbers.h"
#include "mgpu_types.h"
enum { MGPU_MAX_RANK = 8 };

#include "mgpu_step.h"
#include "mgpu_transfers.h"

/* A kernel is run by a device's thread pool: each call does a part of its work. Arguments are the tensors that it
 * reads, those that it writes, then the workspace of the calling thread. */
typedef struct mgpu_part {
    int64_t samples;      /* at full shape: the device's capacity */
    int64_t begin, end;   /* MGPU_SPLIT_SAMPLES: of the samples; MGPU_SPLIT_RANGE: of the kernel's extent; else 0 and 1 */
    int thread, threads;  /* who calls, of how many */
    bool first;           /* the thread's first call of this kernel in this operation: its sums begin at 0 */
    int64_t stride;       /* bytes from one thread's workspace to that of the next */
} mgpu_part;
typedef void mgpu_kernel_function(void *const *argument, const mgpu_step *step, const mgpu_part *part);

enum {
    MGPU_SPLIT_NONE,      /* one thread does all */
    MGPU_SPLIT_SAMPLES,   /* any samples, in any number of calls, each sample once: it touches the elements of these samples
                           * alone in tensors that have samples, and writes no others but its workspace */
    MGPU_SPLIT_RANGE,     /* any part of [0, extent), each once; parts begin at multiples of `grain` */
    MGPU_SPLIT_WORKERS       /* every thread calls it once; it divides the work by `thread` and `threads` */
};
typedef struct mgpu_kernel {
    const char *name;
    mgpu_kernel_function *run;
    mgpu_kernel_function *finish; /* NULL; else one thread calls it when all parts are done: argument[] is that of thread 0,
                                   * and the partial sums are in the workspaces of all */
    int line;                     /* in the model */
    uint8_t split;
    int64_t extent, grain;        /* MGPU_SPLIT_RANGE */
    const struct mgpu_contraction *contraction; /* NULL; else what `run` computes: a library may do it instead */
} mgpu_kernel;

/* The kernels of a GPU: functions of the images, as in docs/cuda.md. Their parameters are the kernel's arguments, then the
 * step block, then int64_t n, the samples of the device. */
typedef struct mgpu_launch {
    const char *function;                     /* in the image; NULL: none */
    int64_t iterations, iterations_per_sample, group; /* iterations + iterations_per_sample x samples, or, if group > 0, x ceil(samples / group) */
    int64_t per_block, most;                  /* blocks = ceil(iterations / per_block), at least 1, at most `most` */
    int threads, shared_bytes;                /* of a block; shared: dynamic */
    int64_t from, to;                         /* there is nothing to do with fewer samples than `from`, or, if to > 0, with `to` or more */
    bool waits;                               /* each of its threads, for the kernel before it (mgpu_device.h) */
} mgpu_launch;

static inline bool mgpu_launch_has_work(const mgpu_launch *l, int64_t samples)
{
    return l->function && samples >= l->from && (l->to == 0 || samples < l->to);
}

/* What a library may do in place of a kernel, for each element of a batch: d = a b, matrices by columns. One is `transposed` if it
 * is stored by rows. Numbers are in elements. */
typedef struct mgpu_library_matrix {
    uint8_t argument, type;                   /* of the kernel; MGPU_F32 ... */
    bool transposed;
    int64_t first, pitch, batch_stride;             /* where it begins; from a column to the next (0: there is one, or they are without
                                               * gaps), or from a row to the next; from an element of the batch to the next */
} mgpu_library_matrix;
typedef struct mgpu_library_matmul {
    mgpu_library_matrix a, b, d;
    int64_t extent[4];                        /* rows and columns of d, depth (K), batch */
    int sampled;                              /* which of these is times the samples; -1: none */
    uint8_t sums;                             /* MGPU_F32 or MGPU_F64 */
    bool tf32;                                /* f32 operands may be rounded to it */
} mgpu_library_matmul;
/* A convolution, or one of its gradients, as a library sees it: y = w * x, whichever of the three the kernel computes from the two
 * others. x and y are samples, places, channels without gaps. One of one dimension has a first one of extent 1. */
enum { MGPU_CONVOLUTION_Y, MGPU_CONVOLUTION_X, MGPU_CONVOLUTION_W }; /* the result */
enum { MGPU_FILTER_OUT_TAPS_IN, /* of w in memory, the outermost first: as the library wants it */
       MGPU_FILTER_TAPS_IN_OUT, MGPU_FILTER_OUT_IN_TAPS };
typedef struct mgpu_library_convolution {
    uint8_t result, filter, type;             /* MGPU_CONVOLUTION_..., MGPU_FILTER_..., MGPU_F32 ... of all three */
    bool tf32;                                /* f32 operands may be rounded to it */
    uint8_t x, w, y;                          /* arguments of the kernel */
    int dims;                                 /* 2 or 3 */
    int64_t groups, in, out;                  /* channels of all groups */
    int64_t inputs[3], taps[3], outputs[3];   /* extents: places of x, of w, of y */
    int64_t stride[3], dilation[3], low[3], high[3]; /* low, high: padding */
} mgpu_library_convolution;
/* What a kernel makes of a contraction that is before it in the lane. A library may do both at once, in the call of this
 * kernel: the contraction's is then left out. d is the contraction's result; biases and sums have a number for each row of it.
 * The call's arguments are what the kernel reads; a, b; what the kernel writes; d, if the library stores something there, which
 * is then among what is read, too; and a workspace. */
enum { MGPU_EPILOGUE_NONE,
       MGPU_EPILOGUE_BIAS,    /* y = d + bias */
       MGPU_EPILOGUE_RELU,    /* y = relu(d) or relu(d + bias) */
       MGPU_EPILOGUE_GELU,    /* likewise; by tanh. If the call writes d, it is trained: the library stores d + bias there */
       MGPU_EPILOGUE_DGELU,   /* y = d gelu'(before + bias), where the library takes what it has stored for `before` + bias; and
                               * the sums of y over the columns */
       MGPU_EPILOGUE_BGRAD,   /* sums of a or b over K; the library stores d, too */
       MGPU_EPILOGUE_STATISTICS /* y = moments of d's columns (mgpu_moments.h): by a kernel of our own that does both, which stores d, too */ };
typedef struct mgpu_epilogue {
    uint8_t kind;
    uint8_t reads, writes;                    /* arguments of the kernel, */
    bool workspace;                           /* and whether it has one */
    int8_t x, bias, before;                   /* which of what it reads: d, or a or b; -1: none */
    int8_t y, sums;                           /* which of what it writes */
} mgpu_epilogue;
typedef struct mgpu_gpu_kernel {
    const char *name;
    int line;                                 /* in the model */
    mgpu_launch launch[2];                    /* the second one adds up what the blocks of the first have left */
    const mgpu_library_matmul *matmul;        /* NULL; else what it computes: a library may do it instead. The last argument is then a workspace */
    const mgpu_library_convolution *convolution; /* likewise, without one. At most one of the two */
    mgpu_epilogue epilogue;                   /* in calls that follow a contraction's */
    const void *parameters; /* NULL, or a parameter after all others, by value: of a contraction mgpu_numbers, one for
                             * each of its parts; of others the paths of their random numbers, uint64_t each, or
                             * words of mgpu_parameters */
    bool spare;                               /* the function takes a workspace after its arguments, and will not touch it */
    bool library_work;                        /* the workspace is the library's alone: the function takes none */
    int together, words;                      /* > 0: its function takes a table of up to so many calls (mgpu_calls in mgpu_device.h), and of each
                                               * so many words of `parameters` */
    int in_tiles_of;                          /* 1 + the number of a contraction's kernel that this one does in other tiles, for --tune; 0: it is none */
    int both[2];                              /* 1 + the numbers of a contraction's kernel and of one with an epilogue that this one does in one call, that of */
                                              /* the epilogue, whose arguments it takes; 0: it is none; */
    bool preferred;                           /* rather than a library the contraction */
} mgpu_gpu_kernel;
/* A table of calls is a parameter, which are 4 KB in all with the step block (CUDA C++ Programming Guide, Function Parameters); a row: a call's
 * samples, arguments, first block and words. */
enum { MGPU_TABLE_BYTES = 4096 - 16 };
static inline int mgpu_call_bytes(int arguments, int words) { return 8 + 8 * arguments + 4 + 4 * words; }
/* What an architecture runs: "sm_90", "compute_80" (PTX), "vgpu". Several images of one hold different kernels. The list ends
 * with arch NULL. */
typedef struct mgpu_image { const char *arch; const uint8_t *bytes; int64_t size; int cuda; /* NVRTC's version: 13000 is 13.0; 0: not its */ } mgpu_image;

enum { MGPU_COMP, MGPU_COPY, MGPU_COMM, MGPU_SYNC, MGPU_HOST, MGPU_LANES };
#define MGPU_LANE_NAMES {"comp", "copy", "comm", "sync", "host"}
/* values go from device to device in it */
static inline bool mgpu_lane_transfers(int lane) { return lane == MGPU_COMM || lane == MGPU_SYNC; }
/* at a change of phase these wait for each other */
static inline bool mgpu_lane_meets(int lane) { return lane == MGPU_COMP || mgpu_lane_transfers(lane); }
enum { MGPU_CALL, MGPU_READ, MGPU_UPLOAD, MGPU_TRANSFER, MGPU_REPORT, MGPU_FETCH };
enum { MGPU_STAGING, MGPU_STEP, MGPU_INPUT, MGPU_VARIABLE, MGPU_REPORT_BUFFER, MGPU_OUTPUT, MGPU_TEMPORARY, MGPU_BUCKET, MGPU_WORKSPACE,
       MGPU_LOCAL /* room for the samples of one chunk of a thread */ };

typedef struct mgpu_buffer {
    const char *name;       /* without the device: "in.image", "w.fc.weight", "conv_1.y", "bucket.fc.weight", "work.conv_1.forward" */
    uint8_t kind;           /* MGPU_STAGING ... */
    uint8_t type;           /* + 1: of its elements; 0: they are of several, or no numbers (the step block, a workspace) */
    int64_t offset, bytes;  /* bytes of one slot; the slots follow each other, each aligned to 64 */
    int slots;              /* 1: not slotted */
    int index;              /* of the input, variable or output; -1 */
    int64_t each;           /* bytes of one sample; 0: the same for all samples */
    int64_t elements;       /* VARIABLE, TEMPORARY: it is split, and has room for the device's own part of so many elements alone; 0: it is not */
    bool updated;           /* VARIABLE: calls of this phase write all of it, once a step */
} mgpu_buffer;
static inline uint8_t mgpu_buffer_type(const mgpu_buffer *b) { return b->type ? (uint8_t)(b->type - 1) : (uint8_t)MGPU_U8; }
static inline int64_t mgpu_slot_bytes(int64_t bytes) { return (bytes + 63) / 64 * 64; } /* from one slot of a buffer to the next */
/* bytes [begin, end) of slot (step + slot) mod slots; of > 0: they are the own part of a split value of so many bytes, at its place there */
typedef struct mgpu_access { int buffer, slot; int64_t begin, end, of; } mgpu_access;
typedef struct mgpu_wait { int op, back; } mgpu_wait; /* op of this device in this phase; `back` steps ago */
enum { MGPU_AHEAD = 4 }; /* steps that a lane may be ahead of the last one that is over everywhere */

/* an operation of a kernel that may make NaN or infinity of finite numbers: "log", of the layer "head.fc", in that line. word "":
 * there is none but those whose results may be too large; "require", and these come first: it makes NaN
 * of what is not as the words `required` say */
typedef struct mgpu_suspect { const char *word, *layer; int line; const char *required; } mgpu_suspect;
/* Calls that follow each other and have the same `region` run without a barrier of the workers between them: each thread
 * takes `chunk` of its samples at a time through all of them. */
typedef struct mgpu_op {
    const char *id;         /* without the device: "conv_1.backward.weight" */
    uint8_t lane, verb;
    int target;             /* CALL: number of the kernel; TRANSFER: of the collective; FETCH: of the output */
    const char *label;      /* "k3f07aa", "conv_1.weight", "probability"; "-" where there is none; not in programs */
    mgpu_access *reads, *writes; int read_count, write_count; /* CALL: in the order of the kernel's arguments; the
                               workspace is the last write; the last read is the step block, which is no argument */
    mgpu_wait *waits; int wait_count;
    double begin_us, time_us; /* not in programs */
    int ground;             /* CALL, TRANSFER: what time_us rests on, of machine/cost.h; in neither text nor program */
    int line;               /* in the model; 0 if none */
    const char *layer, *role; /* "layer3.2.conv2", "backward weight": names.c; NULL: nothing is said; in programs "" */
    double flops;           /* CALL: operations of one call */
    double bytes;           /* CALL: that it moves, as the cost model counts them: an epilogue's without its contraction's operands */
    int region;             /* CALL: calls of one region follow each other, and no barrier of the device's thread pool
                               is between them; regions are numbered from 0. Else -1 */
    int64_t chunk;          /* CALL: samples that a thread takes through the region at a time; the same in the whole region */
    const mgpu_suspect *suspects; int suspect_count; /* CALL; not in the text */
    uint32_t digest;        /* CALL: of what it computes from what; the same for any number of devices but one */
    int64_t elements;       /* CALL: of split values of so many elements it computes `own`, and touches no others; 0: of none */
    mgpu_stretch own;
    bool by_sample;         /* CALL: may be called for any samples; touches those alone in buffers that have samples */
} mgpu_op;
static inline mgpu_access *mgpu_access_of(const mgpu_op *op, int i) /* reads, then writes */
{
    return i < op->read_count ? &op->reads[i] : &op->writes[i - op->read_count];
}
static inline int64_t mgpu_own_elements(const mgpu_op *op) { return op->own.end - op->own.begin; }

typedef struct mgpu_collective {
    const char *name;       /* "conv_1.weight": its first tensor */
    int *ops;               /* per device: its member; -1: none; not in programs */
    int64_t count; uint8_t dtype; /* of the whole value, of which each member sends and receives its own */
    mgpu_parties parties;   /* which transfer, and what each member has of it */
    uint8_t way;            /* MGPU_WAY_...: how it is made */
    uint8_t lane;           /* of its members; not in the text, which has theirs */
    const char *why;        /* for people; NULL: nothing is said; not in programs */
    const char **of; int of_count; /* likewise: the weights whose gradients it sums, or values */
} mgpu_collective;

typedef struct mgpu_device_phase {
    const mgpu_buffer *buffers; int buffer_count;
    const mgpu_op *ops; int op_count;  /* order within a lane is the order in this list */
} mgpu_device_phase;

enum { MGPU_PHASE_INIT, MGPU_PHASE_PROLOGUE, MGPU_PHASE_ACCUMULATE, MGPU_PHASE_TRAIN, MGPU_PHASE_EVAL, MGPU_PHASE_PREDICT,
       MGPU_PHASE_REPORT_TRAIN, MGPU_PHASE_REPORT_EVAL, MGPU_PHASE_DECODE };
/* MGPU_PHASE_DECODE: its samples are texts. Hidden inputs say which token is at which place of each, and the row of the model's
 * output for that place goes into a variable. The places before it, from 0 on, were decoded before, in the same sample. */
#define MGPU_DECODE_TOKEN "decode.token"
#define MGPU_DECODE_PLACE "decode.place"
#define MGPU_DECODE_ROW "decode.row"
typedef struct mgpu_phase {
    const char *name;
    uint8_t kind;
    bool partial_batch;
    const mgpu_device_phase *devices;
    const mgpu_collective *collectives; int collective_count;
    const char *const *reports; int report_count; /* names of the doubles in the report buffer */
} mgpu_phase;

typedef struct mgpu_shard { int64_t first, share, capacity; } mgpu_shard; /* samples of a micro-batch */
typedef struct mgpu_room { int64_t samples, bytes, work; } mgpu_room; /* at most, of the arena of a device with so many samples; work:
                                                                       * workspaces, besides */
typedef struct mgpu_device {
    mgpu_shard shard;
    int64_t arena_bytes, staging_bytes;
    int64_t work_bytes;                /* the last of the arena: workspaces. Threads 1, 2 ... have theirs after the arena */
    const int64_t *variable_offset;    /* of every variable, in the arena */
    const mgpu_room *rooms; int room_count; /* of a GPU, with 1, 2, 4 ... groups of samples */
} mgpu_device;

/* of a training step on the machine that the plan was made for: microseconds of a step, and on the device that computes longest of
 * computing and of transfers; `bound`: what most of it goes to; `from`: what that rests on, in words. step_us 0: nothing is predicted */
typedef struct mgpu_prediction { const char *machine, *bound, *from; double step_us, computing_us, transfer_us; } mgpu_prediction;
typedef struct mgpu_plan {
    const char *kind;                  /* "host", "cuda" */
    int devices;
    int64_t micro;                     /* samples of a full micro-batch */
    bool always_partial;
    const mgpu_device *device;
    const mgpu_phase *phases; int phase_count;
    const char *schedule;              /* the text that `schedule` prints */
    mgpu_prediction predicted;
} mgpu_plan;

enum { MGPU_WEIGHT, MGPU_STATE, MGPU_OPTIMIZER_STATE, MGPU_ACCUMULATOR, MGPU_ROUNDED /* a copy: never saved */,
       MGPU_AVERAGE /* of another variable over the steps: evaluation reads it in place of that one */,
       MGPU_OBSERVED /* the gradient of the last step, for --histograms: WEIGHT.gradient. Never saved */,
       MGPU_CACHE /* what MGPU_PHASE_DECODE keeps from place to place. Never saved */ };
typedef struct mgpu_tensor { const char *name; uint8_t dtype; int rank; int64_t extent[MGPU_MAX_RANK]; } mgpu_tensor;
typedef struct mgpu_variable {
    mgpu_tensor tensor;                /* shape as saved */
    int order[MGPU_MAX_RANK];          /* order of its axes in memory */
    uint8_t kind;
    bool partial;                      /* ACCUMULATOR: each device holds a part of the sum; false: it is the same on every device */
    bool split;                        /* each device holds its own part of the elements: mgpu_even_part */
    const char *flattened;             /* of a dense layer of flattened pictures, channels last: their shape; NULL: of no such layer */
    bool sharded;                      /* MGPU_CACHE: each device holds one for each of its samples; `tensor` is that of a sample */
} mgpu_variable;
typedef struct mgpu_copy { int copy, master; } mgpu_copy; /* two variables of one shape and order: one in full, one MGPU_ROUNDED */
enum { MGPU_NO_LABEL = INT32_MIN };
typedef struct mgpu_input {
    mgpu_tensor tensor;
    int64_t classes, ignore, other;    /* classes 0: not a class; ignore, other: MGPU_NO_LABEL if there is none */
    const char *required;              /* in words: each element is a whole number from `least` to `most`; NULL: nothing is required */
    int64_t least, most;
    bool hidden;                       /* no input of the model: the runtime gives it */
} mgpu_input;
/* A data set: its calls are a reader, then stages. Columns are the reader's: `texts` are what it was told of each (paths,
 * columns of a table), nothing where its name says all; input -1: only a stage needs it. */
typedef struct mgpu_item { const char *text; double number; } mgpu_item; /* text NULL: a number */
typedef struct mgpu_option { const char *name; const mgpu_item *items; int count; } mgpu_option;
typedef struct mgpu_call { const char *name; const mgpu_option *options; int option_count, line; } mgpu_call;
typedef struct mgpu_column { const char *name; int input; const char *const *texts; int count, line; } mgpu_column;
typedef struct mgpu_set {
    const char *name;
    const mgpu_column *columns; int column_count;
    const mgpu_call *calls; int call_count;
} mgpu_set;
typedef struct mgpu_later_set {
    const char *name, *what;
    int line;
} mgpu_later_set; /* what it needs, which mgpuc does not make yet */
typedef struct mgpu_setting { const char *name; double value; bool hidden; } mgpu_setting; /* value: in the model, NaN if
                                        * computed; hidden: not for --set */
typedef struct mgpu_told { const char *name, *text; bool param; } mgpu_told; /* a setting of the train block or a param, as the
                                        * program was compiled with it, for the log */
/* ---- the course of a run */
enum { MGPU_UNIT_NONE /* not given */, MGPU_UNIT_NEVER, MGPU_UNIT_STEPS, MGPU_UNIT_EPOCHS, MGPU_UNIT_SAMPLES, MGPU_UNIT_SECONDS,
       MGPU_UNIT_TIMES /* validations */ };
typedef struct mgpu_quantity { double amount; uint8_t unit; } mgpu_quantity;
typedef struct mgpu_watch { const char *metric; bool highest; } mgpu_watch; /* a number of validation; metric NULL: none */
/* settings[setting], 1 at first, is multiplied by `factor` when the number has not become better for so long */
typedef struct mgpu_plateau { int setting; mgpu_watch watch; double factor; mgpu_quantity patience; } mgpu_plateau;
/* a file that a fresh run begins with: variables[i] is names[i] in it. pattern NULL: they are the model's own names. path NULL:
 * a part that no file of the whole model begins. array: a .npy file for one variable */
typedef struct mgpu_initial {
    const char *path, *pattern;
    bool array;
    int line;
    const int *variables; const char *const *names; int count;
    const char *rules; /* for names and shapes: a name of the library, a path, or their text; NULL: the file's own */
} mgpu_initial;
enum { MGPU_NAN_STOP, MGPU_NAN_SKIP /* by the program itself */, MGPU_NAN_IGNORE };
typedef struct mgpu_layer { const char *name; mgpu_tensor shape; int64_t parameters; int line; } mgpu_layer;

/* what `export KIND` writes, packed by zlib: ONNX's graph without the weights, or a module of PyTorch without its first lines */
typedef struct mgpu_exported {
    const char *kind, *packed;
    int64_t packed_bytes, bytes;
    const int *variables; int variable_count; /* that it reads */
    const char *refused;               /* why there is none, with layer and line; NULL: there is one */
} mgpu_exported;

typedef struct mgpu_program {
    int interface;                     /* MGPU_INTERFACE */
    const char *name, *model_file, *command, *precision;
    int64_t parameters, batch, accumulate, epochs, steps, group;
    uint64_t seed;
    const mgpu_kernel *kernels;         /* of a program for host devices; else NULL, */
    const mgpu_gpu_kernel *gpu_kernels; /* and of one for GPUs, with */
    const mgpu_image *images;
    int kernel_count;
    const uint64_t *kernel_digests;    /* what each kernel is, whatever program it is in; NULL: not known */
    const mgpu_variable *variables; int variable_count;
    const mgpu_copy *copies;        int copy_count; /* made again where their masters are loaded */
    const mgpu_copy *averages;      int average_count; /* copy: the MGPU_AVERAGE, master: of which variable */
    const mgpu_input *inputs;       int input_count;
    const mgpu_tensor *outputs;     int output_count;
    const mgpu_set *sets;           int set_count;
    const mgpu_later_set *later;
    int later_count;                                   /* sets of the model that the program lacks */
    const mgpu_setting *settings;   int setting_count; /* those that --set takes at run time */
    const mgpu_told *told;          int told_count;
    mgpu_quantity validate, save, patience;
    int64_t keep;                      /* checkpoints; 0: not given */
    mgpu_watch best;
    uint8_t on_nan;
    const mgpu_plateau *plateaus;   int plateau_count;
    const mgpu_initial *initials;   int initial_count;
    const char *const *fixed_settings; int fixed_setting_count; /* params and settings fixed by mgpuc, for its message */
    const mgpu_layer *layers;       int layer_count;
    const mgpu_call *outline;       int outline_count; /* of evaluation: layers of the library, inputs, variables, and operations
                                        * outside of these, before what takes their values. Options: "path"; arguments that are numbers,
                                        * texts, layers or nothing; "NAME*": a tensor: its row, the element of that which it begins with, its
                                        * extents */
    const struct mgpu_family_exports *families; /* what exports models of families; NULL: without an outline a model is of none */
    const mgpu_plan *plans;         int plan_count;
    int default_plan;
    const char *gpus;                  /* of a run without --devices, as there: what mgpuc was told, or NULL */
    const char *policy;                /* how devices share the work, if mgpuc was told: "ps-cpu"; NULL: as it found best */
    const char *policy_label;          /* what has to be known of that: "one step stale"; NULL: nothing */
    bool unsaved;                      /* what devices make of their weights is no training, and nothing is saved */
    bool predicts;                     /* the program has no step to train */
    const char *identity;              /* 64 hexadecimal digits: what the model computes; NULL: not known */
    struct mgpu_processes *(*processes)(void); /* of mgpuc --mpi: those that were started together, NULL: one; else NULL */
    const mgpu_exported *exported; int exported_count; /* 0: the model has no outputs, or is a library */
    const char *library_folders;       /* "A:B": where mgpuc found CUDA's libraries besides the usual places, or NULL */
} mgpu_program;

int mgpu_main(const mgpu_program *, int argc, char **argv);
extern const struct mgpu_family_exports mgpu_family_exports; /* runtime/export/export.h; only programs that name it have its code */

/* ---- what the functions of a library (mgpuc --shared) call; its header says what they do */
typedef struct mgpu_model mgpu_model;
typedef struct mgpu_model_tensor { const char *name, *type; int rank; const int64_t *shape; int64_t bytes; } mgpu_model_tensor;
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

