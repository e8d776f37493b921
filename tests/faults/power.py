"""power.py TRACE KEEP [--all]: power cuts. In: the calls of a run that saved (tests/fake/calls.c: trace), what the files held.

After each call the power may fail. Of the calls on names since the folder was last synced, any may be on the disk (a rename is one,
whole or not), in any order; a file that was not synced may be empty. Every folder that this leaves is made, and the program reads
it: ./m --resume. What was switched to, with its folder synced, is there."""
import itertools
import os
import random
import shutil
import subprocess
import sys

trace, keep = sys.argv[1], sys.argv[2]
most = 4000 if "--all" in sys.argv else 8  # subsets of what is not synced, at a call
random.seed(5)
lines = [line.split() for line in open(trace)]


def parents(op):
    names = op[1:2] if op[0] in ("create", "mkdir", "unlink", "rmdir") else op[2:3] if op[0] in ("link", "symlink") else op[1:3]
    return {os.path.dirname(name) for name in names}


def apply(tree, op):
    """tree: path -> what is there. A call whose file or folder is not there, because what made it is lost, does nothing."""
    kind = op[0]
    inside = lambda path: os.path.dirname(path) in ("", ".") or os.path.dirname(path) in tree
    if kind == "create" and inside(op[1]):
        tree[op[1]] = ("file", op[2])
    elif kind == "mkdir" and inside(op[1]):
        tree.setdefault(op[1], ("folder",))
    elif kind == "symlink" and inside(op[2]):
        tree[op[2]] = ("link", op[1])
    elif kind == "link" and inside(op[2]) and op[1] in tree:
        tree[op[2]] = tree[op[1]]
    elif kind == "rename" and op[1] in tree and inside(op[2]):
        moved = {path: what for path, what in tree.items() if path == op[1] or path.startswith(op[1] + "/")}
        for path in moved:
            del tree[path]
        for path, what in moved.items():
            tree[op[2] + path[len(op[1]):]] = what
    elif kind == "unlink":
        tree.pop(op[1], None)
    elif kind == "rmdir" and not any(path.startswith(op[1] + "/") for path in tree):
        tree.pop(op[1], None)


def make(tree, synced, folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    for path in sorted(tree):
        what, place = tree[path], os.path.join(folder, path)
        if what[0] == "folder":
            os.mkdir(place)
        elif what[0] == "link":
            os.symlink(what[1], place)
        elif what[1] in synced:
            os.link(os.path.join(keep, what[1]), place)
        else:
            open(place, "w").close()


def resume(folder):
    done = subprocess.run(["./m", "--resume", folder, "--no-save", "--steps", "1"], capture_output=True, text=True)
    return done.returncode, (done.stdout + done.stderr).strip().split("\n")[-1]


pending, synced = [], set()
durable = [at for at, op in enumerate(lines) if op == ["mkdir", "w"]]  # calls, by their places in the trace; w's folder is synced
seen, states, wrong, switched = set(), 0, [], False
with_run = {os.path.dirname(op[1] if op[0] == "create" else op[2]) for op in lines
            if op[0] == "create" and op[1].endswith("/run.json") or op[0] == "link" and op[2].endswith("/run.json")}
for at, op in enumerate(lines):
    if op[0] == "sync":
        synced.add(op[2])
    elif op[0] == "sync-folder":
        now = [p for p in pending if op[1] in parents(lines[p])]
        durable = sorted(durable + now)
        pending = [p for p in pending if p not in now]
        if any(lines[p][0] == "rename" and lines[p][2].endswith("/current") for p in now):
            tree = {}
            for p in durable:
                apply(tree, lines[p])
            switched = switched or "w/" + tree["w/current"][1] in with_run
    elif at not in durable:
        pending.append(at)
    n = len(pending)
    if 2 ** n <= most:
        subsets = itertools.chain.from_iterable(itertools.combinations(pending, k) for k in range(n + 1))
    else:
        subsets = [pending[:k] for k in range(n + 1)] + [[p for p in pending if random.random() < 0.5] for _ in range(most)]
    for subset in subsets:
        renames = [p for p in subset if lines[p][0] == "rename"]
        orders = [sorted(durable + list(subset))]
        if 1 < len(renames) <= 4:
            others = [p for p in orders[0] if p not in renames]
            orders += [others + list(order) for order in itertools.permutations(renames)]
        for order in orders:
            tree = {}
            for p in order:
                apply(tree, lines[p])
            key = (switched, frozenset((path, what, what[0] != "file" or what[1] in synced) for path, what in tree.items()))
            if key in seen:
                continue
            seen.add(key)
            states += 1
            make(tree, synced, "state")
            status, said = resume("state/w")
            if status != 0 and (switched or "there is no saved run" not in said):
                wrong.append(f"after {' '.join(op)}: {said}")
            if status == 0 and switched and "warning" in said:
                wrong.append(f"after {' '.join(op)}: {said}")
            for path in tree:
                if path.startswith("w/step-") and "/" not in path[2:]:
                    status, said = resume("state/" + path)
                    if status != 0:
                        wrong.append(f"after {' '.join(op)}: {path}: {said}")
            if len(wrong) > 5:
                break
print(f"{states} states after {len(lines)} calls, {len(wrong)} of them wrong")
for line in wrong[:5]:
    print(line)
sys.exit(bool(wrong))
