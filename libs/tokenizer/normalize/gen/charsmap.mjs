// Writes ../testdata/small.bin: a charsmap whose rules show where graphemes end, which those of
// real models hardly do. usage: node charsmap.mjs
import { dirname, join } from "path";
import { fileURLToPath } from "url";
import fs from "fs";

const rules = { "©": "(c)", "क": "K", "\u{1f1e9}": "D", "a": "b", "e\u0301": "é", "\r": "<", "\u{1f468}": "", "각": "gag", "\u0600": "", "\u1100": "g", "\u0301": "´" };

let texts = Buffer.alloc(0);
const root = new Map();
for (const [key, to] of Object.entries(rules)) {
  let node = root;
  for (const b of Buffer.from(key)) node = node.get(b) ?? node.set(b, new Map()).get(b);
  node.value = texts.length;
  texts = Buffer.concat([texts, Buffer.from(to + "\0")]);
}

const units = [0], used = new Set([0]);
function place(node, at) {
  const labels = [...node.keys()];
  if (node.value !== undefined) labels.push(0);
  let base = 1;
  while (labels.some((l) => used.has(base ^ l)) || base === at) base++;
  for (const l of labels) used.add(base ^ l);
  units[at] |= ((at ^ base) << 10) | (node.value !== undefined ? 1 << 8 : 0);
  if (node.value !== undefined) units[base] = node.value | (1 << 31);
  for (const [l, child] of node) {
    units[base ^ l] = l;
    place(child, base ^ l);
  }
}
place(root, 0);
// Whole blocks of 256, since the reference looks up any byte after any key unchecked.
while (units.length % 256 !== 0) units.push(0);
const array = Buffer.alloc(4 + units.length * 4);
array.writeUInt32LE(units.length * 4);
for (let i = 0; i < units.length; i++) array.writeInt32LE(units[i] ?? 0, 4 + i * 4);
fs.writeFileSync(join(dirname(fileURLToPath(import.meta.url)), "../testdata/small.bin"), Buffer.concat([array, texts]));
