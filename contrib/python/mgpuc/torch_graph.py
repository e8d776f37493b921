"""torch.export's graph as nodes: submodules of no_grad and autocast spliced in, in-place operations as what they compute, constants computed.

Each node says which calls of modules it belongs to, and the line of the source.
"""
import inspect
import linecache
import math
import operator
import re
import sys

import numpy as np
import torch

from .graph import Meta, Node, Unsupported, all_nodes, assigned, last_line, merge_constants
from .torch_recurrent import expand

TYPES = {torch.bfloat16: np.dtype("float32")}
TYPES.update({getattr(torch, k): np.dtype(k) for k in "float64 float32 float16 int64 int32 int16 int8 uint8 bool".split()})


def array(tensor):
    t = tensor.detach().cpu()
    return (t.float() if t.dtype == torch.bfloat16 else t).contiguous().numpy()


def meta(val):
    """The type of a value, or of the several of a list; None of what is no tensor."""
    if isinstance(val, (list, tuple)):
        return [meta(v) for v in val]
    return Meta(val.shape, TYPES.get(val.dtype, np.dtype(object))) if isinstance(val, torch.Tensor) else None


def operation(target):
    schema = getattr(target, "_schema", None)
    name = schema.name.split("::")[1] if schema else str(target)
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def in_place(target):
    schema = getattr(target, "_schema", None)
    return schema is not None and schema.name.endswith("_") and not schema.name.endswith("__")


@torch.library.custom_op("mgpuc::drop", mutates_args=())
def drop(x: torch.Tensor, rate: float, what: str) -> torch.Tensor:
    """Stands in the graph for what only training does; a result of its own, where PyTorch's dropout of evaluation returns its input."""
    return x.clone()


@drop.register_fake
def _(x, rate, what):
    return torch.empty_like(x)


def dropping(what):
    """In place of torch.nn.functional's. What it is called with is False for modules that are in training otherwise; what the source itself says is meant."""
    def f(input, p=0.5, training=True, inplace=False):
        caller = sys._getframe(1)
        never = re.search(r"training\s*=\s*False", linecache.getline(caller.f_code.co_filename, caller.f_lineno))
        return drop(input, float(p), what) if p > 0 and not never else input
    return f


FUNCTIONS = {"dropout": "dropout", "dropout1d": "spatial_dropout", "dropout2d": "spatial_dropout", "dropout3d": "spatial_dropout"}
DROPPING = {"StochasticDepth": "p", "DropPath": "drop_prob", "SwinDropPath": "drop_prob", "BeitDropPath": "drop_prob", "ConvNextDropPath": "drop_prob"}


def export(module, inputs, kwargs):
    """The exported program, layers that only training has (stochastic depth) left in as an operation."""
    patched = []
    for m in module.modules():
        rate = DROPPING.get(type(m).__name__)
        if rate and getattr(m, rate, 0):
            m.forward = (lambda p: lambda x, *_: drop(x, float(p), "stochastic_depth"))(getattr(m, rate))
            patched.append(m)
    functional = {k: getattr(torch.nn.functional, k) for k in FUNCTIONS}
    for k, what in FUNCTIONS.items():
        setattr(torch.nn.functional, k, dropping(what))
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        return torch.export.export(module, inputs, kwargs, strict=False)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for m in patched:
            del m.forward
        for k, f in functional.items():
            setattr(torch.nn.functional, k, f)


def normalize(target, args, kwargs):
    """Arguments by the names of the operation's schema, defaults filled in."""
    out = {}
    for n, a in enumerate(target._schema.arguments):
        out[a.name] = args[n] if n < len(args) else kwargs[a.name] if a.name in kwargs else a.default_value
    return out


VIEWS = {"view", "reshape", "slice", "select", "transpose", "permute", "expand", "squeeze", "unsqueeze", "chunk", "split", "flatten", "narrow", "detach", "alias"}  # which keep a name
RESHAPED = {"view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze", "view_as", "reshape_as"}
SAME_PLACES = {"alias", "detach", "contiguous", "clone", "to", "positive", "lift_fresh", "resolve_conj", "resolve_neg"}
RANDOM = {"rand", "randn", "rand_like", "randn_like", "bernoulli", "randint", "normal", "randperm", "multinomial"}
MADE = {"new_zeros", "new_ones", "new_full", "new_empty", "zeros_like", "ones_like", "full_like", "empty_like"}
SAME = {"to", "contiguous", "type_as", "flatten", "reshape", "expand", "expand_as", "positive", "resolve_conj", "resolve_neg", "float", "double", "requires_grad"}


def storage(node):
    """What the numbers of a value are kept in, which views of it share; None of what is no tensor."""
    val = node.meta.get("val")
    val = val[0] if isinstance(val, (list, tuple)) and val else val
    return val.untyped_storage()._cdata if isinstance(val, torch.Tensor) else None


def parent(node):
    """The value that a value is a view of."""
    above = node.args[0] if node.op == "call_function" and node.args and isinstance(node.args[0], torch.fx.Node) else None
    return above if above is not None and isinstance(node.target, torch._ops.OpOverload) and storage(above) == storage(node) or \
        above is not None and node.target is operator.getitem and parent(above) is not None else None


class Flattened:
    def __init__(self, program):
        self.scopes, self.changed = [], set()  # values by nodes of torch's, of this graph and those around it; what operations in place have changed
        self.nodes, self.inputs, self.outputs, self.leaves = [], [], [], []
        self.renamed = {}  # weights that the library has in another form: name -> node, its names in the module (of a sum all of its parts)
        signature = program.graph_signature
        state = dict(program.state_dict)
        env, same = {}, {}
        for node in program.graph.nodes:
            if node.op != "placeholder":
                continue
            name = node.name
            new = Node("placeholder", {}, [], "", node.meta.get("val"))
            if name in signature.inputs_to_parameters:
                new.parameter = signature.inputs_to_parameters[name]
                key = id(state[new.parameter])  # one node for a tensor with several names
                new = same.setdefault(key, new)
            elif name in signature.inputs_to_buffers:
                new.buffer = signature.inputs_to_buffers[name]
                new.const = (state[new.buffer] if new.buffer in state else program.constants[new.buffer]).detach().clone()
            elif name in signature.inputs_to_lifted_tensor_constants:
                new.const = program.constants[signature.inputs_to_lifted_tensor_constants[name]].detach().clone()
            else:
                new.input = name
                self.inputs.append(new)
            self.leaves.append(new)
            env[node] = new
        self.state = {k: array(v) for k, v in state.items()}
        outputs = self.run(program.graph_module, env, [])
        mutated = len(signature.buffers_to_mutate) + len(getattr(signature, "user_inputs_to_mutate", {}))
        self.outputs = outputs[mutated:] if len(outputs) > len(signature.user_outputs) else outputs
        for n in dict.fromkeys(self.nodes + self.leaves):
            n.val, n.const = meta(n.val), array(n.const) if isinstance(n.const, torch.Tensor) else n.const
        expand(self)
        merge_constants(self.nodes)

    def run(self, gm, env, stack):
        self.scopes.append(env)
        try:
            return self.spliced(gm, env, stack)
        finally:
            self.scopes.pop()

    def spliced(self, gm, env, stack):
        for node in gm.graph.nodes:
            if node.op == "get_attr":
                value = gm
                for part in node.target.split("."):
                    value = getattr(value, part)
                if isinstance(value, torch.Tensor):
                    new = Node("get_attr", {}, [], "", value)
                    new.const = value
                    self.leaves.append(new)
                    value = new
                env[node] = value
            elif node.op == "call_function":
                env[node] = self.call(node, env, stack)
            elif node.op == "output":
                return [self.read(a, env) for a in node.args[0]]

    def read(self, a, env):
        if isinstance(a, torch.fx.Node):
            return env[a]
        if isinstance(a, (list, tuple)):
            return [self.read(e, env) for e in a]
        return a

    def call(self, node, env, outer):
        stack = [(key, path) for key, (path, _) in node.meta.get("nn_module_stack", {}).items()] or outer
        trace = node.meta.get("stack_trace") or ""
        args, kwargs = [self.read(a, env) for a in node.args], {k: self.read(v, env) for k, v in node.kwargs.items()}
        target = node.target
        if target is operator.getitem:
            source = args[0]
            if isinstance(source, list):
                return source[args[1]]
            new = Node("getitem", {"self": source, "index": args[1]}, source.stack, source.trace, node.meta.get("val"))
            if source.const is not None:
                new.const = source.const[args[1]]
            return self.append(new)
        if not isinstance(target, torch._ops.OpOverload):
            for n, a in enumerate(args):
                if isinstance(a, torch.fx.GraphModule):  # no_grad, autocast: the graph within
                    inner = dict(zip((p for p in a.graph.nodes if p.op == "placeholder"), args[n + 1:]))
                    return self.run(a, inner, stack)
            if all(not isinstance(a, Node) for a in args) and callable(target):
                return target(*args, **kwargs)
            raise Unsupported(stack[-1][1] if stack else "", str(target), "has no counterpart", last_line(trace))
        new = Node(operation(target), normalize(target, args, kwargs), stack, trace, node.meta.get("val"))
        new.defaults = {a.name: a.default_value for a in target._schema.arguments if a.has_default_value()}
        name = new.op()
        if name.startswith("_assert") or name in ("sym_constrain_range_for_size", "sym_constrain_range"):
            return None
        source = new.args.get("self", new.args.get("input"))
        if name in SAME and isinstance(source, Node) and source.shape == new.shape and source.val.dtype == new.val.dtype:
            return source  # which PyTorch returns itself: what follows may mean either
        used = [a for a in all_nodes(new.args)]
        if name in MADE:
            value = {"zeros": 0, "ones": 1, "empty": 0}.get(name.split("_")[1] if name.startswith("new") else name.split("_")[0], new.args.get("fill_value"))
            new.const = torch.full(new.shape, value, dtype=new.val.dtype)
            new.args = {}
        elif all(a.const is not None for a in used) and name not in RANDOM:
            if in_place(target):
                self.keep(args[0])
                args = [self.read(a, env) for a in node.args]
            with torch.no_grad():
                new.const = target(*[real(a) for a in args], **{k: real(v) for k, v in kwargs.items() if k not in ("pin_memory", "layout", "device")})
            new.said = getattr(source, "said", None) if name in VIEWS or name in SAME else None
            new.said = new.said or next(iter(assigned(trace, None)), None)
        self.append(new)
        if in_place(target):
            self.replace(node, new, env, stack)
        return new

    def keep(self, changed):
        """Before a constant changes in place: what was computed of it keeps its old numbers, what comes later reads the new ones."""
        place = changed.const.untyped_storage().data_ptr()
        for old in dict.fromkeys(self.leaves + self.nodes):
            if isinstance(old.const, torch.Tensor) and old.const.untyped_storage().data_ptr() == place:
                new = Node(old.op(), dict(old.args), old.stack, old.trace, old.val)
                new.const, new.said, old.const = old.const, old.said, old.const.clone()
                self.append(new)
                for scope in self.scopes:
                    scope.update({k: new for k, v in scope.items() if v is old})

    def replace(self, node, new, env, stack):
        """After an operation in place its argument is the result, what the argument is a part of has it in its place, and other parts are taken anew."""
        def refuse(why):
            raise Unsupported(stack[-1][1] if stack else "", new.op(), why, last_line(new.trace))
        base = node.args[0]
        if sum(a.alias_info is not None and a.alias_info.is_write for a in node.target._schema.arguments) != 1:
            refuse("changes several tensors in place, and has no counterpart")
        if new.const is not None:  # of constants the views are real ones
            env[base] = new
            return
        if torch.Tag.inplace_view in node.target.tags:
            if storage(base) in self.changed or any(storage(n) == storage(base) and n is not base and any(u > node for u in n.users) for n in env if n is not node):
                refuse("makes a tensor another view of its numbers, which others share, and has no counterpart")
            env[base] = new
            return
        place = storage(base)
        self.changed.add(place)
        shared = [n for n in env if n is not node and storage(n) == place]
        if any(n.op == "placeholder" for n in shared) and len(self.scopes) > 1:
            refuse("changes a tensor of the graph around it in place (no_grad, autocast), and has no counterpart")
        chain = [base]
        while parent(chain[-1]) is not None:
            chain.append(parent(chain[-1]))
        if any(parent(n) is None and n is not chain[-1] and any(u > node for u in n.users) for n in shared):
            refuse("changes a tensor of which another is used afterwards that shares its numbers, and has no counterpart")
        later = [n for n in shared if n is not base and any(u > node for u in n.users)]
        olds = {n: env[n] for n in chain}
        env[base] = new
        if later:  # of what is used later all that lies between is needed
            for part, whole in zip(chain, chain[1:]):
                env[whole] = self.inserted(part, olds[part], env[whole], env[part], new, refuse)
        needed = set(later)
        for n in reversed(shared):
            if n in needed and parent(n) is not None:
                needed.add(parent(n))
        for n in shared:
            if n in needed and n not in chain:
                if parent(n) not in chain and parent(n) not in needed:
                    refuse("changes a tensor of which a view is used afterwards that has no counterpart")
                env[n] = env[n.args[0]] if in_place(n.target) else self.call(n, env, stack)

    def inserted(self, part, old, whole, value, new, refuse):
        """whole with value in place of the view old of it"""
        name, a = old.op(), old.args
        made = lambda operation, val, **args: self.append(Node(operation, args, new.stack, new.trace, val))  # noqa: E731
        if in_place(part.target) or old is whole or name in SAME_PLACES and old.val.dtype == whole.val.dtype:
            return value
        if name in RESHAPED and math.prod(old.val.shape) == math.prod(whole.val.shape):
            return made("view", whole.val, self=value)
        if name in ("slice", "select", "narrow") and a.get("step", 1) == 1:
            dim = a["dim"] % len(whole.val.shape)
            n, start = whole.val.shape[dim], a["index"] if name == "select" else a.get("start") or 0
            if not isinstance(start, int):
                refuse("changes a part at a place that is computed, and has no counterpart")
            start = min(max(start + n if start < 0 else start, 0), n)
            if name == "select":
                shape = [*value.val.shape[:dim], 1, *value.val.shape[dim:]]
                value = made("view", torch.empty(shape, dtype=value.val.dtype, device="meta"), self=value)
            return value if value.val.shape[dim] == n else made("put", whole.val, self=whole, value=value, dim=dim, start=start)
        if name in ("permute", "transpose", "t", "swapaxes", "swapdims", "movedim", "moveaxis", "mT", "numpy_T"):
            probe = torch.empty([k + 2 for k in range(len(whole.val.shape))], device="meta")  # whose sizes show the order of the axes
            order = [s - 2 for s in part.target(probe, *part.args[1:], **part.kwargs).shape]
            return made("permute", whole.val, self=value, dims=[order.index(d) for d in range(len(order))])
        refuse(f"changes a view ({name}) of a tensor that is used afterwards, and has no counterpart")

    def append(self, new):
        for a in all_nodes(new.args):
            a.users.append(new)
        self.nodes.append(new)
        return new


def real(a):
    if isinstance(a, Node):
        return a.const
    return [real(e) for e in a] if isinstance(a, list) else a


def source_range(module):
    try:
        lines, first = inspect.getsourcelines(type(module))
        return inspect.getsourcefile(type(module)), first, first + len(lines)
    except (OSError, TypeError):
        return None
