"""A file of ONNX -> the text of a network, and its weights."""
import re

import numpy as np
import onnx
import onnx.reference

from .graph import Unsupported, all_nodes, assigned, is_float, merge_constants
from .importer import LIBRARY, Frame, Importer, model_text, without_last
from .net import identifier, snake
from .onnx_graph import Graph, read_model
from .onnx_ops import TRANSLATE
from .onnx_shorten import shorten


class OnnxImporter(Importer):
    source = "ONNX"

    def __init__(self, graph):
        super().__init__(graph)
        self.leading = graph.leading

    def title(self, path):
        if path in self.loops:
            return f"a step of {self.flat.label(self.loops[path].onnx)}", "step"
        kind = self.flat.classes.get(path)
        if kind:
            return kind, snake(kind.split(".")[-1])
        name = re.sub(r"[._]?\d+$", "", path).split(".")[-1] or "part"
        return f"{name}", identifier(re.sub(r"\d+$", "", name)) + "_block"

    def dissolves(self, frame):
        kind = self.flat.classes.get(frame.path, "")
        if kind.startswith("torch.nn.modules.container.") or not kind and frame.items and all(isinstance(i, Frame) for i in frame.items):
            return True
        inner = any(isinstance(i, Frame) for i in frame.items)
        if not inner and (kind.startswith("torch.nn.modules") or len(frame.items) <= 8 and not any(a.parameter for i in frame.items for a in all_nodes(i.args))):
            return True
        return self.small(frame)

    def hints(self, node, frame):
        return assigned(node.trace, None) if node.trace else []

    def argument_names(self, path):
        return ["x"]

    def place(self, node):
        return self.flat.label(node.onnx) + f" ({node.onnx.op_type})", ""

    def input_type(self, dtype):
        return ("f64" if dtype.itemsize == 8 else "f32") if is_float(dtype) else self.whole_type(dtype)


def prefix_of(graph, node, given, names):
    """What a layer is called: by the name of a weight that only it has, else by the place of its node."""
    for key, a in given.items():
        if a.readers == 1 and a.parameter.endswith("." + names[key]) and ":" not in a.parameter:
            prefix, path = a.parameter[:-len(names[key]) - 1], node.loops[-1][1] if node.loops else graph.path_of(node.onnx)
            return path if prefix.endswith("." + path) else prefix  # scopes may leave out the first modules
    return node.loops[-1][1] if node.loops else graph.path_of(node.onnx)


def tie(graph):
    """A head whose weights are an embedding's, of which the exporter has made a transposed copy, reads the embedding's. -> what is said of it"""
    tables = {id(n.args["weight"]): n.args["weight"] for n in graph.nodes if n.op() == "embedding"}.values()
    notes = []
    for node in graph.nodes:
        for table in tables if node.op() == "linear" else ():
            own = node.args["weight"]
            if own is not table and getattr(own, "parameter", None) and table.parameter and own.shape == table.shape and np.array_equal(own.array, table.array):
                own.users = [u for u in own.users if u is not node]
                table.users.append(node)
                node.args["weight"] = table
                notes.append(f"{graph.label(node.onnx)} has the numbers of {table.parameter}, and is tied to it.")
    return notes


def name_weights(graph):
    """Weights of a layer are called after it. Vectors that several layers share, which exporters make of equal ones, become their own."""
    for node in graph.nodes:
        for a in all_nodes(node.args):
            a.readers = len(a.users)
    for node in graph.nodes:
        names = LIBRARY.get(node.op())
        given = {key: node.args[key] for key in names or () if getattr(node.args.get(key), "parameter", None)}
        if not given or any(a.readers > 1 and len(a.shape) > 1 for a in given.values()):
            continue
        prefix = prefix_of(graph, node, given, names)
        first, count = prefix, 2
        while any(f"{prefix}.{names[k]}" in graph.named for k in given):
            prefix, count = f"{first}.{count}", count + 1
        for key, a in given.items():
            wanted = f"{prefix}.{names[key]}"
            graph.named.add(wanted)
            new = graph.copied(a, wanted)
            if names[key].startswith("running_"):
                new.buffer, new.parameter, new.const = wanted, None, new.array
            a.users = [u for u in a.users if u is not node]
            new.users = [node]
            node.args[key] = new


MOST = 2e10  # operations of a model that is tried


def apart(model, graph):
    """A sample's result may not depend on the other samples of its batch: tried with two. -> what is said where it was not tried"""
    work = 0
    for node in graph.nodes:
        if node.op() in LIBRARY and "weight" in node.args:
            work += 2 * float(np.prod(node.shape)) * float(np.prod(node.args["weight"].shape[1:]))
    if work > MOST:
        return ["Whether samples are independent of each other was not tried."]
    random = np.random.default_rng(0)
    kinds = {i.name: onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type) for i in model.graph.input}
    for most in (10, 2):  # of whole numbers, which may be indices
        two = {n.input: (random.standard_normal((2,) + n.shape[1:]) if is_float(n.val.dtype) else random.integers(1, most, (2,) + n.shape[1:])).astype(kinds[n.input]) for n in graph.inputs}
        try:
            with np.errstate(all="ignore"):
                run = onnx.reference.ReferenceEvaluator(model).run
                both, alone = run(None, two), [run(None, {k: v[n:n + 1] for k, v in two.items()}) for n in (0, 1)]
            break
        except Exception:  # an operator that onnx cannot compute, or numbers that do not fit
            if most == 2:
                return ["Whether samples are independent of each other was not tried."]
    for (name, _), b, *ones in zip(graph.outputs, both, *alone):
        one = np.concatenate(ones) if all(np.ndim(o) for o in ones) else None
        if one is None or np.shape(b) != one.shape or not np.allclose(b, one, rtol=1e-3, atol=1e-3 * max(float(np.nanmax(np.abs(one), initial=0)), 1e-30), equal_nan=True):
            raise Unsupported(f"output '{name}'", "its batch", "mixes samples: the first axis is not one of independent samples (--no-batch takes it as one of a sample)", "")
    return []


def import_onnx(path, target, shapes=None, batch=None, loss=None, size=32):
    """-> text, weights, what is known of inputs and outputs"""
    model = read_model(path)
    graph = Graph(model, TRANSLATE, shapes, batch)
    shorten(graph)
    tied = tie(graph)
    name_weights(graph)
    merge_constants(graph.nodes + graph.leaves)
    outputs = [(n, node) for n, node in graph.outputs]
    for name, node in outputs:
        if node.array is not None:
            raise Unsupported(f"output '{name}'", "a constant", "depends on no input", "")
    notes = apart(model, graph) if graph.leading and graph.open else []
    first = next((o for o in outputs if is_float(o[1].val.dtype)), outputs[0])
    outputs = [first] + [o for o in outputs if o is not first]
    before = without_last(outputs, loss)
    before = before if before and before[0][0][1].input is None and before[0][0][1].array is None else None
    outputs, loss = before or (outputs, loss)
    importer = OnnxImporter(graph)
    importer.whole([n for _, n in outputs])
    producer = f" of {model.producer_name}" if model.producer_name else ""
    title = f"{path.name}{producer}, by mgpuc.from_onnx"
    name = identifier(re.sub(r"\W", "_", target.stem))
    text, info = model_text(importer, title, name, target, outputs, loss, size, tied + notes)
    if before:
        info["returned"] = [o["name"] for o in info["outputs"][1:]]
    return text, importer.weights, info
