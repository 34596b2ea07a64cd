"""Records the answers of Hugging Face's tokenizers 0.23.3 (PyPI) for a GGUF file's vocabulary.

usage: python3 oracle.py MODEL.gguf    writes encode.jsonl, decode.jsonl and classes.txt beside itself
"""
import json, os, random, struct, sys
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

f = open(sys.argv[1], "rb")
here = os.path.dirname(os.path.abspath(__file__))
R = random.Random(7)


def read(fmt):
    return struct.unpack("<" + fmt, f.read(struct.calcsize(fmt)))[0]


def value(kind):
    if kind == 8:
        return f.read(read("Q")).decode()
    if kind == 9:
        kind, n = read("I"), read("Q")
        return [value(kind) for _ in range(n)]
    return read({0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}[kind])


f.read(8 + 8)
meta = {}
for _ in range(read("Q")):
    key = value(8)
    meta[key] = value(read("I"))
tokens = meta["tokenizer.ggml.tokens"]
merges = [tuple(m.split(" ")) for m in meta["tokenizer.ggml.merges"]]
special = [t for t, kind in zip(tokens, meta["tokenizer.ggml.token_type"]) if kind == 3]

hf = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
digits, level = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)
hf.pre_tokenizer = pre_tokenizers.Sequence([digits, level])
hf.decoder = decoders.ByteLevel()
hf.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in special])

ranges = [(0, 0x20), (0x20, 0x7F), (0x7F, 0x250), (0x250, 0x600), (0x600, 0x900), (0x900, 0x1000), (0x1000, 0x2000), (0x2000, 0x2070),
          (0x2070, 0x3000), (0x3000, 0x3400), (0x3400, 0xA000), (0xA000, 0xD800), (0xE000, 0xF900), (0xF900, 0x10000),
          (0x10000, 0x11000), (0x11000, 0x12000), (0x12000, 0x18000), (0x1B000, 0x1D000), (0x1D000, 0x1F000), (0x1F300, 0x1FB00),
          (0x20000, 0x33500), (0x33500, 0xE0000), (0xE0000, 0xE0200), (0xF0000, 0x110000)]
blanks = [" ", "  ", "\n", "\t", "\r\n", " \n", "\n ", "   ", "\u00a0", "\u3000", "\u2028", "\u0085", "\x0b", "\u1680"]
suffixes = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'Re", "''s", "'l", "'r", "'x", " 's"]
oddities = ["\x04", "\x06", "\x13", "\x14", "\x16", "\x1d", "\U00050000", "\U000f1234", "\u0301", "👨\u200d👩\u200d👧", "🇩🇪", "ﬁ"]
words = [w for w in (hf.decode([R.randrange(17, len(tokens))]) for _ in range(4000)) if "\ufffd" not in w]


def some(of, most):
    return "".join(R.choice(of) for _ in range(R.randrange(1, most)))


def piece():
    lo, hi = R.choice(ranges)
    return R.choice([
        lambda: R.choice(words), lambda: R.choice(words), lambda: R.choice(words) + R.choice(words).upper(),
        lambda: "".join(chr(R.randrange(lo, hi)) for _ in range(R.randrange(1, 9))),
        lambda: R.choice(blanks) * R.randrange(1, 4), lambda: R.choice(suffixes), lambda: some("0123456789٣५Ⅷ½²", 5),
        lambda: some("!\"#$%&()*+,-./:;<=>?@[\\]^_`{|}~", 5), lambda: R.choice("aeiourstn ") * R.randrange(1, 90),
        lambda: some("abcdefghijklmnopqrstuvwxyz", 100), lambda: R.choice(special)[R.choice([0, 0, 1]):], lambda: R.choice(oddities)])()


def write(name, lines):
    with open(os.path.join(here, name), "w") as out:
        out.writelines(line + "\n" for line in lines)


def encoded(text):
    return json.dumps({"text": text, "tokens": hf.encode(text, add_special_tokens=False).ids}, ensure_ascii=True)


def decoded(ids):
    return json.dumps({"tokens": ids, "text": hf.decode(ids), "special": hf.decode(ids, skip_special_tokens=False)}, ensure_ascii=True)


def kind(c):
    """L, N, S(pace) or O(ther), by what a character joins."""
    for letter, mate in (("L", "x"), ("O", "!")):
        if len(level.pre_tokenize_str(mate + c)) == 1:
            return "N" if len(digits.pre_tokenize_str("x" + c)) == 2 else letter
    return "N" if len(digits.pre_tokenize_str("x" + c)) == 2 else "S"


write("encode.jsonl", [encoded("".join(piece() for _ in range(R.randrange(1, R.choice([4, 12]))))) for _ in range(500)])
low = [R.randrange(17, 300) for _ in range(200)]  # mostly single bytes
write("decode.jsonl", [decoded([R.choice([R.randrange(len(tokens)), R.choice(low), R.choice(low), R.randrange(20)])
                                for _ in range(R.randrange(1, 16))]) for _ in range(200)])
runs, last = [], None
for c in range(0x110000):
    k = "O" if 0xD800 <= c < 0xE000 else kind(chr(c))
    if k != last:
        runs.append(f"{c:X} {k}")
    last = k
write("classes.txt", runs)
