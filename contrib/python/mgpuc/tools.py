"""The compiler and its programs as child processes, NumPy arrays in and out."""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

TYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32", "uint8": "U8", "bool": "BOOL"}


class Failed(Exception):
    """A command ended with an error: what it said."""


def compiler():
    """$MGPUC, that of the wheel, or that on the path"""
    own = pathlib.Path(sys.executable).parent / "mgpuc"
    found = os.environ.get("MGPUC") or (str(own) if own.exists() else shutil.which("mgpuc"))
    if not found:
        raise Failed("there is no mgpuc on the path; the variable MGPUC names it")
    return found


def run(*words):
    done = subprocess.run([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise Failed(done.stderr.strip() or done.stdout.strip())
    return done.stdout


class Weights(dict):
    """Arrays by name, and the notes of the file that they come from, such as the words of its classes."""

    notes = None


def write_weights(path, tensors, notes=None):
    """A safetensors file of tensors of PyTorch or arrays of NumPy."""
    with open(path, "wb") as f:
        put_weights(f, tensors, notes)


def put_weights(f, tensors, notes=None):
    header, parts, at = {"__metadata__": notes} if notes else {}, [], 0
    for name, t in tensors.items():
        a = t.detach().cpu().contiguous().numpy() if hasattr(t, "detach") else t
        data = a.tobytes()
        header[name] = {"dtype": TYPES[str(a.dtype)], "shape": list(a.shape), "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    f.write(struct.pack("<Q", len(text)) + text)
    for p in parts:
        f.write(p)


def load(path):
    """The tensors of a safetensors file, as arrays by name."""
    import numpy as np

    kinds = {v: k for k, v in TYPES.items()}
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    weights = Weights()
    weights.notes = header.pop("__metadata__", None)
    for k, h in header.items():
        begin, end = h["data_offsets"]
        weights[k] = np.frombuffer(data[begin:end], dtype=kinds[h["dtype"]]).reshape(h["shape"]).copy()
    return weights


class Model:
    """A file of the language, and what is known of its inputs and output if it was made of a module."""

    def __init__(self, path, info=None):
        self.path, self.info = pathlib.Path(path), info
        self.weights = self.path.with_suffix(".safetensors")

    def state_dict(self, weights):
        """Weights of the network, as `train` and `load` return them, under the names and in the shapes of the module that it was made of:
        module.load_state_dict(model.state_dict(weights), strict=False)"""
        import torch

        found = {}
        for name, a in weights.items():
            theirs = self.info["declared"].get(name, (name, None))
            if theirs:
                a = a.T if name in self.info["transposed"] else a
                found[theirs[0]] = torch.tensor(a.reshape(theirs[1] or a.shape).copy())
                for other in theirs[2:]:  # of a sum the first part has it all
                    found[other] = torch.zeros_like(found[theirs[0]])
        return found

    def __fspath__(self):
        return str(self.path)

    def __str__(self):
        return self.path.read_text()


def options(settings, flags):
    words = []
    for k, v in settings.items():
        words += ["--set", f"{k}={v}"]
    return words + [str(f) for f in flags]


def compile(model, output=None, *flags, **settings):
    """model: a path, or what from_torch returned; settings as after --set: precision="f64", batch=8. -> Program"""
    path = pathlib.Path(os.fspath(model))
    output = pathlib.Path(output or path.with_suffix(""))
    run(compiler(), path, "-o", output, *options(settings, flags))
    return Program(output, getattr(model, "info", None), path.with_suffix(".safetensors"))


def plan(model, *flags, **settings):
    """What `mgpuc plan` says."""
    return run(compiler(), "plan", os.fspath(model), *options(settings, flags))


def predict(model, *arrays, **settings):
    """compile, and Program.predict"""
    return compile(model, None, **settings).predict(*arrays)


def train(model, data, *flags, **settings):
    """compile, and Program.train"""
    return compile(model, None, **settings).train(data, *flags)


class Program:
    """A compiled network."""

    def __init__(self, path, info=None, weights=None):
        self.path, self.info = pathlib.Path(path).resolve(), info
        self.weights = pathlib.Path(weights).resolve() if weights and pathlib.Path(weights).exists() else None
        self.trained = None

    def ours(self, array, place):
        """PyTorch's axes -> the network's"""
        import numpy as np

        a = np.asarray(array)
        if not self.info["leading"]:
            a = a[None]
        if a.dtype == bool:
            a = a.astype(np.uint8)
        axes = [x + 1 for x in place["axes"]]
        missing = [d for d in range(1, a.ndim) if d not in axes]  # of one element
        return np.ascontiguousarray(a.transpose([0] + missing + axes).reshape([a.shape[0]] + place["shape"]))

    def files(self, arrays, folder):
        import numpy as np

        places = self.info["inputs"] if self.info else None
        if not isinstance(arrays, dict):
            names = [p["name"] for p in places] if places else [f"x{n}" for n in range(len(arrays))]
            arrays = dict(zip(names, arrays))
        words = []
        for name, a in arrays.items():
            place = next((p for p in places or [] if name in (p["name"], p["source"])), None)
            np.save(folder / f"{name}.npy", self.ours(a, place) if place else np.asarray(a))
            words.append(f"{place['name'] if place else name}={folder / (name + '.npy')}")
        return words if places or len(words) > 1 else [words[0].split("=", 1)[1]]

    def predict(self, *arrays, weights=None, only=None, flags=()):
        """The output for these inputs, in their order or a dictionary; of several outputs a list. Axes are those of PyTorch or ONNX if the
        network came from there. weights: arrays by the model's names, or a file as --init takes it; without it those of the last
        `train`, else those written with it. only: the name of an output, or a list of names: these alone, in their order."""
        import numpy as np

        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            words = self.files(arrays[0] if len(arrays) == 1 and isinstance(arrays[0], dict) else arrays, folder)
            chosen = next((w for w in (weights, self.trained, self.weights) if w is not None), None)
            if isinstance(chosen, dict):
                # the note of a step says that names and values are the program's own: no rule of the train block is for them
                write_weights(folder / "weights.safetensors", chosen, getattr(chosen, "notes", None) or {"step": "0"})
                chosen = folder / "weights.safetensors"
            names = [only] if isinstance(only, str) else list(only) if only else []
            flags = [*flags, "--only", ",".join(names)] if names else flags
            run(self.path, "predict", *words, "-o", folder / "out.npy", *(["--init", chosen] if chosen else []), *flags)
            if (folder / "out.npy").exists():
                written = {names[0] if names else None: folder / "out.npy"}
            else:
                written = {p.stem.removeprefix("out-"): p for p in folder.glob("out-*.npy")}
            places = {o["name"]: o for o in self.info["outputs"]} if self.info else {}
            order = names or (self.info or {}).get("returned") or list(places) or sorted(written)
            found = {n: np.load(written[n if n in written else None]) for n in order or [None]}
        found = [self.theirs(a, places[n]) if n in places else a for n, a in found.items()]
        return found[0] if len(found) == 1 else found

    def theirs(self, y, place):
        """The network's axes -> PyTorch's or ONNX's"""
        import numpy as np

        shape, axes = place["shape"], place["axes"]
        y = y.reshape([len(y)] + [shape[a] for a in axes])
        y = y.transpose([0] + [1 + int(i) for i in np.argsort(axes)])
        return y.reshape([len(y)] + shape) if self.info["leading"] else y[0].reshape(shape)

    def train(self, data, *flags, save=None):
        """-> the weights after the run, which `predict` takes from then on. data: arrays by input, the target included; of a network
        that was not made by from_torch, by the names of the files in its data block, without .npy and without train_ in front."""
        import numpy as np

        if self.info:
            needed = [(p["name"], p["source"]) for p in self.info["inputs"]] + [(self.info["target"],)]
            missing = [n[0] for n in needed if n[0] and not set(n) & set(data)]
            if missing:
                raise Failed(f"train: there is no array for {', '.join(missing)}; the network takes {', '.join(n[0] for n in needed if n[0])}, "
                             f"given are {', '.join(data) or 'none'}")
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for name, a in data.items():
                place = next((p for p in (self.info or {}).get("inputs", []) if name in (p["name"], p["source"])), None)
                name = f"train_{place['name'] if place else name}" if self.info else name
                np.save(folder / f"{name}.npy", self.ours(a, place) if place else np.asarray(a))
                if not self.info and f"train_{name}" not in data:
                    os.link(folder / f"{name}.npy", folder / f"train_{name}.npy")
            save = pathlib.Path(save or folder / "save")
            init = ["--init", self.weights] if self.weights else []
            run(self.path, "--data", folder, "--save", save, *init, *flags)
            self.trained = load(save / "weights.safetensors")
        return self.trained
