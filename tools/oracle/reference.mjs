// Encodes and decodes with Hugging Face's tokenizers for the Go program that starts it.
//
// usage: node --input-type=module -e SCRIPT -- MODULES TOKENIZER.JSON
//
// A request is, in little-endian uint32: what (0 encode, 1 decode, 2 decode without special tokens), the number of items,
// and for each its length and its bytes of UTF-8 or its tokens. The answer is as many items: tokens or bytes.
import { readSync, writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const [modules, file] = process.argv.slice(-2);
const { Tokenizer } = createRequire(join(modules, 'x.js'))('@anush008/tokenizers');
const tokenizer = Tokenizer.fromFile(file);

function read(bytes) {
  const out = Buffer.alloc(bytes);
  for (let n = 0; n < bytes; ) {
    const got = readSync(0, out, n, bytes - n);
    if (got === 0) process.exit(0);
    n += got;
  }
  return out;
}

function write(...parts) {
  const all = Buffer.concat(parts);
  for (let n = 0; n < all.length; ) n += writeSync(1, all, n);
}

const number = () => read(4).readUInt32LE();

function numbers(...values) {
  const out = Buffer.alloc(4 * values.length);
  values.forEach((value, i) => out.writeUInt32LE(value, 4 * i));
  return out;
}

function tokens() {
  const bytes = read(4 * number());
  return Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readUInt32LE(4 * i));
}

for (;;) {
  const what = number();
  const items = Array.from({ length: number() }, () => (what === 0 ? read(number()).toString() : tokens()));
  if (what === 0) {
    for (const encoding of await tokenizer.encodeBatch(items, { addSpecialTokens: false })) {
      const ids = encoding.getIds();
      write(numbers(ids.length), Buffer.from(Uint32Array.from(ids).buffer));
    }
  } else {
    for (const text of await tokenizer.decodeBatch(items, what === 2)) {
      const bytes = Buffer.from(text);
      write(numbers(bytes.length), bytes);
    }
  }
}
