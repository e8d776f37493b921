"""Recurrent modules of PyTorch (nn.LSTM, nn.GRU, nn.RNN and their cells) as nodes: one for each layer and direction, as the library has them."""
import re

import numpy as np

from . import graph
from .graph import Meta, Node, Unsupported, last_line

KINDS = {"lstm": ("lstm", "tanh"), "gru": ("gru", "tanh"), "rnn_tanh": ("rnn", "tanh"), "rnn_relu": ("rnn", "relu")}  # PyTorch's operation -> ours, its activation
CELLS = {"lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"}
NAMES = {"lstm": ("weight_ih", "weight_hh", "bias"), "gru": ("dense_1.weight", "weight_hh", "dense_1.bias", "bias_hh"), "rnn": ("dense_1.weight", "weight_hh", "dense_1.bias")}
KEYS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


class Nodes:
    """Where the nodes that stand for one go: before it in the graph, in its call of a module."""

    def __init__(self, nodes, node):
        self.nodes, self.node = nodes, node

    def add(self, operation, shape, dtype, /, **args):
        val = [Meta(s, t) for s, t in zip(shape, dtype)] if isinstance(dtype, list) else Meta(shape, dtype)
        new = Node(operation, args, self.node.stack, self.node.trace, val)
        for a in graph.all_nodes(args):
            a.users.append(new)
        self.nodes.append(new)
        return new


def unsupported(node, why):
    path, operation = node.stack[-1][1] if node.stack else "", node.op()
    return Unsupported(path, operation, why, last_line(node.trace))


def total(a, b):
    """The sum, in the type of the two if it is exact there."""
    both = a.astype("float64") + b
    return both.astype(a.dtype) if np.array_equal(both.astype(a.dtype), both) else both


def weights(flat, kind, node, given):
    """The weights of a layer in one direction -> arguments of our operation: nodes of weights under the library's names."""
    names = [w.parameter for w in given]
    if None in names:
        raise unsupported(node, "with weights that are computed has no counterpart")
    m = re.fullmatch(r"(.*\.)?weight_ih_(l(\d+)(_reverse)?)", names[0])
    prefix = f"{m[1] or ''}{m[2]}" if m else names[0].rpartition(".")[0]
    if m and f"{m[1] or ''}weight_ih_l1" not in flat.state and f"{m[1] or ''}weight_ih_l0_reverse" not in flat.state:
        prefix = (m[1] or "rnn.").rstrip(".")  # of one layer and one direction
    arrays = [flat.state[n] for n in names]
    theirs = [[n] for n in names]
    if len(arrays) == 4 and kind != "gru":
        arrays[2:], theirs[2:] = [total(*arrays[2:])], [names[2:]]
    found = {}
    for key, ours, array, names in zip(KEYS, NAMES[kind], arrays, theirs):
        name = f"{prefix}.{ours}"
        if name not in flat.renamed:
            leaf = Node("leaf", {}, [], "", Meta(array.shape, array.dtype))
            leaf.parameter = name
            flat.state[name] = array
            flat.renamed[name] = (leaf, *names)
        found[key] = flat.renamed[name][0]
    return found


def layers(flat, nodes, node):
    """An operation of PyTorch with all its layers and directions -> its results"""
    g, a = Nodes(nodes, node), node.args
    kind, act = KINDS[node.op()]
    x, states = a["input"], a["hx"] if kind == "lstm" else [a["hx"]]
    ways, width, dtype = 1 + a["bidirectional"], a["hx"][0].shape[-1] if kind == "lstm" else a["hx"].shape[-1], x.val.dtype
    each = 2 + 2 * a["has_biases"]
    if len(a["params"]) != each * ways * a["num_layers"]:
        raise unsupported(node, "with proj_size has no counterpart: give it a Linear after it, or write it as a scan")
    if len(x.shape) != 3 or x.shape[0 if a["batch_first"] else 1] != 1:
        raise unsupported(node, "takes the steps of a sequence in front, where the batch is; use batch_first = True, or call it with x.transpose(0, 1)")
    if not a["batch_first"]:
        x = graph.permute(g, x, [1, 0, 2])
    t, last = x.shape[1], [[] for _ in states]
    begun = any(s.const is None or np.any(s.const) for s in states)
    for layer in range(a["num_layers"]):
        if layer and a["dropout"] > 0:
            x = g.add("drop", x.shape, dtype, x=x, rate=float(a["dropout"]), what="dropout")
        both = []
        for way in range(ways):
            k = layer * ways + way
            state = [graph.reshape(g, graph.cut(g, s, 0, k, k + 1), [1, width]) for s in states] if begun else []
            own = weights(flat, kind, node, a["params"][k * each:(k + 1) * each])
            z = graph.flip(g, x, [1]) if way else x
            out = g.add(kind, [[1, t, width]] + [[1, width]] * len(states), [dtype] * (1 + len(states)), input=z, state=state, act=act, **own)
            y, *ends = (g.add("getitem", m.shape, dtype, self=out, index=n) for n, m in enumerate(out.val))
            both.append(graph.flip(g, y, [1]) if way else y)
            for l, e in zip(last, ends):
                l.append(graph.reshape(g, e, [1, 1, width]))
        x = graph.join(g, both, 2)
    if not a["batch_first"]:
        x = graph.permute(g, x, [1, 0, 2])
    return [x] + [graph.join(g, l, 0) for l in last]


def cell(flat, nodes, node):
    """One step -> its results"""
    g, a = Nodes(nodes, node), node.args
    kind = node.op().removesuffix("_cell")
    h, x = a["hx"][0] if kind == "lstm" else a["hx"], a["input"]
    width, dtype, count = h.shape[-1], x.val.dtype, {"lstm": 4, "gru": 3}.get(kind, 1)

    def op(name, *values):
        return graph.node(g, name, *values)

    def linear(x, w, b):
        y = g.add("linear", [1, count * width], dtype, input=x, weight=w, bias=b)
        return [graph.cut(g, y, 1, k * width, (k + 1) * width) for k in range(count)]
    one, other = linear(x, a["w_ih"], a["b_ih"]), linear(h, a["w_hh"], a["b_hh"])
    if kind == "gru":
        reset, keep = (op("sigmoid", op("add", p, q)) for p, q in zip(one[:2], other[:2]))
        new = op("tanh", op("add", one[2], op("mul", reset, other[2])))
        return [op("add", op("mul", keep, op("sub", h, new)), new)]
    z = [op("add", p, q) for p, q in zip(one, other)]
    if kind != "lstm":
        return [op(kind.removeprefix("rnn_"), z[0])]
    i, f, o = (op("sigmoid", z[k]) for k in (0, 1, 3))
    c = op("add", op("mul", f, a["hx"][1]), op("mul", i, op("tanh", z[2])))
    return [op("mul", o, op("tanh", c)), c]


def expand(flat):
    """Each such operation of the graph is replaced by nodes of the library's; what reads its results reads theirs."""
    nodes = []
    for node in flat.nodes:
        make = cell if node.op() in CELLS else layers if node.op() in KINDS else None
        if make is None:
            nodes.append(node)
            continue
        results = make(flat, nodes, node)
        if not isinstance(node.val, list):  # one result: the node is it
            node.operation, node.args = "alias", {"self": results[0]}
            results[0].users.append(node)
            nodes.append(node)
        for reader in node.users if isinstance(node.val, list) else ():
            reader.operation, reader.args = "alias", {"self": results[reader.args["index"]]}
            reader.args["self"].users.append(reader)
    flat.nodes = nodes
