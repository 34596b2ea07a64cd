// Writes ../testdata/answers.txt: for each vocabulary hashes of the ids that the reference gives for
// random texts.
//
//   cd /tmp/chars && npm i @anush008/tokenizers@0.6.0 && node .../unigram/gen/answers.mjs /tmp/chars
import { createRequire } from "module";
import { createHash } from "crypto";
import { dirname, join } from "path";
import { fileURLToPath } from "url";
import { gunzipSync } from "zlib";
import fs from "fs";
import { Random, text } from "./random.mjs";

const reference = createRequire(process.argv[2] + "/x.js")("@anush008/tokenizers");
const testdata = join(dirname(fileURLToPath(import.meta.url)), "../testdata");
const blocks = 10, perBlock = 1000;

let out = "";
for (const v of JSON.parse(gunzipSync(fs.readFileSync(join(testdata, "vocabs.json.gz"))))) {
  const model = { type: "Unigram", unk_id: v.unk, byte_fallback: v.byteFallback, vocab: v.vocab };
  const tokenizer = reference.Tokenizer.fromString(JSON.stringify({ version: "1.0", added_tokens: [], model }));
  const random = new Random(1);
  const hashes = [];
  for (let i = 0; i < blocks; i++) {
    const texts = Array.from({ length: perBlock }, () => text(random, v.alphabet));
    const encodings = await tokenizer.encodeBatch(texts, { addSpecialTokens: false });
    const lines = encodings.map((e) => e.getIds().join(" ") + "\n").join("");
    hashes.push(createHash("sha256").update(lines).digest("hex").slice(0, 8));
  }
  out += `${v.name} ${hashes.join(" ")}\n`;
}
fs.writeFileSync(join(testdata, "answers.txt"), out);
