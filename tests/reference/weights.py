#!/usr/bin/env python3
"""Files of weights as others write them: tests/reference/weights/, read by tests/formats.test.

    python3 tests/reference/weights.py     needs torch, numpy, safetensors, h5py and gguf (llama.cpp's package); the test needs none

All hold the same model: a [256, 2] layer, tanh, b [2, 256]. NAME.values has what it puts out for five samples, computed by numpy in f64
from the values that the writer's own library reads from the file.
"""
import argparse
import collections
import json
import pathlib
import zipfile

import gguf
import h5py
import numpy as np
import torch
from safetensors.numpy import save_file

OUT = pathlib.Path(__file__).parent / "weights"
X = np.sin(0.7 * np.arange(10)).reshape(5, 2)


def tensor(name, *shape):
    i = np.arange(np.prod(shape))
    return torch.tensor(np.sin(0.37 * i + sum(name.encode())).reshape(shape).astype(np.float32))


MODEL = {"a.weight": tensor("aw", 256, 2), "a.bias": tensor("ab", 256), "b.weight": tensor("bw", 2, 256), "b.bias": tensor("bb", 2)}


def save_values(name, model):
    w = {k: v.double().numpy() for k, v in model.items()}
    y = np.tanh(X @ w["a.weight"].T + w["a.bias"]) @ w["b.weight"].T + w["b.bias"]
    (OUT / f"{name}.values").write_text("".join(f"{v:.17g}\n" for v in y.flatten()))


def torch_files():
    for name, zipped, protocol in (("torch", True, 2), ("torch4", True, 4), ("legacy", False, 2), ("legacy4", False, 4)):
        torch.save(MODEL, OUT / f"{name}.pt", _use_new_zipfile_serialization=zipped, pickle_protocol=protocol)
    checkpoint = {"epoch": 3, "args": argparse.Namespace(lr=0.1), "state_dict": collections.OrderedDict(MODEL),
                  "optimizer": {"state": {0: {"exp_avg": torch.ones(3)}}}, "best": np.float64(0.5)}
    torch.save(checkpoint, OUT / "checkpoint.pt")
    torch.save({"model": {f"_orig_mod.{k}": v for k, v in MODEL.items()}, "iter_num": 5, "best_val_loss": torch.tensor(1.5),
                "rng_state": torch.arange(8, dtype=torch.uint8)}, OUT / "nanogpt.pt")
    torch.save({k: v.t().contiguous().t() if v.dim() == 2 else v for k, v in MODEL.items()}, OUT / "strided.pt")
    flat, at, views = torch.cat([v.flatten() for v in MODEL.values()]), 0, {}
    for k, v in MODEL.items():
        views[k] = torch.nn.Parameter(flat[at:at + v.numel()].view(v.shape))
        at += v.numel()
    torch.save(views, OUT / "views.bin", _use_new_zipfile_serialization=False)
    for name, kind in (("bf16", torch.bfloat16), ("f16", torch.float16)):
        half = {k: v.to(kind) for k, v in MODEL.items()}
        torch.save(half, OUT / f"{name}.pt")
        save_values(name, half)
    torch.save({"a.weight": MODEL["a.weight"].to_sparse()}, OUT / "sparse.pt")
    for name, zipped in (("complex", True), ("legacy-complex", False)):
        torch.save({**MODEL, "b.bias": MODEL["b.bias"].to(torch.complex64)}, OUT / f"{name}.pt", _use_new_zipfile_serialization=zipped)
    for name, zipped in (("more", True), ("legacy-more", False)):
        more = {"first": torch.ones(3, dtype=torch.complex128), **({"counts": torch.ones(2, dtype=torch.uint16)} if zipped else {})}
        torch.save({**more, **MODEL, "last": torch.ones(2, 2, dtype=torch.complex64)}, OUT / f"{name}.pt", _use_new_zipfile_serialization=zipped)
    torch.save({**MODEL, "b.bias": MODEL["b.bias"].to(torch.uint16)}, OUT / "uint16.pt")
    torch.jit.script(torch.nn.Linear(2, 2)).save(OUT / "script.pt")
    torch.save(torch.nn.Linear(2, 2), OUT / "module.pt")

    class Command:
        def __reduce__(self):
            import os
            return os.system, ("touch called",)
    torch.save({"a.weight": Command()}, OUT / "command.pt")


def damaged_files():
    """Pickles that torch.save does not write: the legacy format, whose checksum nobody asks for"""
    begin = (OUT / "legacy.pt").read_bytes()
    begin = begin[:begin.index(b"little_endian")]
    begin = begin[:begin.rindex(b"\x80\x02")]                          # before the machine

    def legacy(name, pickled):
        (OUT / f"bad-{name}.pt").write_bytes(begin + b"\x80\x02}." + b"\x80\x02" + pickled + b"." + b"\x80\x02]." + bytes(64))

    def storage(kind=b"ctorch\nFloatStorage\n", more=b""):
        return b"(X\x07\0\0\0storage" + kind + b"X\1\0\0\x000X\3\0\0\0cpuK\4" + more + b"tQ"
    legacy("instruction", b"\xff")
    legacy("stack", b"a")
    legacy("type", storage(b"K\5"))
    legacy("view", storage(more=b"(K\1K\1t"))
    legacy("place", b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage() + b"K\0K\5\x85K\1\x85\x89}tR")
    legacy("nothing", b"}")
    for name, member in (("lacks", None), ("short", b"abc")):
        with zipfile.ZipFile(OUT / "torch.pt") as old, zipfile.ZipFile(OUT / f"bad-{name}.pt", "w") as new:
            for i in old.infolist():
                if not i.filename.endswith("data/0"):
                    new.writestr(i.filename, old.read(i))
                elif member:
                    new.writestr(i.filename, member)
    with zipfile.ZipFile(OUT / "other.zip", "w") as z:
        z.writestr("a.txt", "text")
    with zipfile.ZipFile(OUT / "bad-name.pt", "w") as z:
        z.writestr(zipfile.ZipInfo("a/no-data.pkl"), "text")
    (OUT / "nothing.index.json").write_text("{\"metadata\": {}}")
    data = bytearray((OUT / "gguf-q8_0.gguf").read_bytes())
    at = data.index(b"b.weight") + 8 + 4 + 16
    data[at] = 99
    (OUT / "bad-type.gguf").write_bytes(data)


def numpy_files():
    arrays = {k: v.numpy() for k, v in MODEL.items()}
    np.savez(OUT / "numpy.npz", **arrays)
    np.savez_compressed(OUT / "packed.npz", **{k: np.asfortranarray(v) for k, v in arrays.items()})
    np.save(OUT / "array.npy", arrays["a.bias"])
    save_file(arrays, OUT / "whole.safetensors")
    awkward_safetensors()
    parts = OUT / "parts"
    parts.mkdir(exist_ok=True)
    where = {}
    for name, keys in (("model-1.safetensors", ("a.weight", "b.bias")), ("model-2.safetensors", ("a.bias", "b.weight"))):
        save_file({k: arrays[k] for k in keys}, parts / name)
        where.update({k: name for k in keys})
    (parts / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))


def awkward_safetensors():
    """a header of 0x280 bytes: the file begins as pickles do"""
    whole = (OUT / "whole.safetensors").read_bytes()
    length = int.from_bytes(whole[:8], "little")
    assert length <= 0x280
    (OUT / "awkward.safetensors").write_bytes((0x280).to_bytes(8, "little") + whole[8:8 + length].ljust(0x280) + whole[8 + length:])
    (OUT / "whole.safetensors").unlink()


def hdf5_files():
    for name, options in (("hdf5", {}), ("hdf5-packed", {"compression": "gzip", "chunks": True})):
        with h5py.File(OUT / f"{name}.h5", "w", libver="earliest") as f:
            for k, v in MODEL.items():
                f.create_dataset(k.replace(".", "/"), data=v.numpy(), track_times=False, **options)
            f.create_dataset("note", data="a text")
            f.create_group("empty")
    with zipfile.ZipFile(OUT / "model.keras", "w") as z:
        z.write(OUT / "hdf5.h5", "model.weights.h5")
        z.writestr("config.json", "{}")
    with h5py.File(OUT / "alike.h5", "w") as f:  # as of Keras: two layers that are both called "same"
        for link, name in (("dense", "a"), ("dense_1", "b")):
            f.create_dataset(f"layers/{link}/vars/0", data=MODEL[f"{name}.weight"].numpy().T, track_times=False)
            f.create_dataset(f"layers/{link}/vars/1", data=MODEL[f"{name}.bias"].numpy(), track_times=False)
            f[f"layers/{link}/vars"].attrs["name"] = "same"
    with h5py.File(OUT / "link.h5", "w") as f:
        f["a"] = h5py.ExternalLink("hdf5.h5", "/a")
    with h5py.File(OUT / "loop.h5", "w") as f:
        g = f.create_group("a")
        g["a"] = g
    with h5py.File(OUT / "bomb.h5", "w") as f:
        f.create_dataset("a/weight", shape=(10**6, 10**6), dtype="f4", chunks=(1000, 1000), compression="gzip")


def gguf_files():
    kinds = gguf.GGMLQuantizationType
    blocks = {kinds.Q4_K: 144, kinds.Q5_K: 176, kinds.Q6_K: 210}       # bytes of 256 values, which the package reads but does not write
    for kind in (kinds.F16, kinds.BF16, kinds.Q8_0, kinds.Q4_0, kinds.Q4_1, kinds.Q5_0, kinds.Q5_1, *blocks):
        name = f"gguf-{kind.name.lower()}"
        w = gguf.GGUFWriter(OUT / f"{name}.gguf", "test")
        w.add_array("words", ["one", "two"])
        if kind in blocks:
            raw = ((np.arange(2 * blocks[kind]) * 2654435761 >> 11) % 256).astype(np.uint8).reshape(2, -1)
            for at, d in ((208, 0.01),) if kind == kinds.Q6_K else ((0, 0.01), (2, 0.02)):
                raw[:, at:at + 2] = np.frombuffer(np.float16(d).tobytes(), np.uint8)
        else:
            raw = gguf.quantize(MODEL["b.weight"].numpy(), kind)
        for k, v in MODEL.items():
            w.add_tensor(k, raw, raw_dtype=kind) if k == "b.weight" else w.add_tensor(k, v.numpy())
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()
        save_values(name, {**MODEL, "b.weight": torch.tensor(gguf.dequantize(raw, kind))})


OUT.mkdir(exist_ok=True)
np.save(OUT / "x.npy", X)
save_values("model", MODEL)
torch_files()
numpy_files()
hdf5_files()
gguf_files()
damaged_files()
