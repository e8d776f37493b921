"""A file of ONNX -> nodes (graph.py): external data read, functions written out, constants computed, shapes known, one batch of one sample.

What has no counterpart is `Unsupported` with the node's name and operator; what is no model is `Refused`. Nothing in a file is executed, and
nothing outside its folder is read.
"""
import ast
import os
import pathlib
import re

import numpy as np
import onnx
import onnx.reference
import onnx.shape_inference
from onnx import TensorProto as T
from onnx import helper, numpy_helper

from . import onnx_loops
from .graph import Meta, Node, Refused, Unsupported

LARGEST = 1 << 31  # elements of a value that is computed while the model is read
MOST_NODES = 200000
DEEPEST = 20       # functions and branches in each other
TYPES = {T.FLOAT: "float32", T.DOUBLE: "float64", T.FLOAT16: "float32", T.BFLOAT16: "float32", T.BOOL: "bool", T.INT8: "int8", T.INT16: "int16",
         T.INT32: "int32", T.INT64: "int64", T.UINT8: "uint8", T.UINT16: "uint16", T.UINT32: "uint32"}
SHAPE_ONLY = {"Shape", "Size", "EyeLike"}  # read nothing of their input but its shape
RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
WHY = {}             # operators that have no counterpart, and why, with the cure
for _names, _why in (
        ("QuantizeLinear DynamicQuantizeLinear QLinearConv QLinearMatMul ConvInteger MatMulInteger DequantizeLinear",
         "is of a quantized model, which has no counterpart: take the model as it was before it was quantized"),
        ("NonZero Unique NonMaxSuppression", "makes a result whose shape depends on values, which has no counterpart: end the model before it (onnx.utils.extract_model)"),
        (" ".join(RANDOM),
         "draws random numbers, which has no counterpart: make them an input, or export the model in evaluation mode"),
        ("StringNormalizer TfIdfVectorizer RegexFullMatch StringConcat StringSplit ImageDecoder",
         "prepares data, which has no counterpart: do it before, and begin the model after it (onnx.utils.extract_model)")):
    WHY.update(dict.fromkeys(_names.split(), _why))
KEEPS_NAME = {"Identity", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Cast", "Flatten", "Gather", "Slice"}  # of a weight they make a weight


# ---- the file

OTHERS = (  # how files of other formats begin; ? is any byte
    (b"PK\x03\x04", "this is an archive, as PyTorch and Keras write them, and no ONNX model: load it in Python, and give the module to mgpuc.from_torch, the model to mgpuc.from_keras"),
    (b"\x89HDF", "this is HDF5, as Keras writes it, and no ONNX model: in Python, mgpuc.from_keras(keras.saving.load_model(FILE))"),
    (b"????TFL3", "this is a model of TensorFlow Lite, which is not read: export the model as ONNX"),
    (b"version https://git-lfs", "this is a pointer of Git LFS in place of the file: git lfs pull fetches it"),
)


def read_model(path):
    path = pathlib.Path(path)
    try:
        data = path.read_bytes()
    except OSError as e:
        raise Refused(f"{path}: {e.strerror}") from None
    for start, what in OTHERS:
        if data[len(start) - len(start.lstrip(b"?")):].startswith(start.lstrip(b"?")):
            raise Refused(f"{path}: {what}")
    try:
        model = onnx.ModelProto.FromString(data)
    except Exception as e:  # protobuf has several kinds
        raise Refused(f"{path}: this is no ONNX model, or a part of one: {first_line(e)}") from None
    del data
    if not model.graph.node and not model.graph.output:
        raise Refused(f"{path}: this is no ONNX model, or a part of one: it has no graph")
    for tensor in tensors_of(model):
        if tensor.data_location == T.EXTERNAL:
            read_external(tensor, path)
    if any(not isinstance(text, str) for text in names_of(model)):  # protobuf gives bytes for what is no UTF-8
        raise Refused(f"{path}: this is no valid ONNX model: a name in it is no text")
    try:
        if model.ByteSize() < 1 << 30:
            onnx.checker.check_model(model)
    except Exception as e:
        raise Refused(f"{path}: this is no valid ONNX model: {first_line(e)}") from None
    return model


def first_line(e):
    lines = str(e).strip().splitlines()
    return lines[0][:300] if lines else type(e).__name__


def graphs_of(model):
    stack = [model.graph]
    while stack:
        g = stack.pop()
        yield g
        for node in g.node:
            for a in node.attribute:
                stack += list(a.graphs) + ([a.g] if a.HasField("g") else [])


def tensors_of(model):
    for g in graphs_of(model):
        yield from g.initializer
        for node in g.node:
            for a in node.attribute:
                yield from ([a.t] if a.HasField("t") else []) + list(a.tensors)
    for f in model.functions:
        for node in f.node:
            for a in node.attribute:
                yield from ([a.t] if a.HasField("t") else []) + list(a.tensors)


def names_of(model):
    nodes = []
    for g in graphs_of(model):
        yield g.name
        yield from (v.name for v in [*g.initializer, *g.input, *g.output])
        nodes += g.node
    for f in model.functions:
        yield from (f.name, f.domain, *f.input, *f.output)
        nodes += f.node
    for node in nodes:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (text for p in node.metadata_props for text in (p.key, p.value))
        yield from (text for a in node.attribute for text in (a.name, a.ref_attr_name))
    yield model.producer_name


def read_external(tensor, path):
    """Data beside the model's file: only of plain files in its folder."""
    about = {e.key: e.value for e in tensor.external_data}
    folder, name = path.parent.resolve(), about.get("location", "")
    where = f"{path}: the data of '{tensor.name}'"
    try:
        offset, length = int(about.get("offset", "0") or 0), int(about.get("length", "-1") or -1)
    except ValueError:
        raise Refused(f"{where} has an offset or a length that is no number") from None
    try:
        real = (folder / name).resolve()
        there = real.is_file()
    except (OSError, ValueError, RuntimeError):
        raise Refused(f"{where} is in a file whose name cannot be used") from None
    if not name or os.path.isabs(name) or ".." in pathlib.PurePath(name).parts or folder not in real.parents:
        raise Refused(f"{where} is in '{name}', outside of the model's folder, where nothing is read: copy that file beside the model, and name it without a folder above")
    if not there:
        raise Refused(f"{where} is in '{name}', which is not there: it belongs into {folder}")
    size = real.stat().st_size
    length = size - offset if length < 0 else length
    if offset < 0 or length < 0 or offset + length > size:
        raise Refused(f"{where} ends behind the end of '{name}', which has {size} bytes: it was cut off, or belongs to another model")
    try:
        with open(real, "rb") as f:
            f.seek(offset)
            tensor.raw_data = f.read(length)
    except OSError as e:
        raise Refused(f"{where}, '{name}': {e.strerror}") from None
    tensor.data_location = T.DEFAULT
    del tensor.external_data[:]


def array_of(tensor, what):
    count = 1
    for d in tensor.dims:
        count *= d
        if d < 0 or count > LARGEST:
            raise Refused(f"{what} has the shape {list(tensor.dims)}, which is too large, or no shape")
    if tensor.data_type not in TYPES and tensor.data_type != T.STRING:
        raise Unsupported(what, "a tensor", f"of {type_name(tensor.data_type)} has no counterpart", "")
    try:
        a = numpy_helper.to_array(tensor)
    except Exception as e:
        raise Refused(f"{what} does not have the numbers that its shape {list(tensor.dims)} needs: {first_line(e)}") from None
    return np.ascontiguousarray(a) if a.ndim else a


def type_name(number):
    try:
        return T.DataType.Name(number)
    except ValueError:
        return f"type {number}"


# ---- one node while it is translated

class Operator:
    """A node of ONNX: its inputs as nodes of ours (None where one is missing), attributes, the types of its results."""

    def __init__(self, graph, proto, inputs, version):
        self.graph, self.proto, self.inputs, self.version = graph, proto, inputs, version
        self.type, self.outs = proto.op_type, []
        self.attributes = {a.name: helper.get_attribute_value(a) for a in proto.attribute if not a.ref_attr_name}

    def attr(self, name, default=None):
        value = self.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else value

    def x(self, k):
        return self.inputs[k] if k < len(self.inputs) else None

    def array(self, k, what):
        """The numbers of an input that has to be known."""
        node = self.x(k)
        if node is None:
            return None
        if node.array is None:
            raise self.unsupported(f"whose {what} is computed has no counterpart")
        return node.array

    def ints(self, name, k, default=None):
        """Whole numbers that are an attribute or, later, an input."""
        if name in self.attributes:
            value = self.attributes[name]
            return [int(v) for v in value] if isinstance(value, (list, tuple)) else [int(value)]
        a = self.array(k, name) if k is not None else None
        return default if a is None else [int(v) for v in a.reshape(-1)]

    def unsupported(self, why):
        return Unsupported(self.graph.label(self.proto), self.type, why, "")

    @property
    def shape(self):
        return self.outs[0].shape

    @property
    def dtype(self):
        return self.outs[0].dtype


class Graph:
    """nodes, inputs, outputs and state, as Importer takes them."""

    def __init__(self, model, translate, shapes, batch):
        self.model, self.translate = model, translate
        self.nodes, self.inputs, self.outputs, self.state, self.leaves = [], [], [], {}, []
        self.current = None
        self.depth = 0
        self.names, self.named = set(), set()
        self.opsets = {o.domain or "": o.version for o in model.opset_import}
        self.functions = {(f.domain, f.name): f for f in model.functions}
        self.classes = {}  # path -> the module's class
        self.leading = 0
        self.prefixes = None
        self.steps = 0
        self.within = ()   # the loops around what is read: (key, path) of each
        self.loops = {}    # the path of its step -> the node of a loop
        self.steps_of = set()
        env = {"": None}
        for tensor in model.graph.initializer:
            env[tensor.name] = self.leaf(array_of(tensor, f"the initializer '{tensor.name}'"), tensor.name)
        self.declare_inputs(env, shapes or {}, batch)
        self.run(model.graph.node, env)
        for o in model.graph.output:
            node = env.get(o.name)
            if node is None:
                raise Refused(f"the output '{o.name}' is computed by no node")
            if not isinstance(node, Node):
                raise Unsupported(f"output '{o.name}'", "a sequence", "has no counterpart", "")
            self.outputs.append((o.name, node))
        self.place_others()

    # ---- inputs

    def declare_inputs(self, env, shapes, batch):
        given = [i for i in self.model.graph.input if i.name not in env]
        for name in shapes:
            if name not in [i.name for i in given]:
                raise Refused(f"there is no input '{name}'; there is {', '.join(i.name for i in given) or 'none'}")
        dims = {i.name: self.dims_of(i, shapes.get(i.name)) for i in given}
        if batch is None:
            batch = bool(dims) and all(d and d[0] in (None, 1) for d in dims.values())
        self.leading = 1 if batch else 0
        self.open = any(d and d[0] != 1 for d in dims.values())  # whether the model is for more than one sample, too
        for i in given:
            shape = list(dims[i.name])
            if batch:
                if not shape:
                    raise Refused(f"the input '{i.name}' is a number, without an axis for the batch: without --batch the whole input is one sample")
                shape[0] = 1
            if None in shape:
                unknown = ", ".join("?" if d is None else str(d) for d in shape)
                raise Refused(f"the input '{i.name}' is [{unknown}]: its shape has to be known, as --shape {i.name}={','.join('8' if d is None else str(d) for d in shape)} says it")
            if 0 in shape:
                raise Unsupported(f"input '{i.name}'", "an empty tensor", f"({shape}) has no counterpart", "")
            if np.prod([float(d) for d in shape]) > LARGEST:
                raise Refused(f"the input '{i.name}' has the shape {shape}, which is too large")
            node = Node("placeholder", {}, [], "", Meta(shape, self.element(i.type.tensor_type.elem_type, f"input '{i.name}'")))
            node.input, node.array = i.name, None
            env[i.name] = node
            self.inputs.append(node)

    def dims_of(self, value, given):
        kind = value.type.WhichOneof("value")
        if kind != "tensor_type":
            raise Unsupported(f"input '{value.name}'", "the type " + (kind or "none").replace("_type", ""), "has no counterpart", "")
        if not value.type.tensor_type.HasField("shape") and given is None:
            raise Refused(f"the input '{value.name}' has no shape: --shape {value.name}=1,3,224,224 says it")
        dims = [d.dim_value if d.HasField("dim_value") else None for d in value.type.tensor_type.shape.dim]
        if given is not None:
            if value.type.tensor_type.HasField("shape") and (len(given) != len(dims) or any(d not in (None, g) for d, g in zip(dims, given))):
                raise Refused(f"--shape {value.name}={','.join(map(str, given))}: the model says [{', '.join('?' if d is None else str(d) for d in dims)}]")
            dims = list(given)
        if any(d is not None and d < 0 for d in dims):
            raise Refused(f"the input '{value.name}' has the shape {dims}, which is no shape")
        return dims

    def element(self, number, what):
        if number not in TYPES:
            raise Unsupported(what, "a tensor", f"of {type_name(number)} has no counterpart", "")
        return TYPES[number]

    # ---- nodes

    def leaf(self, array, name=None):
        if array.dtype.name in ("float16", "bfloat16"):
            array = array.astype("float32")
        node = Node("constant", {}, [], "", Meta(array.shape, array.dtype))
        node.array = array
        if name is not None and array.dtype.kind == "f" and array.size > 1:
            self.parameter(node, name)
        else:
            node.const = shortest(array)
        self.leaves.append(node)
        return node

    def parameter(self, node, name):
        """From now on a weight, under this name or one like it."""
        name = plain(name)
        unique, k = name, 2
        while unique in self.names:
            unique, k = f"{name}_{k}", k + 1
        self.names.add(unique)
        node.parameter, node.const = unique, None
        self.state[unique] = node.array
        return node

    def weight(self, node, proto=None):
        """A node as the weight of a layer: what is known is trained, whatever it was called."""
        if node.array is None or node.parameter or node.val.dtype.kind != "f":
            return node
        copy = Node("constant", {}, [], "", node.val)
        copy.array = node.array
        return self.parameter(copy, f"{self.path_of(proto or self.current[0])}.weight")

    def copied(self, node, name):
        new = Node("constant", {}, [], "", node.val)
        new.array, new.parameter = node.array, name
        self.state[name] = node.array
        return new

    def remade(self, node, array):
        """A weight with its numbers in another form."""
        new = Node("constant", {}, [], "", Meta(array.shape, array.dtype))
        new.array = array
        return self.parameter(new, node.parameter or f"{self.path_of(self.current[0]) if self.current else 'constant'}.weight")

    def transposed(self, node):
        made = getattr(node, "made", None)
        if made and made[0] == "Transpose" and made[1].array.ndim == 2:
            return self.weight(made[1])
        return self.remade(node, np.ascontiguousarray(node.array.T))

    def path_of(self, proto):
        stack, _ = self.scopes(proto)
        return stack[-1][1] if stack else re.sub(r"\W", "_", proto.name or result_of(proto))

    def label(self, proto):
        return f"node '{proto.name}'" if proto.name else f"the node that computes '{result_of(proto)}'"

    def add(self, operation, shape, dtype, /, **args):
        """A node of ours; shape and dtype may be lists, of an operation with several results."""
        val = [Meta(s, t) for s, t in zip(shape, dtype)] if isinstance(dtype, list) else Meta(shape, dtype)
        proto, stack, trace = self.current
        node = Node(operation, args, stack, trace, val)
        node.onnx, node.array, node.loops = proto, None, self.within
        for a in [v for value in args.values() for v in (value if isinstance(value, list) else [value])]:
            if isinstance(a, Node):
                a.users.append(node)
        self.nodes.append(node)
        return node

    def run(self, protos, env):
        for proto in protos:
            inputs = []
            for name in proto.input:
                if name not in env:
                    raise Refused(f"{self.label(proto)} ({proto.op_type}) reads '{name}', which no node before it computes")
                inputs.append(env[name])
            results = self.step(proto, inputs, env)
            for name, value in zip(proto.output, results):
                env[name] = value

    def step(self, proto, inputs, env):
        """-> its results as nodes"""
        self.steps += 1
        if self.steps > MOST_NODES:
            raise Refused(f"the model has more than {MOST_NODES} nodes, with those of its functions")
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        local = self.functions.get((proto.domain, proto.op_type))
        outer = self.current
        self.current = (proto, *self.scopes(proto)) if outer is None or self.depth == 0 else outer
        op = Operator(self, proto, inputs, self.opsets.get(domain, 1))
        try:
            if local is not None:
                return self.call(local, op)
            if domain != "" or not onnx.defs.has(proto.op_type, op.version, ""):
                raise op.unsupported(f"of {proto.domain or 'ONNX'} {op.version} is no operator that is known here, and has no function of ONNX in the file")
            if any(isinstance(i, list) or i is not None and not isinstance(i, Node) for i in inputs) and proto.op_type in CONTROL:
                raise op.unsupported("of a sequence has no counterpart")
            if proto.op_type in CONTROL:
                return CONTROL[proto.op_type](self, op, env)
            if any(a.HasField("g") for a in proto.attribute):
                raise op.unsupported(WHY.get(op.type, "has no counterpart"))
            if any(isinstance(i, list) for i in inputs) or any(i is not None and not isinstance(i, Node) for i in inputs):
                raise op.unsupported("of a sequence has no counterpart")
            schema = onnx.defs.get_schema(proto.op_type, op.version, "")
            known = proto.op_type not in RANDOM and (all(i is None or i.array is not None for i in inputs) or proto.op_type in SHAPE_ONLY)
            if not known and proto.op_type not in self.translate:
                return self.expand(op, schema)
            if not known or proto.op_type not in ("Constant",):
                op.outs = self.types(op, schema, known)
            if known:
                return self.compute(op)
            if op.outs and all(o is not None and 0 in o.shape for o in op.outs):  # whatever they are made of
                return [self.leaf(np.zeros(o.shape, o.dtype)) for o in op.outs]
            try:
                results = self.translate[proto.op_type](self, op)
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as e:  # what the operator's text asks of inputs, ONNX does not check
                raise Refused(f"{self.label(proto)} ({op.type}) does not fit its inputs, or has a form that is not known here: {first_line(e)}") from None
            return results if isinstance(results, list) else [results]
        finally:
            self.current = outer

    def types(self, op, schema, known):
        """The types of the results, from those of the inputs and from the numbers that are known."""
        kinds, data = {}, {}
        for name, node in zip(op.proto.input, op.inputs):
            if node is not None:
                number = getattr(node, "element", None) or helper.np_dtype_to_tensor_dtype(node.val.dtype)
                kinds[name] = helper.make_tensor_type_proto(number, node.shape)
                if node.array is not None and node.array.size <= 4096:
                    data[name] = numpy_helper.from_array(node.array, name)
        try:
            found = onnx.shape_inference.infer_node_outputs(schema, op.proto, kinds, data, opset_imports=list(self.model.opset_import), ir_version=self.model.ir_version)
        except Exception as e:
            raise Refused(f"{self.label(op.proto)} ({op.type}) does not fit its inputs: {first_line(e)}") from None
        outs = []
        for name in op.proto.output:
            kind = found.get(name)
            if kind is None or kind.WhichOneof("value") != "tensor_type":
                outs.append(None)
                continue
            t = kind.tensor_type
            dims = [d.dim_value if d.HasField("dim_value") else None for d in t.shape.dim] if t.HasField("shape") else [None]
            if None in dims:
                outs.append(None)
                continue
            if any(d < 0 for d in dims) or np.prod([float(d) for d in dims]) > LARGEST:
                raise Refused(f"{self.label(op.proto)} ({op.type}) makes the shape {dims}, which is too large, or no shape")
            number = t.elem_type
            if number not in TYPES and not known:
                raise op.unsupported(f"makes {type_name(number)}, which has no counterpart")
            outs.append(Meta(dims, TYPES.get(number, object)))
        if not known and op.type != "Split" and any(o is not None and 0 in o.shape for o in outs) and any(o is None or 0 not in o.shape for o in outs):
            raise op.unsupported("makes an empty tensor, which has no counterpart")
        if not known and (not outs or outs[0] is None) and op.type not in ("Resize", "Upsample"):
            raise op.unsupported("has results whose shape is not known before they are computed")
        return outs

    def compute(self, op):
        """All inputs are known: so are the results."""
        feeds = {}
        for name, node in zip(op.proto.input, op.inputs):
            if node is not None:
                feeds[name] = node.array if node.array is not None else np.broadcast_to(np.zeros((), node.val.dtype), node.shape)
        limit_result(op, feeds)
        graph = helper.make_graph([op.proto], "one", [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in feeds.items()],
                                  [helper.make_empty_tensor_value_info(o) for o in op.proto.output if o])
        try:
            with np.errstate(all="ignore"):
                done = onnx.reference.ReferenceEvaluator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", op.version)])).run(None, feeds)
        except Exception as e:
            raise Refused(f"{self.label(op.proto)} ({op.type}) cannot be computed: {first_line(e)}") from None
        done, results = iter(done), []
        for name in op.proto.output:
            value = next(done) if name else None
            if value is None:
                results.append(None)
                continue
            if not isinstance(value, (np.ndarray, np.generic)):
                results.append(value)
                continue
            source = op.inputs[0] if op.inputs else None
            named = source is not None and source.parameter and op.type in KEEPS_NAME
            new = self.leaf(np.asarray(value), name if named else None)
            new.made = (op.type, source) if named else None
            results.append(new)
        return results

    def expand(self, op, schema):
        """By the function that ONNX's own definition of the operator is."""
        kinds = [helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(i.val.dtype), i.shape).SerializeToString() if i is not None else b"" for i in op.inputs]
        body = None
        try:
            if schema.has_function:
                versions = [v for v in schema.function_opset_versions if v <= op.version]
                body = onnx.FunctionProto.FromString(schema.get_function_with_opset_version(max(versions))) if versions else None
            elif schema.has_context_dependent_function:
                versions = [v for v in schema.context_dependent_function_opset_versions if v <= op.version]
                body = onnx.FunctionProto.FromString(schema.get_context_dependent_function_with_opset_version(max(versions), op.proto.SerializeToString(), kinds)) if versions else None
        except Exception:
            body = None
        if body is None or not body.node:
            raise op.unsupported(WHY.get(op.type, "has no counterpart"))
        for name, a in schema.attributes.items():  # defaults, for references to them
            if name not in op.attributes and a.default_value.type:
                op.proto.attribute.append(a.default_value)
        return self.call(body, op)

    def call(self, function, op):
        if self.depth >= DEEPEST:
            raise Refused(f"{self.label(op.proto)}: functions and branches are more than {DEEPEST} deep in each other")
        env = {"": None}
        env.update(zip(function.input, op.inputs + [None] * len(function.input)))
        given = {a.name: a for a in list(function.attribute_proto) + list(op.proto.attribute)}
        before = self.opsets
        self.opsets = {**before, **{o.domain or "": o.version for o in function.opset_import}}
        self.depth += 1
        try:
            self.run([with_attributes(n, given) for n in function.node], env)
        finally:
            self.opsets, self.depth = before, self.depth - 1
        return [env.get(o) for o in function.output]

    def branch(self, op, env):
        """If: the branch that the condition, which has to be known, chooses."""
        condition = op.array(0, "condition")
        if condition is None or condition.size != 1:
            raise op.unsupported("without a condition has no counterpart")
        return self.inside(op, op.attributes["then_branch" if condition.reshape(-1)[0] else "else_branch"], dict(env))

    def inside(self, op, graph, env):
        """A graph in a node, whose surroundings and inputs are env -> its results"""
        if self.depth >= DEEPEST:
            raise Refused(f"{self.label(op.proto)}: functions and branches are more than {DEEPEST} deep in each other")
        for tensor in graph.initializer:
            env[tensor.name] = self.leaf(array_of(tensor, f"the initializer '{tensor.name}'"), tensor.name)
        self.depth += 1
        try:
            self.run(graph.node, env)
        finally:
            self.depth -= 1
        return [env.get(o.name) for o in graph.output]

    def step_path(self, proto):
        """Where the step of a loop is among the modules, and its weights."""
        first = f"{self.within[-1][1] if self.within else self.path_of(proto)}.step"
        path, count = first, 2
        while path in self.steps_of:
            path, count = f"{first}{count}", count + 1
        self.steps_of.add(path)
        return path

    # ---- where a node is in the tree of modules

    def scopes(self, proto):
        """-> the calls of modules around it, and the lines of the source, as far as the exporter wrote them"""
        about = {p.key: p.value for p in proto.metadata_props}
        trace = about.get("pkg.torch.onnx.stack_trace", "")
        try:
            paths = [plain(str(p)) for p in ast.literal_eval(about["pkg.torch.onnx.name_scopes"])][:-1]
            for path, kind in zip(paths, ast.literal_eval(about["pkg.torch.onnx.class_hierarchy"])):
                self.classes.setdefault(path, plain(str(kind)))
            return [(p, p) for p in paths if p], trace
        except (KeyError, ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            pass
        if "/" not in proto.name:
            return None, trace
        stack, outer = [], ""
        parts = [plain(p) for p in proto.name.split("/")[:-1] if p]
        if len(parts) == 1 and proto.name[0] != "/":  # block.0.conv/Conv: the whole path is one scope, as our own export writes it
            names = parts[0].split(".")
            return [(".".join(names[:k + 1]),) * 2 for k in range(len(names))], trace
        for n, part in enumerate(parts):
            path = outer + "." + part if outer else part
            if n and part.startswith(parts[n - 1] + ".") and not self.begins_a_weight(path):  # /layer1/layer1.0: the second one's name is whole
                path = outer[:len(outer) - len(parts[n - 1])] + part
            stack.append((path, path))
            outer = path
        return stack, trace

    def begins_a_weight(self, path):
        if self.prefixes is None:
            names = [plain(t.name).split(".") for t in self.model.graph.initializer]
            self.prefixes = {".".join(n[:k]) for n in names for k in range(1, len(n))}
        return path in self.prefixes

    def place_others(self):
        """Nodes of which the exporter says nothing belong to what both the node before and the one after belong to."""
        after, last = [], []
        for node in reversed(self.nodes):
            after.append(node.stack if node.stack is not None else after[-1] if after else [])
        for node, then in zip(self.nodes, reversed(after)):
            node.stack = last = [a for a, b in zip(last, then) if a == b] if node.stack is None else node.stack
        for node in self.nodes:
            node.stack = node.stack + list(node.loops)


CONTROL = {"If": Graph.branch, "Loop": onnx_loops.loop, "Scan": onnx_loops.scan}


def result_of(proto):
    """The first result that has a name."""
    return next((o for o in proto.output if o), proto.op_type)


def plain(name):
    """A name of a file as one of a layer or a weight."""
    return re.sub(r"[^\w.:/+-]", "_", name)[:200]


def shortest(array):
    """A few numbers of 32 bits as they would be written: 0.1, and not 0.10000000149."""
    return np.array([float(str(v)) for v in array.reshape(-1)]).reshape(array.shape) if array.dtype == np.float32 and array.size <= 6 else array


def with_attributes(proto, given):
    """A node of a function with the attributes of its call."""
    if not any(a.ref_attr_name for a in proto.attribute):
        return proto
    new = onnx.NodeProto()
    new.CopyFrom(proto)
    del new.attribute[:]
    for a in proto.attribute:
        if not a.ref_attr_name:
            new.attribute.append(a)
        elif a.ref_attr_name in given:
            b = new.attribute.add()
            b.CopyFrom(given[a.ref_attr_name])
            b.name = a.name
    return new


def limit_result(op, feeds):
    """Before constants are computed: a few numbers can ask for all memory."""
    count = 0
    arrays = list(feeds.values())
    if op.type == "ConstantOfShape":
        count = float(np.prod(arrays[0].astype(float)))
    elif op.type == "Expand" and len(arrays) > 1:
        count = float(np.prod(np.maximum(arrays[1].astype(float), 1))) * max(arrays[0].size, 1)
    elif op.type == "Tile" and len(arrays) > 1:
        count = float(np.prod(arrays[1].astype(float))) * arrays[0].size
    elif op.type == "Range" and len(arrays) == 3:
        count = float((arrays[1].astype(float) - arrays[0]) / (arrays[2] if arrays[2] else 1))
    elif op.type == "Pad" and len(arrays) > 1:
        count = float(np.prod(np.array(arrays[0].shape, float) + np.abs(arrays[1].astype(float)).sum()))
    elif op.type in ("OneHot",):
        count = float(arrays[1].reshape(-1)[0]) * arrays[0].size
    if any(o is not None and np.prod([float(s) for s in o.shape]) > LARGEST for o in op.outs) or count > LARGEST:
        raise Refused(f"{op.graph.label(op.proto)} ({op.type}) makes more than {LARGEST} numbers, which is too large")
