"""Operators of ONNX as nodes of the graph (graph.py): one function for each, f(graph, operator) -> a node, or a list of them."""
import math

import numpy as np

from .graph import cast, cut, expand, flip, is_float, join, node, permute, reduce, reshape, table_of_operations

TRANSLATE, op = table_of_operations()
SMALL = {"int8", "int16", "uint8", "uint16"}  # arithmetic of these is in i32 here, and wraps there


def number(v):
    """An attribute of 32 bits as it would be written."""
    return float(str(np.float32(v)))


def in_range(g, operation, x, y, dtype, **more):
    """Arithmetic that wraps as the type does."""
    if str(dtype) in SMALL:
        return cast(g, node(g, operation, x, y, dtype="int32", **more), dtype)
    return node(g, operation, x, y, dtype=dtype, **more)


# ---- element by element

for _name, _aten in {"Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Floor": "floor", "Ceil": "ceil", "Round": "round",
                     "Sin": "sin", "Cos": "cos", "Tan": "tan", "Asin": "asin", "Acos": "acos", "Atan": "atan", "Sinh": "sinh", "Cosh": "cosh", "Asinh": "asinh",
                     "Acosh": "acosh", "Atanh": "atanh", "Erf": "erf", "Softsign": "softsign", "Mish": "mish", "HardSwish": "hardswish",
                     "Not": "logical_not", "Reciprocal": "reciprocal"}.items():
    TRANSLATE[_name] = (lambda aten: lambda g, n: g.add(aten, n.shape, n.dtype, self=n.x(0)))(_aten)


@op("Abs", "Neg", "Sign")
def _(g, n):
    y = {"Abs": "abs", "Neg": "neg", "Sign": "sign"}[n.type]
    if str(n.dtype) in SMALL:
        return cast(g, g.add(y, n.shape, "int32", self=cast(g, n.x(0), "int32")), n.dtype)
    return g.add(y, n.shape, n.dtype, self=n.x(0))


@op("Identity")
def _(g, n):
    return n.x(0)


@op("Dropout")
def _(g, n):
    x = n.x(0)
    if n.version < 7 and not n.attr("is_test", 0) and "is_test" in n.attributes:
        raise n.unsupported("in training mode has no counterpart: export the model in evaluation mode")
    if n.x(2) is not None and n.array(2, "training_mode").any():
        raise n.unsupported("in training mode has no counterpart: export the model in evaluation mode")
    ratio = n.attr("ratio", 0.5) if n.version < 12 else 0.5 if n.x(1) is None else float(n.array(1, "ratio"))
    y = g.add("dropout", x.shape, x.val.dtype, input=x, p=number(ratio))
    return [y, g.leaf(np.ones(x.shape, bool))] if len(n.proto.output) > 1 else y


@op("Add", "Sub", "Mul")
def _(g, n):
    return in_range(g, n.type.lower(), n.x(0), n.x(1), n.dtype)


@op("Div")
def _(g, n):
    x, y = n.x(0), n.x(1)
    if is_float(n.dtype):
        return node(g, "div", x, y)
    if n.dtype.kind == "u":
        return in_range(g, "floor_divide", x, y, n.dtype)
    a, b = (v if v.val.dtype.itemsize > 2 else cast(g, v, "int32") for v in (x, y))
    down, rest = node(g, "floor_divide", a, b), node(g, "remainder", a, b)
    return cast(g, towards_zero(g, a, b, rest, node(g, "add", down, 1), down), n.dtype)


def towards_zero(g, a, b, rest, then, other):
    """`then` where a / b is rounded towards zero upwards, `other` elsewhere; the least number has no absolute value."""
    same = node(g, "eq", node(g, "lt", a, 0, dtype=bool), node(g, "lt", b, 0, dtype=bool), dtype=bool)
    exact = node(g, "eq", node(g, "where", same, 0, rest, names=("condition", "self", "other"), dtype=a.val.dtype), 0, dtype=bool)
    return node(g, "where", exact, other, then, names=("condition", "self", "other"), dtype=a.val.dtype)


@op("Mod")
def _(g, n):
    x, y = n.x(0), n.x(1)
    if not n.attr("fmod", 0):
        if is_float(n.dtype):
            raise n.unsupported("of fractions without fmod has no counterpart")
        return in_range(g, "remainder", x, y, n.dtype)
    a, b = (v if is_float(v.val.dtype) or v.val.dtype.itemsize > 2 else cast(g, v, "int32") for v in (x, y))
    if not is_float(n.dtype):
        rest = node(g, "remainder", a, b)
        return cast(g, towards_zero(g, a, b, rest, node(g, "sub", rest, b), rest), n.dtype)
    rest = node(g, "remainder", node(g, "abs", a), node(g, "abs", b))  # with the sign of x
    return cast(g, node(g, "where", node(g, "lt", a, 0, dtype=bool), node(g, "neg", rest), rest, names=("condition", "self", "other"), dtype=a.val.dtype), n.dtype)


@op("Pow")
def _(g, n):
    x, y = n.x(0), n.x(1)
    if is_float(n.dtype):
        return node(g, "pow", x, y, names=("self", "exponent"), dtype=n.dtype)
    z = node(g, "pow", cast(g, x, "float64"), cast(g, y, "float64"), names=("self", "exponent"))
    if n.dtype.itemsize > 4:
        raise n.unsupported("of whole numbers of 64 bits has no counterpart")
    return cast(g, z, n.dtype)


for _name, _aten in {"Equal": "eq", "Greater": "gt", "GreaterOrEqual": "ge", "Less": "lt", "LessOrEqual": "le", "And": "logical_and", "Or": "logical_or", "Xor": "ne"}.items():
    TRANSLATE[_name] = (lambda aten: lambda g, n: node(g, aten, n.x(0), n.x(1), dtype=bool))(_aten)


@op("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def _(g, n):
    return in_range(g, "bit_" + n.type[7:].lower(), n.x(0), n.x(1), n.dtype)


@op("BitwiseNot")
def _(g, n):
    return g.add("bit_not", n.shape, n.dtype, self=n.x(0))


@op("BitShift")
def _(g, n):
    return in_range(g, "shift_" + n.attr("direction").lower(), n.x(0), n.x(1), n.dtype)


@op("Max", "Min")
def _(g, n):
    y = n.x(0)
    for k in range(1, len(n.inputs)):
        y = node(g, n.type.lower() + "imum", y, n.x(k))
    return y


@op("Sum", "Mean")
def _(g, n):
    y = n.x(0)
    for k in range(1, len(n.inputs)):
        y = node(g, "add", y, n.x(k))
    return node(g, "div", y, len(n.inputs)) if n.type == "Mean" and len(n.inputs) > 1 else y


@op("Clip")
def _(g, n):
    x, low, high = n.x(0), n.x(1), n.x(2)
    if n.version < 11:
        low, high = (number(n.attributes[k]) if k in n.attributes and abs(n.attributes[k]) < 3.4e38 else None for k in ("min", "max"))
    if n.version >= 11:
        low, high = (v if v is None or v.const is None else v.const.reshape(-1)[0].item() for v in (low, high))
    if low == 0 and high == 6:
        return g.add("hardtanh", n.shape, n.dtype, self=x, min_val=0, max_val=6)
    if low is not None:
        x = node(g, "maximum", x, low)
    return x if high is None else node(g, "minimum", x, high)


@op("Where")
def _(g, n):
    return node(g, "where", *n.inputs, names=("condition", "self", "other"), dtype=n.dtype)


@op("Cast", "CastLike")
def _(g, n):
    return cast(g, n.x(0), n.dtype)


@op("IsNaN")
def _(g, n):
    return node(g, "ne", n.x(0), n.x(0), dtype=bool)


@op("IsInf")
def _(g, n):
    tests = [node(g, "eq", n.x(0), sign * math.inf, dtype=bool) for sign, key in ((1, "detect_positive"), (-1, "detect_negative")) if n.attr(key, 1)]
    if not tests:
        return node(g, "lt", g.add("abs", n.shape, n.x(0).val.dtype, self=n.x(0)), 0, dtype=bool)
    return tests[0] if len(tests) == 1 else node(g, "logical_or", *tests)


@op("Elu", "Celu")
def _(g, n):
    return g.add(n.type.lower(), n.shape, n.dtype, self=n.x(0), alpha=number(n.attr("alpha", 1.0)))


@op("Selu")
def _(g, n):
    alpha, gamma = n.attr("alpha", 1.67326319217681884765625), n.attr("gamma", 1.05070102214813232421875)
    if abs(alpha - 1.6732632) < 1e-6 and abs(gamma - 1.0507010) < 1e-6:
        return g.add("selu", n.shape, n.dtype, self=n.x(0))
    return node(g, "mul", g.add("elu", n.shape, n.dtype, self=n.x(0), alpha=number(alpha)), number(gamma))


@op("LeakyRelu")
def _(g, n):
    return g.add("leaky_relu", n.shape, n.dtype, self=n.x(0), negative_slope=number(n.attr("alpha", 0.01)))


@op("ThresholdedRelu")
def _(g, n):
    return node(g, "where", node(g, "gt", n.x(0), number(n.attr("alpha", 1.0)), dtype=bool), n.x(0), 0, names=("condition", "self", "other"), dtype=n.dtype)


@op("HardSigmoid")
def _(g, n):
    alpha, beta = n.attr("alpha", 0.2), n.attr("beta", 0.5)
    if abs(alpha * 6 - 1) < 1e-6 and beta == 0.5:
        return g.add("hardsigmoid", n.shape, n.dtype, self=n.x(0))
    return g.add("clamp", n.shape, n.dtype, self=node(g, "add", node(g, "mul", n.x(0), number(alpha)), number(beta)), min=0, max=1)


@op("Shrink")
def _(g, n):
    x, bias, lambd = n.x(0), number(n.attr("bias", 0.0)), number(n.attr("lambd", 0.5))
    inner = node(g, "where", node(g, "lt", x, -lambd, dtype=bool), node(g, "add", x, bias), 0, names=("condition", "self", "other"), dtype=n.dtype)
    return node(g, "where", node(g, "gt", x, lambd, dtype=bool), node(g, "sub", x, bias), inner, names=("condition", "self", "other"), dtype=n.dtype)


@op("Softplus")
def _(g, n):
    return g.add("softplus", n.shape, n.dtype, self=n.x(0), beta=1)


@op("Gelu")
def _(g, n):
    return g.add("gelu", n.shape, n.dtype, self=n.x(0), approximate=n.attr("approximate", "none"))


@op("Swish")
def _(g, n):
    alpha = number(n.attr("alpha", 1.0))
    if alpha == 1:
        return g.add("silu", n.shape, n.dtype, self=n.x(0))
    return node(g, "mul", n.x(0), g.add("sigmoid", n.shape, n.dtype, self=node(g, "mul", n.x(0), alpha)))


@op("PRelu")
def _(g, n):
    x, w = n.x(0), n.x(1)
    if w.array is not None and len(x.shape) > 1 and w.array.size == x.shape[1] and tuple(w.shape) == (x.shape[1],) + (1,) * (len(x.shape) - 2):
        return g.add("prelu", n.shape, n.dtype, self=x, weight=g.remade(w, w.array.reshape(-1)))
    return node(g, "where", node(g, "gt", x, 0, dtype=bool), x, node(g, "mul", x, w), names=("condition", "self", "other"), dtype=n.dtype)


# ---- other shapes

@op("Reshape", "Flatten", "Squeeze", "Unsqueeze")
def _(g, n):
    if 0 in n.shape:
        raise n.unsupported("of an empty tensor has no counterpart")
    return reshape(g, n.x(0), n.shape)


@op("Transpose")
def _(g, n):
    return permute(g, n.x(0), n.ints("perm", None, list(range(len(n.shape)))[::-1]))


@op("Expand")
def _(g, n):
    return expand(g, n.x(0), n.shape)


@op("Tile")
def _(g, n):
    return g.add("repeat", n.shape, n.dtype, self=n.x(0), repeats=[int(r) for r in n.array(1, "count")])


@op("Concat")
def _(g, n):
    values = [v for v in n.inputs if 0 not in v.shape]
    return join(g, values, n.attr("axis") % len(n.shape))


@op("Split")
def _(g, n):
    x = n.x(0)
    dim = n.attr("axis", 0) % len(x.shape)
    sizes = [o.shape[dim] for o in n.outs]
    if len(sizes) == 1:
        return x
    some = [o for o in n.outs if 0 not in o.shape]
    whole = x if len(some) == 1 else g.add("split", [o.shape for o in some], [o.dtype for o in some], self=x, dim=dim)
    parts = iter([x] if len(some) == 1 else [g.add("getitem", o.shape, o.dtype, self=whole, index=k) for k, o in enumerate(some)])
    return [g.leaf(np.zeros(o.shape, o.dtype)) if 0 in o.shape else next(parts) for o in n.outs]


@op("Slice")
def _(g, n):
    x = n.x(0)
    rank = len(x.shape)
    starts, ends = n.ints("starts", 1), n.ints("ends", 2)
    axes = n.ints("axes", 3) or list(range(len(starts)))
    steps = n.ints("steps", 4) or [1] * len(starts)
    if 0 in n.shape:
        raise n.unsupported("to an empty tensor has no counterpart")
    for start, end, dim, step in zip(starts, ends, axes, steps):
        dim %= rank
        size = x.shape[dim]
        picked = range(size)[slice(start, end if end > -(1 << 62) else None, step)] if step > 0 else range(size)[slice(min(start, size - 1), end if end >= -size else None, step)]
        if step < 0:
            x = flip(g, x, [dim])
            picked = range(size - 1 - picked[0], size - picked[-1], -step)
        x = cut(g, x, dim, picked[0], picked[-1] + 1, abs(step))
    return x


def from_front(g, indices, size):
    """Indices that may be below 0, from the end."""
    if indices.array is not None:
        return g.leaf(np.where(indices.array < 0, indices.array + size, indices.array).astype("int64")) if (indices.array < 0).any() else indices
    return node(g, "where", node(g, "lt", indices, 0, dtype=bool), node(g, "add", indices, size), indices, names=("condition", "self", "other"), dtype=indices.val.dtype)


@op("Gather")
def _(g, n):
    x, i = n.x(0), n.x(1)
    dim = n.attr("axis", 0) % len(x.shape)
    if i.array is not None and (i.array.size and (i.array.min() < -x.shape[dim] or i.array.max() >= x.shape[dim])):
        raise n.unsupported(f"of rows beyond the {x.shape[dim]} that there are has no counterpart")
    if i.array is not None and i.array.ndim == 0:
        return g.add("select", n.shape, n.dtype, self=x, dim=dim, index=int(i.array) % x.shape[dim])
    if i.array is not None and i.array.ndim == 1:
        picked = [int(v) % x.shape[dim] for v in i.array]
        if picked == list(range(picked[0], picked[0] + len(picked))):
            return cut(g, x, dim, picked[0], picked[0] + len(picked))
    if x.array is not None and len(x.shape) == 2 and dim == 0 and is_float(x.val.dtype) and i.array is None:
        return g.add("embedding", n.shape, n.dtype, weight=g.weight(x), indices=i if i.input else from_front(g, i, x.shape[0]), padding_idx=-1)
    return g.add("index", n.shape, n.dtype, self=x, indices=[None] * dim + [from_front(g, i, x.shape[dim])])


def taken(g, n, x, at):
    """x, as one row of numbers, at places of at's shape"""
    row = reshape(g, x, [int(np.prod(x.shape))])
    return reshape(g, g.add("index", at.shape, x.val.dtype, self=row, indices=[at]), n.shape)


def places(shape):
    """The place of each element in a row of all."""
    return np.arange(int(np.prod(shape)), dtype="int64").reshape(shape)


def element_places(g, n, x, i):
    """Of elements that an index along one axis chooses: where they are in a row of all"""
    dim = n.attr("axis", 0) % len(x.shape)
    if g.leading and x.array is None and dim == 0 and x.shape[0] == 1:
        raise n.unsupported("over the axis of samples has no counterpart")
    stride = int(np.prod(x.shape[dim + 1:]))
    first = places(x.shape)[tuple(slice(0, 1) if d == dim else slice(0, s) for d, s in enumerate(i.shape))]  # of each row
    at = node(g, "mul", cast(g, from_front(g, i, x.shape[dim]), "int64"), stride)
    return node(g, "add", at, g.leaf(first)) if first.any() else at


def part_places(g, n, x, i, batch):
    """Of parts that the last axis of an index chooses, likewise"""
    if g.leading and x.array is None and not batch and x.shape[0] == 1:
        raise n.unsupported("over the axis of samples has no counterpart")
    count = i.shape[-1]
    rest = x.shape[batch + count:]
    at = g.leaf(places(x.shape)[(Ellipsis,) + (0,) * (len(x.shape) - batch)].reshape(list(x.shape[:batch]) + [1] * (len(i.shape) - 1 - batch))) if batch else None
    for k in range(count):
        one = g.add("select", i.shape[:-1], i.val.dtype, self=i, dim=len(i.shape) - 1, index=k)
        one = node(g, "mul", cast(g, from_front(g, one, x.shape[batch + k]), "int64"), int(np.prod(x.shape[batch + k + 1:])))
        at = one if at is None else node(g, "add", at, one)
    if rest:
        at = node(g, "add", reshape(g, at, list(at.shape) + [1] * len(rest)), g.leaf(places(rest)))
    return at


@op("GatherElements")
def _(g, n):
    return taken(g, n, n.x(0), element_places(g, n, n.x(0), n.x(1)))


@op("GatherND")
def _(g, n):
    return taken(g, n, n.x(0), part_places(g, n, n.x(0), n.x(1), n.attr("batch_dims", 0)))


@op("ScatterND", "ScatterElements", "Scatter")
def _(g, n):
    """Known places get other numbers: what is there is picked from the row of the old ones and the new ones. Sums may be anywhere."""
    x, new, reduction = n.x(0), n.x(2), n.attr("reduction", "none")
    if reduction == "add":
        at = part_places(g, n, x, n.x(1), 0) if n.type == "ScatterND" else element_places(g, n, x, n.x(1))
        row = lambda v: reshape(g, v, [int(np.prod(v.shape))])  # noqa: E731
        return reshape(g, g.add("scatter_add", row(x).shape, x.val.dtype, self=row(x), index=row(at), src=row(new)), n.shape)
    i = n.array(1, "indices")
    if reduction != "none":
        raise n.unsupported(f"with the reduction {reduction} has no counterpart")
    rank = len(x.shape)
    at = places(x.shape)
    if n.type == "ScatterND":
        index = tuple(np.moveaxis(i, -1, 0))
    else:
        dim = n.attr("axis", 0) % rank
        index = tuple(i if d == dim else np.arange(s).reshape([-1 if e == d else 1 for e in range(rank)]) for d, s in enumerate(i.shape))
    at[index] = at.size + places(new.shape).reshape(at[index].shape)
    both = join(g, [reshape(g, v, [int(np.prod(v.shape))]) for v in (x, new)], 0)
    return reshape(g, g.add("index", at.shape, x.val.dtype, self=both, indices=[g.leaf(at)]), n.shape)


@op("Pad")
def _(g, n):
    x = n.x(0)
    rank, mode = len(x.shape), n.attr("mode", "constant")
    pads = n.ints("pads", 1) or n.ints("paddings", None)
    axes = n.ints("axes", 3) or list(range(rank))
    value = n.attr("value", 0.0) if n.version < 11 else 0 if n.x(2) is None else n.array(2, "value").reshape(-1)[0].item()
    low, high = [0] * rank, [0] * rank
    for k, d in enumerate(axes):
        low[d % rank], high[d % rank] = pads[k], pads[k + len(axes)]
    if mode == "constant":
        flat = [p for d in reversed(range(rank)) for p in (low[d], high[d])]
        return g.add("constant_pad_nd", n.shape, n.dtype, self=x, pad=flat, value=value)
    for d in range(rank):  # of an axis: what is before and after it is picked from it
        if low[d] or high[d]:
            at = np.pad(np.arange(x.shape[d]), (max(low[d], 0), max(high[d], 0)), mode=mode)
            at = at[max(-low[d], 0):len(at) - max(-high[d], 0)]
            shape = list(x.shape)
            shape[d] = len(at)
            x = g.add("index", shape, n.dtype, self=x, indices=[None] * d + [g.leaf(at.astype("int64"))])
    return x


@op("DepthToSpace")
def _(g, n):
    x, b = n.x(0), n.attr("blocksize")
    k, c, h, w = x.shape
    if n.attr("mode", "DCR") == "DCR":
        return reshape(g, permute(g, reshape(g, x, [k, b, b, c // b ** 2, h, w]), [0, 3, 4, 1, 5, 2]), n.shape)
    return reshape(g, permute(g, reshape(g, x, [k, c // b ** 2, b, b, h, w]), [0, 1, 4, 2, 5, 3]), n.shape)


@op("SpaceToDepth")
def _(g, n):
    x, b = n.x(0), n.attr("blocksize")
    k, c, h, w = x.shape
    order = [0, 3, 5, 1, 2, 4] if n.attr("mode", "DCR") == "DCR" else [0, 1, 3, 5, 2, 4]
    return reshape(g, permute(g, reshape(g, x, [k, c, h // b, b, w // b, b]), order), n.shape)


@op("Trilu")
def _(g, n):
    x = n.x(0)
    k = 0 if n.x(1) is None else int(n.array(1, "diagonal"))
    rows, columns = x.shape[-2:]
    if g.leading and len(x.shape) == 2:
        raise n.unsupported("takes the axis of samples as rows, which has no counterpart")
    kept = np.triu(np.ones((rows, columns), bool), k) if n.attr("upper", 1) else np.tril(np.ones((rows, columns), bool), k)
    if kept.all() or not kept.any():
        return x if kept.all() else g.leaf(np.zeros(n.shape, n.dtype))
    return node(g, "where", g.leaf(kept), x, 0, names=("condition", "self", "other"), dtype=n.dtype)


@op("OneHot")
def _(g, n):
    x, depth = n.x(0), int(n.array(1, "depth").reshape(-1)[0])
    axis = n.attr("axis", -1) % len(n.shape)
    i = from_front(g, cast(g, x, "int64"), depth)
    i = reshape(g, i, list(x.shape[:axis]) + [1] + list(x.shape[axis:]))
    classes = g.leaf(np.arange(depth, dtype="int64").reshape([depth] + [1] * (len(n.shape) - 1 - axis)))
    hit = node(g, "eq", i, classes, dtype=bool)
    values = n.x(2)
    off, on = (g.add("select", [], n.dtype, self=values, dim=0, index=k) if values.array is None else values.array.reshape(-1)[k].item() for k in (0, 1))
    return node(g, "where", hit, on, off, names=("condition", "self", "other"), dtype=n.dtype)


@op("CumSum")
def _(g, n):
    x = n.x(0)
    dim = int(n.array(1, "axis").reshape(-1)[0]) % len(x.shape)
    y = flip(g, x, [dim]) if n.attr("reverse", 0) else x
    if n.attr("exclusive", 0):
        pads = [0, 0] * (len(x.shape) - 1 - dim) + [1, -1]
        y = g.add("constant_pad_nd", x.shape, x.val.dtype, self=y, pad=pads, value=0)
    y = g.add("cumsum", x.shape, x.val.dtype, self=y, dim=dim)
    return flip(g, y, [dim]) if n.attr("reverse", 0) else y


@op("Compress")
def _(g, n):
    x, kept = n.x(0), np.flatnonzero(n.array(1, "condition"))
    axis = n.attr("axis")
    if axis is None:
        x, axis = reshape(g, x, [int(np.prod(x.shape))]), 0
    if not len(kept):
        raise n.unsupported("to an empty tensor has no counterpart")
    axis %= len(x.shape)
    shape = list(x.shape)
    shape[axis] = len(kept)
    return g.add("index", shape, n.x(0).val.dtype, self=x, indices=[None] * axis + [g.leaf(kept.astype("int64"))])


# ---- sums

REDUCE = {"ReduceSum": "sum", "ReduceMean": "mean", "ReduceMax": "amax", "ReduceMin": "amin", "ReduceProd": "prod", "ReduceLogSumExp": "logsumexp",
          "ReduceL1": "sum", "ReduceL2": "linalg_vector_norm", "ReduceLogSum": "sum", "ReduceSumSquare": "sum"}


@op(*REDUCE)
def _(g, n):
    x = n.x(0)
    dims = n.ints("axes", 1, [])
    if 0 in x.shape:
        raise n.unsupported("of an empty tensor has no counterpart")
    if not dims:
        dims = [] if n.attr("noop_with_empty_axes", 0) else list(range(len(x.shape)))
    if n.type == "ReduceL1":
        x = node(g, "abs", x)
    if n.type == "ReduceSumSquare":
        x = node(g, "mul", x, x)
    if not dims:
        return node(g, "log", x) if n.type in ("ReduceLogSum",) else node(g, "abs", x) if n.type == "ReduceL2" else x
    if not is_float(x.val.dtype) and n.type in ("ReduceMean", "ReduceL2", "ReduceLogSumExp", "ReduceLogSum", "ReduceProd"):
        raise n.unsupported("of whole numbers has no counterpart")
    y = reduce(g, REDUCE[n.type], x, dims, bool(n.attr("keepdims", 1)), **({"ord": 2} if n.type == "ReduceL2" else {}))
    if x.val.dtype == bool:
        return cast(g, g.add("to", y.shape, "int32", self=y), bool) if y.operation == "to" else y
    return node(g, "log", y) if n.type == "ReduceLogSum" else y


@op("ArgMax", "ArgMin")
def _(g, n):
    x = n.x(0)
    dim = n.attr("axis", 0) % len(x.shape)
    if n.type == "ArgMin":
        x = node(g, "neg", x if is_float(x.val.dtype) else cast(g, x, "int64"))
    last = n.attr("select_last_index", 0)
    y = g.add("argmax", n.shape, "int64", self=flip(g, x, [dim]) if last else x, dim=dim, keepdim=bool(n.attr("keepdims", 1)))
    return node(g, "sub", x.shape[dim] - 1, y, dtype="int64") if last else y


@op("Softmax", "LogSoftmax", "Hardmax")
def _(g, n):
    x = n.x(0)
    rank = len(x.shape)
    dim = n.attr("axis", 1 if n.version < 13 else -1) % rank
    flat = n.version < 13 and dim != rank - 1  # of all axes from this one on
    if flat:
        x = reshape(g, x, list(x.shape[:dim]) + [int(np.prod(x.shape[dim:]))])
    if n.type == "Hardmax":
        top = g.add("argmax", x.shape[:dim] + (1,) + x.shape[dim + 1:], "int64", self=x, dim=dim, keepdim=True)
        y = cast(g, node(g, "eq", top, g.leaf(np.arange(x.shape[dim], dtype="int64").reshape([-1] + [1] * (len(x.shape) - 1 - dim))), dtype=bool), n.dtype)
    else:
        y = g.add({"Softmax": "softmax", "LogSoftmax": "log_softmax"}[n.type], x.shape, n.dtype, self=x, dim=dim)
    return reshape(g, y, n.shape)


@op("TopK")
def _(g, n):
    x = n.x(0)
    k = n.ints("k", 1)[0]
    dim = n.attr("axis", -1) % len(x.shape)
    y = x if n.attr("largest", 1) else node(g, "neg", x)
    whole = g.add("topk", [o.shape for o in n.outs], [o.dtype for o in n.outs], self=y, k=k, dim=dim)
    values, indices = (g.add("getitem", o.shape, o.dtype, self=whole, index=i) for i, o in enumerate(n.outs))
    return [values if n.attr("largest", 1) else node(g, "neg", values), indices]


@op("LpNormalization")
def _(g, n):
    x, p = n.x(0), n.attr("p", 2)
    dim = n.attr("axis", -1) % len(x.shape)
    size = reduce(g, "sum", node(g, "abs", x), [dim], True) if p == 1 else reduce(g, "linalg_vector_norm", x, [dim], True, ord=2)
    return node(g, "where", node(g, "eq", size, 0, dtype=bool), 0, node(g, "div", x, size), names=("condition", "self", "other"), dtype=n.dtype)


# ---- products and layers

@op("MatMul")
def _(g, n):
    x, w = n.x(0), n.x(1)
    if not is_float(n.dtype):
        raise n.unsupported("of whole numbers has no counterpart")
    if w.array is not None and len(w.shape) == 2 and len(x.shape) > 1 and x.array is None:
        return g.add("linear", n.shape, n.dtype, input=x, weight=g.transposed(w), bias=None)
    return g.add("matmul", n.shape, n.dtype, self=x, other=w)


@op("Gemm")
def _(g, n):
    a, b, c = n.x(0), n.x(1), n.x(2)
    alpha, beta = number(n.attr("alpha", 1.0)), number(n.attr("beta", 1.0))
    if not is_float(n.dtype):
        raise n.unsupported("of whole numbers has no counterpart")
    a = permute(g, a, [1, 0]) if n.attr("transA", 0) else a
    plain = c is None or c.array is not None and c.shape == (n.shape[1],) and beta == 1
    if b.array is not None and a.array is None and alpha == 1 and plain:
        return g.add("linear", n.shape, n.dtype, input=a, weight=g.weight(b) if n.attr("transB", 0) else g.transposed(b), bias=None if c is None else g.weight(c))
    b = permute(g, b, [1, 0]) if n.attr("transB", 0) else b
    y = g.add("matmul", n.shape, n.dtype, self=a, other=b)
    y = y if alpha == 1 else node(g, "mul", y, alpha)
    if c is None or beta == 0:
        return y
    return node(g, "add", y, c if beta == 1 else node(g, "mul", c, beta))


@op("Einsum")
def _(g, n):
    equation = n.attr("equation").replace(" ", "")
    if "->" not in equation:
        letters = sorted(set(equation) - {",", "."})
        equation += "->" + ("..." if "..." in equation else "") + "".join(c for c in letters if equation.count(c) == 1)
    if any(len(set(s.replace("...", ""))) != len(s.replace("...", "")) for s in equation.split("->")[0].split(",")):
        raise n.unsupported("of a diagonal has no counterpart")
    return g.add("einsum", n.shape, n.dtype, equation=equation, tensors=list(n.inputs))


def padding(n, x, size, stride, dilation):
    """[(low, high), ...] of the axes behind the channels"""
    k, auto = len(size), n.attr("auto_pad", "NOTSET")
    if auto in ("NOTSET", ""):
        pads = n.ints("pads", None, [0] * 2 * k)
        return list(zip(pads[:k], pads[k:]))
    if auto == "VALID":
        return [(0, 0)] * k
    out = []
    for extent, f, s, d in zip(x.shape[2:], size, stride, dilation):
        need = max(0, (-(-extent // s) - 1) * s + d * (f - 1) + 1 - extent)
        out.append((need // 2, need - need // 2) if auto == "SAME_UPPER" else (need - need // 2, need // 2))
    return out


def padded(g, x, pads, value=0):
    flat = [p for pair in reversed(pads) for p in pair]
    shape = list(x.shape[:2]) + [s + low + high for s, (low, high) in zip(x.shape[2:], pads)]
    return g.add("constant_pad_nd", shape, x.val.dtype, self=x, pad=flat, value=value)


@op("Conv")
def _(g, n):
    x, w, b = n.x(0), n.x(1), n.x(2)
    k = len(w.shape) - 2
    stride, dilation = n.ints("strides", None, [1] * k), n.ints("dilations", None, [1] * k)
    pads = padding(n, x, w.shape[2:], stride, dilation)
    if any(low != high for low, high in pads):
        x, pads = padded(g, x, pads), [(0, 0)] * k
    return g.add(f"conv{k}d", n.shape, n.dtype, input=x, weight=g.weight(w), bias=None if b is None else g.weight(b), stride=stride, padding=[low for low, _ in pads],
                 dilation=dilation, groups=n.attr("group", 1))


@op("ConvTranspose")
def _(g, n):
    x, w, b = n.x(0), n.x(1), n.x(2)
    k = len(w.shape) - 2
    stride, dilation, more = n.ints("strides", None, [1] * k), n.ints("dilations", None, [1] * k), n.ints("output_padding", None, [0] * k)
    whole = [s * (e - 1) + d * (f - 1) + 1 for e, f, s, d in zip(x.shape[2:], w.shape[2:], stride, dilation)]
    wanted = n.ints("output_shape", None)
    auto = n.attr("auto_pad", "NOTSET")
    if wanted is not None or auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = wanted[-k:] if wanted is not None else [e * s for e, s in zip(x.shape[2:], stride)]
        total = [max(f + m - o, 0) for f, m, o in zip(whole, more, wanted)]
        pads = [(t // 2, t - t // 2) if auto == "SAME_UPPER" else (t - t // 2, t // 2) for t in total]
        more = [o - f + t for o, f, t in zip(wanted, whole, total)]
    else:
        pads = padding(n, x, w.shape[2:], stride, dilation)
    args = dict(input=x, weight=g.weight(w), bias=None if b is None else g.weight(b), stride=stride, dilation=dilation, groups=n.attr("group", 1))
    if all(low == high for low, high in pads) and not (any(m >= max(s, d) for m, s, d in zip(more, stride, dilation))):
        return g.add(f"conv_transpose{k}d", n.shape, n.dtype, padding=[low for low, _ in pads], output_padding=more, **args)
    if any(more):
        raise n.unsupported("with padding that differs at both ends and output_padding has no counterpart")
    y = g.add(f"conv_transpose{k}d", list(n.shape[:2]) + whole, n.dtype, padding=[0] * k, output_padding=[0] * k, **args)
    for d, (low, _) in enumerate(pads):
        y = cut(g, y, d + 2, low, low + n.shape[d + 2])
    return y


@op("BatchNormalization")
def _(g, n):
    x = n.x(0)
    if n.attr("training_mode", 0) or len([o for o in n.proto.output if o]) > 1:
        raise n.unsupported("in training mode has no counterpart: export the model in evaluation mode")
    known = [v.array is not None for v in n.inputs[1:5]]
    eps = number(n.attr("epsilon", 1e-5))
    if n.version < 9 and not n.attr("spatial", 1):
        raise n.unsupported("that is not spatial has no counterpart")
    if all(known):
        names = ("weight", "bias", "running_mean", "running_var")
        return g.add("batch_norm", n.shape, n.dtype, input=x, **{k: g.weight(v) for k, v in zip(names, n.inputs[1:5])}, momentum=number(1 - n.attr("momentum", 0.9)), eps=eps)
    w, b, mean, var = (reshape(g, v, [-1 if False else v.shape[0]] + [1] * (len(x.shape) - 2)) for v in n.inputs[1:5])
    return node(g, "add", node(g, "mul", node(g, "mul", node(g, "sub", x, mean), node(g, "rsqrt", node(g, "add", var, eps))), w), b)


def per_channel(g, x, v):
    return reshape(g, v, [v.shape[0]] + [1] * (len(x.shape) - 2))


def normalized(g, x, dims, eps):
    mean = reduce(g, "mean", x, dims, True)
    away = node(g, "sub", x, mean)
    inverse = node(g, "rsqrt", node(g, "add", reduce(g, "mean", node(g, "mul", away, away), dims, True), eps))
    return node(g, "mul", away, inverse), mean, inverse


@op("InstanceNormalization", "GroupNormalization")
def _(g, n):
    x, w, b = n.inputs[:3]
    channels = x.shape[1]
    groups = channels if n.type[0] == "I" else n.attr("num_groups")
    eps = number(n.attr("epsilon", 1e-5))
    if n.type[0] == "G" and n.version < 21:  # a weight for each group
        w, b = (reshape(g, expand(g, reshape(g, v, [groups, 1]), [groups, channels // groups]), [channels]) if v.array is None else
                g.remade(v, np.repeat(v.array, channels // groups)) for v in (w, b))
    if w.array is not None and b.array is not None:
        return g.add("group_norm", n.shape, n.dtype, input=x, num_groups=groups, weight=g.weight(w), bias=g.weight(b), eps=eps)
    y = normalized(g, reshape(g, x, [x.shape[0], groups, channels // groups] + list(x.shape[2:])), range(2, len(x.shape) + 1), eps)[0]
    return node(g, "add", node(g, "mul", reshape(g, y, x.shape), per_channel(g, x, w)), per_channel(g, x, b))


@op("LayerNormalization")
def _(g, n):
    x, w, b = n.x(0), n.x(1), n.x(2)
    axis, eps = n.attr("axis", -1) % len(x.shape), number(n.attr("epsilon", 1e-5))
    dims = list(range(axis, len(x.shape)))
    y, mean, inverse = normalized(g, x, dims, eps)
    if len(dims) == 1 and w.array is not None and (b is None or b.array is not None) and w.shape == x.shape[-1:] and (b is None or b.shape == w.shape):
        y = g.add("layer_norm", n.shape, n.dtype, input=x, normalized_shape=list(x.shape[axis:]), weight=g.weight(w), bias=None if b is None else g.weight(b), eps=eps)
    else:
        y = node(g, "mul", y, w)
        y = y if b is None else node(g, "add", y, b)
    return [y, mean, inverse][:max(1, len(n.proto.output))]


@op("RMSNormalization")
def _(g, n):
    x, w = n.x(0), n.x(1)
    axis, eps = n.attr("axis", -1) % len(x.shape), number(n.attr("epsilon", 1e-5))
    if axis == len(x.shape) - 1 and w.array is not None and w.shape == x.shape[-1:]:
        return g.add("rms_norm", n.shape, n.dtype, input=x, normalized_shape=list(w.shape), weight=g.weight(w), eps=eps)
    square = reduce(g, "mean", node(g, "mul", x, x), range(axis, len(x.shape)), True)
    return node(g, "mul", node(g, "mul", x, node(g, "rsqrt", node(g, "add", square, eps))), w)


@op("LRN")
def _(g, n):
    x, size = n.x(0), n.attr("size")
    alpha, beta, bias = (number(n.attr(k, v)) for k, v in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    low = (size - 1) // 2
    square = node(g, "mul", x, x)
    wide = g.add("constant_pad_nd", [x.shape[0], x.shape[1] + size - 1] + list(x.shape[2:]), n.dtype, self=square, pad=[0, 0] * (len(x.shape) - 2) + [low, size - 1 - low], value=0)
    total = None
    for k in range(size):
        part = cut(g, wide, 1, k, k + x.shape[1])
        total = part if total is None else node(g, "add", total, part)
    return node(g, "div", x, node(g, "pow", node(g, "add", node(g, "mul", total, alpha / size), bias), beta, names=("self", "exponent")))


# ---- recurrent layers

# operator: the layer, its gates in ONNX's order, the activations that it has, results after the outputs
RECURRENT = {"LSTM": ("lstm", [0, 2, 3, 1], ["sigmoid", "tanh", "tanh"], 2), "GRU": ("gru", [1, 0, 2], ["sigmoid", "tanh"], 1), "RNN": ("rnn", [0], ["tanh"], 1)}


def gates(a, order):
    """Blocks of the first axis in another order."""
    parts = np.split(a, len(order))
    return np.concatenate([parts[k] for k in order])


@op(*RECURRENT)
def _(g, n):
    name, order, activations, count = RECURRENT[n.type]
    w, r = n.array(1, "weight"), n.array(2, "weight")
    steps = 1 if n.attr("layout", 0) else 0
    x = n.x(0) if steps else permute(g, n.x(0), [1, 0, 2])  # [batch, steps, channels]
    t, width, directions = x.shape[1], r.shape[-1], w.shape[0]
    b = np.zeros((directions, 2 * len(order) * width), w.dtype) if n.x(3) is None else n.array(3, "bias")
    lengths = n.x(4)
    if lengths is not None and (lengths.array is None or (lengths.array != t).any()):
        raise n.unsupported("with lengths of sequences (sequence_lens) has no counterpart: pad them, and export the model without lengths")
    given = [a.decode() if isinstance(a, bytes) else a for a in n.attributes.get("activations", [])]
    if [a.lower() for a in given] not in ([], activations * directions) or "clip" in n.attributes or n.attr("input_forget", 0):
        raise n.unsupported("with other activations than sigmoid and tanh, clip or input_forget has no counterpart")
    if name == "lstm" and n.x(7) is not None and n.array(7, "peephole").any():
        raise n.unsupported("with peepholes has no counterpart")
    two_biases = name == "gru" and n.attr("linear_before_reset", 0) == 1
    begin = [None if s is None or s.array is not None and not s.array.any() else s if not steps else permute(g, s, [1, 0, 2]) for s in (n.x(5), n.x(6) if name == "lstm" else None)]
    outs = []
    for d in range(directions):
        backwards = n.attr("direction", "forward") == "reverse" or d == 1
        wb, rb = np.split(b[d], 2)
        args = {"weight_ih": gates(w[d], order), "weight_hh": gates(r[d], order), "bias_ih": gates(wb if two_biases else wb + rb, order)}
        args.update({"bias_hh": gates(rb, order)} if two_biases else {})
        args = {k: g.weight(g.leaf(v), n.proto) for k, v in args.items()}
        args.update({"reset_after": False} if name == "gru" and not two_biases else {})
        state = [None if s is None else g.add("select", [1, width], s.val.dtype, self=s, dim=0, index=d) for s in begin]
        if state[1] is not None and state[0] is None:
            state[0] = g.leaf(np.zeros((1, width), w.dtype))
        whole = g.add(name, [[1, t, width]] + [[1, width]] * count, [x.val.dtype] * (1 + count), input=flip(g, x, [1]) if backwards else x, state=[s for s in state if s is not None], **args)
        y, *last = (g.add("getitem", whole.val[k].shape, x.val.dtype, self=whole, index=k) for k in range(1 + count))
        y = flip(g, y, [1]) if backwards else y
        y = reshape(g, y, [1, t, 1, width]) if steps else reshape(g, permute(g, y, [1, 0, 2]), [t, 1, 1, width])
        outs.append([y] + [reshape(g, s, [1, 1, width]) for s in last])
    axes = [2, 1, 1] if steps else [1, 0, 0]  # of directions
    return [join(g, [o[k] for o in outs], axes[k]) for k in range(1 + count)][:len(n.proto.output)]


# ---- pools and sizes

@op("MaxPool", "AveragePool")
def _(g, n):
    x, size = n.x(0), n.ints("kernel_shape", None)
    k = len(size)
    stride, dilation = n.ints("strides", None, [1] * k), n.ints("dilations", None, [1] * k)
    if len([o for o in n.proto.output if o]) > 1:
        raise n.unsupported("with indices has no counterpart")
    if n.attr("storage_order", 0):
        raise n.unsupported("in column order has no counterpart")
    pads = padding(n, x, size, stride, dilation)
    counted = bool(n.attr("count_include_pad", 0))
    out = []
    for extent, f, s, d, (low, high), got in zip(x.shape[2:], size, stride, dilation, pads, n.shape[2:]):
        out.append((low, high, max(0, (got - 1) * s + d * (f - 1) + 1 - extent - low)))
    ceil = any(need > high for _, high, need in out)
    if n.type == "AveragePool" and counted and ceil:
        raise n.unsupported("with ceil_mode and counted padding has no counterpart")
    if n.type == "AveragePool" and counted and any(low != high for low, high in pads):
        x, pads = padded(g, x, pads), [(0, 0)] * k
    else:
        pads = [(low, max(high, need)) for low, high, need in out]
    if str(x.val.dtype) in SMALL:
        raise n.unsupported("of whole numbers of 8 or 16 bits has no counterpart")
    return g.add("max_pool2d" if n.type[0] == "M" else "avg_pool2d", n.shape, n.dtype, self=x, kernel_size=size, stride=stride, padding=pads, dilation=dilation, ceil_mode=False,
                 count_include_pad=counted)


@op("LpPool")
def _(g, n):
    x, size, p = n.x(0), n.ints("kernel_shape", None), n.attr("p", 2)
    stride = n.ints("strides", None, [1] * len(size))
    pads = padding(n, x, size, stride, [1] * len(size))
    whole = [(e + low + high - f) // s + 1 for e, f, s, (low, high) in zip(x.shape[2:], size, stride, pads)]
    if set(n.ints("dilations", None, [1])) != {1} or whole != list(n.shape[2:]):
        raise n.unsupported("with dilation or ceil_mode has no counterpart")
    z = node(g, "abs", x) if p % 2 else x
    z = z if p == 1 else node(g, "mul", z, z) if p == 2 else node(g, "pow", z, p, names=("self", "exponent"))
    z = padded(g, z, pads) if any(map(any, pads)) else z
    z = g.add("avg_pool2d", n.shape, n.dtype, self=z, kernel_size=size, stride=stride, padding=[(0, 0)] * len(size), dilation=[1] * len(size), ceil_mode=False, count_include_pad=True)
    z = node(g, "mul", z, int(np.prod(size)))
    return z if p == 1 else node(g, "sqrt", z) if p == 2 else node(g, "pow", z, 1 / p, names=("self", "exponent"))


@op("GlobalAveragePool", "GlobalMaxPool")
def _(g, n):
    return reduce(g, "mean" if n.type[6] == "A" else "amax", n.x(0), range(2, len(n.shape)), True)


def matrix_of(g, n, size, made, scale, wanted):
    """What Resize does to one axis, which is linear: ONNX's own reference of a unit matrix."""
    import onnx.reference
    from onnx import helper, numpy_helper

    kept = [a for a in n.proto.attribute if a.name not in ("axes", "keep_aspect_ratio_policy", "scales")]
    given = ["roi", "scales", "sizes"] if wanted else ["roi", "scales"]
    one = helper.make_node("Resize", ["x", "", "", "sizes"] if wanted else ["x", "", "scales"], ["y"])
    one.attribute.extend(kept)
    inputs = {"sizes": np.array([made, size], "int64")} if wanted else {"scales": np.array([scale, 1], "float32")}
    del given
    graph = helper.make_graph([one], "one", [helper.make_tensor_value_info("x", 1, [size, size])], [helper.make_tensor_value_info("y", 1, None)],
                              [numpy_helper.from_array(v, k) for k, v in inputs.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", max(n.version, 11))])
    return onnx.reference.ReferenceEvaluator(model).run(None, {"x": np.eye(size, dtype="float32")})[0]


@op("Resize", "Upsample")
def _(g, n):
    x = n.x(0)
    rank = len(x.shape)
    axes = [a % rank for a in n.ints("axes", None, list(range(rank)))]
    scales, sizes = None, None
    if n.type == "Upsample" or n.version < 11:
        scales = n.array(1, "scales") if len(n.inputs) > 1 else np.array(n.attributes.get("scales", [1.0] * rank))
    else:
        scales, sizes = n.array(2, "scales"), n.array(3, "sizes")
    if scales is not None and scales.size == 0:
        scales = None
    if scales is None and sizes is None or n.attr("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise n.unsupported("of these arguments has no counterpart")
    mode, where = n.attr("mode", "nearest"), n.attr("coordinate_transformation_mode", "half_pixel" if n.version >= 11 and n.type == "Resize" else "asymmetric")
    if where == "tf_crop_and_resize" or n.version < 11 and mode != "nearest" or n.type == "Upsample" and mode != "nearest":
        raise n.unsupported(f"of mode {mode}, {where} has no counterpart")
    made = list(x.shape)
    for k, a in enumerate(axes):
        made[a] = int(sizes[k]) if sizes is not None else int(math.floor(x.shape[a] * float(scales[k])))
    if 0 in made:
        raise n.unsupported("to an empty tensor has no counterpart")
    grown = [a for a in axes if made[a] != x.shape[a] or scales is not None and scales[axes.index(a)] != 1]
    times = [made[a] / x.shape[a] for a in (2, 3)] if rank == 4 else [0]
    if mode == "nearest" and rank == 4 and set(grown) <= {2, 3} and times[0] == times[-1] == int(times[0]) > 1 and (where == "asymmetric" and n.attr("nearest_mode", "floor") == "floor"):
        return g.add("upsample_nearest2d", made, x.val.dtype, self=x)
    whole = sizes is not None or all(made[a] == x.shape[a] * float(scales[axes.index(a)]) for a in grown)
    if mode == "linear" and rank == 4 and set(grown) == {2, 3} and where in ("half_pixel", "pytorch_half_pixel", "align_corners") and not n.attr("antialias", 0) and whole and \
            all(made[a] > x.shape[a] for a in grown):
        return g.add("upsample_bilinear2d", made, x.val.dtype, self=x, align_corners=where == "align_corners")
    for a in grown:
        if n.version < 11 or n.type == "Upsample":
            picked = np.minimum(np.floor(np.arange(made[a]) / float(scales[axes.index(a)])).astype("int64"), x.shape[a] - 1)
            m = None
        else:
            m = matrix_of(g, n, x.shape[a], made[a], 1.0 if scales is None else float(scales[axes.index(a)]), sizes is not None)
            picked = m.argmax(1)
        shape = list(x.shape)
        shape[a] = made[a]
        if m is None or mode == "nearest":
            x = g.add("index", shape, x.val.dtype, self=x, indices=[None] * a + [g.leaf(picked)])
        else:
            last = [d for d in range(rank) if d != a] + [a]
            y = permute(g, x, last)
            y = g.add("matmul", [y.shape[d] for d in range(rank - 1)] + [made[a]], x.val.dtype, self=y, other=g.leaf(np.ascontiguousarray(m.T)))
            x = permute(g, y, [last.index(d) for d in range(rank)])
    return x
