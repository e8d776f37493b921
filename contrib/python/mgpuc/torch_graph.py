"""torch.export's graph as nodes: submodules of no_grad and autocast spliced in, in-place operations as what they compute, constants computed.

Each node says which calls of modules it belongs to, and the line of the source.
"""
import inspect
import operator

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
    return lambda input, p=0.5, training=True, inplace=False: drop(input, float(p), what) if p > 0 else input


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


VIEWS = {"view", "reshape", "slice", "select", "transpose", "permute", "expand", "squeeze", "unsqueeze", "chunk", "split", "flatten", "narrow", "detach", "alias"}
RANDOM = {"rand", "randn", "rand_like", "randn_like", "bernoulli", "randint", "normal", "randperm", "multinomial"}
MADE = {"new_zeros", "new_ones", "new_full", "new_empty", "zeros_like", "ones_like", "full_like", "empty_like"}
SAME = {"to", "contiguous", "type_as", "flatten", "reshape", "expand", "expand_as", "positive", "resolve_conj", "resolve_neg", "float", "double", "requires_grad"}


class Flattened:
    def __init__(self, program):
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
            with torch.no_grad():
                new.const = target(*[real(a) for a in args], **{k: real(v) for k, v in kwargs.items() if k not in ("pin_memory", "layout", "device")})
            new.said = getattr(source, "said", None) if name in VIEWS or name in SAME else None
            new.said = new.said or next(iter(assigned(trace, None)), None)
        self.append(new)
        if in_place(target):
            self.replace(node, new, env, stack)
        return new

    def replace(self, node, new, env, stack):
        """After an operation in place its argument is the result; what the argument is a slice of has it in its place."""
        first = env[node.args[0]]
        env[node.args[0]] = new
        base = node.args[0]
        if new.const is not None:
            return  # of constants the views are real ones
        if getattr(base.target, "_schema", None) is None or base.target._schema.name.split("::")[1] not in VIEWS:
            return
        a, above = first.args, base.args[0]
        if not any(u is not base and u > node for u in above.users):
            return
        if first.op() != "slice" or a["step"] != 1 or any(u is not node and u > node for u in base.users):
            raise Unsupported(stack[-1][1], new.op(), "changes a view of a tensor that is used afterwards", last_line(new.trace))
        whole = env[above]
        put = Node("put", {"self": whole, "value": new, "dim": a["dim"], "start": a["start"] or 0}, new.stack, new.trace, whole.val)
        env[above] = self.append(put)

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
