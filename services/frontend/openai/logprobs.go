package openai

import (
	"math"
	"strconv"
	"unicode/utf8"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// leastLogprob is what OpenAI says of a token that is as good as impossible; JSON has no −∞.
const leastLogprob = "-9999.0"

// appendLogprob appends a log-probability, in as few digits as tell it apart.
func appendLogprob(dst []byte, v float32) []byte {
	f := float64(v)
	if !(f > -9999) || math.IsInf(f, 1) { // NaN as well
		return append(dst, leastLogprob...)
	}
	return strconv.AppendFloat(dst, f+0, 'g', -1, 32)
}

// appendChatLogprobs appends what a chat tells of its tokens; null where that is nothing.
func (e *Encoder) appendChatLogprobs(dst []byte, tokens []*generationv1.TokenLogProb) []byte {
	if !e.asked.logprobs || len(tokens) == 0 {
		return append(dst, "null"...)
	}
	dst = append(dst, `{"content":[`...)
	for i, t := range tokens {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendToken(dst, t), `,"top_logprobs":[`...)
		for j, other := range t.GetTop() {
			if j > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendToken(dst, other), '}')
		}
		dst = append(dst, "]}"...)
	}
	return append(dst, `],"refusal":null}`...)
}

// appendToken appends a token of a chat and leaves it open. Its bytes need not be a whole
// character: clients join those of its neighbours.
func appendToken(dst []byte, t *generationv1.TokenLogProb) []byte {
	dst = append(dst, `{"token":`...)
	dst = appendQuotedBytes(dst, t.GetText())
	dst = append(dst, `,"logprob":`...)
	dst = appendLogprob(dst, t.GetLogprob())
	dst = append(dst, `,"bytes":[`...)
	for i, b := range t.GetText() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(b), 10)
	}
	return append(dst, ']')
}

// appendTextLogprobs appends what a chunk of a text completion tells of its tokens, and
// goes on counting the characters of its choice.
func (e *Encoder) appendTextLogprobs(dst []byte, c *generationv1.Chunk) []byte {
	if !e.asked.logprobs {
		return append(dst, "null"...)
	}
	p := e.choices[c.GetChoice()]
	if len(c.GetLogprobs()) == 0 { // a piece of a token of which the rest is held back, or nothing
		dst = append(dst, "null"...)
	} else {
		dst, p.chars = e.appendTextTokens(dst, c.GetLogprobs(), p.chars)
	}
	e.set(c.GetChoice(), p)
	return dst
}

// appendTextTokens appends what a text completion tells of tokens of which the first begins
// at a character, and gives the character after the last.
func (e *Encoder) appendTextTokens(dst []byte, tokens []*generationv1.TokenLogProb, chars int) ([]byte, int) {
	dst = append(dst, `{"tokens":[`...)
	for i, t := range tokens {
		dst = appendQuotedBytes(appendComma(dst, i), t.GetText())
	}
	dst = append(dst, `],"token_logprobs":[`...)
	for i, t := range tokens {
		dst = appendLogprob(appendComma(dst, i), t.GetLogprob())
	}
	dst = append(dst, `],"top_logprobs":`...)
	if e.asked.alternatives {
		dst = append(dst, '[')
		for i, t := range tokens {
			dst = appendAlternatives(appendComma(dst, i), t)
		}
		dst = append(dst, ']')
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"text_offset":[`...)
	for i, t := range tokens {
		begins := chars
		if text := t.GetText(); len(text) > 0 && !utf8.RuneStart(text[0]) && chars > 0 {
			begins-- // it goes on with a character of the last token
		}
		dst = strconv.AppendInt(appendComma(dst, i), int64(begins), 10)
		chars += charsOf(t.GetText())
	}
	return append(dst, "]}"...), chars
}

func appendComma(dst []byte, i int) []byte {
	if i == 0 {
		return dst
	}
	return append(dst, ',')
}

// appendAlternatives appends an object of the likeliest tokens at t's place, and t itself.
// Texts that look alike are one member, with the likeliest of them.
func appendAlternatives(dst []byte, t *generationv1.TokenLogProb) []byte {
	dst = append(dst, '{')
	members := 0
	for i := range len(t.GetTop()) + 1 {
		if !likeliest(t, i) {
			continue
		}
		other := alternative(t, i)
		dst = appendQuotedBytes(appendComma(dst, members), other.GetText())
		dst = appendLogprob(append(dst, ':'), other.GetLogprob())
		members++
	}
	return append(dst, '}')
}

// alternative gives one of the tokens at t's place; the one after the last is t.
func alternative(t *generationv1.TokenLogProb, i int) *generationv1.TokenLogProb {
	if i == len(t.GetTop()) {
		return t
	}
	return t.GetTop()[i]
}

// likeliest tells whether no other token that looks like number i is likelier, or as likely
// and before it.
func likeliest(t *generationv1.TokenLogProb, i int) bool {
	a := alternative(t, i)
	for j := range len(t.GetTop()) + 1 {
		b := alternative(t, j)
		if j == i || !looksLike(a.GetText(), b.GetText()) {
			continue
		}
		x, y := orderOf(a.GetLogprob()), orderOf(b.GetLogprob())
		if y > x || y == x && j < i {
			return false
		}
	}
	return true
}

// orderOf puts NaN, of which nothing is more or less, at the end.
func orderOf(logprob float32) float32 {
	if logprob != logprob {
		return float32(math.Inf(-1))
	}
	return logprob
}

// looksLike tells whether a and b are one text once bytes that are no UTF-8 are U+FFFD.
func looksLike(a, b []byte) bool {
	for len(a) > 0 && len(b) > 0 {
		r, n := utf8.DecodeRune(a)
		s, m := utf8.DecodeRune(b)
		if r != s {
			return false
		}
		a, b = a[n:], b[m:]
	}
	return len(a) == len(b)
}

// charsOf is how many characters begin in a token.
func charsOf(text []byte) int {
	n := 0
	for _, b := range text {
		if utf8.RuneStart(b) {
			n++
		}
	}
	return n
}
