// Writes ../testdata/answers.txt: the size and SHA-256 of each set that the reference answers,
// asked about each code point. The hash is over the ranges as "lo-hi\n" in hexadecimal. Set up
// as tables.mjs says; usage: node answers.mjs /tmp/chars
import { createRequire } from "module";
import { createHash } from "crypto";
import { dirname, join } from "path";
import { fileURLToPath } from "url";
import fs from "fs";

const reference = createRequire(process.argv[2] + "/x.js")("@anush008/tokenizers");
const all = [];
for (let c = 0; c < 0x110000; c++) if (c < 0xd800 || c > 0xdfff) all.push(c);

function preTokenizer(step) {
  const model = { type: "WordLevel", vocab: { a: 0 }, unk_token: "a" };
  return reference.Tokenizer.fromString(JSON.stringify({ version: "1.0", added_tokens: [], pre_tokenizer: step, model })).getPreTokenizer();
}

// removed is the code points that a pre-tokenizer removes from a text of many.
function removed(pre) {
  const out = [];
  for (let i = 0; i < all.length; i += 4096) {
    const points = all.slice(i, i + 4096);
    const left = new Set();
    for (const [piece] of pre.preTokenizeString(String.fromCodePoint(...points))) for (const c of piece) left.add(c.codePointAt(0));
    out.push(...points.filter((c) => !left.has(c)));
  }
  return out;
}

function kept(isMember) {
  return all.filter((c) => isMember(String.fromCodePoint(c)));
}

const lines = [];
function record(name, points) {
  let text = "";
  for (let i = 0, j; i < points.length; i = j) {
    for (j = i + 1; j < points.length && points[j] === points[j - 1] + 1; ) j++;
    text += points[i].toString(16) + "-" + points[j - 1].toString(16) + "\n";
  }
  lines.push(`${name} ${points.length} ${createHash("sha256").update(text).digest("hex")}\n`);
}

const properties = ("L LC Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp C Cc Cf Co Cn " +
  "White_Space Alphabetic Word Han Hiragana Katakana Hangul Latin Greek Cyrillic Thai Arabic Hebrew Devanagari").split(" ");
for (const p of properties) record(`regex:${p}`, removed(preTokenizer({ type: "Split", pattern: { Regex: `\\p{${p}}` }, behavior: "Removed", invert: false })));

const digits = reference.digitsPreTokenizer(false);
record("Numeric", kept((c) => digits.preTokenizeString("a" + c).length === 2));
const split = reference.whitespaceSplitPreTokenizer();
record("WhiteSpace", kept((c) => split.preTokenizeString("a" + c + "a").length === 2));
const punctuation = reference.punctuationPreTokenizer("removed");
record("Punctuation", kept((c) => punctuation.preTokenizeString(c).length === 0));
const word = reference.whitespacePreTokenizer();
record("Word", kept((c) => word.preTokenizeString("a" + c)[0][0] === "a" + c));
fs.writeFileSync(join(dirname(fileURLToPath(import.meta.url)), "../testdata/answers.txt"), lines.join(""));
