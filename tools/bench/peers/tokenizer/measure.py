"""Measures how fast other tokenizer libraries encode, on one core: MB/s of UTF-8 text.

usage: measure.py FOLDER MODEL...      texts are FOLDER/*.txt, models are tokenizer.json files

Each text is encoded in pieces of 4 KB and of 256 KB, as a prompt and as a long document would be. "New" is the second half
of the text, once, after the first half has filled the libraries' caches of words; "seen" is the best of several rounds over
the same text. A library's own batch call, which spares Python's objects, counts as well.
"""

import os

os.environ.update(RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")

import array
import itertools
import pathlib
import sys
import time

import fastokens
import tokenizers


def pieces(text, size):
    """Cuts UTF-8 between characters."""
    out, start = [], 0
    while start < len(text):
        end = min(start + size, len(text))
        while end < len(text) and text[end] & 0xC0 == 0x80:
            end -= 1
        out.append(text[start:end].decode())
        start = end
    return out


def fastokens_encode(path):
    tokenizer = fastokens.Tokenizer.from_file(path)
    return lambda all: [tokenizer.encode(piece) for piece in all]


def fastokens_flat(path):
    tokenizer = fastokens.Tokenizer.from_file(path)
    return lambda all: array.array("I", tokenizer.encode_batch_flat(all)[0])


def hf_encode(path):
    tokenizer = tokenizers.Tokenizer.from_file(path)
    return lambda all: [tokenizer.encode(piece, add_special_tokens=False) for piece in all]


def hf_batch(path):
    tokenizer = tokenizers.Tokenizer.from_file(path)
    return lambda all: tokenizer.encode_batch_fast(all, add_special_tokens=False)


def seconds(encode, all):
    start = time.perf_counter()
    encode(all)
    return time.perf_counter() - start


def rates(encode, text, size, rounds=2.0):
    """MB/s of text that is new, and of text that has been seen."""
    middle = len(text) // 2
    while text[middle] & 0xC0 == 0x80:
        middle += 1
    half, rest, all = pieces(text[:middle], size), pieces(text[middle:], size), pieces(text, size)
    encode(half)
    new, seen = seconds(encode, rest), float("inf")
    end = time.perf_counter() + rounds
    while seen == float("inf") or time.perf_counter() < end:
        seen = min(seen, seconds(encode, all))
    return (len(text) - middle) / new / 1e6, len(text) / seen / 1e6


def main():
    folder, models = pathlib.Path(sys.argv[1]), sys.argv[2:]
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    all = itertools.product(models, (fastokens_encode, fastokens_flat, hf_encode, hf_batch), sorted(folder.glob("*.txt")), (4, 256))
    for model, library, file, kilobytes in all:
        encode = library(model)  # with nothing in its caches
        encode(["warm up"])
        new, seen = rates(encode, file.read_bytes(), kilobytes << 10)
        where = f"{pathlib.Path(model).stem.partition("-")[0]:10} {library.__name__:16} {file.stem:10} {kilobytes:4} KB"
        print(f"{where}   new {new:7.2f}   seen {seen:7.2f} MB/s", flush=True)


if __name__ == "__main__":
    main()
