package oracle

import (
	"strings"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/corpus"
)

// randomTexts are strings of up to 60 characters out of a few alphabets, now and then all of them.
func randomTexts(block int) []string {
	const perBlock = 2000
	r := corpus.NewRandom(uint64(1000 + block))
	all := alphabets()
	out := make([]string, perBlock)
	for i := range out {
		few := all
		if r.Below(4) > 0 {
			few = nil
			for range 1 + r.Below(4) {
				few = append(few, corpus.Pick(r, all))
			}
		}
		out[i] = mixed(r, few, r.Below(61))
	}
	return out
}

// mixed takes characters out of alphabets, in short runs.
func mixed(r *corpus.Random, of []alphabet, length int) string {
	var out strings.Builder
	for length > 0 {
		from, run := corpus.Pick(r, of), 1+r.Below(min(length, 8))
		length -= run
		for range run {
			out.WriteString(from(r))
		}
	}
	return out.String()
}

// emojiTexts are sequences that show as one picture, or nearly, among letters.
func emojiTexts(block int) []string {
	r := corpus.NewRandom(uint64(2000 + block))
	people, tones := eachOf("👨👩👧👦👶🧑💂🏃🤦🧜"), anyOf(" 🏻 🏼 🏽 🏾 🏿")
	things := anyOf("💻 🚀 ❤️ ⚕️ ♂️ ♀️ ✈️ 🎨 🤝 💋")
	picture := []func() string{
		func() string { return emojiAlphabet(r) },
		func() string { return between(0x1f1e6, 0x1f1ff)(r) + between(0x1f1e6, 0x1f1ff)(r) },
		func() string {
			return eachOf("#*0123456789")(r) + corpus.Pick(r, []string{"\ufe0f\u20e3", "\u20e3", "\ufe0f"})
		},
		func() string { return "🏴" + some(r, between(0xe0061, 0xe007a), 6) + "\U000e007f" },
		func() string {
			out := people(r) + tones(r)
			for range r.Below(4) {
				out += "\u200d" + corpus.Pick(r, []alphabet{people, things})(r) + tones(r)
			}
			return out
		},
	}
	return times(500, func() string {
		var out strings.Builder
		for range 1 + r.Below(8) {
			out.WriteString(corpus.Pick(r, picture)())
			out.WriteString(some(r, eachOf(" ab1.\n"), 2))
		}
		return out.String()
	})
}

func emojiAlphabet(r *corpus.Random) string {
	return corpus.Pick(r, []alphabet{between(0x1f300, 0x1faff), between(0x2600, 0x27bf), eachOf(emoji)})(r) + corpus.Pick(r, []string{"", "", "\ufe0f", "\ufe0e"})
}

// blankTexts are white space of all kinds around and between words, and lines with all their ends.
func blankTexts(block int) []string {
	r := corpus.NewRandom(uint64(3000 + block))
	usual, all, lines := eachOf(" "), eachOf(blanks), anyOf("\n \r\n \r \n\n \r\n\r\n \n\r \n\t \t\n \u2028 \u0085 \v\n")
	word := anyOf("a word Word 12 ... ( , 'll 中文 é _x \u0301")
	return times(500, func() string {
		var out strings.Builder
		for range 1 + r.Below(6) {
			out.WriteString(some(r, corpus.Pick(r, []alphabet{usual, usual, all, lines, eachOf(" \t\n\r")}), 1+r.Below(30)))
			out.WriteString(some(r, word, 2))
		}
		return out.String()
	})
}

// numberTexts are runs of digits of all kinds, with what stands in and around numbers.
func numberTexts(block int) []string {
	r := corpus.NewRandom(uint64(4000 + block))
	return times(500, func() string {
		of := []alphabet{between('0', '9'), between('0', '9'), eachOf(numbers), eachOf(".,:-+/eE%$€ "), eachOf("abX中 ")}
		return some(r, of[0], 30) + mixed(r, of, r.Below(40))
	})
}

// contractionTexts are English contractions in both cases, and what Unicode takes for one of them.
func contractionTexts(block int) []string {
	r := corpus.NewRandom(uint64(5000 + block))
	word, short, after := anyOf("I you He SHE it don can O l' ſ x é 他 9 . ' \u0301"), anyOf(contractions), eachOf(" .'a1ſé\n-")
	return times(500, func() string {
		var out strings.Builder
		for range 1 + r.Below(6) {
			out.WriteString(some(r, word, 2) + some(r, short, 2) + some(r, after, 2))
		}
		return out.String()
	})
}

// markTexts are marks in runs of up to 200, in any order, on letters and on nothing.
func markTexts(block int) []string {
	r := corpus.NewRandom(uint64(6000 + block))
	base := eachOf("aeoAEOnıßÅΩкअকதกཀကᄀ가각がバ葛豈שׁلا0 .\n😀")
	mark := []alphabet{eachOf(marks), eachOf(marks), between(0x300, 0x36f), eachOf("\u0301\u0323"), between(0x1161, 0x1175), between(0x11a8, 0x11c2)}
	return times(500, func() string {
		var out strings.Builder
		for range 1 + r.Below(5) {
			out.WriteString(some(r, base, 2))
			most := corpus.Pick(r, []int{2, 5, 40, 200})
			for range r.Below(most) {
				out.WriteString(corpus.Pick(r, mark)(r))
			}
		}
		return out.String()
	})
}

// runTexts are long runs of one thing: what a careless merge is quadratic in.
func runTexts(block int) []string {
	r := corpus.NewRandom(uint64(7000 + block))
	return times(10, func() string {
		unit := corpus.Pick(r, []string{"a", "A", "ab", "0", " ", "\n", "\t", "=", "-", "é", "中", "😀", "\u0301", "▁", "\u00a0", "ha", "的", "\x00", " a"})
		return strings.Repeat(unit, 1+r.Below(6000)) + some(r, between('a', 'z'), 2)
	})
}

func times(n int, text func() string) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = text()
	}
	return out
}
