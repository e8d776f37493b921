"""The stages that all front ends share: calls of modules -> bodies, weights and constants declared where all of them see them, the text.

A front end makes nodes (graph.py) and says what it knows of its modules: the methods of Importer under "of the front end".
"""
import re
from collections.abc import Mapping

import numpy as np

from . import net
from .graph import Node, Unsupported, all_nodes, is_float, last_line, shown
from .net import Body, Call, Index, List, Num, Op, Scan, Var, identifier
from .ops import OPS, Use, Value

# operation -> its arguments that are weights of a layer of the library, and what that layer calls them
LIBRARY = {
    "linear": {"weight": "weight", "bias": "bias"},
    "batch_norm": {"weight": "weight", "bias": "bias", "running_mean": "running_mean", "running_var": "running_var"},
    "layer_norm": {"weight": "weight", "bias": "bias"},
    "group_norm": {"weight": "weight", "bias": "bias"},
    "instance_norm": {"weight": "weight", "bias": "bias"},
    "rms_norm": {"weight": "weight"},
    "embedding": {"weight": "weight"},
    "prelu": {"weight": "weight"},
    "addmm": {"mat2": "weight", "self": "bias"},
    "lstm": {"weight_ih": "weight_ih", "weight_hh": "weight_hh", "bias_ih": "bias"},
    "gru": {"weight_ih": "dense_1.weight", "weight_hh": "weight_hh", "bias_ih": "dense_1.bias", "bias_hh": "bias_hh"},
    "rnn": {"weight_ih": "dense_1.weight", "weight_hh": "weight_hh", "bias_ih": "dense_1.bias"},
}
for _c in ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"):
    LIBRARY[_c] = LIBRARY["linear"]
NEEDED = {"addmm": 2, "batch_norm": 4, "group_norm": 2, "instance_norm": 2, "lstm": 2, "gru": 2, "rnn": 2}  # all of them, or the layer does not serve
WHOLE = {"int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "u8", "uint16": "u16", "uint32": "u32", "bool": "bool"}
PLAIN = {"drop", "permute", "transpose", "view", "reshape", "contiguous", "clone", "flatten", "to", "_to_copy", "expand", "unsqueeze", "squeeze", "dropout", "getitem", "t", "detach_",
         "_assert_tensor_metadata", "alias"}


class Frame:
    """One call of a module: nodes and calls inside, in order."""

    def __init__(self, path, key, parent):
        self.path, self.key, self.parent, self.items = path, key, parent, []
        self.values, self.inputs = {}, []
        self.scans = {}  # the path of its step -> the variable of a loop

    def inside(self, other):
        f = self
        while f is not None:
            if f is other:
                return True
            f = f.parent
        return False


class Constant(Use):
    def __init__(self, node):
        super().__init__(node, None)
        self.const = node.const
        self.dtype = node.const.dtype


class Importer:
    """flat: nodes in order, inputs, outputs, and state, the arrays of parameters and buffers by name."""
    leading = 1  # axes in front that are the batch's
    from_end = False  # whether places that are computed count from the end where they are below 0
    source = ""  # what the models are of

    def __init__(self, flat):
        self.flat = flat
        self.loops = getattr(flat, "loops", {})  # the path of its step -> the node of a loop
        self.writer = net.Writer()
        self.weights = {}  # our name -> tensor
        self.transposed = []
        self.declared = {}  # name of a weight here -> its name and shape there; of a constant None

    # ---- of the front end

    def dissolves(self, frame):
        """Whether a call is no layer of its own, but written where it is."""
        return self.small(frame)

    def prepare_frames(self):
        """What it changes in nodes and calls (self.top) before layers are made of them."""

    def title(self, path):
        """-> what the comment above a layer says, the layer's name"""
        raise NotImplementedError

    def argument_names(self, path):
        return []

    def hints(self, node, frame):
        """What the source calls the results of a node."""
        return []

    def place(self, node):
        """-> where a node is, and its line of the source, for messages"""
        return node.stack[-1][1] if node.stack else "", last_line(node.trace)

    def input_type(self, dtype):
        return "f32" if is_float(dtype) else self.whole_type(dtype)

    def whole_type(self, dtype):
        """What a type of whole numbers is called in the text."""
        return WHOLE[str(dtype)]

    # ---- which operations belong to which call

    def frames(self, outputs):
        live, stack = set(), list(outputs)
        while stack:
            n = stack.pop()
            if id(n) not in live:
                live.add(id(n))
                stack += list(all_nodes(n.args))
        self.top = Frame("", ("",), None)
        self.where = {}
        opened = [self.top]
        closed = set()
        for node in self.flat.nodes:
            if id(node) not in live or node.const is not None:
                continue
            keys = node.stack[1:] if node.stack and node.stack[0][1] == "" else node.stack
            depth = 0
            while depth < len(keys) and depth + 1 < len(opened) and opened[depth + 1].key == keys[depth][0]:
                depth += 1
            for f in opened[depth + 1:]:
                closed.add(f.key)
            del opened[depth + 1:]
            for key, path in keys[depth:]:
                frame = Frame(path, key, opened[-1])
                opened[-1].items.append(frame)
                opened.append(frame)
            opened[-1].items.append(node)
            node.users = [u for u in node.users if id(u) in live]
        self.prepare_frames()
        self.simplify(self.top)
        self.locate(self.top)
        self.grow()

    def simplify(self, frame):
        """Calls that are no layers become part of the call around them."""
        items = []
        seen = {}
        for item in frame.items:
            if isinstance(item, Frame):
                self.simplify(item)
                seen[item.path] = seen.get(item.path, 0) + 1
        for item in frame.items:
            if isinstance(item, Frame) and item.path not in self.loops and (self.dissolves(item) or seen[item.path] > 1):
                for i in item.items:
                    if isinstance(i, Frame):
                        i.parent = frame
                items += item.items
            else:
                items.append(item)
        frame.items = items

    def small(self, frame):
        if any(isinstance(i, Frame) for i in frame.items):
            return len(frame.items) == 1
        real = [i for i in frame.items if i.op() not in PLAIN]
        weighted = [i for i in real if any(a.parameter for a in all_nodes(i.args))]
        return len(real) <= 2 and len(weighted) <= 1

    def locate(self, frame):
        for item in frame.items:
            if isinstance(item, Frame):
                self.locate(item)
            else:
                self.where[id(item)] = frame

    def grow(self):
        """cat([a, b, c]) after cat([a, b]) is cat([that, c]), also where the two are in calls of different modules: they are moved out."""
        cats = {}
        for node in self.flat.nodes:
            if id(node) in self.where and node.op() == "cat" and not node.loops and all(isinstance(t, Node) for t in node.args["tensors"]):
                tensors = node.args["tensors"]
                key = (node.args["dim"] % len(node.shape),) + tuple(map(id, tensors))
                for n in range(len(tensors) - 1, 0, -1):
                    before = tensors[0] if n == 1 else cats.get(key[:n + 1])
                    if before is None or n == 1 and len(tensors) > 2:
                        continue
                    if n > 1:
                        node.args = {**node.args, "tensors": [before] + tensors[n:]}
                        for t in tensors[:n]:
                            t.users = [u for u in t.users if u is not node]
                        before.users.append(node)
                    break
                cats.setdefault(key, node)
        for node in self.flat.nodes:
            if id(node) in self.where and node.op() == "cat" and not node.loops:
                self.move_out(node)

    def move_out(self, node):
        """A cat of what all comes from outside of its call is computed before the call."""
        frame = self.where[id(node)]
        while frame.parent is not None and all(not self.where.get(id(t), self.top).inside(frame) for t in node.args["tensors"]) and len(node.args["tensors"]) < 4:
            frame.items.remove(node)
            frame.parent.items.insert(frame.parent.items.index(frame), node)
            frame = self.where[id(node)] = frame.parent

    # ---- weights and constants: in which call they are declared

    def uses(self, node):
        return [u for u in node.users if id(u) in self.where]

    def prepare(self):
        self.library = {}
        for node in self.flat.nodes:
            if id(node) in self.where:
                self.try_library(node)

    def try_library(self, node):
        names = LIBRARY.get(node.op())
        if not names:
            return
        found, prefix = {}, set()
        for key, ours in names.items():
            a = node.args.get(key)
            if not isinstance(a, Node):
                continue
            fqn = a.parameter or a.buffer
            if fqn is None or not (fqn == ours or fqn.endswith("." + ours)) or a.parameter and len(self.uses(a)) != 1:
                return
            prefix.add(fqn[:-len(ours)].rstrip("."))
            found[ours] = (fqn, a)
        frame = self.where[id(node)]
        if len(prefix) != 1 or len(found) < NEEDED.get(node.op(), 1):
            return
        prefix = prefix.pop()
        if frame.path and prefix != frame.path and not prefix.startswith(frame.path + ".") or any(k == "running_mean" and len(self.uses(a)) > 1 for k, (_, a) in found.items()):
            return
        name = prefix[len(frame.path):].lstrip(".")
        self.library[id(node)] = name
        for ours, (fqn, a) in found.items():
            self.weights[fqn] = self.flat.state[fqn]
            if node.op() == "addmm" and ours == "weight":
                self.weights[fqn] = self.weights[fqn].T
                self.transposed.append(fqn)

    def owner(self, node):
        """The innermost call around all uses of a weight or constant; of a weight, one whose path begins its name."""
        frames = [self.where[id(u)] for u in self.uses(node)]
        frame = frames[0]
        fqn = node.parameter or node.buffer or ""
        while not all(f.inside(frame) for f in frames) or fqn and frame.path and not fqn.startswith(frame.path + "."):
            frame = frame.parent
        return frame

    def declare(self, node):
        """A weight, or a constant that is too large to be written, as a declaration in the call that owns it."""
        frame = self.owner(node)
        fqn = node.parameter or node.buffer
        relative = fqn[len(frame.path):].lstrip(".") if fqn else node.said or self.hint(node, frame) or "constant"
        name = net.free_name(identifier(relative), {v.hint: 0 for v in frame.body.declared}, -1, forever=True)
        tensor = self.flat.state[node.parameter] if node.parameter else node.const
        if not node.parameter and tensor.dtype.kind in "iu" and tensor.size and max(map(abs, (int(tensor.min()), int(tensor.max())))) > 2 ** 24:
            return self.declare_parts(frame, node, relative, tensor)
        shape = tuple(tensor.shape)
        axes = [d for d in range(len(shape)) if shape[d] != 1] if len(shape) > 1 else list(range(len(shape)))
        ours = [shape[d] for d in axes]
        var = frame.body.declare("weight" if node.parameter else "state", name, ours, "f32", self.initial(node) if node.parameter else "0")
        path = (frame.path + "." if frame.path else "") + name
        if not is_float(tensor.dtype):
            tensor = tensor.astype("float32")
        self.weights[path] = tensor.reshape(ours)
        self.declared[path] = (node.parameter, list(shape)) if node.parameter else None
        value = Value(var, shape, axes, node.val.dtype if node.parameter else node.const.dtype)
        if not node.parameter and not is_float(node.const.dtype):
            expr = Op("!=", var, 0) if node.const.dtype == bool else Call(self.whole_type(node.const.dtype), var)
            value = Value(frame.body.add(expr, name, ours), shape, axes, node.const.dtype)
        frame.values[node] = value
        return frame

    def declare_parts(self, frame, node, name, tensor):
        """Whole numbers that f32 does not hold, as tables of 24 bits that it does: (high * 2^24 + middle) * 2^24 + low."""
        shape, kind = tensor.shape, self.whole_type(tensor.dtype)
        axes = [d for d in range(len(shape)) if shape[d] != 1] if len(shape) > 1 else list(range(len(shape)))
        ours, expr = [shape[d] for d in axes], None
        parts = [("low", tensor & 2 ** 24 - 1), ("high", tensor >> 24)]
        if max(map(abs, (int(tensor.min()), int(tensor.max())))) >= 2 ** 47:
            parts = [parts[0], ("middle", tensor >> 24 & 2 ** 24 - 1), ("high", tensor >> 48)]
        for what, part in reversed(parts):
            own = net.free_name(identifier(f"{name}_{what}"), {v.hint: 0 for v in frame.body.declared}, -1, forever=True)
            var = Call(kind, frame.body.declare("state", own, ours, "f32", "0"))
            expr = Op("+", Op("*", expr, Num(2 ** 24, "value")), var) if expr else var
            path = (frame.path + "." if frame.path else "") + own
            self.weights[path], self.declared[path] = part.reshape(ours).astype("float32"), None
        frame.values[node] = Value(frame.body.add(expr, identifier(name), ours), shape, axes, tensor.dtype)
        return frame

    def initial(self, node):
        t = self.flat.state[node.parameter]
        if t.size and (t == t.flat[0]).all():
            return net.number(float(t.flat[0]))
        return "he()" if t.ndim == 2 and len(self.uses(node)) == 1 and self.uses(node)[0].op() == "linear" else f"normal({net.number(float('%.2g' % t.astype(float).std()))})"

    # ---- a call -> a body

    def hint(self, node, frame):
        return next(iter(self.hints(node, frame)), None)

    def begin(self, frame):
        frame.body = Body(*self.title(frame.path), frame.path or "the model")
        for item in frame.items:
            if isinstance(item, Frame):
                self.begin(item)

    def lookup(self, frame, node):
        if node in frame.values:
            return frame.values[node]
        if node.parameter or node.const is not None:
            value = self.written(frame, node)
            if value is not None:
                return value
            owner = self.owner(node)
            if node not in owner.values:
                self.declare(node)
            if owner is frame:
                return frame.values[node]
        assert frame.parent is not None, f"{node.op()} of nowhere"
        outer = self.lookup(frame.parent, node)
        names = self.argument_names(frame.path) if not frame.inputs else []
        name = names[0] if names and names[0] not in ("args", "kwargs") else identifier(outer.var.hint or "y")
        given = next((v for o, v in zip(frame.inputs, frame.body.inputs) if o.var is outer.var), None)
        var = given or frame.body.take(name, outer.ours)
        var.classes, var.whole = getattr(outer.var, "classes", None), not is_float(outer.dtype)
        value = Value(var, outer.shape, outer.axes, outer.dtype)
        if given is None:
            frame.inputs.append(outer)
        frame.values[node] = value
        return value

    def written(self, frame, node):
        """A constant that can be said in a few words."""
        t = node.const
        if t is None:
            return None
        shape = tuple(t.shape)
        if t.size == 1:
            v = t.item()
            if v != v:
                return Value(frame.body.add(net.NAN), shape, [], t.dtype)
            return Value(Num(v, "value"), shape, [], t.dtype)
        axes = [d for d in range(len(shape)) if shape[d] != 1]
        ours = [shape[d] for d in axes]
        if (t == t.flat[0]).all() or is_float(t.dtype) and np.isnan(t).all():
            v = t.flat[0].item()
            if t.dtype == bool:
                return Value(frame.body.add(Op("==", Call("broadcast", None, [Num(int(v), "value"), List([Num(s, "shape") for s in ours])]), 1), None, ours), shape, axes, t.dtype)
            e = Call("broadcast", None, [Num(v, "value") if v == v else net.NAN, List([Num(s, "shape") for s in ours])])
            return Value(frame.body.add(e if is_float(t.dtype) else Call(self.whole_type(t.dtype), e), None, ours), shape, axes, t.dtype)
        if len(axes) == 2 and t.dtype == bool and ours[0] == ours[1]:
            m, n = t.reshape(ours), ours[0]
            places = np.arange(n)
            for sign, seen in (("<=", places <= places[:, None]), ("<", places > places[:, None])):  # key, query
                if (m == seen).all():
                    query, key = Index(Call("arange", None, [Num(n, "shape")]), [":", "none"]), Call("arange", None, [Num(n, "shape")])
                    e = Op(">=", query, key) if sign == "<=" else Op("<", query, key)
                    return Value(frame.body.add(e, self.hint(node, frame), ours), shape, axes, t.dtype)
        if len(axes) == 1 and t.dtype != bool:
            f = t.flatten()
            step = (f[1] - f[0]).item()
            if not is_float(t.dtype) and (f == f[0] + step * np.arange(len(f))).all():
                e = Call("arange", None, [Num(len(f), "shape")])
                if t.dtype == np.int64 and max(abs(f[0].item()), abs(f[-1].item()), abs(step)) >= 2 ** 31:
                    e = Call("i64", e)
                e = e if step == 1 else Op("*", e, Num(step, "step"))
                e = e if f[0] == 0 else Op("+", e, Num(f[0].item(), "start"))
                return Value(frame.body.add(e, self.hint(node, frame), ours), shape, axes, t.dtype)
            if len(f) <= 6:
                return Value(frame.body.add(Call("tensor", None, [List([Num(x, "value") for x in f.tolist()])]), self.hint(node, frame), ours), shape, axes, t.dtype)
        return None

    def run(self, frame):
        cx = Context(self, frame)
        for item in frame.items:
            if isinstance(item, Frame):
                self.run_child(frame, item)
            else:
                frame.values[item] = cx.convert(item)

    def results(self, frame):
        """Nodes in a call that are used outside of it."""
        inside, out = [], []

        def collect(f):
            for item in f.items:
                if isinstance(item, Frame):
                    collect(item)
                else:
                    inside.append(item)
        collect(frame)
        ids = set(map(id, inside))
        for n in inside:
            if any(id(u) not in ids for u in n.users) or n in self.outputs:
                if n.val is not None and not isinstance(n.val, (list, tuple)):
                    out.append(n)
                else:
                    raise Unsupported(frame.path, n.op(), "has several results that are used outside of its module", last_line(n.trace))
        return out

    def run_step(self, frame, child):
        """The step of a loop: a layer that the statement of the loop calls."""
        node = self.loops[child.path]
        whole = lambda v: [d for d in range(len(v.shape)) if v.shape[d] != 1]  # noqa: E731
        results, states = node.args["inside"], len(node.args["first"])
        var = Var(None)
        var.parts = [Var(None, "state" if n < states else "y", [r.shape[d] for d in whole(r)] if n < states else
                         [node.args["steps"]] + [r.shape[d] for d in whole(r)]) for n, r in enumerate(results)]
        for p in var.parts:
            p.of, p.expr = var, var
        var.expr = Scan(None, [], [Var(None, "now") for _ in node.args["sequences"]], [])
        child.scan = frame.scans[child.path] = var
        self.run(child)
        child.body.outputs = [child.values[r].var for r in results]
        net.close(child.body)
        self.writer.add(child.body)
        ours = [outer.var for outer in child.inputs]
        var.expr.call = Call(child.body, ours[0] if ours else None, ours[1:], name=child.path[len(frame.path):].lstrip("."))

    def run_child(self, frame, child):
        if child.path in self.loops:
            return self.run_step(frame, child)
        self.run(child)
        nodes = self.results(child)
        values = [child.values[n] for n in nodes]
        child.body.outputs = [v.var for v in values]
        for v in values:
            if not isinstance(v.var, net.Var):
                raise Unsupported(child.path, "a constant", "is the result of the module", "")
        distinct = []  # one variable that two nodes are views of
        for v in values:
            if v.var not in distinct:
                distinct.append(v.var)
        child.body.outputs = distinct
        net.close(child.body)
        self.writer.add(child.body)
        ours = [outer.var for outer in child.inputs]
        call = Call(child.body, ours[0] if ours else None, ours[1:], name=child.path[len(frame.path):].lstrip("."))
        hint = self.hint(nodes[-1], frame)
        shapes = {}
        for v in values:
            shapes[id(v.var)] = v.ours
        if len(distinct) == 1:
            made = [frame.body.add(call, hint, shapes[id(distinct[0])])]
        else:
            made = frame.body_several(call, [shapes[id(d)] for d in distinct], [d.hint or hint for d in distinct])
        for n, v in zip(nodes, values):
            frame.values[n] = Value(made[distinct.index(v.var)], v.shape, v.axes, v.dtype)

    def outputs_are(self, node):
        return any(o is node for o in self.outputs)

    def whole(self, outputs):
        self.outputs = outputs
        self.frames(outputs)
        self.prepare()
        self.begin(self.top)
        self.top.body.is_model = True


def several(body, expr, shapes, hints):
    v = body.add(expr)
    v.parts = [net.Var(None, h, s) for s, h in zip(shapes, hints)]
    for p in v.parts:
        p.of, p.expr = v, v
    return v.parts


Frame.body_several = lambda self, expr, shapes, hints: several(self.body, expr, shapes, hints)


# arguments that change no number, or that the shape and the type of the result say
SILENT = set("memory_format layout device pin_memory non_blocking copy inplace implicit requires_grad sparse sorted cudnn_enable cudnn_enabled size shape sizes start_dim end_dim output_size "
             "split_size split_sizes chunks sections indices_or_sections num_classes".split())


class Arguments(Mapping):
    """Of an operation, by name; knows which of them its rule has read."""

    def __init__(self, values):
        self.values, self.read = values, set()

    def __getitem__(self, key):
        self.read.add(key)
        return self.values[key]

    def __iter__(self):
        return iter(self.values)

    def __len__(self):
        return len(self.values)

    def __contains__(self, key):
        return key in self.values

    def unread(self, node):
        """Those that say something, and that the rule has not read: it would compute what the operation does without them."""
        found = []
        for key in self.values if node.defaults is not None else ():
            a = node.args[key]
            if key in self.read or key in SILENT or a is None or a is False and key not in node.defaults or key in node.defaults and same_argument(a, node.defaults[key]):
                continue
            if key == "dtype":  # the result has it; floats have the program's type, so that only what is summed up in another kind differs
                x = next((v for v in self.values.values() if isinstance(v, Value)), None)
                val = node.val[0] if isinstance(node.val, (list, tuple)) else node.val
                if x is None or x.dtype == val.dtype or is_float(x.dtype) and is_float(val.dtype):
                    continue
            found.append(key)
        return found


def same_argument(a, default):
    return type(a) in (bool, int, float, str, list, tuple, type(None)) and (list(a) if isinstance(a, tuple) else a) == default


class Context:
    """What operations are written with: the call that they belong to."""

    def __init__(self, importer, frame):
        self.importer, self.frame, self.node = importer, frame, None

    def convert(self, node):
        self.node = node
        convert = OPS.get(node.op()) or OPS.get(node.op().rstrip("_"))
        if convert is None:
            raise self.unsupported(node, "has no counterpart")
        library = self.importer.library.get(id(node))
        args = Arguments({k: self.argument(node, k, a, library) for k, a in node.args.items() if k != "inside"})  # which, of a loop, is in the call of its step
        try:
            result = convert(self, node, args)
            left = [k for k in args.unread(node) if library is None or k not in LIBRARY[node.op()]]
            if left:
                raise self.unsupported(node, "with " + ", ".join(f"{k} = {net.number(node.args[k]) if isinstance(node.args[k], (bool, int, float)) else node.args[k] if isinstance(node.args[k], str) else '...'}"
                                                                  for k in left) + " has no counterpart")
            return result
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as e:  # a form of the operation that its rule does not know
            raise self.unsupported(node, f"has a form that is not known here ({type(e).__name__}: {e})") from e

    def argument(self, node, key, a, library):
        if isinstance(a, list):
            return [self.argument(node, None, x, library) for x in a]
        if not isinstance(a, Node):
            return a
        if key in LIBRARY.get(node.op(), ()):
            return Use(a, library)
        if key == "attn_mask":
            return Constant(a) if a.const is not None else Masked(a, self.lookup(a))
        value = self.lookup(a)
        if isinstance(value, Value):
            value.const = a.const is not None
        return value

    def lookup(self, node):
        return self.importer.lookup(self.frame, node)

    def new(self, expr, shape, axes, dtype, hint=None):
        var = self.frame.body.add(expr, hint, [shape[d] for d in axes])
        return Value(var, shape, axes, dtype)

    def result(self, expr, axes, node):
        return self.new(expr, node.shape, axes, node.val.dtype, self.importer.hint(getattr(node, "node", node), self.frame))

    def several(self, expr, shapes):
        hints = self.importer.hints(self.node, self.frame)
        return several(self.frame.body, expr, shapes, hints if len(hints) == len(shapes) else (hints[:1] or [None]) * len(shapes))

    def number(self, v):
        return Num(v, "value") if v == v else net.NAN

    def is_input(self, v, count):
        return getattr(v.var, "classes", None) == count

    def unsupported(self, node, why):
        node = getattr(node, "node", node)
        path, source = self.importer.place(node)
        return Unsupported(path, node.op(), why, source)


class Masked(Use):
    def __init__(self, node, v):
        super().__init__(node, None)
        self.v = v

    def value(self, cx):
        return self.v


# ---- the model: inputs, loss, settings

def consumers(node):
    """Operations that read it, through those that go element by element."""
    seen, stack = set(), [node]
    while stack:
        n = stack.pop()
        for u in n.users:
            if id(u) in seen:
                continue
            seen.add(id(u))
            yield u, n
            if u.op() in ("add", "sub", "mul", "div", "to", "contiguous", "clone", "cat", "stack", "select", "slice", "relu", "dropout", "getitem", "chunk", "pad", "constant_pad_nd"):
                stack.append(u)


def input_axes(node, leading):
    """Pictures and signals that a convolution reads are channels last here."""
    rank = len(node.shape)
    for u, n in consumers(node):
        if u.op().startswith("conv") and len(n.shape) == rank and u.args.get("input") is n and (leading or node.shape[0] == 1):
            return list(range(2, rank)) + [1]
        if u.op() in ("batch_norm", "group_norm") and len(n.shape) == rank and rank > 2 and (leading or node.shape[0] == 1):
            return list(range(2, rank)) + [1]
    return list(range(leading, rank))


def rows_of(node):
    """How many rows the embedding has that an input of whole numbers chooses from."""
    stack = [node]
    while stack:
        n = stack.pop()
        for u in n.users:
            if u.op() == "embedding" and u.args["indices"] is n:
                return u.args["weight"].shape[0]
            if u.op() in ("view", "reshape", "to", "slice", "clone", "unsqueeze"):
                stack.append(u)
    return None


def input_lines(importer, used):
    """Declares the inputs that are used -> their lines, what is known of them."""
    top, lines, inputs = importer.top, [], []
    lead = importer.leading
    for node in importer.flat.inputs:
        if not node.users and not importer.outputs_are(node):
            continue
        if lead and (not node.shape or node.shape[0] != 1):
            raise Unsupported("", f"input {node.input}", "has no axis for the batch in front", "")
        axes = input_axes(node, lead)
        name = net.free_name(identifier(node.input), {n: 0 for n in used}, -1, forever=True)
        used.add(name)
        ours = [node.shape[d] for d in axes]
        var = net.Var(None, name, ours)
        var.classes = rows = rows_of(node) if not is_float(node.val.dtype) else None
        kind = f"class({rows})" if rows else importer.input_type(node.val.dtype)
        lines.append(f"input {name}: {kind}" + (net.number(ours) if ours else ""))
        inputs.append({"name": name, "axes": [d - lead for d in axes], "shape": ours, "source": node.input, "classes": rows})
        top.body.inputs.append(var)
        top.values[node] = Value(var, node.shape, axes, node.val.dtype)
    return lines, inputs


def loss_lines(name, value, loss, used, classes):
    """-> the loss to begin with, the declaration of its target, lines. classes: whether the last axis is one of classes, None: it is if it can be"""
    whole = not is_float(value.dtype)
    if loss is None:
        loss = "cross_entropy" if len(value.ours) in (1, 2) and value.ours[-1] > 1 and not whole and classes is not False else "mse"
    target = net.free_name("next" if len(value.ours) == 2 and not whole else "label" if loss == "cross_entropy" else "target", {n: 0 for n in used}, -1, forever=True)
    kind = f"class({value.ours[-1]})" + (net.number(value.ours[:-1]) if value.ours[:-1] else "") if loss == "cross_entropy" else "f32" + (net.number(value.ours) if value.ours else "")
    lines = [f"    loss   {loss}({f'f32({name})' if whole else name}, {target})"]
    if loss == "cross_entropy":
        lines.append(f"    metric accuracy({name}, {target})")
    return loss, target, kind, lines


def frozen_notes(source, names):
    """A comment on layers or weights that are not trained where they come from, if there are any."""
    some = ", ".join(names[:6]) + (f", ... ({len(names)} in all)" if len(names) > 6 else "")
    return [f"{source} does not train {some}; \"NAME\" {{ frozen = true }} in train keeps the weights of a layer."] if names else []


LAST = {"softmax": "cross_entropy", "sigmoid": "binary_cross_entropy"}  # what a model ends with -> the loss of what comes before it


def without_last(outputs, loss):
    """[(name, node)] with what comes before a softmax or sigmoid at the end in front, and the loss of that; None if the model does not end so."""
    _, first = outputs[0]
    wanted = LAST.get(first.op())
    if not wanted or loss not in (None, wanted) or first.args.get("dim", -1) not in (-1, len(first.shape) - 1):
        return None
    return [("logits", first.args["self"])] + outputs, wanted


def model_text(importer, title, name, path, outputs, loss, batch, notes, classes=None):
    """title: what the model is, for the first line; name: of the model; outputs: [(name, node)], the first has the loss -> text, info"""
    top, used = importer.top, set()
    body, lead = top.body, importer.leading
    weights_name = path.with_suffix(".safetensors").name
    lines, inputs = input_lines(importer, used)
    importer.run(top)
    values = [importer.lookup(top, node) for _, node in outputs]
    if not all(isinstance(v.var, net.Var) for v in values):
        raise Unsupported("", "the output", "depends on no input", "")
    body.outputs = [v.var for v in values]
    net.close(body)
    importer.writer.add(body)
    importer.writer.solve()
    *layers, last = importer.writer.order
    statements = net.written(last)
    results = statements[-len(outputs):]
    taken, names = {n: 0 for n in used | net.names_in(last)}, []
    for (given, _), result in zip(outputs, results):
        if result == given and result not in names:  # it is called so already
            names.append(result)
            continue
        names.append(net.free_name(identifier(given) if re.match(r"[A-Za-z]\w*$", given) else "y", taken, -1, forever=True))
        taken[names[-1]] = 0
    if classes is False and len(values[0].ours) == 2:  # words of the vocabulary that an input is of
        classes = any(i["classes"] == values[0].ours[-1] for i in inputs)
    guessed = loss is None and classes is False and len(values[0].ours) in (1, 2) and values[0].ours[-1] > 1
    notes = notes + ['The loss is mse, because nothing says that the output is of classes; loss = "cross_entropy" would.'] * guessed
    loss, target, kind, loss_text = loss_lines(names[0], values[0], loss, set(taken), classes)
    out = [net.layer_text(layer) for layer in layers]
    block = [f"model {name} {{"] + ["    " + l for l in lines] + [f"    input {target}: {kind}", ""]
    for s in statements[:-len(outputs)]:
        inner = len(s) - len(s.lstrip())
        block += net.wrap(s.lstrip(), 4 + inner)
    for n, result in zip(names, results):
        block += net.wrap(f"{n} = {result}", 4) if n != result else []
    block += [""] + loss_text + [f"    output {n}" for n in names] + ["}"]
    out.append("\n".join(block))
    columns = ", ".join(f'{n} = "train_{n}.npy"' for n in [i["name"] for i in inputs] + [target])
    out.append("data {\n" + f"    train = npy({columns})\n" + "}")
    init = f"    init      = \"{weights_name}\"\n" if importer.weights else ""
    out.append("train {\n" + f"    batch     = {batch}\n    epochs    = 1\n    lr        = 1e-3\n    optimizer = adam()\n{init}" + "}")
    head = [f"# {path.name}: {title}" + (f"; its weights are in {weights_name}." if importer.weights else ".")]
    for i in inputs:
        if i["axes"] != sorted(i["axes"]):
            order = ", ".join(str(a + lead) for a in i["axes"])
            head.append(f"# {i['name']}: channels last; of {importer.source}'s axes ({'0 is the batch' if lead else 'all are of one sample'}) this is [{order}].")
    head += [f"# {n}" for n in notes]
    about = [{"name": n, "source": given, "axes": [d - lead for d in v.axes], "shape": list(v.shape[lead:])} for n, (given, _), v in zip(names, outputs, values)]
    info = {"inputs": inputs, "target": target, "output": names[0], "outputs": about, "output_axes": about[0]["axes"], "output_shape": about[0]["shape"], "loss": loss,
            "transposed": importer.transposed, "declared": importer.declared, "leading": lead}
    return "\n".join(map(shown, head)) + "\n\n" + "\n\n".join(out) + "\n", info
