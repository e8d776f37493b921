"""What programs export, compared with what they predict.

    python3 export.py KINDS <JOBS     KINDS: "onnx torch", or one of them

Each line of JOBS is a case: NAME TOLERANCE INPUT=FILE.npy ..., of NAME.onnx and m_NAME.py, and of
NAME.y.npy, or NAME.y-OUTPUT.npy for each of several outputs. Prints a line of a test for each kind:
"ok NAME KIND", with the largest difference, relative to the largest output, and what computed it. What ONNX Runtime has no kernels for (a convolution
in f64) is computed by onnx's reference."""

import importlib.util
import os
import sys

import numpy as np


def run_onnx(name, given):
    import onnx
    import onnxruntime
    path = f"{name}.onnx"
    onnx.checker.check_model(path, full_check=True)
    inputs = {v.name: v for v in onnx.load(path, load_external_data=False).graph.input}
    kinds = {k: onnx.helper.tensor_dtype_to_np_dtype(v.type.tensor_type.elem_type) for k, v in inputs.items()}
    feed = {k: given[k].astype(kinds[k]) for k in inputs}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as e:
        if "NotImplemented" not in type(e).__name__:
            raise
        from onnx.reference import ReferenceEvaluator
        return ReferenceEvaluator(path).run(None, feed), [v.name for v in onnx.load(path).graph.output], "onnx.reference"
    return session.run(None, feed), [v.name for v in session.get_outputs()], "onnxruntime"


def run_torch(name, given):
    import torch
    torch.set_num_threads(1)
    spec = importlib.util.spec_from_file_location(f"m_{name}", f"m_{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.load()
    lines = [line.split() for line in module.__doc__.split("Inputs\n")[1].split("Outputs\n")[0].strip().splitlines()]
    with torch.no_grad():
        y = model(*[torch.from_numpy(np.ascontiguousarray(given[k[:-1]].astype(kind))) for k, kind, *_ in lines])
    names = [line.split(":")[0].strip() for line in module.__doc__.split("Outputs\n")[1].strip().splitlines()]
    return [v.numpy() for v in (y if isinstance(y, tuple) else (y,))], names, "PyTorch"


def compare(kind, name, tolerance, given):
    found, names, by = (run_onnx if kind == "onnx" else run_torch)(name, given)
    worst = 0
    for y, output in zip(found, names):
        file = f"{name}.y.npy" if len(names) == 1 else f"{name}.y-{output}.npy"
        if not os.path.exists(file):  # an output with the name of an input or a weight is NAME_2 in ONNX
            file = f"{name}.y-{output.removesuffix('_2')}.npy"
        expected = np.load(file)
        if y.shape != expected.shape:
            return f"not ok {name} {kind}: {output} is {y.shape}, not {expected.shape}"
        if expected.dtype.kind != "f":
            if (y != expected).any():
                return f"not ok {name} {kind}: {output}, of whole numbers, is {y.ravel()[:8]}, not {expected.ravel()[:8]}"
            continue
        far = np.abs(y.astype(np.float64) - expected).max() / max(np.abs(expected).max(), 1e-300)
        worst = max(worst, far if far == far else np.inf)
    return f"{'ok' if worst <= tolerance else 'not ok'} {name} {kind}{':' if worst > tolerance else chr(10) + '#'} {worst:.1e} of the largest output ({by})"


for line in sys.stdin:
    name, tolerance, *inputs = line.split()
    given = {k: np.load(f) for k, f in (word.split("=") for word in inputs)}
    for kind in sys.argv[1].split():
        try:
            print(compare(kind, name, float(tolerance), given), flush=True)
        except Exception as e:
            text = str(e).replace("\n", " ")[:300]
            print(f"not ok {name} {kind}: {type(e).__name__}: {text}", flush=True)
