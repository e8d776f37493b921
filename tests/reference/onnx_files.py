#!/usr/bin/env python3
"""Files of ONNX that both exporters of PyTorch write of modules in import_models.py, and what mgpuc import makes of them: tests/reference/onnx_files/,
read by tests/import.test.

    python3 tests/reference/onnx_files.py [FOLDER]     needs torch, onnx, onnxscript and numpy; the test needs onnx alone, and less without it

For each: NAME.onnx (PyTorch 2.15; its data beside it where the exporter writes it so), NAME.net and NAME.safetensors by mgpuc.from_onnx, the
inputs NAME.INPUT.npy of three samples, and NAME.values, what PyTorch computes of them in f64, the axes in the network's order.
"""
import importlib
import pathlib
import re
import sys
import warnings

HERE = pathlib.Path(__file__).resolve().parent

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import torch  # noqa: E402

sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent.parent / "contrib/python"))
import import_models  # noqa: E402
import mgpuc  # noqa: E402

WRITTEN = {"cnn": ("CNN", False, 9), "gpt": ("GPT", True, 20), "encoder": ("encoder of torch.nn", False, 17)}


def export(module, xs, file, by_torch_export, version):
    names = [f"x{n}" for n in range(len(xs))] if len(xs) > 1 else ["x"]
    if by_torch_export:
        torch.onnx.export(module, xs, str(file), dynamo=True, opset_version=version, input_names=names, external_data=True, verbose=False,
                          dynamic_shapes=tuple({0: torch.export.Dim("batch")} for _ in xs))
    else:
        torch.onnx.export(module, xs, str(file), dynamo=False, opset_version=version, input_names=names, dynamic_axes={n: {0: "batch"} for n in names})
    model = onnx.load(str(file), load_external_data=False)
    for node in model.graph.node:  # lines of the source, without where it is here
        for p in node.metadata_props:
            p.value = re.sub(r'File "[^"]*/', 'File "', p.value)
    onnx.save(model, str(file))


def main():
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "onnx_files"
    out.mkdir(exist_ok=True)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    known, numbers = import_models.MODELS, importlib.import_module("import").numbers
    for name, (title, by_torch_export, version) in WRITTEN.items():
        build, inputs = known[title]
        module = build()
        numbers(module)
        module.double().eval()
        xs = tuple(torch.from_numpy(np.sin(0.7 * np.arange(x.numel()))).reshape(x.shape) if x.is_floating_point() else (torch.arange(x.numel()) * 7 % 5).reshape(x.shape) for x in inputs(3))
        file = out / f"{name}.onnx"
        export(module, xs, file, by_torch_export, version)
        model = mgpuc.from_onnx(file, out / f"{name}.net", size=3)
        with torch.no_grad():
            y = module(*xs)
        for x, place in zip(xs, model.info["inputs"]):
            x = x.numpy().transpose([0] + [a + 1 for a in place["axes"]])
            np.save(out / f"{name}.{place['name']}.npy", np.ascontiguousarray(x if x.dtype == np.float64 else x.astype(np.int32)))
        y = y.permute([0] + [a + 1 for a in model.info["output_axes"]])
        (out / f"{name}.values").write_text("".join(f"{v:.17g}\n" for v in y.flatten().tolist()))


if __name__ == "__main__":
    main()
