#!/usr/bin/env python3
# make.py: writes data, weights and losses of the cases that it knows, by PyTorch in f64: python3 tests/cases/make.py
# (the others came with theirs).
import json, math, os, struct, numpy, torch
torch.set_default_dtype(torch.float64)
here = os.path.dirname(os.path.abspath(__file__))

def some(shape, seed):  # numbers in (-1, 1) that look random, exact in f32
    n = numpy.arange(int(numpy.prod(shape)) , dtype=numpy.int64)
    return ((n * 7919 + seed * 104729) % 2003 / 1001.5 - 1).astype(numpy.float32).reshape(shape)

def write_weights(path, tensors):
    header, data = {}, b""
    for name, t in tensors.items():
        raw = t.astype("<f8").tobytes()
        header[name] = {"dtype": "F64", "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)

def case(name, inputs, weights, loss, steps=2, lr=0.1, written=True):  # written: the weights, into a file; else they are the model's
    folder = os.path.join(here, name)
    for k, v in inputs.items():
        numpy.save(os.path.join(folder, k + ".npy"), v)
    if weights and written:
        write_weights(os.path.join(folder, "weights.safetensors"), weights)
    w = {k: torch.tensor(v.astype(numpy.float64), requires_grad=True) for k, v in weights.items()}
    x = {k: torch.tensor(v.astype(numpy.float64) if v.dtype == numpy.float32 else v.astype(numpy.int64)) for k, v in inputs.items()}
    losses = []
    for _ in range(steps):
        total = sum(loss({k: v[i] for k, v in x.items()}, w) for i in range(len(next(iter(x.values()))))) / len(next(iter(x.values())))
        losses.append(total.item())
        if w:
            for v, g in zip(w.values(), torch.autograd.grad(total, list(w.values()), allow_unused=True)):
                if g is not None:
                    v.data -= lr * g
    with open(os.path.join(folder, "losses"), "w") as f:
        f.writelines("%.17g\n" % l for l in losses)

def attention(q, k, v):  # [t, h, d], [s, g, d], [s, g, e] -> [t, h, e]
    z = torch.einsum("tgrd,sgd->grts", q.reshape(q.shape[0], k.shape[1], -1, q.shape[2]), k) / math.sqrt(q.shape[2])
    return torch.einsum("grts,sge->tgre", torch.softmax(z, -1), v).reshape(q.shape[0], q.shape[1], v.shape[2])

def transposed(x, w):
    a = attention(x["q"] * w["s"], (x["k"] * w["s"]).permute(1, 0, 2), x["v"].permute(1, 0, 2))
    b = attention(x["q"], x["l"].permute(1, 0, 2) * w["s"], x["m"].permute(1, 0, 2))
    c = attention(x["p"].permute(1, 0, 2), x["q"] * w["s"], x["q"])
    return (a ** 2).mean() + (b ** 3).mean() + (c ** 2).mean()

case("attention_transposed", {"q": some((5, 4, 3, 2), 1), "k": some((5, 3, 3, 2), 2), "v": some((5, 3, 3, 3), 3), "l": some((5, 3, 7, 2), 4),
                              "m": some((5, 3, 7, 5), 5), "p": some((5, 3, 6, 2), 6)}, {"s": some((2,), 7)}, transposed)

def kernel(x, w):
    c = torch.nn.functional.conv1d(x["x"].T[None], w["k"], padding=1)
    a = attention(w["k"], w["k"], w["k"])
    b = attention(x["x"].reshape(2, 3, 3), w["k"], w["k"])
    h = torch.zeros(2, 3, 3)
    for xt in x["x"]:
        h = attention(h + xt, w["k"], w["k"]) * 0.5 + xt
    return (c ** 2).mean() + (a ** 2).mean() + (b ** 2).mean() + (h ** 2).mean()

case("kernel_and_attention", {"x": some((4, 6, 3), 1)}, {"k": some((4, 3, 3), 2)}, kernel)

def halves(x, w):
    s = torch.topk(x["x"].bfloat16().float(), 2, dim=0)[0].double()
    z = torch.cumsum(x["x"].half().float(), 0).half().double()
    i = x["i"] % 4
    c = x["i"][:, None] % 2 == 0
    def scattered(t):
        out = torch.zeros(4, 3, dtype=t)
        for r in range(6):  # in order, rounded each time
            out[i[r]] = (out[i[r]].float() + torch.where(c[r], w["w"].to(t), x["x"][r].to(t)).float()).to(t)
        return out.double()
    return s.sum() + (z ** 2).mean() + (scattered(torch.bfloat16) ** 2).sum() + (scattered(torch.float16) ** 2).sum() + (w["w"] ** 2).sum()

def reduced(x, w):
    i, u, b = x["i"], x["u"], x["b"] != 0
    top = i.max() * 1.0
    return (i.min() / 2147483648 + (i.min(0)[0] / 2147483648).sum() + top / 2147483648 + u.min() * 1.0 + u.min(0)[0].sum() * 2.0 + b.any().double() +
            b.all() * 2.0 + b.any(0).sum() * 4.0 + b.all(1).sum() * 8.0 + b.to(torch.uint8).argmax(-1).sum() * 16.0 +
            torch.logsumexp(u.double(), (0, 1)) + torch.softmax(u.double(), -1)[:, 0].sum() + (w["w"] * 3).sum())

wide = numpy.array([[[-2147483648, 5, 0], [3, 2147483647, 7]], [[1, 2, 3], [-2147483648, -5, -6]], [[9, 8, 7], [6, 5, 4]]], dtype=numpy.int32)
whole = numpy.array([[[0, 4, 9], [7, 3, 1]], [[5, 5, 5], [6, 8, 4]], [[1, 2, 0], [12, 0, 3]]], dtype=numpy.uint32)
truth = numpy.array([[[0, 0, 1], [0, 1, 1]], [[0, 0, 0], [0, 0, 0]], [[1, 1, 1], [1, 1, 1]]], dtype=numpy.uint8)
case("whole_extrema", {"i": wide, "u": whole, "b": truth}, {"w": some((2,), 1)}, reduced)

def recurrent(x, w):  # maxima of what each step computes, and where they are
    h, total = torch.zeros(4, 3), 0
    for xt in x["x"]:
        z = torch.tanh(xt * w["u"] + h * w["v"]) * w["v"] + xt * h
        top = z.amax((0, 1))
        h = torch.tanh(z * w["u"] + xt * top) + z * (z == z.amax(0))
        total = total + top * top
    return (h ** 2).mean() + total / 5 + h.amin(1).sum()

case("maximum_in_loop", {"x": some((6, 5, 4, 3), 1)}, {"u": some((3,), 2), "v": some((4, 3), 3)}, recurrent, steps=3)

def under_condition(x, w):
    z = w["in.weight"] @ x["x"] + w["in.bias"]
    a, b = z[:3], z[3:]
    return ((a * b.exp()) ** 2).sum() + (b ** 2).sum()

case("multiply_add_under_condition", {"x": some((5, 6), 8)}, {"in.weight": some((6, 6), 9).astype(numpy.float64) / 4, "in.bias": some((6,), 10).astype(numpy.float64) / 4}, under_condition)

def prefix(count, ones):
    return numpy.array([1.0] * ones + [0.0] * (count - ones))

def constants(x, w):
    x, mask = x["x"], torch.tensor(prefix(12, 4))
    return (((w["w"] * x).sum() - 1) ** 2 + (w["v"] ** 2).sum() + (torch.tensor(prefix(12, 5)) * x).sum() + 3 + 2 * (mask * x).sum() +
            (torch.eye(5, 4) * x[0]).sum() + torch.where(mask > 0, x, 0).sum() * 3 + mask.sum() * 0.25 * x[1])

case("constant_prefix", {"x": some((5, 12), 11)}, {"w": prefix(12, 4), "v": prefix(6, 2)}, constants, written=False)
case("scan_gradient", {"x": some((5, 4, 3), 12)}, {"w1": numpy.zeros(3)}, lambda x, w: (x["x"][0] + w["w1"]).sum(), steps=3, lr=1, written=False)

def large_scores(x, w):  # of 6e4, 2e6 and 4e12; the network computes in f32, where each query sees one key, as here
    q, k = x["q"], x["k"]
    return attention(q / 32, k, w["u"]).sum() + attention(q, k, w["v"]).sum() + attention(q * 2048, k * 1024, w["w"]).sum()

zeros = numpy.zeros((7, 1, 6))
case("attention_large_scores", {"q": some((4, 7, 1, 6), 1) * numpy.float32(1024), "k": some((4, 7, 1, 6), 2) * numpy.float32(1024)},
     {"u": zeros, "v": zeros, "w": zeros}, large_scores, steps=3, lr=1, written=False)

def masked(x, w):  # three of eight targets are NaN: the mean is over the other five; four samples
    y, t, z = w["d.weight"] @ x["x"] + w["d.bias"], x["t"], x["u"].nan_to_num(0, 0, 0) * w["w"]
    counts = t == t
    z = torch.where(z > 0, z, 1)
    return (torch.where(counts, y - t.nan_to_num(0), 0) ** 2).sum() * 4 / 5 + (z * z.log()).sum()

target, factor = some((4, 2), 14), some((4, 4), 15)
target[0, 0] = target[2] = numpy.nan
factor[1, 0], factor[1, 1], factor[2, 2], factor[3, 3] = numpy.nan, numpy.inf, -numpy.inf, 0
case("masked_nan", {"x": some((4, 3), 13), "t": target, "u": factor},
     {"d.weight": some((2, 3), 16).astype(numpy.float64), "d.bias": some((2,), 17).astype(numpy.float64), "w": some((4,), 18).astype(numpy.float64)}, masked, steps=3)
