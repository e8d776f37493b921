#!/usr/bin/env python3
"""Networks that mgpuc.from_torch makes of the modules in import_models.py: tests/reference/import/, read by tests/import.test.

    python3 tests/reference/import.py [FOLDER]     needs torch and numpy; the test needs neither, but compares with what this makes where they are

For each: NAME.net and NAME.safetensors by from_torch, the inputs NAME.INPUT.npy of three samples, and NAME.values, what PyTorch computes of
them in f64, the axes in the network's order.
"""
import pathlib
import sys

import numpy as np
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent.parent / "contrib/python"))

import import_models  # noqa: E402
import mgpuc  # noqa: E402


def name_of(title):
    return "".join(c if c.isalnum() else "_" for c in title.lower()).replace("__", "_")


def numbers(module):
    """Weights that do not depend on PyTorch's generator: sines."""
    for k, t in list(module.named_parameters()) + list(module.named_buffers()):
        if t.is_floating_point() and "window" not in k and not k.endswith(".attn.bias"):
            wave = torch.from_numpy(np.sin(0.37 * np.arange(t.numel()) + 0.1 * sum(k.encode())).astype(np.float32)).reshape(t.shape)
            with torch.no_grad():
                t.copy_(0.3 * wave + (1 if k.endswith("running_var") or t.dim() == 1 and k.endswith("weight") else 0))


def main():
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "import"
    out.mkdir(exist_ok=True)
    torch.set_num_threads(1)
    for title, (build, inputs) in import_models.MODELS.items():
        name = name_of(title)
        module = build()
        numbers(module)
        xs = inputs(3)
        xs = tuple(torch.from_numpy(np.sin(0.7 * np.arange(x.numel())).astype(np.float32)).reshape(x.shape) if x.is_floating_point() else
                   (torch.arange(x.numel()) * 7 % 5).reshape(x.shape) for x in xs)
        model = mgpuc.from_torch(module, xs, out / f"{name}.net", batch=3, loss=import_models.LOSSES.get(title))
        module.double().eval()
        with torch.no_grad():
            y = module(*[x.double() if x.is_floating_point() else x for x in xs])
        for x, place in zip(xs, model.info["inputs"]):
            x = x.numpy().transpose([0] + [a + 1 for a in place["axes"]])
            np.save(out / f"{name}.{place['name']}.npy", np.ascontiguousarray(x if x.dtype == np.float32 else x.astype(np.int32)))
        y = y.permute([0] + [a + 1 for a in model.info["output_axes"]])
        (out / f"{name}.values").write_text("".join(f"{v:.17g}\n" for v in y.flatten().tolist()))


if __name__ == "__main__":
    main()
