"""A file of ONNX -> the text of a network, and its weights."""
import re

from .graph import Unsupported, all_nodes, assigned, is_float, merge_constants
from .importer import LIBRARY, Frame, Importer, model_text
from .net import identifier, snake
from .onnx_graph import Graph, read_model
from .onnx_ops import TRANSLATE

WHOLE = {"int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "u8", "uint16": "u16", "uint32": "u32", "bool": "bool"}


class OnnxImporter(Importer):
    source = "ONNX"

    def __init__(self, graph):
        super().__init__(graph)
        self.leading = graph.leading

    def title(self, path):
        kind = self.flat.classes.get(path)
        if kind:
            return kind, snake(kind.split(".")[-1])
        name = re.sub(r"[._]?\d+$", "", path).split(".")[-1] or "part"
        return f"{name}", identifier(re.sub(r"\d+$", "", name)) + "_block"

    def dissolves(self, frame):
        kind = self.flat.classes.get(frame.path, "")
        if kind.startswith("torch.nn.modules.container.") or not kind and frame.items and all(isinstance(i, Frame) for i in frame.items):
            return True
        if kind.startswith("torch.nn.modules") and not any(isinstance(i, Frame) for i in frame.items):
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

    def whole_type(self, dtype):
        return WHOLE[str(dtype)]


def name_weights(graph):
    """Weights of a layer are called after it: a name in the file that fits, else the place of the node."""
    for node in graph.nodes:
        names = LIBRARY.get(node.op())
        given = {key: node.args[key] for key in names or () if getattr(node.args.get(key), "parameter", None)}
        if not given:
            continue
        prefix = next((a.parameter[:-len(names[k]) - 1] for k, a in given.items() if a.parameter.endswith("." + names[k]) and ":" not in a.parameter), None)
        prefix = prefix or graph.path_of(node.onnx)
        tied = [a for a in given.values() if len(a.users) > 1 and len(a.shape) > 1]
        if tied:
            continue
        while any(f"{prefix}.{names[k]}" in graph.named for k in given):
            prefix += "_"
        for key, a in given.items():
            wanted = f"{prefix}.{names[key]}"
            graph.named.add(wanted)
            new = graph.copied(a, wanted)
            if names[key].startswith("running_"):
                new.buffer, new.parameter, new.const = wanted, None, new.array
            a.users = [u for u in a.users if u is not node]
            new.users = [node]
            node.args[key] = new


def import_onnx(path, target, shapes=None, batch=None, loss=None, size=32):
    """-> text, weights, what is known of inputs and outputs"""
    model = read_model(path)
    graph = Graph(model, TRANSLATE, shapes, batch)
    name_weights(graph)
    merge_constants(graph.nodes + graph.leaves)
    outputs = [(n, node) for n, node in graph.outputs]
    for name, node in outputs:
        if node.array is not None:
            raise Unsupported(f"output '{name}'", "a constant", "depends on no input", "")
    importer = OnnxImporter(graph)
    importer.whole([n for _, n in outputs])
    first = next((o for o in outputs if is_float(o[1].val.dtype)), outputs[0])
    outputs = [first] + [o for o in outputs if o is not first]
    producer = f" of {model.producer_name}" if model.producer_name else ""
    title = f"{path.name}{producer}, by mgpuc.from_onnx"
    name = identifier(re.sub(r"\W", "_", target.stem))
    text, info = model_text(importer, title, name, target, outputs, loss, size, [])
    return text, importer.weights, info
