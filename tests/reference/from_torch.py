"""Operations of PyTorch by themselves, with options that are easily overlooked: what mgpuc.from_torch makes of them computes what PyTorch computes, or is refused.

`python from_torch.py`: all in one network; with words: the cases that have one of them in their name, a network each.
"""
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import mgpuc

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
CASES, REFUSED = {}, {}
W = nn.Parameter(torch.randn(6, 6))
TABLE = torch.tensor([16777217, 33554433, 16777219, 50331653, 16777221, 16777223, 1, -16777225])


def case(f):
    CASES[f.__name__.strip("_").replace("_", " ")] = f
    return f


# x: [n, 6], a picture p: [n, 3, 6, 6], whole numbers i: [n, 6]; all come from a layer, so that none is an input itself

@case
def in_place_view_of_a_view(x, p, i):
    y = p.clone()
    y[:, :, 1:3, 1:3] = 0
    return y


@case
def in_place_slice_of_a_slice(x, p, i):
    y = x.clone()
    v = y[:, :4][:, 1:]
    v.mul_(2)
    return y + 1


@case
def in_place_reshaped(x, p, i):
    y = x.clone()
    v = y.view(-1, 2, 3)
    v[:, :1] = 0
    return y


@case
def in_place_before_a_view_is_used(x, p, i):
    y = x.clone()
    v = y[:, :3]
    y.add_(1)
    return torch.cat([v, y], 1)


@case
def in_place_select_from_the_end(x, p, i):
    y = x.clone()
    y[:, -2:] = 0.5
    y[:, 1] = 7
    return y


@case
def in_place_transposed(x, p, i):
    y = p.clone()
    y.permute(0, 2, 3, 1)[:, 2].add_(1)
    return y


@case
def in_place_twice(x, p, i):
    y = x.clone()
    a, b = y[:, :3], y[:, 2:5]
    a.mul_(2)
    b.add_(x[:, :3])
    return torch.cat([a, b, y], 1)


@case
def constant_in_place(x, p, i):
    m = torch.zeros(6)
    y = x + m
    m[1:3] = 2
    return y * m + x


@case
def pads_of_other_modes(x, p, i):
    return torch.cat([F.pad(p, (1, 2, 0, 1), mode=m).flatten(1) for m in ("replicate", "circular", "reflect")] + [F.pad(p, (1,) * 4, mode="replicate").flatten(1),
                     F.pad(p[:, :, 0], (2, 1), mode="replicate").flatten(1), F.pad(p[:, :, 0], (2, 1), mode="reflect").flatten(1), nn.ReplicationPad2d(2)(p).flatten(1)], 1)


@case
def topk_smallest(x, p, i):
    v, at = torch.topk(x, 3, largest=False)
    return torch.cat([v, at], 1)


@case
def index_from_the_end(x, p, i):
    return torch.cat([x[:, torch.tensor([-1, 0, -3])], torch.index_select(x, 1, torch.tensor([0, 5])), x @ W[torch.tensor([-1, 2, 0, 1, -4, 3])]], 1)


@case
def index_computed(x, p, i):
    return W[i % 4 - 2]


@case
def round_decimals(x, p, i):
    return torch.round(x, decimals=1) + torch.round(x * 100, decimals=-1)


@case
def rsub_alpha(x, p, i):
    return torch.rsub(x, x[:, :1], alpha=2) + torch.sub(x, x[:, 1:2], alpha=3) + torch.rsub(x, 2, alpha=3)


@case
def logical(x, p, i):
    small = torch.where(x > 0, 0.1 * x, 0.0)
    return torch.cat([torch.logical_not(small), torch.logical_xor(small, x > 0.5), torch.logical_and(small, x > -1) | torch.logical_or(small, i - 3), torch.logical_not(i - 3), ~(x > 0)], 1).double()


@case
def bits(x, p, i):
    return (~i + (i & 3) * 10 + (i | 4) * 100 + (i ^ 3) * 1000 + ((x > 0) ^ (x > 1))).double()


@case
def roll_of_all(x, p, i):
    return x @ torch.roll(W, 1) + x @ torch.roll(W, (1, -2), (0, -1))


@case
def whole_numbers_beyond_32_bits(x, p, i):
    return torch.cat([(i * 1_000_000_007 % 1000).double(), (i * 3_000_000_000 % 1000).double(), (x.abs() * 1e10).long().double() * 1e-10, (TABLE[i] % 7).double(),
                      (torch.arange(6) * i * 1_000_000_007 % 1000).double()], 1)


@case
def sums_beyond_32_bits(x, p, i):
    at = x.argmax(1, keepdim=True)
    far, near = torch.arange(70000) + at, torch.arange(20) + at + 1
    return torch.cat([far.sum(1, keepdim=True), near.prod(1, keepdim=True) % 1000, far.cumsum(1)[:, -1:], (torch.arange(6) * 1_000_000_007 + at) % 1000, (at + 3_000_000_000) % 1000,
                      torch.einsum("ni,i->n", far, torch.arange(70000))[:, None] % 1000], 1).double()


@case
def constants_beyond_32_bits(x, p, i):
    at = x.argmax(1, keepdim=True)
    return torch.cat([(torch.full((6,), 3_000_000_001) + at) % 1000, (torch.tensor([3_000_000_001, 5, -7_000_000_003]) + at) % 1000, (torch.tensor([-2_000_000_000, 2_000_000_000]) + at) % 1000,
                      (torch.tensor(5_000_000_001) - at) % 1000, (torch.full((6,), 20_000_000_01) + at) % 1000], 1).double()


@case
def casts_beyond_a_narrow_type(x, p, i):
    far = torch.round(x * 4) * 0 + torch.tensor([300.0, -1.5, 70000.7, -40000.0, 255.9, -129.0])
    return torch.cat([far.to(k).double() for k in (torch.uint8, torch.int8, torch.int16)], 1)


@case
def bytes_wrap(x, p, i):
    return torch.cat([(i.to(torch.uint8) * 60).double(), (i.to(torch.int8) * 40).double(), (i * 60).to(torch.uint8).double()], 1)


@case
def floor_divisions(x, p, i):
    tenth = x.round() * 0 + torch.tensor([1, .7, .3, .9, -1, .6])
    return torch.cat([torch.div(tenth, 0.1, rounding_mode="floor"), tenth // (0.1 + 0 * x.round()), tenth % 0.1, torch.div(x, 0.7, rounding_mode="trunc"), x // -0.3,
                      ((i - 4) // 3).double(), torch.div(i - 4, 3, rounding_mode="trunc").double(), torch.div(i - 4, -3, rounding_mode="trunc").double()], 1)


@case
def softplus_threshold(x, p, i):
    return F.softplus(10 * x, threshold=5) + F.softplus(x, beta=2, threshold=1)


@case
def average_pool_ceil(x, p, i):
    return F.avg_pool2d(p[:, :, :5, :5], 2, ceil_mode=True)


@case
def not_a_number(x, p, i):
    y = torch.where(x > 0, torch.tensor(float("nan")), x)
    return torch.where(y == y, y, 3.0)


@case
def tile_of_fewer_axes(x, p, i):
    return torch.tile(x, (2,))


@case
def clamp_by_tensors(x, p, i):
    return torch.clamp(x, W[0] - 1, W[0] + 0.5) + torch.clamp(x, 1.0, -1.0) + torch.clamp(x, max=W[1])


@case
def places_of_the_largest(x, p, i):
    return torch.cat([x.max(1, keepdim=True)[1], x.max(1)[1][:, None], x.argmax(1, keepdim=True), x.min(1, keepdim=True)[1]], 1).double()


@case
def convolutions_that_share_a_weight(x, p, i):
    w = W.flatten()[:18].view(3, 3, 2, 1)
    return F.conv2d(F.conv2d(p, w, padding="valid"), w, padding="same")


@case
def sums_of_other_types(x, p, i):
    return torch.cat([torch.sum(i, 1, keepdim=True, dtype=torch.float64) / 2, torch.sum(x > 0, 1, keepdim=True), x.softmax(1, dtype=torch.float64)], 1)


def refused(said):
    def register(f):
        REFUSED[f.__name__.strip("_").replace("_", " ")] = f, said
        return f
    return register


@refused("diagonal")
def in_place_diagonal(x, p, i):
    y = p.clone()
    torch.diagonal(y, 0, 2, 3).zero_()
    return y


@refused("no_grad")
def in_place_within_no_grad(x, p, i):
    y = x.clone()
    with torch.no_grad():
        y.add_(1)
    return y


@refused("whole pixels")
def nearest_by_a_fraction(x, p, i):
    return F.interpolate(p[:, :, :2, :2], scale_factor=3.4, mode="nearest")


@refused("as another type")
def bits_of_floats(x, p, i):
    return x.view(torch.int64).double()


@refused("scale_grad_by_freq = true")
def gradients_by_frequency(x, p, i):
    return F.embedding(i % 6, W, scale_grad_by_freq=True)


class Model(nn.Module):
    def __init__(self, cases):
        super().__init__()
        self.cases, self.w = cases, W
        self.fc, self.conv, self.words = nn.Linear(6, 6), nn.Conv2d(3, 3, 1), nn.Embedding(8, 6)

    def parts(self, x, p, i):
        n = i * 1
        return [f(self.fc(x), self.conv(p), n).flatten(1).double() for f in self.cases]

    def forward(self, x, p, i):
        return torch.cat(self.parts(x, p, i) + [self.words(i).flatten(1), x, p.flatten(1)], 1)  # which reads all


def compared(cases, name):
    model = Model(list(cases.values())).eval()
    x, p, i = torch.randn(3, 6).float().double(), torch.randn(3, 3, 6, 6).float().double(), torch.randint(0, 8, (3, 6))
    with torch.no_grad():
        wanted = [y.numpy() for y in model.parts(x, p, i)]
    made = mgpuc.from_torch(model, (x, p, i), f"{name}.net", loss="mse")
    found = mgpuc.compile(made, name, "--devices", 1, precision="f64", batch=3).predict(x.numpy(), p.numpy(), i.numpy())
    at = 0
    for what, w in zip(cases, wanted):
        y = found[:, at:at + w.shape[1]]
        off = abs(y - w).max() if y.shape == w.shape else np.inf
        print(f"ok from_torch: {what}" if off <= 1e-9 else f"not ok from_torch: {what}: off by {off}: {y[0][:6]}, not {w[0][:6]}")
        at += w.shape[1]


if len(sys.argv) > 1:
    for k, f in CASES.items():
        if any(a in k for a in sys.argv[1:]) or sys.argv[1] == "each":
            try:
                compared({k: f}, "one")
            except (mgpuc.Unsupported, mgpuc.tools.Failed) as e:
                print(f"not ok from_torch: {k}: {e}")
else:
    compared(CASES, "cases")
try:
    mgpuc.from_torch(nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6, momentum=None)), torch.randn(2, 6), "refused.net")
    print("not ok from_torch refuses an average of all batches")
except mgpuc.Unsupported as e:
    print("ok from_torch refuses an average of all batches" if str(e).startswith("1: batch_norm with momentum = None") else f"not ok from_torch refuses an average of all batches: {e}")
text = str(mgpuc.from_torch(nn.Sequential(nn.Linear(6, 6), nn.AlphaDropout(0.2)), torch.randn(2, 6), "alpha.net"))
good = "alpha_dropout (1), which only training has, is left out." in text and "spatial_dropout" not in text
print("ok from_torch: what only training has" if good else f"not ok from_torch: what only training has: {text}")
for k, (f, said) in REFUSED.items():
    try:
        mgpuc.from_torch(Model([f]), (torch.randn(1, 6), torch.randn(1, 3, 6, 6), torch.randint(0, 8, (1, 6))), "refused.net")
        print(f"not ok from_torch refuses {k}")
    except mgpuc.Unsupported as e:
        print(f"ok from_torch refuses {k}" if said in str(e) else f"not ok from_torch refuses {k}: {e}")
