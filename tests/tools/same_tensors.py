"""Have two files of safetensors the same names, shapes and values? Types may differ: same_tensors.py A B prints the first difference, or nothing."""
import json
import struct
import sys

CODE = {"F16": "e", "F32": "f", "F64": "d", "I64": "q"}


def tensors(path):
    data = open(path, "rb").read()
    length = struct.unpack("<Q", data[:8])[0]
    for name, t in json.loads(data[8:8 + length]).items():
        if name != "__metadata__":
            begin, end = t["data_offsets"]
            code = CODE[t["dtype"]]
            yield name, (t["shape"], struct.unpack(f"<{(end - begin) // struct.calcsize(code)}{code}", data[8 + length + begin:8 + length + end]))


a, b = (dict(tensors(path)) for path in sys.argv[1:3])
for name in sorted(set(a) | set(b)):
    if a.get(name) != b.get(name):
        sys.exit(f"{name}: " + ("only in one" if name not in a or name not in b else f"{a[name][0]} and {b[name][0]}" if a[name][0] != b[name][0] else "other values"))
