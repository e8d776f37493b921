"""Predictions by a library of mgpuc --shared, in Python with NumPy.

    mgpuc examples/digits.net --shared -o libdigits.so
    python3 examples/library/digits.py ./libdigits.so digits.save
"""
import ctypes
import pathlib
import sys

import numpy as np


class Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("type", ctypes.c_char_p), ("rank", ctypes.c_int),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("bytes", ctypes.c_int64)]

    def dtype(self):
        names = {"f64": "f8", "f32": "f4", "f16": "f2", "i64": "i8", "i32": "i4", "i16": "i2", "i8": "i1", "u64": "u8", "u32": "u4",
                 "u16": "u2", "u8": "u1", "bool": "?", "bf16": "u2"}
        return np.dtype(names[self.type.decode()])


class Model:
    """A library, open with its weights: model(image = array) -> {"probability": array}; the first axis counts samples."""

    def __init__(self, library, weights, threads=0):
        self.library = ctypes.CDLL(library)
        self.prefix = pathlib.Path(library).name.removeprefix("lib").removesuffix(".so")
        self.function("error", ctypes.c_char_p)
        self.function("open", ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int)
        self.function("input", ctypes.POINTER(Tensor), ctypes.c_void_p, ctypes.c_int)
        self.function("output", ctypes.POINTER(Tensor), ctypes.c_void_p, ctypes.c_int)
        self.function("run", ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
        self.function("close", None, ctypes.c_void_p)
        self.model = self.open(str(weights).encode(), threads)
        if not self.model:
            raise RuntimeError(self.error().decode())
        self.inputs, self.outputs = self.tensors(self.input), self.tensors(self.output)

    def function(self, name, result, *arguments):
        f = getattr(self.library, f"{self.prefix}_{name}")
        f.restype, f.argtypes = result, arguments
        setattr(self, name, f)

    def tensors(self, ask):
        found = []
        while t := ask(self.model, len(found)):
            found.append(t.contents)
        return found

    def __call__(self, **given):
        arrays = [np.ascontiguousarray(given[t.name.decode()], t.dtype()) for t in self.inputs]
        samples = len(arrays[0]) if arrays else 1
        for t, a in zip(self.inputs, arrays):
            if a.shape != (samples, *t.shape[:t.rank]):
                raise ValueError(f"{t.name.decode()}: its shape is {a.shape}, ({samples}, *{t.shape[:t.rank]}) is expected")
        results = [np.empty((samples, *t.shape[:t.rank]), t.dtype()) for t in self.outputs]
        pointers = [(ctypes.c_void_p * max(len(list_), 1))(*[a.ctypes.data for a in list_]) for list_ in (arrays, results)]
        if self.run(self.model, samples, *pointers):
            raise RuntimeError(self.error().decode())
        return {t.name.decode(): r for t, r in zip(self.outputs, results)}

    def __del__(self):
        if getattr(self, "model", None):
            self.close(self.model)


if __name__ == "__main__":
    model = Model(*sys.argv[1:3])
    images = np.zeros((2, 28, 28, 1), np.uint8)
    images[0, :, 14] = 255  # a vertical stroke; the second image is empty
    print(model(image=images)["probability"].round(3))
