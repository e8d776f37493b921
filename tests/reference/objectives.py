#!/usr/bin/env python3
"""Training runs of tests/models/objectives.net in PyTorch, f64: two optimizers take turns, as in its tutorials on DCGAN and WGAN.
The files in objectives/ beside this script are read by tests/objectives.test.

    python3 tests/reference/objectives.py        needs torch and numpy; the tests themselves need neither

NAME.losses has a line per update: the sum of its losses. NAME.valid has a line per validation, the same of all losses.
start.safetensors is the model at the beginning, NAME.safetensors at the end.
"""
import copy
import pathlib

import torch
import torch.nn as nn
import torch.nn.functional as F

from settings import idx, write_safetensors

torch.set_default_dtype(torch.float64)
HERE = pathlib.Path(__file__).parent / "objectives"
TRAIN, VALID, BATCH, EPOCHS = 22, 10, 8, 4
IMAGES, NOISE = idx(256, TRAIN, 36) / 128 - 1, idx(255, TRAIN, 5) / 64 - 2
VALID_IMAGES, VALID_NOISE = idx(251, VALID, 36) / 128 - 1, idx(253, VALID, 5) / 64 - 2


class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.bn, self.fc2 = nn.Linear(36, 10), nn.BatchNorm1d(10), nn.Linear(10, 1)

    def forward(self, x):
        return self.fc2(F.leaky_relu(self.bn(self.fc1(x)), 0.2))[:, 0]


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.bn, self.fc2 = nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Linear(8, 36)

    def forward(self, z):
        return torch.tanh(self.fc2(F.relu(self.bn(self.fc1(z)))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator, self.judge = Generator(), Judge()


def bce(logit, target):
    return F.binary_cross_entropy_with_logits(logit, torch.full_like(logit, target))


def start():
    torch.manual_seed(5)
    net = Net()
    with torch.no_grad():
        for bn in (net.generator.bn, net.judge.bn):  # as if it had been trained
            bn.weight.add_(0.2 * torch.randn_like(bn.weight))
            bn.running_mean.add_(0.3 * torch.randn_like(bn.running_mean))
            bn.running_var.mul_(torch.rand_like(bn.running_var) + 0.5)
    return net


def named(net):
    return {k: v for k, v in net.state_dict().items() if "num_batches" not in k}


def validate(net, average):
    model = copy.deepcopy(net)
    model.load_state_dict(average, strict=False)
    model.eval()
    with torch.no_grad():
        guess = model.judge(model.generator(VALID_NOISE))
        return (bce(model.judge(VALID_IMAGES), 1) + bce(guess, 0) + bce(guess, 1)).item()


def run(name, times, decay=None):
    """times: updates of the judge in a round; decay: of an average over the steps (ema)"""
    net = start()
    judges = torch.optim.Adam(net.judge.parameters(), lr=1, betas=(0.5, 0.999))
    generators = torch.optim.SGD(net.generator.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)
    batches = [range(a, min(a + BATCH, TRAIN)) for a in range(0, TRAIN, BATCH)] * EPOCHS
    turns, b = [], 0  # (the judge's, its batch): a repetition sees the next batch
    while b < len(batches):
        for k in range(times):
            if b + k < len(batches):
                turns.append((True, b + k))
        b += times
        if b <= len(batches):
            turns.append((False, b - 1))
    losses, valid, average, begun = [], [], {}, set()
    for step, (judging, b) in enumerate(turns):
        net.train()
        x, z = IMAGES[batches[b]], NOISE[batches[b]]
        before = {k: v.clone() for k, v in named(net).items()}
        if judging:
            for group in judges.param_groups:
                group["lr"] = 0.01 * (1 - step / len(turns))
            judges.zero_grad()
            loss = bce(net.judge(x), 1) + bce(net.judge(net.generator(z).detach()), 0)
            loss.backward()
            judges.step()
        else:
            generators.zero_grad()
            loss = bce(net.judge(net.generator(z)), 1)
            loss.backward()
            nn.utils.clip_grad_norm_(net.generator.parameters(), 0.1)
            generators.step()
        losses.append(loss.item())
        for k, v in named(net).items():
            changes = k.startswith("judge" if judging else "generator") or "running" in k
            if decay and changes:
                first = k not in begun
                begun.add(k)
                average[k] = v.clone() if first else decay * average[k] + (1 - decay) * v
            elif not decay or k not in begun:
                average[k] = v.clone()
        last = step + 1 == len(turns) or turns[step + 1][1] > b  # the batch's last update
        if last and (b + 1) % (len(batches) // EPOCHS) == 0:
            valid.append(validate(net, average))
    (HERE / f"{name}.losses").write_text("".join(f"{v!r}\n" for v in losses))
    (HERE / f"{name}.valid").write_text("".join(f"{v!r}\n" for v in valid))
    write_safetensors(HERE / f"{name}.safetensors", named(net))
    print(name, len(losses), losses[-1], valid[-1])


if __name__ == "__main__":
    write_safetensors(HERE / "start.safetensors", named(start()))
    run("critic", 2)
    run("turns", 1)
    run("ema", 2, decay=0.8)
