#!/usr/bin/env python3
"""Ten losses of every example, and of layers.net, attention.net, loops.net and rows.net of tests/models, in PyTorch, f64: the files NAME.losses beside this script, read by tests/reference.test.

    python3 tests/reference/make.py [NAME ...]     needs torch and numpy; the tests themselves need neither

Weights and data are those of tests/tools/formula.c. Dropout masks come from our generator, Philox4x32-10 as
docs/runtime.md says, written out here once more in numpy. Nothing is shuffled; steps take consecutive samples.
"""
import math
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
HERE = pathlib.Path(__file__).parent
STEPS, SEED = 10, 5


# ---- data and weights by formula
def weight(name, *shape):
    count = math.prod(shape)
    a = 1 / math.sqrt(math.prod(shape[1:])) if len(shape) >= 2 else 0.1
    base = 1 if len(shape) == 1 and name.endswith("weight") else 0
    shift = sum(0.1 * b for b in name.encode())
    return torch.tensor(base + a * np.sin(0.37 * np.arange(count) + shift)).reshape(shape).requires_grad_()


def idx(modulus, *shape):
    i = np.arange(math.prod(shape), dtype=np.uint64)
    return torch.tensor((((i * 2654435761) % 2**32 >> 13) % modulus).astype(np.int64)).reshape(shape)


# ---- random numbers by sample
def hash_bytes(seed, data):
    mask = 2**64 - 1
    h = 14695981039346656037 ^ seed
    for b in data:
        h = ((h ^ b) * 1099511628211) & mask
    h ^= h >> 33
    h = (h * 0xFF51AFD7ED558CCD) & mask
    h ^= h >> 33
    h = (h * 0xC4CEB9FE1A85EC53) & mask
    return h ^ (h >> 33)


def random_key(seed, path):
    """runtime/abi/mgpu_random.h: mgpu_random_key(seed, hash of the path)"""
    mask = 2**64 - 1
    z = (((seed + 0x9E3779B97F4A7C15) * 0xD1342543DE82EF95) & mask) ^ hash_bytes(0, path.encode())
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def philox(key, counter):
    """counter: four uint64 arrays holding 32-bit words -> four words"""
    c = [x.astype(np.uint64) for x in counter]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        low = np.uint64(0xFFFFFFFF)
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0), p1 & low, (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1), p0 & low]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def uniform(path, first, samples, step, *shape, seed=SEED):
    """[samples, shape...]: what random(shape) draws in step `step` for samples first, first + 1, ..."""
    count = math.prod(shape)
    e = np.arange(count, dtype=np.uint64)[None, :]
    s = (first + np.arange(samples, dtype=np.uint64))[:, None]
    e, s = np.broadcast_arrays(e, s)
    words = philox(random_key(seed, path), counter_words(e // 4, s, step))
    u = np.choose((e % 4).astype(np.int64), words)
    return torch.tensor((u >> np.uint64(8)).astype(np.float64) * 2.0**-24).reshape(samples, *shape)


def counter_words(quad, sample, step):
    """element / 4: 32 bits, sample: 48, step: 48"""
    low = np.uint64(0xFFFFFFFF)
    step = np.uint64(step)
    mixed = ((sample >> np.uint64(32)) & np.uint64(0xFFFF)) | ((step << np.uint64(16)) & low)
    return [quad & low, sample & low, mixed, np.broadcast_to(step >> np.uint64(16), quad.shape)]


def dropout(x, rate, path, first, step, seed=SEED):
    """x [n, ...] with channels last, as our elements are counted"""
    u = uniform(path, first, x.shape[0], step, *x.shape[1:], seed=seed)
    return torch.where(u < rate, 0.0, x / (1 - rate))


# ---- layers on channels-last samples
def conv(w, x, name, stride=1, padding=0, bias=True):
    y = F.conv2d(x.permute(0, 3, 1, 2), w[name + ".weight"], w[name + ".bias"] if bias else None, stride, padding)
    return y.permute(0, 2, 3, 1)


def pool(x, size, padding=0):
    return F.max_pool2d(x.permute(0, 3, 1, 2), size, padding=padding).permute(0, 2, 3, 1)


def batchnorm(w, x, name):
    y = F.batch_norm(x.permute(0, 3, 1, 2), None, None, w[name + ".weight"], w[name + ".bias"], training=True)
    return y.permute(0, 2, 3, 1)


def dense(w, x, name):
    return F.linear(x, w[name + ".weight"], w[name + ".bias"])


def make(shapes):
    return {name: weight(name, *shape) for name, shape in shapes.items()}


def linear_shapes(sizes):
    out = {}
    for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
        out[f"dense_{i + 1}.weight"], out[f"dense_{i + 1}.bias"] = (b, a), (b,)
    return out


# ---- the examples: (weights, image shape, batch, loss(w, x, label, first, step), optimizer)
def sgd(w, lr=0.01, decay=1e-4, nesterov=False):
    return lambda step: torch.optim.SGD(w.values(), lr=lr, momentum=0.9, weight_decay=decay, nesterov=nesterov)


def mlp():
    w = make(linear_shapes([784, 512, 512, 10]))

    def loss(x, label, first, step):
        x = F.relu(dense(w, x.flatten(1) / 255, "dense_1"))
        return F.cross_entropy(dense(w, F.relu(dense(w, x, "dense_2")), "dense_3"), label)

    return w, (28, 28), 8, loss, torch.optim.SGD(w.values(), lr=0.01, momentum=0.9, weight_decay=1e-4), None


def lenet5():
    w = make({"conv_1.weight": (6, 1, 5, 5), "conv_1.bias": (6,), "conv_2.weight": (16, 6, 5, 5), "conv_2.bias": (16,),
              **linear_shapes([400, 120, 84, 10])})

    def loss(x, label, first, step):
        x = pool(F.relu(conv(w, x / 255, "conv_1", padding=2)), 2)
        x = pool(F.relu(conv(w, x, "conv_2")), 2).flatten(1)
        x = F.relu(dense(w, F.relu(dense(w, x, "dense_1")), "dense_2"))
        return F.cross_entropy(dense(w, x, "dense_3"), label)

    return w, (28, 28, 1), 8, loss, torch.optim.SGD(w.values(), lr=0.01, momentum=0.9, weight_decay=1e-4), None


def mnist_cnn():
    w = make({"conv_1.weight": (32, 1, 3, 3), "conv_1.bias": (32,), "conv_2.weight": (64, 32, 3, 3), "conv_2.bias": (64,),
              **linear_shapes([9216, 128, 10])})

    def loss(x, label, first, step):
        x = F.relu(conv(w, F.relu(conv(w, x / 255, "conv_1")), "conv_2"))
        x = dropout(pool(x, 2), 0.25, "dropout_1.random_1", first, step).flatten(1)
        x = dropout(F.relu(dense(w, x, "dense_1")), 0.5, "dropout_2.random_1", first, step)
        return F.cross_entropy(dense(w, x, "dense_2"), label)

    return w, (28, 28, 1), 8, loss, torch.optim.SGD(w.values(), lr=0.01, momentum=0.9, weight_decay=1e-4), None


def cnn7():
    shapes, channels = {}, 3
    for i, width in enumerate((32, 32, 64, 64, 128)):
        shapes[f"conv_{i + 1}.weight"], shapes[f"conv_{i + 1}.bias"] = (width, channels, 3, 3), (width,)
        channels = width
    w = make({**shapes, **linear_shapes([2048, 128, 10])})

    def loss(x, label, first, step):
        x = x / 255
        for i in range(5):
            x = pool(F.relu(conv(w, x, f"conv_{i + 1}", padding=1)), 2)
        x = dropout(F.relu(dense(w, x.flatten(1), "dense_1")), 0.5, "dropout_1.random_1", first, step)
        return F.cross_entropy(dense(w, x, "dense_2"), label)

    return w, (128, 128, 3), 4, loss, torch.optim.SGD(w.values(), lr=0.01, momentum=0.9, weight_decay=1e-4), None


def digits():
    w = make({"conv_1.weight": (16, 1, 5, 5), "batchnorm_1.weight": (16,), "batchnorm_1.bias": (16,),
              "conv_2.weight": (32, 16, 3, 3), "batchnorm_2.weight": (32,), "batchnorm_2.bias": (32,),
              "conv_3.weight": (64, 32, 3, 3), "batchnorm_3.weight": (64,), "batchnorm_3.bias": (64,),
              **linear_shapes([1024, 10])})

    def loss(x, label, first, step):
        x = F.relu(batchnorm(w, conv(w, x / 127.5 - 1, "conv_1", 2, 2, bias=False), "batchnorm_1"))
        x = pool(F.relu(batchnorm(w, conv(w, x, "conv_2", 1, 1, bias=False), "batchnorm_2")), 2)
        x = pool(F.relu(batchnorm(w, conv(w, x, "conv_3", 1, 1, bias=False), "batchnorm_3")), 2, 1)
        x = dropout(x.flatten(1), 0.2, "dropout_1.random_1", first, step)
        return F.cross_entropy(dense(w, x, "dense_1"), label)

    def rate(progress):  # one_cycle(4e-3): Smith & Topin, the library's defaults
        peak, start, end, rise = 4e-3, 0.04, 1e-4, 0.3
        up, down = progress / rise, min(max((progress - rise) / (1 - rise), 0), 1)
        if up < 1:
            return peak * (1 + (start - 1) * 0.5 * (1 + math.cos(math.pi * min(up, 1))))
        return peak * (end + (1 - end) * 0.5 * (1 + math.cos(math.pi * down)))

    return w, (28, 28, 1), 8, loss, torch.optim.Adam(w.values(), lr=1, eps=1e-8), rate


def bn_cnn():
    w = make({"conv_1.weight": (16, 1, 3, 3), "batchnorm_1.weight": (16,), "batchnorm_1.bias": (16,), "dense_1.weight": (10, 64),
              "dense_1.bias": (10,)})
    c = 16
    blocks = [("residual_1", 16, 1), ("residual_2", 32, 2), ("residual_3", 64, 2)]
    for name, width, stride in blocks:
        shapes = {"conv_1.weight": (width, c, 3, 3), "conv_2.weight": (width, width, 3, 3)}
        for i in (1, 2, 3):
            shapes[f"batchnorm_{i}.weight"], shapes[f"batchnorm_{i}.bias"] = (width,), (width,)
        shapes["conv_3.weight"] = (width, c, 1, 1)
        if stride == 1 and c == width:
            for key in ("conv_3.weight", "batchnorm_3.weight", "batchnorm_3.bias"):
                del shapes[key]
        w.update(make({f"{name}.{key}": s for key, s in shapes.items()}))
        c = width

    def loss(x, label, first, step):
        x = F.relu(batchnorm(w, conv(w, x / 255, "conv_1", 1, 1, bias=False), "batchnorm_1"))
        for name, width, stride in blocks:
            p = name + "."
            y = F.relu(batchnorm(w, conv(w, x, p + "conv_1", stride, 1, bias=False), p + "batchnorm_1"))
            y = batchnorm(w, conv(w, y, p + "conv_2", 1, 1, bias=False), p + "batchnorm_2")
            if p + "conv_3.weight" in w:
                x = batchnorm(w, conv(w, x, p + "conv_3", stride, 0, bias=False), p + "batchnorm_3")
            x = F.relu(x + y)
        return F.cross_entropy(dense(w, x.mean((1, 2)), "dense_1"), label)

    def rate(progress):  # cosine(0.1, warmup = 1epochs) of 5 epochs of 2 steps
        p = 0.2
        t = min(max((progress - p) / (1 - p), 0), 1)
        return 0.1 * progress / p if progress < p else 0.1 * 0.5 * (1 + math.cos(math.pi * (t - math.floor(min(t, 1 - 1e-6)))))

    plain = [v for k, v in w.items() if k.endswith(".bias") or "batchnorm" in k]
    decayed = [v for k, v in w.items() if not (k.endswith(".bias") or "batchnorm" in k)]
    groups = [{"params": decayed, "weight_decay": 5e-4}, {"params": plain, "weight_decay": 0}]
    return w, (28, 28, 1), 8, loss, torch.optim.SGD(groups, lr=1, momentum=0.9, nesterov=True), rate


def custom_layer():
    w = make({"gated_dense_1.weight": (512, 784), "gated_dense_1.bias": (512,), "gated_dense_2.weight": (512, 256),
              "gated_dense_2.bias": (512,), "dense_1.weight": (10, 256), "dense_1.bias": (10,)})

    def gated(x, name):
        a, b = dense(w, x, name).chunk(2, 1)
        return a * torch.sigmoid(b)

    def loss(x, label, first, step):
        x = gated(gated(x.flatten(1) / 255, "gated_dense_1"), "gated_dense_2")
        z = dense(w, x, "dense_1")
        logp = F.log_softmax(z, 1).gather(1, label[:, None])[:, 0]
        weights = (1.05 - logp.exp()).detach()
        return (weights * -logp).sum() / weights.sum() + (1e-5 * (z**2).sum(1)).mean()

    def rate(progress):  # linear(2e-3, end = 1e-4, warmup = 200steps) of 10 steps: still rising
        return 2e-3 * progress / 20

    return w, (28, 28), 8, loss, torch.optim.AdamW(w.values(), lr=1, weight_decay=0.01), rate


def layers():
    w = make({"c1.weight": (8, 1, 5, 5), "c1.bias": (8,), "b1.weight": (8,), "b1.bias": (8,), "dw.weight": (16, 1, 3, 3),
              "dw.bias": (16,), "g.weight": (16, 4, 3, 3), "b2.weight": (16,), "b2.bias": (16,), "t.weight": (16, 6, 3, 3),
              "t.bias": (6,), "gn.weight": (6,), "gn.bias": (6,), "fc.weight": (10, 6), "fc.bias": (10,), "w": (28, 28, 1),
              "table.weight": (10, 5), "of.weight": (10, 5), "of.bias": (10,)})

    def loss(x, label, first, step):
        picture = x / 255
        y = F.relu(batchnorm(w, conv(w, picture, "c1", 2, 2), "b1")).permute(0, 3, 1, 2)
        y = F.conv2d(y, w["dw.weight"], w["dw.bias"], padding=1, groups=8)
        y = F.conv2d(y, w["g.weight"], None, 2, 1, groups=4)
        y = F.gelu(F.batch_norm(y, None, None, w["b2.weight"], w["b2.bias"], training=True))
        y = F.conv_transpose2d(y, w["t.weight"], w["t.bias"], 2, 1)
        y = F.leaky_relu(F.max_pool2d(y, 3, 2, 1), 0.2)
        y = F.group_norm(F.avg_pool2d(y, 3, 2, 1, count_include_pad=False), 2, w["gn.weight"], w["gn.bias"])
        z = dense(w, y.flip(3)[:, :, :, 1:].mean((2, 3)), "fc")
        e, mask = (w["w"] - picture).abs(), x > 20
        named = F.cross_entropy(dense(w, w["table.weight"][label], "of"), label)
        return F.cross_entropy(z, label, label_smoothing=0.1) + (e * mask).sum() / mask.sum() + 0.5 * named

    def rate(progress):  # cosine(0.1, end = 0.01, warmup = 2steps) of 10 steps
        p = 0.2
        t = min(max((progress - p) / (1 - p), 0), 1)
        return 0.1 * progress / p if progress < p else 0.01 + 0.09 * 0.5 * (1 + math.cos(math.pi * (t - math.floor(min(t, 1 - 1e-6)))))

    groups = [{"params": [v for k, v in w.items() if not k.endswith(".bias")], "weight_decay": 1e-3},
              {"params": [v for k, v in w.items() if k.endswith(".bias")], "weight_decay": 0}]
    return w, (28, 28, 1), 16, loss, torch.optim.SGD(groups, lr=1, momentum=0.9, nesterov=True), rate


def attend(q, k, v, causal=False, window=None, scale=None):
    """q [n, t, h, d], k [n, s, g, d], v [n, s, g, e] -> [n, t, h, e]"""
    t, s, shared = q.shape[1], k.shape[1], q.shape[2] // k.shape[2]
    k, v = k.repeat_interleave(shared, 2), v.repeat_interleave(shared, 2)
    z = torch.einsum("nthd,nshd->nhts", q, k) * (scale or q.shape[3] ** -0.5)
    age = torch.arange(t)[:, None] + s - t - torch.arange(s)
    seen = (age >= 0) | torch.tensor(not causal)
    if window:
        seen = seen & (age < window)
    return torch.einsum("nhts,nshe->nthe", z.masked_fill(~seen, -math.inf).softmax(3), v)


def rope(x):
    t, d = x.shape[1], x.shape[3]
    a = (torch.arange(t)[:, None] * 10000.0 ** (-2 * torch.arange(d // 2) / d))[:, None]
    u, v = x.chunk(2, 3)
    return torch.cat([u * a.cos() - v * a.sin(), u * a.sin() + v * a.cos()], 3)


def attention():
    width, shapes = 32, {}
    for i in (1, 2, 3):
        shapes[f"layernorm_{i}.weight"], shapes[f"layernorm_{i}.bias"] = (32,), (32,)
    for name, a, b in (("dense_1", 28, 32), ("self_attention_1.dense_1", 32, 32), ("self_attention_1.dense_2", 32, 16),
                       ("self_attention_1.dense_3", 32, 16), ("self_attention_1.dense_4", 32, 32), ("dense_2", 32, 96),
                       ("dense_3", 32, 32), ("cross_attention_1.dense_1", 32, 32), ("cross_attention_1.dense_2", 32, 64),
                       ("cross_attention_1.dense_3", 32, 32), ("dense_4", 32, 10)):
        shapes[name + ".weight"], shapes[name + ".bias"] = (b, a), (b,)
    w = make(shapes)

    def norm(x, name):
        return F.layer_norm(x, (width,), w[name + ".weight"], w[name + ".bias"])

    def loss(x, label, first, step):
        x = dense(w, x / 255, "dense_1")
        n, y, p = len(x), norm(x, "layernorm_1"), "self_attention_1."
        q, k, v = (dense(w, y, p + f"dense_{i}").reshape(n, 28, -1, 8) for i in (1, 2, 3))
        y = dense(w, attend(rope(q), rope(k), v, causal=True).flatten(2), p + "dense_4")
        x = x + dropout(y, 0.1, "dropout_1.random_1", first, step)
        q, k, v = dense(w, norm(x, "layernorm_2"), "dense_2").reshape(n, 28, 3, 4, 8).unbind(2)
        x = x + dense(w, attend(q, k, v, window=9).flatten(2), "dense_3")
        p = "cross_attention_1."
        k, v = dense(w, x, p + "dense_2").chunk(2, 2)
        q, k, v = (y.reshape(n, -1, 4, 8) for y in (dense(w, x[:, 4:11], p + "dense_1"), k, v))
        y = dense(w, attend(q, k, v).flatten(2), p + "dense_3")
        z = norm(x, "layernorm_3")[:, :, None]
        y = y + attend(z[:, 21:], z, z, causal=True, scale=0.05)[:, :, 0]
        return F.cross_entropy(dense(w, y.mean(1), "dense_4"), label)

    return w, (28, 28), 16, loss, torch.optim.AdamW(w.values(), lr=3e-3, eps=1e-8, weight_decay=0.01), None


def rows():
    width = 24
    w = make({"dense_1.weight": (24, 28), "dense_1.bias": (24,), "dense_2.weight": (1, 24), "dense_2.bias": (1,),
              "embedding_1.weight": (6, 24), "added_1.weight": (6, 24), "dense_3.weight": (10, 30), "dense_3.bias": (10,)})

    def loss(x, label, first, step):
        n, x = len(x), dense(w, x / 255, "dense_1")
        x = x + torch.tanh(x.reshape(n, 4, 7, width).cumsum(2)).flatten(1, 2)
        x = x + 0.1 * x.cumsum(-1)
        score = dense(w, x, "dense_2")[..., 0]
        best, at = score.topk(5)
        y = (x.gather(1, at[..., None].expand(-1, -1, width)) * torch.sigmoid(best)[..., None]).sum(1)
        high, place = x.reshape(n, 4, 7, width).topk(2, dim=2)
        y = y + (high * (place + 1)).mean((1, 2))
        bucket = (6 * torch.sigmoid(score)).long()
        rows_of = bucket[..., None].expand(-1, -1, width)
        own = torch.zeros(n, 6, width).scatter_add(1, rows_of, x)
        added = w["added_1.weight"].expand(n, -1, -1).scatter_add(1, rows_of, x)
        y = y + torch.tanh(own).sum(1) + w["embedding_1.weight"][bucket].mean(1) + torch.tanh(added).mean(1)
        often = torch.zeros(n, 6).scatter_add(1, bucket, torch.ones_like(score))
        return F.cross_entropy(dense(w, torch.cat([y, often / 28], 1), "dense_3"), label)

    return w, (28, 28), 16, loss, torch.optim.AdamW(w.values(), lr=3e-3, eps=1e-8, weight_decay=0.01), None


def loops():
    width, shapes = 16, {}
    for name, out in (("lstm_1.", 64), ("bidirectional_1.gru_1.", 48), ("bidirectional_1.gru_2.", 48)):
        into = "dense_1." if "gru" in name else ""
        shapes[name + (into + "weight" if into else "weight_ih")] = (out, 16 if into else 28)
        shapes[name + into + "bias"] = (out,)
        shapes[name + "weight_hh"] = (out, 16)
        if into:
            shapes[name + "bias_hh"] = (out,)
    shapes |= {"rows_1.w": (28, 16), "rows_1.u": (16, 16), "rows_1.v": (16, 16)}
    shapes |= {"decoder_1.query": (16, 32), "decoder_1.from": (32, 16), "decoder_1.own": (16, 16), "decoder_1.place": (5, 16)}
    shapes |= {"dense_1.weight": (10, 64), "dense_1.bias": (10,), "dense_2.weight": (11, 32), "dense_2.bias": (11,)}
    w = make(shapes)
    nets = {48: torch.nn.GRU(16, 16, batch_first=True), 64: torch.nn.LSTM(28, 16, batch_first=True)}

    def run(x, ih, hh, b_ih, b_hh):
        given = {"weight_ih_l0": ih, "weight_hh_l0": hh, "bias_ih_l0": b_ih, "bias_hh_l0": b_hh}
        return torch.func.functional_call(nets[len(ih)], given, (x,))

    def gru(x, name):
        return run(x, w[name + ".dense_1.weight"], w[name + ".weight_hh"], w[name + ".dense_1.bias"], w[name + ".bias_hh"])[0]

    def loss(x, label, first, step):
        x, n = x / 255, len(x)
        y, (h, _) = run(x, w["lstm_1.weight_ih"], w["lstm_1.weight_hh"], w["lstm_1.bias"], torch.zeros(64))
        y = dropout(y, 0.1, "dropout_1.random_1", first, step)
        y = torch.cat([gru(y, "bidirectional_1.gru_1"), gru(y.flip(1), "bidirectional_1.gru_2").flip(1)], 2)
        z, r = [], torch.zeros(n, width)
        for patch in x.reshape(n, 7, 4, 28).unbind(1):
            g = r
            for row in patch.unbind(1):
                g = torch.tanh(row @ w["rows_1.w"] + g @ w["rows_1.u"])
            r = r @ w["rows_1.v"] * 0.5 + g
            z.append(r)
        s = best = h[0]
        masks, narrow, p = uniform("decoder_1.dropout_1.random_1", first, n, step, 5, width), [], "decoder_1."
        for i in range(5):
            a = torch.softmax(torch.einsum("ntc,nc->nt", y, s @ w[p + "query"]), 1)
            s = torch.tanh(s @ w[p + "own"] + torch.einsum("nt,ntc->nc", a, y) @ w[p + "from"] + w[p + "place"][i])
            s = torch.where(masks[:, i] < 0.1, 0.0, s / 0.9)
            best = torch.maximum(best, s)
            narrow.append(0.01 * (a**2).sum(1))
        logits = dense(w, torch.cat([best, s, z[-1], torch.stack(z).mean(0)], 1), "dense_1")
        target = 1 + (label[:, None] + 3 * torch.arange(4)) % 10
        paths = F.ctc_loss(dense(w, y, "dense_2").log_softmax(2).transpose(0, 1), target, 18 + label, 1 + label % 4, reduction="none")
        return F.cross_entropy(logits, label) + torch.stack(narrow).mean() + 0.1 * paths.mean()

    return w, (28, 28), 16, loss, torch.optim.AdamW(w.values(), lr=3e-3, eps=1e-8, weight_decay=0.01), None


def main():
    examples = (loops, rows, layers, attention, mlp, lenet5, mnist_cnn, cnn7, digits, bn_cnn, custom_layer)
    for example in (e for e in examples if len(sys.argv) < 2 or e.__name__ in sys.argv[1:]):
        w, shape, batch, loss, optimizer, rate = example()
        count = 2 * batch  # two steps an epoch, five epochs
        images, labels = idx(256, count, *shape), idx(10, count)
        losses = []
        for step in range(STEPS):
            first = step % 2 * batch
            x, label = images[first : first + batch].double(), labels[first : first + batch]
            optimizer.zero_grad()
            value = loss(x, label, first, step + 1)
            value.backward()
            if rate:
                for group in optimizer.param_groups:
                    group["lr"] = rate(progress_of(step))
            if example in (custom_layer, layers, attention, loops, rows):
                torch.nn.utils.clip_grad_norm_(w.values(), 0.5 if example is layers else 1.0)
            optimizer.step()
            losses.append(value.item())
        text = "".join(f"{v:.17g}\n" for v in losses)
        (HERE / f"{example.__name__}.losses").write_text(text)
        print(example.__name__, losses[0], losses[-1])


def progress_of(step):
    """what `progress` is in update number step + 1"""
    return step / STEPS


if __name__ == "__main__":
    main()
