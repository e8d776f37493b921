/* policy.c: the table of presets, and --plan: NAME[,POLICY=WORD]... -> Policy.
 *
 * Sources of the schemes: F. Chollet's sketch of data parallelism (2016); kuza55, make_parallel; Keras, multi_gpu_model;
 * avolkov1, keras_experiments; J. Rossum, DataParallelModel and staging areas for Keras; tf_cnn_benchmarks, --variable_update;
 * Sergeev, Del Balso, "Horovod: fast and easy distributed deep learning in TensorFlow", 2018; MXNet, work_load_list; Seide et
 * al., "1-bit stochastic gradient descent", 2014, and CNTK, DataParallelSGD with gradientBits = 1. */
#include "compiler/plan/policy.h"
#include "runtime/schedule/schedule.h"

#include <stdlib.h>
#include <string.h>

const Policy PRESETS[] = {
    {"auto", "the default: what is predicted to be fastest", INPUT_AHEAD, 2, VARIABLES_REPLICATED, REDUCE_BY_COST,
     ORDER_SYNCHRONOUS, WAITED_BY_COST, GRADIENTS_EXACT, false, false},
    {"infer-replicated", "two replicas that predict (F. Chollet, 2016)", INPUT_WHOLE, 1, VARIABLES_HOST, REDUCE_BY_COST,
     ORDER_SYNCHRONOUS, WAITED_COMM, GRADIENTS_EXACT, true, false},
    {"bcast-slice", "make_parallel (kuza55)", INPUT_WHOLE, 1, VARIABLES_DEVICE, REDUCE_HOST, ORDER_SYNCHRONOUS, WAITED_COMM,
     GRADIENTS_EXACT, false, false},
    {"keras", "multi_gpu_model (Keras)", INPUT_WHOLE, 1, VARIABLES_HOST, REDUCE_HOST, ORDER_SYNCHRONOUS, WAITED_COMM,
     GRADIENTS_EXACT, false, false},
    {"cpu-slice", "keras_experiments (avolkov1)", INPUT_SLICE, 1, VARIABLES_HOST, REDUCE_HOST, ORDER_SYNCHRONOUS, WAITED_COMM,
     GRADIENTS_EXACT, false, false},
    {"tower-avg", "DataParallelModel (Rossum), tensorpack's towers", INPUT_SLICE, 1, VARIABLES_REPLICATED, REDUCE_COPY,
     ORDER_SYNCHRONOUS, WAITED_COMM, GRADIENTS_EXACT, false, false},
    {"staged-input", "Keras with a StagingArea (Rossum)", INPUT_AHEAD, 2, VARIABLES_HOST, REDUCE_HOST, ORDER_SYNCHRONOUS,
     WAITED_COMM, GRADIENTS_EXACT, false, false},
    {"ps-cpu", "parameter server on the CPU (tf_cnn_benchmarks)", INPUT_AHEAD, 2, VARIABLES_HOST, REDUCE_COPY, ORDER_SYNCHRONOUS,
     WAITED_COMM, GRADIENTS_EXACT, false, false},
    {"ps-gpu", "variables on one GPU (tf_cnn_benchmarks, replicated without NCCL)", INPUT_AHEAD, 2, VARIABLES_DEVICE, REDUCE_COPY,
     ORDER_SYNCHRONOUS, WAITED_COMM, GRADIENTS_EXACT, false, false},
    {"replicated-copy", "replicated, sums by copies between all GPUs", INPUT_AHEAD, 2, VARIABLES_REPLICATED, REDUCE_COPY,
     ORDER_SYNCHRONOUS, WAITED_COMM, GRADIENTS_EXACT, false, false},
    {"replicated-nccl", "replicated, NCCL (tf_cnn_benchmarks, PyTorch DDP)", INPUT_AHEAD, 2, VARIABLES_REPLICATED, REDUCE_NCCL,
     ORDER_SYNCHRONOUS, WAITED_COMM, GRADIENTS_EXACT, false, false},
    {"independent", "independent (tf_cnn_benchmarks)", INPUT_AHEAD, 2, VARIABLES_REPLICATED, REDUCE_BY_COST, ORDER_NONE,
     WAITED_COMM, GRADIENTS_EXACT, false, false},
    {"staged-vars", "staged variables (tf_cnn_benchmarks)", INPUT_AHEAD, 2, VARIABLES_HOST, REDUCE_COPY, ORDER_STALE, WAITED_COMM,
     GRADIENTS_EXACT, false, false},
    {"ring-fused", "ring all-reduce of fused buffers (Horovod)", INPUT_AHEAD, 2, VARIABLES_REPLICATED, REDUCE_RING,
     ORDER_SYNCHRONOUS, WAITED_COMM, GRADIENTS_EXACT, false, false},
    {"compress-bf16", "bf16_compress_hook (PyTorch DDP)", INPUT_AHEAD, 2, VARIABLES_REPLICATED, REDUCE_BY_COST, ORDER_SYNCHRONOUS,
     WAITED_COMM, GRADIENTS_BF16, false, false},
    {"one-bit", "1-bit SGD (Seide et al., CNTK)", INPUT_AHEAD, 2, VARIABLES_REPLICATED, REDUCE_BY_COST, ORDER_SYNCHRONOUS,
     WAITED_COMM, GRADIENTS_ONE_BIT, false, false},
    {"weights", "work_load_list (MXNet)", INPUT_AHEAD, 2, VARIABLES_REPLICATED, REDUCE_COPY, ORDER_SYNCHRONOUS, WAITED_COMM,
     GRADIENTS_EXACT, false, true},
    {0},
};

static void set_word(Policy *p, int which, const char *word)
{
    const mgpu_field *row = &POLICY_WORD[which];
    for (int value = 0; value < row->name_count; value++)
        if (strcmp(row->names[value], word) == 0) {
            MGPU_MEMBER(int, p, row->at) = value;
            return;
        }
    Text all = {0};
    for (int i = 0; i < row->name_count; i++)
        text_add(&all, "%s%s", i ? i + 1 < row->name_count ? ", " : " or " : "", row->names[i]);
    fail(2, "--plan: %s is %s; '%s' is none of them", row->word, text_of(&all), word);
}

static void set_policy(Policy *p, const char *text)
{
    if (!strchr(text, '='))
        fail(2, "--plan: '%s' is no policy with its value, as in input=slice", text);
    const char *equals = strchr(text, '='), *names[POLICY_WORDS + 1];
    const char *name = copy_text(text, (size_t)(equals - text));
    for (int i = 0; i < POLICY_WORDS; i++) {
        names[i] = POLICY_WORD[i].word;
        if (strcmp(POLICY_WORD[i].word, name) == 0) {
            set_word(p, i, equals + 1);
            if (p->input != INPUT_AHEAD)
                p->slots = 1;
            return;
        }
    }
    names[POLICY_WORDS] = "slots";
    if (strcmp(name, "slots") != 0)
        fail(2, "--plan: there is no policy '%s'%s; after the preset's name, policies are written as in input=slice", name,
             did_you_mean(name, names, COUNT(names)));
    char *end;
    long slots = strtol(equals + 1, &end, 10);
    if (end == equals + 1 || *end || slots < 1 || slots > MOST_SLOTS || (p->input != INPUT_AHEAD && slots > 1))
        fail(2, "--plan: slots=%s: 1 to %d are expected; more than 1 only with input=ahead", equals + 1, MOST_SLOTS);
    p->slots = (int)slots;
}

static const Policy *preset_named(const char *name)
{
    const char **names = NULL;
    int count = 0;
    for (const Policy *p = PRESETS; p->name; p++) {
        if (strcmp(p->name, name) == 0)
            return p;
        APPEND(names, count, p->name);
    }
    fail(2, "--plan %s: there is no plan of this name%s; mgpuc --help lists them", name, did_you_mean(name, names, count));
}

/* "weights=[10,10,3]" or "weights=10,10,3", up to the end of the text */
static bool is_weights(const char *text) { return strncmp(text, "weights=", strlen("weights=")) == 0; }

Policy policy_read(const char *text, const char **split)
{
    if (is_weights(text)) {
        const char *list = text + strlen("weights=");
        size_t length = strlen(list);
        bool brackets = length > 1 && list[0] == '[' && list[length - 1] == ']';
        if (*split)
            fail(2, "--plan %s has proportions, and so has --split %s", text, *split);
        *split = brackets ? copy_text(list + 1, length - 2) : list;
        Policy weights = *preset_named("weights");
        weights.name = text;
        return weights;
    }
    size_t length = strcspn(text, ",");
    Policy p = *preset_named(copy_text(text, length));
    p.scheme = text[length] ? "policies of its own" : p.scheme;
    for (const char *at = text + length; *at; at += length) {
        length = strcspn(++at, ",");
        set_policy(&p, copy_text(at, length));
    }
    p.name = text;
    bool rounds = p.reduce == REDUCE_RING || p.reduce == REDUCE_TREE;
    if (p.gradients == GRADIENTS_ONE_BIT && (p.variables != VARIABLES_REPLICATED || p.order == ORDER_NONE || rounds))
        fail(
            2,
            "--plan %s: one-bit gradients go with variables=replicated, order=synchronous or stale, and reduce=auto, host, copy, peer or nccl: bits are gathered, and added by who gets them",
            text);
    if (p.gradients == GRADIENTS_BF16 && p.order == ORDER_NONE)
        fail(2,
             "--plan %s: with order=none no gradients are sent, so they are not rounded to bf16 either; leave out gradients=bf16",
             text);
    if (p.split && !*split)
        fail(2, "--plan %s: it has no proportions; write them as in --plan weights=10,10,3", text);
    return p;
}

int policy_implementation(const Policy *p)
{
    static const int IMPLEMENTATION[REDUCE_POLICIES] = {
        [REDUCE_BY_COST] = MGPU_IMPLEMENTATION_AUTO, [REDUCE_HOST] = MGPU_IMPLEMENTATION_HOST,
        [REDUCE_COPY] = MGPU_IMPLEMENTATION_COPY,    [REDUCE_PEER] = MGPU_IMPLEMENTATION_PEER,
        [REDUCE_RING] = MGPU_IMPLEMENTATION_RING,    [REDUCE_TREE] = MGPU_IMPLEMENTATION_TREE,
        [REDUCE_NCCL] = MGPU_IMPLEMENTATION_NCCL};
    return p->variables == VARIABLES_HOST     ? MGPU_IMPLEMENTATION_SERVER
           : p->variables == VARIABLES_DEVICE ? MGPU_IMPLEMENTATION_DEVICE
                                              : IMPLEMENTATION[p->reduce];
}

bool policy_shards(const Policy *p)
{
    return p->variables == VARIABLES_REPLICATED && p->order == ORDER_SYNCHRONOUS && p->gradients != GRADIENTS_ONE_BIT;
}

bool policy_spans_nodes(const Policy *p)
{
    return policy_implementation(p) == MGPU_IMPLEMENTATION_AUTO || policy_implementation(p) == MGPU_IMPLEMENTATION_NCCL;
}

bool policy_is_auto(const Policy *p) { return strcmp(p->name, PRESETS[0].name) == 0; }

const Policy *policy_of(const Options *o) { return o && o->policy ? o->policy : &PRESETS[0]; }

const char *policy_text(const Options *o)
{
    const Policy *p = policy_of(o);
    const char *label = policy_label(p);
    return policy_is_auto(p) ? "" : label ? format(", plan %s [%s]", p->name, label) : format(", plan %s", p->name);
}
