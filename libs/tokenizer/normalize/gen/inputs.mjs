// The inputs of the recorded answers; inputs_test.go makes the same ones.
export class Random {
  constructor(seed) {
    this.state = BigInt(seed);
  }
  // below returns a number below n, from the high bits of a linear congruential generator.
  below(n) {
    this.state = (this.state * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn;
    return Number((this.state >> 33n) % BigInt(n));
  }
}

const special = ["a", "é", "e\u0301", " ", "  ", "\r\n", "\n", "\t", "\u0301", "\u0327", "\u0323", "\u0345", "\u093c", "\u094d", "\u200d", "\u0335",
  "\ufb01", "\u212b", "\uac00", "\u1100", "\u1161", "\u11a8", "\u11a7", "\u{1f1e9}", "\u{1f468}", "\u{1f3fb}", "\ufe0f", "\u0915", "\u0e33", "\u0130",
  "\u03a3", "\u200b", "\u00a0", "\u3000", "\u2581", "ｶ", "ﾞ", "が", "\u3099", "\u0600", "\u0903", "\x01", "\x7f", "½", "™", "\ufdfa", "A",
  "©", "क", "\u094d", "\u200d", "©\u200d©", "क\u094dक\u0301", "\u{1f1e9}\u{1f1e9}\u{1f1e9}", "각", "\u0301"];
const ranges = [[0x20, 0x7f], [0xa0, 0x250], [0x300, 0x370], [0x370, 0x530], [0x590, 0x700], [0x900, 0xe00], [0xe00, 0x1000], [0x1100, 0x1200],
  [0x1ab0, 0x1b00], [0x1dc0, 0x2000], [0x2000, 0x2100], [0x2100, 0x2c00], [0x3000, 0x3400], [0xa640, 0xac00], [0xac00, 0xad00], [0xf900, 0x10000],
  [0x10a00, 0x11700], [0x1d100, 0x1d800], [0x1f1e0, 0x1f700], [0x2f800, 0x2fa20]];

export function text(random) {
  let out = "";
  for (let n = random.below(12); n >= 0; n--) {
    if (random.below(2) === 0) {
      out += special[random.below(special.length)];
      continue;
    }
    const [lo, hi] = ranges[random.below(ranges.length)];
    out += String.fromCodePoint(lo + random.below(hi - lo));
  }
  return out;
}

// context puts each code point of a block into some text; surrogates have none.
export const contexts = [(c) => c + "|", (c) => c + c + "|", (c) => "e" + c + "\u0301|", (c) => c + "\u0327\u0345" + c + "\u0300|", (c) => "\u0391\u0313" + c + " "];
export const blockSize = 0x4000;

export function block(start, context) {
  let out = "";
  for (let c = start; c < start + blockSize && c < 0x110000; c++) if (c < 0xd800 || c > 0xdfff) out += context(String.fromCodePoint(c));
  return out;
}
