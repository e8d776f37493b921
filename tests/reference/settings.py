#!/usr/bin/env python3
"""Training runs of tests/models/settings.net in PyTorch, f64, with averages, rules, plateaus and skipped steps: the files in
settings/ beside this script, read by tests/settings.test.

    python3 tests/reference/settings.py        needs torch and numpy; the tests themselves need neither

NAME.losses has a line per step: its loss and the rate of the head. NAME.valid has a line per validation: its loss.
start.safetensors is the model at the beginning, backbone.safetensors the backbone alone, as a published file would be: its
names start below it, and it has a head of its own and counters of batches. table.npy is for file("table.npy").
"""
import copy
import json
import math
import pathlib
import struct

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

torch.set_default_dtype(torch.float64)
HERE = pathlib.Path(__file__).parent / "settings"
TRAIN, VALID, BATCH = 22, 10, 8


def idx(modulus, *shape):
    """formula idx of tests/tools/formula.c"""
    i = np.arange(math.prod(shape), dtype=np.uint64)
    return torch.tensor((((i * 2654435761) % 2**32 >> 13) % modulus).astype(np.int64)).reshape(shape)


IMAGES, LABELS = idx(256, TRAIN, 12, 12, 3).permute(0, 3, 1, 2) / 255, idx(10, TRAIN)
VALID_IMAGES, VALID_LABELS = idx(251, VALID, 12, 12, 3).permute(0, 3, 1, 2) / 255, idx(10, VALID)


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 5, 3, stride=2, padding=1)
        self.bn2 = nn.BatchNorm2d(5)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(x))).mean((2, 3))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Backbone()
        self.head = nn.Linear(5, 10)

    def forward(self, x):
        return self.head(self.backbone(x))


def write_safetensors(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, t in tensors.items():
        raw = t.detach().contiguous().numpy().tobytes()
        kind = {torch.float64: "F64", torch.float32: "F32", torch.int64: "I64"}[t.dtype]
        header[name] = {"dtype": kind, "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def start():
    torch.manual_seed(3)
    net = Net()
    with torch.no_grad():
        for bn in (net.backbone.bn1, net.backbone.bn2):  # as if it had been trained
            bn.weight.add_(0.2 * torch.randn_like(bn.weight))
            bn.bias.add_(0.1 * torch.randn_like(bn.bias))
            bn.running_mean.add_(0.3 * torch.randn_like(bn.running_mean))
            bn.running_var.mul_(torch.rand_like(bn.running_var) + 0.5)
        net.head.weight.mul_(3)
    return net


def run(name, groups, epochs, average=None, members=None, rate=None, clip=None, plateau=None, poison=False, still=(), every=None):
    """groups: net -> optimizers; members: applied step -> does the average take the weights in; still: frozen modules"""
    net = start()
    optimizers = groups(net)
    averaged = average(net) if average else None
    plateaus = [plateau(o) for o in optimizers] if plateau else []
    losses, valid, step = [], [], 0
    for epoch in range(epochs):
        for first in range(0, TRAIN, BATCH):
            net.train()
            for path in still:
                net.get_submodule(path).eval()
            x, y = IMAGES[first:first + BATCH], LABELS[first:first + BATCH]
            buffers = {k: v.clone() for k, v in net.named_buffers()}
            logits = net(x)
            if poison:
                bad = (x[:, 0, 0, 0] * 255).round().eq(23) & (x[:, 1, 0, 0] * 255).round().eq(210)
                logits = torch.where(bad[:, None], torch.nan, logits)
            loss = F.cross_entropy(logits, y)
            for o in optimizers:
                o.zero_grad()
            loss.backward()
            head = [o for o in optimizers if any(p is net.head.weight for g in o.param_groups for p in g["params"])][0]
            losses.append((loss.item(), head.param_groups[-1]["lr"]))
            step += 1
            if math.isfinite(loss.item()):
                if clip:
                    clip(net)
                for o in optimizers:
                    o.step()
            else:
                with torch.no_grad():
                    for k, v in net.named_buffers():
                        v.copy_(buffers[k])
            if averaged and (members(step) if members else math.isfinite(loss.item())):
                averaged.update_parameters(net)
            if every and step % every == 0:
                valid.append(validate(net, averaged))
        if not every:
            valid.append(validate(net, averaged))
            for p in plateaus:
                p.step(valid[-1])
    (HERE / f"{name}.losses").write_text("".join(f"{a!r} {b!r}\n" for a, b in losses))
    (HERE / f"{name}.valid").write_text("".join(f"{v!r}\n" for v in valid))
    print(name, losses[-1], valid[-1])


def validate(net, averaged):
    model = averaged if averaged and averaged.n_averaged > 0 else net
    model.eval()
    with torch.no_grad():
        return F.cross_entropy(model(VALID_IMAGES), VALID_LABELS).item()


def sgd(lr, momentum=0.9, decay=0.0):
    return lambda net: [torch.optim.SGD(net.parameters(), lr, momentum=momentum, weight_decay=decay)]


def ema(decay):
    return lambda net: AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(decay), use_buffers=True)


def ema_by_hand(decay):
    """buffers that are whole numbers must not be averaged"""
    def make(net):
        for m in net.modules():
            if isinstance(m, nn.BatchNorm2d):
                m.num_batches_tracked = None
        return ema(decay)(net)
    return make


def swa(net):
    for m in net.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.num_batches_tracked = None
    return AveragedModel(net, use_buffers=True)


def rules(net):
    """ "backbone" { frozen }  "backbone.conv2" { frozen = false  lr = 0.1 lr }  "head" { adamw  lr = 0.01 }  "*.bias" { decay = 0 } """
    for p in net.backbone.parameters():
        p.requires_grad_(False)
    for p in net.backbone.conv2.parameters():
        p.requires_grad_(True)
    conv2, head = net.backbone.conv2, net.head
    return [torch.optim.SGD([{"params": [conv2.weight], "weight_decay": 0.01}, {"params": [conv2.bias], "weight_decay": 0}], 0.02,
                            momentum=0.9),
            torch.optim.AdamW([{"params": [head.bias], "weight_decay": 0}, {"params": [head.weight], "weight_decay": 0.01}], 0.01,
                              betas=(0.9, 0.95))]


def rule_clips(net):
    """train: the norm of what no rule clips; head: by its own norm; biases: by element"""
    torch.nn.utils.clip_grad_norm_([net.backbone.conv2.weight], 0.05)
    torch.nn.utils.clip_grad_norm_([net.head.weight], 0.1)
    torch.nn.utils.clip_grad_value_([net.head.bias, net.backbone.conv2.bias], 0.02)


def unit_norm(x):
    """of each output's weights; of a vector the whole, as in the authors' code"""
    return x.norm() if x.ndim <= 1 else x.norm(dim=tuple(range(1, x.ndim)), keepdim=True)


def other_clips(net):
    """train: the infinity norm of what no rule clips; head and biases: adaptive (Brock et al. 2021)"""
    torch.nn.utils.clip_grad_norm_([net.backbone.conv2.weight], 0.01, norm_type=math.inf)
    for p, limit in ((net.head.weight, 0.05), (net.head.bias, 0.5), (net.backbone.conv2.bias, 0.5)):
        most, slope = limit * unit_norm(p.detach()).clamp(min=1e-3), unit_norm(p.grad)
        p.grad.copy_(torch.where(slope < most, p.grad, p.grad * (most / slope.clamp(min=1e-6))))


def main():
    HERE.mkdir(exist_ok=True)
    net = start()
    state = {k: v for k, v in net.state_dict().items() if "num_batches" not in k}
    write_safetensors(HERE / "start.safetensors", state)
    published = {k: v for k, v in net.backbone.state_dict().items()}
    published["fc.weight"], published["fc.bias"] = torch.zeros(3, 5), torch.zeros(3)
    write_safetensors(HERE / "backbone.safetensors", published)
    np.save(HERE / "table.npy", np.arange(12, dtype=np.float32).reshape(3, 4) / 8)
    frozen = ["backbone.conv1", "backbone.bn1", "backbone.bn2"]
    run("plain", sgd(0.2), 4)
    run("ema", sgd(0.2), 4, ema_by_hand(0.8))
    run("swa", sgd(0.2), 4, swa, lambda step: step >= 6 and step % 3 == 0)
    run("swa_steps", sgd(0.2), 4, swa, lambda step: step >= 4 and (step - 4) % 2 == 0)
    run("rules", rules, 4, still=frozen)
    run("clips", rules, 4, clip=rule_clips, still=frozen)
    run("other_clips", rules, 4, clip=other_clips, still=frozen)
    run("plateau", sgd(8.0), 10, plateau=lambda o: torch.optim.lr_scheduler.ReduceLROnPlateau(o, factor=0.5, patience=1, threshold=0))
    run("skip", lambda net: [torch.optim.AdamW(net.parameters(), 0.02, weight_decay=0.01)], 4, ema_by_hand(0.8), poison=True)
    run("often", sgd(0.2), 4, every=2)


if __name__ == "__main__":
    main()
