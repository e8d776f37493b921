"""tokens.py make FOLDER: small tokenizers of the kinds that Hugging Face publishes. tokens.py store: some of them, with texts and what the
tokenizers package (0.23) makes of them, as tests/reference/data/tokenizers has them. tokens.py compare TOOL FOLDER TEXTS [SEED]: their tokens
of random and nasty texts, and the text that these are, as our tool has them, against the tokenizers package."""
import hashlib, json, os, random, struct, subprocess, sys
from tokenizers import Tokenizer, AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXT = ["the quick brown fox jumps over the lazy dog, don't they? it's 1234 times!", "déjà vu, naïve café Ünïcödé ſtraße İstanbul",
        "漢字かな交じり文、東京都 中文字符测试。 한국어 텍스트", "Привет, мир! Ещё раз", "مرحبا بالعالم हिन्दी पाठ ภาษาไทย", "def f(x):\n    return x ** 2  # comment\n",
        "emoji 😀👩‍👩‍👧‍👦🏳️‍🌈 and e\u0301 a\u0328\u0301", "ﬁne ① ² ½ Å Ω ㌔ ﾊﾝｶｸ"] * 4
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace("{1,3}", "")

def charsmap():
    """SentencePiece's table nmt_nfkc_cf, if the package is there"""
    try:
        import io, sentencepiece
        from sentencepiece import sentencepiece_model_pb2 as pb
        out = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(TEXT * 8), model_writer=out, vocab_size=260, hard_vocab_limit=False, minloglevel=5)
        m = pb.ModelProto()
        m.ParseFromString(out.getvalue())
        return m.normalizer_spec.precompiled_charsmap
    except ImportError:
        return None

def small_charsmap():
    """SentencePiece's table with one replacement, A by a: the unit of A is at 1 ^ 65, its leaf 2 further"""
    units = [0] * 256
    units[0], units[1 ^ 65], units[1 ^ 65 ^ 2] = 1 << 10, 65 | 256 | 2 << 10, 1 << 31
    return struct.pack("<257I", 4 * len(units), *units) + b"a\0"

def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])

def byte_bpe(cut, special, normalizer=None, size=700):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = cut, decoders.ByteLevel()
    if normalizer:
        t.normalizer = normalizer
    t.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=size, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return t

def llama(metaspace, size=900):
    t = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    if metaspace:
        t.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="first", split=False)
    else:
        t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=size, special_tokens=["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)], limit_alphabet=80, show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return t

def characters():
    t = Tokenizer(models.BPE(unk_token="[UNK]", fuse_unk=False))
    t.normalizer = normalizers.Sequence([normalizers.Strip(), normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation(), pre_tokenizers.Metaspace()])
    t.decoder = decoders.Metaspace()
    t.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=300, special_tokens=["[UNK]"], show_progress=False))
    t.add_tokens([AddedToken("<Mask Déjà>", lstrip=True, rstrip=True, normalized=True)])
    return t

def bert(lowercase, **options):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20 if options else 100))
    t.normalizer = normalizers.BertNormalizer(lowercase=lowercase, **options)
    t.pre_tokenizer, t.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    t.train_from_iterator(TEXT, trainers.WordPieceTrainer(vocab_size=500, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return t

def unigram(steps, scheme, byte_fallback=False):
    t = Tokenizer(models.Unigram())
    if steps:
        t.normalizer = normalizers.Sequence(steps)
    t.pre_tokenizer, t.decoder = pre_tokenizers.Metaspace("▁", prepend_scheme=scheme), decoders.Metaspace("▁", prepend_scheme=scheme)
    t.train_from_iterator(TEXT, trainers.UnigramTrainer(vocab_size=400, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False))
    if byte_fallback:
        j = json.loads(t.to_str())
        j["model"]["byte_fallback"] = True
        j["model"]["vocab"] += [["<0x%02X>" % b, -20.0 - b / 8] for b in range(256)]
        j["decoder"] = {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, j["decoder"]]}
        t = Tokenizer.from_str(json.dumps(j))
    return t

def all_kinds():
    level = pre_tokenizers.ByteLevel
    kinds = {"gpt2": byte_bpe(level(add_prefix_space=False), ["<|endoftext|>"]), "roberta": byte_bpe(level(add_prefix_space=True), ["<s>", AddedToken("<mask>", lstrip=True)]),
             "llama3": byte_bpe(split(LLAMA3), ["<|end_of_text|>"]), "qwen2": byte_bpe(split(QWEN2), ["<|im_start|>"], normalizers.NFC()),
             "llama2": llama(False), "mistral": llama(True), "characters": characters(), "bert": bert(True), "bert-cased": bert(False, clean_text=False, strip_accents=True),
             "bert-plain": bert(True, strip_accents=False, handle_chinese_chars=False), "unigram": unigram([], "always"),
             "xlnet": unigram([normalizers.Replace("``", '"'), normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Replace(Regex(" {2,}"), " ")], "never"),
             "bytes": unigram([normalizers.NFKC()], "first", True)}
    table = charsmap()
    if table:
        kinds["t5"] = unigram([normalizers.Precompiled(table), normalizers.Strip(False, True), normalizers.Replace(Regex(" {2,}"), "▁")], "always")
    return kinds

PLANES = [(1, 0x7f), (0x80, 0x24f), (0x250, 0x5ff), (0x600, 0x109f), (0x10a0, 0x1fff), (0x2000, 0x2fff), (0x3000, 0x9fff), (0xa000, 0xd7ff), (0xe000, 0xffff),
          (0x10000, 0x13fff), (0x16000, 0x1ffff), (0x20000, 0x3ffff), (0xe0000, 0x10ffff)]
MARKS = list(range(0x300, 0x370)) + [0x5b0, 0x5c1, 0x64b, 0x651, 0x93c, 0x94d, 0xe38, 0x302a, 0x3099, 0x20dd, 0x1161, 0x11a8, 0x200d, 0xfe0f, 0x1f3fb]
NASTY = ["\r\n", "\n\n", "  ", " ", "\t", "\u00a0", "\u3000", "\u200b", "\u2028", "'s", "'LL", "don't", "▁", "##", "<unk>", "<s>", "a<s>b", "<|endoftext|>", "x<|im_start|>y", "[MASK]", "[SEP]",
         "<mask>", "<Mask Déjà>", "<mask déjà>", "<mask deja>", "<0x41>", "``", "é", "e\u0301", "Å", "\u212b", "가", "\u1100\u1161", "ﬁ", "İ", "ǆ", "ß", "👩‍👩‍👧‍👦", "🏳️‍🌈", "\ufffd", "\ufeff", "\x00", "\x7f", "\x85",
         "1234567", "３", "½", "a" * 130, "dog" * 200, "\U000e0001", "\U0001f1e9\U0001f1ea", "क्षि", "…", "“q”", "—", " .", " n't", "the", "quick", "東京", "мир", "a\U000113a6b", "e\u0301\U00011b62"]

def texts(count, seed):
    r = random.Random(seed)
    character = lambda: chr(c) if not 0xd800 <= (c := r.randint(*r.choice(PLANES))) < 0xe000 else "x"
    yield ""
    for one in NASTY:
        yield one
        yield " " + one + " "
    for _ in range(count):
        pieces = []
        for _ in range(r.randint(1, 12)):
            kind = r.randrange(6)
            pieces.append(r.choice(NASTY) if kind < 2 else r.choice(TEXT)[(at := r.randrange(20)):at + r.randrange(20)] if kind == 2 else
                          "".join(r.choice("aeiouAEIO éü") + "".join(chr(r.choice(MARKS)) for _ in range(r.randrange(4))) for _ in range(3)) if kind == 3 else
                          "".join(character() for _ in range(r.randrange(6))) if kind == 4 else r.choice([" ", "", "\n", "'"]))
        yield "".join(pieces)

def long_texts(given):
    """How often a text is repeated, and the text: a word of 70,000 letters, spaces, marks and words without end, and all other texts in a row."""
    return [(70000, "a"), (20000, "dog"), (10000, " "), (10000, "東京"), (3000, "e\u0301\u0327"), (5000, "the quick, brown "), (5000, "1234567"), (5000, "<s>x"), (2000, "\x01👩‍👩‍👧‍👦"),
            (12, "".join(given))]

def published():
    """strings of the tests of tokenizers 0.23.3 (its sdist on PyPI; Apache-2.0): tokenizers/src, tokenizers/tests, bindings/python/tests"""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "data/tokenizers/published")) as f:
        return [bytes.fromhex(line).decode() for line in f]

def compare(tool, folder, count, seed):
    wrong = 0
    for name in sorted(os.listdir(folder)):
        t = Tokenizer.from_file(os.path.join(folder, name, "tokenizer.json"))
        given = list(texts(count, seed)) + published()
        given += [chr(c) for c in range(1, 0x110000, 1 if count > 5000 else 97) if not 0xd800 <= c < 0xe000]
        out = subprocess.run([tool, os.path.join(folder, name)], input="".join(x.encode().hex() + "\n" for x in given), capture_output=True, text=True)
        lines = out.stdout.split("\n")[:-1]
        bad, where = 0 if len(lines) == len(given) else 1, out.stderr.strip()[-300:]
        for text, line in zip(given, lines):
            ids = t.encode(text, add_special_tokens=False).ids
            *ours, said = line.split(" ")
            said = bytes.fromhex(said).decode("utf-8", "replace")
            if [int(x) for x in ours] != ids or said != t.decode(ids, skip_special_tokens=False):
                bad += 1
                where = where if bad > 1 else f"{text!r}: {t.encode(text, add_special_tokens=False).tokens} {ids}, not {[int(x) for x in ours]}; {t.decode(ids, skip_special_tokens=False)!r}, not {said!r}"
        wrong += bad
        print(f"not ok tokenizers, {name}: {bad} of {len(given)} texts, such as {where[:900]}" if bad else f"ok tokenizers, {name}: {len(given)} texts")
    return wrong

def likeliest(scores, texts):
    t = Tokenizer(models.Unigram(list(scores.items()), 0, False))
    t.decoder = decoders.Fuse()
    return t, texts

# A piece that is not known has the least score, here -10, less 10. `a` and `g` are in longer pieces alone: abcdef is three of them, with -20.5,
# since `a` and bcdef have -21 together; ghijkl is not, as these have -21.5. The other one is test_encode2 of tokenizers 0.23.3.
UNIGRAM = {"penalty": likeliest({"<unk>": 0.0, "z": -10.0, "ab": -7.0, "cd": -7.0, "ef": -6.5, "bcdef": -1.0, "gh": -7.0, "ij": -7.0, "kl": -7.5, "hijkl": -1.0},
                                ["abcdef", "ghijkl", "zabcdefz", "ghijklghijkl", "aab", "ag", "zaz", "abcdeghijkl"]),
           "encode2": likeliest({"<unk>": 0.0, "ab": 0.0, "cd": -0.1, "abc": -0.2, "a": -0.3, "b": -0.4, "c": -0.5, "ABC": -0.5, "abcdabcd": 20.0, "q": 20.5, "r": 20.5, "qr": -0.5},
                                ["abc", "AB", "abcd", "abcc", "xabcabaabcdd", "xyz東京", "ABC", "abABCcd", "ababcdabcdcd", "abqrcd"])}

def line_of(t, text):
    ids = t.encode(text, add_special_tokens=False).ids
    return "".join(f"{i} " for i in ids) + t.decode(ids, skip_special_tokens=False).encode().hex() + "\n"

def store_long(folder, t, given):
    """Of each long text the number of words of its line, at last the SHA-256 of all lines."""
    lines = [line_of(t, text * n) for n, text in long_texts(given)]
    with open(os.path.join(folder, "long"), "w") as f:
        f.write("".join(f"{len(l.split())}\n" for l in lines) + hashlib.sha256("".join(lines).encode()).hexdigest() + "\n")

def store_one(folder, t, given):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "tokenizer.json"), "w") as f:
        json.dump(json.loads(t.to_str()), f, ensure_ascii=False, separators=(",", ":"))
    with open(os.path.join(folder, "expected"), "w") as f:
        f.write("".join(line_of(t, x) for x in given))

def store(folder):
    given = [x for x in texts(40, 5) if len(x) < 300]
    with open(os.path.join(folder, "texts"), "w") as f:
        f.write("".join(x.encode().hex() + "\n" for x in given))
    with open(os.path.join(folder, "long"), "w") as f:
        f.write("".join(f"{n} {x.encode().hex()}\n" for n, x in long_texts(given)))
    kinds = {"llama2": llama(False, 420), "qwen2": byte_bpe(split(QWEN2), ["<|im_start|>"], normalizers.NFC(), 300), "bert": bert(True), "bert-plain": bert(True, strip_accents=False, handle_chinese_chars=False),
             "characters": characters(), "bytes": unigram([normalizers.NFKC()], "first", True),
             "charsmap": unigram([normalizers.Precompiled(small_charsmap()), normalizers.Strip(False, True), normalizers.Replace(Regex(" {2,}"), "▁")], "always")}
    kinds["qwen2"].add_special_tokens([AddedToken("<mask>", lstrip=True, rstrip=True)])
    for name, t in kinds.items():
        store_one(os.path.join(folder, name), t, given)
        store_long(os.path.join(folder, name), t, given)
    for name, (t, given) in UNIGRAM.items():
        store_one(os.path.join(folder, name), t, given)
        with open(os.path.join(folder, name, "texts"), "w") as f:
            f.write("".join(x.encode().hex() + "\n" for x in given))

if sys.argv[1] == "store":
    store(os.path.join(os.path.dirname(os.path.abspath(__file__)), "data/tokenizers"))
elif sys.argv[1] == "make":
    for name, t in all_kinds().items():
        os.makedirs(os.path.join(sys.argv[2], name), exist_ok=True)
        t.save(os.path.join(sys.argv[2], name, "tokenizer.json"))
else:
    sys.exit(compare(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]) if len(sys.argv) > 5 else 1) > 0)
