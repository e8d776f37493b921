"""What programs export, compared with what they predict.

    python3 export.py KINDS <JOBS     KINDS: "onnx torch import", or some of them

Each line of JOBS is a case: NAME TOLERANCE INPUT=FILE.npy ..., of NAME.onnx (import: of what mgpuc makes of it) and m_NAME.py, and of
NAME.y.npy, or NAME.y-OUTPUT.npy for each of several outputs. Prints a line of a test for each kind:
"ok NAME KIND", with the largest difference, relative to the largest output, and what computed it. What ONNX Runtime has no kernels for (a convolution
in f64) is computed by onnx's reference."""

import contextlib
import importlib.util
import math
import os
import sys

import numpy as np


def reference(path):
    """onnx's own, whose MaxPool knows no padding along a single axis, and whose Erf is of f32"""
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

    class MaxPool(OpRun):
        def _run(self, x, kernel_shape=None, strides=None, pads=None, **rest):
            n = len(kernel_shape)
            x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:n], pads[n:])], constant_values=-np.inf)
            windows = np.lib.stride_tricks.sliding_window_view(x, kernel_shape, range(2, 2 + n))
            return (windows[(slice(None), slice(None), *(slice(None, None, s) for s in strides))].max(tuple(range(-n, 0))),)

    class Erf(OpRun):
        def _run(self, x):
            return (np.vectorize(math.erf, otypes=[x.dtype])(x),)

    return ReferenceEvaluator(path, new_ops=[MaxPool, Erf])


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
        return reference(path).run(None, feed), [v.name for v in onnx.load(path).graph.output], "onnx.reference"
    return session.run(None, feed), [v.name for v in session.get_outputs()], "onnxruntime"


def run_import(name, given):
    """The ONNX that was written, imported again, in the precision of the program that wrote it."""
    import mgpuc
    from mgpuc.onnx_graph import read_model
    model = read_model(f"{name}.onnx")
    double = onnx_double(model)
    imported = mgpuc.from_onnx(f"{name}.onnx", f"i_{name}.net")
    program = mgpuc.compile(imported, f"i_{name}", "--devices", 1, precision="f64" if double else "f32")
    y = program.predict({p["source"]: given[p["source"]] for p in imported.info["inputs"]})
    return y if isinstance(y, list) else [y], [o["source"] for o in imported.info["outputs"] if o["name"] in imported.info.get("returned", [o["name"]])], "mgpuc import"


def onnx_double(model):
    """Whether a model computes in f64."""
    double = 11
    return any(t.data_type == double for t in model.graph.initializer) or any(v.type.tensor_type.elem_type == double for v in list(model.graph.input) + list(model.graph.output))


def run_torch(name, given, around=contextlib.nullcontext()):
    import safetensors.torch
    import torch
    torch.set_num_threads(1)
    spec = importlib.util.spec_from_file_location(f"m_{name}", f"m_{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.load()
    weights, kept = safetensors.torch.load_file(f"m_{name}.safetensors"), model.state_dict()
    if set(weights) != {k for k in kept if not k.endswith("num_batches_tracked")} or any(weights[k].dtype != kept[k].dtype for k in weights):
        raise ValueError(f"the module has weights {sorted(kept)}, the file {sorted(weights)}")
    lines = [line.split() for line in module.__doc__.split("Inputs\n")[1].split("Outputs\n")[0].strip().splitlines()]
    with torch.no_grad(), around:
        y = model(*[torch.from_numpy(np.ascontiguousarray(given[k[:-1]].astype(kind))) for k, kind, *_ in lines])
    names = [line.split(":")[0].strip() for line in module.__doc__.split("Outputs\n")[1].strip().splitlines()]
    return [v.numpy() for v in (y if isinstance(y, tuple) else (y,))], names, "PyTorch"


def shaken(name, given):
    """Outputs of the module, each operation of which is off by about 1e-15: those that move hang on rounding."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Shaken(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            y = function(*args, **(kwargs or {}))
            if function.__name__.split(".")[0] in EXACT or not isinstance(y, torch.Tensor) or not y.is_floating_point():
                return y
            return y * (1 + 1e-15 * (2 * torch.rand(y.shape, dtype=y.dtype) - 1))

    torch.manual_seed(1)
    return [run_torch(name, given, Shaken())[0] for _ in range(4)]


EXACT = set("""view _unsafe_view reshape permute transpose t expand slice select index index_select cat stack where clone _to_copy
    constant_pad_nd flip sort gather maximum minimum clamp clamp_min clamp_max amax relu floor abs neg max_pool2d_with_indices
    max_pool3d_with_indices squeeze unsqueeze alias detach embedding narrow split unbind lift_fresh copy_ zeros ones""".split())


def far(a, b):
    """How far apart, of the largest element; whole numbers: 0, or infinity"""
    a, b = a.ravel(), b.ravel()
    if b.dtype.kind != "f":
        return 0 if (a == b).all() else np.inf
    a = a.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0
    apart = np.abs(a - b)[~same].max() / max(np.abs(b[np.isfinite(b)]).max(initial=0), 1e-300)
    return apart if apart == apart else np.inf


def compare(kind, name, tolerance, given):
    found, names, by = RUN[kind](name, given)
    worst, moved, left_out = 0, None, 0
    for i, (y, output) in enumerate(zip(found, names)):
        file = f"{name}.y.npy" if len(names) == 1 else f"{name}.y-{output}.npy"
        if not os.path.exists(file):  # an output with the name of an input or a weight is NAME_2 in ONNX
            file = f"{name}.y-{output.removesuffix('_2')}.npy"
        expected = np.load(file)
        if y.shape != expected.shape:
            return f"not ok {name} {kind}: {output} is {y.shape}, not {expected.shape}"
        apart = far(y, expected)
        if apart > tolerance and name.startswith("grown"):
            moved = moved or shaken(name, given)
            if any(far(other[i], moved[0][i]) > tolerance / 10 for other in moved[1:]):
                left_out += 1
                continue
        if apart > tolerance:
            return f"not ok {name} {kind}: {output} is off by {apart:.1e} of the largest: {y.ravel()[:6]}, not {expected.ravel()[:6]} ({by})"
        worst = max(worst, apart)
    return f"ok {name} {kind}\n# {worst:.1e} of the largest output ({by})" + (f"; {left_out} of {len(names)} left out: they hang on rounding" if left_out else "")


RUN = {"onnx": run_onnx, "torch": run_torch, "import": run_import}
for line in sys.stdin:
    name, tolerance, *inputs = line.split()
    given = {k: np.load(f) for k, f in (word.split("=") for word in inputs)}
    for kind in sys.argv[1].split():
        try:
            print(compare(kind, name, float(tolerance), given), flush=True)
        except Exception as e:
            if type(e).__name__ == "Unsupported" and "depends on no input" in str(e):  # an output that is the same for all samples
                print(f"# {name} {kind}: {e}", flush=True)
                continue
            text = str(e).replace("\n", " ")[:300]
            print(f"not ok {name} {kind}: {type(e).__name__}: {text}", flush=True)
