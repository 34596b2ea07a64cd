package tokenizer

import (
	"strings"
	"unicode/utf8"

	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/normalize"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/split"
)

// Span is a range of bytes, the first of which is Start and End behind the last.
type Span struct{ Start, End int }

// Offsets is Encode, and gives for each token the bytes of text that it comes from. Tokens of
// one character share it where the normalizer changed it; a token of part of a character has
// those bytes. The blank that some models put before a text has an empty span. Offsets is for
// callers who show tokens, and takes several times as long as Encode. What the normalizer takes away or
// joins to the character before it belongs to the token before it.
func (t *Tokenizer) Offsets(text string, special Special) (tokens []sequence.Token, spans []Span) {
	o := offsets{t: t, s: new(scratch)}
	source := valid(text)
	untrusted := spansOf(source.text, special)
	for f := (finder{m: &t.raw, text: source.text, untrusted: untrusted}); ; {
		before, untrusted, found, ok := f.next()
		if before.end > before.start {
			o.normalize(source.cut(before.start, before.end), before.start == 0, untrusted.from(before.start))
		}
		if !ok {
			return o.tokens, o.spans
		}
		o.add(found.id, source.span(found.start, found.end))
	}
}

func spansOf(text string, special Special) spans {
	if special == WithSpecial {
		return nil
	}
	return spans{{0, len(text)}}
}

// offsets collects tokens and where they come from.
type offsets struct {
	t      *Tokenizer
	s      *scratch
	tokens []sequence.Token
	spans  []Span
}

func (o *offsets) add(id sequence.Token, span Span) {
	o.tokens, o.spans = append(o.tokens, id), append(o.spans, span)
}

// aligned is a text and the bytes that each of its bytes comes from.
type aligned struct {
	text string
	from []Span
}

// valid is a text with U+FFFD for each byte that is not UTF-8.
func valid(text string) aligned {
	a := aligned{from: make([]Span, 0, len(text))}
	var out strings.Builder
	for i, r := range text {
		_, n := utf8.DecodeRuneInString(text[i:])
		out.WriteRune(r)
		for j := range utf8.RuneLen(r) {
			span := Span{i + j, i + j + 1}
			if r == utf8.RuneError && n == 1 {
				span = Span{i, i + 1}
			}
			a.from = append(a.from, span)
		}
	}
	a.text = out.String()
	return a
}

func (a aligned) cut(start, end int) aligned { return aligned{a.text[start:end], a.from[start:end]} }

// span is where the bytes from start to end come from; of no bytes it is a place.
func (a aligned) span(start, end int) Span {
	switch {
	case start < end:
		return Span{a.from[start].Start, a.from[end-1].End}
	case start < len(a.from):
		return Span{a.from[start].Start, a.from[start].Start}
	}
	last := a.from[len(a.from)-1].End
	return Span{last, last}
}

func (o *offsets) normalize(source aligned, first bool, untrusted spans) {
	t := o.t
	text := source
	if !t.normalizer.Same(source.text) {
		defer o.close(len(o.spans), source.from[len(source.from)-1].End)
		untrusted = t.normalizedSpans(source.text, untrusted)
		out, froms := t.normalizer.AppendAligned(nil, nil, source.text)
		text = aligned{text: string(out), from: through(source, froms)}
	}
	if t.marksEarly && !t.normalized.empty() {
		marked := o.mark(text, first)
		if len(untrusted) > 0 && marked.text != text.text {
			untrusted = spans{{0, len(marked.text)}}
		}
		text = marked
	}
	for f := (finder{m: &t.normalized, text: text.text, untrusted: untrusted}); ; {
		before, _, found, ok := f.next()
		if before.end > before.start {
			o.plain(text.cut(before.start, before.end), first && before.start == 0)
		}
		if !ok {
			return
		}
		o.add(found.id, text.span(found.start, found.end))
	}
}

// close leaves no gaps between the spans from one on, the last of which ends at a byte.
func (o *offsets) close(from, end int) {
	for i := from; i < len(o.spans); i++ {
		next := end
		if i+1 < len(o.spans) {
			next = o.spans[i+1].Start
		}
		o.spans[i].End = max(o.spans[i].End, next)
	}
}

// through follows spans of a text to where that comes from.
func through(source aligned, spans []normalize.Span) []Span {
	out := make([]Span, len(spans))
	for i, s := range spans {
		switch {
		case s.End > s.Start:
			out[i] = source.span(int(s.Start), int(s.End))
		case int(s.Start) < len(source.from):
			out[i] = Span{source.from[s.Start].Start, source.from[s.Start].Start}
		default:
			end := source.from[len(source.from)-1].End
			out[i] = Span{end, end}
		}
	}
	return out
}

func (o *offsets) plain(text aligned, first bool) {
	if o.t.marksEarly && !o.t.normalized.empty() {
		o.pieces(text)
		return
	}
	var c split.Cursor
	for at := 0; at < len(text.text); {
		end, keep := o.t.outer.Next(text.text, at, &c)
		if keep {
			o.pieces(o.mark(text.cut(at, end), first && at == 0))
		}
		at = end
	}
}

// mark is marks.apply with what its bytes come from.
func (o *offsets) mark(text aligned, first bool) aligned {
	marked := o.t.marks.apply(text.text, first, o.s)
	if marked == text.text {
		return text
	}
	out := aligned{text: strings.Clone(marked)}
	at := 0
	for i := range len(marked) {
		switch {
		case i == 0 && marked[0] == ' ' && strings.TrimPrefix(marked, " ") == o.t.marks.blanks(text.text):
			out.from = append(out.from, Span{text.from[0].Start, text.from[0].Start}) // put before the text
		case marked[i] == ' ' && strings.HasPrefix(text.text[at:], mark) && o.t.marks.on:
			out.from = append(out.from, text.span(at, at+len(mark)))
			at += len(mark)
		default:
			out.from = append(out.from, text.from[at])
			at++
		}
	}
	return out
}

func (o *offsets) pieces(text aligned) {
	var c split.Cursor
	for at := 0; at < len(text.text); {
		end, keep := o.t.pieces.Next(text.text, at, &c)
		if keep {
			o.piece(text.cut(at, end))
		}
		at = end
	}
}

func (o *offsets) piece(text aligned) {
	from := len(o.tokens)
	o.tokens = o.t.model(o.tokens, text.text, o.s)
	tokens := o.tokens[from:]
	var ends []int
	if o.t.bpe != nil {
		ends = o.t.bpe.Ends(nil, text.text, tokens)
	} else {
		ends = o.t.unigramEnds(text.text, tokens)
	}
	at := 0
	for _, end := range ends {
		o.spans = append(o.spans, text.span(at, end))
		at = end
	}
}

// unigramEnds finds where the tokens of a piece end: by their texts, and those of unknown
// characters by what comes next.
func (t *Tokenizer) unigramEnds(piece string, tokens []sequence.Token) (ends []int) {
	at := 0
	for i, id := range tokens {
		text := t.vocab.bytes(id)
		if text != "" && strings.HasPrefix(piece[at:], text) {
			at += len(text)
			ends = append(ends, at)
			continue
		}
		_, n := utf8.DecodeRuneInString(piece[at:])
		at += n
		for at < len(piece) && (i+1 == len(tokens) || !strings.HasPrefix(piece[at:], t.vocab.bytes(tokens[i+1]))) {
			_, n := utf8.DecodeRuneInString(piece[at:])
			at += n
		}
		ends = append(ends, at)
	}
	return ends
}
