"""PyTorch's operations, which all front ends use, as expressions of the language.

PyTorch's axes are kept in mind, not moved: a Value says which of them each axis of ours is, so permute costs nothing, and pictures are
channels last throughout. The batch, of size 1 in the exported graph, and other axes of size 1 may have no axis here.
"""
import math

import numpy as np

from .graph import Node, is_float, table_of_operations
from .net import Call, Index, List, Num, Op, Span


class Use:
    """A weight as an argument of an operation of the library. library: the instance's name, where it is the weight of a layer there."""

    def __init__(self, node, library):
        self.node, self.library, self.const = node, library, None
        self.shape = node.shape

    def value(self, cx):
        return cx.lookup(self.node)

    def whole(self, cx):
        """With all axes, also those of one element."""
        return with_axes(cx, self.value(cx), range(len(self.shape)))


class Value:
    """axes: PyTorch's axis of each of ours; those that are missing have size 1."""

    def __init__(self, var, shape, axes, dtype):
        self.var, self.shape, self.axes, self.dtype, self.const = var, tuple(shape), tuple(axes), dtype, False

    @property
    def ours(self):
        return [self.shape[a] for a in self.axes]

    def at(self, dim):
        return self.axes.index(dim % len(self.shape))

    def real(self, dim):
        return dim % len(self.shape) in self.axes


OPS, op = table_of_operations()


def shape_list(values):
    return List([Num(v, "shape" if len(values) > 2 else "rows") for v in values])


def none_index(rank, places):
    """Subscripts that add axes: places are positions in the result."""
    subs = ["none" if i in places else ":" for i in range(rank + len(places))]
    if len(subs) > 2 and subs == [":"] * (len(subs) - 1) + ["none"]:
        return ["...", "none"]
    while subs and subs[-1] == ":":
        subs.pop()
    return subs


def with_axes(cx, v, axes):
    """The same numbers, with exactly these axes of PyTorch's in this order."""
    axes = tuple(a % len(v.shape) for a in axes)
    if v.axes == axes:
        return v
    drop = [i for i, a in enumerate(v.axes) if a not in axes]
    if drop:
        if any(v.shape[v.axes[i]] != 1 for i in drop):
            raise cx.unsupported(cx.node, "has an axis that is neither the batch's nor one of the operation's, which has no counterpart")
        subs = ["0" if i in drop else ":" for i in range(len(v.axes))]
        while subs[-1] == ":":
            subs.pop()
        v = cx.new(Index(v.var, subs), v.shape, [a for i, a in enumerate(v.axes) if i not in drop], v.dtype)
    common = [a for a in axes if a in v.axes]
    if list(v.axes) != common:
        order = [v.axes.index(a) for a in common]
        last_two = order == list(range(len(order) - 2)) + [len(order) - 1, len(order) - 2]
        v = cx.new(Call("transpose", v.var, [] if last_two else [List([Num(o, "axis") for o in order])]), v.shape, common, v.dtype)
    places = [i for i, a in enumerate(axes) if a not in common]
    if places:
        one = isinstance(v.var, Num)  # a constant
        v = cx.new(Call("broadcast", None, [v.var, shape_list([1] * len(axes))]) if one else Index(v.var, none_index(len(common), places)), v.shape, axes, v.dtype)
    return v


def broadcast_axes(values, shape):
    """Axes of the result of an element-wise operation: those of the operand that has most of them."""
    rank = len(shape)
    moved = [tuple(a + rank - len(v.shape) for a in v.axes) for v in values]
    best = max(range(len(values)), key=lambda i: (len([a for a in moved[i] if values[i].shape[a - rank + len(values[i].shape)] > 1]), len(moved[i]), -i))
    axes = list(moved[best])
    missing = sorted({a for m in moved for a in m if a not in axes and shape[a] > 1})
    if missing:
        axes = sorted(axes + missing) if axes == sorted(axes) else [m for m in missing] + axes
    return axes


def aligned(cx, v, axes, rank):
    """v as an operand of a result with these axes: in their order, with axes of 1 where it has none, none needed in front."""
    shift = rank - len(v.shape)
    own = [a + shift for a in v.axes]
    wanted = [a for a in axes if a in own]
    extra = [a for a in own if a not in axes]
    v2 = Value(v.var, (1,) * shift + v.shape, own, v.dtype)
    if wanted:
        first = axes.index(wanted[0])
        target = [a for a in axes[first:]]
        target = [a for a in target if a in wanted or v2.shape[a] == 1]
    else:
        target = []
    if extra or list(target) != own:
        v2 = with_axes(cx, v2, target)
    return v2


def elementwise(cx, node, build, *operands):
    """build(expressions) -> expression; operands: Values and numbers"""
    values = [o for o in operands if isinstance(o, Value)]
    shape = node.shape
    axes = broadcast_axes(values, shape) if values else ()
    expr = build(*[aligned(cx, o, axes, len(shape)).var if isinstance(o, Value) else cx.number(o) for o in operands])
    return cx.result(expr, axes, node)


def identity(cx, v, node, axes=None):
    return Value(v.var, node.shape, v.axes if axes is None else axes, node.val.dtype)


# ---- element by element

def unary(fn, **options):
    return lambda cx, node, a: elementwise(cx, node, lambda x: Call(fn, x, options=options.items()), a["self"] if "self" in a else a["input"])


for torch_name, fn in {"relu": "relu", "relu6": "relu6", "sigmoid": "sigmoid", "tanh": "tanh", "silu": "silu", "mish": "mish", "hardswish": "hardswish", "selu": "selu",
                       "hardsigmoid": "hardsigmoid", "exp": "exp", "log": "log", "sqrt": "sqrt", "sin": "sin", "cos": "cos", "erf": "erf", "abs": "abs", "floor": "floor",
                       "ceil": "ceil", "trunc": "trunc", "sign": "sign", "log1p": "log1p", "expm1": "expm1", "log_sigmoid": "log_sigmoid", "tan": "tan",
                       "atan": "atan", "asin": "asin", "acos": "acos", "sinh": "sinh", "cosh": "cosh", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh",
                       "softsign": "softsign"}.items():
    OPS[torch_name] = unary(fn)


def binary(sign, swap=False):
    def f(cx, node, a):
        x, y = (a["other"], a["self"]) if swap else (a["self"], a["other"])
        if a.get("alpha", 1) != 1:
            y = elementwise_number(cx, y, a["alpha"])
        if sign in ("*", "**"):
            x, y = (wide(cx, v, node) for v in (x, y))
        return elementwise(cx, node, wrapping(cx, node, lambda p, q: Op(sign, p, q)), x, y)
    return f


def wrapping(cx, node, build):
    """An operation on whole numbers of less than 32 bits is one of 32, which wraps to theirs."""
    kind = node.val.dtype
    if kind.kind not in "iu" or kind.itemsize >= 4:
        return build
    return lambda *e: Call(cx.importer.whole_type(kind), build(*[x if isinstance(x, Num) else Call("i32", x) for x in e]))


def wide(cx, v, node):
    """Whole numbers of 64 bits that may be known in 32 here (numbers of classes, arange, places), for sums and products."""
    if not cx.importer.from_end or node.val.dtype != np.int64 or not isinstance(v, Value) or isinstance(v.var, Num) or v.dtype == bool or isinstance(v.var.expr, Call) and v.var.expr.fn == "i64":
        return v
    return cx.new(Call("i64", v.var), v.shape, v.axes, v.dtype)


def elementwise_number(cx, v, factor):
    if not isinstance(v, Value):
        return v * factor
    return cx.new(Op("*", cx.number(factor), v.var), v.shape, v.axes, v.dtype)


for torch_name, sign in {"add": "+", "sub": "-", "mul": "*", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "remainder": "%",
                         "subtract": "-", "multiply": "*"}.items():
    OPS[torch_name] = binary(sign)
for fn in ("bit_and", "bit_or", "bit_xor", "shift_left", "shift_right"):
    OPS[fn] = (lambda fn: lambda cx, node, a: elementwise(cx, node, lambda p, q: Call(fn, p, [q]), a["self"], a["other"]))(fn)
OPS["bit_not"] = unary("bit_not")
OPS["rsub"] = binary("-", swap=True)


@op("div", "divide", "true_divide", "floor_divide")
def _(cx, node, a):
    mode = "floor" if node.op() == "floor_divide" else a.get("rounding_mode")

    def build(p, q):
        if mode is None:
            return Op("/", p, q)
        if is_float(node.val.dtype):
            if mode == "trunc":
                return Call("trunc", Op("/", p, q))
            floor = Call("round", Op("/", Op("-", p, Op("%", p, q)), q))  # 0.3 // 0.1 is 2, and 0.3 / 0.1 is 3
            return floor if isinstance(q, Num) and q.value else Call("where", None, [Op("==", q, 0), Op("/", p, q), floor])
        if mode == "floor":
            return Op("//", p, q)
        up = Op("and", Op("!=", Op("<", p, 0), Op("<", q, 0)), Op("!=", Op("%", p, q), 0))
        return Call("where", None, [up, Op("+", Op("//", p, q), 1), Op("//", p, q)])
    return elementwise(cx, node, build, a["self"], a["other"])


@op("round")
def _(cx, node, a):
    if not a.get("decimals"):
        return unary("round")(cx, node, a)
    ten, fine = Num(10.0 ** abs(a["decimals"]), "ten"), a["decimals"] > 0
    return elementwise(cx, node, lambda p: Op("/" if fine else "*", Call("round", Op("*" if fine else "/", p, ten)), ten), a["self"])


@op("pow")
def _(cx, node, a):
    return elementwise(cx, node, wrapping(cx, node, lambda p, q: Op("**", p, q)), wide(cx, a["self"], node), wide(cx, a["exponent"], node))


@op("square")
def _(cx, node, a):
    return elementwise(cx, node, wrapping(cx, node, lambda p: Op("**", p, cx.number(2))), wide(cx, a["self"], node))


@op("neg")
def _(cx, node, a):
    return elementwise(cx, node, wrapping(cx, node, lambda p: Op("-", 0, p)), a["self"])


@op("reciprocal")
def _(cx, node, a):
    return elementwise(cx, node, lambda p: Op("/", 1, p), a["self"])


@op("rsqrt")
def _(cx, node, a):
    return elementwise(cx, node, lambda p: Op("/", 1, Call("sqrt", p)), a["self"])


@op("logical_not", "bitwise_not")
def _(cx, node, a):
    if node.op() == "bitwise_not" and node.val.dtype != bool:
        return unary("bit_not")(cx, node, a)
    return elementwise(cx, node, lambda p: Op("==", Call("i32", p) if a["self"].dtype == bool else p, 0), a["self"])


@op("bitwise_and", "bitwise_or", "bitwise_xor", "__and__", "__or__", "__xor__")
def _(cx, node, a):
    kind = node.op().strip("_").removeprefix("bitwise_")
    if node.val.dtype == bool:
        return binary({"xor": "!="}.get(kind, kind))(cx, node, a)
    return OPS["bit_" + kind](cx, node, a)


@op("logical_and", "logical_or", "logical_xor")
def _(cx, node, a):
    truth = lambda v, p: p if isinstance(v, Value) and v.dtype == bool else Op("!=", p, 0)  # noqa: E731
    sign = {"logical_and": "and", "logical_or": "or", "logical_xor": "!="}[node.op()]
    return elementwise(cx, node, lambda p, q: Op(sign, truth(a["self"], p), truth(a["other"], q)), a["self"], a["other"])


@op("maximum", "minimum")
def _(cx, node, a):
    return elementwise(cx, node, lambda p, q: Call(node.op(), p, [q]), a["self"], a["other"])


@op("gelu")
def _(cx, node, a):
    return unary("gelu", approximate=True if a["approximate"] == "tanh" else None)(cx, node, a)


@op("leaky_relu")
def _(cx, node, a):
    return elementwise(cx, node, lambda p: Call("leaky_relu", p, [Num(a["negative_slope"], "slope")]), a["self"])


@op("elu", "celu")
def _(cx, node, a):
    alpha = a["alpha"]
    return elementwise(cx, node, lambda p: Call(node.op(), p, [] if alpha == 1 else [Num(alpha, "alpha")]), a["self"])


@op("softplus")
def _(cx, node, a):
    beta, threshold = Num(a["beta"], "beta"), a.get("threshold", 20)

    def build(p):
        scaled = p if beta.value == 1 else Op("*", beta, p)
        y = Call("softplus", scaled) if beta.value == 1 else Op("/", Call("softplus", scaled), beta)
        return y if threshold >= 20 else Call("where", None, [Op(">", scaled, Num(threshold, "threshold")), p, y])  # beyond 20 it is the same
    return elementwise(cx, node, build, a["self"])


@op("hardtanh", "clamp", "clip", "clamp_min", "clamp_max")
def _(cx, node, a):
    low, high = (a.get("min_val"), a.get("max_val")) if node.op() == "hardtanh" else (a.get("min"), a.get("max"))
    if node.op() == "hardtanh" and (low, high) == (0, 6):
        return unary("relu6")(cx, node, a)
    if low is not None and high is not None:
        if isinstance(low, Value) or isinstance(high, Value):
            return elementwise(cx, node, lambda p, q, r: Call("minimum", Call("maximum", p, [q]), [r]), a["self"], low, high)
        return elementwise(cx, node, lambda p: Call("clamp", p, [cx.number(low), cx.number(high)]), a["self"])
    return elementwise(cx, node, lambda p, q: Call("maximum" if high is None else "minimum", p, [q]), a["self"], low if high is None else high)


@op("glu")
def _(cx, node, a):
    x = last(cx, a["self"], a["dim"])
    return cx.result(Call("glu", x.var), x.axes, node)


@op("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
def _(cx, node, a):
    x, rate = a.get("input", a.get("self")), a["p"]
    if a.get("train"):
        raise cx.unsupported(node, "that predictions have, too, has no counterpart")
    if rate == 0 or "alpha" in node.op():  # which the model's notes speak of
        return identity(cx, x, node)
    if node.op() != "dropout":
        x = last(cx, x, 1)
    return cx.result(Call("spatial_dropout" if node.op() != "dropout" else "dropout", x.var, [Num(float(rate), "rate")]), x.axes, node)


@op("drop")
def _(cx, node, a):
    x = last(cx, a["x"], 1) if a["what"] == "spatial_dropout" else a["x"]
    return cx.result(Call(a["what"], x.var, [Num(a["rate"], "rate")]), x.axes, node)


@op("where")
def _(cx, node, a):
    return elementwise(cx, node, lambda c, p, q: Call("where", None, [c, p, q]), a["condition"], a["self"], a["other"])


@op("masked_fill")
def _(cx, node, a):
    return elementwise(cx, node, lambda c, p, q: Call("where", None, [c, p, q]), a["mask"], a["value"], a["self"])


@op("addcmul", "addcdiv")
def _(cx, node, a):
    factor = [] if a["value"] == 1 else [cx.number(a["value"])]
    return elementwise(cx, node, lambda p, q, r: Op("+", p, Op("*" if node.op() == "addcmul" else "/", Op("*", factor[0], q) if factor else q, r)),
                       a["self"], a["tensor1"], a["tensor2"])


@op("lerp")
def _(cx, node, a):
    return elementwise(cx, node, lambda p, q, t: Call("lerp", p, [q, t]), a["self"], a["end"], a["weight"])


@op("to", "_to_copy", "type_as", "float", "double", "long", "bool", "int")
def _(cx, node, a):
    x = a["self"] if "self" in a else a["input"]
    was, now = x.dtype, node.val.dtype
    a.get("dtype"), a.get("other")  # which now is
    if was == now or is_float(was) and is_float(now):
        return identity(cx, x, node)
    if now == bool:
        return cx.result(Op("!=", x.var, 0), x.axes, node)
    narrow = is_float(was) and now.itemsize < 4  # which wraps; a cast of fractions stops at the type's limits
    return cx.result(Call("f32" if is_float(now) else cx.importer.whole_type(now), Call("i32", x.var) if narrow else x.var), x.axes, node)


@op("contiguous", "clone", "detach_", "alias", "lift_fresh_copy", "lift_fresh", "positive", "requires_grad_", "resolve_conj", "resolve_neg")
def _(cx, node, a):
    return identity(cx, a["self"], node)


@op("detach")
def _(cx, node, a):
    return cx.result(Call("stop_gradient", a["self"].var), a["self"].axes, node)


# ---- other shapes

def reshaped(cx, node, v, shape):
    """The elements in PyTorch's order, whatever the order of the axes is here."""
    big_in = [d for d, s in enumerate(v.shape) if s != 1]
    big_out = [d for d, s in enumerate(shape) if s != 1]
    groups, i, o = [], 0, 0
    while i < len(big_in) or o < len(big_out):
        gi, go, pi, po = [], [], 1, 1
        while not gi or pi != po:
            if (pi <= po or not go) and i < len(big_in) and (not gi or pi < po):
                pi *= v.shape[big_in[i]]
                gi.append(big_in[i])
                i += 1
            elif o < len(big_out):
                po *= shape[big_out[o]]
                go.append(big_out[o])
                o += 1
            else:
                break
            if gi and not go and o < len(big_out):
                po *= shape[big_out[o]]
                go.append(big_out[o])
                o += 1
        groups.append((gi, go))
    order = [a for a in v.axes if v.shape[a] != 1]
    kept = True
    for gi, _ in groups:
        if len(gi) > 1:
            at = [order.index(d) for d in gi]
            kept = kept and at == list(range(at[0], at[0] + len(at)))
    if kept:
        axes = []
        for a in order:
            for gi, go in groups:
                if gi and a == gi[0]:
                    axes += go
    elif len(big_out) == 1 and len(order) == len(v.axes) and order == big_in[1:] + big_in[:1]:
        return cx.result(Call("flatten", v.var, options=[("order", '"chw"')]), big_out, node)
    else:
        v = with_axes(cx, v, sorted(order))
        axes = big_out
    ours = [shape[a] for a in axes]
    if ours == v.ours:
        return Value(v.var, shape, axes, node.val.dtype)
    if len(ours) == 1:
        return cx.result(Call("flatten", v.var), axes, node)
    return cx.result(Call("reshape", v.var, [shape_list(ours)]), axes, node)


@op("view", "reshape", "_unsafe_view", "flatten", "unflatten", "_reshape_alias", "reshape_as", "view_as")
def _(cx, node, a):
    if a.get("dtype") is not None:
        raise cx.unsupported(node, "as another type has no counterpart")
    a.get("other"), a.get("dim"), a.get("stride")  # the shape says what they say
    return reshaped(cx, node, a["self"], node.shape)


@op("squeeze")
def _(cx, node, a):
    v = a["self"]
    dims = a.get("dim")
    dims = range(len(v.shape)) if dims is None else [dims] if isinstance(dims, int) else dims
    gone = {d % len(v.shape) for d in dims if v.shape[d % len(v.shape)] == 1}
    v = with_axes(cx, v, [d for d in v.axes if d not in gone])
    left = [d for d in range(len(v.shape)) if d not in gone]
    return identity(cx, v, node, [left.index(d) for d in v.axes])


@op("unsqueeze")
def _(cx, node, a):
    dim = a["dim"] % len(node.shape)
    return identity(cx, a["self"], node, [d + (d >= dim) for d in a["self"].axes])


def permuted(cx, node, v, order):
    order = [d % len(v.shape) for d in order]
    return identity(cx, v, node, [order.index(d) for d in v.axes])


@op("permute")
def _(cx, node, a):
    return permuted(cx, node, a["self"], a["dims"])


@op("transpose", "swapaxes", "swapdims")
def _(cx, node, a):
    v = a["self"]
    i, j = (a["dim0"], a["dim1"]) if "dim0" in a else (a["axis0"], a["axis1"])
    order = list(range(len(v.shape)))
    order[i], order[j] = order[j], order[i]
    return permuted(cx, node, v, order)


@op("t", "numpy_T", "mT", "adjoint")
def _(cx, node, a):
    order = list(range(len(a["self"].shape)))
    return permuted(cx, node, a["self"], order[::-1] if node.op() in ("t", "numpy_T") else order[:-2] + [order[-1], order[-2]])


@op("movedim", "moveaxis")
def _(cx, node, a):
    v = a["self"]
    rank = len(v.shape)
    source, to = ([s] if isinstance(s, int) else s for s in (a["source"], a["destination"]))
    order = [d for d in range(rank) if d not in [s % rank for s in source]]
    for t, s in sorted((t % rank, s % rank) for s, t in zip(source, to)):
        order.insert(t, s)
    return permuted(cx, node, v, order)


@op("expand", "expand_as", "broadcast_to")
def _(cx, node, a):
    a.get("other")  # whose shape it has
    return expanded(cx, node, a["self"])


def expanded(cx, node, v):
    shape = node.shape
    shift = len(shape) - len(v.shape)
    own = [d + shift for d in v.axes]
    v = Value(v.var, (1,) * shift + v.shape, own, v.dtype)
    grown = [d for d in range(len(shape)) if shape[d] != v.shape[d]]
    if not grown:
        return identity(cx, v, node, own)
    axes = broadcast_axes([v, Value(None, shape, grown, None)], shape)
    v = aligned(cx, v, axes, len(shape))
    return cx.result(Call("broadcast", v.var, [shape_list([shape[d] for d in axes])]), axes, node)


@op("repeat", "tile")
def _(cx, node, a):
    v, times = a["self"], a.get("repeats") or a.get("dims")
    times = [1] * (len(v.shape) - len(times)) + list(times)
    shift = len(times) - len(v.shape)
    v = Value(v.var, (1,) * shift + v.shape, [d + shift for d in v.axes], v.dtype)
    for d, n in enumerate(times):
        if n != 1:
            if v.shape[d] == 1:
                shape = v.shape[:d] + (n,) + v.shape[d + 1:]
                axes = v.axes if d in v.axes else sorted(list(v.axes) + [d])
                v = with_axes(cx, v, axes)
                v = cx.new(Call("broadcast", v.var, [shape_list([shape[x] for x in axes])]), shape, axes, v.dtype)
            else:
                v = cx.new(Call("concat", None, [Call("repeat", None, [v.var, Num(n, "times")])], [("axis", v.at(d))]), v.shape[:d] + (n * v.shape[d],) + v.shape[d + 1:],
                           v.axes, v.dtype)
    return identity(cx, v, node)


@op("repeat_interleave")
def _(cx, node, a):
    v, n, d = a["self"], a["repeats"], a["dim"] % len(a["self"].shape)
    v = with_axes(cx, v, v.axes if v.real(d) else sorted(list(v.axes) + [d]))
    at = v.at(d)
    ours = v.ours
    grown = ours[:at + 1] + [n] + ours[at + 1:]
    x = Call("broadcast", Index(v.var, none_index(len(ours), [at + 1])), [shape_list(grown)])
    return cx.result(Call("reshape", x, [shape_list(ours[:at] + [n * ours[at]] + ours[at + 1:])]), v.axes, node)


def subscript(cx, node, v, dim, text, keep=True):
    at = v.at(dim)
    subs = [":"] * at + [text]
    if at > 1 and at == len(v.axes) - 1:
        subs = ["...", text]
    axes = v.axes if keep else [d - (d > dim) for d in v.axes if d != dim]
    return cx.result(Index(v.var, subs), axes, node)


@op("slice", "narrow")
def _(cx, node, a):
    v, dim = a["self"], a["dim"] % len(a["self"].shape)
    n, step = v.shape[dim], a.get("step", 1)
    start = a.get("start") or 0
    end = start + a["length"] if "length" in a else a.get("end")
    if not v.real(dim) or node.shape == v.shape and step == 1:
        return identity(cx, v, node)
    start = max(start + n, 0) if start < 0 else min(start, n)
    end = n if end is None else max(end + n, 0) if end < 0 else min(end, n)
    first = [] if start == 0 else [Num(start, "start")]
    return subscript(cx, node, v, dim, Span(first, [] if end == n else [Num(end, "end")], step))


@op("select")
def _(cx, node, a):
    v, dim, place = a["self"], a["dim"] % len(a["self"].shape), a["index"]
    if not v.real(dim):
        return identity(cx, v, node, [d - (d > dim) for d in v.axes])
    return subscript(cx, node, v, dim, Num(place, "index"), keep=False)


def parts_of(cx, node, v, dim, sizes):
    dim %= len(v.shape)
    if not v.real(dim):
        v = with_axes(cx, v, sorted(list(v.axes) + [dim]))
    out, at, shapes = [], 0, []
    for s in sizes:
        shapes.append(v.shape[:dim] + (s,) + v.shape[dim + 1:])
    if len(sizes) == 1:
        return [v]
    if all(s == sizes[0] for s in sizes):
        options = [] if v.at(dim) == len(v.axes) - 1 else [("axis", v.at(dim))]
        variables = cx.several(Call("split", v.var, [Num(len(sizes), "parts")], options), [[s[d] for d in v.axes] for s in shapes])
        return [Value(x, s, v.axes, v.dtype) for x, s in zip(variables, shapes)]
    for s, shape in zip(sizes, shapes):
        span = Span([] if at == 0 else [Num(at, "start")], [] if at + s == v.shape[dim] else [Num(at + s, "end")], 1)
        place = v.at(dim)
        out.append(cx.new(Index(v.var, (["..."] if place > 1 and place == len(v.axes) - 1 else [":"] * place) + [span]), shape, v.axes, v.dtype))
        at += s
    return out


@op("split", "split_with_sizes", "chunk", "tensor_split")
def _(cx, node, a):
    a.get("indices")  # which the sizes say
    sizes = [tuple(v.shape)[a["dim"]] for v in node.val]
    return parts_of(cx, node, a["self"], a["dim"], [int(s) for s in sizes])


@op("unbind")
def _(cx, node, a):
    v, dim = a["self"], a["dim"] % len(a["self"].shape)
    if not v.real(dim):
        return [Value(v.var, v.shape[:dim] + v.shape[dim + 1:], [d - (d > dim) for d in v.axes], v.dtype)]
    at = v.at(dim)
    shape = v.shape[:dim] + v.shape[dim + 1:]
    axes = [d - (d > dim) for d in v.axes if d != dim]
    return [cx.new(Index(v.var, ([":"] * at if at < 2 or at < len(v.axes) - 1 else ["..."]) + [str(i)]), shape, axes, v.dtype) for i in range(v.shape[dim])]


@op("getitem")
def _(cx, node, a):
    return a["self"][a["index"]]


@op("cat", "concat", "concatenate")
def _(cx, node, a):
    values = [v for v in a["tensors"] if v.shape != (0,)]
    dim = a["dim"] % len(values[0].shape)
    if len(values) == 1:
        return identity(cx, values[0], node)
    axes = max((v.axes for v in values), key=len)
    if dim not in axes:
        axes = sorted(list(axes) + [dim])
    values = [with_axes(cx, v, axes) for v in values]
    at = list(axes).index(dim)
    return cx.result(Call("concat", None, [List([v.var for v in values])], [] if at == len(axes) - 1 else [("axis", at)]), axes, node)


@op("stack")
def _(cx, node, a):
    values, dim = a["tensors"], a["dim"] % len(node.shape)
    axes = max((v.axes for v in values), key=len)
    values = [with_axes(cx, v, axes) for v in values]
    lifted = [d + (d >= dim) for d in axes]
    at = sum(1 for d in lifted if d < dim) if list(lifted) == sorted(lifted) else 0
    return cx.result(Call("stack", None, [List([v.var for v in values])], [("axis", at)] if at else []), lifted[:at] + [dim] + lifted[at:], node)


@op("roll")
def _(cx, node, a):
    v = a["self"]
    if not a["dims"]:
        flat = Part(node, None)
        flat.shape = (math.prod(v.shape),)
        return reshaped(cx, node, OPS["roll"](cx, flat, {"self": reshaped(cx, flat, v, flat.shape), "shifts": a["shifts"], "dims": [0]}), node.shape)
    for shift, dim in zip(a["shifts"], a["dims"]):
        n, at = v.shape[dim], None
        shift %= n
        if not shift or not v.real(dim):
            continue
        at = v.at(dim)
        head = ["..."] if at > 1 and at == len(v.axes) - 1 else [":"] * at
        parts = [Index(v.var, head + [Span([Num(n - shift, "from")], [], 1)]), Index(v.var, head + [Span([], [Num(n - shift, "from")], 1)])]
        v = cx.new(Call("concat", None, [List(parts)], [] if at == len(v.axes) - 1 else [("axis", at)]), v.shape, v.axes, v.dtype)
    return identity(cx, v, node)


@op("flip")
def _(cx, node, a):
    v = a["self"]
    for dim in a["dims"]:
        if v.real(dim):
            v = cx.new(Call("flip", v.var, [v.at(dim)]), v.shape, v.axes, v.dtype)
    return identity(cx, v, node)


@op("constant_pad_nd", "pad")
def _(cx, node, a):
    v, p = a["self"], a["pad"]
    if a.get("mode", "constant") != "constant":
        return beyond(cx, node, v, p, a["mode"])
    value = a.get("value") or 0
    low_high = {len(v.shape) - 1 - i: (p[2 * i], p[2 * i + 1]) for i in range(len(p) // 2)}
    grown = [d for d, lh in low_high.items() if lh != (0, 0)]
    if not grown:
        return identity(cx, v, node)
    v = with_axes(cx, v, v.axes if all(v.real(d) for d in grown) else sorted(set(v.axes) | set(grown)))
    if any(n < 0 for lh in low_high.values() for n in lh):
        shape = list(v.shape)
        for d, (low, high) in low_high.items():
            if low < 0 or high < 0:
                at = v.at(d)
                span = Span([Num(-low, "start")] if low < 0 else [], [Num(shape[d] + high, "end")] if high < 0 else [], 1)
                shape[d] += min(low, 0) + min(high, 0)
                low_high[d] = (max(low, 0), max(high, 0))
                v = cx.new(Index(v.var, [":"] * at + [span]), shape, v.axes, v.dtype)
        if all(lh == (0, 0) for lh in low_high.values()):
            return identity(cx, v, node)
    pairs = List([List([Num(n, "padding") for n in low_high.get(d, (0, 0))]) for d in v.axes])
    return cx.result(Call("pad", v.var, [pairs], [("value", cx.number(value))] if value else []), v.axes, node)


def beyond(cx, node, v, p, mode):
    """Pictures and signals, (batch, channels, ...), with what mode says around them."""
    if len(v.shape) != len(p) // 2 + 2:
        raise cx.unsupported(node, f"of mode {mode} for other than the last axes of (batch, channels, ...) has no counterpart")
    v, pairs = channels_last(cx, v), [(p[k], p[k + 1]) for k in range(len(p) - 2, -1, -2)]
    if any(n < 0 for n in p):
        raise cx.unsupported(node, f"of mode {mode} by less than 0 has no counterpart")
    if mode == "reflect" and len(set(p)) == 1 and len(pairs) == 2:
        return cx.result(Call("reflect_pad", v.var, [Num(p[0], "padding")]), v.axes, node)
    if mode in ("replicate", "circular"):
        widths = List([List([Num(n, "padding") for n in pair]) for pair in pairs])
        return cx.result(Call("edge_pad" if mode == "replicate" else "wrap_pad", v.var, [widths]), v.axes, node)
    if mode != "reflect":
        raise cx.unsupported(node, f"of mode {mode} has no counterpart")
    shape = list(v.shape)
    for at, pair in enumerate(pairs):
        if any(pair):
            places = np.pad(np.arange(shape[2 + at]), pair, mode="reflect")
            shape[2 + at] = len(places)
            v = cx.new(Index(v.var, [":"] * at + [List([Num(int(n), "place") for n in places])]), shape, v.axes, v.dtype)
    return identity(cx, v, node)


for _n in (1, 2, 3):
    OPS[f"reflection_pad{_n}d"] = lambda cx, node, a: beyond(cx, node, a["self"], a["padding"], "reflect")
    OPS[f"replication_pad{_n}d"] = lambda cx, node, a: beyond(cx, node, a["self"], a["padding"], "replicate")


# ---- sums

FLAT = {"flatten", "view", "reshape", "squeeze", "select", "getitem"}  # after which an axis of 1 is not wanted


def reduction(cx, node, v, dims, keep, fn):
    rank = len(v.shape)
    dims = range(rank) if dims is None or dims == [] else [dims] if isinstance(dims, int) else dims
    dims = {d % rank for d in dims}
    places = [i for i, d in enumerate(v.axes) if d in dims]
    left = [d for d in v.axes if d not in dims]
    if not keep:
        kept = [d for d in range(rank) if d not in dims]
        left = [kept.index(d) for d in left]
    if not places:  # of one element
        if fn in ("norm", "variance", "argmax"):
            return cx.result({"norm": Call("abs", v.var), "variance": Op("*", v.var, 0), "argmax": Call("i32", Op("*", v.var, 0))}[fn], left, node)
        return identity(cx, v, node, left)
    stays = keep and fn in ("mean", "sum", "max", "min", "norm", "variance", "logsumexp") and any(u.op() not in FLAT for u in getattr(node, "node", node).users)
    if stays:
        left = list(v.axes)
    if len(places) == 1 and places[0] == len(v.axes) - 1 and len(v.axes) > 1:
        places = [-1]
    args = [] if len(places) == len(v.axes) and fn != "logsumexp" else [places[0] if len(places) == 1 else List([Num(p, "axis") for p in places])]
    return cx.result(Call(fn, v.var, args, [("keep", True)] if stays else []), left, node)


@op("mean", "sum", "amax", "amin", "prod", "logsumexp")
def _(cx, node, a):
    v = a["self"]
    other = v.dtype != bool and not is_float(v.dtype) and v.dtype != node.val.dtype  # sums of whole numbers are of 64 bits
    if a.get("dtype") and is_float(v.dtype) != is_float(node.val.dtype) or other or not is_float(v.dtype) and node.op() == "mean":
        kind = node.val.dtype if node.op() != "mean" else np.dtype("float32")
        v = cx.new(Call("f32" if is_float(kind) else cx.importer.whole_type(kind), v.var), v.shape, v.axes, kind)
    elif node.op() in ("sum", "prod"):
        v = wide(cx, v, node)
    return reduction(cx, node, v, a.get("dim"), a.get("keepdim", False), {"amax": "max", "amin": "min"}.get(node.op(), node.op()))


@op("max", "min")
def _(cx, node, a):
    if "other" in a:
        return elementwise(cx, node, lambda p, q: Call(node.op() + "imum", p, [q]), a["self"], a["other"])
    if a.get("dim") is None:
        return reduction(cx, node, a["self"], None, False, node.op())
    return [reduction(cx, Part(node, 0), a["self"], a["dim"], a["keepdim"], node.op()),
            places(cx, Part(node, 1), a["self"], a["dim"], a["keepdim"], node.op() == "min")]


def places(cx, node, v, dim, keep, least):
    """argmax or argmin, whose result has no axis for what it is over"""
    v = cx.new(Op("-", 0, v.var), v.shape, v.axes, v.dtype) if least else v
    y = reduction(cx, node, v, dim, keep, "argmax")
    return y if not keep or dim is None else Value(y.var, node.shape, y.axes, y.dtype)


class Part:
    """One result of a node of several."""

    def __init__(self, node, n):
        self.node, self.val = node, node.val if n is None else node.val[n]
        self.shape = tuple(self.val.shape)
        self.trace, self.stack, self.op = node.trace, node.stack, node.op


@op("argmax", "argmin")
def _(cx, node, a):
    return places(cx, node, a["self"], a["dim"], a["keepdim"], node.op() == "argmin")


@op("var", "std", "var_mean")
def _(cx, node, a):
    v = a["self"]
    dims = a.get("dim")
    dims = range(len(v.shape)) if dims is None else [dims] if isinstance(dims, int) else dims
    n = math.prod(v.shape[d] for d in dims)
    correction = a["correction"] if a.get("correction") is not None else 1 if a.get("unbiased", True) else 0
    several = node.op() == "var_mean"
    part = Part(node, 0) if several else node
    y = reduction(cx, part, v, list(dims), a.get("keepdim", False), "variance")
    if correction:
        y = cx.new(Op("*", y.var, Num(n / (n - correction), "factor")), y.shape, y.axes, y.dtype)
    if node.op() == "std":
        y = cx.new(Call("sqrt", y.var), y.shape, y.axes, y.dtype)
    return [y, reduction(cx, Part(node, 1), v, list(dims), a.get("keepdim", False), "mean")] if several else y


@op("linalg_vector_norm", "norm")
def _(cx, node, a):
    order = a.get("ord", a.get("p"))
    if order not in (2, 2.0, None):
        raise cx.unsupported(node, f"of order {order} has no counterpart")
    return reduction(cx, node, a["self"], a.get("dim"), a.get("keepdim", False), "norm")


@op("softmax", "_softmax", "log_softmax", "_log_softmax")
def _(cx, node, a):
    v, fn = a["self"], node.op().lstrip("_")
    if not v.real(a["dim"]):
        v = with_axes(cx, v, list(v.axes) + [a["dim"]])
    at = v.at(a["dim"])
    return cx.result(Call(fn, v.var, options=[] if at == len(v.axes) - 1 else [("axis", at)]), v.axes, node)


@op("topk")
def _(cx, node, a):
    v = a["self"]
    dim, sign = a["dim"] % len(v.shape), 1 if a.get("largest", True) else -1
    if sign < 0:
        v = cx.new(Op("-", 0, v.var), v.shape, v.axes, v.dtype)
    v = v if v.real(dim) else with_axes(cx, v, sorted(list(v.axes) + [dim]))
    at = v.at(dim)
    shapes = [m.shape for m in node.val]
    variables = cx.several(Call("top_k", v.var, [Num(a["k"], "k")], [] if at == len(v.axes) - 1 else [("axis", at)]), [[s[d] for d in v.axes] for s in shapes])
    found = [Value(x, s, v.axes, m.dtype) for x, s, m in zip(variables, shapes, node.val)]
    return found if sign > 0 else [cx.new(Op("-", 0, found[0].var), found[0].shape, found[0].axes, found[0].dtype), found[1]]


@op("cumsum")
def _(cx, node, a):
    v = wide(cx, a["self"], node)
    return cx.result(Call("cumsum", v.var, options=[("axis", v.at(a["dim"]))] if v.at(a["dim"]) else []), v.axes, node)


# ---- products

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def product(cx, node, spec_a, spec_b, spec_out, a, b):
    """einsum over letters, one for each axis of PyTorch's: a and b without those that are missing, the result in PyTorch's order."""
    a, b = wide(cx, a, node), wide(cx, b, node)
    s = ["".join(spec[d] for d in v.axes) for spec, v in ((spec_a, a), (spec_b, b))]
    out = "".join(c for c in spec_out if c in s[0] or c in s[1])
    axes = [d for d, c in enumerate(spec_out) if c in out]
    if len(s[0]) >= 2 and len(s[1]) >= 2 and s[0][-1] == s[1][-2] and out == s[0][:-1] + s[1][-1] and (s[1][:-2] == s[0][:-2] or len(s[1]) == 2) and s[0][-1] not in out:
        return cx.result(Op("@", a.var, b.var), axes, node)
    if len(s[0]) >= 2 and len(s[1]) >= 2 and s[0][-1] == s[1][-1] and out == s[0][:-1] + s[1][-2] and (s[1][:-2] == s[0][:-2] or len(s[1]) == 2) and s[0][-1] not in out:
        return cx.result(Op("@", a.var, Call("transpose", b.var)), axes, node)
    return cx.result(Call("einsum", None, [f'"{s[0]},{s[1]}->{out}"', a.var, b.var]), axes, node)


@op("matmul", "bmm", "mm", "__matmul__", "linalg_matmul")
def _(cx, node, a):
    x, y = a["self"], a.get("other", a.get("mat2"))
    return matmul(cx, node, x, y)


def matmul(cx, node, x, y):
    lead = LETTERS[:max(len(x.shape), len(y.shape), 2) - 2]
    xs = "k" if len(x.shape) == 1 else lead[len(lead) - len(x.shape) + 2:] + "tk"
    ys = "k" if len(y.shape) == 1 else lead[len(lead) - len(y.shape) + 2:] + "ku"
    out = lead + ("t" if len(x.shape) > 1 else "") + ("u" if len(y.shape) > 1 else "")
    return product(cx, node, xs, ys, out, x, y)


@op("baddbmm", "addmm")
def _(cx, node, a):
    w = a.get("mat2")
    if isinstance(w, Use):
        if w.library is not None and a["beta"] == 1 and a["alpha"] == 1:  # a linear map whose weight is stored transposed
            x = last(cx, a["mat1"], -1)
            return cx.result(Call("dense", x.var, [Num(w.shape[1], "width")], name=w.library), x.axes, node)
        a = {k: a[k] for k in ("self", "mat1", "mat2", "beta", "alpha")}
        a = {**a, "mat2": w.value(cx), "self": a["self"].value(cx)}
    a.get("self")  # which is left out where beta is 0
    if a["beta"] != 1 or a["alpha"] != 1:
        x, y = (a["batch1"], a["batch2"]) if "batch1" in a else (a["mat1"], a["mat2"])
        z = elementwise_number(cx, matmul(cx, node, x, y), a["alpha"])
        return z if a["beta"] == 0 else elementwise(cx, node, lambda p, q: Op("+", p, q), z, elementwise_number(cx, a["self"], a["beta"]))
    x, y = (a["batch1"], a["batch2"]) if "batch1" in a else (a["mat1"], a["mat2"])
    return elementwise(cx, node, lambda p, q: Op("+", p, q), matmul(cx, node, x, y), a["self"])


@op("einsum")
def _(cx, node, a):
    left, out = a["equation"].replace(" ", "").split("->") if "->" in a["equation"] else (a["equation"].replace(" ", ""), None)
    specs, values = left.split(","), a["tensors"]
    free = [c for c in LETTERS + LETTERS.upper() if c not in left]
    lead = "".join(free[:max(len(v.shape) - len(s.replace("...", "")) for s, v in zip(specs, values))])
    specs = [s.replace("...", lead[len(lead) - (len(v.shape) - len(s) + 3):]) if "..." in s else s for s, v in zip(specs, values)]
    if out is None:
        raise cx.unsupported(node, "without an arrow has no counterpart")
    out = out.replace("...", lead)
    if len(values) == 2 and all(len(set(s)) == len(s) for s in specs):
        return product(cx, node, specs[0], specs[1], out, *values)
    s = ["".join(spec[d] for d in v.axes) for spec, v in zip(specs, values)]
    kept = "".join(c for c in out if any(c in t for t in s))
    return cx.result(Call("einsum", None, [f'"{",".join(s)}->{kept}"'] + [v.var for v in values]), [d for d, c in enumerate(out) if c in kept], node)


# ---- layers

def last(cx, v, dim):
    """With PyTorch's axis dim as the last."""
    dim %= len(v.shape)
    if v.axes and v.axes[-1] == dim:
        return v
    return with_axes(cx, v, [d for d in v.axes if d != dim] + [dim])


def channels_last(cx, v, spatial=None):
    """[h, w, c], all there, of PyTorch's (1, c, h, w)"""
    rank = len(v.shape)
    return with_axes(cx, v, list(range(2, rank)) + [1])


@op("linear")
def _(cx, node, a):
    x, w = last(cx, a["input"], -1), a["weight"]
    if w.library is not None:
        width = node.shape[-1]
        return cx.result(Call("dense", x.var, [Num(width, "width")], [] if a["bias"] else [("bias", False)], name=w.library), x.axes, node)
    y = Op("@", x.var, Call("transpose", w.whole(cx).var))
    return cx.result(y if a["bias"] is None else Op("+", y, a["bias"].value(cx).var), x.axes, node)


def each(values):
    """A number where all are equal, else a list."""
    values = list(values)
    return values[0] if all(v == values[0] for v in values) else values


def setting(value, hint):
    return List([Num(v, hint) for v in value]) if isinstance(value, list) else Num(value, hint)


def padding_of(padding, size, dilation):
    """-> None for \"same\", the default, else an expression"""
    same = [d * (k - 1) for k, d in zip(size, dilation)]
    if any(isinstance(p, tuple) for p in padding):  # before and after
        return List([List([Num(p, "padding"), Num(q, "padding")]) for p, q in padding])
    if all(2 * p == s for p, s in zip(padding, same)):
        return None
    if not any(padding):
        return '"valid"'
    p = each(padding)
    return Num(p, "padding") if not isinstance(p, list) else List([List([Num(q, "padding"), Num(q, "padding")]) for q in p])


@op("conv1d", "conv2d", "conv3d", "convolution")
def _(cx, node, a):
    if a.get("transposed"):
        raise cx.unsupported(node, "that is transposed has no counterpart")
    a.get("output_padding")  # of those that are
    x, w = channels_last(cx, a["input"]), a["weight"]
    n = len(w.shape) - 2
    size, stride, dilation, padding = list(w.shape[2:]), a["stride"], a["dilation"], a["padding"]
    stride, dilation = (list(v) * n if len(v) == 1 else list(v) for v in (stride, dilation))
    if isinstance(padding, str):
        pad = '"valid"' if padding == "valid" else None
        if pad is None and any(d * (k - 1) % 2 for k, d in zip(size, dilation)):
            pad = List([List([d * (k - 1) // 2, d * (k - 1) - d * (k - 1) // 2]) for k, d in zip(size, dilation)])
    else:
        pad = padding_of(list(padding) * n if len(padding) == 1 else padding, size, dilation)
    options = [] if all(s == 1 for s in stride) else [("stride", setting(each(stride), "stride"))]
    options += [("padding", pad)]
    if any(d != 1 for d in dilation):
        options.append(("dilation", setting(each(dilation), "dilation")))
    if w.library is not None:
        if a["groups"] != 1:
            options.append(("groups", Num(a["groups"], "width" if a["groups"] == x.shape[1] else "groups")))
        options += [] if a["bias"] else [("bias", False)]
        return cx.result(Call("conv", x.var, [Num(w.shape[0], "width"), setting(each(size), "size")], options, name=w.library), x.axes, node)
    full = List([List(list(p) if isinstance(p, tuple) else [p, p]) for p in (padding if len(padding) == n else padding * n)]) if not isinstance(padding, str) else \
        List([List([0, 0])] * n) if padding == "valid" else pad
    y = Call("convolve", x.var, [w.whole(cx).var], [("stride", List(stride)), ("padding", full if full is not None else List([List([d * (k - 1) // 2] * 2) for k, d in zip(size, dilation)])),
                                                    ("dilation", List(dilation)), ("input_dilation", List([1] * n)), ("groups", a["groups"])])
    return cx.result(y if a["bias"] is None else Op("+", y, a["bias"].value(cx).var), x.axes, node)


@op("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def _(cx, node, a):
    x, w = channels_last(cx, a["input"]), a["weight"]
    if w.library is None:
        raise cx.unsupported(node, "with a weight that is used elsewhere, too, has no counterpart")
    options = []
    for key, default in (("stride", 1), ("padding", 0), ("output_padding", 0), ("dilation", 1)):
        value = each(a[key])
        if value != default:
            options.append((key, setting(value, key)))
    if a["groups"] != 1:
        options.append(("groups", Num(a["groups"], "groups")))
    options += [] if a["bias"] else [("bias", False)]
    return cx.result(Call("conv_transpose", x.var, [Num(w.shape[1] * a["groups"], "width"), setting(each(w.shape[2:]), "size")], options, name=w.library), x.axes, node)


@op("batch_norm", "_native_batch_norm_legit_no_training")
def _(cx, node, a):
    x, w = a["input"], a["weight"]
    x = channels_last(cx, x) if len(x.shape) > 2 else last(cx, x, 1)
    if a.get("training"):
        raise cx.unsupported(node, "by the batch's statistics where it predicts has no counterpart")
    if w is None or w.library is None:
        raise cx.unsupported(node, "without a weight and a bias of its own has no counterpart")
    options = [("momentum", Num(a["momentum"], "momentum") if a["momentum"] != 0.1 else None), ("eps", Num(a["eps"], "eps") if a["eps"] != 1e-5 else None)]
    return cx.result(Call("batchnorm", x.var, options=options, name=w.library), x.axes, node)


@op("layer_norm")
def _(cx, node, a):
    x, shape, w = a["input"], a["normalized_shape"], a["weight"]
    if len(shape) == 1:
        x = last(cx, x, -1)
        if w is not None and w.library is not None:
            options = [("eps", Num(a["eps"], "eps") if a["eps"] != 1e-5 else None), ("bias", None if a["bias"] else False)]
            return cx.result(Call("layernorm", x.var, options=options, name=w.library), x.axes, node)
    rank = len(x.shape)
    dims = [d for d in range(rank - len(shape), rank)]
    z = normalized(cx, x, dims, a["eps"])
    for key, sign in (("weight", "*"), ("bias", "+")):
        if a[key] is not None:
            z = elementwise(cx, node, lambda p, q: Op(sign, p, q), z, a[key].value(cx))
    return identity(cx, z, node)


def normalized(cx, x, dims, eps):
    places = [i for i, d in enumerate(x.axes) if d in dims]
    axes = -1 if places == [len(x.axes) - 1] else List([Num(p, "axis") for p in places])
    mean = Call("mean", x.var, [axes], [("keep", True)])
    spread = Call("sqrt", Op("+", Call("variance", x.var, [axes], [("keep", True)]), Num(eps, "eps")))
    return cx.new(Op("/", Op("-", x.var, mean), spread), x.shape, x.axes, x.dtype)


@op("rms_norm")
def _(cx, node, a):
    x, w, eps = last(cx, a["input"], -1), a["weight"], a["eps"]
    eps = np.finfo(node.val.dtype).eps if eps is None else eps
    if w is not None and w.library is not None and len(a["normalized_shape"]) == 1:
        return cx.result(Call("rmsnorm", x.var, options=[("eps", Num(eps, "eps") if eps != 1e-6 else None)], name=w.library), x.axes, node)
    raise cx.unsupported(node, "without a weight of its own has no counterpart")


@op("group_norm", "instance_norm")
def _(cx, node, a):
    x = a["input"]
    x = channels_last(cx, x) if len(x.shape) > 2 else last(cx, x, 1)
    w = a["weight"]
    groups = a.get("num_groups", x.shape[1])
    if node.op() == "instance_norm" and not a["use_input_stats"]:
        raise cx.unsupported(node, "with stored statistics has no counterpart")
    a.get("momentum"), a.get("running_mean"), a.get("running_var")  # which nothing reads
    if w is not None and w.library is not None:
        return cx.result(Call("groupnorm", x.var, [Num(groups, "width" if groups == x.shape[1] else "groups")], [("eps", Num(a["eps"], "eps") if a["eps"] != 1e-5 else None)],
                              name=w.library), x.axes, node)
    if groups not in (1, x.shape[1]):
        raise cx.unsupported(node, "without a weight of its own has no counterpart")
    dims = [d for d in range(2 if groups > 1 else 1, len(x.shape))]
    z = normalized(cx, x, dims, a["eps"])
    for key, sign in (("weight", "*"), ("bias", "+")):
        if a[key] is not None:
            q = a[key].value(cx)
            z = elementwise(cx, node, lambda p, r: Op(sign, p, r), z, Value(q.var, (1,) + q.shape + (1,) * (len(x.shape) - 2), [1], q.dtype))
    return identity(cx, z, node)


@op("prelu")
def _(cx, node, a):
    w = a["weight"]
    x = channels_last(cx, a["self"]) if len(a["self"].shape) > 2 else last(cx, a["self"], 1)
    if w.library is not None and w.shape[0] == x.shape[1]:
        return cx.result(Call("prelu", x.var, name=w.library), x.axes, node)
    return cx.result(Call("where", None, [Op(">", x.var, 0), x.var, Op("*", w.value(cx).var, x.var)]), x.axes, node)


@op("lstm", "gru", "rnn")
def _(cx, node, a):
    """One layer, one direction, [batch, steps, channels]: the outputs, the last state and, of lstm, the last cell"""
    x, w = a["input"], a["weight_hh"]
    if w.library is None:
        raise cx.unsupported(node, "with weights that are used elsewhere, too, has no counterpart")
    x = with_axes(cx, x, [1, 2])
    options = [("act", a["act"] if a.get("act", "tanh") != "tanh" else None)]
    options += [(name, with_axes(cx, v, [1]).var) for name, v in zip(("state", "cell"), a["state"])] + [("bias", None if a.get("bias_ih") else False)]
    options.append(("reset_after", a.get("reset_after")))
    call = Call(node.op(), x.var, [Num(w.shape[1], "width")], options, name=w.library)
    vars = cx.several(call, [[m.shape[d] for d in range(1, len(m.shape))] for m in node.val])
    return [Value(v, m.shape, list(range(1, len(m.shape))), m.dtype) for v, m in zip(vars, node.val)]


def real_axes(shape):
    """All axes but those of one element."""
    return [d for d, s in enumerate(shape) if s != 1]


@op("scan_input")
def _(cx, node, a):
    """In the step of a loop: a state, or an element of a sequence"""
    loop, axes, ours = cx.frame.scan, real_axes(node.shape), [s for s in node.shape if s != 1]
    outer = loop.parts[a["index"]] if a["kind"] == "state" else loop.expr.elements[a["index"]]
    var = cx.frame.body.take(outer.hint, ours)
    var.whole = not is_float(node.val.dtype)
    cx.frame.inputs.append(Value(outer, node.shape, axes, node.val.dtype))
    return Value(var, node.shape, axes, node.val.dtype)


@op("result")
def _(cx, node, a):
    return tensor_of(cx, with_axes(cx, a["self"], real_axes(node.shape)), node)


def tensor_of(cx, v, node):
    """A number as a tensor of its type."""
    if not isinstance(v.var, Num):
        return v
    e = Call("broadcast", None, [v.var, List([])])
    return cx.new(e if is_float(v.dtype) else Call(cx.importer.whole_type(v.dtype), e), v.shape, v.axes, v.dtype)


@op("scan")
def _(cx, node, a):
    """A loop: the last states, then the stacks of what its step makes besides"""
    loop = cx.frame.scans[a["path"]]
    loop.expr.firsts = [tensor_of(cx, with_axes(cx, v, real_axes(v.shape)), node).var for v in a["first"]]
    loop.expr.sequences = [with_axes(cx, v, [0] + [d for d in real_axes(v.shape) if d]).var for v in a["sequences"]]
    cx.frame.body.defs.append(loop)
    states = len(a["first"])
    return [Value(p, m.shape, real_axes(m.shape) if n < states else [0] + [d for d in real_axes(m.shape) if d], m.dtype) for n, (p, m) in enumerate(zip(loop.parts, node.val))]


@op("embedding")
def _(cx, node, a):
    w, i = a["weight"], a["indices"]
    axes = list(i.axes) + [len(node.shape) - 1]
    if w.library is not None:
        count = [] if cx.is_input(i, w.shape[0]) else [("count", Num(w.shape[0], "count"))]
        y = cx.result(Call("embedding", i.var, [Num(w.shape[1], "width")], count, name=w.library), axes, node)
    else:
        y = cx.result(Index(w.whole(cx).var, [i.var]), axes, node)
    if a["padding_idx"] < 0 or a["indices"].const:
        return y
    pad = Index(Op("==", i.var, Num(a["padding_idx"], "padding")), none_index(len(i.axes), [len(i.axes)]))  # its row gets no gradient from here
    return cx.result(Call("where", None, [pad, Call("stop_gradient", y.var), y.var]), axes, node)


@op("index")
def _(cx, node, a):
    v, indices = a["self"], a["indices"]
    used = [n for n, i in enumerate(indices) if i is not None]
    if len(used) == 2 and used[0] == 0 and v.shape[0] == 1 and used[1] == 1 and not v.real(0):  # x[arange(batch), i]
        i, v, used = indices[1], Value(v.var, v.shape[1:], [d - 1 for d in v.axes], v.dtype), [0]
        indices = [Value(i.var, i.shape, i.axes, i.dtype)]
    if len(used) != 1:
        raise cx.unsupported(node, "by several tensors has no counterpart")
    dim, i = used[0], indices[used[0]]
    i = from_front(cx, node, i, v.shape[dim])
    if i.dtype == bool:
        raise cx.unsupported(node, "by a mask has no counterpart: its result has no fixed shape")
    if not v.real(dim):
        v = with_axes(cx, v, sorted(list(v.axes) + [dim]))
    at = v.at(dim)
    more = len(i.shape) - 1
    axes = []
    for d in v.axes:
        axes += [dim + k for k in i.axes] if d == dim else [d + (more if d > dim else 0)]
    return cx.result(Index(v.var, [":"] * at + [i.var]), axes, node)


def from_front(cx, node, i, size):
    """Places that may count from the end, as PyTorch's do."""
    given = node.args.get("indices", node.args.get("index"))
    given = [g for g in given if isinstance(g, Node)][-1] if isinstance(given, list) else given
    if not cx.importer.from_end or i.dtype == bool or i.dtype.kind == "u" or not isinstance(given, Node) or given.shape != i.shape:
        return i
    if given.const is not None and (given.const >= 0).all() or given.const is None and (given.input and cx.is_input(i, size) or given.op() in FROM_FRONT):
        return i
    return cx.new(Call("where", None, [Op("<", i.var, 0), Op("+", i.var, Num(size, "count")), i.var]), i.shape, i.axes, i.dtype)


FROM_FRONT = {"argmax", "argmin", "arange"}


@op("scatter_add")
def _(cx, node, a):
    """Rows of numbers: those of src are added at the places of index"""
    x, i, v = (with_axes(cx, tensor_of(cx, a[k], node), [0]).var for k in ("self", "index", "src"))
    return cx.result(Call("scatter_add", None, [x, i, v]), [0], node)


@op("index_select")
def _(cx, node, a):
    return OPS["index"](cx, node, {"self": a["self"], "indices": [None] * (a["dim"] % len(a["self"].shape)) + [a["index"]]})


# ---- pools, sizes

def pool_padding(x, size, stride, padding, ceil):
    """[[low, high], ...] where ceil_mode needs more on the high side"""
    out, same = [], True
    for k, s, p, n in zip(size, stride, padding, x.shape[2:]):
        p, high = p if isinstance(p, tuple) else (p, p)
        if ceil:
            o = -(-(n + 2 * p - k) // s) + 1
            o -= (o - 1) * s >= n + p
            high = max(p, (o - 1) * s + k - n - p)
        same = same and high == p
        out.append([p, high])
    return out, same


def pool(cx, node, fn, a, **more):
    x = channels_last(cx, a["self"])
    a.get("count_include_pad")  # of what is padded
    n = len(x.shape) - 2
    size = list(a["kernel_size"]) * (n if len(a["kernel_size"]) == 1 else 1)
    stride = list(a["stride"] or size)
    stride = stride * (n if len(stride) == 1 else 1)
    padding = list(a["padding"]) * (n if len(a["padding"]) == 1 else 1)
    dilation = list(a.get("dilation") or [1] * n)
    dilation = dilation * (n if len(dilation) == 1 else 1)
    effective = [d * (k - 1) + 1 for k, d in zip(size, dilation)]
    pads, same = pool_padding(x, effective, stride, padding, a["ceil_mode"])
    options = [("stride", setting(each(stride), "stride"))] if stride != size else []
    if not same:
        if fn == "avgpool" and any(p not in (0, (0, 0)) for p in padding) and a["count_include_pad"]:
            raise cx.unsupported(node, "with ceil_mode and counted padding has no counterpart")
        options.append(("padding", List([List([Num(p, "padding") for p in q]) for q in pads])))
    elif any(low for low, _ in pads):
        p = each([low for low, _ in pads])
        options.append(("padding", Num(p, "padding") if not isinstance(p, list) else List([List([Num(q, "padding")] * 2) for q in p])))
        if fn == "avgpool" and a["count_include_pad"]:
            options.append(("count_padding", True))
    if any(d != 1 for d in dilation):
        if fn == "avgpool":
            raise cx.unsupported(node, "with dilation has no counterpart")
        options.append(("dilation", setting(each(dilation), "dilation")))
    return cx.result(Call(fn, x.var, [setting(each(size), "size")], options), x.axes, node)


@op("max_pool1d", "max_pool2d", "max_pool3d")
def _(cx, node, a):
    return pool(cx, node, "maxpool", a)


@op("max_pool2d_with_indices")
def _(cx, node, a):
    return [pool(cx, Part(node, 0), "maxpool", a), None]


@op("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _(cx, node, a):
    if a.get("divisor_override"):
        raise cx.unsupported(node, "with a divisor has no counterpart")
    return pool(cx, node, "avgpool", a)


@op("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d")
def _(cx, node, a):
    x = a["self"]
    size = node.shape[2:]
    if all(s == 1 for s in size):
        return reduction(cx, node, x, list(range(2, len(x.shape))), True, "mean")
    x = channels_last(cx, x)
    if size == x.shape[2:]:
        return identity(cx, x, node)
    if len(size) == 2:
        return cx.result(Call("adaptive_avgpool", x.var, [setting(each(size), "size")]), x.axes, node)
    raise cx.unsupported(node, "to a length above 1 has no counterpart")


@op("adaptive_max_pool2d", "adaptive_max_pool1d")
def _(cx, node, a):
    x, size = a["self"], node.val[0].shape[2:]
    if any(s != 1 for s in size):
        raise cx.unsupported(node, "to a size above 1 has no counterpart")
    return [reduction(cx, Part(node, 0), x, list(range(2, len(x.shape))), True, "max"), None]


@op("upsample_nearest2d", "upsample_bilinear2d", "upsample_nearest2d.vec", "upsample_bilinear2d.vec")
def _(cx, node, a):
    x = channels_last(cx, a["input"] if "input" in a else a["self"])
    by = [o / i for o, i in zip(node.shape[2:], x.shape[2:])]
    scales = a.get("scale_factors") or [a.get("scales_h"), a.get("scales_w")]
    if "nearest" in node.op():
        if any(s is not None and s != b for s, b in zip(scales, by)):
            raise cx.unsupported(node, "by a factor that does not give whole pixels has no counterpart")
        if by[0] != by[1] or by[0] != int(by[0]):
            raise cx.unsupported(node, "by anything but a whole number has no counterpart")
        return cx.result(Call("upsample", x.var, [Num(int(by[0]), "by")]), x.axes, node)
    if any(s is not None and abs(s - b) > 1e-12 for s, b in zip(scales or [], by)):
        raise cx.unsupported(node, "by a factor that does not give whole pixels has no counterpart")
    return cx.result(Call("resized", x.var, [Num(node.shape[2], "height"), Num(node.shape[3], "width")], [("align_corners", True if a["align_corners"] else None)]), x.axes, node)


@op("pixel_shuffle")
def _(cx, node, a):
    x = channels_last(cx, a["self"])
    return cx.result(Call("pixel_shuffle", x.var, [Num(a["upscale_factor"], "by")]), x.axes, node)


@op("channel_shuffle")
def _(cx, node, a):
    x = channels_last(cx, a["self"])
    h, w, c = x.ours
    g = a["groups"]
    y = Call("reshape", Call("transpose", Call("reshape", x.var, [shape_list([h, w, g, c // g])]), []), [shape_list([h, w, c])])
    return cx.result(y, x.axes, node)


# ---- attention

def causal(mask):
    """True: a constant mask that hides later keys and nothing else; None: one that hides nothing; False: another."""
    m = mask.reshape(-1, *mask.shape[-2:])[0]
    if not all(np.array_equal(m, n) for n in mask.reshape(-1, *mask.shape[-2:])):
        return False
    seen = m if m.dtype == bool else m == 0
    hidden = ~m if m.dtype == bool else (m == -math.inf) | (m <= np.finfo(m.dtype).min / 2)
    if not np.array_equal(hidden, ~seen):
        return False
    if bool(seen.all()):
        return None
    return np.array_equal(seen, np.tril(np.ones_like(seen), m.shape[-1] - m.shape[-2]))


@op("scaled_dot_product_attention")
def _(cx, node, a):
    q, k, v = a["query"], a["key"], a["value"]
    if a.get("dropout_p"):
        raise cx.unsupported(node, "with dropout where it predicts has no counterpart")
    a.get("enable_gqa")  # the shapes show it
    rank = len(q.shape)
    heads = [d for d in range(rank - 2) if q.shape[d] != 1]
    options = []
    mask = a["attn_mask"]
    if a["is_causal"] or mask is not None and mask.const is not None and causal(mask.const):
        if q.shape[-2] != k.shape[-2] and a["is_causal"]:
            raise cx.unsupported(node, "causal, of queries and keys of different lengths, has no counterpart")
        options.append(("causal", True))
        mask = None
    if mask is not None and mask.const is not None and causal(mask.const) is None:
        mask = None
    folded = []
    for x in (q, k, v):
        own = [d for d in range(rank - 2) if x.shape[d] != 1] or [rank - 3]
        if len(own) > 1 and x.shape[:-2] != q.shape[:-2]:
            raise cx.unsupported(node, "over several axes of different sizes has no counterpart")
        x = with_axes(cx, x, [rank - 2] + own + [rank - 1])
        if len(own) > 1:
            x = cx.new(Call("reshape", x.var, [shape_list([x.shape[-2], math.prod(x.shape[d] for d in own), x.shape[-1]])]), (x.shape[-2], math.prod(x.shape[d] for d in own), x.shape[-1]),
                       [0, 1, 2], x.dtype)
        folded.append(x)
    if mask is not None:
        m = mask.value(cx)
        h = math.prod(q.shape[:-2])
        shape = (1,) * (rank - len(m.shape)) + m.shape
        m = Value(m.var, shape, [d + rank - len(m.shape) for d in m.axes], m.dtype)
        own = [d for d in range(rank - 2) if q.shape[d] != 1]
        full = m.dtype != bool or any(shape[d] != 1 for d in own)
        target = (own if full else []) + [rank - 2, rank - 1]
        m = with_axes(cx, m, [d for d in target if d in own or True])
        ours = [m.shape[d] for d in target]
        wanted = ([q.shape[d] for d in own] if full else []) + [q.shape[-2], k.shape[-2]]
        expr = m.var
        if ours != wanted:
            expr = Call("broadcast", expr, [shape_list(wanted)])
        if full and len(own) != 1:
            expr = Call("reshape", expr, [shape_list([h] + wanted[-2:])])
        options.append(("mask" if m.dtype == bool else "bias", expr))
    scale = a["scale"]
    if scale is not None and abs(scale * math.sqrt(q.shape[-1]) - 1) > 1e-12:
        options.append(("scale", Num(scale, "scale")))
    call = Call("attention", folded[0].var, [folded[1].var, folded[2].var], options)
    axes = [rank - 2] + (heads or [rank - 3]) + [rank - 1]
    if len(heads) > 1:
        call = Call("reshape", call, [shape_list([q.shape[-2]] + [q.shape[d] for d in heads] + [v.shape[-1]])])
    return cx.result(call, axes, node)


# ---- what in-place operations become

@op("zero", "fill")
def _(cx, node, a):
    v = a["self"]
    return cx.result(Call("broadcast", None, [cx.number(a.get("value", 0)), shape_list(v.ours)]), v.axes, node)


@op("copy")
def _(cx, node, a):
    v = a["src"]
    if is_float(v.dtype) != is_float(node.val.dtype) or v.dtype == bool or node.val.dtype == bool:
        v = OPS["to"](cx, Part(node, None), {"self": v}) if v.shape == node.shape else None
        if v is None:
            raise cx.unsupported(node, "of another type and shape has no counterpart")
    a.get("self")
    return v if v.shape == node.shape else expanded(cx, node, v)


@op("put")
def _(cx, node, a):
    x, dim, start = a["self"], a["dim"], a["start"]
    v = with_axes(cx, a["value"], x.axes)
    at, end = x.at(dim), start + v.shape[dim]
    parts = ([Index(x.var, [":"] * at + [Span([], [Num(start, "start")], 1)])] if start else []) + [v.var]
    parts += [Index(x.var, [":"] * at + [Span([Num(end, "end")], [], 1)])] if end < x.shape[dim] else []
    return cx.result(Call("concat", None, [List(parts)], [] if at == len(x.axes) - 1 else [("axis", at)]), x.axes, node)
