// Random is a linear congruential generator; answers_test.go has the same.
export class Random {
  constructor(seed) {
    this.state = BigInt(seed);
  }
  // below returns a number below n.
  below(n) {
    this.state = (this.state * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn;
    return Number((this.state >> 33n) % BigInt(n));
  }
}

// text joins some strings of an alphabet.
export function text(random, alphabet) {
  let out = "";
  for (let n = random.below(30); n >= 0; n--) out += alphabet[random.below(alphabet.length)];
  return out;
}
