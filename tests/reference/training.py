#!/usr/bin/env python3
"""training.py: writes training.values: the weights of training.net after 24 steps of 2 samples: optimizers by torch.optim, those
that it lacks by their papers; rates by torch.optim.lr_scheduler or as a formula; initialisers of the draws of make.py.

    python3 tests/reference/training.py     needs torch and numpy; the tests themselves need neither
"""
import math
import pathlib

import numpy as np
import torch

from make import idx, uniform

torch.set_default_dtype(torch.float64)
HERE = pathlib.Path(__file__).parent
STEPS, EPOCH, BATCH, LR, DECAY = 24, 12, 2, 0.05, 0.02
x, y = idx(256, STEPS // 2 * BATCH, 12) / 256, idx(253, STEPS // 2 * BATCH, 12) / 256
lines = []


def put(name, t):
    t = torch.as_tensor(t)
    flat = t.detach().double().reshape(-1)
    shape = ",".join(map(str, t.shape)) or "-"
    k = torch.arange(flat.numel(), dtype=torch.float64)
    lines.append(f"{name}.w {shape} {flat.sum().item():.17g} {(flat * torch.cos(k)).sum().item():.17g}")


# ---- optimizers
def train(name, make, shape=(3, 4)):
    """make(w) -> step(): of torch.optim, or a function of (w, g, step)"""
    w = torch.tensor([((i * 5 + 3) % 13 - 6) / 8 for i in range(12)]).reshape(shape).requires_grad_()
    optimizer = make(w)
    for step in range(1, STEPS + 1):
        first = (step - 1) % EPOCH * BATCH
        a, b = (t[first:first + BATCH].reshape(BATCH, *shape) for t in (x, y))
        w.grad = None
        (12 * (0.5 * (w * a) ** 2 - w * b)).mean().backward()
        if isinstance(optimizer, torch.optim.Optimizer):
            optimizer.step()
        else:
            with torch.no_grad():
                w.copy_(torch.tensor(optimizer(w.numpy(), w.grad.numpy(), step)))
    put(name, w)


class lion:
    """Chen et al. 2023, algorithm 2"""

    def __init__(self, w, beta1=0.9, beta2=0.99):
        self.m, self.beta1, self.beta2 = np.zeros(w.shape), beta1, beta2

    def __call__(self, w, g, step):
        c = self.beta1 * self.m + (1 - self.beta1) * g
        self.m = self.beta2 * self.m + (1 - self.beta2) * g
        return w - LR * (np.sign(c) + DECAY * w)


class lamb:
    """You et al. 2019, algorithm 2"""

    def __init__(self, w, beta1=0.9, beta2=0.999, eps=1e-6):
        self.m, self.v, self.beta1, self.beta2, self.eps = np.zeros(w.shape), np.zeros(w.shape), beta1, beta2, eps

    def __call__(self, w, g, step):
        self.m = self.beta1 * self.m + (1 - self.beta1) * g
        self.v = self.beta2 * self.v + (1 - self.beta2) * g * g
        m, v = self.m / (1 - self.beta1 ** step), self.v / (1 - self.beta2 ** step)
        r = m / (np.sqrt(v) + self.eps) + DECAY * w
        return w - LR * np.linalg.norm(w) / np.linalg.norm(r) * r


class lars:
    """You et al. 2017, algorithm 1"""

    def __init__(self, w, momentum=0.9, ratio=0.2):
        self.v, self.momentum, self.ratio = np.zeros(w.shape), momentum, ratio

    def __call__(self, w, g, step):
        local = self.ratio * np.linalg.norm(w) / (np.linalg.norm(g) + DECAY * np.linalg.norm(w))
        self.v = self.momentum * self.v + LR * local * (g + DECAY * w)
        return w - self.v


class adafactor_plain:
    """Shazeer & Stern 2018, algorithm 4 without its step size"""

    def __init__(self, w):
        self.r, self.c = np.zeros(w.shape[0]), np.zeros(w.shape[1])

    def __call__(self, w, g, step):
        beta, s = 1 - step ** -0.8, g * g + 1e-30
        self.r = beta * self.r + (1 - beta) * s.sum(1)
        self.c = beta * self.c + (1 - beta) * s.sum(0)
        u = g / np.sqrt(np.outer(self.r, self.c) / self.r.sum())
        return w - LR * DECAY * w - LR * u / max(1, math.sqrt((u * u).mean()))


class muon:
    """Jordan 2024 (kellerjordan.github.io/posts/muon), in double"""

    def __init__(self, w, momentum=0.95):
        self.v, self.momentum = np.zeros(w.shape), momentum

    def __call__(self, w, g, step):
        self.v = self.momentum * self.v + g
        m = (g + self.momentum * self.v).reshape(len(w), -1)
        o = m.T if m.shape[0] > m.shape[1] else m
        o = o / (np.linalg.norm(o) + 1e-7)
        for _ in range(5):
            s = o @ o.T
            o = 3.4445 * o - 4.775 * s @ o + 2.0315 * s @ s @ o
        o = o.T if m.shape[0] > m.shape[1] else o
        return w - LR * DECAY * w - LR * math.sqrt(max(1, m.shape[0] / m.shape[1])) * o.reshape(w.shape)


T, rate = torch.optim, {"lr": LR, "weight_decay": DECAY}
train("sgd", lambda w: T.SGD([w], **rate))
train("sgd_momentum", lambda w: T.SGD([w], momentum=0.9, **rate))
train("sgd_nesterov", lambda w: T.SGD([w], momentum=0.8, nesterov=True, **rate))
train("adam", lambda w: T.Adam([w], **rate))
train("adam_options", lambda w: T.Adam([w], lr=0.1 * LR, betas=(0.8, 0.9), eps=1e-3))
train("adamw", lambda w: T.AdamW([w], **rate))
train("nadam", lambda w: T.NAdam([w], momentum_decay=1e9, **rate))  # ours has a momentum that stays
train("adamax", lambda w: T.Adamax([w], **rate))
train("rmsprop", lambda w: T.RMSprop([w], **rate))
train("rmsprop_momentum", lambda w: T.RMSprop([w], alpha=0.9, momentum=0.9, eps=1e-3, **rate))
train("adagrad", lambda w: T.Adagrad([w], **rate))
train("adadelta", lambda w: T.Adadelta([w], rho=0.8, **rate))
train("lion", lion)
train("lamb", lamb)
train("lars", lars)
train("adafactor", lambda w: T.Adafactor([w], **rate))
train("adafactor_plain", adafactor_plain)
train("muon", muon)
train("adafactor_line", lambda w: T.Adafactor([w], **rate), (12,))
train("muon_tall", muon, (4, 3))
train("muon_kernel", muon, (2, 3, 2))


# ---- rates
def schedule(name, make, peak=0.1):
    optimizer = T.SGD([torch.zeros(1, requires_grad=True)], lr=peak)
    scheduler, rates = make(optimizer), []
    for _ in range(STEPS):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    put("rate_" + name, rates)


def formula(name, f):
    put("rate_" + name, [f(k) for k in range(STEPS)])


def warm(steps, f, peak=0.1):
    """peak k / steps, then f(k)"""
    return lambda k: peak * k / steps if k < steps else f(k)


S = T.lr_scheduler
formula("constant", lambda k: 0.1)
formula("constant_warm", warm(5, lambda k: 0.1))
schedule("cosine", lambda o: S.CosineAnnealingLR(o, STEPS))
formula("cosine_end", warm(4, lambda k: 0.02 + 0.08 * 0.5 * (1 + math.cos(math.pi * (k - 4) / 20))))
schedule("cosine_cycles", lambda o: S.CosineAnnealingWarmRestarts(o, STEPS // 3, eta_min=0.02))
formula("linear", warm(12, lambda k: 0.1 * (STEPS - k) / 12))
schedule("linear_end", lambda o: S.LinearLR(o, 1, 0.2, STEPS))
formula("polynomial", lambda k: 0.02 + 0.08 * (1 - k / STEPS) ** 2)
formula("multistep", warm(2, lambda k: 0.1 * 0.1 ** ((k >= 5) + (k >= 12) + (k >= 20))))
schedule("staircase", lambda o: S.StepLR(o, 5, 0.5))
schedule("exponential", lambda o: S.ExponentialLR(o, 0.5 ** (1 / EPOCH)))
formula("inverse_sqrt", lambda k: 0.1 * min(k / 6, math.sqrt(6 / max(k, 1))))
# torch's is at its top at pct_start total - 1 and ends at total - 1
one_cycle = lambda o, rise, start, end: S.OneCycleLR(o, 0.1, STEPS + 1, pct_start=(rise * STEPS + 1) / (STEPS + 1), div_factor=1 / start,
                                                     final_div_factor=start / end, cycle_momentum=False)
schedule("one_cycle", lambda o: one_cycle(o, 0.3, 0.04, 1e-4))
schedule("one_cycle_options", lambda o: one_cycle(o, 0.5, 0.1, 0.01))
formula("scaled", lambda k: 0.1 * BATCH / 8)
formula("expression", lambda k: 0.1 * (1 - k / STEPS) ** 2 + 0.001 * (k + 1) + 0.01 * k / EPOCH)


# ---- initialisers
def drawn(name, *shape):
    return uniform(name + ".w", 0, 1, 0, *shape)[0]


def normal(name, *shape):
    """Box & Muller 1958"""
    u = drawn(name, 2, *shape)
    return torch.sqrt(-2 * torch.log(1 - u[0])) * torch.cos(2 * math.pi * u[1])


def fans(shape):
    """(in, out), as torch.nn.init counts them"""
    return torch.nn.init._calculate_fan_in_and_fan_out(torch.empty(shape))


def begin(name, shape, f):
    put("init_" + name, f("init_" + name, *shape))


def spread(f, std):
    """f's draws, times std"""
    return lambda name, *shape: std(*fans(shape)) * f(name, *shape)


def truncated(std):
    """by the inverse of the cumulative distribution, of what lies within two standard deviations"""
    inside = math.erf(math.sqrt(2))
    return lambda name, *shape: std * math.sqrt(2) * torch.erfinv(inside * (2 * drawn(name, *shape) - 1))


def polar(name, *shape):
    """the orthogonal matrix that is nearest to the draws"""
    u, _, v = torch.linalg.svd(normal(name, *shape).reshape(shape[0], -1), full_matrices=False)
    return (u @ v).reshape(shape)


begin("constant", (3, 2), lambda name, *shape: torch.full(shape, 0.3))
begin("zeros", (3,), lambda name, *shape: torch.zeros(shape))
begin("ones", (3,), lambda name, *shape: torch.ones(shape))
begin("uniform", (40,), lambda *a: -0.05 + 0.1 * drawn(*a))
begin("uniform_range", (40,), lambda *a: -1 + 4 * drawn(*a))
begin("normal", (41,), lambda *a: 0.05 * normal(*a))
begin("normal_mean", (41,), lambda *a: 1 + 2 * normal(*a))
begin("truncated", (200,), truncated(0.05))
begin("truncated_std", (200,), truncated(0.5))
symmetric = lambda *a: 2 * drawn(*a) - 1
begin("glorot", (6, 5), spread(symmetric, lambda i, o: math.sqrt(6 / (i + o))))
begin("glorot_kernel", (6, 5, 3, 2), spread(symmetric, lambda i, o: math.sqrt(6 / (i + o))))
begin("he", (6, 5), spread(normal, lambda i, o: math.sqrt(2 / i)))
begin("he_kernel", (6, 5, 3, 2), spread(normal, lambda i, o: math.sqrt(2 / i)))
begin("lecun", (6, 5, 3), spread(normal, lambda i, o: math.sqrt(1 / i)))
begin("eye", (3, 5), lambda name, *shape: torch.eye(*shape))
begin("orthogonal", (7, 7), polar)
begin("orthogonal_tall", (9, 4), lambda *a: 2 * polar(*a))
begin("orthogonal_kernel", (4, 3, 2, 2), polar)

(HERE / "training.values").write_text("\n".join(lines) + "\n")
