"""What exporters spell out as several operators, as the one operation that it is: biases, gelu, silu, layer norm, attention."""
import math

import numpy as np

from .graph import Node, all_nodes, is_float


def single(node, operation):
    """Whether it is this operation, read once."""
    return isinstance(node, Node) and node.op() == operation and len(node.users) == 1


def number_of(a):
    """The number that an argument is, or None."""
    if isinstance(a, Node):
        return float(a.array.reshape(-1)[0]) if a.array is not None and a.array.size == 1 else None
    return float(a) if isinstance(a, (int, float)) else None


def near(a, value):
    v = number_of(a)
    return v is not None and abs(v - value) <= 1e-5 * abs(value)


def pair(node):
    return node.args["self"], node.args["other"]


def other_of(node, one):
    a, b = pair(node)
    return b if a is one else a


def replace(graph, node, operation, **args):
    """The node becomes another operation; what only it read is computed no longer."""
    for a in set(all_nodes(node.args)):
        a.users = [u for u in a.users if u is not node]
    node.operation, node.args = operation, args
    for a in all_nodes(args):
        a.users.append(node)


def drop_unread(graph):
    kept = {id(n) for _, n in graph.outputs}
    for node in reversed(graph.nodes):
        if not node.users and id(node) not in kept:
            for a in set(all_nodes(node.args)):
                a.users = [u for u in a.users if u is not node]
            node.operation = None
    graph.nodes = [n for n in graph.nodes if n.operation is not None]


def bias(graph, node):
    for linear, b in (pair(node), pair(node)[::-1]):
        if single(linear, "linear") and linear.args["bias"] is None and isinstance(b, Node) and b.array is not None and b.array.size == linear.shape[-1] == b.shape[-1]:
            value = b if len(b.shape) == 1 else graph.remade(b, b.array.reshape(-1))
            if is_float(value.val.dtype) and node.shape == linear.shape:
                replace(graph, node, "linear", **{**linear.args, "bias": graph.weight(value, node.onnx)})
                return


def gelu(graph, node):
    """0.5 x (1 + erf(x / sqrt(2)))"""
    inner = node.args["self"]
    if not isinstance(inner, Node) or inner.op() not in ("div", "mul") or not near(other_of(inner, inner.args["self"]), math.sqrt(2) if inner.op() == "div" else math.sqrt(0.5)):
        return
    x, one = inner.args["self"], node.users[0] if len(node.users) == 1 else None
    if one is None or one.op() != "add" or not near(other_of(one, node), 1) or len(one.users) != 1:
        return
    first = one.users[0]
    if first.op() != "mul":
        return
    factor = other_of(first, one)
    if single(factor, "mul") and x in pair(factor) and near(other_of(factor, x), 0.5):  # (0.5 x) (1 + erf)
        replace(graph, first, "gelu", self=x, approximate="none")
    elif len(first.users) == 1 and first.users[0].op() == "mul":
        last = first.users[0]
        rest = other_of(last, first)
        if factor is x and near(rest, 0.5) or near(factor, 0.5) and rest is x:
            replace(graph, last, "gelu", self=x, approximate="none")


def silu(graph, node):
    if len(node.users) == 1 and node.users[0].op() == "mul" and other_of(node.users[0], node) is node.args["self"]:
        replace(graph, node.users[0], "silu", self=node.args["self"])


def layer_norm(graph, node):
    """(x - mean) / sqrt(mean((x - mean)^2) + eps) * weight + bias, from its sqrt"""
    add = node.args["self"]
    if not single(add, "add") or len(node.users) != 1 or node.users[0].op() != "div":
        return
    mean, eps = pair(add)
    if number_of(eps) is None or not single(mean, "mean") or [d % len(node.shape) for d in mean.args["dim"]] != [len(node.shape) - 1]:
        return
    square, last = mean.args["self"], node.users[0]
    if not isinstance(square, Node) or square.op() not in ("pow", "mul"):
        return
    away = square.args["self"]
    if (near(square.args["exponent"], 2) if square.op() == "pow" else square.args["other"] is away) and isinstance(away, Node) and away.op() == "sub" and last.args["self"] is away:
        x, middle = pair(away)
        if not (isinstance(middle, Node) and middle.op() == "mean" and middle.args["self"] is x and middle.args["dim"] == mean.args["dim"] and middle.args["keepdim"]):
            return
        scaled = last.users[0] if len(last.users) == 1 and last.users[0].op() == "mul" else None
        moved = scaled.users[0] if scaled is not None and len(scaled.users) == 1 and scaled.users[0].op() == "add" else None
        if moved is None:
            return
        w, b = other_of(scaled, last), other_of(moved, scaled)
        if all(isinstance(v, Node) and v.array is not None and v.shape == x.shape[-1:] for v in (w, b)):
            short = float(str(np.float32(number_of(eps))))
            replace(graph, moved, "layer_norm", input=x, normalized_shape=list(w.shape), weight=graph.weight(w, moved.onnx), bias=graph.weight(b, moved.onnx), eps=short)


def scaled_by(node):
    """x and f, where node is x * f"""
    if isinstance(node, Node) and node.op() in ("mul", "div") and len(node.users) == 1:
        x, f = pair(node)
        if number_of(f) is not None:
            return x, number_of(f) if node.op() == "mul" else 1 / number_of(f)
        if number_of(x) is not None and node.op() == "mul":
            return f, number_of(x)
    return node, 1.0


def guarded(node):
    """where(isnan(softmax), 0, softmax), which matters where all keys are masked"""
    if len(node.users) == 3:
        test = next((u for u in node.users if u.op() == "ne" and pair(u) == (node, node)), None)
        if test is not None and len(test.users) == 1 and test.users[0].op() == "where" and test.users[0].args["other"] is node and number_of(test.users[0].args["self"]) == 0:
            return test.users[0]
    return node


def attention(graph, node):
    """softmax(q k^T scale + mask) v, from its softmax"""
    weights = guarded(node)
    if len(weights.users) != 1 or weights.users[0].op() != "matmul" or weights.users[0].args["self"] is not weights or node.args["dim"] % len(node.shape) != len(node.shape) - 1:
        return
    last, score, mask = weights.users[0], node.args["self"], None
    rank = len(node.shape)
    if single(score, "add"):
        a, b = pair(score)
        score, mask = (a, b) if not isinstance(b, Node) or b.array is not None or single(a, "matmul") or single(a, "mul") or single(a, "div") else (b, a)
    elif single(score, "where") and isinstance(score.args["condition"], Node) and number_of(score.args["other"]) is not None and number_of(score.args["other"]) < -1e4:
        score, mask = score.args["self"], score.args["condition"]
    score, scale = scaled_by(score)
    if not single(score, "matmul") or rank < 3 or not isinstance(last.args["other"], Node) or last.args["other"].array is not None:
        return
    (q, f), (k, h) = (scaled_by(a) for a in pair(score))
    if any(not isinstance(a, Node) or a.array is not None or len(a.shape) != rank for a in (q, k)) or q.shape[:-2] != k.shape[:-2] or last.args["other"].shape[:-2] != q.shape[:-2]:
        return
    if mask is not None and (not isinstance(mask, Node) or mask.array is None and len(mask.shape) < 2):
        return
    if mask is not None and mask.array is not None:
        hidden = ~mask.array if mask.array.dtype == bool else mask.array <= np.finfo("float32").min / 2
        if weights is not node and hidden.all(-1).any():
            return
        mask = mask if mask.const is not None else graph.leaf(mask.array)
    elif weights is not node and mask is not None:
        return
    graph.current = (last.onnx, last.stack, last.trace)
    order = list(range(rank - 2)) + [rank - 1, rank - 2]
    turned = graph.add("permute", [k.shape[o] for o in order], k.val.dtype, self=k, dims=order)
    graph.nodes.remove(turned)
    graph.nodes.insert(graph.nodes.index(last), turned)
    turned.stack = k.stack
    total, exact = scale * f * h, q.shape[-1] ** -0.5
    rounded = 1e-14 if q.val.dtype.itemsize == 8 else 1e-6
    replace(graph, last, "scaled_dot_product_attention", query=q, key=turned, value=last.args["other"], attn_mask=mask, is_causal=False,
            scale=exact if abs(total - exact) < rounded * exact else total)


def shorten(graph):
    for operation, find in (("add", bias), ("erf", gelu), ("sigmoid", silu), ("sqrt", layer_norm), ("softmax", attention)):
        for node in list(graph.nodes):
            if node.op() == operation:
                find(graph, node)
        drop_unread(graph)
