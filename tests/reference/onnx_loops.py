#!/usr/bin/env python3
"""Loops of ONNX through mgpuc.from_onnx: Scan, Loop and If, as loops of the language or written out, against onnxruntime in f64.

    python3 tests/reference/onnx_loops.py     needs onnx and onnxruntime; $MGPUC
"""
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import mgpuc

random = np.random.default_rng(0)
F, I, B = TensorProto.DOUBLE, TensorProto.INT64, TensorProto.BOOL
node = helper.make_node


def value(name, shape, kind=F):
    return helper.make_tensor_value_info(name, kind, shape)


def known(name, v):
    return numpy_helper.from_array(np.array(v), name)


def weight(name, *shape):
    return known(name, random.random(shape) - 0.5)


def body(nodes, inputs, outputs):
    return helper.make_graph(nodes, "body", inputs, outputs)


def turns(nodes, *states, stacks=(), more="c"):
    """The body of a Loop: of (state, after a turn) and stacks, each as name and shape"""
    nodes = nodes + ([node("Identity", ["c"], ["c_"])] if more == "c" else [])
    return body(nodes, [value("i", [], I), value("c", [], B)] + [value(a, *rest) for a, _, *rest in states],
                [value("c_", [], B)] + [value(b, *rest) for _, b, *rest in states] + [value(*s) for s in stacks])


n4, n1 = ["n", 4], ["n", 1]
TRUE, TWO = known("true", True), known("two", [2])
grown = turns([node("Concat", ["a", "x"], ["b"], axis=1)], ("a", "b", ["n", "k"]))
doubled = turns([node("Mul", ["a", "x"], ["b"]), node("Not", ["c"], ["c_"])], ("a", "b", n4), more="none")
swapped = turns([node("Cast", ["i"], ["f"], to=F), node("MatMul", ["p", "w"], ["pw"]), node("Add", ["pw", "f"], ["s"]), node("Sigmoid", ["s"], ["q_"]), node("Mul", ["q", "x"], ["p_"])],
                ("p", "p_", n4), ("q", "q_", n4), stacks=[("s", n4)])
limited = turns([node("Add", ["i", "one"], ["after"]), node("Less", ["after", "four"], ["c_"]), node("Mul", ["a", "x"], ["b"])], ("a", "b", n4), more="none")
summed = turns([node("Add", ["k", "i"], ["k_"])], ("k", "k_", [], I))
inner = body([node("Add", ["s", "e"], ["s_"]), node("Mul", ["s_", "a"], ["sa"]), node("ReduceMean", ["sa"], ["o"], axes=[1], keepdims=1)],
             [value("s", n1), value("e", n1)], [value("s_", n1), value("o", n1)])
nested = turns([node("Transpose", ["a"], ["at"], perm=[1, 0]), node("Unsqueeze", ["at", "two"], ["au"]), node("ReduceSum", ["a", "one"], ["z"], keepdims=1),
                node("Scan", ["z", "au"], ["last", "st"], body=inner, num_scan_inputs=1), node("Squeeze", ["st", "two"], ["sq"]), node("Transpose", ["sq"], ["s1"], perm=[1, 0]),
                node("Add", ["s1", "last"], ["s3"]), node("Tanh", ["s3"], ["a_"])], ("a", "a_", n4), stacks=[("last", n1)])
first = helper.make_graph([node("Sin", ["a"], ["u"])], "then", [], [value("u", n4)])
later = helper.make_graph([node("Cos", ["a"], ["v"])], "else", [], [value("v", n4)])
chosen = turns([node("Equal", ["i", "zero"], ["start"]), node("If", ["start"], ["b"], then_branch=first, else_branch=later)], ("a", "b", n4))
axes = body([node("Add", ["k", "e"], ["k_"]), node("Cast", ["k"], ["f"], to=F), node("Unsqueeze", ["f", "one"], ["u"]), node("Add", ["v", "u"], ["o"]), node("Neg", ["v"], ["m"])],
            [value("k", ["n"], I), value("v", ["n", 3]), value("e", [], I)], [value("k_", ["n"], I), value("o", ["n", 3]), value("m", ["n", 3])])
cell = body([node("MatMul", ["h", "r"], ["hr"]), node("MatMul", ["e", "w"], ["ew"]), node("Add", ["hr", "ew"], ["z"]), node("Tanh", ["z"], ["h_"]), node("Identity", ["h_"], ["o"])],
            [value("h", ["n", 3]), value("e", ["n", 4])], [value("h_", ["n", 3]), value("o", ["n", 3])])

# name: nodes, the shapes of x and y, weights and constants, what the text has to contain
CASES = {
    "a cell": ([node("Transpose", ["x"], ["xs"], perm=[1, 0, 2]), node("Shape", ["x"], ["size"]), node("Slice", ["size", "nil", "one"], ["count"]),
                node("Concat", ["count", "three"], ["of"], axis=0), node("Expand", ["begin", "of"], ["h"]), node("Scan", ["h", "xs"], ["last", "ys"], "/rnn/Scan", body=cell, num_scan_inputs=1, scan_input_directions=[1]),
                node("Transpose", ["ys"], ["yt"], perm=[1, 0, 2]), node("Unsqueeze", ["last", "one"], ["u"]), node("Add", ["yt", "u"], ["y"])],
               ["n", 5, 4], ["n", 5, 3], [weight("r", 3, 3), weight("w", 4, 3), known("begin", np.zeros((1, 3))), known("one", [1]), known("three", [3]), known("nil", [0])], "state, y = state |> step(now, name = \"step\")"),
    "states that change places, a stack": ([node("Loop", ["m", "", "x", "x"], ["p1", "q1", "r"], "/l/Loop", body=swapped), node("Transpose", ["r"], ["rt"], perm=[1, 0, 2]),
                                            node("ReduceSum", ["rt", "one"], ["rs"], keepdims=0), node("Sub", ["p1", "q1"], ["d"]), node("Add", ["d", "rs"], ["y"])],
                                           n4, n4, [known("m", 5), known("one", [1]), weight("w", 4, 4)], "scan now in arange(5) {"),
    "a loop in a loop": ([node("Loop", ["m", "true", "x"], ["p", "q"], body=nested), node("Squeeze", ["q", "two"], ["qs"]), node("Transpose", ["qs"], ["qt"], perm=[1, 0]),
                          node("Concat", ["p", "qt"], ["y"], axis=1)], n4, ["n", 7], [known("m", 3), TRUE, TWO, known("one", [1])], "scan now in arange(3) {"),
    "axes and directions": ([node("ReduceMax", ["x"], ["x0"], axes=[1, 2], keepdims=0), node("Cast", ["x0"], ["k0"], to=I),
                             node("Scan", ["k0", "x", "es"], ["k1", "o1", "m1"], body=axes, num_scan_inputs=2, scan_input_axes=[2, 0], scan_input_directions=[0, 1], scan_output_axes=[1, -1],
                                  scan_output_directions=[0, 1]), node("Cast", ["k1"], ["kf"], to=F), node("Unsqueeze", ["kf", "both"], ["ku"]),
                             node("Transpose", ["m1"], ["mt"], perm=[0, 2, 1]), node("Add", ["o1", "mt"], ["s"]), node("Add", ["s", "ku"], ["y"])],
                            ["n", 3, 5], ["n", 5, 3], [known("es", [3, 1, 4, 1, 5]), known("both", [1, 2]), known("one", [1])], "in transpose(x), x2 {"),
    "a state that grows": ([node("Loop", ["m", "true", "x"], ["y"], body=grown)], n4, ["n", 16], [known("m", 3), TRUE], "concat"),
    "turns that differ": ([node("Loop", ["m", "true", "x"], ["y"], body=chosen)], n4, n4, [known("m", 3), TRUE, known("zero", 0)], "sin(x) |> cos() |> cos()"),
    "an end by the condition": ([node("Loop", ["", "true", "x"], ["y"], body=limited)], n4, n4, [known("one", 1), known("four", 4), TRUE], "x"),
    "an end after one turn": ([node("Loop", ["m", "true", "x"], ["y"], body=doubled)], n4, n4, [known("m", 5), TRUE], "x * x"),
    "no turn": ([node("Loop", ["m", "false", "x"], ["z"], body=doubled), node("Neg", ["z"], ["y"])], n4, n4, [known("m", 5), known("false", False)], "0 - x"),
    "a number that a loop computes": ([node("Loop", ["m", "true", "zero"], ["k1"], body=summed), node("Cast", ["k1"], ["kf"], to=F), node("Mul", ["x", "kf"], ["y"])],
                                      n4, n4, [known("m", 5), TRUE, known("zero", 0)], "x * 10"),
}
for name, (nodes, shape, made_shape, weights, text) in CASES.items():
    graph = helper.make_graph(nodes, "g", [value("x", shape)], [value("y", made_shape)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, "loops.onnx")
    try:
        made = mgpuc.from_onnx("loops.onnx", "loops.net")
        x = random.random([3] + shape[1:]) * 3 - 1
        y = onnxruntime.InferenceSession("loops.onnx").run(None, {"x": x})[0]
        z = mgpuc.compile(made, "loops", "--devices", 1, precision="f64", batch=3).predict(x)
        off = abs(y - z).max() / abs(y).max() if y.shape == z.shape else np.inf
        good = off < 1e-10 and text in str(made)
        print(f"ok from_onnx: loops: {name}\n# {off:.1e}" if good else f"not ok from_onnx: loops: {name}: {off} {made}")
    except Exception as e:
        print(f"not ok from_onnx: loops: {name}: {type(e).__name__} {e}")
