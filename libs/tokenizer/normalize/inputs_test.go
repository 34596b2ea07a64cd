package normalize

import (
	"strings"
)

// The inputs of the recorded answers; gen/inputs.mjs makes the same ones.

// random is a linear congruential generator.
type random uint64

func (r *random) below(n int) int {
	*r = *r*6364136223846793005 + 1442695040888963407
	return int(uint64(*r) >> 33 % uint64(n))
}

var specialTexts = []string{
	"a", "é", "e\u0301", " ", "  ", "\r\n", "\n", "\t", "\u0301", "\u0327", "\u0323", "\u0345", "\u093c", "\u094d", "\u200d", "\u0335",
	"\ufb01", "\u212b", "\uac00", "\u1100", "\u1161", "\u11a8", "\u11a7", "\U0001f1e9", "\U0001f468", "\U0001f3fb", "\ufe0f", "\u0915", "\u0e33", "\u0130",
	"\u03a3", "\u200b", "\u00a0", "\u3000", "\u2581", "ｶ", "ﾞ", "が", "\u3099", "\u0600", "\u0903", "\x01", "\x7f", "½", "™", "\ufdfa", "A",
	"©", "क", "\u094d", "\u200d", "©\u200d©", "क\u094dक\u0301", "\U0001f1e9\U0001f1e9\U0001f1e9", "각", "\u0301",
}

var textRanges = [][2]int{
	{0x20, 0x7f}, {0xa0, 0x250}, {0x300, 0x370}, {0x370, 0x530}, {0x590, 0x700}, {0x900, 0xe00}, {0xe00, 0x1000}, {0x1100, 0x1200},
	{0x1ab0, 0x1b00}, {0x1dc0, 0x2000}, {0x2000, 0x2100}, {0x2100, 0x2c00}, {0x3000, 0x3400}, {0xa640, 0xac00}, {0xac00, 0xad00}, {0xf900, 0x10000},
	{0x10a00, 0x11700}, {0x1d100, 0x1d800}, {0x1f1e0, 0x1f700}, {0x2f800, 0x2fa20},
}

func randomText(r *random) string {
	var out strings.Builder
	for n := r.below(12); n >= 0; n-- {
		if r.below(2) == 0 {
			out.WriteString(specialTexts[r.below(len(specialTexts))])
			continue
		}
		in := textRanges[r.below(len(textRanges))]
		out.WriteRune(rune(in[0] + r.below(in[1]-in[0])))
	}
	return out.String()
}

// inputContexts put a character into some text.
var inputContexts = []func(c string) string{
	func(c string) string { return c + "|" },
	func(c string) string { return c + c + "|" },
	func(c string) string { return "e" + c + "\u0301|" },
	func(c string) string { return c + "\u0327\u0345" + c + "\u0300|" },
	func(c string) string { return "\u0391\u0313" + c + " " },
}

const inputBlock = 0x4000

// blockText has each character of a block in a context.
func blockText(start int, context func(string) string) string {
	var out strings.Builder
	for c := start; c < min(start+inputBlock, 0x110000); c++ {
		if c < 0xD800 || c > 0xDFFF {
			out.WriteString(context(string(rune(c))))
		}
	}
	return out.String()
}
