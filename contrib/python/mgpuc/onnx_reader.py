"""The process that reads a file of ONNX, without rights: protobuf is a library of others, and files come from strangers.

    python3 -c 'from mgpuc import onnx_reader; onnx_reader.main()' <request >answer

It may read files, compute, and write to the pipes that it has; it cannot open a file for writing, start a program or use a network, and its
memory and time are bounded. Its answer is a line of JSON, then a file of safetensors; nothing in it is executed by who asked.
"""
import ctypes
import json
import os
import pathlib
import platform
import resource
import struct
import subprocess
import sys
import tempfile

from .graph import Refused, Unsupported

# without the current folder, where anybody's onnx.py or numpy.py may be
START = "import sys; sys.path = [p for p in sys.path if p]; from mgpuc import onnx_reader; onnx_reader.main()"
LONGEST = 1 << 30  # bytes of an answer without its weights


class Filter(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint32)]


class Program(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("filter", ctypes.POINTER(Filter))]


# The calls of the system that are left, by their numbers: read, write, close, stat, fstat, lstat, poll, lseek, mmap, mprotect, munmap, brk,
# rt_sigaction, rt_sigprocmask, rt_sigreturn, ioctl, pread64, readv, writev, access, sched_yield, mremap, madvise, dup, nanosleep, getpid, exit,
# uname, fcntl, getcwd, readlink, gettimeofday, getrusage, sysinfo, times, getuid, getgid, geteuid, getegid, sigaltstack, gettid, time, futex,
# sched_getaffinity, getdents64, clock_gettime, clock_getres, clock_nanosleep, exit_group, newfstatat, readlinkat, faccessat, set_robust_list,
# getrandom, membarrier, statx, rseq, faccessat2
ALLOWED = {"x86_64": (0xC000003E, (0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 19, 20, 21, 24, 25, 28, 32, 35, 39, 60, 63, 72, 79, 89, 96, 98, 99, 100, 102, 104,
                                   107, 108, 131, 186, 201, 202, 204, 217, 228, 229, 230, 231, 262, 267, 269, 273, 318, 324, 332, 334, 439)),
           "aarch64": (0xC00000B7, (63, 64, 57, 79, 80, 73, 62, 222, 226, 215, 214, 134, 135, 139, 29, 67, 65, 66, 124, 216, 233, 23, 101, 172, 93, 160, 25, 17, 169, 165, 179, 153,
                                    174, 176, 175, 177, 132, 178, 98, 123, 61, 113, 114, 115, 94, 78, 48, 99, 278, 283, 291, 293, 439))}
OPENS = {"x86_64": ((257, 32), (2, 24)), "aarch64": ((56, 32),)}  # openat and open, and where in the arguments the flags are


def drop_rights():
    """From here on nothing is written, started or sent. Where the system has no such filter, memory, time and files are bounded only."""
    memory = int(0.8 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for what, limit in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 1 << 20), (resource.RLIMIT_CPU, 3600)):
        hard = resource.getrlimit(what)[1]
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(what, (limit, limit))
    if platform.machine() not in ALLOWED:
        return
    machine, calls = ALLOWED[platform.machine()]
    load, equal, any_bit, done = 0x20, 0x15, 0x45, 0x06  # of BPF
    allow, refuse, unknown, end = 0x7FFF0000, 0x0005000D, 0x00050026, 0x80000000  # EACCES, ENOSYS
    writing = 0o3 | 0o100 | 0o1000
    rows = [(load, 0, 0, 4), (equal, 1, 0, machine), (done, 0, 0, end), (load, 0, 0, 0)]
    for call in calls:
        rows += [(equal, 0, 1, call), (done, 0, 0, allow)]
    for call, flags in OPENS[platform.machine()]:
        rows += [(equal, 0, 4, call), (load, 0, 0, flags), (any_bit, 0, 1, writing), (done, 0, 0, refuse), (done, 0, 0, allow)]
    rows.append((done, 0, 0, unknown))
    filters = (Filter * len(rows))(*[Filter(*r) for r in rows])
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(38, 1, 0, 0, 0)  # no new privileges
    libc.prctl(22, 2, ctypes.byref(Program(len(rows), filters)), 0, 0)


def answer(out, text):
    line = json.dumps(text).encode()
    out.write(struct.pack("<Q", len(line)) + line)


def main():
    request = json.load(sys.stdin)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    model = request["model"]
    try:
        from . import tools
        from .onnx_import import import_onnx

        drop_rights()
        shapes = {k: tuple(v) for k, v in request["shapes"].items()}
        text, weights, info = import_onnx(pathlib.Path(model), pathlib.Path(request["target"]), shapes, request["batch"], request["loss"], request["size"])
        answer(out, {"text": text, "info": info, "weights": len(weights)})
        if weights:
            tools.put_weights(out, weights)
    except ImportError as e:
        answer(out, {"missing": e.name or str(e)})
    except Unsupported as e:
        answer(out, {"unsupported": [e.path, e.operation, e.why, e.source]})
    except Refused as e:
        answer(out, {"refused": str(e)})
    except MemoryError:
        answer(out, {"refused": f"{model}: it needs more memory than there is"})
    except RecursionError:
        answer(out, {"refused": f"{model}: what it computes is nested too deep"})
    out.flush()


def exactly(pipe, count):
    data = pipe.read(count) if count <= LONGEST else b""
    if len(data) != count:
        raise EOFError
    return data


def copied(pipe, path):
    """What is left in a pipe, as a file that is there whole or not at all."""
    part = path.with_name(path.name + ".part")
    try:
        with open(part, "wb") as f:
            while True:
                block = pipe.read(1 << 20)
                if not block:
                    break
                f.write(block)
        return part
    except BaseException:
        part.unlink()
        raise


def read(path, target, shapes, batch, loss, size, weights_file):
    """-> text, info; the weights are in the file, if there are any"""
    request = json.dumps({"model": str(path), "target": str(target), "shapes": {k: list(v) for k, v in (shapes or {}).items()}, "batch": batch, "loss": loss, "size": size})
    folder = str(pathlib.Path(__file__).resolve().parent.parent)
    paths = os.pathsep.join([folder] + [p for p in [os.environ.get("PYTHONPATH")] if p])
    environment = {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    said = part = None
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen([sys.executable, "-c", START], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment)
        try:
            child.stdin.write(request.encode())
            child.stdin.close()
            said = json.loads(exactly(child.stdout, struct.unpack("<Q", exactly(child.stdout, 8))[0]))
            part = copied(child.stdout, weights_file) if said.get("weights") else None
        except (EOFError, BrokenPipeError, ValueError, AttributeError):
            said = None
        except BaseException:
            child.kill()
            raise
        finally:
            child.stdout.close()
            status = child.wait()
        errors.seek(0)
        lines = errors.read().decode("utf-8", "replace").strip().splitlines()
    if said is None or status:
        if part:
            part.unlink()
        why = f"by signal {-status}" if status < 0 else "with " + (lines[-1] if lines else f"status {status}")
        raise Refused(f"{path}: the process that reads it ended {why}: the file is broken, or mgpuc is")
    if "missing" in said:
        raise Refused(f"the Python package '{said['missing']}' is not there to read ONNX: {sys.executable} -m pip install numpy onnx")
    if "refused" in said:
        raise Refused(said["refused"])
    if "unsupported" in said:
        raise Unsupported(*said["unsupported"])
    if part:
        os.replace(part, weights_file)
    return said["text"], said["info"]
