/* policy.c: the table of presets, and --plan: NAME[,POLICY=WORD]... -> Policy.
 *
 * What the schemes were: F. Chollet's sketch of data parallelism (2016); kuza55, make_parallel; Keras, multi_gpu_model; avolkov1,
 * keras_experiments; J. Rossum, DataParallelModel and staging areas for Keras; tf_cnn_benchmarks, --variable_update; Sergeev, Del
 * Balso, "Horovod: fast and easy distributed deep learning in TensorFlow", 2018; MXNet, work_load_list; Seide et al., "1-bit stochastic
 * gradient descent", 2014, and CNTK, DataParallelSGD with gradientBits = 1. */
#include "compiler/plan/policy.h"
#include "compiler/base/words.h"
#include "runtime/abi/mgpu.h"

#include <stdlib.h>
#include <string.h>

static const char *const INPUT_NAME[INPUT_POLICIES] = {"ahead", "slice", "whole"};
static const char *const VARIABLES_NAME[VARIABLE_POLICIES] = {"replicated", "host", "device"};
static const char *const REDUCE_NAME[REDUCE_POLICIES] = {"auto", "host", "copy", "peer", "ring", "tree", "nccl"};
static const char *const ORDER_NAME[ORDER_POLICIES] = {"synchronous", "stale", "none"};
static const char *const WAITED_NAME[WAITED_POLICIES] = {"comm", "auto", "sync"};
static const char *const GRADIENT_NAME[GRADIENT_POLICIES] = {"exact", "bf16", "one-bit"};

const Policy PRESETS[] = {
    {"auto", "the default: what is predicted to be fastest", INPUT_AHEAD, 2, VARIABLES_REPLICATED, REDUCE_BY_COST, ORDER_SYNCHRONOUS, WAITED_BY_COST, GRADIENTS_EXACT, false, false},
    {"infer-replicated", "two replicas that predict (F. Chollet, 2016)", INPUT_WHOLE, 1, VARIABLES_HOST, REDUCE_BY_COST, ORDER_SYNCHRONOUS, WAITED_COMM, GRADIENTS_EXACT, true, false},
    {"bcast-slice", "make_parallel (kuza55)", INPUT_WHOLE, 1, VARIABLES_DEVICE, REDUCE_HOST, ORDER_SYNCHRONOUS, WAITED_COMM, GRADIENTS_EXACT, false, false},
    {"keras", "multi_gpu_model (Keras)", INPUT_WHOLE, 1, VARIABLES_HOST, REDUCE_HOST, ORDER_SYNCHRONOUS, WAITED_COMM, GRADIENTS_EXACT, false, false},
    {"cpu-slice", "keras_experiments (avolkov1)", INPUT_SLICE, 1, VARIABLES_HOST, REDUCE_HOST, ORDER_SYNCHRONOUS, WAITED_COMM, GRADIENTS_EXACT, false, false},
    {"tower-avg", "DataParallelModel (Rossum), tensorpack's towers", INPUT_SLICE, 1, VARIABLES_REPLICATED, REDUCE_COPY, ORDER_SYNCHRONOUS, WAITED_COMM, GRADIENTS_EXACT, false, false},
    {"staged-input", "Keras with a StagingArea (Rossum)", INPUT_AHEAD, 2, VARIABLES_HOST, REDUCE_HOST, ORDER_SYNCHRONOUS, WAITED_COMM, GRADIENTS_EXACT, false, false},
    {"ps-cpu", "parameter server on the CPU (tf_cnn_benchmarks)", INPUT_AHEAD, 2, VARIABLES_HOST, REDUCE_COPY, ORDER_SYNCHRONOUS, WAITED_COMM, GRADIENTS_EXACT, false, false},
    {"ps-gpu", "variables on one GPU (tf_cnn_benchmarks, replicated without NCCL)", INPUT_AHEAD, 2, VARIABLES_DEVICE, REDUCE_COPY, ORDER_SYNCHRONOUS, WAITED_COMM, GRADIENTS_EXACT, false, false},
    {"replicated-copy", "replicated, sums by copies between all GPUs", INPUT_AHEAD, 2, VARIABLES_REPLICATED, REDUCE_COPY, ORDER_SYNCHRONOUS, WAITED_COMM, GRADIENTS_EXACT, false, false},
    {"replicated-nccl", "replicated, NCCL (tf_cnn_benchmarks, PyTorch DDP)", INPUT_AHEAD, 2, VARIABLES_REPLICATED, REDUCE_NCCL, ORDER_SYNCHRONOUS, WAITED_COMM, GRADIENTS_EXACT, false, false},
    {"independent", "independent (tf_cnn_benchmarks)", INPUT_AHEAD, 2, VARIABLES_REPLICATED, REDUCE_BY_COST, ORDER_NONE, WAITED_COMM, GRADIENTS_EXACT, false, false},
    {"staged-vars", "staged variables (tf_cnn_benchmarks)", INPUT_AHEAD, 2, VARIABLES_HOST, REDUCE_COPY, ORDER_STALE, WAITED_COMM, GRADIENTS_EXACT, false, false},
    {"ring-fused", "ring all-reduce of fused buffers (Horovod)", INPUT_AHEAD, 2, VARIABLES_REPLICATED, REDUCE_RING, ORDER_SYNCHRONOUS, WAITED_COMM, GRADIENTS_EXACT, false, false},
    {"compress-bf16", "bf16_compress_hook (PyTorch DDP)", INPUT_AHEAD, 2, VARIABLES_REPLICATED, REDUCE_BY_COST, ORDER_SYNCHRONOUS, WAITED_COMM, GRADIENTS_BF16, false, false},
    {"one-bit", "1-bit SGD (Seide et al., CNTK)", INPUT_AHEAD, 2, VARIABLES_REPLICATED, REDUCE_BY_COST, ORDER_SYNCHRONOUS, WAITED_COMM, GRADIENTS_ONE_BIT, false, false},
    {"weights", "work_load_list (MXNet)", INPUT_AHEAD, 2, VARIABLES_REPLICATED, REDUCE_COPY, ORDER_SYNCHRONOUS, WAITED_COMM, GRADIENTS_EXACT, false, true},
    {0},
};

const PolicyWord POLICY_WORD[POLICY_WORDS] = {
    {"input", INPUT_NAME, INPUT_POLICIES},
    {"variables", VARIABLES_NAME, VARIABLE_POLICIES},
    {"reduce", REDUCE_NAME, REDUCE_POLICIES},
    {"order", ORDER_NAME, ORDER_POLICIES},
    {"waited", WAITED_NAME, WAITED_POLICIES},
    {"gradients", GRADIENT_NAME, GRADIENT_POLICIES},
};

void policy_set(Policy *p, int word, int value)
{
    switch (word) {
    case 0: p->input = (InputPolicy)value; break;
    case 1: p->variables = (VariablePolicy)value; break;
    case 2: p->reduce = (ReducePolicy)value; break;
    case 3: p->order = (OrderPolicy)value; break;
    case 4: p->waited = (WaitedPolicy)value; break;
    default: p->gradients = (GradientPolicy)value; break;
    }
}

static int value_of(const Policy *p, int word)
{
    const int VALUES[POLICY_WORDS] = {(int)p->input, (int)p->variables, (int)p->reduce, (int)p->order, (int)p->waited, (int)p->gradients};
    return VALUES[word];
}

static void set_word(Policy *p, int which, const char *word)
{
    const PolicyWord *row = &POLICY_WORD[which];
    for (int value = 0; value < row->count; value++)
        if (strcmp(row->words[value], word) == 0) {
            policy_set(p, which, value);
            return;
        }
    Text all = {0};
    for (int i = 0; i < row->count; i++)
        text_add(&all, "%s%s", i ? i + 1 < row->count ? ", " : " or " : "", row->words[i]);
    fail(2, "--plan: %s is %s; '%s' is none of them", row->name, text_of(&all), word);
}

static void set_policy(Policy *p, const char *text)
{
    if (!strchr(text, '='))
        fail(2, "--plan: '%s' is no policy with its value, as in input=slice", text);
    const char *equals = strchr(text, '='), *names[POLICY_WORDS + 1];
    const char *name = copy_text(text, (size_t)(equals - text));
    for (int i = 0; i < POLICY_WORDS; i++) {
        names[i] = POLICY_WORD[i].name;
        if (strcmp(POLICY_WORD[i].name, name) == 0) {
            set_word(p, i, equals + 1);
            if (p->input != INPUT_AHEAD)
                p->slots = 1;
            return;
        }
    }
    names[POLICY_WORDS] = "slots";
    if (strcmp(name, "slots") != 0)
        fail(2, "--plan: there is no policy '%s'%s; after the preset's name, policies are written as in input=slice", name, did_you_mean(name, names, COUNT(names)));
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

/* "weights=[10,10,3]" or "weights=10,10,3": to the end */
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
        fail(2, "--plan %s: one-bit gradients go with variables=replicated, order=synchronous or stale, and reduce=auto, host, copy, peer or nccl: bits are gathered, and added by who gets them", text);
    if (p.gradients == GRADIENTS_BF16 && p.order == ORDER_NONE)
        fail(2, "--plan %s: with order=none no gradients are sent, so they are not rounded to bf16 either; leave out gradients=bf16", text);
    if (p.split && !*split)
        fail(2, "--plan %s: it has no proportions; write them as in --plan weights=10,10,3", text);
    return p;
}

const char *policy_label(const Policy *p)
{
    static const char *const OF_GRADIENTS[GRADIENT_POLICIES] = {[GRADIENTS_BF16] = "bf16 gradients", [GRADIENTS_ONE_BIT] = "one-bit gradients"};
    const char *gradients = OF_GRADIENTS[p->gradients];
    if (p->order == ORDER_NONE)
        return "NOT TRAINING, UPPER BOUND";
    if (p->order == ORDER_STALE)
        return gradients ? format("one step stale, %s", gradients) : "one step stale";
    return gradients ? gradients : p->forward ? PREDICTS_ONLY : NULL;
}

int policy_way(const Policy *p)
{
    static const int WAY[REDUCE_POLICIES] = {[REDUCE_BY_COST] = MGPU_WAY_AUTO, [REDUCE_HOST] = MGPU_WAY_HOST, [REDUCE_COPY] = MGPU_WAY_COPY,
                                             [REDUCE_PEER] = MGPU_WAY_PEER, [REDUCE_RING] = MGPU_WAY_RING, [REDUCE_TREE] = MGPU_WAY_TREE, [REDUCE_NCCL] = MGPU_WAY_NCCL};
    return p->variables == VARIABLES_HOST ? MGPU_WAY_SERVER : p->variables == VARIABLES_DEVICE ? MGPU_WAY_DEVICE : WAY[p->reduce];
}

bool policy_shards(const Policy *p) { return p->variables == VARIABLES_REPLICATED && p->order == ORDER_SYNCHRONOUS && p->gradients != GRADIENTS_ONE_BIT; }

bool policy_spans_nodes(const Policy *p) { return policy_way(p) == MGPU_WAY_AUTO || policy_way(p) == MGPU_WAY_NCCL; }

bool policy_is_auto(const Policy *p) { return strcmp(p->name, PRESETS[0].name) == 0; }

void policy_write(const Policy *p, Text *t)
{
    if (is_bare_word(p->name))
        text_add(t, "%s", p->name);
    else
        write_quoted(p->name, t);
    for (int i = 0; i < POLICY_WORDS; i++)
        text_add(t, " %s %s", POLICY_WORD[i].name, POLICY_WORD[i].words[value_of(p, i)]);
    text_add(t, " slots %d", p->slots);
    if (policy_label(p)) {
        text_add(t, " label ");
        write_quoted(policy_label(p), t);
    }
}

const Policy *policy_of(const Options *o) { return o && o->policy ? o->policy : &PRESETS[0]; }

const char *policy_said(const Options *o)
{
    const Policy *p = policy_of(o);
    const char *label = policy_label(p);
    return policy_is_auto(p) ? "" : label ? format(", plan %s [%s]", p->name, label) : format(", plan %s", p->name);
}
