"""A module of PyTorch -> the text of a network, and its weights.

torch.export says what is computed, the tree of modules how it is put together: each module that is called becomes a layer, but for those of
torch.nn, which are layers of the library, and for small ones, which are written where they are called.
"""
import copy
import inspect
import pathlib
import re
import traceback

import torch

from .graph import Node, Unsupported, all_nodes, assigned, is_float
from .importer import Frame, Importer, frozen_notes, model_text, without_last
from .net import identifier, snake
from .torch_graph import Flattened, export, source_range


class TorchImporter(Importer):
    source = "PyTorch"
    from_end = True

    def __init__(self, module, program):
        super().__init__(Flattened(program))
        self.module = module
        self.modules = dict(module.named_modules(remove_duplicate=False))
        self.ranges = {}

    def dissolves(self, frame):
        """Calls of torch.nn's own modules, of containers and of small modules."""
        module = self.modules.get(frame.path)
        if module is None or type(module) is torch.nn.Sequential:
            return True
        if isinstance(module, torch.nn.Sequential) and type(module).forward is torch.nn.Sequential.forward and all(isinstance(i, Frame) for i in frame.items):
            return True
        if type(module).__module__.startswith("torch.nn.modules") and not any(True for _ in module.children()):
            return True
        return self.small(frame)

    def prepare_frames(self):
        self.norms(self.top)

    def title(self, path):
        module = self.modules[path]
        return f"{type(module).__module__}.{type(module).__qualname__}", snake(type(module).__name__)

    def argument_names(self, path):
        return list(inspect.signature(type(self.modules[path]).forward).parameters)[1:]

    def hints(self, node, frame):
        if frame.path not in self.ranges:
            self.ranges[frame.path] = source_range(self.modules[frame.path]) if frame.path in self.modules else None
        return assigned(node.trace, self.ranges[frame.path])

    def place(self, node):
        path, source = super().place(node)
        module = self.modules.get(path)
        return path + (f" ({type(module).__module__}.{type(module).__qualname__})" if module is not None else ""), source

    def groups(self):
        """attention(q, k, v) with keys and values repeated for the heads that share them, as it is without."""
        for node in self.flat.nodes:
            if node.op() != "scaled_dot_product_attention":
                continue
            for key in ("key", "value"):
                source = ungrouped(node.args[key])
                if source is not None:
                    node.args[key].users = [u for u in node.args[key].users if u is not node]
                    node.args = {**node.args, key: source}
                    source.users.append(node)

    def norms(self, frame):
        """Modules called ...RMSNorm that compute weight * x / sqrt(mean(x^2) + eps) are the library's."""
        for n, item in enumerate(frame.items):
            if not isinstance(item, Frame):
                continue
            self.norms(item)
            if not type(self.modules[item.path]).__name__.endswith("RMSNorm") or any(isinstance(i, Frame) for i in item.items):
                continue
            if [i.op() for i in item.items if i.op() != "to"] != ["pow", "mean", "add", "rsqrt", "mul", "mul"]:
                continue
            power, mean, add, root, inner, outer = (i for i in item.items if i.op() != "to")
            x = power.args["self"]
            weight = next((w for w in all_nodes(outer.args) if w.parameter), None)
            plain = [{uncast(a) for a in all_nodes(i.args)} for i in (power, mean, add, root, inner, outer)]
            x = uncast(x)
            if power.args["exponent"] != 2 or mean.args["dim"] != [-1] or plain != [{x}, {power}, {mean}, {add}, {x, root}, {inner, weight}] or len(weight.users) != 1:
                continue
            outer.operation = "rms_norm"
            outer.args = {"input": x, "normalized_shape": list(weight.shape), "weight": weight, "eps": add.args["other"]}
            x.users = [u for u in x.users if u not in item.items] + [outer]
            item.items = [outer]


def uncast(node):
    while node.op() == "to":
        node = node.args["self"]
    return node


def ungrouped(node):
    """[1, g, t, d] of which node, [1, g r, t, d], repeats each along axis 1 r times"""
    if not isinstance(node, Node) or node.op() not in ("view", "reshape") or len(node.shape) != 4:
        return None
    n = node.args["self"]
    if n.op() == "clone":
        n = n.args["self"]
    if n.op() != "expand" or len(n.shape) != 5 or n.shape[1] * n.shape[2] != node.shape[1] or n.shape[3:] != node.shape[2:]:
        return None
    n = n.args["self"]
    while n.op() in ("slice", "unsqueeze") and len(n.shape) == 5:
        if n.op() == "unsqueeze" and n.args["dim"] == 2:
            n = n.args["self"]
            while n.op() == "slice" and n.args["self"].shape == n.shape:
                n = n.args["self"]
            return n if len(n.shape) == 4 else None
        if n.op() == "slice" and n.args["self"].shape == n.shape:
            n = n.args["self"]
            continue
        return None
    return None


def trained_only(module, nodes):
    """What only training would have, and the exported graph cannot show."""
    dropped = [n for n in nodes if n.op() in ("alpha_dropout", "feature_alpha_dropout") and n.args["p"] > 0]
    notes = [f"{n.op()} ({n.stack[-1][1] if n.stack else 'the model itself'}), which only training has, is left out." for n in dropped]
    for name, m in module.named_modules():
        for key in ("attention_dropout", "attn_dropout", "attn_drop", "dropout_p"):
            rate = getattr(m, key, 0)
            if isinstance(rate, float) and rate > 0:
                notes.append(f"Dropout of attention's weights ({name}.{key} = {rate}) is left out.")
                return notes
        if isinstance(m, torch.nn.MultiheadAttention) and m.dropout > 0:
            return notes + [f"Dropout of attention's weights ({name}: {m.dropout}) is left out."]
    return notes


def first_sample(x):
    return x[:1].clone() if isinstance(x, torch.Tensor) else x


def apart(module, inputs, named):
    """A sample's result may not depend on the samples before and after it in its batch."""
    def floats(y):
        return [t.nan_to_num() for t in torch.utils._pytree.tree_leaves(y) if isinstance(t, torch.Tensor) and t.is_floating_point()]

    def result(arrange):
        with torch.no_grad():
            return floats(module(*map(arrange, inputs), **{k: arrange(v) for k, v in named.items()}))

    def other(x):
        return x.flip(-1) if x.dim() > 1 else x
    tensor = lambda f: lambda x: f(x) if isinstance(x, torch.Tensor) and x.dim() else x  # noqa: E731
    training = [m for m in module.modules() if m.training]
    module.eval()
    try:
        alone, second = result(lambda x: x), result(tensor(other))
        both = result(tensor(lambda x: torch.cat([x, other(x)])))
    except Exception as e:
        raise Unsupported("", "the output", "cannot be computed of two samples, one beside the other in the first axis: " + (str(e).splitlines() or [type(e).__name__])[0], "") from None
    finally:
        for m in training:
            m.training = True
    for whole, parts in ((b, (a, s)) for a, s, b in zip(alone, second, both)):
        for n, a in enumerate(parts):
            if a.dim() and whole.shape == (2 * a.shape[0], *a.shape[1:]) and not torch.allclose(a, whole.chunk(2)[n], rtol=1e-3, atol=1e-3 * float(a.abs().max()), equal_nan=True):
                raise Unsupported("", "the output", "of a sample depends on the other samples of its batch, which is the first axis (batch_first = True)", "")


def of_classes(module, node):
    """Whether something says that an output has a number for each of several classes: a softmax, the module's class or attributes, its last layer's name."""
    count, config = node.shape[-1], getattr(module, "config", None)
    if getattr(config, "problem_type", None) == "regression":
        return False
    said = [getattr(module, key, None) for key in ("num_classes", "n_classes", "num_labels", "n_labels")] + [getattr(config, "num_labels", None)]
    last = (node.stack[-1][1] if node.stack else "").lower()
    return (node.op() in ("softmax", "log_softmax") or count in said or type(module).__module__.startswith("torchvision.models.") or
            re.search(r"For\w*Classification|LMHead|ForCausalLM|ForMaskedLM", type(module).__name__) is not None or re.search(r"classif|\bcls\b|lm_head", last) is not None)


HALVES = (torch.bfloat16, torch.float16)


def widened(module):
    """A copy in f32 of a module of halves or bfloat16, whose constants (rotations, scales) would be rounded to these."""
    types = {t.dtype for t in [*module.parameters(), *module.buffers()]}
    return copy.deepcopy(module).float() if types & set(HALVES) and torch.float64 not in types else module


def wide(x):
    if isinstance(x, (tuple, list)):
        return type(x)(wide(v) for v in x)
    if isinstance(x, dict):
        return {k: wide(v) for k, v in x.items()}
    return x.float() if isinstance(x, torch.Tensor) and x.dtype in HALVES else x


def import_module(module, example_inputs, path, loss=None, output=None, batch=32, kwargs=None):
    """-> text, weights, what is known of inputs and outputs"""
    module, example_inputs, kwargs = widened(module), wide(example_inputs), wide(kwargs)
    for name, m in module.named_modules():
        if isinstance(m, torch.nn.modules.batchnorm._BatchNorm) and m.track_running_stats and m.momentum is None:
            raise Unsupported(name, "batch_norm", "with momentum = None, an average of all batches, has no counterpart: give it a number", "")
    was = {m: m.training for m in module.modules()}
    module.eval()
    if isinstance(example_inputs, torch.Tensor):
        example_inputs = (example_inputs,)
    if isinstance(example_inputs, dict):
        example_inputs, kwargs = (), example_inputs
    kwargs = kwargs or {}
    one, one_named = tuple(first_sample(x) for x in example_inputs), {k: first_sample(v) for k, v in kwargs.items()}
    config = getattr(module, "config", None)
    cached = getattr(config, "use_cache", None)
    if cached:
        config.use_cache = False
    try:
        program = export(module, one, one_named)
    except Exception as e:
        own = [f for f in traceback.extract_tb(e.__traceback__) if "torch" not in pathlib.Path(f.filename).parts][-1:]
        said = (str(e).strip().splitlines() or [""])[0]
        raise Unsupported("", "the module", f"cannot be exported by torch.export: {type(e).__name__}: {said}", "".join(f"{f.filename}, line {f.lineno}: {f.line}" for f in own)) from e
    finally:
        for m, t in was.items():
            m.training = t
    try:
        apart(module, one, one_named)
    finally:
        if cached:
            config.use_cache = cached
    importer = TorchImporter(module, program)
    outputs = [o for o in importer.flat.outputs if isinstance(o, Node)]
    chosen = [o for o in outputs if o.val is not None and is_float(o.val.dtype)]
    if isinstance(output, int):
        chosen = [outputs[output]]
    if not chosen:
        raise Unsupported("", "the output", "is no tensor of floats", "")
    importer.groups()
    outputs, classes = [("logits", chosen[0])], of_classes(module, chosen[0])
    before = without_last(outputs, loss) if chosen[0].op() == "softmax" else None
    outputs, loss = before or (outputs, loss)
    importer.whole([n for _, n in outputs])
    sums = {k: theirs for k, (_, *theirs) in importer.flat.renamed.items()}
    notes = trained_only(module, importer.flat.nodes) + frozen_notes("PyTorch", [name for name, p in module.named_parameters() if not p.requires_grad])
    kind = type(module)
    title = f"{kind.__module__}.{kind.__qualname__} of PyTorch, by mgpuc.from_torch"
    if any(len(theirs) > 1 for theirs in sums.values()):
        notes.append("Recurrent layers have the sum of PyTorch's two biases, of which sgd moves each.")
    text, info = model_text(importer, title, identifier(snake(kind.__name__)), path, outputs, loss, batch, notes, classes)
    if before:
        info["returned"] = [o["name"] for o in info["outputs"][1:]]
    info["declared"].update({k: (theirs[0], None, *theirs[1:]) for k, theirs in sums.items() if k in importer.weights})
    return text, importer.weights, info
