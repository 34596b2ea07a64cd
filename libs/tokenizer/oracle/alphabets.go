package oracle

import (
	"strings"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/corpus"
)

// alphabet gives something by chance out of the characters of a kind.
type alphabet func(r *corpus.Random) string

// between is the characters from lo to hi.
func between(lo, hi rune) alphabet {
	return func(r *corpus.Random) string { return string(lo + rune(r.Below(int(hi-lo)+1))) }
}

// any of the words, with spaces between them.
func anyOf(words string) alphabet {
	all := strings.Split(words, " ")
	return func(r *corpus.Random) string { return corpus.Pick(r, all) }
}

// eachOf the characters.
func eachOf(characters string) alphabet {
	all := []rune(characters)
	return func(r *corpus.Random) string { return string(corpus.Pick(r, all)) }
}

const (
	// blanks are all white space, and what looks like it.
	blanks = " \t\n\v\f\r\u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000" +
		"\u200b\u200c\u200d\u2060\ufeff\u180e\u2800\u3164\x1c\x1d\x1e\x1f"
	// marks combine with what is before them, in various orders.
	marks = "\u0300\u0301\u0302\u0303\u0304\u0307\u0308\u030a\u030c\u0323\u0327\u0328\u0331\u0338\u0345\u034f\u035c\u0360\u05b0\u05b4\u05bc" +
		"\u064b\u0651\u0654\u0670\u093c\u094d\u09be\u09d7\u0bbe\u0bd7\u0dcf\u0ddf\u0e38\u0e48\u0f71\u0f72\u0f74\u102e\u1161\u11a8\u1dc4\u20d0\u20e3" +
		"\u3099\u309a\ufb1e\ufe20\U000110ba\U0001133e\U0001d165\U0001d16d\U0001e94a"
	// controls have no width: directions, joiners, tags, control characters.
	controls = "\x00\x01\x02\x04\x07\x08\x0e\x14\x1b\x7f\u0080\u0090\u009f\u00ad\u061c\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060" +
		"\u2061\u2066\u2067\u2068\u2069\u206a\ufe0e\ufe0f\ufeff\ufff9\ufffb\ufffc\ufffd\ufffe\uffff\U000e0001\U000e0020\U000e007f\U0010ffff"
	numbers      = "0123456789²³¹¼½¾٠١٢٣۴۵०१२๓๔ⅠⅧⅻⅿↀ①⑳⒈❶㈠㊿一二三十百０９𝟎𝟡𐄇𞥐〇"
	punctuation  = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~¡§«¶·»¿‐–—‘’‚“”„†‡•…‰′″‹›※⁇₤€№™←→∀∑≠⌘─█■★♥✓。、「」『』【】！？，．：；（）￥～"
	contractions = "'s 't 're 've 'm 'll 'd 'S 'T 'RE 'Re 'rE 'VE 'Ve 'M 'LL 'lL 'D 'ſ 'ſs 'x 'l 'r 'v ''s ’s ’t ＇s 's' 'd've n't N'T '"
	emoji        = "😀😂🤣❤🥺✨🔥👍🙏🤦🚀🐈🦜🇩🇪🇫🇷🏳🏴👨👩👧👦👶🧑💻🎉☺☹✈⚕♂♀⚧🏻🏼🏽🏾🏿#*0\u200d\ufe0e\ufe0f\u20e3"
)

// alphabets are of all kinds of text that splitters and normalizers tell apart.
func alphabets() []alphabet {
	return []alphabet{
		between('a', 'z'), between('a', 'z'), between('A', 'Z'), between('0', '9'), eachOf(punctuation), eachOf(numbers), eachOf(blanks),
		eachOf(" \n\r\t"), eachOf(marks), eachOf(controls), eachOf(emoji), anyOf(contractions),
		anyOf("the of and in to a that is was he for it with as his on be at by I not"),
		eachOf("äöüßéèêëçñåæøœÄÖÜẞÉĐđŁłİıſŻžŸ"), eachOf("ǅǈǋǲᾈᾼῼʰʲˈˌːˀᴬᵃⁿₐꟸａＡ"), // small, capital, title case, modifiers
		between(0x100, 0x24f), between(0x370, 0x3ff), between(0x400, 0x4ff), between(0x531, 0x58f), between(0x591, 0x5f4), between(0x600, 0x6ff),
		between(0x700, 0x7bf), between(0x900, 0x97f), between(0x980, 0x9ff), between(0xb80, 0xbff), between(0xd80, 0xdff), between(0xe00, 0xe7f),
		between(0xe80, 0xeff), between(0xf00, 0xfff), between(0x1000, 0x109f), between(0x10a0, 0x10ff), between(0x1100, 0x11ff),
		between(0x1200, 0x137f), between(0x13a0, 0x13ff), between(0x1780, 0x17ff), between(0x1800, 0x18af), between(0x1e00, 0x1fff),
		between(0x2000, 0x206f), between(0x2070, 0x209f), between(0x20a0, 0x20cf), between(0x20d0, 0x20ff), between(0x2100, 0x218f),
		between(0x2190, 0x23ff), between(0x2460, 0x24ff), between(0x2600, 0x27bf), between(0x2c00, 0x2dff), between(0x3000, 0x303f),
		between(0x3041, 0x309f), between(0x30a0, 0x30ff), between(0x3130, 0x318f), between(0x3400, 0x4dbf), between(0x4e00, 0x9fff),
		between(0x4e00, 0x9fff), between(0xa000, 0xa4cf), between(0xa640, 0xa6ff), between(0xa720, 0xa7ff), between(0xac00, 0xd7a3),
		between(0xe000, 0xe020), between(0xf900, 0xfaff), between(0xfb00, 0xfb4f), between(0xfb50, 0xfdff), between(0xfe00, 0xfe6f),
		between(0xfe70, 0xfeff), between(0xff00, 0xffef), between(0x10000, 0x100ff), between(0x10400, 0x1044f), between(0x11000, 0x110ff),
		between(0x12000, 0x123ff), between(0x16800, 0x168ff), between(0x1b000, 0x1b0ff), between(0x1d100, 0x1d1ff), between(0x1d400, 0x1d7ff),
		between(0x1e900, 0x1e95f), between(0x1ee00, 0x1eeff), between(0x1f000, 0x1f2ff), between(0x1f300, 0x1f64f), between(0x1f680, 0x1faff),
		between(0x20000, 0x2a6df), between(0x2f800, 0x2fa1f), between(0x30000, 0x323af), between(0xe0000, 0xe01ef), between(0xf0000, 0x10ffff),
	}
}

// some gives up to a number of things of an alphabet.
func some(r *corpus.Random, of alphabet, most int) string {
	var out strings.Builder
	for range r.Below(most + 1) {
		out.WriteString(of(r))
	}
	return out.String()
}
