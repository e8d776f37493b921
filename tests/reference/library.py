#!/usr/bin/env python3
"""library.py: writes library.values: what PyTorch (f64) makes of library.net in one step of its four samples.

    python3 tests/reference/library.py     needs torch and numpy; the tests themselves need neither

A line per weight: its name, its shape, the sum of what the step leaves in it (its gradient; of a state, its new value), and
the sum weighted by cos(k). All weights begin with numbers of 8 bits, made of their names (`number` here and in
tests/tools/values.c): every precision holds them. The data is that of `formula idx`; draws are those of make.py.
"""
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

from make import idx, uniform

torch.set_default_dtype(torch.float64)
HERE = pathlib.Path(__file__).parent
N = 4


def mixed(h):
    """the finaliser of MurmurHash3"""
    h = h ^ (h >> np.uint32(16))
    h = h * np.uint32(0x85EBCA6B)
    h = h ^ (h >> np.uint32(13))
    h = h * np.uint32(0xC2B2AE35)
    return h ^ (h >> np.uint32(16))


def number(name, *shape):
    """+-(128 ... 255) / 256, halved 0, 1 or 2 times; positive for names that end in running_var"""
    salt = 2166136261
    for b in name.encode():
        salt = (salt ^ b) * 16777619 & 0xFFFFFFFF
    h = mixed(np.arange(math.prod(shape), dtype=np.uint32) * np.uint32(2654435761) + np.uint32(salt))
    v = (128 + (h >> np.uint32(1) & np.uint32(127)).astype(np.float64)) / 256 / 2.0 ** (h // np.uint32(256) % np.uint32(3))
    if not name.endswith("running_var"):
        v = np.where(h & np.uint32(1), -v, v)
    return torch.tensor(v).reshape(shape)


class Case:
    """the weights of one case, by name; `state` notes a state's new value"""

    def __init__(self, name):
        self.name, self.weights, self.states = name, {}, {}

    def __call__(self, name, *shape):
        full = f"{self.name}.{name}"
        if full not in self.weights:
            self.weights[full] = number(full, *shape).requires_grad_()
        return self.weights[full]

    def state(self, name, *shape):
        full = f"{self.name}.{name}"
        if full not in self.states:
            self.states[full] = number(full, *shape)
        return self.states[full]

    def draw(self, path, *shape):
        return uniform(f"{self.name}.{path}", 0, N, 1, *shape)


lines = []


def put(name, t):
    flat = t.detach().double().reshape(-1)
    k = torch.arange(flat.numel(), dtype=torch.float64)
    shape = ",".join(map(str, t.shape)) or "-"
    lines.append(f"{name} {shape} {flat.sum().item():.17g} {(flat * torch.cos(k)).sum().item():.17g}")


def case(name, shape, f, weight=None):
    """f(x, w) -> y for all samples; weight: of each value in the mean"""
    w = Case(name)
    x = w("x", N, *shape)
    y = f(x, w).double()
    g = w("g", *y.shape)
    if weight is None:
        loss = (y * g).mean()
    else:
        weight = weight.double().broadcast_to(y.shape)
        loss = torch.where(weight != 0, y * g * weight, 0.0).sum() / weight.sum()
    loss.backward()
    for full, t in w.weights.items():
        put(full, torch.zeros_like(t) if t.grad is None else t.grad)
    for full, t in w.states.items():
        put(full, t)


# ---- the data
label, word, pixel = idx(6, N), idx(6, N, 5), idx(5, N, 6, 5)
flag, doubt = idx(2, N), idx(3, N, 5)
n = torch.arange(N)
image, series, pair, row = (6, 5, 4), (5, 4), (2, 5, 4), (6,)


def chw(x):
    return x.movedim(-1, 1)


def last(x):
    return x.movedim(1, -1)


def hardsigmoid(x):
    """F.hardsigmoid's gradient has a sixth in single precision"""
    return F.relu6(x + 3) / 6


def at_numbers(x, *numbers):
    """these very numbers, with a gradient"""
    return torch.cat([x, *(x - x.detach() + y for y in numbers)], -1)


def signs(x):
    return torch.cat([x, 0 * x, -x], -1)


def norm(x, dim):
    """gradient 0 at 0"""
    return torch.linalg.vector_norm(x, dim=dim)


def linear(w, name, x, width, bias=True):
    return F.linear(x, w(name + ".weight", width, x.shape[-1]), w(name + ".bias", width) if bias else None)


def bits(i):
    j = torch.arange(5).expand_as(i) - 2
    return torch.stack([i & 5, i | j, j ^ i, ~i, j << i, -9 >> i], -1)


def angles(x, w):
    a, k, ys = x[:, 0], label, []
    for xt in x.unbind(1):
        a, k = torch.atan2(a + xt, xt - 0.5 * a), (k << 1 ^ 5) & 63
        ys.append(a * (k & 7)[:, None])
    return torch.stack(ys, 1)


def scattered(x, f):
    """f(row before, what is written there in order), where something is"""
    samples = []
    for a, i, v in zip(x[:, :, 0], word - 1, x[:, 1:6, 1]):
        at = [[v[k] for k in range(5) if i[k] == row] for row in range(7)]
        samples.append(torch.stack([f(a[row], at[row]) if at[row] else a[row] for row in range(7)]))
    return torch.stack(samples)


def weight_norm(v, gain):
    return torch._weight_norm(v, gain.reshape(-1, *[1] * (v.dim() - 1)), 0)


def squeeze_excite(x, w, hidden, act, gate):
    at = "squeeze_excite_1.dense_"
    s = act(linear(w, at + "1", x.mean((1, 2)), hidden))
    return x * gate(linear(w, at + "2", s, x.shape[-1]))[:, None, None]


def normal(path, *shape):
    u = uniform(path, 0, N, 1, 2, *shape)
    return torch.sqrt(-2 * torch.log(1 - u[:, 0])) * torch.cos(2 * math.pi * u[:, 1])


# ---- helpers
case("identity", series, lambda x, w: x)
case("mean", image, lambda x, w: x.mean((1, 2)))
case("mean_all", series, lambda x, w: x.mean((1, 2)))
case("min", series, lambda x, w: x.amin(1))
case("variance", image, lambda x, w: x.var((1, 3), unbiased=False, keepdim=True))
case("norm", series, lambda x, w: norm(x, 1))
case("norm_zero", series, lambda x, w: norm(x * torch.tensor([1.0, 0, 1, 1]), 1))
case("distance", pair, lambda x, w: norm(x[:, 0] - x[:, 1], -1))
case("logsumexp", series, lambda x, w: x.logsumexp(1, keepdim=True))
case("logsumexp_all", series, lambda x, w: x.logsumexp((1, 2)))
case("prod", image, lambda x, w: (3 * x).prod(3).prod(1))
case("prod_all", (3, 3), lambda x, w: (3 * x).flatten(1).prod(1))
case("prod_zero", (2, 5), lambda x, w: (x * torch.tensor([1.0, 0, 1, 1, 0])).prod(-1, keepdim=True))
case("prod_one_zero", (2, 4), lambda x, w: (x * torch.tensor([1.0, 0, 1, 1])).prod(-1))
case("tan", series, lambda x, w: (1.5 * x).tan())
case("atan", series, lambda x, w: (8 * x).atan())
case("asin", series, lambda x, w: x.asin())
case("acos", series, lambda x, w: x.acos())
case("atan2", pair, lambda x, w: torch.atan2(x[:, 0], x[:, 1]))
case("sinh", series, lambda x, w: signs(4 * x).sinh())
case("sinh_large", row, lambda x, w: (80 * x).sinh())
case("cosh", series, lambda x, w: signs(4 * x).cosh())
case("asinh", series, lambda x, w: signs(8 * x).asinh())
case("asinh_large", row, lambda x, w: (1e30 * x).asinh())
case("acosh", series, lambda x, w: (1 + norm(4 * x, -1)).acosh())
case("acosh_large", row, lambda x, w: (1e30 * x).abs().acosh())
case("atanh", series, lambda x, w: signs(x).atanh())
case("angles", series, angles)
case("bits", (5, 6), lambda x, w: x * bits(word))
case("scatter_set", (7, 2, 4), lambda x, w: scattered(x, lambda old, v: v[-1]))
case("scatter_max", (7, 2, 4), lambda x, w: scattered(x, lambda old, v: torch.stack([old, *v]).amax(0)))
case("scatter_mul", (7, 2, 4), lambda x, w: scattered(x, lambda old, v: torch.stack([old, *v]).prod(0)))
case("scatter_numbers", (6,), lambda x, w: x * torch.stack(
    [torch.where((word[i] - 1)[None] == torch.arange(6)[:, None], 9, 0).amax(1).where(
        ((word[i] - 1)[None] == torch.arange(6)[:, None]).any(1), torch.arange(6)) for i in range(N)]))
case("zeros_ones", series, lambda x, w: torch.cat([0 * x[..., :2], x[..., 2:]], -1))
case("sign", series, lambda x, w: signs(x).sign())
case("round", series, lambda x, w: signs(8 * x).round())
case("ceil", series, lambda x, w: signs(8 * x).ceil())
case("trunc", series, lambda x, w: signs(8 * x).trunc())
case("round_halves", (2, 5), lambda x, w: (0 * x + torch.tensor(
    [[-1.5, -0.5, 0.5, 1.5, 2.5], [0.49999999999999994, -2.5, 3.5, 1e17, -0.75]])).round())
case("clamp", series, lambda x, w: x.clamp(-0.3, 0.45))
case("clamp_ends", series, lambda x, w: at_numbers(x, 0, 1).clamp(0, 1))
case("clamp_crossed", series, lambda x, w: x.clamp(0.2, -0.1))
case("one_hot", (5, 6), lambda x, w: x * F.one_hot(word, 6))
case("one_hot_more", (5, 7), lambda x, w: x * F.one_hot(word + 1, 7))
case("flatten", series, lambda x, w: x.flatten(1))
case("flip", image, lambda x, w: x.flip(2))
case("reverse", series, lambda x, w: x.flip(1))
case("split", image, lambda x, w: x.split(1, 2)[-1])
case("stack", pair, lambda x, w: torch.stack([x[:, 0], x[:, 1], 2 * x[:, 0]], -1))
case("insert_axis", series, lambda x, w: x.unsqueeze(2))
case("unit_norm", series, lambda x, w: F.normalize(x, dim=-1))
case("batch_gather", row, lambda x, w: x * (torch.arange(N) + 1)[:, None, None])
case("lerp", pair, lambda x, w: torch.lerp(x[:, 0], x[:, 1], 0.3))
case("weight_norm", series, lambda x, w: F.linear(x, weight_norm(w("normed_1.w", 3, 4), w("normed_1.weight_norm_1.gain", 3))))
case("weight_norm_kernel", series, lambda x, w: last(F.conv1d(
    chw(x), weight_norm(w("normed_kernel_1.w", 3, 4, 3), w("normed_kernel_1.weight_norm_1.gain", 3)), padding=1)))
case("squeeze_excite", image, lambda x, w: squeeze_excite(x, w, 2, F.relu, torch.sigmoid))
case("squeeze_excite_act", image, lambda x, w: squeeze_excite(x, w, 1, F.silu, hardsigmoid))
case("random_normal", series, lambda x, w: x * normal("random_normal_1.random_1", 5, 4))
case("erf_inverse", series, lambda x, w: torch.erfinv(x))
case("eye", series, lambda x, w: x * torch.eye(5, 4))


# ---- dense and convolutions
def conv(x, w, width, size, name="conv_1", bias=True, before=None, **options):
    """before: zeros in front and behind, for what torch has no padding"""
    x = chw(x)
    groups = options.get("groups", 1)
    if before:
        x = F.pad(x, before)
    f = (F.conv1d, F.conv2d, F.conv3d)[x.dim() - 3]
    weight = w(name + ".weight", width, x.shape[1] // groups, *size)
    return last(f(x, weight, w(name + ".bias", width) if bias else None, **options))


def conv_transpose(x, w, width, size, bias=True, **options):
    x = chw(x)
    f = (F.conv_transpose1d, F.conv_transpose2d)[x.dim() - 3]
    weight = w("conv_transpose_1.weight", x.shape[1], width // options.get("groups", 1), *size)
    return last(f(x, weight, w("conv_transpose_1.bias", width) if bias else None, **options))


def separable(x, w):
    at = "separable_1."
    y = conv(x, w, 4, (3, 3), at + "depthwise_1", bias=False, stride=2, padding=1, groups=4)
    return conv(y, w, 3, (1, 1), at + "conv_1")


case("dense", series, lambda x, w: linear(w, "dense_1", x, 3))
case("dense_act", row, lambda x, w: F.silu(linear(w, "dense_1", x, 3, bias=False)))
case("conv", image, lambda x, w: conv(x, w, 6, (3, 3), padding=1))
case("conv_even", image, lambda x, w: conv(x, w, 3, (4, 4), before=(1, 2, 1, 2)).sigmoid())
case("conv_options", image, lambda x, w: conv(x, w, 6, (3, 2), stride=2, padding=1, dilation=(1, 2), groups=2))
case("conv_stride", image, lambda x, w: conv(x, w, 3, (3, 3), stride=(2, 1), padding=1, bias=False))
case("conv_dilated", image, lambda x, w: conv(x, w, 2, (3, 3), dilation=2, padding=2))
case("conv_padding", image, lambda x, w: conv(x, w, 2, (2, 3), before=(0, 2, 1, 0)))
case("conv_line", series, lambda x, w: conv(x, w, 3, (2,), bias=False))
case("conv_cube", (3, 4, 3, 2), lambda x, w: conv(x, w, 2, (2, 3, 2), before=(0, 1, 1, 1, 0, 1), stride=(1, 2, 1)))
case("depthwise", image, lambda x, w: conv(x, w, 8, (3, 3), "depthwise_1", padding=1, groups=4))
case("depthwise_stride", image, lambda x, w: conv(x, w, 4, (3, 3), "depthwise_1", stride=2, groups=4, bias=False))
case("separable", image, separable)
case("conv_transpose", image, lambda x, w: conv_transpose(x, w, 3, (3, 3), stride=2, padding=1))
case("conv_transpose_plain", image, lambda x, w: conv_transpose(x, w, 2, (2, 3), bias=False))
case("conv_transpose_line", series, lambda x, w: conv_transpose(x, w, 3, (4,), stride=3))
case("conv_transpose_options", image, lambda x, w: conv_transpose(
    x, w, 6, (3, 2), stride=(3, 2), padding=(2, 1), output_padding=(1, 0), dilation=(2, 1), groups=2).sigmoid())
case("conv_transpose_depthwise", series, lambda x, w: conv_transpose(
    x, w, 4, (3,), stride=2, padding=1, output_padding=1, groups=4, bias=False))
case("conv_transpose_sides", series, lambda x, w: conv_transpose(x, w, 2, (4,), stride=2)[:, 2:].tanh())
case("conv_transpose_dilated", image, lambda x, w: conv_transpose(x, w, 2, (2, 2), dilation=2))


# ---- pools, other sizes
def maxpool_same(x):
    y = F.pad(chw(x), (1, 1, 0, 1), value=-math.inf)
    return last(F.max_pool2d(y, (2, 3), 1))


def lp_pool(x, size, p, stride):
    """gradient 0 where a window holds zeros alone"""
    s = F.avg_pool2d(chw(x).abs() ** p, size, stride) * math.prod(size)
    return last(torch.where(s == 0, 0.0, torch.where(s == 0, 1.0, s) ** (1 / p)))


def sampled(x, align_corners=False, **options):
    return last(F.grid_sample(chw(x[..., :3]), 1.5 * x[..., 3:], align_corners=align_corners, **options))


def regions(x, samples, aligned):
    """torchvision's roi_align, place by place"""
    boxes = torch.tensor([[1.25, 0.25, 6.5, 5], [1.25, 0.25, 6.5, 5], [-3.5, -5.75, 11.5, 11.75]]) + x[:, :3, 0] * torch.tensor([2.25, 0.75, 2, 1.5])

    def read(image, i, j):
        if not (-1 <= i <= 6 and -1 <= j <= 5):
            return 0 * image[0, 0]
        i, j = i.clamp(0, 5), j.clamp(0, 4)
        a, b = int(i), int(j)
        up, left = 1 - (i - a), 1 - (j - b)
        a2, b2 = min(a + 1, 5), min(b + 1, 4)
        return up * (left * image[a, b] + (1 - left) * image[a, b2]) + (1 - up) * (left * image[a2, b] + (1 - left) * image[a2, b2])

    def region(image, box):
        l, t, r, b = 0.75 * box - (0.5 if aligned else 0)
        high, wide = (b - t, r - l) if aligned else ((b - t).clamp(min=1), (r - l).clamp(min=1))
        places = [[(t + (i + (a + 0.5) / samples) * high / 3, l + (j + (k + 0.5) / samples) * wide / 2)
                   for a in range(samples) for k in range(samples)] for i in range(3) for j in range(2)]
        return torch.stack([sum(read(image, *p) for p in part) / samples ** 2 for part in places]).reshape(3, 2, -1)

    return torch.stack([torch.stack([region(image, box) for box in of]) for image, of in zip(x, boxes)])


def spectrum(x):
    y = torch.fft.rfft(x)
    return torch.cat([y.real, y.imag], -1)


case("maxpool", image, lambda x, w: last(F.max_pool2d(chw(x), 2)))
case("maxpool_padded", image, lambda x, w: last(F.max_pool2d(chw(x), 3, 2, 1)))
case("maxpool_same", image, lambda x, w: maxpool_same(x))
case("maxpool_line", series, lambda x, w: last(F.max_pool1d(chw(x), 3, 1)))
case("maxpool_dilated", image, lambda x, w: last(F.max_pool2d(chw(x), 2, 1, dilation=2)))
case("maxpool_dilated_options", (9, 8, 2), lambda x, w: last(F.max_pool2d(chw(x), (3, 2), (2, 3), 1, (3, 2))))
case("maxpool_dilated_line", series, lambda x, w: last(F.max_pool1d(chw(x), 2, 2, dilation=3)))
case("avgpool_counted", image, lambda x, w: last(F.avg_pool2d(chw(x), 3, 2, 1)))
case("avgpool", image, lambda x, w: last(F.avg_pool2d(chw(x), 2)))
case("avgpool_padded", image, lambda x, w: last(F.avg_pool2d(chw(x), 3, 2, 1, count_include_pad=False)))
case("avgpool_line", series, lambda x, w: last(F.avg_pool1d(chw(x), 2, 1)))
case("lp_pool", image, lambda x, w: last(F.lp_pool2d(chw(x), 2, 2)))
case("lp_pool_stride", image, lambda x, w: last(F.lp_pool2d(chw(x.abs()), 3, (3, 2), (1, 2))))
case("lp_pool_zero", image, lambda x, w: lp_pool(F.relu(x), (2, 2), 2, 2))
case("adaptive_avgpool", image, lambda x, w: last(F.adaptive_avg_pool2d(chw(x), (4, 3))))
case("adaptive_avgpool_one", image, lambda x, w: last(F.adaptive_avg_pool2d(chw(x), 1)))
case("bins", (3, 5), lambda x, w: x * F.adaptive_avg_pool1d(torch.eye(5)[None], 3)[0].T)
case("upsample", image, lambda x, w: last(F.interpolate(chw(x), scale_factor=2, mode="nearest")))
case("upsample_bilinear", image, lambda x, w: last(F.interpolate(chw(x), scale_factor=3, mode="bilinear")))
case("resized", image, lambda x, w: last(F.interpolate(chw(x), (9, 3), mode="bilinear")))
case("upsample_corners", image, lambda x, w: last(F.interpolate(chw(x), scale_factor=2, mode="bilinear", align_corners=True)))
case("resized_corners", image, lambda x, w: last(F.interpolate(chw(x), (9, 3), mode="bilinear", align_corners=True)))
case("resized_corner", image, lambda x, w: last(F.interpolate(chw(x), (1, 7), mode="bilinear", align_corners=True)))
case("hats", (3, 5), lambda x, w: x * F.interpolate(torch.eye(5)[None], 3, mode="linear")[0].T)
case("pixel_shuffle", image, lambda x, w: last(F.pixel_shuffle(chw(x), 2)))
case("crop", image, lambda x, w: x[:, 1:4, 2:4])
case("reflect_pad", image, lambda x, w: last(F.pad(chw(x), (3, 3, 3, 3), mode="reflect")))
case("edge_pad", image, lambda x, w: last(F.pad(chw(x), (2, 2, 2, 2), mode="replicate")))
case("edge_pad_sides", series, lambda x, w: last(F.pad(chw(x), (0, 3), mode="replicate")))
case("wrap_pad", image, lambda x, w: last(F.pad(chw(x), (0, 3, 2, 1), mode="circular")))
case("wrap_pad_twice", series, lambda x, w: torch.cat([x[:, 3:], x, x, x, x[:, :2]], 1))
case("take", image, lambda x, w: torch.stack([torch.where(
    (row < 5)[:, None], x[i][:, row.clamp(max=4)], 0.0) for i, row in enumerate(word)]))
case("grid_sample", (6, 5, 5), lambda x, w: sampled(x))
case("grid_sample_corners", (6, 5, 5), lambda x, w: sampled(x, align_corners=True))
case("grid_sample_border", (6, 5, 5), lambda x, w: sampled(x, padding_mode="border"))
case("grid_sample_nearest", (6, 5, 5), lambda x, w: sampled(x, mode="nearest"))
case("roi_align", (6, 5, 4), lambda x, w: regions(x, 2, True))
case("roi_align_old", (6, 5, 4), lambda x, w: regions(x, 1, False))
case("rfft", (3, 8), lambda x, w: spectrum(x))
case("rfft_odd", (7,), lambda x, w: spectrum(x))
case("irfft", (2, 3, 5), lambda x, w: torch.fft.irfft(torch.complex(x[:, 0], x[:, 1]), 8))
case("irfft_odd", (2, 3, 5), lambda x, w: torch.fft.irfft(torch.complex(x[:, 0], x[:, 1]), 9))
case("mirror", (9,), lambda x, w: x * F.pad(torch.arange(5.0)[None], (2, 2), mode="reflect")[0])


# ---- normalisation
def batchnorm(x, w, training=True, momentum=0.1, eps=1e-5):
    c = x.shape[-1]
    mean, var = w.state("batchnorm_1.running_mean", c), w.state("batchnorm_1.running_var", c)
    own = w if training else w.state  # what is frozen keeps its weights
    weight, bias = own("batchnorm_1.weight", c), own("batchnorm_1.bias", c)
    return last(F.batch_norm(chw(x), mean, var, weight, bias, training, momentum, eps))


def batchnorm_groups(x, w, size):
    """statistics of groups; what is stored is the mean of the groups' """
    weight, bias = w("batchnorm_1.weight", 4), w("batchnorm_1.bias", 4)
    mean, var = w.state("batchnorm_1.running_mean", 4), w.state("batchnorm_1.running_var", 4)
    parts, means, variances = [], [], []
    for group in x.split(size):
        parts.append(last(F.batch_norm(chw(group), None, None, weight, bias, True)))
        means.append(group.detach().mean((0, 1, 2)))
        variances.append(group.detach().var((0, 1, 2)))
    mean.lerp_(torch.stack(means).mean(0), 0.1)
    var.lerp_(torch.stack(variances).mean(0), 0.1)
    return torch.cat(parts)


def batchnorm_twice(x, w, name, steps):
    """two calls of one instance in each step; its statistics are those of the last step"""
    mean, var = w.state(f"{name}.running_mean", 4), w.state(f"{name}.running_var", 4)
    weight, bias, y = w(f"{name}.weight", 4), w(f"{name}.bias", 4), []
    for step in steps:
        states, product = (mean, var), 1
        for v in (step, step ** 2 + 1):
            states = [s.clone() for s in states]
            product = product * F.batch_norm(v.reshape(-1, 4), *states, weight, bias, True).reshape(step.shape)
        y.append(product)
    mean.copy_(states[0]), var.copy_(states[1])
    return torch.stack(y, 1)


def layer_norm(x, w, name="layernorm_1", eps=1e-5, bias=True):
    c = x.shape[-1]
    return F.layer_norm(x, (c,), w(name + ".weight", c), w(name + ".bias", c) if bias else None, eps)


def rms_norm(x, w, name="rmsnorm_1", eps=1e-6):
    return F.rms_norm(x, (x.shape[-1],), w(name + ".weight", x.shape[-1]), eps)


def group_norm(x, w, groups, name="groupnorm_1", eps=1e-5):
    c = x.shape[-1]
    return last(F.group_norm(chw(x), groups, w(name + ".weight", c), w(name + ".bias", c), eps))


def drop(x, w, name, rate, *over):
    return torch.where(w.draw(name + ".random_1", *(over or x.shape[1:])) < rate, 0.0, x / (1 - rate))


case("batchnorm", image, batchnorm)
case("batchnorm_options", series, lambda x, w: batchnorm(x, w, momentum=0.3, eps=0.1))
case("batchnorm_row", row, batchnorm)
case("batchnorm_groups", image, lambda x, w: batchnorm_groups(x, w, 2))
case("batchnorm_shard", image, batchnorm)  # of one device
case("batchnorm_shared", image, lambda x, w: batchnorm_twice(x, w, "twice_1.norm.batchnorm_1", [x])[:, 0])
case("batchnorm_scan", series, lambda x, w: batchnorm_twice(x, w, "twice_scanned_1.norm.batchnorm_1", x.unbind(1)).reshape(x.shape))
case("batchnorm_stored", image, lambda x, w: batchnorm(x, w, False))
case("batch_mean", series, lambda x, w: x - x.mean((0, 1)))
case("layernorm", series, layer_norm)
case("layernorm_options", image, lambda x, w: layer_norm(x, w, eps=0.1, bias=False))
case("rmsnorm", series, rms_norm)
case("rmsnorm_eps", series, lambda x, w: rms_norm(x, w, eps=0.1))
case("groupnorm", image, lambda x, w: group_norm(x, w, 2))
case("groupnorm_options", series, lambda x, w: group_norm(x, w, 4, eps=0.1))
case("instancenorm", image, lambda x, w: last(F.instance_norm(
    chw(x), weight=w("instancenorm_1.weight", 4), bias=w("instancenorm_1.bias", 4))))
case("local_response_norm", image, lambda x, w: last(F.local_response_norm(chw(x), 5)))
case("local_response_norm_options", image, lambda x, w: last(F.local_response_norm(chw(x), 2, 0.5, 0.6, 2)))
case("dropout", image, lambda x, w: drop(x, w, "dropout_1", 0.5))
case("dropout_over", image, lambda x, w: drop(x, w, "dropout_1", 0.25, 6, 1, 1))
case("spatial_dropout", image, lambda x, w: drop(x, w, "spatial_dropout_1.dropout_1", 0.4, 1, 1, 4))
case("stochastic_depth", image, lambda x, w: drop(x, w, "stochastic_depth_1.dropout_1", 0.4, 1, 1, 1))

# ---- activations
case("relu", series, lambda x, w: F.relu(signs(x)))
case("relu6", series, lambda x, w: F.relu6(16 * x))
case("leaky_relu", series, lambda x, w: F.leaky_relu(signs(x), 0.01))
case("leaky_relu_slope", series, lambda x, w: F.leaky_relu(x, 0.2))
case("prelu", series, lambda x, w: last(F.prelu(chw(signs(x)), w("prelu_1.weight", 12))))
case("elu", series, lambda x, w: F.elu(signs(x)))
case("elu_alpha", series, lambda x, w: F.elu(x, 1.5))
case("selu", series, lambda x, w: F.selu(x))
case("celu", series, lambda x, w: F.celu(signs(x)))
case("celu_alpha", series, lambda x, w: F.celu(x, 1.5))
case("sigmoid", series, lambda x, w: (8 * x).sigmoid())
case("sigmoid_log", series, lambda x, w: F.logsigmoid(1000 * x))
case("log_sigmoid", series, lambda x, w: F.logsigmoid(signs(1000 * x)))
case("expm1", series, lambda x, w: 1e12 * torch.expm1(1e-12 * x) + torch.expm1(x))
case("log1p", series, lambda x, w: 1e12 * torch.log1p(1e-12 * x) + torch.log1p(x))
case("gelu", series, lambda x, w: F.gelu(4 * x))
case("gelu_tanh", series, lambda x, w: F.gelu(4 * x, approximate="tanh"))
case("silu", series, lambda x, w: F.silu(4 * x))
case("softplus", series, lambda x, w: F.softplus(signs(8 * x), threshold=1e9))
case("mish", series, lambda x, w: F.mish(4 * x))
case("softsign", series, lambda x, w: F.softsign(signs(x)))
case("hardsigmoid_ends", series, lambda x, w: hardsigmoid(at_numbers(x, -3, 3)))
case("hardsigmoid", series, lambda x, w: hardsigmoid(5 * x))
case("hardswish", series, lambda x, w: F.hardswish(5 * x))
case("softmax", series, lambda x, w: (4 * x).softmax(-1))
case("softmax_axis", image, lambda x, w: x.softmax(2))
case("log_softmax_large", series, lambda x, w: (x + 1e12).log_softmax(-1))
case("log_softmax_infinite", series, lambda x, w: (x + torch.tensor([0, 0, -math.inf, 0])).softmax(-1))
case("cross_entropy_large", row, lambda x, w: F.cross_entropy(x - 1e12, label, reduction="none"))
case("log_softmax", series, lambda x, w: (4 * x).log_softmax(-1))
case("log_softmax_axis", series, lambda x, w: x.log_softmax(1))
case("maxout", image, lambda x, w: x.reshape(N, 6, 5, 2, 2).amax(-1))
case("glu", series, lambda x, w: F.glu(x))
case("glu_act", series, lambda x, w: x[..., :2] * F.gelu(x[..., 2:]))
case("swiglu", series, lambda x, w: linear(w, "swiglu_1.dense_3", F.silu(linear(w, "swiglu_1.dense_1", x, 6, False)) * linear(
    w, "swiglu_1.dense_2", x, 6, False), 4, False))


# ---- sequences
def sinusoidal(t, c):
    """Vaswani et al. 2017, 3.5, element by element"""
    return torch.tensor([[(math.cos if i % 2 else math.sin)(p / 10000 ** ((i - i % 2) / c)) for i in range(c)] for p in range(t)])


def rope(x, base=10000.0):
    """Su et al. 2021 as a product of complex numbers: element i goes with element i + d / 2"""
    t, d = x.shape[1], x.shape[-1]
    angle = torch.arange(t)[:, None] / base ** (2 * torch.arange(d // 2) / d)
    z = torch.complex(x[..., :d // 2], x[..., d // 2:]) * torch.polar(torch.ones_like(angle), angle)[:, None]
    return torch.cat([z.real, z.imag], -1)


def attend(q, k, v, **options):
    q, k, v = (z.transpose(1, 2) for z in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, **options).transpose(1, 2)


def causal(t, s, window=None):
    age = (torch.arange(t) + s - t)[:, None] - torch.arange(s)
    return (age >= 0) & (age < (window or s))


def heads(x):
    return x.reshape(N, 5, 6, 2).split(2, 2)


def shared_heads(x):
    z = x[..., None]
    return attend(z[:, :, :4], z[:, :, 4:6], z[:, :, 6:], enable_gqa=True,
                  attn_mask=((torch.arange(5)[:, None] - torch.arange(5)) < 3))


def seen(q, k, v, at, scale=None, cap=None, bias=0.0):
    """by hand: torch gives NaN for queries that see nothing; at: where keys are seen, [..., h, t, s]; heads in groups"""
    q, k, v = (z.transpose(1, 2) for z in (q, k, v))
    k, v = (z.repeat_interleave(q.shape[1] // k.shape[1], 1) for z in (k, v))
    z = q @ k.transpose(-1, -2) * (scale or q.shape[-1] ** -0.5)
    z = (z if cap is None else cap * torch.tanh(z / cap)) + bias
    blind = ~at.broadcast_to(z.shape).any(-1, keepdim=True)
    p = torch.softmax(torch.where(blind, 0.0, z.masked_fill(~at, -math.inf)), -1)
    return (torch.where(blind, 0.0, p) @ v).transpose(1, 2)


def fewer_keys(x, window=None):
    q, k, v = heads(x)
    return seen(q, k[:, 1:4], v[:, 1:4], causal(5, 3, window))


def infinite_bias(x):
    q, k, v = heads(x)
    at = (torch.arange(5) + torch.arange(5)[:, None]) % (torch.arange(2)[:, None, None] + 2) != 0
    bias = (q[:, :, 0] @ k[:, :, 1].transpose(1, 2))[:, None]
    return seen(q, k, v, at & causal(5, 5), bias=bias)


def capped_causal(x):
    slopes, far = torch.tensor([2.0 ** -4, 2.0 ** -8]), (torch.arange(5) - torch.arange(5)[:, None]).clamp(max=0)
    return seen(*heads(x), causal(5, 5, 3), cap=0.5, bias=slopes[:, None, None] * far)


def few_queries(x):
    q, k, v = heads(x)
    return attend(q[:, 2:], k, torch.cat([v, k], -1), attn_mask=causal(3, 5), scale=0.5)


def biased(x):
    """ALiBi with slopes 1/16 and 1/256, a bias that is computed, and a window"""
    q, k, v = heads(x)
    slopes, far = torch.tensor([2.0 ** -4, 2.0 ** -8]), (torch.arange(5) - torch.arange(5)[:, None]).clamp(max=0)
    bias = (q[:, :, 0] @ k[:, :, 1].transpose(1, 2))[:, None] + slopes[:, None, None] * far
    return attend(q, k, v, attn_mask=bias.masked_fill(~causal(5, 5, 3), -math.inf))


def self_attention(x, w, heads, name="self_attention_1", groups=None, rotary=False, bias=True, **options):
    t, c, groups = x.shape[1], x.shape[2], groups or heads
    q = linear(w, name + ".dense_1", x, c, bias).reshape(N, t, heads, -1)
    k, v = (linear(w, name + ".dense_" + i, x, groups * c // heads, bias).reshape(N, t, groups, -1) for i in "23")
    if rotary:
        q, k = rope(q), rope(k)
    return linear(w, name + ".dense_4", attend(q, k, v, enable_gqa=True, **options).flatten(2), c, bias)


def cross_attention(x, w):
    q, y, at = x[:, :2], x[..., :3], "cross_1.cross_attention_1.dense_"
    k, v = linear(w, at + "2", y, 8).split(4, -1)
    z = attend(linear(w, at + "1", q, 4).reshape(N, 2, 2, 2), k.reshape(N, 5, 2, 2), v.reshape(N, 5, 2, 2))
    return linear(w, at + "3", z.flatten(2), 4)


def transformer(x, w, heads, hidden=16, rate=0.0):
    at = "transformer_1."
    some = (lambda y, i: drop(y, w, f"{at}dropout_{i}", rate)) if rate else (lambda y, i: y)
    x = x + some(self_attention(layer_norm(x, w, at + "layernorm_1"), w, heads, at + "self_attention_1"), 1)
    y = F.gelu(linear(w, at + "dense_1", layer_norm(x, w, at + "layernorm_2"), hidden))
    return x + some(linear(w, at + "dense_2", y, 4), 2)


def transformer_post(x, w):
    at = "transformer_1."
    x = rms_norm(x + self_attention(x, w, 2, at + "self_attention_1", is_causal=True), w, at + "rmsnorm_1")
    return rms_norm(x + linear(w, at + "dense_2", F.relu(linear(w, at + "dense_1", x, 6)), 4), w, at + "rmsnorm_2")


def recurrent(net, ih, b, hh, b_hh=None):
    net, rows = net(ih.shape[1], hh.shape[1], batch_first=True), len(ih)
    given = {"weight_ih_l0": ih, "weight_hh_l0": hh, "bias_ih_l0": b, "bias_hh_l0": torch.zeros(rows) if b_hh is None else b_hh}

    def run(x, state=None, length=None):
        if length is None:
            return torch.func.functional_call(net, given, (x, state))
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, length, True, False)
        y, last_state = torch.func.functional_call(net, given, (packed, state))
        return torch.nn.utils.rnn.pad_packed_sequence(y, True, total_length=x.shape[1])[0], last_state

    return run


def rnn(x, w):
    return recurrent(torch.nn.RNN, w("rnn_1.dense_1.weight", 3, 4), w("rnn_1.dense_1.bias", 3), w("rnn_1.weight_hh", 3, 3))(x)[0]


def rnn_results(x, w):
    """by hand: torch has no sigmoid there"""
    at, h, ys = "rnn_results_1.rnn_1.", torch.zeros(N, 3), []
    hh = w(at + "weight_hh", 3, 3)
    z = linear(w, at + "dense_1", x, 3)
    for t in range(5):
        h = (z[:, t] + h @ hh.T).sigmoid()
        ys.append(h)
    return torch.cat(ys + [h], -1)


def rnn_length(x, w):
    """lengths 0, 1, 2, 3, by hand: torch refuses 0"""
    at, h, ys = "rnn_length_1.rnn_1.", torch.zeros(N, 3), []
    z, hh = linear(w, at + "dense_1", x, 3), w(at + "weight_hh", 3, 3)
    for t in range(5):
        new, on = (z[:, t] + h @ hh.T).tanh(), (t < n)[:, None]
        h = torch.where(on, new, h)
        ys.append(torch.where(on, new, 0.0))
    return torch.cat(ys + [h], -1)


def rnn_begun(x, w):
    at = "rnn_begun_1.rnn_1."
    net = recurrent(torch.nn.RNN, w(at + "dense_1.weight", 3, 4), w(at + "dense_1.bias", 3), w(at + "weight_hh", 3, 3))
    return net(x, 2 * x[None, :, 0, :3])[0]


def lstm_begun(x, w):
    at = "lstm_begun_1.lstm_1."
    net = recurrent(torch.nn.LSTM, w(at + "weight_ih", 12, 4), w(at + "bias", 12), w(at + "weight_hh", 12, 3))
    y, (h, c) = net(x, (x[None, :, 0, :3].contiguous(), x[None, :, 1, 1:].contiguous()), n + 1)
    return torch.cat([y.flatten(1), h[0], c[0]], -1)


def lstm(x, w):
    at = "lstm_results_1.lstm_1."
    y, (h, c) = recurrent(torch.nn.LSTM, w(at + "weight_ih", 12, 4), w(at + "bias", 12), w(at + "weight_hh", 12, 3))(x)
    return torch.cat([y.flatten(1), h[0], c[0]], -1)


def gru(x, w, at, width, *options):
    ih, b = w(at + "dense_1.weight", 3 * width, 4), w(at + "dense_1.bias", 3 * width)
    return recurrent(torch.nn.GRU, ih, b, w(at + "weight_hh", 3 * width, width), w(at + "bias_hh", 3 * width))(x, *options)


def gru_begun(x, w):
    y, h = gru(x, w, "gru_begun_1.gru_1.", 3, x[None, :, 1, :3].contiguous(), n + 2)
    return torch.cat([y.flatten(1), h[0]], -1)


def gru_reset_before(x, w):
    """by hand: torch has no such GRU"""
    at = "gru_reset_before_1.gru_1."
    ih, b, hh = w(at + "dense_1.weight", 9, 4), w(at + "dense_1.bias", 9), w(at + "weight_hh", 9, 3)
    h, ys = x[:, 1, :3], []
    for i in range(5):
        z, k = x[:, i] @ ih.T + b, (i < n + 2)[:, None]
        r, u = (torch.sigmoid(z[:, g * 3:g * 3 + 3] + h @ hh[g * 3:g * 3 + 3].T) for g in (0, 1))
        new = (1 - u) * torch.tanh(z[:, 6:] + (r * h) @ hh[6:].T) + u * h
        h, y = torch.where(k, new, h), torch.where(k, new, torch.zeros(()))
        ys.append(y)
    return torch.cat([torch.stack(ys, 1).flatten(1), h], -1)


def bidirectional_length(x, w):
    """by hand: each sample's own part, backwards"""
    ys = []
    for i in range(N):
        part, outs = x[i:i + 1, :i + 1], []
        for k, z in (("1", part), ("2", part.flip(1))):
            at = f"bidirectional_1.lstm_{k}."
            net = recurrent(torch.nn.LSTM, w(at + "weight_ih", 8, 4), w(at + "bias", 8), w(at + "weight_hh", 8, 2))
            outs.append(net(z)[0])
        ys.append(F.pad(torch.cat([outs[0], outs[1].flip(1)], 2), (0, 0, 0, 4 - i))[0])
    return torch.stack(ys)


def gru_results(x, w):
    y, h = gru(x, w, "gru_results_1.gru_1.", 3)
    return torch.cat([y.flatten(1), h[0]], -1)


def bidirectional(x, w):
    at = "bidirectional_1.gru_"
    return torch.cat([gru(x, w, at + "1.", 2)[0], gru(x.flip(1), w, at + "2.", 2)[0].flip(1)], 2)


case("embedding", (3,), lambda x, w: x * F.embedding(label, w("embedded_1.embedding_1.weight", 6, 3)))
case("embedding_count", (5, 3), lambda x, w: x * F.embedding(word, w("embedded_1.embedding_1.weight", 8, 3)))
case("sinusoidal", series, lambda x, w: x * sinusoidal(5, 4))
case("rope", (5, 2, 4), lambda x, w: rope(x))
case("rope_base", (5, 2, 4), lambda x, w: rope(x, 100.0))
case("attention", (5, 12), lambda x, w: attend(*heads(x)))
case("attention_causal", (5, 12), lambda x, w: attend(*heads(x), is_causal=True))
case("attention_window", (5, 12), lambda x, w: attend(*heads(x), attn_mask=causal(5, 5, 2)))
case("attention_groups", (5, 8), lambda x, w: shared_heads(x))
case("attention_few", (5, 12), lambda x, w: few_queries(x))
case("attention_mask", (5, 12), lambda x, w: attend(*heads(x), attn_mask=(word > 0)[:, None, None]))
at = torch.arange(5)
case("attention_mask_none", (5, 12), lambda x, w: seen(*heads(x), ((word > 1) & (n != 2)[:, None])[:, None, None]))
case("attention_mask_rows", (5, 12), lambda x, w: seen(*heads(x), ((word > 2)[:, :, None] & (at != word[:, None]))[:, None]))
case("attention_mask_heads", (5, 12), lambda x, w: seen(*heads(x), (torch.arange(2)[:, None, None] + word[:, None, :, None] + at) % 3 == 0))
case("attention_mask_heads_one_row", (5, 12), lambda x, w: seen(
    *heads(x), (torch.tensor([0, 3])[:, None] + word[:, None])[:, :, None] > 2))
case("attention_mask_groups", (5, 8), lambda x, w: seen(
    x[:, :, :4, None], x[:, :, 4:6, None], x[:, :, 6:, None], (torch.arange(4)[:, None, None] > word[:, None, :, None] - 1) & (at != 2)))
case("attention_bias", (5, 12), lambda x, w: biased(x))
case("attention_bias_infinite", (5, 12), lambda x, w: infinite_bias(x))
case("attention_fewer_keys", (5, 12), lambda x, w: fewer_keys(x))
case("attention_fewer_keys_window", (5, 12), lambda x, w: fewer_keys(x, 1))
case("attention_fewer_keys_mask", (5, 12), lambda x, w: fewer_keys(x))
case("attention_window_none", (5, 12), lambda x, w: seen(*heads(x), at > at[:, None]))
case("attention_cap", (5, 12), lambda x, w: seen(*heads(x), at >= 0, scale=2, cap=0.2))
case("attention_cap_causal", (5, 12), lambda x, w: capped_causal(x))
case("self_attention", series, lambda x, w: self_attention(x, w, 2))
case("self_attention_options", (5, 8), lambda x, w: self_attention(x, w, 4, groups=2, rotary=True, bias=False, is_causal=True))
case("self_attention_mask", series, lambda x, w: self_attention(
    x, w, 2, attn_mask=torch.arange(5)[:, None] != torch.arange(5) + 1))
case("cross_attention", series, cross_attention)
case("transformer", series, lambda x, w: transformer(x, w, 2))
case("transformer_post", series, transformer_post)
case("transformer_rate", series, lambda x, w: transformer(x, w, 1, 4, 0.3))
case("rnn", series, rnn)
case("rnn_results", series, rnn_results)
case("lstm", series, lstm)
case("gru", series, gru_results)
case("bidirectional", series, bidirectional)
case("rnn_begun", series, rnn_begun)
case("rnn_length", series, rnn_length)
case("lstm_begun", series, lstm_begun)
case("gru_begun", series, gru_begun)
case("gru_reset_before", series, gru_reset_before)
case("bidirectional_length", series, bidirectional_length)


# ---- images
def random_flip(x, w):
    return torch.where(w.draw("random_flip_1.random_1")[:, None, None, None] < 0.5, x.flip(2), x)


def random_shift(x, w, by=2):
    at = (w.draw("random_shift_1.random_1", 2) * (2 * by + 1)).floor().long()
    return torch.stack([F.pad(x[i], (0, 0, by, by, by, by))[a:a + 6, b:b + 5] for i, (a, b) in enumerate(at.tolist())])


def random_erase(x, w, size):
    at = (w.draw("random_erase_1.random_1", 2) * torch.tensor([6 - size + 1, 5 - size + 1])).floor().long()
    kept = torch.ones_like(x)
    for i, (a, b) in enumerate(at.tolist()):
        kept[i, a:a + size, b:b + size] = 0
    return x * kept


case("random_flip", image, random_flip)
case("random_shift", image, random_shift)
case("random_erase", image, lambda x, w: random_erase(x, w, 4))


# ---- losses
def cross_entropy(x, target, **options):
    return last(F.cross_entropy(chw(x), target, reduction="none", **options).unsqueeze(1)).squeeze(-1)


def focal(x, target, gamma):
    logp = x.log_softmax(-1).gather(-1, target[..., None])[..., 0]
    return -(1 - logp.exp()) ** gamma * logp


def hinge(x, target, margin):
    right = F.one_hot(target, x.shape[-1]).bool()
    return (margin + x.masked_fill(right, -math.inf).amax(-1) - (x * right).sum(-1)).clamp(min=0)


def dice(p, target, seen, eps):
    t, axes = F.one_hot(target, p.shape[-1]) * seen[..., None], tuple(range(1, p.dim() - 1))
    p = p * seen[..., None]
    return (1 - (2 * (p * t).sum(axes) + eps) / ((p + t).sum(axes) + eps)).mean(-1)


def contrastive(d, same):
    """Hadsell, Chopra, LeCun 2006, without its factor 1/2"""
    return torch.where(same, d ** 2, (1 - d).clamp(min=0) ** 2)


def triplet(x, margin):
    a, p, q = x.unbind(1)
    return (margin + norm(a - p, -1) - norm(a - q, -1)).clamp(min=0)


def nt_xent(x, t):
    """of 2 N rows: the two of a sample follow each other"""
    z = F.normalize(x, dim=-1).flatten(0, 1)
    s = (z @ z.T / t).masked_fill(torch.eye(2 * N, dtype=torch.bool), -math.inf)
    return F.cross_entropy(s, torch.arange(2 * N) ^ 1, reduction="none").reshape(N, 2).mean(-1)


def info_nce(x, scale):
    """scale: of each sample's own logits"""
    a, b = F.normalize(x, dim=-1).unbind(1)
    s, scale = a @ b.T, torch.as_tensor(scale).reshape(-1, 1)
    own = torch.arange(N)
    return (F.cross_entropy(scale * s, own, reduction="none") + F.cross_entropy(scale * s.T, own, reduction="none")) / 2


def alike(target, views, counts):
    """[N views, N views]: which rows are others, and which of them are of the row's class"""
    there = counts.repeat_interleave(views)[None, :] & ~torch.eye(N * views, dtype=torch.bool)
    t = target.repeat_interleave(views)
    return there, there & (t[:, None] == t)


def supervised_contrastive(x, target, t=0.1, counts=torch.ones(N, dtype=torch.bool)):
    x = x if x.dim() == 3 else x[:, None]
    z = F.normalize(x, dim=-1).flatten(0, 1)
    there, same = alike(target, x.shape[1], counts)
    logp = (z @ z.T / t).masked_fill(~there, -math.inf).log_softmax(-1)
    l = -logp.masked_fill(~same, 0).sum(-1) / same.sum(-1).clamp(min=1)
    return l.reshape(N, -1).mean(-1)


def batch_hard(x, target, margin=0.2, counts=torch.ones(N, dtype=torch.bool)):
    e = norm(x[:, None] - x, -1)
    there, same = alike(target, 1, counts)
    furthest = e.masked_fill(~same, -1e30).amax(-1)
    return (margin + furthest - e.masked_fill(~(there & ~same), 1e30).amin(-1)).clamp(min=0)


def ctc(x, target, length, frames):
    """what is impossible costs infinity and has no gradient"""
    logp = x.log_softmax(-1).transpose(0, 1)
    l = F.ctc_loss(logp, target, frames, length, reduction="none")
    safe = F.ctc_loss(logp, target, frames, length, reduction="none", zero_infinity=True)
    return torch.where(l.isinf(), math.inf, safe)


seen = pixel != 4
known = torch.where(seen, pixel, 0)
case("cross_entropy", row, lambda x, w: cross_entropy(4 * x, label))
case("cross_entropy_smooth", (5, 6), lambda x, w: cross_entropy(x, word, label_smoothing=0.1))
case("cross_entropy_ignore", image, lambda x, w: cross_entropy(x, known), seen)
case("cross_entropy_dense", (2, 6), lambda x, w: cross_entropy(x[:, 0], x[:, 1].softmax(-1), label_smoothing=0.2))
some, each, four = torch.tensor([0.5, 1, 2, 0, 3, 0.25]), torch.tensor([0.5, 1, 2, 1.5, 3, 0.25]), torch.tensor([0.5, 1, 2, 3])
case("cross_entropy_weights", (5, 6), lambda x, w: cross_entropy(x, word), some[word])
case("cross_entropy_weights_smooth", (5, 6), lambda x, w: cross_entropy(x, word, weight=each, label_smoothing=0.1) / each[word], each[word])
case("cross_entropy_weights_ignore", image, lambda x, w: cross_entropy(x, known, weight=four, label_smoothing=0.3) / four[known], seen * four[known])
case("cross_entropy_weights_dense", (2, 6), lambda x, w: cross_entropy(x[:, 0], x[:, 1].softmax(-1), weight=some, label_smoothing=0.2))
case("cross_entropy_smooth_ignore", image, lambda x, w: cross_entropy(x, known, label_smoothing=0.1), seen)
case("class_weighted", (5, 6), lambda x, w: cross_entropy(x, word), torch.tensor([0.5, 1, 2, 0, 3, 0.25])[word])
case("binary_cross_entropy", (), lambda x, w: F.binary_cross_entropy_with_logits(8 * x, flag.double(), reduction="none"))
case("binary_cross_entropy_ignore", (5,), lambda x, w: F.binary_cross_entropy_with_logits(
    x, (doubt == 1).double(), reduction="none"), doubt != 2)
case("focal", (5, 6), lambda x, w: focal(x, word, 2))
case("focal_ignore", image, lambda x, w: focal(x, known, 1.5), seen)
case("mse", pair, lambda x, w: F.mse_loss(x[:, 0], x[:, 1], reduction="none"))
case("mae", pair, lambda x, w: F.l1_loss(x[:, 0], x[:, 1], reduction="none"))
case("huber", pair, lambda x, w: F.huber_loss(x[:, 0], x[:, 1], reduction="none"))
case("huber_delta", pair, lambda x, w: F.huber_loss(x[:, 0], x[:, 1], reduction="none", delta=0.5))
case("kl", pair, lambda x, w: F.kl_div(x[:, 1].log_softmax(-1), (2 * x[:, 0]).softmax(-1), reduction="none").sum(-1))
case("cosine_similarity", pair, lambda x, w: F.cosine_similarity(x[:, 0], x[:, 1], dim=-1))
case("hinge", row, lambda x, w: hinge(4 * x, label, 1.0))
case("hinge_ignore", image, lambda x, w: hinge(x, known, 0.5), seen)
case("triplet", (3, 5, 4), lambda x, w: triplet(x, 1.0))
case("triplet_margin", (3, 5, 4), lambda x, w: triplet(x, 0.25))
case("contrastive", (5,), lambda x, w: contrastive(2 * x, word > 2))
case("nt_xent", (2, 5), lambda x, w: nt_xent(x, 0.5))
case("nt_xent_temperature", (2, 5), lambda x, w: nt_xent(x, 0.1))
case("info_nce", (2, 5), lambda x, w: info_nce(x, 1 / 0.07))
case("info_nce_scale", (2, 5), lambda x, w: info_nce(x, torch.exp(x[:, 0, 0])))
case("supervised_contrastive", (5,), lambda x, w: supervised_contrastive(x, flag), flag == 1)
case("supervised_contrastive_views", (3, 5), lambda x, w: supervised_contrastive(x, label, 0.5))
first = doubt[:, 0]
case("supervised_contrastive_ignore", (2, 5), lambda x, w: supervised_contrastive(x, first, counts=first < 2), first < 2)
case("batch_hard", (5,), lambda x, w: batch_hard(x, flag), flag == 1)
case("batch_hard_ignore", (5,), lambda x, w: batch_hard(x, first, 1, first < 2), first == 0)
case("dice", image, lambda x, w: dice(x.softmax(-1), known, seen, 1.0))
case("dice_eps", (5, 6), lambda x, w: dice(x.sigmoid(), word, torch.ones_like(word), 0.1))
case("ctc", (7, 6), lambda x, w: ctc(4 * x, 1 + word[:, :3] % 5, n, 7 - n))
case("ctc_impossible", (3, 6), lambda x, w: torch.exp(-ctc(x, torch.full((N, 2), 2), n.clamp(max=2), 3 - n % 2)))

# ---- gradients as values
def by(y, x):
    return torch.autograd.grad(y.sum(), x, create_graph=True)


def slope(f):
    def g(x, w):
        x = x + 0
        y = f(x, w)
        return by(y * y, x)[0]
    return g


def convolved(x, w, name):
    weight = lambda i, o, c, k: (w(f"{name}conv_{i}.weight", o, c, k, k), w(f"{name}conv_{i}.bias", o))
    y = F.max_pool2d(torch.tanh(F.conv2d(chw(x), *weight(1, 3, 2, 3), stride=2, padding=1)), 2)
    return last(F.conv2d(F.pad(y, (0, 1, 0, 1)), *weight(2, 2, 3, 2)))


def grouped(x, w, name):
    y = F.conv2d(chw(x), w(name + "conv_1.weight", 8, 1, 3, 3), w(name + "conv_1.bias", 8), padding=2, dilation=2, groups=4)
    return layer_norm(last(F.avg_pool2d(F.gelu(y), 2)), w, name + "layernorm_1")


def normalised(x, w, name):
    y, at = linear(w, name + "dense_1", x, 3), name + "batchnorm_1."
    return torch.sigmoid(last(F.batch_norm(chw(y), w.state(at + "running_mean", 3), w.state(at + "running_var", 3),
                                           w(at + "weight", 3), w(at + "bias", 3), True)))


def run_through(x, w, name):
    return recurrent(torch.nn.LSTM, w(name + "weight_ih", 12, 4), w(name + "bias", 12), w(name + "weight_hh", 12, 3))(x)[0]


def third(x, w, name="third_1."):
    x = x + 0
    y = torch.sin(linear(w, name + "dense_2", torch.tanh(linear(w, name + "dense_1", x, 3)), 2))
    first, = by(y, x)
    second, = by(first[:, 0], x)
    return by(second[:, 1], x)[0] + first


def looked_up(x, w):
    table = w("looked_up_1.table", 6, 4)
    q = table[word]
    y = torch.tanh(q) ** 3 * x
    return by(y, q)[0] * by(y, table)[0].sum()


def descended(x, w):
    m, h = w("descended_1.w", 4, 4), x[:, 0] + 0
    for i in range(1, 4):
        h = h - 0.3 * by(torch.tanh(h @ m.T + x[:, i]) ** 2, h)[0]
    return h


def penalty(x, w, name="two_1.penalty_1."):
    z = torch.lerp(x[:, 0], x[:, 1], w.draw(name + "gradient_penalty_1.random_1", 1, 1))
    y = linear(w, name + "critic.dense_2", torch.tanh(linear(w, name + "critic.dense_1", z, 4)), 1)
    return (by(y, z)[0].flatten(1).norm(dim=1) - 1) ** 2


def perceptron(x, parameters):
    a, b, c, d = parameters
    return F.linear(torch.tanh(F.linear(x, a, b)), c, d)


def four(w, name):
    return [w(name + "dense_1.weight", 3, 6), w(name + "dense_1.bias", 3), w(name + "dense_2.weight", 2, 3),
            w(name + "dense_2.bias", 2)]


def sharp(x, w):
    p = four(w, "sharp_1.")
    g = torch.autograd.grad((perceptron(x, p) ** 2).sum(), p)
    size = 0.5 / (sum((each ** 2).sum() for each in g).sqrt() + 1e-12)
    return perceptron(x, [each + size * along for each, along in zip(p, g)]) ** 2


def curved(x, w):
    p = four(w, "curved_1.")
    y = (perceptron(x, p).log_softmax(-1) ** 2).sum(-1)
    along = sum((g * each.detach()).sum() for g, each in zip(torch.autograd.grad(y.sum(), p, create_graph=True), p))
    h = torch.autograd.grad(along, p, create_graph=True)
    return y + h[0].sum() + (h[-1] ** 2).sum()


def replaced(x, w, name="replaced_1."):
    h = linear(w, name + "dense_1", x, 3)
    rest = lambda h: layer_norm(torch.tanh(h), w, name + "layernorm_1")
    return rest(h ** 2) - rest(h)


case("grad_convolved", (9, 7, 2), slope(lambda x, w: convolved(x, w, "slope_1.convolved_1.")))
case("grad_grouped", image, slope(lambda x, w: grouped(x, w, "slope_1.grouped_1.")))
case("grad_normalised", series, slope(lambda x, w: normalised(x, w, "slope_1.normalised_1.")))
with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
    case("grad_attended", series, slope(lambda x, w: self_attention(
        x, w, 2, "slope_1.attended_1.self_attention_1", is_causal=True)))
case("grad_lstm", series, slope(lambda x, w: run_through(x, w, "slope_1.run_through_1.lstm_1.")))
case("grad_third", (3,), third)
case("grad_table", (5, 4), looked_up)
case("grad_scan", series, descended)
case("gradient_penalty", pair, penalty)
case("sam", row, sharp)
case("hessian", row, curved)
case("substitute", row, replaced)

(HERE / "library.values").write_text("\n".join(lines) + "\n")
