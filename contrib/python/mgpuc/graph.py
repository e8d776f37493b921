"""The graph that every front end makes: operations by PyTorch's names, arguments by name, values as NumPy's shapes and types.

A node says which calls of modules it belongs to, and the line of the source if that is known.
"""
import re

import numpy as np


def shown(text):
    """Text of a file in one line, without what a terminal acts on."""
    text = text if len(text) <= 600 else text[:600] + " ..."
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


class Unsupported(Exception):
    """What has no counterpart: where it is (the module's path, the node), the operation, the line of the source."""

    def __init__(self, path, operation, why, source):
        path, operation, why, source = shown(path), shown(operation), shown(why), "\n".join(map(shown, source.split("\n")))
        self.path, self.operation, self.why, self.source = path, operation, why, source
        super().__init__(f"{path or 'the model itself'}: {operation} {why}" + (f"\n  {source}" if source else ""))


class Refused(Exception):
    """A file is no model that can be read: what is wrong, and what to do."""

    def __init__(self, text):
        super().__init__(shown(text))


class Meta:
    """What is known of a value before it is computed."""

    def __init__(self, shape, dtype):
        self.shape, self.dtype = tuple(int(s) for s in shape), np.dtype(dtype)


class Node:
    def __init__(self, operation, args, stack, trace, val):
        self.operation, self.args, self.stack, self.trace, self.val = operation, args, stack, trace, val
        self.const = self.said = None  # an array that depends on no input and no parameter; what the source calls it
        self.parameter = self.input = self.buffer = None  # its name
        self.users = []
        self.loops = ()  # around it
        self.defaults = None  # of PyTorch's operations: argument -> what it is if it is not given

    @property
    def shape(self):
        return tuple(int(s) for s in self.val.shape)

    def op(self):
        return self.operation


def table_of_operations():
    """name -> function, empty, and the decorator that puts a function there under its names."""
    table = {}

    def op(*names):
        def register(f):
            table.update(dict.fromkeys(names, f))
            return f
        return register
    return table, op


def is_float(dtype):
    return dtype.kind == "f"


def all_nodes(value):
    if isinstance(value, Node):
        yield value
    elif isinstance(value, dict):
        for v in value.values():
            yield from all_nodes(v)
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from all_nodes(v)


def merge_constants(nodes):
    """Equal constants are one node."""
    known, instead = {}, {}
    for n in nodes:
        if isinstance(n.const, np.ndarray):
            same = known.setdefault((n.const.shape, n.const.dtype, n.const.tobytes()), n)
            if same is not n:
                instead[n] = same
                same.users += n.users

    def renamed(a):
        if isinstance(a, Node):
            return instead.get(a, a)
        return [renamed(e) for e in a] if isinstance(a, list) else a
    for n in nodes:
        n.args = {k: renamed(v) for k, v in n.args.items()}


# ---- operations that front ends make: g.add(operation, shape, dtype, **args) appends a node

def shape_of(*values):
    return np.broadcast_shapes(*[v.shape for v in values if isinstance(v, Node)])


def node(g, operation, /, *values, dtype=None, names=("self", "other"), **more):
    """An element-wise operation."""
    kind = dtype or next(v.val.dtype for v in values if isinstance(v, Node))
    return g.add(operation, shape_of(*values), kind, **dict(zip(names, values)), **more)


def cast(g, x, dtype):
    return x if x.val.dtype == np.dtype(dtype) else g.add("to", x.shape, dtype, self=x)


def reshape(g, x, shape):
    if np.prod(x.shape, dtype=float) != np.prod(shape, dtype=float):
        raise ValueError(f"{list(x.shape)} and {list(shape)} have other numbers of elements")
    return x if tuple(shape) == x.shape else g.add("view", shape, x.val.dtype, self=x)


def permute(g, x, order):
    return x if list(order) == list(range(len(order))) else g.add("permute", [x.shape[o] for o in order], x.val.dtype, self=x, dims=list(order))


def cut(g, x, dim, start, end, step=1):
    n = x.shape[dim]
    if (start, end, step) == (0, n, 1):
        return x
    shape = list(x.shape)
    shape[dim] = max(0, -(-(end - start) // step))
    return g.add("slice", shape, x.val.dtype, self=x, dim=dim, start=start, end=end, step=step)


def join(g, values, dim):
    shape = list(values[0].shape)
    shape[dim] = sum(v.shape[dim] for v in values)
    return values[0] if len(values) == 1 else g.add("cat", shape, values[0].val.dtype, tensors=values, dim=dim)


def flip(g, x, dims):
    return g.add("flip", x.shape, x.val.dtype, self=x, dims=list(dims))


def expand(g, x, shape):
    return x if tuple(shape) == x.shape else g.add("expand", shape, x.val.dtype, self=x)


def reduce(g, fn, x, dims, keep, **more):
    dims = sorted(d % max(len(x.shape), 1) for d in dims)
    shape = [1 if d in dims else s for d, s in enumerate(x.shape) if keep or d not in dims]
    return g.add(fn, shape, x.val.dtype, self=x, dim=dims, keepdim=keep, **more)


# ---- the source

def trace_lines(trace):
    """(file, line, code) of a stack trace, outermost first"""
    return [(f, int(n), code.strip()) for f, n, code in re.findall(r'File "(.*?)", line (\d+), in .*\n(.*)', trace)]


def last_line(trace):
    lines = trace_lines(trace)
    return "{}, line {}: {}".format(*lines[-1]) if lines else ""


def assigned(trace, where):
    """The variables that the source assigns in the class at `where`, or in the innermost line."""
    for file, n, code in reversed(trace_lines(trace)):
        if where is None or file == where[0] and where[1] <= n <= where[2]:
            m = re.match(r"(\w+(?:\s*,\s*\w+)*)\s*(?:[-+*/@]?=|:[^=]*=)(?!=)", code)
            return re.split(r"\s*,\s*", m[1]) if m else []
    return []
