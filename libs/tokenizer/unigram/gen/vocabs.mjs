// Writes ../testdata/vocabs.json.gz: vocabularies, and the strings that texts for them are made of. One is a
// cut of a real model (J2 of AI21 Labs, Apache 2.0); the others are small and made for ties,
// duplicates and unknown characters.
//
//   pip download --no-deps ai21-tokenizer==1.1.0 && unzip ai21*.whl
//   node vocabs.mjs ai21_tokenizer/resources/j2-tokenizer/j2-tokenizer.model
import { dirname, join } from "path";
import { fileURLToPath } from "url";
import { gzipSync } from "zlib";
import fs from "fs";
import { Random } from "./random.mjs";

// pieces reads the pieces of a sentencepiece model, which is a protocol buffer: text, score and type of each.
export function pieces(model) {
  const out = [];
  for (const [n, v] of fields(model)) {
    if (n !== 1) continue;
    const piece = Object.fromEntries(fields(v));
    out.push([piece[1].toString(), piece[2]?.readFloatLE() ?? 0, piece[3] ?? 1]);
  }
  return out;
}

function* fields(data) {
  let i = 0;
  const varint = () => {
    let n = 0;
    for (let shift = 1; ; shift *= 128) {
      const b = data[i++];
      n += (b & 127) * shift;
      if (b < 128) return n;
    }
  };
  while (i < data.length) {
    const tag = varint();
    const kind = tag & 7;
    if (kind === 0) {
      yield [tag >> 3, varint()];
      continue;
    }
    const size = kind === 2 ? varint() : kind === 5 ? 4 : 8;
    yield [tag >> 3, data.subarray(i, i + size)];
    i += size;
  }
}

function cut(path) {
  const all = pieces(fs.readFileSync(path));
  const normal = all.filter((p) => p[2] === 1).sort((a, b) => b[1] - a[1]);
  const vocab = [...all.slice(0, 5), ...all.filter((p) => p[2] === 6), ...normal.slice(0, 7000), ...normal.filter((_, i) => i > 7000 && i % 200 === 0)];
  const alphabet = [...normal.slice(0, 2000), ...normal.filter((_, i) => i > 2000 && i % 500 === 0)].map((p) => p[0]);
  return { name: "j2", unk: 3, byteFallback: true, alphabet: [...alphabet, "é", "漢", "😀", "Zürich", "▁▁▁", "<|unk|>"], vocab: vocab.map((p) => [p[0], p[1]]) };
}

const letters = ["a", "b", "▁", "é", "漢"];
const bytes = (from) => Array.from({ length: 256 - from }, (_, b) => ["<0x" + (b + from).toString(16).toUpperCase().padStart(2, "0") + ">", -5]);

function small(name, seed, changes) {
  const random = new Random(seed);
  const vocab = [["<unk>", changes.high ? 30 : 0]];
  for (let i = 0; i < 300; i++) {
    let text = "";
    for (let n = random.below(5) + (changes.longer ?? 0); n >= 0; n--) text += letters[random.below(letters.length - (changes.gap ?? 0))];
    vocab.push([text, random.below(7) / (changes.fine ? 7 : 2) - 3 + (changes.high ?? 0)]);
  }
  vocab.push(...(changes.bytes ?? []), ["", -1]);
  return { name, unk: 0, byteFallback: false, alphabet: [...letters, "z", "ü", "😀", "<unk>", "<0x61>", "zz", "ab▁"], vocab, ...changes.set };
}

const vocabs = [
  cut(process.argv[2]),
  small("ties", 1, {}),
  small("fine", 2, { fine: true }),
  small("gap", 3, { gap: 2 }),
  small("bytes", 4, { gap: 1, bytes: bytes(0), set: { byteFallback: true } }),
  small("somebytes", 5, { gap: 1, bytes: bytes(100), set: { byteFallback: true } }),
  // With positive scores two unknown characters may beat the piece of both.
  small("high", 6, { high: 40, longer: 1 }),
  small("unk", 7, { gap: 1, set: { unk: 7 } }),
];
fs.writeFileSync(join(dirname(fileURLToPath(import.meta.url)), "../testdata/vocabs.json.gz"), gzipSync(JSON.stringify(vocabs), { level: 9 }));
