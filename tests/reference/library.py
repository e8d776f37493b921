#!/usr/bin/env python3
"""library.py: writes library.values: what PyTorch (f64) makes of library.net: per output its number of elements, their
sum, and their sum weighted by cos(k). Optimizers: one step from a state that is a formula, at step 3."""
import math
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
N = 3


def wave(name, n, count):
    base = sum(name.encode())
    return [math.sin(0.61 * (i + 1) + 2.3 * n + base) for i in range(count)]


def positive(name):
    return name.rsplit(".")[-1] in ("running_var", "v", "square", "change", "u")


def V(name, *shape):
    count = math.prod(shape)
    v = torch.tensor(wave(name, 0, count)) * 0.5
    return (v.abs() + 0.1 if positive(name) else v).reshape(shape)


def X(name, *shape):
    return torch.tensor([wave(name, n, math.prod(shape)) for n in range(N)]).reshape(N, *shape)


def C(name, classes, ignore, *shape):
    count, base = math.prod(shape), sum(name.encode())
    rows = [[ignore if ignore is not None and (i + n) % 3 == 0 else (7 * i + 3 * n + base) % classes for i in range(count)] for n in range(N)]
    return torch.tensor(rows).reshape(N, *shape)


image, series, other, row, p = X("image", 6, 5, 4), X("series", 5, 4), X("other", 5, 4), X("row", 6), X("p")
label, pixel, flag = C("label", 6, None), C("pixel", 4, 255, 6, 5), C("flag", 2, None)
chw = image.permute(0, 3, 1, 2)
lines = []


def put(name, t):
    t = torch.as_tensor(t, dtype=torch.float64).reshape(-1)
    k = torch.arange(t.numel(), dtype=torch.float64)
    lines.append(f"{name} {t.numel()} {t.sum().item():.17g} {(t * torch.cos(k)).sum().item():.17g}")


def last(t):
    return t.movedim(1, -1)


def dense(name, x, width, act=lambda y: y):
    return act(F.linear(x, V(name + ".weight", width, x.shape[-1]), V(name + ".bias", width)))


put("mean", image.mean((1, 2)))
put("min", series.amin(1))
put("variance", series.var(-1, unbiased=False))
put("norm", series.norm(dim=1))
put("logsumexp", series.logsumexp(1, keepdim=True))
put("sign", series.sign())
put("round", (3 * series).round())
put("clamp", series.clamp(-0.3, 0.4))
put("one_hot", F.one_hot(label, 6))
put("flip", image.flip(2))
put("split", torch.cat([series[..., 2:], series[..., :2]], -1))
put("stack", torch.stack([series, other], 2))
put("lerp", torch.lerp(series, other, 0.3))
s = image.mean((1, 2))
s = F.linear(F.relu(F.linear(s, V("se.dense_1.weight", 2, 4), V("se.dense_1.bias", 2))), V("se.dense_2.weight", 4, 2), V("se.dense_2.bias", 4)).sigmoid()
put("squeeze_excite", image * s[:, None, None])
put("matmul", series @ other.transpose(1, 2))
put("dense", dense("dense", series, 3))
put("conv", last(F.conv2d(chw, V("conv.weight", 6, 4, 3, 3), V("conv.bias", 6), padding=1)))
put("conv_even", last(F.conv2d(F.pad(chw, (1, 2, 1, 2)), V("conv_even.weight", 3, 4, 4, 4), V("conv_even.bias", 3))))
put("conv_stride", last(F.conv2d(chw, V("conv_stride.weight", 6, 2, 3, 2), V("conv_stride.bias", 6), stride=2, padding=1, dilation=(1, 2), groups=2)))
put("conv_valid", last(F.conv1d(series.transpose(1, 2), V("conv_valid.weight", 3, 4, 2))))
put("depthwise", last(F.conv2d(chw, V("depthwise.weight", 8, 1, 3, 3), V("depthwise.bias", 8), padding=1, groups=4)))
put("conv_transpose", last(F.conv_transpose2d(chw, V("conv_transpose.weight", 4, 3, 3, 3), V("conv_transpose.bias", 3), stride=2, padding=1)))
put("maxpool", last(F.max_pool2d(chw, 2)))
put("maxpool_padded", last(F.max_pool2d(chw, 3, 2, 1)))
put("avgpool", last(F.avg_pool2d(chw, 2)))
put("avgpool_padded", last(F.avg_pool2d(chw, 3, 2, 1, count_include_pad=False)))
put("lp_pool", last(F.lp_pool2d(chw, 2, 2)))
put("adaptive_avgpool", last(F.adaptive_avg_pool2d(chw, (4, 3))))
put("upsample", last(F.interpolate(chw, scale_factor=2, mode="nearest")))
put("upsample_bilinear", last(F.interpolate(chw, scale_factor=2, mode="bilinear", align_corners=False)))
put("pixel_shuffle", last(F.pixel_shuffle(chw, 2)))
put("crop", image[:, 1:4, 2:4])
put("reflect_pad", last(F.pad(chw, (2, 2, 2, 2), mode="reflect")))


def bn(name, train, x=None):
    return F.batch_norm(chw if x is None else x, V(name + ".running_mean", 4), V(name + ".running_var", 4), V(name + ".weight", 4), V(name + ".bias", 4), train, 0.1, 1e-5)


put("batchnorm", last(bn("bn", False)))
put("layernorm", F.layer_norm(series, (4,), V("ln.weight", 4), V("ln.bias", 4)))
put("rmsnorm", F.rms_norm(series, (4,), V("rms.weight", 4), 1e-6))
put("groupnorm", last(F.group_norm(chw, 2, V("gn.weight", 4), V("gn.bias", 4))))
put("instancenorm", last(F.instance_norm(chw, weight=V("inorm.weight", 4), bias=V("inorm.bias", 4))))
put("local_response_norm", last(F.local_response_norm(chw, 3)))
put("relu", F.relu(series))
put("relu6", F.relu6(9 * series))
put("leaky_relu", F.leaky_relu(series, 0.2))
put("prelu", torch.where(series > 0, series, V("prelu.weight", 4) * series))
put("elu", F.elu(series, 1.5))
put("selu", F.selu(series))
put("celu", F.celu(series, 1.5))
put("sigmoid", series.sigmoid())
put("gelu", F.gelu(series))
put("gelu_tanh", F.gelu(series, approximate="tanh"))
put("silu", F.silu(series))
put("softplus", F.softplus(series, threshold=1e9))
put("mish", F.mish(series))
put("softsign", F.softsign(series))
put("hardsigmoid", F.hardsigmoid(5 * series))
put("hardswish", F.hardswish(5 * series))
put("softmax", series.softmax(-1))
put("log_softmax", series.log_softmax(1))
put("glu", F.glu(series))
put("embedding", V("embedding.weight", 6, 3)[label])


def recurrent(net, ih, b, hh, b_hh=None):
    net, rows = net(ih.shape[1], hh.shape[1], batch_first=True), len(ih)
    given = {"weight_ih_l0": ih, "weight_hh_l0": hh, "bias_ih_l0": b, "bias_hh_l0": torch.zeros(rows) if b_hh is None else b_hh}
    return lambda x: torch.func.functional_call(net, given, (x,))[0]


def gru(name, width):
    ih, b = V(name + ".dense_1.weight", 3 * width, 4), V(name + ".dense_1.bias", 3 * width)
    return recurrent(torch.nn.GRU, ih, b, V(name + ".weight_hh", 3 * width, width), V(name + ".bias_hh", 3 * width))


net = recurrent(torch.nn.RNN, V("rnn.dense_1.weight", 3, 4), V("rnn.dense_1.bias", 3), V("rnn.weight_hh", 3, 3))
put("rnn", net(series))
net = recurrent(torch.nn.LSTM, V("lstm.weight_ih", 12, 4), V("lstm.bias", 12), V("lstm.weight_hh", 12, 3))
put("lstm", net(series))
put("gru", gru("gru", 3)(series))
put("bidirectional", torch.cat([gru("bi.gru_1", 2)(series), gru("bi.gru_2", 2)(series.flip(1)).flip(1)], 2))
logits = 2 * image[:, 0] @ image[:, 1].transpose(1, 2)
target = 1 + (label[:, None] + torch.arange(2)) % 4
put("ctc", F.ctc_loss(logits.log_softmax(2).transpose(0, 1), target, 3 + label % 3, 1 + flag, reduction="none"))


def attend(q, k, v, **options):
    q, k, v = (z.transpose(1, 2) for z in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, **options).transpose(1, 2)


q, k, v = series.reshape(N, 5, 2, 2), other.reshape(N, 5, 2, 2), (series * other).reshape(N, 5, 2, 2)
put("attention", attend(q, k, v))
put("attention_causal", attend(q, k, v, is_causal=True))
o = other.reshape(N, 5, 4, 1)
put("attention_groups", attend(series.reshape(N, 5, 4, 1), o[:, :, :2], o[:, :, 2:], enable_gqa=True))
put("cross_entropy", F.cross_entropy(row, label, reduction="none"))
put("cross_entropy_smooth", F.cross_entropy(row, label, reduction="none", label_smoothing=0.1))
pixels = F.cross_entropy(chw, torch.where(pixel == 255, -100, pixel), reduction="none")
put("cross_entropy_pixels", pixels)
put("cross_entropy_weights", (pixel != 255).double())
put("binary_cross_entropy", F.binary_cross_entropy_with_logits(p, flag.double(), reduction="none"))
put("mse", (series - other) ** 2)
put("mae", (series - other).abs())
put("huber", F.huber_loss(series, other, reduction="none", delta=0.5))
put("cosine_similarity", F.cosine_similarity(series, other, dim=-1))
right = row.gather(1, label[:, None])
put("hinge", (1 + row.masked_fill(F.one_hot(label, 6).bool(), -1e30).amax(1) - right[:, 0]).clamp(min=0))
put("kl", F.kl_div(other.log_softmax(-1), series.softmax(-1), reduction="none").sum(-1))
put("accuracy", (row.argmax(1) == label).double())
put("accuracy_top3", (row.topk(3).indices == label[:, None]).any(1).double())
put("t_batchnorm", last(bn("tbn", True)))
put("t_batchnorm_groups", last(torch.cat([bn("tbn2", True, chw[:2]), bn("tbn2", True, chw[2:])])))
mean, var = V("tbn.running_mean", 4), V("tbn.running_var", 4)
F.batch_norm(chw, mean, var, None, None, True, 0.1, 1e-5)
put("tbn.running_mean", mean)
put("tbn.running_var", var)
put("average", pixels.sum() / (pixel != 255).sum())
put("perplexity", F.cross_entropy(row, label).exp())
hit = ((p > 0) & (flag == 1)).sum().item()
said, true = (p > 0).sum().item(), (flag == 1).sum().item()
put("f1", 2 * hit / max(1, said + true))
put("precision_recall", hit / max(1, said) + hit / max(1, true))
put("r2", 1 - ((series - other) ** 2).sum() / ((other - other.mean()) ** 2).sum())
m = torch.zeros(4, 4)
for t, c in zip(pixel.reshape(-1).tolist(), image.argmax(-1).reshape(-1).tolist()):
    if t != 255:
        m[t, c] += 1
put("confusion", m)
union = m.sum(0) + m.sum(1) - m.diag()
put("mean_iou", (m.diag() / union.clamp(min=1)).sum() / max(1, (union > 0).sum().item()))

# ---- optimizers: f(w, g, lr = 0.1, decay = 0.02) at step 3
STEP = 3


def one(name, make, state):
    w = torch.nn.Parameter(V("w", 3, 2))
    w.grad = torch.tensor(wave("gradient", 0, 6)).reshape(3, 2)
    optimizer = make([w])
    optimizer.state[w] = {k: (torch.tensor(float(STEP - 1)) if of is None else V(of, 3, 2)) for k, of in state.items()}
    optimizer.step()
    put("optimizer." + name, w)


T = torch.optim
one("sgd", lambda w: T.SGD(w, 0.1, weight_decay=0.02), {})
one("sgd_momentum", lambda w: T.SGD(w, 0.1, 0.9, weight_decay=0.02), {"momentum_buffer": "w.velocity"})
one("sgd_nesterov", lambda w: T.SGD(w, 0.1, 0.9, weight_decay=0.02, nesterov=True), {"momentum_buffer": "w.velocity"})
one("adam", lambda w: T.Adam(w, 0.1, weight_decay=0.02), {"step": None, "exp_avg": "w.m", "exp_avg_sq": "w.v"})
one("adamw", lambda w: T.AdamW(w, 0.1, weight_decay=0.02), {"step": None, "exp_avg": "w.m", "exp_avg_sq": "w.v"})
one("adamax", lambda w: T.Adamax(w, 0.1, weight_decay=0.02), {"step": None, "exp_avg": "w.m", "exp_inf": "w.u"})
one("rmsprop", lambda w: T.RMSprop(w, 0.1, weight_decay=0.02, momentum=0.9), {"step": None, "square_avg": "w.square", "momentum_buffer": "w.velocity"})
one("adagrad", lambda w: T.Adagrad(w, 0.1, weight_decay=0.02), {"step": None, "sum": "w.square"})
one("adadelta", lambda w: T.Adadelta(w, 0.1, weight_decay=0.02), {"step": None, "square_avg": "w.square", "acc_delta": "w.change"})

with open(__file__.replace("library.py", "library.values"), "w") as f:
    f.write("\n".join(lines) + "\n")
