#!/usr/bin/env python3
"""Character models of tinyshakespeare, the examples gpt_mini and char_lstm made narrow, trained in PyTorch: the file
characters.values beside this script, read by tests/characters.test.

    python3 tests/reference/characters.py build/bin/mgpuc data/tinyshakespeare     needs torch and numpy

PyTorch begins with the weights that our program begins with (it writes them after a step whose rate is 0), reads the same
windows in the same order and drops the same elements (random numbers as in make.py); modules, gradients, clipping and
Adam are its own. In the file, of each model:

    NAME settings SETTING...           what mgpuc is to be told with --set
    NAME f64 SEED LOSS... VALID        the losses of ten steps, and that of validation behind them
    NAME f32 SEED VALID                the loss of validation behind all steps
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from make import HERE, counter_words, dropout, philox, random_key

EXAMPLES = HERE.parent.parent / "examples"
SEEDS, SHORT = (1, 2, 3), 10
MODELS = {  # settings of the examples; peak: of the rate
    "gpt_mini": {"depth": 2, "width": 64, "heads": 2, "context": 64, "batch": 16, "steps": 800, "peak": 3e-3},
    "char_lstm": {"depth": 2, "width": 96, "context": 64, "batch": 32, "steps": 500, "peak": 1e-2},
}
WARMUP = 100


class Draws:
    """what dropout draws: of one seed, for the samples of one step"""

    def __init__(self, seed):
        self.seed, self.first, self.step = seed, 0, 0

    def drop(self, x, rate, path):
        return dropout(x, rate, path, self.first, self.step, self.seed)


# ---- the models; parameters are named as in the examples
class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = self.qkv(self.ln1(x)).reshape(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(n, t, c))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class GptMini(nn.Module):
    def __init__(self, draws, depth, width, heads, context, **_):
        super().__init__()
        self.depth = depth
        self.wte, self.wpe = nn.Parameter(torch.empty(65, width)), nn.Parameter(torch.empty(context, width))
        for i in range(depth):
            setattr(self, f"h{i}", Block(width, heads))
        self.ln = nn.LayerNorm(width)

    def forward(self, token):
        x = self.wte[token] + self.wpe
        for i in range(self.depth):
            x = getattr(self, f"h{i}")(x)
        return self.ln(x) @ self.wte.T

    def take(self, weights):
        self.load_state_dict(weights)

    def optimizer(self):
        plain = [p for name, p in self.named_parameters() if name.endswith(".bias") or "ln" in name]
        decayed = [p for name, p in self.named_parameters() if not (name.endswith(".bias") or "ln" in name)]
        groups = [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0}]
        return torch.optim.AdamW(groups, lr=0, betas=(0.9, 0.95)), 1.0


class CharLstm(nn.Module):
    def __init__(self, draws, depth, width, **_):
        super().__init__()
        self.draws = draws
        self.embedding_1 = nn.Embedding(65, 64)
        self.my_lstm = nn.ModuleList(nn.LSTM(width if i else 64, width, batch_first=True) for i in range(depth))
        self.dense_1 = nn.Linear(width, 65)
        for net in self.my_lstm:
            net.bias_hh_l0.requires_grad_(False).zero_()  # ours has one bias

    def forward(self, token):
        x = self.embedding_1(token)
        for i, net in enumerate(self.my_lstm):
            x = net(x)[0]
            if self.training:
                x = self.draws.drop(x, 0.2, f"dropout_{i + 1}.random_1")
        return self.dense_1(x)

    def take(self, weights):
        theirs = {}
        for name, value in weights.items():
            layer, _, rest = name.partition(".")
            if layer.startswith("my_lstm_"):
                rest = {"weight_ih": "weight_ih_l0", "weight_hh": "weight_hh_l0", "bias": "bias_ih_l0"}[rest]
                name = f"my_lstm.{int(layer[8:]) - 1}.{rest}"
            theirs[name] = value
        missing, unexpected = self.load_state_dict(theirs, strict=False)
        assert not unexpected and all(name.endswith("bias_hh_l0") for name in missing), (missing, unexpected)

    def optimizer(self):
        return torch.optim.Adam([p for p in self.parameters() if p.requires_grad], lr=0), 5.0


NETS = {"gpt_mini": GptMini, "char_lstm": CharLstm}


def rate(peak, steps, step):
    """cosine(peak, warmup = 100steps) in step 0, 1, ..."""
    if step < WARMUP:
        return peak * step / WARMUP
    return peak * 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (steps - WARMUP)))


# ---- windows of the text
class Windows:
    def __init__(self, text, begin, end, length, stride):
        self.text, self.length = text[begin:end], length
        self.begin = np.arange(0, end - begin - length, stride)

    def __len__(self):
        return len(self.begin)

    def take(self, samples):
        at = self.begin[samples][:, None] + np.arange(self.length)
        return torch.tensor(self.text[at]), torch.tensor(self.text[at + 1])


def read_text(data):
    """characters as numbers, in the order of their codes"""
    return np.unique(np.frombuffer((pathlib.Path(data) / "input.txt").read_bytes(), np.uint8), return_inverse=True)[1].astype(np.int64)


def permutation(n, seed, epoch=0):
    """runtime/data/order.c: Fisher-Yates from the end"""
    words = philox(random_key(seed, "shuffle"), counter_words(np.arange(n, dtype=np.uint64), np.zeros(n, np.uint64), epoch))
    order = list(range(n))
    for i in range(n - 1, 0, -1):
        other = (int(words[0][i]) | int(words[1][i]) << 32) * (i + 1) >> 64
        order[i], order[other] = order[other], order[i]
    return np.array(order)


# ---- our program's weights in front of the first step
def mgpuc_settings(settings):
    lr = f"lr=cosine({settings['peak']:g},warmup={WARMUP}steps)"
    return [f"{k}={v}" for k, v in settings.items() if k != "peak"] + [lr]


def first_weights(mgpuc, data, name, settings, precision, seed, folder):
    program = pathlib.Path(folder) / f"{name}.{precision}"
    words = [w for s in mgpuc_settings(settings) + [f"precision={precision}"] for w in ("--set", s)]
    if not program.exists():
        subprocess.run([mgpuc, EXAMPLES / f"{name}.net", *words, "-o", program], check=True)
    subprocess.run([program, "--data", data, "--steps", "1", "--set", "lr=0", "--seed", str(seed), "--no-eval", "--save", f"{program}.save"],
                   check=True, stdout=subprocess.DEVNULL)
    return read_safetensors(pathlib.Path(f"{program}.save") / "weights.safetensors")


def read_safetensors(path):
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header, body = json.loads(raw[8 : 8 + size]), raw[8 + size :]
    kinds = {"F32": np.float32, "F64": np.float64}
    found = {}
    for name, t in header.items():
        if t.get("dtype") in kinds and not name.endswith((".m", ".v")):  # not Adam's states
            found[name] = torch.tensor(np.frombuffer(body[slice(*t["data_offsets"])], kinds[t["dtype"]]).reshape(t["shape"]))
    return found


# ---- runs
def train(net, settings, windows, order, draws, steps):
    """-> the losses of the steps"""
    batch, losses = settings["batch"], []
    optimizer, clip = net.optimizer()
    net.train()
    for step in range(steps):
        draws.first, draws.step = step * batch, step + 1
        token, following = windows.take(order[step * batch : (step + 1) * batch])
        optimizer.zero_grad()
        loss = F.cross_entropy(net(token).flatten(0, 1), following.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_([p for p in net.parameters() if p.requires_grad], clip)
        for group in optimizer.param_groups:
            group["lr"] = rate(settings["peak"], settings["steps"], step)
        optimizer.step()
        losses.append(loss.item())
    return losses


def validate(net, windows):
    net.eval()
    with torch.no_grad():
        parts = np.array_split(np.arange(len(windows)), 20)
        sums = [F.cross_entropy(net(x).flatten(0, 1), y.flatten(), reduction="sum").item() for x, y in map(windows.take, parts)]
    return sum(sums) / (len(windows) * windows.length)


def main(mgpuc, data, *names):
    text = read_text(data)
    count, lines = len(text), [f"# PyTorch {torch.__version__}; python3 tests/reference/characters.py MGPUC DATA"]
    with tempfile.TemporaryDirectory() as folder:
        for name in names or MODELS:
            settings = MODELS[name]
            length, batch = settings["context"], settings["batch"]
            windows = Windows(text, 0, int(0.9 * count), length, length // 4)
            valid = Windows(text, int(0.9 * count), count, length, length)
            assert settings["steps"] * batch <= len(windows), "more than one epoch"
            lines.append(f"{name} settings {' '.join(mgpuc_settings(settings))}")
            for precision, seed in [("f64", 1)] + [("f32", seed) for seed in SEEDS]:
                torch.set_default_dtype(torch.float64 if precision == "f64" else torch.float32)
                draws = Draws(seed)
                net = NETS[name](draws, **settings)
                net.take(first_weights(mgpuc, data, name, settings, precision, seed, folder))
                steps = SHORT if precision == "f64" else settings["steps"]
                losses = train(net, settings, windows, permutation(len(windows), seed), draws, steps)
                values = (losses if precision == "f64" else []) + [validate(net, valid)]
                lines.append(f"{name} {precision} {seed} {' '.join(f'{v:.17g}' for v in values)}")
                print(lines[-1], flush=True)
    if not names:
        (HERE / "characters.values").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
