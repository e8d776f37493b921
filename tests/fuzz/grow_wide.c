/* grow_wide.c: random models in the third style: a chain of two to five layers whose extents are those of tiles and blocks, one
 * less and one more, so that kernels have whole tiles, torn ones and loops over both. Layers and batches are as large as the
 * interpreter, which computes the reference, does in a second. */
#include "tests/fuzz/grow_parts.h"

#include <string.h>

static const int64_t EXTENTS[] = {1,  2,  3,  4,  5,  7,  8,   9,   15,  16,  17,  24,  31,  32,  33,  40,  48, 63,
                                  64, 65, 72, 80, 96, 97, 100, 112, 127, 128, 129, 130, 136, 160, 192, 200, 257};
static const double MOST_WORK = 1.2e7; /* multiplications of a forward pass */
enum { MOST_OF_VALUE = 20000 };        /* elements of a sample */

typedef struct Wide {
    Grower *g;
    Value x;     /* what the chain has come to */
    double work; /* multiplications of the batch */
    bool mixes;  /* samples: batchnorm over the whole batch */
} Wide;

static int64_t extent(Grower *g, int64_t most)
{
    for (;;) {
        int64_t e = EXTENTS[below(g, COUNT(EXTENTS))];
        if (e <= most)
            return e;
    }
}

/* the next value of the chain; false: it would be too large, or take too long */
static bool next(Wide *w, Value shape, double work, const char *expression)
{
    work *= w->g->batch;
    if (elements(&shape) > MOST_OF_VALUE || elements(&shape) < 1 || w->work + work > MOST_WORK)
        return false;
    w->work += work;
    const char *name = new_name(w->g, "v");
    text_add(&w->g->body, "    %s = %s\n", name, expression);
    shape.name = name;
    w->x = shape;
    return true;
}

static int64_t channels(const Wide *w) { return w->x.e[w->x.rank - 1]; }

static bool wide_dense(Wide *w)
{
    Grower *g = w->g;
    Value y = w->x;
    int64_t width = y.e[y.rank - 1] = extent(g, 257);
    return next(w, y, (double)elements(&w->x) * (double)width,
                format("%s |> dense(%lld%s%s)", w->x.name, (long long)width, chance(g, 25) ? ", bias = false" : "",
                       chance(g, 60) ? format(", act = %s", activation(g)) : ""));
}

/* one axis of a convolution: "same" is [low, high] in all of what it must be */
static int64_t convolved(int64_t n, int64_t size, int64_t stride, int64_t dilation, int64_t pads)
{
    int64_t room = n + pads - dilation * (size - 1) - 1;
    return room < 0 ? 0 : room / stride + 1;
}

static bool wide_conv(Wide *w)
{
    Grower *g = w->g;
    if (w->x.rank < 2)
        return false;
    int64_t c = channels(w), groups = 1, width = extent(g, 136), size[3], taps = 1;
    if (c > 1 && chance(g, 35)) { /* groups of 1, 2, 4, 8 ... channels, or all of them alone */
        for (groups = chance(g, 40) ? c : (int64_t)2 << below(g, 4); c % groups; groups--)
            ;
        width = groups * (1 + below(g, 4));
    }
    Value y = w->x;
    Text sizes = {0}, strides = {0}, dilations = {0}, pads = {0};
    for (int i = 0; i + 1 < y.rank; i++) {
        int64_t stride = chance(g, 60) ? 1 : 1 + below(g, 3), dilation = chance(g, 80) ? 1 : 1 + below(g, 3), low, high;
        size[i] = chance(g, 25) ? 1 : 1 + below(g, 7);
        taps *= size[i];
        low = below(g, (int)(dilation * (size[i] - 1)) + 1);
        high = chance(g, 60) ? low : below(g, (int)(dilation * (size[i] - 1)) + 1);
        if ((y.e[i] = convolved(w->x.e[i], size[i], stride, dilation, low + high)) < 1)
            return false;
        const char *comma = i ? ", " : "";
        text_add(&sizes, "%s%lld", comma, (long long)size[i]);
        text_add(&strides, "%s%lld", comma, (long long)stride);
        text_add(&dilations, "%s%lld", comma, (long long)dilation);
        text_add(&pads, "%s[%lld, %lld]", comma, (long long)low, (long long)high);
    }
    y.e[y.rank - 1] = width;
    double work = (double)elements(&y) * (double)taps * (double)(c / groups);
    return next(w, y, work,
                format("%s |> conv(%lld, [%s], stride = [%s], padding = [%s], dilation = [%s], groups = %lld%s%s)", w->x.name,
                       (long long)width, text_of(&sizes), text_of(&strides), text_of(&pads), text_of(&dilations),
                       (long long)groups, chance(g, 30) ? ", bias = false" : "",
                       chance(g, 50) ? format(", act = %s", activation(g)) : ""));
}

static bool wide_conv_transpose(Wide *w)
{
    Grower *g = w->g;
    if (w->x.rank < 2)
        return false;
    int64_t c = channels(w), width = extent(g, 64), size = 1 + below(g, 5), stride = 1 + below(g, 3), taps = 1,
            padding = below(g, (int)size / 2 + 1);
    Value y = w->x;
    for (int i = 0; i + 1 < y.rank; i++, taps *= size)
        if ((y.e[i] = (w->x.e[i] - 1) * stride + size - 2 * padding) < 1)
            return false;
    y.e[y.rank - 1] = width;
    return next(w, y, (double)elements(&w->x) * (double)taps * (double)width,
                format("%s |> conv_transpose(%lld, %lld, stride = %lld, padding = %lld)", w->x.name, (long long)width,
                       (long long)size, (long long)stride, (long long)padding)) &&
           c;
}

static bool wide_pool(Wide *w)
{
    Grower *g = w->g;
    if (w->x.rank < 2)
        return false;
    int64_t size = 1 + below(g, 4), stride = 1 + below(g, 3), padding = below(g, (int)size / 2 + 1);
    Value y = w->x;
    for (int i = 0; i + 1 < y.rank; i++)
        if ((y.e[i] = convolved(w->x.e[i], size, stride, 1, 2 * padding)) < 1)
            return false;
    return next(w, y, (double)elements(&y),
                format("%s |> %s(%lld, stride = %lld, padding = %lld)", w->x.name, chance(g, 50) ? "maxpool" : "avgpool",
                       (long long)size, (long long)stride, (long long)padding));
}

static bool wide_norm(Wide *w)
{
    Grower *g = w->g;
    int64_t c = channels(w), groups = 1 + below(g, 8);
    switch (below(g, 5)) {
    case 0: return next(w, w->x, 0, format("%s |> layernorm(eps = 1e-2)", w->x.name));
    case 1: return next(w, w->x, 0, format("%s |> rmsnorm(eps = 1e-2)", w->x.name));
    case 2:
        return w->x.rank > 1 && c % groups == 0 &&
               next(w, w->x, 0, format("%s |> groupnorm(%lld, eps = 1e-2)", w->x.name, (long long)groups));
    case 3: return next(w, w->x, 0, format("%lld * softmax(%s)", (long long)c, w->x.name));
    default:
        if (g->accumulate > 1 || chance(g, 30))
            return next(w, w->x, 0, format("%s |> batchnorm(stats = %d, eps = 1e-2)", w->x.name, 1 + below(g, 3)));
        w->mixes = true;
        return next(w, w->x, 0, format("%s |> batchnorm(eps = 1e-2)", w->x.name));
    }
}

/* a query block is up to 128 rows, and a row of keys may be several */
static bool wide_attention(Wide *w)
{
    Grower *g = w->g;
    if (w->x.rank != 2)
        return false;
    int64_t t = w->x.e[0], c = channels(w), heads = 1 + below(g, 4), keys, width;
    const char *causal = chance(g, 50) ? ", causal = true" : "";
    if (c % heads)
        heads = 1;
    width = c / heads;
    double work = (double)t * (double)c * (4.0 * (double)c + 2.0 * (double)t);
    switch (below(g, 3)) {
    case 0: {
        keys = heads % 2 == 0 && chance(g, 50) ? heads / 2 : heads;
        return next(w, w->x, work,
                    format("%s |> self_attention(%lld, groups = %lld%s%s%s)", w->x.name, (long long)heads, (long long)keys,
                           causal, width % 2 == 0 && chance(g, 30) ? ", rotary = true" : "",
                           chance(g, 25) ? format(", mask = arange(%lld) %% %d != 1", (long long)t, 2 + below(g, 5)) : ""));
    }
    case 1:
        return next(w, w->x, 2 * work,
                    format("%s |> transformer(%lld, hidden = %lld%s, act = %s)", w->x.name, (long long)heads,
                           (long long)extent(g, 130), causal, activation(g)));
    default: { /* queries at the end of more keys, values of another width */
        int64_t cut = below(g, (int)t);
        Value y = {.rank = 2, .e = {t - cut, c}, .sample = true};
        const char *q = format("reshape(%s, [%lld, %lld, %lld])", w->x.name, (long long)t, (long long)heads, (long long)width);
        return next(w, y, (double)t * (double)t * (double)c,
                    format("flatten_last(attention(%s[%lld:], tanh(%s), %s%s%s%s))", q, (long long)cut, q, q, causal,
                           chance(g, 30) ? format(", window = %lld", (long long)extent(g, t)) : "",
                           chance(g, 20) ? ", cap = 5" : ""));
    }
    }
}

static bool wide_recurrent(Wide *w)
{
    Grower *g = w->g;
    static const char *const CELLS[] = {"rnn", "lstm", "gru"};
    if (w->x.rank != 2 || w->x.e[0] > 24)
        return false;
    int cell = below(g, COUNT(CELLS));
    int64_t width = extent(g, 130);
    Value y = w->x;
    y.e[1] = width;
    return next(w, y,
                (cell == 0   ? 1.0
                 : cell == 1 ? 4.0
                             : 3.0) *
                    (double)(y.e[0] * width) * (double)(width + channels(w)),
                format("%s |> %s(%lld)", w->x.name, CELLS[cell], (long long)width));
}

static bool wide_reduce(Wide *w)
{
    Grower *g = w->g;
    if (w->x.rank < 2)
        return false;
    int axis = below(g, w->x.rank);
    Value y = {.sample = true};
    for (int i = 0; i < w->x.rank; i++)
        if (i != axis)
            y.e[y.rank++] = w->x.e[i];
    static const char *const FORMS[] = {"mean", "logsumexp", "max", "tanh(0.1 * sum", "sqrt(0.1 + variance"};
    const char *form = FORMS[below(g, COUNT(FORMS))];
    return next(w, y, (double)elements(&w->x), format("%s(%s, %d)%s", form, w->x.name, axis, strchr(form, '(') ? ")" : ""));
}

static bool wide_view(Wide *w)
{
    Grower *g = w->g;
    Value y = w->x;
    if (w->x.rank == 1)
        return false;
    if (chance(g, 40)) {
        y.rank = 2;
        y.e[0] = w->x.rank == 3 ? w->x.e[0] * w->x.e[1] : w->x.e[0];
        y.e[1] = channels(w);
        return w->x.rank == 3 && next(w, y, 0, format("%s |> reshape(%s)", w->x.name, shape_list(&y)));
    }
    if (w->x.rank == 2) {
        y.e[0] = w->x.e[1], y.e[1] = w->x.e[0];
        return next(w, y, 0, format("transpose(%s)", w->x.name));
    }
    return next(w, y, 0, format("tanh(%s + 0.5 * flip(%s, %d))", w->x.name, w->x.name, below(g, w->x.rank)));
}

static bool wide_product(Wide *w) /* contractions of a value with itself */
{
    Grower *g = w->g;
    if (w->x.rank != 2)
        return false;
    int64_t n = w->x.e[0], c = w->x.e[1];
    Value y = {.rank = 2, .e = {n, n}, .sample = true};
    if (chance(g, 50))
        return next(w, y, (double)(n * n * c), format("tanh(%s @ transpose(%s) / %lld)", w->x.name, w->x.name, (long long)c));
    y.e[0] = y.e[1] = c;
    return next(w, y, (double)(n * c * c),
                format("tanh(einsum(\"ta,tb->ab\", %s, tanh(%s)) / %lld)", w->x.name, w->x.name, (long long)n));
}

static bool wide_noise(Wide *w) { return next(w, w->x, 0, format("%s |> dropout(0.%d)", w->x.name, 1 + below(w->g, 5))); }

typedef bool WideGrowth(Wide *);
static WideGrowth *const GROWTHS[] = {wide_dense,          wide_dense,     wide_dense,  wide_conv, wide_conv,      wide_conv,
                                      wide_conv_transpose, wide_pool,      wide_norm,   wide_norm, wide_attention, wide_attention,
                                      wide_attention,      wide_recurrent, wide_reduce, wide_view, wide_product,   wide_noise};

static void wide_input(Wide *w)
{
    Grower *g = w->g;
    Value v = {.rank = chance(g, 15) ? 1 : chance(g, 50) ? 2 : 3, .sample = true, .name = "x1"};
    switch (v.rank) {
    case 1: v.e[0] = extent(g, 257); break;
    case 2: v.e[0] = extent(g, 257), v.e[1] = extent(g, 130); break;
    default: v.e[0] = extent(g, 33), v.e[1] = extent(g, 33), v.e[2] = chance(g, 40) ? 3 : extent(g, 97);
    }
    if (v.rank == 2 && chance(g, 30)) {
        int64_t count = extent(g, 257) + 1;
        text_add(&g->inputs, "    input token: class(%lld)[%lld]\n", (long long)count, (long long)v.e[0]);
        text_add(&g->body, "    x1 = token |> embedding(%lld, init = |> normal(0.5))\n", (long long)v.e[1]);
    } else {
        while (elements(&v) > MOST_OF_VALUE)
            v.e[0] = (v.e[0] + 1) / 2;
        text_add(&g->inputs, "    input x1: f32%s\n", shape_list(&v));
    }
    g->names = 1;
    w->x = v;
}

/* factor: f16 has gradients that are 65,536 times as large, which must not be too large */
static void wide_loss(Wide *w, const char *factor)
{
    Grower *g = w->g;
    int64_t classes = extent(g, 257) + 1;
    bool each = w->x.rank == 2 && chance(g, 40);
    double work = (double)elements(&w->x) * (double)classes * g->batch;
    if (chance(g, 60) && (!each || elements(&w->x) / channels(w) * classes <= MOST_OF_VALUE) && w->work + work < MOST_WORK) {
        text_add(&g->inputs, "    input label: class(%lld%s)%s\n", (long long)classes, chance(g, 30) ? ", ignore = -100" : "",
                 each ? format("[%lld]", (long long)w->x.e[0]) : "");
        text_add(
            &g->losses,
            "    logits = %s%s |> dense(%lld)\n    loss   %scross_entropy(logits, label)\n    metric accuracy(logits, label)\n",
            w->x.name, each ? "" : " |> flatten()", (long long)classes, factor);
    } else {
        text_add(&g->losses, "    loss   %smse(%s |> flatten() |> dense(3), 0.3)\n", factor, w->x.name);
    }
    text_add(&g->losses, "    loss   base = %smse(x1, 0.1)\n    output %s\n", factor, w->x.name);
}

const char *grow_wide(Grower *g, uint64_t seed)
{
    static const int BATCHES[] = {1, 2, 3, 5, 8, 16, 17, 33, 64};
    static const char *const PRECISIONS[] = {"f64", "f64", "f64", "f32", "tf32", "bf16", "bf16", "f16"};
    static const char *const TRAINS[] = {"sgd()", "sgd(momentum = 0.9)", "sgd(momentum = 0.9, nesterov = true)"};
    const char *precision = PRECISIONS[below(g, COUNT(PRECISIONS))];
    g->batch = BATCHES[below(g, COUNT(BATCHES))];
    g->accumulate = chance(g, 25) ? 2 + below(g, 2) : 1;
    Wide w = {.g = g};
    wide_input(&w);
    for (int layers = 2 + below(g, 4), tries = 0; layers > 0 && tries < 40; tries++)
        layers -= GROWTHS[below(g, COUNT(GROWTHS))](&w);
    bool scaled = strcmp(precision, "f16") == 0;
    wide_loss(&w, scaled ? "1e-3 * " : "");
    Text t = {0};
    text_add(
        &t,
        "# grown wide from the seed %llu\nlayer flatten_last(x: [t, h, d]) { return reshape(x, [t, h * d]) }\n\nmodel grown {\n%s\n%s\n%s}\n\n",
        (unsigned long long)seed, text_of(&g->inputs), text_of(&g->body), text_of(&g->losses));
    text_add(&t, "train {\n    batch = %d\n    steps = 4\n    precision = %s\n    lr = %s\n    optimizer = %s\n", g->batch,
             precision, scaled ? "50" : "0.05", TRAINS[below(g, COUNT(TRAINS))]);
    if (g->accumulate > 1)
        text_add(&t, "    accumulate = %d\n", g->accumulate);
    if (!scaled && chance(g, 20))
        text_add(&t, "    clip = 1.0\n");
    text_add(&t, "}\n");
    return copy_text(text_of(&t), t.length);
}
