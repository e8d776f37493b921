"""Text of the language: expressions, and layers made of bodies that are equal but for numbers.

A body is a list of definitions. Numbers in it are `Num`s. Bodies that differ in numbers alone become one layer; a number that differs from
call to call becomes a parameter of it, or is said by the shape of its input (`c`, `4 * c`). Nothing here knows PyTorch.
"""
import math
import re

from . import extents

RESERVED = set("and else false for if in none not or return then true training step epoch progress pi inf".split())
COLUMNS = 118


def number(v):
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, (list, tuple)):
        return "[" + ", ".join(number(e) for e in v) + "]"
    if isinstance(v, int):
        high, low = divmod(v, 1 << 32)  # constants of the text are doubles
        return str(v) if abs(v) <= 1 << 53 else f"(i64(tensor([{high}]))[0] * 4294967296 + {low})"
    if math.isinf(v):
        return "inf" if v > 0 else "-inf"
    if math.isnan(v):
        return "(inf - inf)"
    if v == int(v) and abs(v) < 1e15:
        return f"{int(v)}.0" if abs(v) >= 1 and v != 1 else str(int(v))
    text = repr(float(v))
    return re.sub(r"e([+-])0*(\d)", lambda m: "e" + m[1].replace("+", "") + m[2], text)


def identifier(text):
    """A name that the language takes, made of any text."""
    text = re.sub(r"\W", "_", text, flags=re.ASCII).strip("_") or "x"
    text = "_" + text if text[0].isdigit() else text
    return text + "_" if text in RESERVED else text


def snake(text):
    """BasicBlock -> basic_block"""
    text = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", text.replace("ViT", "Vit"))
    return identifier(re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", text).lower().replace("_net", "net"))


class Free(str):
    """Text that may differ between equal bodies: the first one's counts."""


class Num:
    """A number, or a list of one for each turn of a loop, that may become a parameter; hint is what it would be called."""

    def __init__(self, value, hint="n"):
        self.value, self.hint, self.key = value, hint, None  # the key of what it is the extent of, by extents.py


class Var:
    """What a body computes, declares or is given: a name once the body is written."""

    def __init__(self, expr=None, hint=None, shape=()):
        self.expr, self.hint, self.shape, self.name = expr, hint, tuple(shape), None
        self.uses, self.last, self.inlined = 0, -1, False
        self.parts = self.of = None  # of several results of a call: the variables; of one of them: the call's
        self.extents = self.keys = None  # of a declaration: its extents as Nums; its axes (extents.py)


class Call:
    """fn(first, ...); first is written before |> where that reads better."""

    def __init__(self, fn, first, args=(), options=(), name=None):
        self.fn, self.first, self.args, self.name = fn, first, list(args), name
        self.options = [(k, v) for k, v in options if v is not None]

    def children(self):
        return ([] if self.first is None else [self.first]) + self.args + [v for _, v in self.options]


class Op:
    """Infix: parts are strings and expressions in turn; level says how tightly it binds (higher is tighter)."""
    LEVELS = {"or": 1, "and": 2, "==": 4, "!=": 4, "<": 4, "<=": 4, ">": 4, ">=": 4, "+": 5, "-": 5, "*": 6, "/": 6, "//": 6, "%": 6, "@": 6, "**": 8}

    def __init__(self, sign, a, b):
        self.sign, self.a, self.b = sign, a, b

    def children(self):
        return [self.a, self.b]


class Index:
    """x[subscripts]: strings, numbers, and one variable"""

    def __init__(self, x, subscripts):
        self.x, self.subscripts = x, subscripts

    def children(self):
        return [self.x] + [s for s in self.subscripts if not isinstance(s, str)]


class Span:
    """start:end:step in a subscript"""

    def __init__(self, start, end, step):
        self.start, self.end, self.step = start, end, step

    def children(self):
        return self.start + self.end

    def pieces(self):
        return list(self.start) + [":"] + list(self.end) + ([f":{self.step}"] if self.step != 1 else [])


class List:
    def __init__(self, items):
        self.items = items

    def children(self):
        return self.items


NAN = Op("-", "inf", "inf")  # no Num, which are told apart by what they are equal to


def walk(e):
    yield e
    for c in getattr(e, "children", list)():
        yield from walk(c)


def join(parts, separator):
    out = []
    for i, p in enumerate(parts):
        out += ([separator] if i else []) + p
    return out


def simple(e):
    """Whether it is short enough to be written inside a call."""
    if isinstance(e, Var):
        return e.name is not None or simple(e.expr)
    if isinstance(e, Call):
        return not e.name and (e.first is None or simple(e.first)) and len(list(walk(e))) < 7
    return isinstance(e, (Num, str, int, float, bool)) or all(simple(c) for c in e.children()) and len(list(walk(e))) < 9


def show(e, level=0):
    """Expression -> list of strings and Nums. level: 0 at the beginning of a statement, where a pipeline needs no parentheses; 1 inside
    brackets; else that of the operator around it."""
    if isinstance(e, str):
        return [e]
    if isinstance(e, Num):
        negative = level > 5 and not isinstance(e.value, (list, tuple)) and e.value < 0
        return ["(", e, ")"] if negative else [e]
    if isinstance(e, (bool, int, float)):
        return [number(e)]
    if isinstance(e, Var):
        return [e.name] if e.name is not None else show(e.expr, level)
    if isinstance(e, List):
        return ["["] + join([show(i, 1) for i in e.items], ", ") + ["]"]
    if isinstance(e, Span):
        return e.pieces()
    if isinstance(e, Index):
        return show(e.x, 9) + ["["] + join([show(s, 1) for s in e.subscripts], ", ") + ["]"]
    if isinstance(e, Op):
        own = Op.LEVELS[e.sign]
        loose = e.sign in ("==", "!=", "<", "<=", ">", ">=", "**")  # a second one needs parentheses
        out = show(e.a, own + (1 if loose else 0)) + [f" {e.sign} "] + show(e.b, own + 1)
        return ["("] + out + [")"] if own < level else out
    return show_call(e, level)


def own_arguments(e):
    out = [show(a, 1) for a in e.args] + [[f"{k} = "] + show(v, 1) for k, v in e.options]
    if e.name is not None:
        out.append(["name = "] + ([e.name.text] if isinstance(e.name, Name) else [f'"{e.name}"' if e.name else "none"]))
    return out


class Name:
    """The name of an instance that is an expression: "layer." + i"""

    def __init__(self, text):
        self.text = text


def show_call(e, level):
    fn = [e.fn] if isinstance(e.fn, str) else ["\0", e.fn]  # the layer's name is known when all bodies are
    arguments = own_arguments(e)
    if e.first is None:
        return fn + ["("] + join(arguments, ", ") + [")"]
    first = e.first
    while isinstance(first, Var) and first.name is None:
        first = first.expr
    if simple(first) and (not arguments or level) and not e.name and not isinstance(first, Call) or level and simple(e):
        return fn + ["("] + join([show(first, 1)] + arguments, ", ") + [")"]
    if isinstance(first, Op) and not arguments:
        return fn + ["("] + show(first, 1) + [")"]
    out = show(first, 0) + [" |> "] + fn + ["("] + join(arguments, ", ") + [")"]
    return ["("] + out + [")"] if level > 1 else out


class Body:
    """Of one module: what it is given, declares, computes and returns."""

    def __init__(self, title, name, path=""):
        self.title, self.name, self.path = title, name, path
        self.inputs, self.declared, self.defs, self.outputs = [], [], [], []
        self.words = []  # lines that are printed after the declarations as they are
        self.layer, self.is_model = None, False

    def add(self, expr, hint=None, shape=()):
        v = Var(expr, hint, shape)
        self.defs.append(v)
        return v

    def take(self, hint, shape):
        v = Var(None, hint, shape)
        self.inputs.append(v)
        return v

    def declare(self, kind, hint, shape, dtype, init):
        v = Var(None, hint, shape)
        v.declaration, v.extents = (kind, dtype, init), [Num(s, "extent") for s in shape]
        self.declared.append(v)
        return v


CARRIED = "\1"  # in the expression of a loop: what the turn before made


class Loop:
    """for i in range(begin, begin + turns): carried = expr; calls of layers in it name their instances by i."""

    def __init__(self, first, expr, begin, turns, count):
        self.first, self.expr, self.begin, self.turns = first, expr, begin, turns
        self.end = Num(begin + count, "depth")

    def children(self):
        return [self.first, self.expr]


class Scan:
    """state = first, ...; scan element, ... in sequence, ... { state, ..., stack, ... = call }: results are the parts of its variable."""

    def __init__(self, call, firsts, elements, sequences):
        self.call, self.firsts, self.elements, self.sequences = call, firsts, elements, sequences

    def children(self):
        return self.firsts + self.sequences + [self.call]


# ---- bodies -> text

def numbered(name):
    """layers.3.conv -> ("layers.", 3, ".conv"): the last number, None if there is none"""
    m = re.match(r"^(.*?)(\d+)((?:\.[A-Za-z_]\w*)*)$", name or "")
    return (m[1], int(m[2]), m[3]) if m else None


def definition(e, group):
    """An expression with the variables of its group written out, but for the last one's."""
    if isinstance(e, Var):
        return definition(e.expr, group) if any(e is g for g in group) else e
    return rebuilt(e, lambda c: definition(c, group))


def rebuilt(e, f):
    """The same kind of expression with f of its parts."""
    if isinstance(e, Call):
        return Call(e.fn, None if e.first is None else f(e.first), [f(a) for a in e.args], [(k, f(v)) for k, v in e.options], e.name)
    if isinstance(e, Op):
        return Op(e.sign, f(e.a), f(e.b))
    if isinstance(e, Index):
        return Index(f(e.x), [s if isinstance(s, str) else f(s) for s in e.subscripts])
    if isinstance(e, List):
        return List([f(i) for i in e.items])
    return e


class Turns:
    """Whether the expression of a turn is that of the turn before, one number further on."""

    def __init__(self):
        self.first, self.calls, self.place = None, [], None

    def same(self, a, b, before):
        if b is before:
            self.first = a if self.first is None else self.first
            return self.first is a
        if type(a) is not type(b):
            return False
        if isinstance(a, Var):
            return a is b
        if isinstance(a, Num):
            return a.value == b.value
        if isinstance(a, Call):
            if (a.name or b.name) and not self.follows(a, b):
                return False
            if isinstance(a.fn, Body) != isinstance(b.fn, Body) or (a.fn.key != b.fn.key if isinstance(a.fn, Body) else a.fn != b.fn):
                return False
            if [k for k, _ in a.options] != [k for k, _ in b.options]:
                return False
        elif isinstance(a, Op):
            if a.sign != b.sign:
                return False
        elif isinstance(a, Span):
            if a.step != b.step:
                return False
        elif not isinstance(a, (Index, List)):
            return a == b
        p, q = a.children(), b.children()
        if isinstance(a, Index) and [s for s in a.subscripts if isinstance(s, str)] != [s for s in b.subscripts if isinstance(s, str)]:
            return False
        return len(p) == len(q) and all(self.same(x, y, before) for x, y in zip(p, q))

    def follows(self, a, b):
        p, q = numbered(a.name), numbered(b.name)
        if not p or not q or (p[0], p[2]) != (q[0], q[2]) or q[1] != p[1] + 1 or self.place is not None and self.place != p[1]:
            return False
        self.place = p[1]
        self.calls.append((a, b))
        return True


def find_loops(body):
    """Runs of equal statements, each fed by the one before and calling the next of numbered modules, become loops."""
    defs, uses = body.defs, {}
    for d in defs:
        for e in walk(d.expr):
            if isinstance(e, Var):
                uses[id(e)] = uses.get(id(e), 0) + 1
    for o in body.outputs:
        uses[id(o)] = uses.get(id(o), 0) + 2
    out, i = [], 0
    while i < len(defs):
        best = max((run_at(defs, i, k, uses) for k in range(1, 5)), key=lambda r: r[0] * r[1] if r[0] > 1 else 0)
        turns, k, loop = best
        if turns < 2:
            out.append(defs[i])
            i += 1
            continue
        last = defs[i + turns * k - 1]
        last.expr = loop
        out.append(last)
        i += turns * k
    body.defs = out


def run_at(defs, i, k, uses):
    """(turns, statements of a turn, Loop) of the longest run from i on"""
    none = (1, k, None)
    groups, found, first = [], [], None
    while i + k <= len(defs):
        group = defs[i:i + k]
        if any(d.parts or isinstance(d.expr, Loop) for d in group) or any(uses.get(id(d)) != 1 for d in group[:-1]):
            break
        if any(sum(e is d for o in group for e in walk(o.expr)) != 1 for d in group[:-1]):
            break
        expr = definition(group[-1].expr, group[:-1])
        if groups:
            turn = Turns()
            before, old = groups[-1]
            if not turn.same(old, expr, before) or not turn.calls or turn.first is None:
                break
            if uses.get(id(before)) != sum(e is before for o in group for e in walk(o.expr)) or first is not None and turn.first is not groups[-2][0]:
                break
            first = turn.first if first is None else first
            found.append(turn)
        groups.append((group[-1], expr))
        i += k
    if not found:
        return none
    calls = [[a for a, _ in found[0].calls]] + [[b for _, b in t.calls] for t in found]
    count = worth(calls)
    if count < 2:
        return none
    expr = groups[0][1]
    names = {id(c): numbered(c.name) for c in calls[0]}

    def carried(e):
        if e is first:
            return CARRIED
        new = rebuilt(e, carried)
        if isinstance(e, Call) and id(e) in names:
            before, _, after = names[id(e)]
            new.name = Name((f'"{before}" + i' if before else "i") + (f' + "{after}"' if after else ""))
        return new
    turns = {id(c.fn): [t[n].fn for t in calls[:count]] for n, c in enumerate(calls[0]) if isinstance(c.fn, Body)}
    return count, k, Loop(first, carried(expr), found[0].place, turns, count)


def worth(calls):
    """So many turns make a loop: all that are equal, or four and more, or two that differ in one number."""
    vectors = [sum((numbers_of(c.fn) for c in turn if isinstance(c.fn, Body)), []) for turn in calls]
    kinds = {tuple(v) for v in zip(*vectors) if any(x != v[0] for x in v)} if vectors[0] else set()
    if len(kinds) <= 1 or len(calls) >= 4:
        return len(calls)
    equal = 1
    while equal < len(vectors) and vectors[equal] == vectors[0]:
        equal += 1
    return equal


def numbers_of(body):
    """All numbers in a body and in what it calls."""
    out = []
    for line in body.lines + body.results:
        for p in line:
            if isinstance(p, Num):
                out.append(p.value)
            elif isinstance(p, Loop):
                out.append(p.end.value)
                for turns in p.turns.values():
                    for t in turns:
                        out += [tuple(numbers_of(t))]
            elif isinstance(p, Body):
                out += numbers_of(p)
    return out


def name_variables(body):
    """Which variables are written as statements, and what they are called: names of the source where they are free."""
    for n, d in enumerate(body.defs):
        for e in walk(d.expr):
            if isinstance(e, Var):
                e.uses += 1
                e.last = n
    for o in body.outputs:
        o.uses += 1
        o.last = len(body.defs)
    inline(body)
    # the last place where a variable is read, through those that are written inside others
    def reads(e, n):
        for v in walk(e):
            if isinstance(v, Var):
                v.last = max(v.last, n)
                if v.name is None and v.expr is not None and v.inlined:
                    reads(v.expr, n)
    for n, d in enumerate(body.defs):
        if isinstance(d.expr, Loop):
            reads(d.expr.first, n)
            reads(d.expr.expr, n + 0.5)  # also in the turns after the first, when the result has its name
        elif isinstance(d.expr, Scan):
            reads(d.expr, n + 0.5)  # states have their names before what is read
        elif not d.inlined:
            reads(d.expr, n)
    for o in body.outputs:
        reads(o, len(body.defs))
    live = {}
    for v in body.declared + body.inputs:
        v.name = free_name(identifier(v.hint or "x"), live, -1, forever=True)
        live[v.name] = 10 ** 9 if v in body.declared else v.last
    for n, d in enumerate(body.defs):
        if d.inlined:
            continue
        for e in d.expr.elements if isinstance(d.expr, Scan) else ():
            e.name = free_name(identifier(e.hint), live, n, forever=True)
            live[e.name] = n + 0.5
        for k, v in enumerate(d.parts or [d]):
            if d.parts and not v.uses:
                continue  # written as _
            if isinstance(d.expr, Scan) and k >= len(d.expr.firsts):  # a stack has a name that is new in the loop
                v.name = free_name(identifier(v.hint), live, n, forever=True)
                live[v.name] = max(v.last, n + 0.5)
                continue
            last = v.last if d.parts else d.last
            v.name = free_name(identifier(v.hint or "x"), live, n)
            live[v.name] = max(last, n + 0.5 if isinstance(d.expr, Scan) else n)


def free_name(hint, live, n, forever=False):
    name, k = hint, 2
    while live.get(name, -2) > n or forever and name in live:
        name, k = f"{hint}{k}" if not hint[-1].isdigit() else f"{hint}_{k}", k + 1
    return name


def inline(body):
    outputs = set(map(id, body.outputs))
    readers = {}
    for d in body.defs:
        for e in walk(d.expr):
            if isinstance(e, Var) and e is not d:
                readers.setdefault(id(e), d)
    for d in body.defs:
        d.inlined = False
        if d.uses != 1 or d.parts or isinstance(d.expr, Loop) or id(d) in outputs and (len(outputs) > 1 or isinstance(d.expr, Loop)):
            continue
        reader = readers.get(id(d))
        if reader is None:  # the result
            d.inlined = True
            continue
        e = reader.expr
        if isinstance(e, Loop) or isinstance(e, Scan) and any(d is v for v in walk(e.call)):
            continue  # carried, or read in every step: a variable before the loop
        chain = isinstance(e, Call) and e.first is d
        small = cost(d.expr) < (95 if isinstance(e, Op) else 25)
        own = isinstance(e, Scan) and any(f is d for f in e.firsts)  # a statement of its own
        d.inlined = chain and cost(d.expr) < 400 or small or own


def cost(e):
    """About as many characters as it takes."""
    n = 0
    for x in walk(e):
        n += 4
        if isinstance(x, Var) and x.name is None and x.expr is not None and getattr(x, "inlined", False):
            n += cost(x.expr)
        if isinstance(x, Call):
            n += len(x.fn if isinstance(x.fn, str) else x.fn.name) + 4 + sum(len(k) + 3 for k, _ in x.options) + (len(str(x.name)) + 9 if x.name else 0)
    return n


def lines_of(body):
    """Statements as lists of strings and Nums; nested lists are blocks."""
    out = []
    for v in body.declared:
        kind, dtype, init = v.declaration
        out.append([f"{kind} {v.name}: {dtype}"] + (show(List(v.extents), 0) if v.shape else []) + [Free(f" = {init}")])
    for d in body.defs:
        if d.inlined:
            continue
        if isinstance(d.expr, Loop):
            out += loop_lines(d)
        elif isinstance(d.expr, Scan):
            out += scan_lines(d)
        else:
            out.append([", ".join(v.name if v.name else "_" for v in d.parts or [d]) + " = "] + show(d.expr, 0))
    return out


def loop_lines(d):
    loop = d.expr
    out = []
    first = show(loop.first, 0)
    if first != [d.name]:
        out.append([f"{d.name} = "] + first)
    out.append(["for ", loop, " {"])
    out.append([f"    {d.name} = "] + [d.name if p == CARRIED else p for p in show(loop.expr, 0)])
    out.append(["}"])
    return out


def scan_lines(d):
    scan, out = d.expr, []
    for state, first in zip(d.parts, scan.firsts):
        first = show(first, 0)
        if state.name and first != [state.name]:
            out.append([f"{state.name} = "] + first)
    out.append(["scan " + ", ".join(e.name for e in scan.elements) + " in "] + join([show(s, 1) for s in scan.sequences], ", ") + [" {"])
    out.append(["", "    " + ", ".join(v.name or "_" for v in d.parts) + " = "] + show(scan.call, 0))  # "": not in a loop of a Loop
    out.append(["}"])
    return out


def skeleton(lines):
    out = []
    for line in lines:
        for p in line:
            if isinstance(p, Num):
                out.append("#list" if isinstance(p.value, (list, tuple)) else "#")
            elif isinstance(p, Body):
                out.append(p.key)
            elif isinstance(p, Free):
                out.append("")
            elif isinstance(p, Loop):
                out.append(f"loop {p.begin}")
                out.append(len(p.turns))
            else:
                out.append(p)
        out.append("\n")
    return tuple(out)


def close(body):
    """The body is complete: loops, names, text, and the key by which equal ones are known."""
    for v in body.inputs + body.defs + body.outputs:
        extents.of(v)
    find_loops(body)
    name_variables(body)
    body.lines = lines_of(body)
    body.results = [show(o, 1 if len(body.outputs) > 1 else 0) for o in body.outputs]
    head = tuple((v.name, len(v.shape) if n == 0 else -1) for n, v in enumerate(body.inputs))
    body.key = (body.name, head, skeleton(body.lines), skeleton(body.results))


# ---- equal bodies -> layers

def children(layer):
    """The first parts of the names of what it calls: conv1, downsample, ..."""
    body = layer.bodies[0]
    named = [line[k + 1] for line in body.lines + body.results for k in range(len(line) - 1) if line[k] == "name = "]
    return [m[1] for m in (re.match(r'"([A-Za-z_]\w*)', p) for p in named) if m]


class Layer:
    """Bodies with the same key."""

    def __init__(self, name):
        self.name, self.bodies, self.parameters = name, [], []


class Writer:
    """Bodies -> layers -> text."""

    def __init__(self):
        self.layers = {}
        self.order = []
        self.taken = set()

    def add(self, body):
        """A body whose children have been added."""
        layer = self.layers.get(body.key)
        if layer is None:
            layer = self.layers[body.key] = Layer(body.name)
            self.order.append(layer)
        layer.bodies.append(body)
        body.layer = layer
        return layer

    def solve(self):
        """Numbers of layers: constants, parts of shapes, parameters. Layers were added after those that they call."""
        used = set()
        for layer in self.order:
            for line in layer.bodies[0].lines + layer.bodies[0].results:
                used.update(re.findall(r"[a-z_]\w*(?=\()", "".join(p if isinstance(p, str) else "(" for p in line)))
        used |= {"conv", "dense", "relu", "attention", "softmax", "mean", "dropout"}
        first = {}
        for layer in self.order:
            name, k = layer.name, 2
            if name in used:
                name = layer.name = name + "_block"
            if name in self.taken:  # another of its class: named by what only this one has
                own = [c for c in children(layer) if c not in children(first[name])]
                if own:
                    name = layer.name = f"{name}_{identifier(own[0])}"
            first.setdefault(name, layer)
            while name in self.taken:
                name, k = f"{layer.name}_{k}", k + 1
            self.taken.add(name)
            layer.name = name
        for layer in self.order:
            solve_layer(layer)

    def text(self):
        return "\n\n".join(layer_text(layer) for layer in self.order)


def handed(parameter, turns, listed):
    """What calls hand over for a parameter of their layer: a Num; of the turns of a loop that differ, one with a list."""
    each = [parameter.values[id(t)] for t in turns]
    if listed:
        return Num(tuple(each), parameter.hint + "s")
    num, keys = Num(each[0], parameter.hint), [parameter.keys[id(t)] for t in turns]
    num.key = keys[0] if extents.same(keys[:1] * len(keys), keys) else None
    return num


def differing(layer):
    """{(loop, call in it, parameter): name of the item} for all that differ between the turns of a loop, in any of the layer's bodies."""
    out, taken = {}, names_in(layer)
    for body in layer.bodies:
        for n, loop in enumerate(p for line in body.lines for p in line if isinstance(p, Loop)):
            for m, turns in enumerate(loop.turns.values()):
                for p in turns[0].layer.parameters:
                    each = [p.values[id(t)] for t in turns]
                    if (n, m, p) not in out and any(v != each[0] for v in each):
                        out[n, m, p] = name = free_name(identifier(p.name), {t: 0 for t in taken}, -1, forever=True)
                        taken.add(name)
    return out


def names_in(layer):
    body = layer.bodies[0]
    names = {v.name for v in body.inputs + body.declared} | {"i"}
    for d in body.defs:
        names.update(v.name for v in (d.parts or [d]) + (d.expr.elements if isinstance(d.expr, Scan) else []) if v.name)
    return names


def expand(body, listed):
    """Statements -> lists of strings, Nums and Arguments: what calls of layers hand over, in its place before `name =`."""
    out, loop, n = [], None, -1
    for line in body.lines + body.results:
        new, waiting, depth = [], [], 0
        for p in line:
            if isinstance(p, Loop):
                loop, n = p, n + 1
                lists = [(listed[n, m, q], handed(q, turns, True)) for m, turns in enumerate(p.turns.values()) for q in turns[0].layer.parameters
                         if (n, m, q) in listed]
                span = ["range(", p.end, ")"] if p.begin == 0 else [f"range({p.begin}, ", p.end, ")"]
                if not lists:
                    new += ["i in "] + span
                elif len(lists) == 1 and p.begin == 0:
                    new += [f"i, {lists[0][0]} in enumerate(", lists[0][1], ")"]
                else:
                    new += ["i, " + ", ".join(name for name, _ in lists) + " in zip("] + span + sum([[", ", num] for _, num in lists], []) + [")"]
                continue
            if isinstance(p, Body):
                inside = line[0].startswith("    ")
                m = list(loop.turns).index(id(p)) if inside else None
                pairs = [(q, listed[n, m, q] if inside and (n, m, q) in listed else handed(q, [p], False)) for q in p.layer.parameters]
                waiting.append((depth + 1, Arguments(pairs)))
                new.append(p.layer.name)
                continue
            if p == "\0":
                continue
            if isinstance(p, str):
                if waiting and depth == waiting[-1][0] and (p == "name = " or p == ")"):
                    new.append(waiting.pop()[1])
                depth += p.count("(") - p.count(")")
            new.append(p)
        out.append(new)
    return out


class Parameter:
    """values and keys: by the body"""

    def __init__(self, name, hint, values, keys):
        self.name, self.hint, self.values, self.keys, self.default, self.keyword = name, hint, values, keys, None, False


class Arguments:
    def __init__(self, pairs):
        self.pairs = pairs


def nums(lines):
    for line in lines:
        for p in line:
            if isinstance(p, Num):
                yield p
            elif isinstance(p, Arguments):
                for _, num in p.pairs:
                    if isinstance(num, Num):
                        yield num


def solve_layer(layer):
    layer.model = layer.bodies[0].is_model
    listed = differing(layer)
    expanded = [expand(b, listed) for b in layer.bodies]
    all_holes = [list(nums(e)) for e in expanded]
    dims = [b.inputs[0].shape if b.inputs else () for b in layer.bodies]
    rank = len(dims[0])
    letters = {1: ["c"], 2: ["t", "c"], 3: ["h", "w", "c"]}.get(rank, [])
    if letters and getattr(layer.bodies[0].inputs[0], "whole", False):
        letters = letters[:-1] + ["n"]  # of whole numbers: no channels
    names = names_in(layer) | set(listed.values())
    layer.used_letters, layer.letters = set(), letters
    layer.text_of = []
    for k in range(len(all_holes[0])):
        values, keys = [h[k].value for h in all_holes], [h[k].key for h in all_holes]
        hint = all_holes[0][k].hint
        text = None
        if letters and not layer.model and not names & set(letters):
            text = by_shape(values, keys, hint, [[(None, 0)] * rank if b.inputs[0].keys is None else b.inputs[0].keys for b in layer.bodies], letters)
            if text:
                layer.used_letters.add(1)
        if text is None and all(v == values[0] for v in values):
            text = number(values[0])
        if text is None:
            text = by_parameter(layer, values, keys, hint, names)
        layer.text_of.append(text)
    layer.expanded = expanded[0]
    for p in layer.parameters:  # what most calls hand over is the default
        values = list(p.values.values())
        common = max(values, key=values.count)
        p.default = common if len(values) > 2 and values.count(common) * 2 > len(values) and not isinstance(common, (list, tuple)) else None
    layer.parameters.sort(key=lambda p: p.default is not None)
    for k, p in enumerate(layer.parameters):
        p.keyword = k > 0 or p.default is not None


ENOUGH = 3  # so many different values that a relation holds for are no coincidence


def by_shape(values, keys, hint, axes, letters):
    """A number that is an extent of the input, as its letter: where operations make it so (extents.py), or in enough calls."""
    if any(isinstance(v, (list, tuple)) for v in values):
        return None
    enough = len(set(values)) >= ENOUGH

    def holds(n):
        return all(v == a[n][1] for v, a in zip(values, axes)) and (enough or extents.same(keys, [a[n][0] for a in axes]))
    channels = letters[-1] == "c"
    if hint in ("width", "shape", "rows", "extent") and (channels or hint in ("shape", "rows")) and holds(-1):
        return letters[-1]
    if not channels:
        return None
    if hint == "width" and enough:
        for f in (2, 3, 4, 6, 8):
            if all(v == f * a[-1][1] for v, a in zip(values, axes)):
                return f"{f} * {letters[-1]}"
        for f in (2, 4, 8):
            if all(v * f == a[-1][1] for v, a in zip(values, axes)):
                return f"{letters[-1]} / {f}"
    if hint == "shape" or hint in ("rows", "extent") and len(letters) < 3:
        for n, letter in enumerate(letters[:-1]):
            if values[0] > 1 and holds(n):
                return letter
    return None


def by_parameter(layer, values, keys, hint, names):
    """A parameter of the layer for a number that differs between calls; one for two numbers that are the same, or are in enough calls."""
    bodies, enough = layer.bodies, len(set(values)) >= ENOUGH
    for p in layer.parameters:
        if [p.values[id(b)] for b in bodies] == values and (p.hint == hint or {p.hint, hint} <= {"width", "shape", "rows", "extent"}):
            if enough or extents.same(keys, [p.keys[id(b)] for b in bodies]):
                return p.name
    if hint in ("width", "shape", "rows", "extent") and enough:
        for p in layer.parameters:
            if p.hint != "width" or any(isinstance(v, (list, tuple)) for v in values):
                continue
            base = [p.values[id(b)] for b in bodies]
            for f in (2, 3, 4, 6, 8):
                if all(v == f * w for v, w in zip(values, base)):
                    return f"{f} * {p.name}"
                if all(v * f == w for v, w in zip(values, base)):
                    return f"{p.name} / {f}"
    name, k = identifier(hint), 2
    while name in names or name in "thwcn" or any(p.name == name for p in layer.parameters):
        name, k = f"{identifier(hint)}{k}", k + 1
    layer.parameters.append(Parameter(name, hint, {id(b): v for b, v in zip(bodies, values)}, {id(b): k for b, k in zip(bodies, keys)}))
    return name


def written(layer):
    """Lines of the layer's body as strings."""
    out, texts = [], iter(layer.text_of)
    for line in layer.expanded:
        text = ""
        for p in line:
            if isinstance(p, Num):
                text += next(texts)
            elif isinstance(p, Arguments):
                pieces = []
                for q, num in p.pairs:
                    value = next(texts) if isinstance(num, Num) else num
                    if q.default is None or value != number(q.default):
                        pieces.append(f"{q.name} = {value}" if q.keyword else value)
                text += (", " if pieces and not text.endswith(("(", ", ")) else "") + ", ".join(pieces)
                text += "\2" if pieces else ""
            else:
                text += (", " if p == "name = " and text.endswith("\2") else "") + p
        out.append(text.replace("\2", ""))
    return out


def wrap(line, indent):
    """A long pipeline goes on in the next lines; a long call breaks after a comma."""
    pad = " " * indent
    if len(line) + indent <= COLUMNS:
        return [pad + line]
    pieces, depth, start = [], 0, 0
    for i, c in enumerate(line):
        depth += (c in "([") - (c in ")]")
        if depth == 0 and line.startswith(" |> ", i):
            pieces.append(line[start:i])
            start = i + 1
    pieces.append(line[start:])
    if len(pieces) == 1:
        return [pad + p for p in break_commas(line, COLUMNS - indent)]
    out, current = [], pieces[0]
    for p in pieces[1:]:
        if len(pad) + len(current) + 1 + len(p) > COLUMNS:
            out.append(pad + current)
            current, pad = p, " " * (indent + 6)
        else:
            current += " " + p
    return out + [pad + current]


def break_commas(line, width):
    out = []
    while len(line) > width:
        at = line.rfind(", ", 0, width)
        if at < 0:
            break
        out.append(line[:at + 1])
        line = "        " + line[at + 2:]
    return out + [line]


def layer_text(layer):
    body = layer.bodies[0]
    lines = written(layer)
    results = lines[len(body.lines):]
    lines = lines[:len(body.lines)]
    out = []
    paths = [b.path for b in layer.bodies]
    about = ", ".join(paths[:3]) + (f", ... {paths[-1]} ({len(paths)} in all)" if len(paths) > 4 else ", " + paths[3] if len(paths) == 4 else "")
    out.append(f"# {body.title}: {about}"[:COLUMNS])
    head = []
    for n, v in enumerate(body.inputs):
        pattern = "[" + ", ".join(layer.letters) + "]" if n == 0 and layer.used_letters else ""
        head.append(v.name + (f": {pattern}" if pattern else ""))
    for p in layer.parameters:
        head.append(p.name + (f" = {number(p.default)}" if p.default is not None else ""))
    out += break_commas(f"layer {layer.name}({', '.join(head)}) {{", COLUMNS)
    for line in lines:
        inner = len(line) - len(line.lstrip())
        out += wrap(line.lstrip(), 4 + inner)
    out += wrap("return " + ", ".join(results), 4)
    out.append("}")
    return "\n".join(out)
