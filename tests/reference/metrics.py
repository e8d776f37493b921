#!/usr/bin/env python3
"""metrics.py: writes metrics.values: the metrics of metrics.net over its 101 samples at once, by their definitions.

    python3 tests/reference/metrics.py     needs torch and numpy; the tests themselves need neither

A line per number: its name and value. The area under a ROC curve is the share of pairs of both classes that are in order,
equals counting a half; bins are scores rounded down, and what that changes is at most half the share of pairs that fall
into one bin.
"""
import pathlib

import torch
import torch.nn.functional as F

from make import idx

torch.set_default_dtype(torch.float64)
HERE = pathlib.Path(__file__).parent
N = 101
z, label, map_, pixel = idx(256, N, 6) / 32, idx(6, N), idx(251, N, 5, 4) / 32, idx(5, N, 5)
score, flag, doubt = idx(256, N, 2), idx(2, N), idx(3, N)
p, close = (score[:, 0] * 256 + score[:, 1] + 0.5) / 65536, 0.5 + (score[:, 0] - 128) / 2 ** 19
given = idx(249, N, 3) / 8
said = given + (idx(253, N, 3) - 128) / 64
lines = []


def put(name, value):
    lines.append(f"{name} {float(value):.17g}")


def table(name, m):
    for i, row in enumerate(m.tolist()):
        for j, value in enumerate(row):
            put(f"{name}[{i},{j}]", value)


def accuracy(x, target, k=1):
    """a class that is as high as the right one counts against it"""
    x, target = x[target < x.shape[-1]], target[target < x.shape[-1]]
    right = x.gather(-1, target[:, None])
    return ((x >= right).sum(-1) <= k).double().mean()


def cross_entropy(x, target):
    return F.cross_entropy(x.flatten(0, -2), target.flatten(), ignore_index=4 if x.dim() == 3 else -100)


def ratio(a, b):
    return a.sum() / max(1, b.sum())


def auc(p, positive, counted=None):
    counted = torch.ones_like(positive) if counted is None else counted
    a, b = p[positive & counted][:, None], p[~positive & counted]
    return ((a > b).double() + 0.5 * (a == b)).mean()


def binned(p, bins=65536):
    return (p * bins).floor()


def confusion(x, target):
    m = torch.zeros(x.shape[-1], x.shape[-1])
    for t, c in zip(target.flatten().tolist(), x.argmax(-1).flatten().tolist()):
        if t < x.shape[-1]:
            m[t, c] += 1
    return m


def mean_iou(m):
    union = m.sum(0) + m.sum(1) - m.diag()
    return (m.diag() / union.clamp(min=1)).sum() / (union > 0).sum()


def r2(y, t):
    return 1 - ((y - t) ** 2).sum() / ((t - t.mean()) ** 2).sum()


put("loss", cross_entropy(z, label))
put("mean", ((said - given) ** 2).mean())
put("weighted", (z * flag[:, None]).sum() / (6 * flag.sum()))
put("accuracy", accuracy(z, label))
put("accuracy_top3", accuracy(z, label, 3))
put("accuracy_pixels", accuracy(map_.flatten(0, 1), pixel.flatten()))
put("average", cross_entropy(map_, pixel))
put("perplexity", cross_entropy(z, label).exp())
put("perplexity_pixels", cross_entropy(map_, pixel).exp())
true, likely, known, doubted, over = flag == 1, p > 0.5, doubt != 2, doubt == 1, (p > 0.75) & (doubt != 2)
put("precision", ratio(true & likely, likely))
put("precision_at", ratio(doubted & over, over))
put("recall", ratio(true & likely, true))
put("recall_at", ratio(doubted & over, doubted))
put("f1", 2 * (true & likely).sum() / (true.sum() + likely.sum()))
put("f1_at", 2 * (doubted & over).sum() / (doubted.sum() + over.sum()))
for name in ("precision_void", "recall_void", "f1_void"):
    put(name, 0)
put("auc", auc(p, true))
put("auc_doubt", auc(p, doubted, known))
put("auc_close", auc(binned(close), true))
put("auc_bins", auc(binned(p, 16), true))
put("r2", r2(said, given))
put("r2_far", r2(said, given))
table("confusion", confusion(z, label))
table("confusion_pixels", confusion(map_, pixel))
inner = confusion(z[label != 2], label[label != 2])
table("confusion_inner", inner)
put("mean_iou_inner", mean_iou(inner))
put("mean_iou", mean_iou(confusion(map_, pixel)))


def by_class(x, target, kind):
    """-> of each class that occurs the number, and how often it is true"""
    said, target = x.argmax(-1).flatten(), target.flatten()
    said, target = said[target < x.shape[-1]], target[target < x.shape[-1]]
    numbers, often = [], []
    for c in sorted(set(said.tolist()) | set(target.tolist())):
        hits, found, true = (((said == c) & (target == c)).sum(), (said == c).sum(), (target == c).sum())
        precision, recall = (float(hits / n) if n else 0.0 for n in (found, true))
        harmonic = 2 * precision * recall / (precision + recall) if hits else 0.0
        numbers.append({"precision": precision, "recall": recall, "f1": harmonic}[kind])
        often.append(int(true))
    return numbers, often


def macro(*of):
    numbers, _ = by_class(*of)
    return sum(numbers) / len(numbers)


def by_share(*of):
    return sum(a * b for a, b in zip(*by_class(*of))) / sum(by_class(*of)[1])


put("f1_macro", macro(z, label, "f1"))
put("f1_macro_inner", macro(z[label != 2], label[label != 2], "f1"))
put("f1_macro_pixels", macro(map_, pixel, "f1"))
put("f1_macro_absent", macro(z, label, "f1"))
put("f1_weighted", by_share(z, label, "f1"))
put("f1_micro", (map_.argmax(-1) == pixel)[pixel < 4].double().mean())
put("precision_macro", macro(map_, pixel, "precision"))
put("precision_weighted", by_share(z[label != 2], label[label != 2], "precision"))
put("recall_macro", macro(z, label, "recall"))
put("recall_weighted", by_share(map_, pixel, "recall"))
for i, value in enumerate(by_class(z, label, "recall")[0]):
    put(f"recall_each[{i}]", value)

hit = [], []
for at in range(0, N, 16):                                   # of the others of its batch
    s = said[at:at + 16] @ F.normalize(given[at:at + 16], dim=-1).T
    for k, of in zip((1, 3), hit):
        of.append((s >= s.diagonal()[:, None]).sum(-1) <= k)
put("retrieval", torch.cat(hit[0]).double().mean())
put("retrieval_3", torch.cat(hit[1]).double().mean())

# what auc says of its bins
assert auc(binned(p), true) == auc(p, true) and auc(binned(p), doubted, known) == auc(p, doubted, known)
for q, bins in ((close, 65536), (p, 16)):
    b = binned(q, bins)
    same = (b[true][:, None] == b[~true]).double().mean()
    difference = abs(auc(b, true) - auc(q, true))
    assert 0 < difference <= 0.5 * same, (difference, same)

(HERE / "metrics.values").write_text("\n".join(lines) + "\n")
