/* grow_train.c: the train block of random models: batches that nothing divides, rates, optimizers, bounds of gradients,
 * micro-batches, averages, plateaus, steps that are left out, rules; see grow.c. */
#include "tests/fuzz/grow_parts.h"

#include <string.h>

/* the first needs a decay: it divides by the norm of the gradient, which may be zero but for rounding */
static const char *const OPTIMIZERS[] = {"lars(ratio = 0.1)",
                                         "sgd()",
                                         "sgd(momentum = 0.9)",
                                         "sgd(momentum = 0.9, nesterov = true)",
                                         "adam(eps = 1e-2)",
                                         "adamw(eps = 1e-2)",
                                         "nadam(eps = 1e-2)",
                                         "rmsprop(eps = 1e-2)",
                                         "rmsprop(momentum = 0.9, eps = 1e-2)",
                                         "adagrad(eps = 1e-2)",
                                         "adadelta(eps = 1e-2)"};
static const char *const RATES[] = {"0.01",
                                    "cosine(0.02, warmup = 2steps)",
                                    "linear(0.02, end = 0.001)",
                                    "0.01 * (1 - progress) ** 2",
                                    "multistep(0.02, at = [2steps, 3steps])",
                                    "exponential(0.02, every = 2steps, factor = 0.5)",
                                    "inverse_sqrt(0.01, warmup = 2steps)"};
static const char *const CLIPS[] = {"1.0", "0.05", "by_norm(0.1)", "by_value(0.01)"};
static const char *const AVERAGES[] = {
    "ema = 0.7",          "ema = 0.99", "swa = 0.3", "swa = 1epochs", "swa = [1steps, 2steps]", "swa = [0steps, 1steps]",
    "swa = [0.5, 1steps]"};
static const char *const OBSERVED[] = {"metrics", "gradients", "all"};

/* patterns that may reach a weight: of layers that the text calls */
static const char *pattern(Grower *g)
{
    static const struct {
        const char *call, *pattern;
    } LAYERS[] = {{"|> conv(", "conv_*"},         {"|> lstm(", "lstm_*"},           {"|> gru(", "gru_?"},
                  {"|> rnn(", "rnn_*.weight_hh"}, {"|> layernorm(", "layernorm_*"}, {"|> batchnorm(", "batchnorm_*"},
                  {"|> walk(", "walk_*.dense_1"}, {"|> walk(", "walk_?"},           {"|> block(", "block_*"},
                  {"|> gate(", "gate_*"},         {"self_attention(", "self_*"},    {"embedding(", "embedding_*"},
                  {"|> transformer(", "transf*"}, {"|> depthwise(", "depthwise_*"}};
    const char *found[COUNT(LAYERS)], *body = text_of(&g->body);
    bool inside = strstr(body, "shared(") || strstr(body, "bidirectional("); /* there a call's name begins with another's */
    int count = 0;
    for (int i = 0; i < COUNT(LAYERS) && !inside; i++)
        if (strstr(body, LAYERS[i].call))
            found[count++] = LAYERS[i].pattern;
    return count && chance(g, 70) ? found[below(g, count)] : chance(g, 50) ? "*.bias" : "dense_*";
}

static void grow_rule(Grower *g, Text *t)
{
    const char *of = pattern(g);
    text_add(t, "    \"%s\" {", of);
    switch (below(g, 6)) {
    case 0: text_add(t, " decay = 0.02 }\n"); break;
    case 1: text_add(t, " lr = 0.5 * lr }\n"); break;
    case 2: text_add(t, " optimizer = %s }\n", OPTIMIZERS[1 + below(g, COUNT(OPTIMIZERS) - 1)]); break;
    case 3: text_add(t, " clip = %s }\n", CLIPS[below(g, COUNT(CLIPS))]); break;
    case 4: text_add(t, " clip = none  lr = 0.003 }\n"); break;
    default: /* not all of them: there is a dense layer in every model */
        text_add(t, strncmp(of, "dense", 5) == 0 ? " lr = 0.002 }\n" : " frozen = true }\n");
    }
}

void grow_train(Grower *g, Text *t)
{
    const char *rate = RATES[below(g, COUNT(RATES))];
    text_add(t, "train {\n    batch = %d\n    steps = 4\n    precision = f64\n", g->batch);
    if (chance(g, 15))
        text_add(t, "    validate = %dsteps\n    lr = plateau(%s, metric = %s(\"loss\"), factor = 0.3, patience = 1%s)\n",
                 1 + below(g, 2), rate, chance(g, 50) ? "highest" : "lowest", chance(g, 30) ? ", least = 0.002" : "");
    else
        text_add(t, "    lr = %s\n", rate);
    int optimizer = below(g, COUNT(OPTIMIZERS));
    text_add(t, "    optimizer = %s\n", OPTIMIZERS[optimizer]);
    if (optimizer == 0 || chance(g, 30))
        text_add(t, "    decay = 1e-2\n");
    if (chance(g, 30))
        text_add(t, "    clip = %s\n", CLIPS[below(g, COUNT(CLIPS))]);
    if (g->accumulate > 1)
        text_add(t, "    accumulate = %d\n", g->accumulate);
    if (g->traps || chance(g, 5))
        text_add(t, "    on_nan = \"skip\"\n");
    if (chance(g, 25))
        text_add(t, "    %s\n", AVERAGES[below(g, COUNT(AVERAGES))]);
    if (optimizer && chance(g, 25))
        text_add(t, "    \"*.bias\" { decay = 0 }\n    \"dense_?\" { lr = 0.5 * lr }\n");
    for (int i = chance(g, 30) ? 1 + below(g, 3) : 0; i > 0; i--)
        grow_rule(g, t);
    if (chance(g, 25))
        text_add(t, "    observe = \"%s\"\n", OBSERVED[below(g, COUNT(OBSERVED))]);
    text_add(t, "}\n");
}
