"""mgpuc import MODEL.onnx -o MODEL.net, which the compiler starts as python3 -m mgpuc."""
import argparse
import os
import pathlib
import sys


def shape(text):
    name, _, numbers = text.rpartition("=")
    try:
        dims = tuple(int(n) for n in numbers.split(","))
        if name and all(d > 0 for d in dims):
            return name, dims
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text}: NAME=1,3,224,224 is expected")


def main(words):
    if words[:1] != ["import"]:
        fail("python3 -m mgpuc import MODEL.onnx -o MODEL.net is meant; other commands are those of mgpuc itself")
    parser = argparse.ArgumentParser(prog="mgpuc import", formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage="mgpuc import MODEL.onnx [-o MODEL.net] [--shape NAME=1,3,224,224] [--batch | --no-batch] [--loss NAME] [--samples N] [--overwrite]",
                                     description="Write a network of ONNX as readable text, and its weights beside it. The Python package onnx reads the file.")
    parser.add_argument("model", metavar="MODEL.onnx")
    parser.add_argument("-o", "--output", metavar="FILE", help="the text (default: MODEL.net); the weights are beside it as .safetensors")
    parser.add_argument("--shape", action="append", default=[], type=shape, metavar="NAME=1,3,224,224", help="the shape of an input that the file leaves open")
    parser.add_argument("--batch", action="store_true", default=None, help="the first axis of each input is the batch, also where it is not 1")
    parser.add_argument("--no-batch", action="store_false", dest="batch", help="all axes of the inputs are of one sample")
    parser.add_argument("--loss", metavar="NAME", help="the loss to begin with (default: cross_entropy or mse)")
    parser.add_argument("--samples", type=int, default=32, metavar="N", help="samples of a step of training (default: 32)")
    parser.add_argument("--overwrite", action="store_true", help="also where the files are there already")
    words = parser.parse_args(words[1:])
    output = pathlib.Path(words.output or pathlib.Path(words.model).with_suffix(".net").name)
    weights = output.with_suffix(".safetensors")
    if output.suffix != ".net":
        fail(f"-o {output}: the text is a file of the language, as {output.with_suffix('.net')}")
    there = [str(p) for p in (output, weights) if p.exists()]
    if there and not words.overwrite:
        fail(f"{there[0]} is there already: --overwrite replaces it, -o names another file")
    try:
        from . import from_onnx
        from .graph import Refused, Unsupported
    except ImportError as e:
        fail(f"the Python package '{e.name}' is not there to read ONNX: {sys.executable} -m pip install numpy onnx")
    try:
        model = from_onnx(words.model, output, dict(words.shape), words.batch, words.loss, words.samples)
    except (Unsupported, Refused) as e:
        fail(str(e))
    except OSError as e:
        fail(f"{e.filename}: {e.strerror}")
    lines = str(model).splitlines()
    said = [f"{output}: {len(lines)} lines, {sum(line.startswith('layer ') for line in lines)} layers"]
    if weights.exists():
        said.append(f"{weights}: {os.path.getsize(weights) / 1e6:.3g} MB of weights")
    print("\n".join(said + [f"next: mgpuc check {output}"]))


def fail(text):
    print(f"mgpuc import: error: {text}", file=sys.stderr)
    sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
