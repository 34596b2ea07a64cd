// Writes ../testdata/answers.txt and ../testdata/aligned.txt: hashes of what the reference gives for
// the inputs of inputs.mjs. A line of answers.txt is a normalizer, a set of inputs and a hash for each
// block of it.
//
//   cd /tmp/chars && npm i @anush008/tokenizers@0.6.0 && node .../normalize/gen/answers.mjs /tmp/chars
import { createRequire } from "module";
import { createHash } from "crypto";
import { dirname, join } from "path";
import { fileURLToPath } from "url";
import { gunzipSync } from "zlib";
import fs from "fs";
import { Random, block, blockSize, contexts, text } from "./inputs.mjs";

const reference = createRequire(process.argv[2] + "/x.js")("@anush008/tokenizers");
const testdata = join(dirname(fileURLToPath(import.meta.url)), "../testdata");
const charsmap = gunzipSync(fs.readFileSync(join(testdata, "nmt_nfkc.bin.gz"))).toString("base64");
const small = fs.readFileSync(join(testdata, "small.bin")).toString("base64");

const replace = (pattern, content) => ({ type: "Replace", pattern, content });
const normalizers = {
  NFC: [{ type: "NFC" }],
  NFD: [{ type: "NFD" }],
  NFKC: [{ type: "NFKC" }],
  NFKD: [{ type: "NFKD" }],
  Nmt: [{ type: "Nmt" }],
  Lowercase: [{ type: "Lowercase" }],
  StripAccents: [{ type: "StripAccents" }],
  Strip: [{ type: "Strip", strip_left: true, strip_right: true }],
  StripLeft: [{ type: "Strip", strip_left: true, strip_right: false }],
  StripRight: [{ type: "Strip", strip_left: false, strip_right: true }],
  Prepend: [{ type: "Prepend", prepend: "▁x" }],
  Literal: [replace({ String: " " }, "▁")],
  Letters: [replace({ String: "\r\n" }, "")],
  Spaces: [replace({ Regex: " {2,}" }, "▁")],
  White: [replace({ Regex: "\\s+" }, " ")],
  White2: [replace({ Regex: "\\s{2}" }, "<é>")],
  Set: [replace({ Regex: "[\\r\\n\\t]" }, " ")],
  Precompiled: [{ type: "Precompiled", precompiled_charsmap: charsmap }],
  Small: [{ type: "Precompiled", precompiled_charsmap: small }],
  T5: [{ type: "Precompiled", precompiled_charsmap: charsmap }, { type: "Strip", strip_left: false, strip_right: true }, replace({ Regex: " {2,}" }, "▁")],
  Llama: [{ type: "Prepend", prepend: "▁" }, replace({ String: " " }, "▁")],
  Albert: [replace({ String: "``" }, '"'), { type: "NFKD" }, { type: "StripAccents" }, { type: "Lowercase" }],
  Clip: [{ type: "NFC" }, replace({ Regex: "\\s+" }, " "), { type: "Lowercase" }],
  Long: [{ type: "Nmt" }, { type: "NFKC" }, { type: "Lowercase" }, { type: "NFD" }, { type: "Strip", strip_left: true, strip_right: true }, { type: "NFC" }],
};

function tokenizer(steps) {
  const normalizer = { type: "Sequence", normalizers: steps };
  const model = { type: "BPE", vocab: { "<unk>": 0 }, merges: [], unk_token: "<unk>", fuse_unk: false, byte_fallback: false };
  return reference.Tokenizer.fromString(JSON.stringify({ version: "1.0", added_tokens: [], normalizer, model }));
}

// perCharacter are the normalizers that are asked about each character.
const perCharacter = ["NFC", "NFD", "NFKC", "NFKD", "Nmt", "Lowercase", "StripAccents", "White", "Precompiled", "T5"];

const hash = (...parts) => {
  const h = createHash("sha256");
  for (const p of parts) h.update(p + "\n");
  return h.digest("hex").slice(0, 8);
};

const texts = 20000, perBlock = 2000;
let answers = "", aligned = "";
for (const [name, steps] of Object.entries(normalizers)) {
  const t = tokenizer(steps);
  const n = t.getNormalizer();
  if (perCharacter.includes(name)) contexts.forEach((context, i) => {
    const hashes = [];
    for (let c = 0; c < 0x110000; c += blockSize) hashes.push(hash(n.normalizeString(block(c, context))));
    answers += `${name} context${i} ${hashes.join(" ")}\n`;
  });
  const random = new Random(1);
  const hashes = [], alignedHashes = [];
  for (let i = 0; i < texts; i += perBlock) {
    const inputs = Array.from({ length: perBlock }, () => text(random));
    hashes.push(hash(...inputs.map((s) => n.normalizeString(s))));
    // The offsets are in characters of the text, and a pair for each character of the result.
    const encodings = await t.encodeBatch(inputs, { addSpecialTokens: false });
    alignedHashes.push(hash(...encodings.map((e) => e.getOffsets().join(" "))));
  }
  answers += `${name} texts ${hashes.join(" ")}\n`;
  aligned += `${name} texts ${alignedHashes.join(" ")}\n`;
  console.log(name);
}
fs.writeFileSync(join(testdata, "answers.txt"), answers);
fs.writeFileSync(join(testdata, "aligned.txt"), aligned);
