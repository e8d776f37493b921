#!/usr/bin/env python3
"""Ten losses of the examples from the literature, narrow, in PyTorch, f64: the files NAME.losses beside this script, read
by tests/literature.test, which says the settings. Weights, data and random draws are made as make.py says.

    python3 tests/reference/literature.py [NAME...]     needs torch and numpy; the tests themselves need neither
"""
import math
import sys

import torch
import torch.nn.functional as F

from make import HERE, STEPS, attend, dense, dropout, idx, rope, uniform, weight

torch.set_default_dtype(torch.float64)


class Weights(dict):
    def __init__(self, shapes):
        super().__init__({name: weight(name, *shape) for name, shape in shapes.items()})

    def groups(self, decay, plain):
        """what AdamW takes: `plain` says of a name that it does not decay"""
        return [{"params": [v for k, v in self.items() if not plain(k)], "weight_decay": decay},
                {"params": [v for k, v in self.items() if plain(k)], "weight_decay": 0}]


def norm(w, x, name, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], eps)


def pair(name, *shape):
    return {name + ".weight": shape, name + ".bias": shape[:1]}


def smoothed(logits, label):
    return F.cross_entropy(logits, label, label_smoothing=0.1)


def convnext_t():
    size, base, depths, drop = 32, 8, [1, 1, 2, 1], 0.4
    shapes = {**pair("downsample_layers.0.0", base, 3, 4, 4), **pair("downsample_layers.0.1", base), **pair("norm", 8 * base),
              **pair("head", 10, 8 * base)}
    for i, depth in enumerate(depths):
        c = base * 2**i
        if i:
            shapes |= {**pair(f"downsample_layers.{i}.0", c // 2), **pair(f"downsample_layers.{i}.1", c, c // 2, 2, 2)}
        for j in range(depth):
            p = f"stages.{i}.{j}."
            shapes |= {p + "gamma": (c,), **pair(p + "dwconv", c, 1, 7, 7), **pair(p + "norm", c), **pair(p + "pwconv1", 4 * c, c),
                       **pair(p + "pwconv2", c, 4 * c)}
    w = Weights(shapes)

    def conv(x, name, **options):
        return F.conv2d(x.permute(0, 3, 1, 2), w[name + ".weight"], w[name + ".bias"], **options).permute(0, 2, 3, 1)

    def loss(data, first, step):
        x = (data["image"].double() / 255 - torch.tensor([0.485, 0.456, 0.406])) / torch.tensor([0.229, 0.224, 0.225])
        turn = uniform("random_flip_1.random_1", first, len(x), step) < 0.5
        x = torch.where(turn[:, None, None, None], x.flip(2), x)
        x = norm(w, conv(x, "downsample_layers.0.0", stride=4), "downsample_layers.0.1", 1e-6)
        done = 0
        for i, depth in enumerate(depths):
            if i:
                x = conv(norm(w, x, f"downsample_layers.{i}.0", 1e-6), f"downsample_layers.{i}.1", stride=2)
            for j in range(depth):
                p = f"stages.{i}.{j}."
                y = norm(w, conv(x, p + "dwconv", padding=3, groups=x.shape[3]), p + "norm", 1e-6)
                y = w[p + "gamma"] * dense(w, F.gelu(dense(w, y, p + "pwconv1")), p + "pwconv2")
                rate = drop * done / (sum(depths) - 1)
                if rate:
                    u = uniform(p + "stochastic_depth_1.dropout_1.random_1", first, len(x), step, 1, 1, 1)
                    y = torch.where(u < rate, 0.0, y / (1 - rate))
                x, done = x + y, done + 1
        return smoothed(dense(w, norm(w, x.mean((1, 2)), "norm", 1e-6), "head"), data["label"])

    plain = lambda k: k.endswith((".bias", "norm.weight", ".gamma"))
    return w, 4, {"image": (256, size, size, 3), "label": (10,)}, loss, torch.optim.AdamW(w.groups(0.05, plain), lr=2e-3), None


def bert_base():
    vocab, context, width, heads, depth, rate, masked = 100, 12, 16, 2, 2, 0.1, 3
    shapes = {"bert.embeddings.word_embeddings.weight": (vocab, width), "bert.embeddings.position_embeddings.weight": (512, width),
              "bert.embeddings.token_type_embeddings.weight": (2, width), **pair("bert.embeddings.LayerNorm", width),
              **pair("bert.pooler.dense", width, width), "cls.predictions.bias": (vocab,),
              **pair("cls.predictions.transform.dense", width, width), **pair("cls.predictions.transform.LayerNorm", width),
              **pair("cls.seq_relationship", 2, width)}
    for i in range(depth):
        p = f"bert.encoder.layer.{i}."
        for name in ("query", "key", "value"):
            shapes |= pair(p + "attention.self." + name, width, width)
        shapes |= {**pair(p + "attention.output.dense", width, width), **pair(p + "attention.output.LayerNorm", width),
                   **pair(p + "intermediate.dense", 4 * width, width), **pair(p + "output.dense", width, 4 * width),
                   **pair(p + "output.LayerNorm", width)}
    w = Weights(shapes)
    words = w["bert.embeddings.word_embeddings.weight"]

    def residual(y, x, name, first, step):
        return norm(w, x + dropout(dense(w, y, name + ".dense"), rate, name + ".dropout_1.random_1", first, step), name + ".LayerNorm", 1e-12)

    def loss(data, first, step):
        token, n = data["token"], len(data["token"])
        u, v, z = uniform("random_1", first, n, step, 3, context).unbind(1)
        chosen = (u < 0.15) & (token != 0)
        seen = torch.where(chosen & (v < 0.8), masked, torch.where(chosen & (v < 0.9), (z * vocab).floor().long(), token))
        x = words[seen] + w["bert.embeddings.position_embeddings.weight"][:context] + w["bert.embeddings.token_type_embeddings.weight"][data["segment"]]
        x = dropout(norm(w, x, "bert.embeddings.LayerNorm", 1e-12), rate, "bert.embeddings.dropout_1.random_1", first, step)
        hidden = (seen == 0)[:, None, None]
        for i in range(depth):
            p = f"bert.encoder.layer.{i}."
            q, k, v = (dense(w, x, p + "attention.self." + name).reshape(n, context, heads, -1) for name in ("query", "key", "value"))
            a = torch.einsum("nthd,nshd->nhts", q, k) * q.shape[3] ** -0.5
            a = torch.einsum("nhts,nshd->nthd", a.masked_fill(hidden, -1e30).softmax(3), v).flatten(2)
            y = residual(a, x, p + "attention.output", first, step)
            x = residual(F.gelu(dense(w, y, p + "intermediate.dense")), y, p + "output", first, step)
        sentence = torch.tanh(dense(w, x[:, 0], "bert.pooler.dense"))
        y = norm(w, F.gelu(dense(w, x, "cls.predictions.transform.dense")), "cls.predictions.transform.LayerNorm", 1e-12)
        logits = y @ words.T + w["cls.predictions.bias"]
        each = F.cross_entropy(logits.flatten(0, 1), token.flatten(), reduction="none").reshape(token.shape)
        return (each * chosen).sum() / chosen.sum() + F.cross_entropy(dense(w, sentence, "cls.seq_relationship"), data["follows"])

    plain = lambda k: k.endswith((".bias", "LayerNorm.weight"))
    return (w, 8, {"token": (vocab, context), "segment": (2, context), "follows": (2,)}, loss,
            torch.optim.AdamW(w.groups(0.01, plain), lr=2e-3), 1.0)


def tinyllama():
    vocab, context, width, heads, groups, hidden, depth = 100, 16, 32, 4, 2, 48, 2
    d = width // heads
    shapes = {"model.embed_tokens.weight": (vocab, width), "model.norm.weight": (width,), "lm_head.weight": (vocab, width)}
    for i in range(depth):
        p = f"model.layers.{i}."
        shapes |= {p + "input_layernorm.weight": (width,), p + "post_attention_layernorm.weight": (width,),
                   p + "self_attn.q_proj.weight": (width, width), p + "self_attn.k_proj.weight": (groups * d, width),
                   p + "self_attn.v_proj.weight": (groups * d, width), p + "self_attn.o_proj.weight": (width, width),
                   p + "mlp.gate_proj.weight": (hidden, width), p + "mlp.up_proj.weight": (hidden, width),
                   p + "mlp.down_proj.weight": (width, hidden)}
    w = Weights(shapes)

    def rms(x, name):
        return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * w[name + ".weight"]

    def linear(x, name):
        return F.linear(x, w[name + ".weight"])

    def loss(data, first, step):
        x = w["model.embed_tokens.weight"][data["token"]]
        for i in range(depth):
            p = f"model.layers.{i}."
            y = rms(x, p + "input_layernorm")
            q, k, v = (linear(y, p + f"self_attn.{c}_proj").reshape(len(x), context, -1, d) for c in "qkv")
            x = x + linear(attend(rope(q), rope(k), v, causal=True).flatten(2), p + "self_attn.o_proj")
            y = rms(x, p + "post_attention_layernorm")
            x = x + linear(F.silu(linear(y, p + "mlp.gate_proj")) * linear(y, p + "mlp.up_proj"), p + "mlp.down_proj")
        return F.cross_entropy(linear(rms(x, "model.norm"), "lm_head").flatten(0, 1), data["next"].flatten())

    optimizer = torch.optim.AdamW(w.groups(0.1, lambda k: k.endswith("norm.weight")), lr=2e-3, betas=(0.9, 0.95))
    return w, 4, {"token": (vocab, context), "next": (vocab, context)}, loss, optimizer, 1.0


def lstm_lm():
    vocab, context, width, rate = 100, 9, 24, 0.5
    shapes = {"embedding_1.weight": (vocab, width), **pair("dense_1", vocab, width)}
    for i in (1, 2):
        shapes |= {f"lstm_{i}.weight_ih": (4 * width, width), f"lstm_{i}.weight_hh": (4 * width, width), f"lstm_{i}.bias": (4 * width,)}
    w = Weights(shapes)

    def loss(data, first, step):
        x = dropout(w["embedding_1.weight"][data["token"]], rate, "dropout_1.random_1", first, step)
        for i in (1, 2):
            h = c = x.new_zeros(len(x), width)
            out = []
            for t in range(context):
                z = x[:, t] @ w[f"lstm_{i}.weight_ih"].T + w[f"lstm_{i}.bias"] + h @ w[f"lstm_{i}.weight_hh"].T
                a, f, g, o = z.chunk(4, 1)
                c = f.sigmoid() * c + a.sigmoid() * g.tanh()
                h = o.sigmoid() * c.tanh()
                out.append(h)
            x = dropout(torch.stack(out, 1), rate, f"dropout_{i + 1}.random_1", first, step)
        return F.cross_entropy(dense(w, x, "dense_1").flatten(0, 1), data["next"].flatten())

    return w, 4, {"token": (vocab, context), "next": (vocab, context)}, loss, torch.optim.SGD(w.values(), lr=0.5), 5.0


CATEGORIES = {"workclass": 9, "education": 17, "marital": 8, "occupation": 15, "relationship": 7, "race": 6, "sex": 3, "country": 42}


def ft_transformer():
    width, heads, hidden, depth, rate = 16, 2, 21, 2, 0.1
    shapes = {"tokens.numeric.weight": (6, width), "tokens.numeric.bias": (6, width), "cls": (1, width), **pair("norm", width),
              **pair("head", 1, width)}
    for i, count in enumerate(CATEGORIES.values()):
        shapes |= {f"tokens.{i}.weight": (count, width), f"tokens.{i}.bias": (width,)}
    for i in range(depth):
        p = f"blocks.{i}."
        if i:
            shapes |= pair(p + "attention_norm", width)
        for name in ("q", "k", "v", "out"):
            shapes |= pair(p + name, width, width)
        shapes |= {**pair(p + "hidden_norm", width), **pair(p + "up", 2 * hidden, width), **pair(p + "down", width, hidden)}
    w = Weights(shapes)

    def loss(data, first, step):
        x = (torch.log(1 + data["numeric"].double()) - torch.tensor([3.62, 11.98, 2.37, 0.73, 0.35, 3.67])) / torch.tensor([0.35, 0.63, 0.27, 2.45, 1.58, 0.39])
        n = len(x)
        tokens = [x[:, :, None] * w["tokens.numeric.weight"] + w["tokens.numeric.bias"]]
        for i, name in enumerate(CATEGORIES):
            tokens.append((w[f"tokens.{i}.weight"][data[name]] + w[f"tokens.{i}.bias"])[:, None])
        x = torch.cat(tokens + [w["cls"].expand(n, 1, width)], 1)
        for i in range(depth):
            p = f"blocks.{i}."
            y = norm(w, x, p + "attention_norm") if i else x
            q, k, v = (dense(w, y, p + name).reshape(n, -1, heads, width // heads) for name in "qkv")
            x = x + dense(w, attend(q, k, v).flatten(2), p + "out")
            a, b = dense(w, norm(w, x, p + "hidden_norm"), p + "up").chunk(2, 2)
            x = x + dense(w, dropout(a * F.relu(b), rate, p + "dropout_1.random_1", first, step), p + "down")
        logit = dense(w, F.relu(norm(w, x[:, -1], "norm")), "head")[:, 0]
        return F.binary_cross_entropy_with_logits(logit, data["label"].double())

    plain = lambda k: k.endswith((".bias", "norm.weight")) or k.startswith("tokens")
    return (w, 8, {"numeric": (200, 6), "label": (2,), **{k: (v,) for k, v in CATEGORIES.items()}}, loss,
            torch.optim.AdamW(w.groups(1e-5, plain), lr=2e-3), None)


def main():
    for example in (convnext_t, bert_base, tinyllama, lstm_lm, ft_transformer):
        if sys.argv[1:] and example.__name__ not in sys.argv[1:]:
            continue
        w, batch, columns, loss, optimizer, clip = example()
        data = {name: idx(modulus, 2 * batch, *shape) for name, (modulus, *shape) in columns.items()}
        losses = []
        for step in range(STEPS):  # two steps an epoch
            first = step % 2 * batch
            optimizer.zero_grad()
            value = loss({k: v[first : first + batch] for k, v in data.items()}, first, step + 1)
            value.backward()
            if clip:
                torch.nn.utils.clip_grad_norm_(w.values(), clip)
            optimizer.step()
            losses.append(value.item())
        (HERE / f"{example.__name__}.losses").write_text("".join(f"{v:.17g}\n" for v in losses))
        print(example.__name__, losses[0], losses[-1])


if __name__ == "__main__":
    main()
