"""A model of Keras 3 -> nodes (graph.py), whatever its backend is.

Layers that the library has are one node each. All others, and functions such as activations, are called with symbolic tensors, which shows
the operations of keras.ops that they are made of.
"""
import inspect
import re

import keras
import numpy as np

from .graph import Meta, Node, Unsupported
from .net import identifier

BLOCK = re.compile(r"(?:(.+)_)?((?:stage_?\w+?_)?block_?\d+[a-z]?)_(.+)")  # the layers of a block have its name in front


class KerasGraph:
    """nodes, inputs, outputs and state, as Importer takes them."""

    def __init__(self, model, layers, operations, inputs=None):
        self.layers, self.operations = layers, operations
        self.nodes, self.inputs, self.leaves, self.state = [], [], [], {}
        self.classes = {"": model}  # path -> the model or the layer
        self.known = {}             # a variable -> its node
        self.stack, self.calls, self.path = [], 0, ""
        self.left = []              # what differs in training, in words
        self.frozen, self.traced = [], []  # layers that Keras does not train; those that were called with symbolic tensors, and have weights
        function = graph_of(model, inputs)
        values = []
        for t in function.inputs:
            node = self.leaf_node(Meta(self.shape(t), self.dtype(t)))
            node.input = t.name
            self.inputs.append(node)
            values.append(node)
        results = self.run(function, values)
        names = list(getattr(model, "output_names", None) or [])
        names = names if len(names) == len(results) and len(set(names)) == len(names) else ["y"] * len(results)
        self.outputs = list(zip(names, results))

    # ---- nodes

    def add(self, operation, shape, dtype, /, **args):
        val = [Meta(s, t) for s, t in zip(shape, dtype)] if isinstance(dtype, list) else Meta(shape, dtype)
        node = Node(operation, args, list(self.stack), "", val)
        node.name = self.path
        for value in args.values():
            for a in value if isinstance(value, list) else [value]:
                if isinstance(a, Node):
                    a.users.append(node)
        self.nodes.append(node)
        return node

    def leaf_node(self, val):
        node = Node("leaf", {}, [], "", val)
        self.leaves.append(node)
        return node

    def constant(self, array):
        array = np.asarray(array)
        array = array.astype("float32") if array.dtype.name in ("float16", "bfloat16") else array
        node = self.leaf_node(Meta(array.shape, array.dtype))
        node.const, node.name = array, self.path
        return node

    def weight(self, name, array, buffer=False):
        """A weight or, buffer, what is not trained, of the layer that is imported; array: in PyTorch's order."""
        name = self.inner(name)
        while name in self.state:
            name += "_"
        array = np.ascontiguousarray(array)
        array = array.astype("float32") if array.dtype.name in ("float16", "bfloat16") else array
        node = self.leaf_node(Meta(array.shape, array.dtype))
        self.state[name] = array
        if buffer:
            node.buffer, node.const = name, array
        else:
            node.parameter = name
        return node

    def inner(self, name):
        return f"{self.path}.{name}" if self.path else name

    def variable(self, v):
        """A variable that an operation reads directly."""
        if id(v) not in self.known:
            array = numbers(v)
            self.known[id(v)] = self.weight(identifier(v.name), array) if v.trainable and array.size > 1 else self.constant(array)
        return self.known[id(v)]

    def shape(self, t):
        """Of one sample."""
        dims = [1 if d is None and n == 0 else d for n, d in enumerate(t.shape)]
        if None in dims:
            raise Unsupported(self.path, f"a tensor of shape {tuple(t.shape)}", "has an axis of no fixed size: give the model an Input with sizes", "")
        return dims

    def dtype(self, t):
        name = keras.backend.standardize_dtype(t.dtype)
        return {"float16": "float32", "bfloat16": "float32"}.get(name, name)

    def unsupported(self, what, why):
        return Unsupported(self.path, what, why, "")

    # ---- the model's graph

    def run(self, function, values):
        """The operations of a graph of Keras -> the results as nodes"""
        found = dict(zip(map(id, function.inputs), values))
        for depth in sorted(function._nodes_by_depth, reverse=True):
            for n in function._nodes_by_depth[depth]:
                if n.is_input or n.operation is None:
                    continue
                args, kwargs = n.arguments.convert(lambda x: found[id(x)] if isinstance(x, keras.KerasTensor) else x)
                results = keras.tree.flatten(self.apply(n.operation, n.outputs, args, kwargs))
                for t, r in zip(n.outputs, results):
                    found[id(t)] = r
        return [found[id(t)] for t in function.outputs]

    def apply(self, operation, outputs, args, kwargs):
        """One call of a layer or an operation, its arguments as nodes -> its results"""
        outer, stack = self.path, list(self.stack)
        try:
            if isinstance(operation, keras.Layer):
                return self.layer(operation, outputs, args, kwargs)
            name = type(operation).__name__
            convert = self.operations.get(name) if type(operation).__module__.startswith("keras.") else None
            if convert is None:
                raise self.unsupported(f"the operation {name}", "has no counterpart")
            return convert(self, Call(self, operation, outputs, args, kwargs))
        finally:
            self.path, self.stack = outer, stack

    def layer(self, layer, outputs, args, kwargs):
        training = kwargs.get("training")
        kwargs = {k: v for k, v in kwargs.items() if k != "training" and v is not None}
        block = BLOCK.fullmatch(layer.name) if not self.stack else None
        if block:
            self.enter("_".join(p for p in block.groups()[:2] if p), None)
        name = identifier(block[3] if block else layer.name)
        if training and inspect.signature(type(layer).call).parameters["training"].default is not True:  # as layers of pictures have it
            raise self.unsupported(f"the layer {type(layer).__name__} '{layer.name}'", "is called with training = True, and has no counterpart")
        if training is False and any(type(l).__name__ == "BatchNormalization" or "Dropout" in type(l).__name__ for l in layer._flatten_layers()):
            self.left.append(f"{layer.name} is called with training = False in Keras; here its dropout and batch norms train.")
        if not layer.trainable and layer.weights and not any(self.inner(name).startswith(f + ".") for f in self.frozen):
            self.frozen.append(self.inner(name))
        own = type(layer)
        while own.call is not type(layer).call or not own.__module__.startswith("keras."):  # the class whose call it has
            base = next((b for b in own.__mro__[1:] if getattr(b, "call", None) is type(layer).call), None)
            if base is None:
                break
            own = base
        convert = self.layers.get(own.__name__) if own.__module__.startswith("keras.") else None
        self.left += [note for note in differing(self.inner(name), layer, own.__name__) if note not in self.left]
        if convert is not None:
            self.path = self.inner(name)
            return convert(self, Call(self, layer, outputs, args, kwargs))
        self.enter(name, layer)
        if isinstance(layer, keras.Model) and getattr(layer, "_nodes_by_depth", None) is not None or isinstance(layer, keras.Sequential):
            return self.run(graph_of(layer), keras.tree.flatten(args))
        if layer.trainable_variables:
            self.traced.append(layer)
        return self.symbolic(layer.call, args, kwargs, layer)

    def enter(self, name, layer):
        """Nodes are those of a layer inside the one before."""
        self.path = self.inner(name)
        last = self.stack[-1][0] if self.stack else ""
        if layer is None:  # a block: its layers follow each other
            self.stack.append((self.path, self.path))
        else:
            self.calls += 1
            self.stack.append((f"{last}/{self.calls}", self.path))
        self.classes.setdefault(self.path, layer)

    def symbolic(self, function, args, kwargs=None, layer=None):
        """The operations that a function of Keras is made of, for these nodes."""
        kwargs, given, values = kwargs or {}, [], []

        def stand_in(x):
            if not isinstance(x, Node) or x.const is not None and x.buffer is None:
                return x.const if isinstance(x, Node) else x
            given.append(symbol(x))
            values.append(x)
            return given[-1]
        inner, inner_named = keras.tree.map_structure(stand_in, (tuple(args), kwargs))
        try:
            results = function(*inner, **inner_named)
        except Unsupported:
            raise
        except Exception as e:
            what = f"the layer {type(layer).__module__}.{type(layer).__name__}" if layer is not None else f"the function {getattr(function, '__name__', function)}"
            line = (str(e).strip().splitlines() or [type(e).__name__])[0]
            raise self.unsupported(what, f"cannot be called with symbolic tensors, as keras.ops can: {line}") from None
        flat = keras.tree.flatten(results)
        passed = {id(t): v for t, v in zip(given, values)}
        if all(id(t) in passed for t in flat):
            return results if not flat else keras.tree.map_structure(lambda t: passed[id(t)], results)
        found = dict(zip(map(id, flat), self.run(keras.Function(given, flat), values)))
        return keras.tree.map_structure(lambda t: found[id(t)], results)

    def call(self, function, *nodes):
        """An activation: None, or a function of Keras."""
        name = getattr(function, "__name__", None) if getattr(function, "__module__", "").startswith("keras.") else None
        if function is None or name == "linear":
            return nodes[0]
        if name in ("hard_silu", "mish"):  # which want numbers
            return self.add({"hard_silu": "hardswish"}.get(name, name), nodes[0].shape, nodes[0].val.dtype, self=nodes[0])
        return self.symbolic(function, nodes)


class Call:
    """A call while it is translated: the layer or operation, its arguments as nodes, the types of its results."""

    def __init__(self, graph, operation, outputs, args, kwargs):
        self.graph, self.of, self.kwargs = graph, operation, kwargs
        self.args = [self.node(a) for a in args]
        if any(None in t.shape[1:] for t in outputs):  # Keras did not know the shapes of what it is called with; they are known now
            inner, inner_named = keras.tree.map_structure(symbol, (tuple(args), kwargs))
            outputs = keras.tree.flatten(operation.compute_output_spec(*inner, **inner_named))
        self.shapes = [graph.shape(t) for t in outputs]
        self.dtypes = [graph.dtype(t) for t in outputs]
        self.shape, self.dtype = self.shapes[0], self.dtypes[0]

    def node(self, a):
        """Arrays and variables as nodes; numbers, None and words as they are."""
        if isinstance(a, (list, tuple)):
            return [self.node(e) for e in a]
        if isinstance(a, keras.Variable):
            return self.graph.variable(a)
        if a is None or isinstance(a, (Node, int, float, str, bool, slice, type(Ellipsis))):
            return a
        return self.graph.constant(keras.ops.convert_to_numpy(a))

    def arg(self, n, name, default=None):
        return self.args[n] if n < len(self.args) else self.node(self.kwargs.get(name, default))


def differing(path, layer, kind):
    """What a layer does in training, and its weights and results do not show, in words."""
    given = {k: getattr(layer, k, None) for k in [*inspect.signature(type(layer).__init__).parameters, "activity_regularizer"]}
    notes = [f"{path} has {k} = {given[k]} in Keras, which is left out." for k in ("dropout", "recurrent_dropout") if isinstance(given.get(k), float) and given[k] > 0]
    notes += [f"{path} has a{'n' * k.startswith('activity')} {k} in Keras, which is left out." for k, v in given.items() if k.endswith(("_regularizer", "_constraint")) and v is not None]
    if kind == "BatchNormalization" and not layer.trainable:
        notes.append(f"{path} is not trained in Keras, where it keeps its moving averages and uses them in training, too; here it uses those of the batch.")
    return notes


def check_constants(graph, again):
    """Numbers that a layer's `call` computes of its weights alone are constants here, and would not be trained: none may change with the weights."""
    weights = [v for layer in graph.traced for v in layer.trainable_variables]
    values = [numbers(v).copy() for v in weights]
    try:
        for v, a in zip(weights, values):
            v.assign(1.25 * a + 0.125)
        others = again()
    finally:
        for v, a in zip(weights, values):
            v.assign(a)
    for one, other in zip(graph.leaves, others.leaves):
        if one.const is not None and one.buffer is None and not np.array_equal(one.const, other.const, equal_nan=True):
            layer = graph.classes.get(one.name)
            raise Unsupported(one.name, f"the layer {type(layer).__module__}.{type(layer).__name__}", "computes with a weight alone, before an operation of keras.ops reads it together with "
                              "an input, and has no counterpart", "")


def symbol(x):
    return keras.KerasTensor(x.shape, dtype=str(x.val.dtype)) if isinstance(x, Node) else x


def numbers(v):
    return keras.ops.convert_to_numpy(v)


def graph_of(model, inputs=None):
    """The graph of a model: its own, or that which its `call` shows for these inputs, arrays with the batch in front."""
    if isinstance(model, keras.Sequential):
        model = model._functional if model.built else None
        if model is None and inputs is None:
            raise Unsupported("", "the model", "has no shapes yet: begin it with keras.Input(shape), or give from_keras its inputs", "")
    if getattr(model, "_nodes_by_depth", None) is not None:
        return model
    if inputs is None:
        raise Unsupported("", f"the model {type(model).__name__}", "is no graph of layers: give from_keras its inputs, too", "")
    given = keras.tree.map_structure(lambda x: keras.KerasTensor((1,) + tuple(x.shape[1:]), dtype=keras.backend.standardize_dtype(x.dtype)), inputs)
    return keras.Function(given, model.call(given))
