/* grow_layers.c: statements of random models: layers of the library, what looks at several samples, and structure; see grow.c.
 * Every grow_x adds one statement, or returns false if nothing in the pool is fit for it. */
#include "tests/fuzz/grow_parts.h"

/* ---- convolutions and windows: rank 2 (1-D) and 3 (2-D) */
static int64_t convolved(int64_t n, int64_t k, int64_t stride, int64_t dilation, int64_t pads)
{
    int64_t room = n + pads - dilation * (k - 1) - 1;
    return room < 0 ? 0 : room / stride + 1;
}

bool grow_conv(Grower *g)
{
    const Value *x = pick_rank(g, 2, 3);
    if (!x || (g->evaluation && !x->sample))
        return false;
    Value y = like(x);
    int64_t c = x->e[x->rank - 1], k = 1 + below(g, 3), stride = 1 + below(g, 2), dilation = chance(g, 25) ? 2 : 1, groups = 1;
    int64_t width = 1 + below(g, 4);
    if (chance(g, 30) && c > 1) {
        groups = c;
        width = c * (1 + below(g, 2));
    }
    int padding = below(g, 3);
    int64_t pads = padding == 0 ? dilation * (k - 1) : padding == 1 ? 0 : 2;
    for (int i = 0; i + 1 < x->rank; i++)
        if ((y.e[i] = convolved(x->e[i], k, stride, dilation, pads)) < 1)
            return false;
    y.e[y.rank - 1] = width;
    Text t = {0};
    text_add(&t, "%s |> conv(%lld, %lld", x->name, (long long)width, (long long)k);
    if (stride > 1)
        text_add(&t, ", stride = %lld", (long long)stride);
    if (padding)
        text_add(&t, ", padding = %s", padding == 1 ? "\"valid\"" : "1");
    if (dilation > 1)
        text_add(&t, ", dilation = %lld", (long long)dilation);
    if (groups > 1)
        text_add(&t, ", groups = %lld", (long long)groups);
    if (chance(g, 30))
        text_add(&t, ", bias = false");
    if (chance(g, 40))
        text_add(&t, ", act = %s", activation(g));
    text_add(&t, ")");
    return define(g, y, text_of(&t));
}

bool grow_conv_transpose(Grower *g)
{
    const Value *x = pick_rank(g, 2, 3);
    if (!x || (g->evaluation && !x->sample))
        return false;
    Value y = like(x);
    int64_t k = 1 + below(g, 3), stride = 1 + below(g, 2), padding = k > 1 && chance(g, 40);
    for (int i = 0; i + 1 < x->rank; i++)
        if ((y.e[i] = (x->e[i] - 1) * stride + k - 2 * padding) < 1)
            return false;
    y.e[y.rank - 1] = 1 + below(g, 3);
    return define(g, y,
                  format("%s |> conv_transpose(%lld, %lld, stride = %lld, padding = %lld)", x->name, (long long)y.e[y.rank - 1],
                         (long long)k, (long long)stride, (long long)padding));
}

bool grow_pool(Grower *g)
{
    const Value *x = pick_rank(g, 2, 3);
    if (!x)
        return false;
    Value y = like(x);
    int64_t k = 1 + below(g, 3), stride = 1 + below(g, 3), padding = k > 1 && chance(g, 30);
    for (int i = 0; i + 1 < x->rank; i++)
        if ((y.e[i] = convolved(x->e[i], k, stride, 1, 2 * padding)) < 1)
            return false;
    if (g->smooth || chance(g, 40))
        return define(g, y,
                      format("%s |> avgpool(%lld, stride = %lld%s)", x->name, (long long)k, (long long)stride,
                             padding ? ", padding = 1" : ""));
    return define(
        g, y,
        format("%s |> maxpool(%lld, stride = %lld%s)", x->name, (long long)k, (long long)stride, padding ? ", padding = 1" : ""));
}

bool grow_image(Grower *g) /* layers of [h, w, c] */
{
    const Value *x = pick_rank(g, 3, 3);
    if (!x || (g->evaluation && !x->sample))
        return false;
    Value y = like(x);
    int64_t n = 1 + below(g, 3);
    switch (below(g, 7)) {
    case 0:
        y.e[0] *= 2, y.e[1] *= 2;
        return define(g, y, format("upsample(%s%s)", x->name, chance(g, 50) ? ", mode = \"bilinear\"" : ""));
    case 1:
        if (x->e[2] % 4)
            return false;
        y.e[0] *= 2, y.e[1] *= 2, y.e[2] /= 4;
        return define(g, y, format("pixel_shuffle(%s, 2)", x->name));
    case 2: y.e[0] = y.e[1] = n; return define(g, y, format("adaptive_avgpool(%s, %lld)", x->name, (long long)n));
    case 3:
        if (x->e[0] < 2 || x->e[1] < 2)
            return false;
        y.e[0] += 2, y.e[1] += 2;
        return define(g, y, format("reflect_pad(%s, 1)", x->name));
    case 4: return define(g, y, format("%s |> squeeze_excite(%lld, act = tanh)", x->name, (long long)n));
    case 5: return define(g, y, format("%s |> depthwise(%lld)", x->name, (long long)n));
    default: return define(g, y, format("random_flip(%s)", x->name));
    }
}

/* ---- norms and noise */
bool grow_norm(Grower *g)
{
    const Value *x = pick_rank(g, 1, 3);
    if (!x)
        return false;
    int64_t c = x->e[x->rank - 1];
    switch (below(g, 6)) {
    case 0: return define(g, like(x), format("%s |> layernorm(eps = 1e-2%s)", x->name, chance(g, 30) ? ", bias = false" : ""));
    case 1: return define(g, like(x), format("%s |> rmsnorm(eps = 1e-2)", x->name));
    case 2:
        return x->rank > 1 &&
               define(g, like(x), format("%s |> groupnorm(%lld, eps = 1e-2)", x->name, (long long)(chance(g, 50) ? 1 : c)));
    case 3: return define(g, like(x), format("softmax(%s)", x->name));
    default:
        if (!x->sample || (g->accumulate > 1 && !g->groups) || (g->scans && x - g->pool >= g->free_values))
            return false;
        if (g->groups)
            return define(g, like(x), format("%s |> batchnorm(stats = %d, eps = 1e-2)", x->name, g->groups));
        g->whole_batch = true;
        return define(g, like(x), format("%s |> batchnorm(eps = 1e-2)", x->name));
    }
}

bool grow_noise(Grower *g)
{
    const Value *x = pick(g);
    Value y = like(x), drawn = like(x); /* in evaluation nothing is dropped: what is the same for all samples stays so */
    drawn.sample = true;
    switch (below(g, 4)) {
    case 0: return define(g, drawn, format("%s + 0.1 * random_normal(%s.shape)", x->name, x->name));
    case 1:
        if (!define(g, y, x->name))
            return false;
        SAY("    if training {\n        %s = %s * (0.5 + random([]))\n    } else {\n        %s = 0.9 * %s\n    }\n",
            g->pool[g->count - 1].name, x->name, g->pool[g->count - 1].name, x->name);
        return true;
    case 2: return define(g, y, format("%s |> stochastic_depth(0.3)", x->name));
    default: return define(g, y, format("%s |> dropout(0.%d)", x->name, 1 + below(g, 6)));
    }
}

/* ---- sequences: [t, c] */
bool grow_sequence(Grower *g)
{
    const Value *x = pick_rank(g, 2, 2);
    if (!x)
        return false;
    int64_t c = x->e[1], heads = c % 2 == 0 && chance(g, 60) ? 2 : 1;
    const char *causal = chance(g, 50) ? ", causal = true" : "";
    switch (below(g, 5)) {
    case 0:
        return define(g, like(x),
                      format("%s |> self_attention(%lld%s%s)", x->name, (long long)heads, causal,
                             c / heads % 2 == 0 && chance(g, 50) ? ", rotary = true" : ""));
    case 1: {
        const Value *y = pick_rank(g, 2, 2);
        return y && define(g, (Value){.rank = 2, .e = {x->e[0], c}, .sample = x->sample || y->sample},
                           format("%s |> cross_attention(%s, %lld)", x->name, y->name, (long long)heads));
    }
    case 2:
        return define(g, like(x),
                      format("tanh(%s |> transformer(%lld, hidden = %d%s, act = %s))", x->name, (long long)heads, 1 + below(g, 5),
                             causal, activation(g)));
    case 3: {
        if (c % 2)
            return false;
        const char *q = format("reshape(%s, [%lld, %lld, %lld])", x->name, (long long)x->e[0], (long long)(c / 2), (long long)2);
        Value y = like(x);
        y.rank = 3;
        y.e[1] = c / 2;
        y.e[2] = 2;
        return define(
            g, y, format("attention(%s, tanh(%s[:, :1]), %s[:, :1]%s%s)", q, q, q, causal, chance(g, 30) ? ", window = 2" : ""));
    }
    default:
        return c % 2 == 0 &&
               define(g, (Value){.rank = 2, .e = {x->e[0], c / 2}, .sample = x->sample}, format("glu(%s)", x->name));
    }
}

bool grow_lookup(Grower *g)
{
    int64_t width = 1 + below(g, 5);
    if (g->tokens && chance(g, 60))
        return define(g, (Value){.rank = 2, .e = {g->tokens, width}, .sample = true},
                      format("token |> embedding(%lld, init = |> normal(0.5))", (long long)width));
    if (!g->classes)
        return false;
    if (chance(g, 50))
        return define(g, of_rank1(g->classes, true), format("f32(one_hot(label, %d))", g->classes));
    return define(g, of_rank1(width, true),
                  format("label |> embedding(%lld, count = %d)", (long long)width, g->classes - below(g, 2)));
}

/* ---- structure */
bool grow_weight(Grower *g) /* a value that is the same for all samples */
{
    Value y = {.rank = 1 + below(g, 2)};
    for (int i = 0; i < y.rank; i++)
        y.e[i] = 1 + below(g, 5);
    Value *v = keep(g, y);
    if (!v)
        return false;
    v->once = true;
    SAY("    weight %s: f32%s = %s\n", v->name, shape_list(&y), chance(g, 50) ? "normal(0.4)" : "uniform(-0.5, 0.5)");
    return true;
}

bool grow_loop(Grower *g)
{
    const Value *x = pick_rank(g, 1, 3);
    if (!x || !keep(g, like(x)))
        return false;
    const char *y = g->pool[g->count - 1].name;
    SAY("    %s = %s\n    for i in range(%d) {\n        %s = %s |> dense(%lld, act = %s)%s\n    }\n", y, x->name, 1 + below(g, 3),
        y, y, (long long)x->e[x->rank - 1], activation(g), chance(g, 40) ? " |> layernorm(eps = 1e-2)" : "");
    if (chance(g, 30))
        SAY("    if %s.rank > %d { %s = 0.5 * %s }\n", y, below(g, 4), y, y);
    return true;
}

bool grow_shared(Grower *g)
{
    const Value *x = pick_rank(g, 1, 2);
    if (!x)
        return false;
    const char *f = new_name(g, "layer");
    int64_t c = x->e[x->rank - 1];
    if (chance(g, 50))
        SAY("    %s = shared(|> dense(%lld, act = %s))\n", f, (long long)c, activation(g));
    else if (x->sample && g->groups && !g->scans)
        SAY("    %s = shared(|> batchnorm(stats = %d, eps = 1e-2) |> dense(%lld))\n", f, g->groups, (long long)c);
    else
        SAY("    %s = shared(|> layernorm(eps = 1e-2) |> dense(%lld))\n", f, (long long)c);
    return define(g, like(x), format("tanh(%s(%s) - %s(%s(0.5 * %s)))", f, x->name, f, f, x->name));
}

bool grow_users_layer(Grower *g)
{
    const Value *x = pick_rank(g, 1, 3);
    if (!x)
        return false;
    if (chance(g, 50)) {
        if (!g->has_block)
            text_add(&g->layers,
                     "layer block(x: [..., c], hidden = 2 * c, act = tanh, rate = 0) {\n    y = x |> dense(hidden, act = act) |> "
                     "dropout(rate) |> dense(c, bias = false, name = \"last\")\n    if hidden > 3 { y = y / 2 }\n    return x + "
                     "y\n}\n\n");
        g->has_block = true;
        return define(g, like(x),
                      format("%s |> block(hidden = %d, act = %s)%s", x->name, 1 + below(g, 5), activation(g),
                             chance(g, 30) ? " |> block(act = |> tanh())" : ""));
    }
    if (!g->has_gate)
        text_add(
            &g->layers,
            "layer gate(x: [..., c], f) {\n    weight scale: f32[c] = 1\n    state seen: f32[c] = 0\n    a = range(x.rank - 1)\n"
            "    update seen = 0.9 * seen + 0.1 * scale\n    y = f(x)\n    return x * sigmoid(y * scale + seen)\n}\n\n");
    g->has_gate = true;
    return define(g, like(x), format("%s |> gate(%s)", x->name, chance(g, 50) ? activation(g) : "|> tanh()"));
}

/* what jumps, of inputs alone: there it is exact */
bool grow_whole(Grower *g)
{
    const Value *x = &g->pool[below(g, g->input_values)];
    Value y = like(x);
    switch (below(g, 7)) {
    case 0: return define(g, y, format("floor(%s * 3) / 4", x->name));
    case 1: { /* the largest along an axis, and where they are */
        int axis = below(g, x->rank);
        int64_t k = y.e[axis] = 1 + below(g, (int)x->e[axis]);
        const Value *v = keep(g, y), *at = keep(g, y);
        if (v && at)
            SAY("    %s, %s = top_k(%s, %lld, axis = %d)\n    %s = f32(%s) / 7\n", v->name, at->name, x->name, (long long)k, axis,
                at->name, at->name);
        else if (v)
            g->count--;
        return v && at;
    }
    case 2: return define(g, y, format("f32(%s > 0.25 and not (%s == 0.5))", x->name, x->name));
    case 3: return define(g, y, format("%s %% 0.75", x->name));
    case 4: return define(g, y, format("f32(i32(%s * 5) // 2) / 3", x->name));
    case 5: y.rank--; return define(g, y, format("f32(argmax(%s)) / %lld", x->name, (long long)x->e[x->rank - 1]));
    default: return define(g, y, format("round(%s) * sign(%s)", x->name, x->name));
    }
}

/* a state that follows the mean over the batch, and is read */
bool grow_state(Grower *g)
{
    const Value *x = pick(g);
    if (!x->sample)
        return false;
    const char *s = new_name(g, "s");
    SAY("    state %s: f32[] = 0.1\n    if training { update %s = 0.8 * %s + 0.2 * batch_sum(mean(%s)) / batch_sum(1) }\n", s, s,
        s, x->name);
    return define(g, like(x), format("tanh(%s - %s)", x->name, s));
}

bool grow_cube(Grower *g) /* three spatial axes */
{
    const Value *x = pick_rank(g, 4, 4);
    if (!x || (g->evaluation && !x->sample))
        return false;
    Value y = like(x);
    int64_t stride = 1 + below(g, 2);
    for (int i = 0; i < 3; i++)
        y.e[i] = (x->e[i] - 1) / stride + 1;
    if (chance(g, 40))
        return define(g, y, format("%s |> avgpool(3, stride = %lld, padding = 1)", x->name, (long long)stride));
    y.e[3] = 1 + below(g, 3);
    return define(g, y, format("%s |> conv(%lld, 3, stride = %lld)", x->name, (long long)y.e[3], (long long)stride));
}
