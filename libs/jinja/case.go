package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// letterCase is a way to change the case of a character, in Python's full mapping, where
// one character may become several.
type letterCase func(r rune, b []byte) []byte

func caseUpper(r rune, b []byte) []byte {
	if r < utf8.RuneSelf {
		return append(b, byte(unicode.ToUpper(r)))
	}
	if s, ok := fullUpper()[r]; ok {
		return append(b, s...)
	}
	return utf8.AppendRune(b, unicode.ToUpper(r))
}

func caseLower(r rune, b []byte) []byte {
	if r == 'İ' {
		return append(b, "i̇"...)
	}
	return utf8.AppendRune(b, unicode.ToLower(r))
}

func caseTitle(r rune, b []byte) []byte {
	if r < utf8.RuneSelf {
		return append(b, byte(unicode.ToTitle(r)))
	}
	if s, ok := fullTitle()[r]; ok {
		return append(b, s...)
	}
	return utf8.AppendRune(b, unicode.ToTitle(r))
}

func caseFold(r rune, b []byte) []byte {
	if r < utf8.RuneSelf {
		return append(b, byte(unicode.ToLower(r)))
	}
	if s, ok := fullFold()[r]; ok {
		return append(b, s...)
	}
	return utf8.AppendRune(b, unicode.ToLower(r))
}

func caseSwap(r rune, b []byte) []byte {
	switch {
	case unicode.IsUpper(r):
		return caseLower(r, b)
	case unicode.IsLower(r):
		return caseUpper(r, b)
	}
	return utf8.AppendRune(b, r)
}

// mapText changes each character of a string, which keeps its provenance. change gets the
// whole text and the place of the character.
func (st *state) mapText(v Value, change func(s string, at int, r rune, b []byte) []byte) (Value, error) {
	if err := st.step(len(v.str) >> 2); err != nil {
		return Value{}, err
	}
	out := builder{st: st}
	if err := out.grow(len(v.str)); err != nil {
		return Value{}, err
	}
	at := 0
	var scratch [64]byte
	for piece, chat := range v.pieces() {
		for piece != "" {
			// In small blocks, so that nothing is built that is not paid for.
			b := scratch[:0]
			for piece != "" && len(b) < len(scratch)-16 {
				r, n := utf8.DecodeRuneInString(piece)
				if r == utf8.RuneError && n == 1 {
					b = append(b, piece[0])
				} else {
					b = change(v.str, at, r, b)
				}
				piece, at = piece[n:], at+n
			}
			if err := out.write(string(b), chat); err != nil {
				return Value{}, err
			}
		}
	}
	return out.done(), nil
}

// recase changes the case of a string.
func (st *state) recase(v Value, to letterCase) (Value, error) {
	return st.mapText(v, func(s string, at int, r rune, b []byte) []byte {
		if r == 'Σ' && finalSigma(s, at) {
			if lowered := to(r, b); strings.HasSuffix(string(lowered), "σ") {
				return append(b, "ς"...)
			}
		}
		return to(r, b)
	})
}

// finalSigma reports whether a capital sigma ends a word.
func finalSigma(s string, at int) bool {
	letter := func(r rune) bool { return unicode.IsLetter(r) }
	ignored := func(r rune) bool {
		return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) || strings.ContainsRune("'.:·’", r)
	}
	before := strings.TrimRightFunc(s[max(0, at-64):at], ignored)
	last, _ := utf8.DecodeLastRuneInString(before)
	after := strings.TrimLeftFunc(s[at+len("Σ"):min(len(s), at+64)], ignored)
	next, _ := utf8.DecodeRuneInString(after)
	return before != "" && letter(last) && (after == "" || !letter(next))
}

// capitalize is str.capitalize.
func (st *state) capitalize(v Value) (Value, error) {
	return st.mapText(v, func(s string, at int, r rune, b []byte) []byte {
		switch {
		case at == 0:
			return caseTitle(r, b)
		case r == 'Σ' && finalSigma(s, at):
			return append(b, "ς"...)
		}
		return caseLower(r, b)
	})
}

// title is str.title: a letter begins a word if none with a case is before it.
func (st *state) title(v Value) (Value, error) {
	inWord := false
	return st.mapText(v, func(s string, at int, r rune, b []byte) []byte {
		begins := !inWord
		inWord = unicode.IsUpper(r) || unicode.IsLower(r) || unicode.IsTitle(r)
		switch {
		case begins:
			return caseTitle(r, b)
		case r == 'Σ' && finalSigma(s, at):
			return append(b, "ς"...)
		}
		return caseLower(r, b)
	})
}
