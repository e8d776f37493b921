#!/usr/bin/env python3
"""Changed files of ONNX through what reads them (contrib/python/mgpuc): each is a network or one message, whatever is in it.

    python3 tests/fuzz/onnx_files.py --seconds 600 --seed 7 [--cases FILE] [--check MGPUC] MODEL.onnx ...     needs onnx

Bytes are changed, and what the file says: extents, attributes, names, operators, constants, places of data, loops and branches around it.
--cases: a file that `bench/onnx --from FILE` made of ONNX's node tests, which are changed, too. --check: a compiler, best one with
sanitizers, that looks at every tenth text. A crash of onnx itself is counted: a process without rights reads files (onnx_reader.py).
"""
import argparse
import os
import pathlib
import pickle
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "contrib/python"))
warnings.simplefilter("ignore")

import numpy as np  # noqa: E402
import onnx  # noqa: E402
from google.protobuf.message import DecodeError, EncodeError  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from mgpuc import onnx_graph, onnx_import  # noqa: E402
from mgpuc.graph import Refused, Unsupported  # noqa: E402

NUMBERS = [0, 1, 2, 3, 5, -1, -2, 7, 100, 1 << 31, -(1 << 31), (1 << 62), -(1 << 62), (1 << 63) - 1, -(1 << 63)]
FRACTIONS = [0.0, 1.0, -1.0, 0.5, 1e38, -1e38, float("inf"), float("nan"), 1e-40]
PLACES = ["../secret", "/etc/passwd", "..", ".", "", "a\0b", "own", "own/x", "link", "x" * 5000]
SLOWEST = 30  # seconds of computing
LARGEST = 1 << 22  # bytes of a changed model; a branch repeats what is in it, so that 25 of them would be 2^25 copies


def graphs(model):
    return list(onnx_graph.graphs_of(model))


def change_bytes(draw, data):
    data = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 4])):
        if not data:
            break
        at, way = draw.randrange(len(data)), draw.randrange(5)
        if way == 0:
            data[at] ^= 1 << draw.randrange(8)
        elif way == 1:
            data[at] = draw.choice([0, 255, 128, 127, draw.randrange(256)])
        elif way == 2:
            del data[at:at + draw.randrange(1, 30)]
        elif way == 3:
            data[at:at] = data[at:at + draw.randrange(1, 60)]
        else:
            other = draw.randrange(len(data))
            data[at:at + 8] = data[other:other + 8]
    return bytes(data)


def change_extent(draw, model):
    tensors = [t for g in graphs(model) for t in g.initializer]
    shapes = [v.type.tensor_type.shape for g in graphs(model) for v in g.input]
    if tensors and draw.random() < 0.5:
        t = draw.choice(tensors)
        if t.dims and draw.random() < 0.7:
            t.dims[draw.randrange(len(t.dims))] = draw.choice(NUMBERS)
        else:
            t.dims.append(draw.choice(NUMBERS))
    elif shapes:
        s = draw.choice(shapes)
        d = draw.choice(list(s.dim)) if s.dim and draw.random() < 0.8 else s.dim.add()
        d.dim_value = draw.choice(NUMBERS)


def change_attribute(draw, model):
    found = [a for g in graphs(model) for n in g.node for a in n.attribute]
    if not found:
        return
    a = draw.choice(found)
    way = draw.randrange(6)
    if way == 0:
        a.i = draw.choice(NUMBERS)
    elif way == 1:
        a.f = draw.choice(FRACTIONS)
    elif way == 2 and a.ints:
        a.ints[draw.randrange(len(a.ints))] = draw.choice(NUMBERS)
    elif way == 3:
        a.ints.append(draw.choice(NUMBERS))
    elif way == 4 and a.ints:
        del a.ints[-1]
    else:
        a.s = draw.choice([b"", b"reverse", b"\xff\xfe", b"SAME_UPPER", b"bidirectional", b"linear", b"ijk,jk->i"])


def change_names(draw, model):
    g = draw.choice(graphs(model))
    if not g.node:
        return
    names = [n for node in g.node for n in (*node.input, *node.output)] + [i.name for i in (*g.input, *g.initializer)] + ["", "nobody"]
    node, way = draw.choice(g.node), draw.randrange(4)
    if way == 0 and node.input:
        node.input[draw.randrange(len(node.input))] = draw.choice(names)
    elif way == 1:
        node.input.append(draw.choice(names))
    elif way == 2 and node.input:
        del node.input[-1]
    elif node.output:
        node.output[draw.randrange(len(node.output))] = draw.choice(names)


def change_operator(draw, model):
    g = draw.choice(graphs(model))
    if not g.node:
        return
    at, way = draw.randrange(len(g.node)), draw.randrange(4)
    if way == 0:
        g.node[at].op_type = draw.choice(OPERATORS)
    elif way == 1:
        del g.node[at]
    elif way == 2:
        g.node.add().CopyFrom(g.node[at])
    else:
        other = draw.randrange(len(g.node))
        a, b = onnx.NodeProto(), onnx.NodeProto()
        a.CopyFrom(g.node[at]), b.CopyFrom(g.node[other])
        g.node[at].CopyFrom(b), g.node[other].CopyFrom(a)


def change_constant(draw, model):
    found = [t for g in graphs(model) for t in g.initializer] + [n.attribute[0].t for g in graphs(model) for n in g.node if n.op_type == "Constant" and n.attribute]
    found = [t for t in found if t.data_type in (TensorProto.INT64, TensorProto.INT32, TensorProto.FLOAT) and sum(t.dims) < 1000]
    if not found:
        return
    t = draw.choice(found)
    try:
        a = np.array(numpy_helper.to_array(t))
    except Exception:
        return
    if a.size:
        with np.errstate(all="ignore"):
            a.reshape(-1)[draw.randrange(a.size)] = np.array(draw.choice(FRACTIONS if a.dtype.kind == "f" else NUMBERS)).astype(a.dtype)
    t.CopyFrom(numpy_helper.from_array(a, t.name))


def change_place(draw, model):
    tensors = [t for g in graphs(model) for t in g.initializer]
    if not tensors:
        return
    t = draw.choice(tensors)
    t.ClearField("raw_data")
    t.data_location = TensorProto.EXTERNAL
    for k, v in (("location", draw.choice(PLACES)), ("offset", draw.choice(NUMBERS)), ("length", draw.choice(NUMBERS))):
        if draw.random() < 0.8:
            t.external_data.add(key=k, value=str(v))


def change_nesting(draw, model):
    """Inputs become constants; or the nodes a branch or a loop around them, several times."""
    if draw.random() < 0.5 and model.graph.input:
        i = draw.choice(list(model.graph.input))
        dims = [d.dim_value for d in i.type.tensor_type.shape.dim]
        kind = i.type.tensor_type.elem_type
        if all(0 < d < 50 for d in dims) and kind in (1, 6, 7, 9, 11) and np.prod(dims) < 1000:
            a = np.random.default_rng(draw.randrange(99)).integers(0, 3, dims).astype(helper.tensor_dtype_to_np_dtype(kind))
            model.graph.initializer.append(numpy_helper.from_array(a, i.name))
            model.graph.input.remove(i)
        return
    outs = [onnx.ValueInfoProto.FromString(o.SerializeToString()) for o in model.graph.output]
    for k in range(draw.choice([1, 2, 25])):
        if 2 * model.ByteSize() > LARGEST:
            break
        nodes, names = list(model.graph.node), [o.name for o in outs]
        inner = [f"{n}_{k}" for n in names]
        if draw.random() < 0.5:
            body = helper.make_graph([onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes], "b", [], outs)
            new, condition = helper.make_node("If", ["condition"], inner, then_branch=body, else_branch=body), True
        else:
            truth = helper.make_node("Identity", ["c"], [f"c_{k}"])
            ends = [helper.make_tensor_value_info("t", TensorProto.INT64, []), helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
            body = helper.make_graph([onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes] + [truth], "b", ends, [helper.make_tensor_value_info(f"c_{k}", TensorProto.BOOL, [])] + outs)
            new, condition = helper.make_node("Loop", ["turns", "condition"], inner, body=body), True
        del model.graph.node[:]
        model.graph.node.append(new)
        outs = [helper.make_tensor_value_info(n, 1, None) for n in inner]
        for o, n in zip(outs, inner):
            o.type.CopyFrom(model.graph.output[inner.index(n)].type)
            o.type.tensor_type.ClearField("shape")
    if model.ByteSize() < LARGEST:
        del model.graph.output[:]
        model.graph.output.extend(outs)
        model.graph.initializer.extend([numpy_helper.from_array(np.array(True), "condition"), numpy_helper.from_array(np.array(draw.choice([1, 2, 5, 1 << 40])), "turns")])


CHANGES = [change_extent, change_attribute, change_names, change_operator, change_constant, change_place, change_nesting]
OPERATORS = sorted(onnx_graph.CONTROL) + sorted(onnx_import.TRANSLATE) + ["Constant", "Shape", "ConstantOfShape", "NonZero", "Det", "EyeLike", "Size", "Range"]


def changed(draw, data):
    if draw.random() < 0.25:
        return change_bytes(draw, data)
    model = onnx.ModelProto.FromString(data)
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        try:
            draw.choice(CHANGES)(draw, model)
            data = model.SerializeToString()
        except (ValueError, TypeError):  # protobuf takes no such number there
            data = model.SerializeToString()
        except (DecodeError, EncodeError):  # protobuf reads and writes no graphs that are nested deeper
            break
    return data


def worker(seed, corpus, seconds, folder, say, check):
    """At least one case, and more until the time is over. Each is counted before it is read."""
    draw, end = random.Random(seed), time.monotonic() + seconds
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.chdir(folder)
    file, count, texts = pathlib.Path("m.onnx"), 0, 0
    while not count or time.monotonic() < end:
        data = changed(draw, draw.choice(corpus))
        file.write_bytes(data)
        count += 1
        say("case")
        begin, batch = time.process_time(), draw.choice([None, None, True, False])
        try:
            text, weights, _ = onnx_import.import_onnx(file, pathlib.Path("m.net"), batch=batch)
            texts += 1
            say("network")
            if check and texts % 10 == 1:
                pathlib.Path("m.net").write_text(text.replace('    init      = "m.safetensors"\n', ""))
                done = subprocess.run([check, "check", "m.net"], capture_output=True, text=True, errors="replace",
                                      preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)))  # sanitizers reserve much
                if done.returncode not in (0, 1) or done.returncode == 1 and ("m.net:" not in done.stderr or "internal" in done.stderr):
                    say(f"wrong mgpuc check ended with {done.returncode}: {(done.stderr or done.stdout)[-300:]}")
                    file.rename(f"wrong{seed}_{count}.onnx")
                elif done.returncode == 1:
                    say(f"refused by the compiler: {done.stderr[:200]}")
                    file.rename(f"text{seed}_{count}.onnx")
        except (Refused, Unsupported) as e:
            if "\n" in str(e).split("\n  ")[0] or len(str(e)) > 3000:
                say(f"wrong message: {str(e)[:200]}")
        except (MemoryError, RecursionError):  # one message, in onnx_reader
            say("memory")
        except Exception as e:
            where = traceback.extract_tb(e.__traceback__)[-1]
            say(f"wrong {type(e).__name__} {str(e)[:200]} in {pathlib.Path(where.filename).name}, line {where.lineno} (kept: wrong{seed}_{count}.onnx, batch {batch})")
            file.rename(f"wrong{seed}_{count}.onnx")
        if time.process_time() - begin > SLOWEST:
            say(f"wrong: {time.process_time() - begin:.0f} s of computing (slow{seed}_{count}.onnx)")
            file.write_bytes(data)  # it has another name if it is wrong, too
            file.rename(f"slow{seed}_{count}.onnx")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases")
    parser.add_argument("--check")
    parser.add_argument("files", nargs="*")
    words = parser.parse_args()
    corpus = [pathlib.Path(f).read_bytes() for f in words.files]
    if words.cases:
        corpus += [c[1] for c in pickle.loads(pathlib.Path(words.cases).read_bytes()) if len(c[1]) < 20000]
    folder = tempfile.mkdtemp()
    pathlib.Path(folder, "own").write_bytes(bytes(64))
    pathlib.Path(folder, "secret").write_text("not to be read\n")
    os.symlink("secret", os.path.join(folder, "link"))
    for f in words.files:
        if os.path.exists(f + ".data"):
            shutil.copy(f + ".data", folder)
    end, seed, cases, texts, crashes, memory, bad, refused = time.monotonic() + words.seconds, words.seed * 1000, 0, 0, 0, 0, [], []
    while time.monotonic() < end:
        seed += 1
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.close(read)

            def say(text):
                os.write(write, (text.replace("\n", " ") + "\n").encode())
            status = 1
            try:
                worker(seed, corpus, min(60.0, end - time.monotonic()), folder, say, words.check)
                status = 0
            except BaseException as e:
                at = ", ".join(f"line {t.lineno} ({t.name})" for t in traceback.extract_tb(e.__traceback__) if t.filename == __file__)
                say(f"wrong: an exception of onnx_files.py, {at}: {type(e).__name__} {str(e)[:200]}")
            finally:
                os._exit(status)
        os.close(write)
        with os.fdopen(read) as lines:
            for line in lines:
                if line.startswith("case"):
                    cases += 1
                elif line.startswith("network"):
                    texts += 1
                elif line.startswith("memory"):
                    memory += 1
                else:
                    (bad if line.startswith("wrong") else refused).append(line.strip())
                    print("#", line.strip(), flush=True)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):  # onnx, or what it is made of
            crashes += 1
            kept = os.path.join(folder, f"crash{seed}.onnx")
            os.rename(os.path.join(folder, "m.onnx"), kept)
            print(f"# a crash by signal {signal.Signals(os.WTERMSIG(status)).name}: {kept}", flush=True)
        elif status and not bad:
            bad.append(f"worker {seed} ended with status {os.WEXITSTATUS(status)}")
    if not cases:
        bad.append("no file was changed")
    print(f"# {cases} changed files, {texts} are networks, {memory} need too much memory, {crashes} crashes of onnx, {len(refused)} texts that the compiler refuses" + f"; {folder}" * bool(bad or crashes))
    print(f"not ok changed files: {bad[0]}" if bad else "ok changed files")
    if not bad and not crashes:
        shutil.rmtree(folder)


main()
