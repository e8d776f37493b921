"""Layers of Keras, and operations of keras.ops, as nodes of the graph (graph.py): f(graph, call) -> a node, or a list of them."""
import numpy as np

from .graph import Node, cast, cut, expand, flip, join, node, permute, reduce, reshape, table_of_operations
from .keras_graph import numbers

LAYERS, layer = table_of_operations()
OPERATIONS, op = table_of_operations()


# ---- layers that have weights, or that training changes

def channels_first(g, x, c):
    """Channels behind the batch, as PyTorch has them."""
    return x if first(c) else permute(g, x, [0, len(x.shape) - 1] + list(range(1, len(x.shape) - 1)))


def back(g, x, c):
    return x if first(c) else permute(g, x, [0] + list(range(2, len(x.shape))) + [1])


def first(c):
    return getattr(c.of, "data_format", None) == "channels_first"


def biased(g, c, use=None):
    return g.weight("bias", numbers(c.of.bias)) if (c.of.use_bias if use is None else use) else None


@layer("Dense")
def _(g, c):
    x, w = c.args[0], numbers(c.of.kernel)
    y = g.add("linear", c.shape, c.dtype, input=x, weight=g.weight("weight", w.T), bias=biased(g, c))
    return g.call(c.of.activation, y)


def spread(n, size, stride, dilation):
    """What `same` adds before and after an axis."""
    extra = max((-(-n // stride) - 1) * stride + dilation * (size - 1) + 1 - n, 0)
    return extra // 2, extra - extra // 2


def several(value, n):
    return [value] * n if isinstance(value, int) else list(value)


def padded(g, x, pads, value=0):
    """Spatial axes of [batch, channels, ...]"""
    if not any(map(sum, pads)):
        return x
    shape = list(x.shape[:2]) + [s + a + b for s, (a, b) in zip(x.shape[2:], pads)]
    return g.add("constant_pad_nd", shape, x.val.dtype, self=x, pad=[p for pair in reversed(pads) for p in pair], value=value)


def convolve(g, x, weight, bias, strides, padding, dilation, groups):
    """x: [batch, channels, ...]; padding: of Keras"""
    n = len(x.shape) - 2
    size, strides, dilation = weight.shape[2:], several(strides, n), several(dilation, n)
    pads = [(0, 0)] * n
    if padding == "same":
        pads = [spread(*a) for a in zip(x.shape[2:], size, strides, dilation)]
    elif padding == "causal":
        pads = [(d * (k - 1), 0) for k, d in zip(size, dilation)]
    spatial = [(s + sum(p) - d * (k - 1) - 1) // t + 1 for s, p, k, d, t in zip(x.shape[2:], pads, size, dilation, strides)]
    before = [a for a, b in pads] if all(a == b for a, b in pads) else pads
    return g.add(f"conv{n}d", [1, weight.shape[0]] + spatial, x.val.dtype, input=x, weight=weight, bias=bias, stride=strides, padding=before, dilation=dilation, groups=groups)


def filters(kernel):
    """[..., in, out] -> [out, in, ...]"""
    return np.moveaxis(kernel, (-1, -2), (0, 1))


def by_channel(kernel):
    """[..., in, multiplier] -> [in * multiplier, 1, ...]"""
    k = np.moveaxis(kernel, (-2, -1), (0, 1))
    return k.reshape((-1, 1) + k.shape[2:])


@layer("Conv1D", "Conv2D", "Conv3D")
def _(g, c):
    l = c.of
    y = convolve(g, channels_first(g, c.args[0], c), g.weight("weight", filters(numbers(l.kernel))), biased(g, c), l.strides, l.padding, l.dilation_rate, l.groups)
    return g.call(l.activation, back(g, y, c))


@layer("DepthwiseConv1D", "DepthwiseConv2D")
def _(g, c):
    l, x = c.of, channels_first(g, c.args[0], c)
    y = convolve(g, x, g.weight("weight", by_channel(numbers(l.kernel))), biased(g, c), l.strides, l.padding, l.dilation_rate, x.shape[1])
    return g.call(l.activation, back(g, y, c))


@layer("SeparableConv1D", "SeparableConv2D")
def _(g, c):
    l, x, own = c.of, channels_first(g, c.args[0], c), g.path
    g.path = own + ".depthwise"
    x = convolve(g, x, g.weight("weight", by_channel(numbers(l.depthwise_kernel))), None, l.strides, l.padding, l.dilation_rate, x.shape[1])
    g.path = own + ".pointwise"
    x = convolve(g, x, g.weight("weight", filters(numbers(l.pointwise_kernel))), biased(g, c), 1, "valid", 1, 1)
    return g.call(l.activation, back(g, x, c))


@layer("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose")
def _(g, c):
    """The whole transposed convolution, of which a part is the result; where that goes beyond it are zeros, and the bias."""
    l, x = c.of, channels_first(g, c.args[0], c)
    n, kernel, wanted = len(x.shape) - 2, numbers(l.kernel), back_shape(c)  # kernel: [..., out, in]
    size, strides, dilation = kernel.shape[:n], several(l.strides, n), several(l.dilation_rate, n)
    if l.output_padding is not None or l.padding == "same" and any(d != 1 for d in dilation):
        raise g.unsupported(f"the layer {type(l).__name__}", "with output_padding, or with a dilation and padding = \"same\", has no counterpart")
    before = [max(k - t, 0) // 2 if l.padding == "same" else 0 for k, t in zip(size, strides)]
    whole = [(s - 1) * t + d * (k - 1) + 1 for s, t, d, k in zip(x.shape[2:], strides, dilation, size)]
    beyond = [max(b + w - s, 0) for b, w, s in zip(before, wanted[2:], whole)]
    # the same from both sides is the layer's padding, what is beyond its output_padding; the rest is cut off
    left = [s + e - b - w for s, e, b, w in zip(whole, beyond, before, wanted[2:])]
    both = [min(b, o) for b, o in zip(before, left)]
    if any(e >= t for e, t in zip(beyond, strides)):
        raise g.unsupported(f"the layer {type(l).__name__}", "with strides beyond its size has no counterpart")
    shape = [1, wanted[1]] + [s + e - 2 * p for s, e, p in zip(whole, beyond, both)]
    y = g.add(f"conv_transpose{n}d", shape, c.dtype, input=x, weight=g.weight("weight", filters(kernel)), bias=biased(g, c), stride=strides, padding=both,
              output_padding=beyond, groups=1, dilation=dilation)
    for k in range(n):
        y = cut(g, y, 2 + k, before[k] - both[k], before[k] - both[k] + wanted[2 + k])
    return g.call(l.activation, back(g, y, c))


def back_shape(c):
    """The shape of the result with channels behind the batch."""
    return c.shape if first(c) else [c.shape[0], c.shape[-1]] + list(c.shape[1:-1])


def lacking(g, what, array):
    """A weight of the library's norm that Keras' layer does not have."""
    g.left.append(f"{g.path} has {what} = False in Keras; here it has one, which trains.")
    return array


@layer("BatchNormalization")
def _(g, c):
    l, x = c.of, c.args[0]
    axis = l.axis if isinstance(l.axis, int) else l.axis[0]
    axis %= len(x.shape)
    order = [0, axis] + [d for d in range(1, len(x.shape)) if d != axis]
    width = x.shape[axis]
    weight = numbers(l.gamma) if l.scale else lacking(g, "scale", np.ones(width, "float32"))
    bias = numbers(l.beta) if l.center else lacking(g, "center", np.zeros(width, "float32"))
    x = permute(g, x, order)
    y = g.add("batch_norm", x.shape, x.val.dtype, input=x, weight=g.weight("weight", weight), bias=g.weight("bias", bias),
              running_mean=g.weight("running_mean", numbers(l.moving_mean), True), running_var=g.weight("running_var", numbers(l.moving_variance), True),
              training=False, momentum=round(1 - l.momentum, 12), eps=l.epsilon, cudnn_enabled=False)
    return permute(g, y, [order.index(d) for d in range(len(order))])


@layer("LayerNormalization")
def _(g, c):
    l, x = c.of, c.args[0]
    axes = sorted(a % len(x.shape) for a in several(l.axis, 1))
    if getattr(l, "rms_scaling", False) or axes != list(range(len(x.shape) - len(axes), len(x.shape))):
        raise g.unsupported("the layer LayerNormalization", "over axes that are not the last ones, or with rms_scaling, has no counterpart")
    shape = [x.shape[a] for a in axes]
    weight = g.weight("weight", numbers(l.gamma)) if l.scale else None
    if l.center and not l.scale:
        weight = g.weight("weight", lacking(g, "scale", np.ones(shape, "float32")))
    return g.add("layer_norm", x.shape, x.val.dtype, input=x, normalized_shape=shape, weight=weight, bias=g.weight("bias", numbers(l.beta)) if l.center else None, eps=l.epsilon)


@layer("RMSNormalization")
def _(g, c):
    l, x = c.of, c.args[0]
    if several(l.axis, 1) not in ([-1], [len(x.shape) - 1]):
        raise g.unsupported("the layer RMSNormalization", "over other axes than the last has no counterpart")
    return g.add("rms_norm", x.shape, x.val.dtype, input=x, normalized_shape=[x.shape[-1]], weight=g.weight("weight", numbers(l.scale)), eps=l.epsilon)


@layer("GroupNormalization")
def _(g, c):
    l, x = c.of, c.args[0]
    axis, width = l.axis % len(x.shape), x.shape[l.axis]
    order = [0, axis] + [d for d in range(1, len(x.shape)) if d != axis]
    weight = numbers(l.gamma) if l.scale else lacking(g, "scale", np.ones(width, "float32"))
    bias = numbers(l.beta) if l.center else lacking(g, "center", np.zeros(width, "float32"))
    x = permute(g, x, order)
    y = g.add("group_norm", x.shape, x.val.dtype, input=x, num_groups=width if l.groups == -1 else l.groups, weight=g.weight("weight", weight), bias=g.weight("bias", bias), eps=l.epsilon)
    return permute(g, y, [order.index(d) for d in range(len(order))])


MASKS = "a mask may leave out any step, and recurrent layers take a length here, after which their outputs are 0: x |> lstm(64, length = n)"


@layer("Masking")
def _(g, c):
    raise g.unsupported("the layer Masking", "has no counterpart: " + MASKS)


@layer("Embedding")
def _(g, c):
    if c.of.mask_zero:
        raise g.unsupported("the layer Embedding", "with mask_zero has no counterpart: " + MASKS)
    return g.add("embedding", c.shape, c.dtype, weight=g.weight("weight", numbers(c.of.embeddings)), indices=c.args[0], padding_idx=-1)


@layer("PReLU")
def _(g, c):
    x = c.args[0]
    alpha = g.weight("weight", numbers(c.of.alpha))
    return node(g, "where", node(g, "gt", x, 0, dtype=bool), x, node(g, "mul", x, alpha), names=("condition", "self", "other"), dtype=x.val.dtype)


@layer("Dropout")
def _(g, c):
    x = c.args[0]
    if c.of.noise_shape is not None and c.of.rate:
        if c.of.noise_shape[0] == 1 or any(n != 1 for n in c.of.noise_shape[1:]) or len(c.of.noise_shape) != len(x.shape):
            raise g.unsupported("the layer Dropout", "with a noise_shape other than (None, 1, ..., 1) has no counterpart")
        return g.add("drop", x.shape, x.val.dtype, x=x, rate=c.of.rate, what="stochastic_depth")  # of whole samples, as EfficientNet has it
    return x if not c.of.rate else g.add("dropout", x.shape, x.val.dtype, input=x, p=c.of.rate)


@layer("SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D")
def _(g, c):
    x = channels_first(g, c.args[0], c)
    return c.args[0] if not c.of.rate else back(g, g.add("drop", x.shape, x.val.dtype, x=x, rate=c.of.rate, what="spatial_dropout"), c)


@layer("StochasticDepth")
def _(g, c):
    x = c.args[0]
    return g.add("drop", x.shape, x.val.dtype, x=x, rate=c.of.drop_path_rate, what="stochastic_depth")


@layer("GaussianNoise", "GaussianDropout", "AlphaDropout", "ActivityRegularization", "RandomFlip", "RandomRotation", "RandomZoom", "RandomTranslation", "RandomContrast", "RandomBrightness",
       "RandomCrop", "RandomErasing", "RandAugment", "InputLayer", "Identity")
def _(g, c):
    if type(c.of).__name__ not in ("InputLayer", "Identity", "ActivityRegularization"):
        g.left.append(f"{type(c.of).__name__} ({c.of.name}), which only training has, is left out.")
    if list(c.args[0].shape) != list(c.shape):
        raise g.unsupported(f"the layer {type(c.of).__name__}", "changes the shape, and has no counterpart")
    return c.args[0]


@layer("Normalization")
def _(g, c):
    l, x = c.of, c.args[0]
    mean, deviation = g.constant(numbers(l.mean)), g.constant(np.maximum(np.sqrt(numbers(l.variance)), 1e-7))
    if l.invert:
        return node(g, "add", node(g, "mul", x, deviation), mean)
    return node(g, "div", node(g, "sub", x, mean), deviation)


@layer("Activation")
def _(g, c):
    return g.call(c.of.activation, c.args[0])


@layer("Rescaling")
def _(g, c):
    scale, offset = (np.asarray(v, "float64") for v in (c.of.scale, c.of.offset))
    if first(c) and scale.ndim:
        raise g.unsupported("the layer Rescaling", "of channels that are first has no counterpart")
    y = node(g, "mul", cast(g, c.args[0], c.dtype), scale.item() if scale.ndim == 0 else g.constant(scale))
    return y if not offset.any() else node(g, "add", y, offset.item() if offset.ndim == 0 else g.constant(offset))


@layer("Resizing")
def _(g, c):
    return resize(g, c, [c.of.height, c.of.width])


# ---- recurrent layers: [batch, steps, channels]

def gates(a, order):
    """Blocks of the last axis in another order, as rows."""
    parts = np.split(a, len(order), axis=-1)
    return np.concatenate([parts[k] for k in order], axis=-1).T


RECURRENT = {"LSTM": ("lstm", [0, 1, 2, 3]), "GRU": ("gru", [1, 0, 2]), "SimpleRNN": ("rnn", [0])}


@layer(*RECURRENT)
def _(g, c):
    l, x = c.of, c.args[0]
    what = f"the layer {type(l).__name__}"
    name, order = RECURRENT[type(l).__name__]
    if l.activation.__name__ != "tanh" or getattr(l, "recurrent_activation", None) is not None and l.recurrent_activation.__name__ != "sigmoid":
        raise g.unsupported(what, "with activations other than tanh and sigmoid has no counterpart: write it as a scan")
    if l.stateful or c.arg(1, "mask") is not None:
        raise g.unsupported(what, "that is stateful, or has a mask, has no counterpart" + (": " + MASKS) * (not l.stateful))
    begin = c.arg(2, "initial_state") or c.arg(1, "sequence")
    begin = begin if isinstance(begin, list) else [begin] if begin is not None else []
    kernel, recurrent, width = numbers(l.cell.kernel), numbers(l.cell.recurrent_kernel), l.units
    bias = numbers(l.cell.bias) if l.use_bias else None
    inner = "" if name == "lstm" else "dense_1."
    args = {"weight_ih": g.weight(inner + ("weight_ih" if name == "lstm" else "weight"), gates(kernel, order)), "weight_hh": g.weight("weight_hh", gates(recurrent, order))}
    two_biases = name == "gru" and l.reset_after
    if l.use_bias:
        args["bias_ih"] = g.weight(inner + "bias", gates(bias[0] if two_biases else bias, order))
        if two_biases:
            args["bias_hh"] = g.weight("bias_hh", gates(bias[1], order))
    if name == "gru" and not two_biases:
        args["reset_after"] = False
    if l.go_backwards:
        x = flip(g, x, [1])
    t = x.shape[1]
    count = 2 if name == "lstm" else 1
    results = g.add(name, [[1, t, width]] + [[1, width]] * count, [x.val.dtype] * (1 + count), input=x, state=list(begin), **args)
    y, *states = (g.add("getitem", results.val[k].shape, x.val.dtype, self=results, index=k) for k in range(1 + count))
    first_result = y if l.return_sequences else states[0]
    return [first_result] + states if l.return_state else first_result


# ---- operations

for _name, _aten in {"Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Rsqrt": "rsqrt", "Floor": "floor", "Ceil": "ceil",
                     "Round": "round", "Sin": "sin", "Cos": "cos", "Tan": "tan", "Arcsin": "asin", "Arccos": "acos", "Arctan": "atan", "Sinh": "sinh", "Cosh": "cosh",
                     "Arcsinh": "asinh", "Arccosh": "acosh", "Arctanh": "atanh", "Erf": "erf", "Softsign": "softsign", "Silu": "silu", "Selu": "selu", "HardSilu": "hardswish",
                     "HardSigmoid": "hardsigmoid", "Mish": "mish", "LogSigmoid": "log_sigmoid", "Absolute": "abs", "Negative": "neg", "Sign": "sign", "LogicalNot": "logical_not",
                     "Reciprocal": "reciprocal", "Square": "square", "Log1p": "log1p", "Expm1": "expm1"}.items():
    OPERATIONS[_name] = (lambda aten: lambda g, c: g.add(aten, c.shape, c.dtype, self=c.args[0]))(_aten)

BINARY = {"Add": "add", "Subtract": "sub", "Multiply": "mul", "Divide": "div", "TrueDivide": "div", "Maximum": "maximum", "Minimum": "minimum", "FloorDivide": "floor_divide",
          "Mod": "remainder"}
COMPARE = {"Equal": "eq", "NotEqual": "ne", "Greater": "gt", "GreaterEqual": "ge", "Less": "lt", "LessEqual": "le", "LogicalAnd": "logical_and", "LogicalOr": "logical_or", "LogicalXor": "logical_xor"}


@op(*BINARY, *COMPARE)
def _(g, c):
    x, y = c.arg(0, "x1"), c.arg(1, "x2")
    name = type(c.of).__name__
    if name in BINARY and c.dtype != "bool":
        x, y = (cast(g, v, c.dtype) if isinstance(v, Node) else v for v in (x, y))
    return node(g, BINARY.get(name) or COMPARE[name], x, y, dtype=c.dtype)


@op("Power")
def _(g, c):
    return node(g, "pow", c.arg(0, "x1"), c.arg(1, "x2"), names=("self", "exponent"), dtype=c.dtype)


@op("Relu6")
def _(g, c):
    return g.add("hardtanh", c.shape, c.dtype, self=c.args[0], min_val=0, max_val=6)


@op("ReLU")
def _(g, c):
    """keras.activations.relu: x beyond threshold, at most max_value, else negative_slope times what is missing to the threshold"""
    x, slope, top, least = c.args[0], c.of.negative_slope, c.of.max_value, c.of.threshold
    if not slope and not least:
        return g.add("relu", c.shape, c.dtype, self=x) if top is None else g.add("hardtanh", c.shape, c.dtype, self=x, min_val=0, max_val=top)
    if not least and top is None:
        return g.add("leaky_relu", c.shape, c.dtype, self=x, negative_slope=slope)
    low = node(g, "mul", node(g, "sub", x, least), slope) if slope else 0
    y = node(g, "where", node(g, "ge" if slope else "gt", x, least, dtype=bool), x, low, names=("condition", "self", "other"), dtype=c.dtype)
    return y if top is None else node(g, "minimum", y, top)


@op("Clip")
def _(g, c):
    low, high = getattr(c.of, "x_min", None), getattr(c.of, "x_max", None)
    return g.add("clamp", c.shape, c.dtype, self=c.args[0], min=low, max=high)


@op("HardTanh")
def _(g, c):
    return g.add("clamp", c.shape, c.dtype, self=c.args[0], min=-1, max=1)


@op("LeakyRelu")
def _(g, c):
    return g.add("leaky_relu", c.shape, c.dtype, self=c.args[0], negative_slope=c.of.negative_slope)


@op("Elu", "Celu")
def _(g, c):
    return g.add(type(c.of).__name__.lower(), c.shape, c.dtype, self=c.args[0], alpha=c.of.alpha)


@op("Gelu")
def _(g, c):
    return g.add("gelu", c.shape, c.dtype, self=c.args[0], approximate="tanh" if c.of.approximate else "none")


@op("Softplus")
def _(g, c):
    return g.add("softplus", c.shape, c.dtype, self=c.args[0], beta=1)


@op("Softmax", "LogSoftmax")
def _(g, c):
    name = "softmax" if type(c.of).__name__ == "Softmax" else "log_softmax"
    return g.add(name, c.shape, c.dtype, self=c.args[0], dim=c.of.axis)


@op("Cast", "SaturateCast")
def _(g, c):
    return cast(g, c.args[0], c.dtype)


@op("StopGradient", "Copy", "ConvertToTensor")
def _(g, c):
    return c.args[0]


@op("Where")
def _(g, c):
    return node(g, "where", c.arg(0, "condition"), c.arg(1, "x1"), c.arg(2, "x2"), names=("condition", "self", "other"), dtype=c.dtype)


@op("Matmul", "Dot")
def _(g, c):
    x, y = c.arg(0, "x1"), c.arg(1, "x2")
    if type(c.of).__name__ == "Dot" and len(y.shape) > 2:
        raise g.unsupported("the operation Dot", "of tensors of more than two axes has no counterpart")
    return g.add("matmul", c.shape, c.dtype, self=x, other=y)


@op("Einsum")
def _(g, c):
    text = c.of.subscripts.replace(" ", "")
    if "->" not in text:
        names = text.replace(",", "")
        text += "->" + "".join(sorted(n for n in set(names) if names.count(n) == 1))
    if "..." in text:
        raise g.unsupported("the operation Einsum", "with ... has no counterpart")
    return g.add("einsum", c.shape, c.dtype, equation=text, tensors=list(c.args))


@op("Reshape", "ExpandDims", "Squeeze", "Ravel", "View")
def _(g, c):
    return reshape(g, c.args[0], c.shape)


@op("Transpose")
def _(g, c):
    return permute(g, c.args[0], list(c.of.axes) if c.of.axes else list(range(len(c.shape)))[::-1])


@op("Swapaxes")
def _(g, c):
    order = list(range(len(c.shape)))
    a, b = c.of.axis1, c.of.axis2
    order[a], order[b] = order[b], order[a]
    return permute(g, c.args[0], order)


@op("Moveaxis")
def _(g, c):
    return permute(g, c.args[0], moved(len(c.shape), c.of.source, c.of.destination))


def moved(rank, source, destination):
    source, destination = ([d % rank for d in several(v, 1)] for v in (source, destination))
    order = [d for d in range(rank) if d not in source]
    for to, at in sorted(zip(destination, source)):
        order.insert(to, at)
    return order


@op("BroadcastTo")
def _(g, c):
    x = c.args[0]
    return expand(g, reshape(g, x, [1] * (len(c.shape) - len(x.shape)) + list(x.shape)), c.shape)


@op("Concatenate")
def _(g, c):
    values = [cast(g, v, c.dtype) for v in c.arg(0, "xs")]
    return join(g, values, c.of.axis % len(c.shape))


@op("Stack")
def _(g, c):
    axis = c.of.axis % len(c.shape)
    values = [reshape(g, cast(g, v, c.dtype), list(v.shape[:axis]) + [1] + list(v.shape[axis:])) for v in c.arg(0, "x")]
    return join(g, values, axis)


@op("Split", "Unstack")
def _(g, c):
    x, axis = c.args[0], c.of.axis
    axis %= len(x.shape)
    parts, at = [], 0
    for shape in c.shapes:
        size = shape[axis] if type(c.of).__name__ == "Split" else 1
        parts.append(reshape(g, cut(g, x, axis, at, at + size), shape))
        at += size
    return parts


@op("Flip")
def _(g, c):
    axes = range(len(c.shape)) if c.of.axis is None else several(c.of.axis, 1)
    return flip(g, c.args[0], [a % len(c.shape) for a in axes])


@op("Repeat")
def _(g, c):
    x, axis = c.args[0], c.of.axis
    if axis is None or not isinstance(c.of.repeats, int):
        raise g.unsupported("the operation Repeat", "without an axis, or of different numbers, has no counterpart")
    axis %= len(x.shape)
    shape = list(x.shape)
    y = expand(g, reshape(g, x, shape[:axis + 1] + [1] + shape[axis + 1:]), shape[:axis + 1] + [c.of.repeats] + shape[axis + 1:])
    return reshape(g, y, c.shape)


@op("Tile")
def _(g, c):
    return g.add("repeat", c.shape, c.dtype, self=c.args[0], repeats=[int(r) for r in several(c.of.repeats, 1)])


@op("Pad")
def _(g, c):
    x, value = c.args[0], c.arg(1, "constant_values")
    pads = [tuple(p) for p in c.of.pad_width] * (len(x.shape) if len(c.of.pad_width) == 1 else 1)
    if c.of.mode == "constant":
        return g.add("constant_pad_nd", c.shape, c.dtype, self=x, pad=[int(p) for pair in reversed(pads) for p in pair], value=0 if value is None else value)
    for d, pair in enumerate(pads):
        if any(pair):
            at = np.pad(np.arange(x.shape[d]), pair, mode=c.of.mode)
            shape = list(x.shape)
            shape[d] = len(at)
            x = g.add("index", shape, c.dtype, self=x, indices=[None] * d + [g.constant(at.astype("int64"))])
    return x


@op("GetItem")
def _(g, c):
    x, key = c.args[0], c.arg(1, "key")
    key = list(key) if isinstance(key, (list, tuple)) else [key]
    if Ellipsis in [k for k in key if not isinstance(k, Node)]:
        n = next(i for i, k in enumerate(key) if k is Ellipsis)
        key[n:n + 1] = [slice(None)] * (len(x.shape) - sum(k is not None for k in key) + 1)
    dim = 0
    for k in key:
        if k is None:
            continue
        if isinstance(k, Node) and k.const is not None and k.const.ndim == 0:
            k = int(k.const)
        if isinstance(k, slice):
            start, stop, step = k.indices(x.shape[dim])
            if step < 0:
                raise g.unsupported("a slice", "with a step below 0 has no counterpart: write keras.ops.flip")
            x = cut(g, x, dim, start, max(stop, start), step)
        elif isinstance(k, int):
            x = cut(g, x, dim, k % x.shape[dim], k % x.shape[dim] + 1)
        else:
            raise g.unsupported("an index", "that is a tensor has no counterpart: write keras.ops.take")
        dim += 1
    return reshape(g, x, c.shape)


@op("Take")
def _(g, c):
    x, i, axis = c.arg(0, "x"), c.arg(1, "indices"), c.of.axis
    i = i if isinstance(i, Node) else g.constant(np.asarray(i, "int64"))
    if axis is None:
        x, axis = reshape(g, x, [int(np.prod(x.shape))]), 0
    axis %= len(x.shape)
    if x.parameter and len(x.shape) == 2 and axis == 0 and i.const is None:
        return g.add("embedding", c.shape, c.dtype, weight=x, indices=i, padding_idx=-1)
    if i.const is not None:
        i = g.constant(np.where(i.const < 0, i.const + x.shape[axis], i.const).astype("int64"))
        return g.add("index", c.shape, c.dtype, self=x, indices=[None] * axis + [i])
    i = node(g, "where", node(g, "lt", i, 0, dtype=bool), node(g, "add", i, x.shape[axis]), i, names=("condition", "self", "other"), dtype=i.val.dtype)
    return g.add("index", c.shape, c.dtype, self=x, indices=[None] * axis + [i])


@op("OneHot")
def _(g, c):
    x = c.args[0]
    axis = c.of.axis % len(c.shape)
    x = reshape(g, x, list(x.shape[:axis]) + [1] + list(x.shape[axis:]))
    classes = g.constant(np.arange(c.of.num_classes).reshape([-1] + [1] * (len(c.shape) - 1 - axis)))
    return cast(g, node(g, "eq", x, classes, dtype=bool), c.dtype)


REDUCE = {"Mean": "mean", "Sum": "sum", "Max": "amax", "Min": "amin", "Prod": "prod", "Logsumexp": "logsumexp"}


@op(*REDUCE)
def _(g, c):
    x = c.args[0]
    axes = range(len(x.shape)) if c.of.axis is None else several(c.of.axis, 1)
    return reduce(g, REDUCE[type(c.of).__name__], x, list(axes), c.of.keepdims)


@op("Var", "Std")
def _(g, c):
    x = c.args[0]
    axes = list(range(len(x.shape))) if c.of.axis is None else several(c.of.axis, 1)
    return variance(g, x, axes, c.of.keepdims, type(c.of).__name__.lower())


def variance(g, x, axes, keep, name="var"):
    return reduce(g, name, x, axes, keep, correction=0)


@op("Moments")
def _(g, c):
    x, axes = c.args[0], several(c.of.axes, 1)
    return [reduce(g, "mean", x, axes, c.of.keepdims), variance(g, x, axes, c.of.keepdims)]


@op("Argmax")
def _(g, c):
    if c.of.axis is None:
        raise g.unsupported("the operation Argmax", "over all axes has no counterpart")
    return cast(g, g.add("argmax", c.shape, "int64", self=c.args[0], dim=c.of.axis, keepdim=c.of.keepdims), c.dtype)


@op("Cumsum")
def _(g, c):
    return g.add("cumsum", c.shape, c.dtype, self=c.args[0], dim=c.of.axis % len(c.shape))


@op("Conv", "DepthwiseConv")
def _(g, c):
    """As operations: with a weight that a layer of its own holds."""
    x, kernel = channels_first(g, c.arg(0, "inputs"), c), c.arg(1, "kernel")
    rank = len(kernel.shape)
    depthwise = type(c.of).__name__ == "DepthwiseConv"
    order = [rank - 2, rank - 1] if depthwise else [rank - 1, rank - 2]
    w = permute(g, kernel, order + list(range(rank - 2)))
    if depthwise:
        w = reshape(g, w, [w.shape[0] * w.shape[1], 1] + list(w.shape[2:]))
    y = convolve(g, x, w, None, c.of.strides, c.of.padding, c.of.dilation_rate, x.shape[1] // w.shape[1])
    return back(g, y, c)


@op("MaxPool", "AveragePool")
def _(g, c):
    l, x = c.of, channels_first(g, c.args[0], c)
    n = len(x.shape) - 2
    size = several(l.pool_size, n)
    strides = several(size if l.strides is None else l.strides, n)
    pads = [spread(s, k, t, 1) if l.padding == "same" else (0, 0) for s, k, t in zip(x.shape[2:], size, strides)]
    if all(a == b for a, b in pads):
        pads = [a for a, b in pads]
    shared = {"self": x, "kernel_size": size, "stride": strides, "padding": pads, "ceil_mode": False}
    if type(l).__name__ == "AveragePool":
        y = g.add(f"avg_pool{n}d", back_shape(c), c.dtype, **shared, count_include_pad=False, divisor_override=None)
    else:
        y = g.add(f"max_pool{n}d", back_shape(c), c.dtype, **shared, dilation=[1] * n)
    return back(g, y, c)


@op("DotProductAttention")
def _(g, c):
    """[batch, length, heads, width]"""
    query, key, value = (permute(g, c.arg(n, name), [0, 2, 1, 3]) for n, name in enumerate(("query", "key", "value")))
    bias, mask, scale = c.arg(3, "bias"), c.arg(4, "mask"), c.arg(5, "scale")
    if bias is not None or c.of.attn_logits_soft_cap:
        raise g.unsupported("attention", "with a bias or a soft cap has no counterpart")
    shape = list(query.shape[:3]) + [value.shape[-1]]
    y = g.add("scaled_dot_product_attention", shape, c.dtype, query=query, key=key, value=value, attn_mask=mask, dropout_p=0.0, is_causal=bool(c.of.is_causal), scale=scale, enable_gqa=False)
    return permute(g, y, [0, 2, 1, 3])


@op("Resize")
def _(g, c):
    return resize(g, c, list(c.of.size))


def resize(g, c, size):
    l, x = c.of, channels_first(g, c.args[0], c)
    kind = {"nearest": "upsample_nearest2d", "bilinear": "upsample_bilinear2d"}.get(l.interpolation)
    if kind is None or getattr(l, "antialias", False) or l.crop_to_aspect_ratio or l.pad_to_aspect_ratio:
        raise g.unsupported(type(l).__name__, f"with {l.interpolation} or these options has no counterpart")
    more = {"align_corners": False} if kind.endswith("bilinear2d") else {}
    return back(g, g.add(kind, list(x.shape[:2]) + size, c.dtype, self=x, output_size=size, scales_h=None, scales_w=None, **more), c)


@op("Normalize")
def _(g, c):
    x, order = c.args[0], c.of.order
    axes = several(c.of.axis, 1)
    if order != 2:
        raise g.unsupported("the operation Normalize", f"of order {order} has no counterpart")
    norm = reduce(g, "linalg_vector_norm", x, axes, True, ord=2)
    return node(g, "div", x, node(g, "maximum", norm, 1e-7 if c.of.epsilon is None else c.of.epsilon))
