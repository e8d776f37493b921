"""torch.export's graph as nodes: submodules of no_grad and autocast spliced in, in-place operations as what they compute, constants computed.

Each node says which calls of modules it belongs to, and the line of the source.
"""
import inspect
import operator
import re

import torch


class Unsupported(Exception):
    """What has no counterpart: the module's path, the operation, the line of the source."""

    def __init__(self, path, operation, why, source):
        self.path, self.operation, self.source = path, operation, source
        super().__init__(f"{path or 'the model itself'}: {operation} {why}" + (f"\n  {source}" if source else ""))


class Node:
    def __init__(self, target, args, stack, trace, val):
        self.target, self.args, self.stack, self.trace, self.val = target, args, stack, trace, val
        self.const = self.said = None  # a tensor that depends on no input and no parameter; what the source calls it
        self.parameter = self.input = None  # its name
        self.users = []

    @property
    def shape(self):
        return tuple(int(s) for s in self.val.shape)

    def op(self):
        schema = getattr(self.target, "_schema", None)
        name = schema.name.split("::")[1] if schema else str(self.target)
        return name[:-1] if name.endswith("_") and not name.endswith("__") else name

    def in_place(self):
        schema = getattr(self.target, "_schema", None)
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
        self.nodes, self.inputs, self.outputs = [], [], []
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
            env[node] = new
        self.state = state
        outputs = self.run(program.graph_module, env, [])
        mutated = len(signature.buffers_to_mutate) + len(getattr(signature, "user_inputs_to_mutate", {}))
        self.outputs = outputs[mutated:] if len(outputs) > len(signature.user_outputs) else outputs
        self.merge()

    def run(self, gm, env, stack):
        for node in gm.graph.nodes:
            if node.op == "get_attr":
                value = gm
                for part in node.target.split("."):
                    value = getattr(value, part)
                if isinstance(value, torch.Tensor):
                    new = Node("get_attr", {}, [], "", value)
                    new.const = value
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
        new = Node(target, normalize(target, args, kwargs), stack, trace, node.meta.get("val"))
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
        if new.in_place():
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

    def merge(self):
        """Equal constants are one node."""
        known, instead = {}, {}
        for n in self.nodes:
            if isinstance(n.const, torch.Tensor):
                same = known.setdefault((tuple(n.const.shape), n.const.dtype, n.const.numpy().tobytes()), n)
                if same is not n:
                    instead[n] = same
                    same.users += n.users

        def renamed(a):
            if isinstance(a, Node):
                return instead.get(a, a)
            return [renamed(e) for e in a] if isinstance(a, list) else a
        for n in self.nodes:
            n.args = {k: renamed(v) for k, v in n.args.items()}

    def append(self, new):
        for a in all_nodes(new.args):
            a.users.append(new)
        self.nodes.append(new)
        return new


def real(a):
    if isinstance(a, Node):
        return a.const
    return [real(e) for e in a] if isinstance(a, list) else a


def all_nodes(value):
    if isinstance(value, Node):
        yield value
    elif isinstance(value, dict):
        for v in value.values():
            yield from all_nodes(v)
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from all_nodes(v)


def trace_lines(trace):
    """(file, line, code) of a stack trace, outermost first"""
    return [(f, int(n), code.strip()) for f, n, code in re.findall(r'File "(.*?)", line (\d+), in .*\n(.*)', trace)]


def last_line(trace):
    lines = trace_lines(trace)
    return "{}, line {}: {}".format(*lines[-1]) if lines else ""


def source_range(module):
    try:
        lines, first = inspect.getsourcelines(type(module))
        return inspect.getsourcefile(type(module)), first, first + len(lines)
    except (OSError, TypeError):
        return None


def assigned(trace, where):
    """The variables that the source assigns in the class at `where`, or in the innermost line."""
    for file, n, code in reversed(trace_lines(trace)):
        if where is None or file == where[0] and where[1] <= n <= where[2]:
            m = re.match(r"(\w+(?:\s*,\s*\w+)*)\s*(?:[-+*/@]?=|:[^=]*=)(?!=)", code)
            return re.split(r"\s*,\s*", m[1]) if m else []
    return []
