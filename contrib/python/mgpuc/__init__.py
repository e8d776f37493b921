"""mgpuc from Python: models of PyTorch as text and weights; the compiler and its programs run on NumPy arrays."""
from .tools import Program, compile, load, plan, predict, train

__all__ = ["Program", "compile", "from_hf", "from_keras", "from_onnx", "from_torch", "load", "plan", "predict", "to_keras", "train"]


def from_torch(module, example_inputs, path="model.net", loss=None, output=None, batch=32, kwargs=None):
    """Write the network of a module as readable text, and its weights beside it.

    example_inputs: a tensor, a tuple of them, or a dictionary by name, with the batch in front. Pictures of PyTorch, channels first, are
    channels last in the network; `predict` of what `compile` returns takes PyTorch's axes. loss: cross_entropy, mse, ...; output: which of
    several results (a number). Raises mgpuc.Unsupported, which names module, operation and line, for what has no counterpart.
    """
    import pathlib

    from . import tools
    from .torch_import import import_module

    if not hasattr(module, "named_parameters"):
        raise TypeError(f"from_torch takes a module of PyTorch, not a {type(module).__name__}")
    path = pathlib.Path(path)
    text, weights, info = import_module(module, example_inputs, path, loss, output, batch, kwargs)
    tools.write_weights(path.with_suffix(".safetensors"), weights)
    path.write_text(text)
    return tools.Model(path, info)


def from_hf(folder, path="model.net", length=128, size=None, **options):
    """The same for a folder of Hugging Face (config.json and weights), by its class in transformers. length: tokens of a text; size: of a
    picture, [height, width] or one number, where config.json does not say it (224).

    Models of text take `input_ids`, models of pictures `pixel_values`. For other inputs, such as an `attention_mask`, give the module
    and a dictionary of them to from_torch.
    """
    import pathlib

    if not (pathlib.Path(folder) / "config.json").is_file():
        raise FileNotFoundError(f"{folder}: no folder of Hugging Face: there is no config.json in it; nothing is downloaded")
    import torch

    from .hf_import import module_of

    module = module_of(folder)
    config = module.config
    if module.main_input_name == "pixel_values":
        size = size or getattr(config, "image_size", 224)
        high, wide = size if isinstance(size, (list, tuple)) else (size, size)
        example = {"pixel_values": torch.zeros(1, getattr(config, "num_channels", 3), high, wide)}
    else:
        example = {"input_ids": torch.zeros(1, min(length, getattr(config, "max_position_embeddings", length)), dtype=torch.long)}
    return from_torch(module, example, path, **options)


def from_keras(model, path="model.net", inputs=None, loss=None, batch=32):
    """The same for a model of Keras 3, whatever its backend is.

    inputs: arrays with the batch in front, needed for a model that is a class with a `call` of its own. A model that ends with a softmax has
    the loss of what comes before it, and `predict` returns what Keras does.
    """
    import pathlib

    from . import tools
    from .keras_import import import_model

    path = pathlib.Path(path)
    text, weights, info = import_model(model, path, inputs, loss, batch)
    tools.write_weights(path.with_suffix(".safetensors"), weights)
    path.write_text(text)
    return tools.Model(path, info)


def to_keras(model, weights, inputs=None):
    """Put weights of the network that from_keras made of a model, as `train` returned them, or a file or folder of saved ones, into that model.

    inputs: as from_keras had them.
    """
    import pathlib

    from . import tools
    from .keras_import import to_keras

    if not isinstance(weights, dict):
        path = pathlib.Path(weights)
        weights = tools.load(path / "weights.safetensors" if path.is_dir() else path)
    to_keras(model, weights, inputs)


def from_onnx(model, path="model.net", shapes=None, batch=None, loss=None, size=32):
    """The same for a file of ONNX, of operator sets 9 to 22; needs the package onnx.

    shapes: {"input": (1, 3, 224, 224)} of inputs whose shapes the file leaves open; the first axis is the batch, unless an input says that it
    has another size than 1. batch: True where it is the batch nevertheless, False where all axes are of one sample. size: samples of a step.
    Raises mgpuc.Unsupported, which names node and operator, and mgpuc.Refused for a file that is no model; a process without rights reads it.
    """
    import pathlib

    from . import onnx_reader, tools

    path = pathlib.Path(path)
    text, info = onnx_reader.read(pathlib.Path(model), path, shapes, batch, loss, size, path.with_suffix(".safetensors"))
    path.write_text(text)
    return tools.Model(path, info)


def __getattr__(name):
    if name in ("Refused", "Unsupported"):
        from . import graph
        return getattr(graph, name)
    raise AttributeError(name)
