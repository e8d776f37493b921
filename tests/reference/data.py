#!/usr/bin/env python3
"""Writes tests/reference/data: small files of odd kinds, and beside them what Python's csv module and NumPy read there:
NAME.values holds a line for each sample and input, `sample input value value ...`, in the order of unit/data_test.c."""
import csv
import gzip
import io
import json
import os
import struct

import numpy as np

folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
os.makedirs(folder, exist_ok=True)
random = np.random.default_rng(7)


def path(name):
    return os.path.join(folder, name)


def write(name, content):
    with open(path(name), "wb") as f:
        f.write(content)


def pack(name, content):
    with open(path(name), "wb") as f, gzip.GzipFile(fileobj=f, mode="wb", mtime=0, filename="") as g:
        g.write(content)


def values(name, *columns):
    """columns: (input, array of samples)"""
    with open(path(name + ".values"), "w") as f:
        for i in range(len(columns[0][1])):
            for key, array in columns:
                numbers = np.asarray(array[i], dtype=np.float64).ravel()
                print(i, key, *("nan" if np.isnan(v) else repr(float(v)) for v in numbers), file=f)


# ---- weights of data.test's words.net that say nothing of categories
header = b'{"embedding_1.weight":{"dtype":"F32","shape":[5,3],"data_offsets":[0,60]}}'
header += b" " * (-len(header) % 8)
write("words.safetensors", struct.pack("<Q", len(header)) + header + bytes(60))


# ---- csv
def table(name, content, compressed=False, **options):
    (pack if compressed else write)(name, content)
    text = content.decode("utf-8-sig")
    return [row for row in csv.reader(io.StringIO(text, newline=""), **options) if row]


def classes(words, size, other=None, train=None):
    """as mgpuc numbers them: sorted, `other` is left out"""
    known = sorted({w for w in (train or words) if w not in ("", "?", "NA")})
    places = [c for c in range(size) if c != other]
    number = dict(zip(known, places))
    return [number.get(w, other) for w in words]


rows = table("quotes.csv", (
    "\ufeffage,\"name, in full\",unused,city,member,rank,score\r\n"
    "31,\"Smith, \"\"Bob\"\"\",x,\"New\r\nYork\",1,-3,1.5e3\r\n"
    "\r\n"
    "\"42\",Ann,\"\",Graz,0,70000,\r\n"
    "7,\"\",,Zürich,true,0,.25\r\n"
    "1e1,Ann,\"a\"\"\",Graz,False,12,NA\r\n"
    "-0,Eve,y,,1,9,-inf").encode())[1:]
values("quotes",
       ("age", [float(r[0]) for r in rows]),
       ("numbers", [[float(r[0]), float(r[6]) if r[6] not in ("", "NA") else np.nan] for r in rows]),
       ("name", classes([r[1] for r in rows], 5, other=0)),
       ("city", classes([r[3] for r in rows], 6, other=5)),
       ("member", [{"1": 1, "0": 0, "true": 1, "False": 0}[r[4]] for r in rows]),
       ("rank", [int(r[5]) for r in rows]))

rows = table("plain.csv.gz", (
    "  5 ; red. ;10\n"
    " 4;blue;  2 \n"
    "   \n"
    "3;  ? ;10\n"
    "2; green;1\n"
    "1;\"blue\";2\n").encode(), compressed=True, delimiter=";")
rows = [[field.strip(" .") for field in r] for r in rows if "".join(r).strip()]
values("plain",
       ("size", [float(r[0]) for r in rows]),
       ("colour", classes([r[1] for r in rows], 4, other=2)),
       ("kind", [[1, 2, 10].index(int(r[2])) for r in rows]))

# ---- npy and idx
n = 5
halves = random.normal(size=(n, 3)).astype("<f2")
big = random.normal(size=(n, 2, 2)).astype(">f4")
doubles = random.normal(size=(n,)).astype("<f8")
longs = random.integers(-2**40, 2**40, size=(n, 1)).astype(">i8")
truth = random.integers(0, 2, size=(n, 4)).astype("?")
short = random.integers(0, 9, size=(n, 3)).astype("<u2")
long = random.integers(0, 9, size=(n, 7)).astype("|u1")
for key, array in dict(halves=halves, big=big, doubles=doubles, longs=longs, truth=truth, short=short, long=long).items():
    np.save(path(key + ".npy"), array)
np.savez(path("stored.npz"), big=big, long=long, halves=halves)
np.savez_compressed(path("packed.npz"), truth=truth, longs=longs)
np.save(path("fortran.npy"), np.asfortranarray(big))
with open(path("doubles.npy"), "rb") as f:
    pack("zipped.npy.gz", f.read())
values("arrays", ("halves", halves), ("big", big), ("doubles", doubles), ("longs", longs), ("truth", truth),
       ("short", np.pad(short, ((0, 0), (0, 2)))), ("long", long[:, :5]))


def idx(array):
    code = {"u1": 8, "i1": 9, "i2": 11, "i4": 12, "f4": 13, "f8": 14}[array.dtype.str[1:]]
    return struct.pack(">BBBB", 0, 0, code, array.ndim) + struct.pack(">%dI" % array.ndim, *array.shape) + array.astype(
        array.dtype.newbyteorder(">")).tobytes()


bytes_ = random.integers(0, 256, size=(n, 3, 2)).astype("u1")
shorts = random.integers(-2**15, 2**15, size=(n, 2)).astype("i2")
reals = random.normal(size=(n,)).astype("f8")
label = random.integers(0, 4, size=(n,)).astype("u1")
write("bytes.idx", idx(bytes_))
pack("shorts.idx.gz", idx(shorts))
write("reals.idx", idx(reals))
write("label.idx", idx(label))
values("idx", ("bytes", bytes_), ("shorts", shorts), ("reals", reals), ("label", label))

# ---- cifar: two files of two records, and CIFAR-100's two labels; samples of the values file are few numbers of each image
pick = [0, 1, 2, 3, 95, 96, 3071]


def cifar(labels, images):
    return b"".join(bytes(l) + i.transpose(2, 0, 1).tobytes() for l, i in zip(labels, images))


images = random.integers(0, 256, size=(4, 32, 32, 3)).astype("u1")
os.makedirs(path("cifar"), exist_ok=True)
write("cifar/data_batch_1.bin", cifar([[3], [9]], images[:2]))
write("cifar/data_batch_2.bin", cifar([[0], [1]], images[2:]))
write("cifar/train.bin", cifar([[4, 77], [19, 0]], images[1:3]))
values("cifar10", ("image", images.reshape(4, -1)[:, pick]), ("label", [3, 9, 0, 1]))
values("cifar100", ("image", images[1:3].reshape(2, -1)[:, pick]), ("label", [77, 0]), ("coarse", [4, 19]))


# ---- sequences
def windows(name, numbers, length, stride):
    starts = range(0, len(numbers) - length, stride)
    values(name, ("token", [numbers[i:i + length] for i in starts]), ("next", [numbers[i + 1:i + 1 + length] for i in starts]))


tokens = random.integers(0, 50257, size=23).astype("<u2")
write("tokens.bin", tokens.tobytes())
windows("tokens", tokens, 5, 5)
write("headed.bin", b"7 bytes" + tokens.tobytes())
windows("stride", tokens, 5, 2)
write("longs.bin", tokens.astype("<i8").tobytes())
windows("longs", tokens, 4, 4)
for name, text in dict(ascii="to be, or not to be:\nthat is\tthe question\n", unicode="Größe: 5 µm — 日本, 𝄞 ça\n").items():
    write(name + ".txt", text.encode())
    number = {c: i for i, c in enumerate(sorted(set(text)))}
    windows(name, [number[c] for c in text], 6, 6)


# ---- a byte-level vocabulary of 256 bytes and 60 merges, and what GPT-2's own algorithm makes of odd text
def byte_characters():
    printable = [*range(33, 127), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in printable]
    return {**{b: chr(b) for b in printable}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


def words_of(text):
    import regex
    pattern = regex.compile(r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""")
    return [[spelling[b] for b in word.encode()] for word in pattern.findall(text)]


def joined(word, pair):
    out, i = [], 0
    while i < len(word):
        both = i + 1 < len(word) and (word[i], word[i + 1]) == pair
        out.append(word[i] + word[i + 1] if both else word[i])
        i += 2 if both else 1
    return out


def bpe(word, ranks):
    while len(word) > 1:
        pair = min(zip(word, word[1:]), key=lambda p: ranks.get(p, 1e9))
        if pair not in ranks:
            break
        word = joined(word, pair)
    return word


spelling = byte_characters()
text = ("We're here; they've said it's 12½ o'clock. I'll go,  you'd   stay\t\tand\n\n he 'S 'tis\u00a0so: x²+y²=Ⅷ٣\u3000日本語 "
        "naïve Ελλάδα 🙂🙂 aaaaaaaaaaaaa banana bananana   \nthe theme then   ")
training = words_of(text * 2 + " the then them theme banana aaaa " * 5)
merges = []
for _ in range(60):
    counts = {}
    for word in training:
        for pair in zip(word, word[1:]):
            counts[pair] = counts.get(pair, 0) + 1
    merges.append(max(counts, key=lambda p: (counts[p], p)))
    training = [joined(word, merges[-1]) for word in training]
encoder = {c: i for i, c in enumerate([*sorted(spelling.values()), *dict.fromkeys(a + b for a, b in merges)])}
os.makedirs(path("bpe"), exist_ok=True)
write("bpe/encoder.json", json.dumps(encoder).encode())
write("bpe/vocab.bpe", ("#version: 0.2\n" + "".join("%s %s\n" % m for m in merges)).encode())
write("odd.txt", text.encode())
ranks = {m: i for i, m in enumerate(merges)}
windows("odd", [encoder[t] for word in words_of(text) for t in bpe(word, ranks)], 9, 9)


# ---- tokenizer.json, written by the tokenizers package, and what it makes of the same text with special tokens
def write_tokenizer(name, split, text):
    import tokenizers
    from tokenizers import models, pre_tokenizers, trainers
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split is None)
    t = tokenizers.Tokenizer(models.BPE(ignore_merges=split is not None))
    t.pre_tokenizer = level if split is None else pre_tokenizers.Sequence([pre_tokenizers.Split(tokenizers.Regex(split), "isolated"), level])
    special = ["<|endoftext|>", "<|end|>", "<|end|>of"]
    t.train_from_iterator([text] * 3, trainers.BpeTrainer(vocab_size=420, special_tokens=special, initial_alphabet=level.alphabet(), show_progress=False))
    os.makedirs(path(name), exist_ok=True)
    model = json.loads(t.to_str())
    if split:  # words that are tokens, though no merge makes them
        model["model"]["merges"] = [m for m in model["model"]["merges"] if "".join(m) not in ("\u0120the", "\u0120banana", "123")]
        made = {"".join(m) for m in model["model"]["merges"]} | set(level.alphabet())
        model["model"]["merges"] = [m for m in model["model"]["merges"] if all(part in made for part in m)]
    else:  # as older files write them
        model["model"]["merges"] = [" ".join(m) for m in model["model"]["merges"]]
    write(name + "/tokenizer.json", json.dumps(model, ensure_ascii=False).encode())
    windows(name, tokenizers.Tokenizer.from_file(path(name + "/tokenizer.json")).encode(text).ids, 9, 9)


def write_tokenizers():
    llama3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    special = (text + "<|endoftext|>We'RE DON'T (he'Ll): 1234567 12,5 \u00bd\u2167\r\n\r\n  x \n \n\ty<|end|>of<|end|> the<|end |><|endoftext|><|endoftext|>\n"
               "\u3000\u3000z!!\n\n?\u00e9 \u0301a\u00a0b  .\n'tis the banana 123 \u065d\u0663\u0663\u0663\u0663, <|endoftext| >   ")
    write("special.txt", special.encode())
    write_tokenizer("gpt2_json", None, special)
    write_tokenizer("llama3_json", llama3, special)
    write_tokenizer("qwen2_json", llama3.replace("{1,3}", ""), special)


write_tokenizers()
