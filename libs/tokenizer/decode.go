package tokenizer

import (
	"strings"
	"unicode/utf8"

	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// decoder says how the texts of tokens become text.
type decoder struct {
	bytewise bool // tokens are bytes, and characters may go through several
	fallback bool // tokens of bytes stand for the bytes of characters
	strip    int  // blanks that the text is without at its start, if it has them
	noMark   bool // the first token is without its blanks
}

// Decode is the text of tokens. Bytes that are not UTF-8 become U+FFFD: of byte-level
// models one for each longest run that could have begun a character, of others one for each byte
// of a run of byte tokens, as in the reference. Tokens outside the vocabulary are left out.
func (t *Tokenizer) Decode(tokens []sequence.Token, special Special) string {
	d := t.NewDetokenizer(special)
	var out []byte
	for _, id := range tokens {
		out = append(out, d.Push(id)...)
	}
	return asString(append(out, d.Flush()...))
}

// Detokenizer decodes a sequence token by token: the pieces that Push and Flush
// return, joined, are what Decode returns for the whole. A step costs no more than the
// bytes of its token.
type Detokenizer struct {
	t       *Tokenizer
	special Special
	pending []byte // the beginning of a character, or of a run of byte tokens
	begun   bool   // a token was seen
	strip   int    // blanks that are still to be left out
}

// NewDetokenizer starts a sequence.
func (t *Tokenizer) NewDetokenizer(special Special) *Detokenizer {
	return &Detokenizer{t: t, special: special, strip: t.decoder.strip}
}

// Push returns the text that is certain with a token: whole characters only, often none.
func (d *Detokenizer) Push(id sequence.Token) string {
	kind := d.t.vocab.kind(id)
	if d.special == NoSpecial && kind&control != 0 {
		return ""
	}
	text := d.t.vocab.text(id)
	if text == "" {
		return ""
	}
	first := !d.begun
	d.begun = true
	if d.t.decoder.bytewise {
		return d.pushBytes(text, kind)
	}
	if kind&byteKind != 0 {
		d.pending = append(d.pending, d.t.vocab.byte(id))
		return ""
	}
	if first && d.t.decoder.noMark && kind&blankKind == 0 {
		text = strings.ReplaceAll(text, " ", "")
	}
	if len(d.pending) > 0 {
		text = d.run() + text
	}
	return d.stripped(text)
}

func (d *Detokenizer) pushBytes(text string, kind kind) string {
	if len(d.pending) == 0 && kind&whole != 0 {
		return text
	}
	d.pending = append(d.pending, text...)
	out, rest := lossy(d.pending, false)
	d.pending = append(d.pending[:0], rest...)
	return out
}

// run ends a run of byte tokens. Whether it is text is known at its end only: one byte
// that does not fit spoils all.
func (d *Detokenizer) run() string {
	text := string(d.pending)
	if !utf8.Valid(d.pending) {
		text = strings.Repeat("\uFFFD", len(d.pending))
	}
	d.pending = d.pending[:0]
	return text
}

func (d *Detokenizer) stripped(text string) string {
	for d.strip > 0 && text != "" {
		rest, ok := strings.CutPrefix(text, " ")
		if !ok {
			d.strip = 0
			break
		}
		text = rest
		d.strip--
	}
	return text
}

// Flush returns what a sequence that ends here leaves: U+FFFD for an unfinished
// character. The Detokenizer may be used for another sequence afterwards.
func (d *Detokenizer) Flush() string {
	var out string
	if d.t.decoder.bytewise {
		out, _ = lossy(d.pending, true)
	} else if len(d.pending) > 0 {
		out = d.stripped(d.run())
	}
	d.pending, d.begun, d.strip = d.pending[:0], false, d.t.decoder.strip
	return out
}
