"""A model of Keras -> the text of a network, and its weights."""
from .graph import merge_constants
from .importer import Importer, frozen_notes, model_text, without_last
from .keras_graph import KerasGraph, check_constants
from .keras_ops import LAYERS, OPERATIONS
from .net import identifier, snake

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
