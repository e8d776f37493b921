"""Which extents are the same, whatever they are: those that operations make equal, such as the two that are added in a residual.

A key stands for an extent; keys of extents that are the same are joined. Of expressions of net.py: each axis is a pair of a key, None if nothing
is known, and a size. A body is one call, so the axes of what it is given are those of the arguments.
"""


class Key:
    def __init__(self):
        self.above = None


def find(key):
    while key.above is not None:
        key = key.above
    return key


def join(a, b):
    if a[0] is not None and b[0] is not None and a[1] == b[1] and find(a[0]) is not find(b[0]):
        find(a[0]).above = find(b[0])


def same(keys, others):
    return all(a is not None and b is not None and find(a) is find(b) for a, b in zip(keys, others))


UNKNOWN = (None, None)
SAME = set("""relu relu6 sigmoid tanh silu mish hardswish selu hardsigmoid exp log sqrt sin cos erf abs floor ceil round trunc sign log1p expm1 log_sigmoid softsign gelu leaky_relu
elu celu softplus clamp dropout spatial_dropout stochastic_depth stop_gradient f32 i32 bool softmax log_softmax flip cumsum batchnorm layernorm rmsnorm groupnorm prelu""".split())
TWO = {"maximum", "minimum", "bit_and", "bit_or", "bit_xor"}
CHANNELS = {"maxpool", "avgpool", "adaptive_avgpool", "upsample", "resized"}


def of_number(num):
    """The axis that a number is the extent of."""
    if not hasattr(num, "value") or not isinstance(num.value, int):
        return UNKNOWN
    num.key = num.key or Key()
    return num.key, num.value


def broadcast(*operands):
    if any(o is None for o in operands):
        return None
    out = []
    for n in range(max(map(len, operands)), 0, -1):
        axes = [o[-n] for o in operands if len(o) >= n]
        wide = [a for a in axes if a[1] != 1] or axes
        for a in wide[1:]:
            join(wide[0], a)
        out.append(wide[0])
    return out


def of(e):
    """The axes of an expression, None if not even their number is known."""
    kind = type(e).__name__
    if kind == "Var":
        return of_variable(e)
    if kind == "Op":
        a, b = of(e.a), of(e.b)
        if e.sign != "@":
            return broadcast(a, b)
        if not a or not b or len(b) != 2:
            return None
        join(a[-1], b[0])
        return a[:-1] + b[1:]
    if kind == "Index":
        return of_index(e)
    if kind == "Call":
        return of_call(e)
    return [] if kind in ("Num", "int", "float", "bool") else None


def of_variable(v):
    if v.keys is None:
        found = None
        if v.extents:
            found = [of_number(n) for n in v.extents]
        elif v.parts is None and v.expr is not None:
            found = of(v.of.expr if v.of else v.expr)
            if v.of:
                for p, axes in zip(v.of.parts, found if isinstance(found, tuple) else [None] * len(v.of.parts)):
                    p.keys = own(p, axes)
                return v.keys
        v.keys = own(v, None if isinstance(found, tuple) else found)
    return v.keys


def own(v, axes):
    known = axes if axes is not None and len(axes) == len(v.shape) else [UNKNOWN] * len(v.shape)
    return [(k if size == s else None, s) if k is not None and size == s else (Key(), s) for (k, size), s in zip(known, v.shape)]


def of_index(e):
    axes, out, n = of(e.x), [], 0
    if axes is None or any(type(s).__name__ not in ("str", "int", "Num", "Span") for s in e.subscripts):
        return None
    for s in e.subscripts:
        if type(s).__name__ == "Span":
            out.append(UNKNOWN)
            n += 1
        elif s == "none":
            out.append((None, 1))
        elif s == "...":
            out, n = out + axes[n:], len(axes)
        elif s == ":":
            out.append(axes[n])
            n += 1
        else:
            n += 1
    return out + axes[n:]


def of_call(e):
    first = None if e.first is None else of(e.first)
    if not isinstance(e.fn, str):  # a body
        for given, taken in zip([e.first] + e.args, e.fn.inputs):
            for a, b in zip(of(given) or [], of(taken)):
                join(a, b)
        results = tuple(of(o) for o in e.fn.outputs)
        return results if len(results) > 1 else results[0]
    if e.fn in ("where", "concat"):
        return broadcast(*map(of, e.args)) if e.fn == "where" else None
    if first is None:
        return None
    options = dict(e.options)
    width = of_number(e.args[0]) if e.args else UNKNOWN
    if e.fn in SAME:
        return first
    if e.fn in TWO:
        return broadcast(first, of(e.args[0]))
    if e.fn == "dense":
        return first[:-1] + [width]
    if e.fn == "embedding":
        return first + [width]
    if e.fn == "conv":
        moved = {"stride", "padding"} & set(options)
        return ([UNKNOWN] * (len(first) - 1) if moved else first[:-1]) + [width]
    if e.fn == "conv_transpose":
        return [UNKNOWN] * (len(first) - 1) + [width]
    if e.fn in ("lstm", "gru", "rnn"):
        return (first[:1] + [width], [width], [width])
    if e.fn in CHANNELS:
        return [UNKNOWN] * (len(first) - 1) + first[-1:]
    if e.fn == "split" and not options and len(e.args) == 1:
        return tuple(first[:-1] + [UNKNOWN] for _ in range(16))
    if e.fn == "transpose" and not options:
        order = [n.value for n in e.args[0].items] if e.args else list(range(len(first) - 2)) + [len(first) - 1, len(first) - 2]
        return [first[o] for o in order]
    if e.fn == "attention":
        value = of(e.args[1])
        return first[:-1] + value[-1:] if value else None
    if e.fn == "reshape" and type(e.args[0]).__name__ == "List":
        return reshaped(first, [of_number(n) for n in e.args[0].items])
    return None


def reshaped(axes, out):
    """The axes in front and at the end that stay."""
    for pairs in (zip(axes, out), zip(axes[::-1], out[::-1])):
        for a, b in pairs:
            if a[1] is None or a[1] != b[1]:
                break
            join(a, b)
    return out
