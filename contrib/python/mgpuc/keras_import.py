"""A model of Keras -> the text of a network, and its weights."""
import pathlib

import numpy as np

from .graph import merge_constants
from .importer import Importer, frozen_notes, model_text, without_last
from .keras_graph import KerasGraph, check_constants, numbers
from .keras_ops import LAYERS, OPERATIONS
from .net import identifier, snake
from .tools import Failed

LOSSES = {"sparse_categorical_crossentropy": "cross_entropy", "categorical_crossentropy": "cross_entropy", "mse": "mse", "mean_squared_error": "mse",
          "binary_crossentropy": "binary_cross_entropy"}  # also as classes: SparseCategoricalCrossentropy


class KerasImporter(Importer):
    source = "Keras"

    def title(self, path):
        layer = self.flat.classes.get(path)
        if layer is None:
            return "a block", "block"
        return f"{type(layer).__module__}.{type(layer).__qualname__}", snake(type(layer).__name__)

    def dissolves(self, frame):
        return self.small(frame)

    def hints(self, node, frame):
        return [n for n, o in self.names if o is node and frame is self.top]

    def place(self, node):
        return node.name, ""


def import_model(model, path, inputs=None, loss=None, batch=32):
    """-> text, weights, what is known of inputs and outputs"""
    def graph_of_model():
        return KerasGraph(model, LAYERS, OPERATIONS, inputs)
    graph = graph_of_model()
    if graph.traced:
        check_constants(graph, graph_of_model)
    merge_constants(graph.nodes + [n for n in graph.leaves if n.buffer is None])
    if loss is None and getattr(model, "loss", None) is not None:
        loss = LOSSES.get(model.loss if isinstance(model.loss, str) else snake(type(model.loss).__name__))
    outputs = list(graph.outputs)
    before = without_last(outputs, loss)
    outputs, loss = before or (outputs, loss)
    importer = KerasImporter(graph)
    importer.names = outputs
    importer.whole([n for _, n in outputs])
    graph.left += frozen_notes("Keras", graph.frozen)
    title = f"{type(model).__module__}.{type(model).__qualname__} '{model.name}' of Keras, by mgpuc.from_keras"
    text, info = model_text(importer, title, identifier(snake(model.name)), path, outputs, loss, batch, graph.left, classes=False)
    if before:
        info["returned"] = [o["name"] for o in info["outputs"][1:]]
    return text, importer.weights, info


def to_keras(model, weights, inputs=None):
    """What `mgpuc.to_keras` does. What from_keras makes of the model with numbers of its variables' elements in their place says where each belongs."""
    variables = [v for v in model.variables if v.dtype.startswith("float")]
    values = [numbers(v).copy() for v in variables]
    found, begun = [], import_model(model, pathlib.Path("model.net"), inputs)[1]
    try:
        for digit in range(3):  # the variable, then the element in two parts, all of which are exact in f32
            for n, v in enumerate(variables):
                at = np.arange(values[n].size, dtype="int64").reshape(v.shape)
                v.assign((np.full(v.shape, n), at // 4096, at % 4096)[digit] + 0.5)  # what is no element of a variable is a whole number
            found.append(import_model(model, pathlib.Path("model.net"), inputs)[1])
    finally:
        for v, a in zip(variables, values):
            v.assign(a)
    missing = [k for k in found[0] if k not in weights]
    if missing:
        raise Failed(f"to_keras: there are no weights for {', '.join(missing[:5])}; they are not of the network that from_keras makes of this model")
    for name, which in found[0].items():
        which, high, low = (np.asarray(d[name], "float64").ravel() - 0.5 for d in (found[0], *found[1:]))
        own = which == np.floor(which)
        given = np.asarray(weights[name]).ravel()
        if given.size != own.size:
            raise Failed(f"to_keras: {name} has {given.size} elements, and {own.size} in this model")
        if not np.array_equal(given[~own], np.asarray(begun[name]).ravel()[~own]):
            raise Failed(f"to_keras: {name} is trained in the network, and the model has nothing of the kind: give its layer scale = True, or center = True")
        for n in np.unique(which[own]).astype(int):
            mine = which == n
            values[n].ravel()[(high[mine] * 4096 + low[mine]).astype("int64")] = given[mine]
    for v, a in zip(variables, values):
        v.assign(a)
