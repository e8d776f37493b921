"""power.py TRACE KEEP [--all]: power cuts. In: the calls of a run that saved (tests/fake/calls.c: trace), what the files held.

After each call the power may fail. Of the calls on names since their folders were last synced, any may be on the disk, in any
order (a rename is one call, whole or not); a file that was not synced may be empty. Every tree that this leaves is made, and the
program reads it: ./m --resume. What was switched to, with its folder synced, is there. With --all these are all trees; otherwise,
after calls before which more than SHORT are not synced, those of a sample."""
import os
import random
import shutil
import subprocess
import sys

SHORT, SAMPLE = 2, 3
trace, keep, every = sys.argv[1], sys.argv[2], "--all" in sys.argv
random.seed(5)
calls = [line.split() for line in open(trace)]


# ---- names: a folder's entries are (folder, name) -> inode, whatever the folder's own name has become; 0 is where the trace begins
class Inode:
    def __init__(self, kind, what=None):
        self.kind, self.what = kind, what  # "folder"; "file", its content in KEEP; "link", where to


inodes = [Inode("folder")]


def folder_of(entries, path):
    at = 0
    for name in os.path.dirname(path).split("/"):
        at = entries[at, name] if name not in ("", ".") else at
    return at


def effect(entries, op):
    """What a call does to entries: what it removes and what it sets, as ((folder, name), inode). New inodes are made here, once."""
    kind, place = op[0], lambda path: (folder_of(entries, path), os.path.basename(path))
    if kind in ("create", "mkdir", "symlink"):
        inodes.append({"create": lambda: Inode("file", op[2]), "mkdir": lambda: Inode("folder"),
                       "symlink": lambda: Inode("link", op[1])}[kind]())
        return [], [(place(op[2 if kind == "symlink" else 1]), len(inodes) - 1)]
    if kind == "link":
        return [], [(place(op[2]), entries[place(op[1])])]
    if kind == "rename":
        return [(place(op[1]), entries[place(op[1])])], [(place(op[2]), entries[place(op[1])])]
    return [(place(op[1]), entries[place(op[1])])], []  # unlink, rmdir


def apply(entries, change):
    """entries after a change; what was to be removed may not be there yet, or something else be there"""
    removed, made = change
    entries = dict(entries)
    for place, inode in removed:
        if entries.get(place) == inode:
            del entries[place]
    entries.update(made)
    return entries


def reached(durable, pending, changes):
    """Every tree that any of the pending calls, in any order, make of the durable one."""
    seen, states = set(), [(durable, frozenset())]
    while states:
        entries, done = states.pop()
        key = done, frozenset(entries.items())
        if key in seen:
            continue
        seen.add(key)
        yield entries
        states += [(apply(entries, changes[p]), done | {p}) for p in pending if p not in done]


def sampled(durable, pending, changes):
    tries = [pending[:k] for k in range(len(pending) + 1)]
    tries += [random.sample(pending, random.randint(0, len(pending))) for _ in range(SAMPLE)]
    for some in tries:
        entries = durable
        for p in some:
            entries = apply(entries, changes[p])
        yield entries


def paths(entries):
    """path -> inode of all that is found from the beginning"""
    names = {}
    for (folder, name), inode in entries.items():
        names.setdefault(folder, []).append((name, inode))
    found, folders = {}, [(0, "")]
    while folders:
        folder, path = folders.pop()
        for name, inode in names.get(folder, ()):
            found[path + name] = inode
            if inodes[inode].kind == "folder" and path.count("/") < 9:
                folders.append((inode, path + name + "/"))
    return found


# ---- trees on the disk, read by the program
def make(tree, synced, top):
    shutil.rmtree(top, ignore_errors=True)
    os.mkdir(top)
    for path in sorted(tree):
        inode, place = inodes[tree[path]], os.path.join(top, path)
        if inode.kind == "folder":
            os.mkdir(place)
        elif inode.kind == "link":
            os.symlink(inode.what, place)
        elif inode.what in synced:
            os.link(os.path.join(keep, inode.what), place)
        else:
            open(place, "w").close()


def resume(folder):
    done = subprocess.run(["./m", "--resume", folder, "--no-save", "--steps", "1"], capture_output=True, text=True)
    return done.returncode, (done.stdout + done.stderr).strip().split("\n")[-1]


def problems(tree, switched):
    status, said = resume("state/w")
    if status != 0 and (switched or "there is no saved run" not in said) or status == 0 and switched and "warning" in said:
        yield said
    for path in tree:
        if path.startswith("w/step-") and "/" not in path[2:]:
            status, said = resume("state/" + path)
            if status != 0:
                yield f"{path}: {said}"


# ---- the run, call by call
now, durable, changes = {}, {}, {}  # entries as the run sees them, and as the disk surely has them; what each call changes
pending, synced, seen, wrong, switched, most = [], set(), set(), [], False, 0
for at, op in enumerate(calls):
    if op[0] == "sync":
        synced.add(op[2])
    elif op[0] == "sync-folder":
        folder = folder_of(now, op[1] + "/")
        kept = [p for p in pending if any(place[0] == folder for part in changes[p] for place, _ in part)]
        pending = [p for p in pending if p not in kept]
        for p in kept:
            durable = apply(durable, changes[p])
        tree = paths(durable)
        if "w/current" in tree and any(calls[p][0] == "rename" and calls[p][2].endswith("/current") for p in kept):
            switched = switched or f"w/{inodes[tree['w/current']].what}/run.json" in tree
    else:
        changes[at] = effect(now, op)
        now = apply(now, changes[at])
        if op == ["mkdir", "w"]:  # its folder is synced
            durable = apply(durable, changes[at])
        else:
            pending.append(at)
    most = max(most, len(pending))
    ways = reached if every or len(pending) <= SHORT else sampled
    for entries in ways(durable, pending, changes):
        tree = paths(entries)
        key = switched, frozenset((path, inode, inodes[inode].kind != "file" or inodes[inode].what in synced) for path, inode in tree.items())
        if key in seen:
            continue
        seen.add(key)
        make(tree, synced, "state")
        wrong += [f"after {' '.join(op)}: {said}" for said in problems(tree, switched)]
    if len(wrong) > 5:
        break
print(f"{len(seen)} states after {len(calls)} calls, at most {most} not synced, {len(wrong)} of them wrong")
for line in wrong[:5]:
    print(line)
sys.exit(bool(wrong))
