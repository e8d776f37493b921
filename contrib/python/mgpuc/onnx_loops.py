"""Scan and Loop of ONNX: a loop of the language, whose step is a layer, or else its turns one after the other.

A loop is a node `scan`, and the nodes of its step before it, which belong to a call of their own. In the step, `scan_input` is what a turn
begins with: a state, or an element of a sequence; what a turn makes goes through `result`.
"""
import numpy as np

from .graph import Unsupported, cut, flip, join, permute, reshape

LONGEST = 10000  # nodes of turns that are written one after the other
COMPUTED = 1024  # turns that are computed while the model is read, where nothing in them depends on an input


def turn(g, op, body, env, given):
    """One turn -> its results"""
    if len(given) != len(body.input):
        raise op.unsupported(f"gives {len(given)} values to a body that takes {len(body.input)}")
    results = g.inside(op, body, {**env, **dict(zip((i.name for i in body.input), given))})
    if any(r is None or isinstance(r, list) for r in results):
        raise op.unsupported("has a sequence, or a result that nothing computes, which has no counterpart")
    return results


def undone(g, count):
    """Nodes after the first `count` have not been made."""
    for node in g.nodes[count:]:
        for value in node.args.values():
            for a in value if isinstance(value, list) else [value]:
                if hasattr(a, "users"):
                    a.users = [u for u in a.users if u is not node]
    del g.nodes[count:]


def stacked(g, values):
    """[t, ...] of the values of t turns"""
    if all(v.array is not None for v in values):
        return g.leaf(np.stack([v.array for v in values]))
    return join(g, [reshape(g, v, (1,) + v.shape) for v in values], 0)


def as_loop(g, op, body, env, begin, states, sequences, steps, check=0):
    """A loop of the language. begin: what each turn is given before the states, check: so many first results that have to be true
    -> last states, stacks [steps, ...]"""
    proto, stack, trace = g.current
    outer, path = g.within, g.step_path(proto)
    g.within = outer + ((f"{path}/step", path),)
    try:
        def given(kind, n, shape, dtype):
            node = g.add("scan_input", shape, dtype, kind=kind, index=n)
            return node
        carried = [given("state", n, s.shape, s.val.dtype) for n, s in enumerate(states)]
        elements = [given("element", n, s.shape[1:], s.val.dtype) for n, s in enumerate(sequences)]
        results = turn(g, op, body, env, begin(carried, elements))
        if any(r.array is None or not r.array.all() for r in results[:check]):
            raise op.unsupported("whose condition is computed has no counterpart: a loop has a number of turns that is known")
        results = results[check:]
        for s, r in zip(states, results):
            if s.shape != r.shape or s.val.dtype != r.val.dtype:
                raise op.unsupported(f"with a state that is {list(s.shape)} before a turn and {list(r.shape)} after it has no counterpart")
        inside = [g.add("result", r.shape, r.val.dtype, self=r) for r in results]
    finally:
        g.within = outer
    shapes = [r.shape if n < len(states) else (steps,) + r.shape for n, r in enumerate(results)]
    node = g.add("scan", shapes, [r.val.dtype for r in results], first=states, sequences=sequences, inside=inside, steps=steps, path=path)
    g.loops[path] = node
    return [g.add("getitem", m.shape, m.dtype, self=node, index=n) for n, m in enumerate(node.val)]


def all_known(env, op, body):
    """Whether nothing that a loop reads depends on an input."""
    read = {name for node in body.node for name in node.input} - {i.name for i in body.input}
    return all(i is None or i.array is not None for i in op.inputs) and all(getattr(env.get(name), "array", 0) is not None for name in read)


def either(g, op, body, env, first, second, turns):
    """The first form, or the second if the first has no counterpart, and its turns are not too many."""
    count = len(g.nodes)
    try:
        return first()
    except Unsupported:
        undone(g, count)
        if turns is None or turns * max(1, len(body.node)) > LONGEST:
            raise
    return second()


def scan(g, op, env):
    body, count = op.attributes.get("body"), op.attr("num_scan_inputs", 0)
    if op.version < 9:
        raise op.unsupported("of operator set 8 has no counterpart: convert the model (onnx.version_converter)")
    if not 0 < count <= len(op.inputs) or any(i is None for i in op.inputs):
        raise op.unsupported("without sequences has no counterpart")
    states, sequences = op.inputs[:-count], list(op.inputs[-count:])
    outs = len(op.proto.output) - len(states)
    axes, ways = op.ints("scan_input_axes", None, [0] * count), op.ints("scan_input_directions", None, [0] * count)
    out_axes, out_ways = op.ints("scan_output_axes", None, [0] * outs), op.ints("scan_output_directions", None, [0] * outs)
    if len(axes) != count or len(ways) != count or len(out_axes) != outs or len(out_ways) != outs or len(body.output) != len(op.proto.output):
        raise op.unsupported("with lists that are not of the length of its inputs or outputs has no counterpart")
    for n, (s, axis, back) in enumerate(zip(sequences, axes, ways)):
        rank = len(s.shape)
        if not -rank <= axis < rank:
            raise op.unsupported(f"over the axis {axis} of {list(s.shape)} has no counterpart")
        s = moved(g, s, axis % rank, 0)
        sequences[n] = turned(g, s) if back else s
    steps = sequences[0].shape[0]
    if any(s.shape[0] != steps for s in sequences) or not steps:
        raise op.unsupported(f"over {', '.join(str(s.shape[0]) for s in sequences)} steps has no counterpart")

    def loop():
        return as_loop(g, op, body, env, lambda carried, elements: carried + elements, states, sequences, steps)

    def turns():
        now, rows = states, []
        for k in range(steps):
            elements = [g.leaf(s.array[k]) if s.array is not None else reshape(g, cut(g, s, 0, k, k + 1), s.shape[1:]) for s in sequences]
            results = turn(g, op, body, env, list(now) + elements)
            now = results[:len(states)]
            rows.append(results[len(states):])
        return list(now) + [stacked(g, list(r)) for r in zip(*rows)]
    known = all_known(env, op, body) and steps <= COMPUTED
    results = turns() if known else either(g, op, body, env, loop, turns, steps)
    for n, (axis, back) in enumerate(zip(out_axes, out_ways), len(states)):
        y = turned(g, results[n]) if back else results[n]
        results[n] = moved(g, y, 0, axis % len(y.shape))
    return results


def moved(g, x, axis, to):
    order = [d for d in range(len(x.shape)) if d != axis]
    order.insert(to, axis)
    return g.leaf(x.array.transpose(order)) if x.array is not None and not x.parameter else permute(g, x, order)


def turned(g, x):
    return g.leaf(x.array[::-1]) if x.array is not None and not x.parameter else flip(g, x, [0])


def loop(g, op, env):
    body = op.attributes.get("body")
    most = None if op.x(0) is None else int(op.array(0, "number of turns").reshape(-1)[0])
    goes_on = None if op.x(1) is None else op.array(1, "condition")
    if any(i is None for i in op.inputs[2:]):
        raise op.unsupported("without a state that it is to have has no counterpart")
    states = op.inputs[2:]
    if len(body.output) != len(op.proto.output) + 1 or len(op.proto.output) < len(states):
        raise op.unsupported("with another number of results than its body has no counterpart")
    if goes_on is not None and not goes_on.all():
        most = 0
    if most is not None and most <= 0:
        if len(op.proto.output) > len(states):
            raise op.unsupported("of no turns has an empty tensor, which has no counterpart")
        return list(states)
    truth = g.leaf(np.array(True))

    def as_scan():
        if most is None or most >= 1 << 31:
            raise op.unsupported("whose number of turns is not known has no counterpart")
        return as_loop(g, op, body, env, lambda carried, elements: elements + [truth] + carried, states, [g.leaf(np.arange(most))], most, check=1)

    def turns():
        now, rows, k = states, [], 0
        while most is None or k < most:
            results = turn(g, op, body, env, [g.leaf(np.array(k)), truth] + list(now))
            now, k = results[1:1 + len(states)], k + 1
            rows.append(results[1 + len(states):])
            if results[0].array is None:
                raise op.unsupported("whose condition is computed has no counterpart: a loop has a number of turns that is known")
            if not results[0].array.all():
                break
            if k * max(1, len(body.node)) > LONGEST:
                raise op.unsupported("of so many turns that differ has no counterpart")
        return list(now) + [stacked(g, list(r)) for r in zip(*rows)]
    bounded = LONGEST if most is None or most > LONGEST else most
    if all_known(env, op, body) and bounded <= COMPUTED:
        return turns()
    return either(g, op, body, env, as_scan, turns, 1 if most is None or most >= 1 << 31 else most)
