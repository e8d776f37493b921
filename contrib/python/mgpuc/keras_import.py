"""A model of Keras -> the text of a network, and its weights."""
from .graph import merge_constants
from .importer import Importer, frozen_notes, model_text
from .keras_graph import KerasGraph, check_constants
from .keras_ops import LAYERS, OPERATIONS
from .net import identifier, snake

LOSSES = {"sparse_categorical_crossentropy": "cross_entropy", "categorical_crossentropy": "cross_entropy", "mse": "mse", "mean_squared_error": "mse",
          "binary_crossentropy": "binary_cross_entropy"}
LAST = {"softmax": "cross_entropy", "sigmoid": "binary_cross_entropy"}  # what a model ends with -> the loss of what comes before it


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
    outputs, given = list(graph.outputs), False
    name, first = outputs[0]
    if loss is None and isinstance(getattr(model, "loss", None), str):
        loss = LOSSES.get(model.loss)
    wanted = LAST.get(first.op())
    if wanted and loss in (None, wanted) and first.args.get("dim", -1) in (-1, len(first.shape) - 1):
        outputs = [("logits", first.args["self"])] + outputs
        given, loss = True, wanted
    importer = KerasImporter(graph)
    importer.names = outputs
    importer.whole([n for _, n in outputs])
    graph.left += frozen_notes("Keras", graph.frozen)
    title = f"{type(model).__module__}.{type(model).__qualname__} '{model.name}' of Keras, by mgpuc.from_keras"
    text, info = model_text(importer, title, identifier(snake(model.name)), path, outputs, loss, batch, graph.left)
    if given:
        info["returned"] = [o["name"] for o in info["outputs"][1:]]
    return text, importer.weights, info
