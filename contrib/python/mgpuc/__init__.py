"""mgpuc from Python: models of PyTorch as text and weights; the compiler and its programs run on NumPy arrays."""
from .tools import Program, compile, load, plan, predict, train

__all__ = ["Program", "compile", "from_torch", "load", "plan", "predict", "train"]


def from_torch(module, example_inputs, path="model.net", loss=None, output=None, batch=32, kwargs=None):
    """Write the network of a module as readable text, and its weights beside it.

    example_inputs: a tensor, a tuple of them, or a dictionary by name, with the batch in front. Pictures of PyTorch, channels first, are
    channels last in the network; `predict` of what `compile` returns takes PyTorch's axes. loss: cross_entropy, mse, ...; output: which of
    several results (a number). Raises mgpuc.Unsupported, which names module, operation and line, for what has no counterpart.
    """
    import pathlib

    from . import tools
    from .torch_import import import_module

    path = pathlib.Path(path)
    text, weights, info = import_module(module, example_inputs, path, loss, output, batch, kwargs)
    tools.write_weights(path.with_suffix(".safetensors"), weights)
    path.write_text(text)
    return tools.Model(path, info)


def __getattr__(name):
    if name == "Unsupported":
        from .graph import Unsupported
        return Unsupported
    raise AttributeError(name)
