"""damage.py N: N damaged copies of the save whole.1/current are read by ./m. With a whole one beside it that one is taken, and
said; without, the run is refused with status 1 and a message."""
import os
import random
import shutil
import subprocess
import sys

random.seed(7)
count, wrong = int(sys.argv[1]), []
source = os.path.realpath("whole.1/current")
older = "whole.1/step-6"
files = sorted(os.listdir(source))


def damage(data):
    kind, at = random.randrange(5), random.randrange(len(data))
    if kind <= 1:
        return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1:], "bit"
    if kind == 2:
        return data + bytes(random.randrange(256) for _ in range(random.randrange(1, 9))), "appended"
    if kind == 3:
        return data[:at], "cut"
    other = random.randrange(len(data))
    length = min(8, len(data) - max(at, other))
    swapped = bytearray(data)
    swapped[at:at + length], swapped[other:other + length] = data[other:other + length], data[at:at + length]
    return bytes(swapped), "swapped"


for i in range(count):
    shutil.rmtree("d", ignore_errors=True)
    os.makedirs("d/saves/1")
    for name in files:
        os.link(os.path.join(source, name), os.path.join("d/saves/1", name))
    os.symlink("saves/1", "d/current")
    beside = i % 4 == 3
    if beside:
        shutil.copytree(older, "d/step-6")
    name = random.choice(files)
    path = os.path.join("d/saves/1", name)
    data = open(path, "rb").read()
    bad, kind = damage(data)
    if bad == data:
        continue
    os.unlink(path)
    with open(path, "wb") as f:
        f.write(bad)
    done = subprocess.run(["./m", "--resume", "d", "--no-save", "--steps", "1"], capture_output=True, text=True, errors="replace")
    said = done.stderr.strip().split("\n")
    good = (done.returncode == 0 and "warning: d/" in said[0] and "the newest whole save is taken, that of step 6, d/step-6" in said[0] if beside
            else done.returncode == 1 and len(said) == 1 and "error: d/" in said[0])
    if not good:
        wrong.append(f"{i}: {kind} in {name}: status {done.returncode}: {said[-1]}")
print(f"{count} damaged, {len(wrong)} wrong")
for line in wrong[:5]:
    print(line)
sys.exit(bool(wrong))
