package tokenizer

import (
	"unicode/utf8"
	"unsafe"

	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/bpe"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/split"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/unigram"
)

// scratch is the working memory of one Encode.
type scratch struct {
	bpe        bpe.Scratch
	unigram    unigram.Scratch
	cursor     split.Cursor
	ends       [256]uint32 // of pieces
	joined     []byte
	normalized []byte
	marked     []byte
	tokens     []sequence.Token // of a part of a long text
}

// Encode appends the tokens of text to dst. It adds no BOS.
func (t *Tokenizer) Encode(dst []sequence.Token, text string, special Special) []sequence.Token {
	one := [1]Segment{{Text: text, Trusted: bool(special)}}
	return t.EncodeSegments(dst, one[:])
}

// EncodeSegments appends the tokens of the segments' joined text. A control token
// is formed only by text that is trusted from its first to its last byte; nothing
// else depends on where segments end. Added tokens that are no orders to the model are
// formed by any text.
func (t *Tokenizer) EncodeSegments(dst []sequence.Token, segments []Segment) []sequence.Token {
	s := t.scratch.Get().(*scratch)
	defer t.scratch.Put(s)
	text, untrusted := join(segments, s)
	for f := (finder{m: &t.raw, text: text, untrusted: untrusted}); ; {
		before, untrusted, found, ok := f.next()
		if before.end > before.start {
			dst = t.normalize(dst, text[before.start:before.end], before.start, untrusted, s)
		}
		if !ok {
			return dst
		}
		dst = append(dst, found.id)
	}
}

// normalize encodes what is between added tokens and starts at a byte of the whole text.
func (t *Tokenizer) normalize(dst []sequence.Token, text string, at int, untrusted spans, s *scratch) []sequence.Token {
	first, source := at == 0, text
	if !t.normalizer.Same(text) {
		s.normalized = t.normalizer.Append(s.normalized[:0], text)
		text = asString(s.normalized)
	}
	if t.normalized.empty() {
		return t.plain(dst, text, first, s)
	}
	if untrusted = untrusted.from(at); text != source {
		untrusted = t.normalizedSpans(source, untrusted)
	}
	if t.marksEarly {
		text, untrusted = t.markEarly(text, first, untrusted, s)
	}
	for f := (finder{m: &t.normalized, text: text, untrusted: untrusted}); ; {
		before, _, found, ok := f.next()
		if before.end > before.start {
			dst = t.plain(dst, text[before.start:before.end], first && before.start == 0, s)
		}
		if !ok {
			return dst
		}
		dst = append(dst, found.id)
	}
}

// markEarly makes the marks before normalized tokens are looked for. Of a text that it changes
// all is untrusted if any is.
func (t *Tokenizer) markEarly(text string, first bool, untrusted spans, s *scratch) (string, spans) {
	marked := t.marks.apply(text, first, s)
	if len(untrusted) > 0 && marked != text {
		untrusted = spans{{0, len(marked)}}
	}
	return marked, untrusted
}

// plain encodes normalized text without added tokens, which may be the first of all.
func (t *Tokenizer) plain(dst []sequence.Token, text string, first bool, s *scratch) []sequence.Token {
	if t.marksEarly && !t.normalized.empty() {
		return t.cut(dst, text, s)
	}
	if !t.outer.Splits() {
		return t.cut(dst, t.marks.apply(text, first, s), s)
	}
	var c split.Cursor
	for at := 0; at < len(text); {
		end, keep := t.outer.Next(text, at, &c)
		if keep {
			dst = t.cut(dst, t.marks.apply(text[at:end], first && at == 0, s), s)
		}
		at = end
	}
	return dst
}

// cut encodes the pieces of a text.
func (t *Tokenizer) cut(dst []sequence.Token, text string, s *scratch) []sequence.Token {
	if len(text) >= parallelBytes {
		return t.parallel(dst, text, s)
	}
	return t.part(dst, text, s)
}

// part encodes a text segment by segment, if it can be cut.
func (t *Tokenizer) part(dst []sequence.Token, text string, s *scratch) []sequence.Token {
	s.cursor = split.Cursor{}
	if t.segments == nil {
		return t.stretch(dst, text, 0, len(text), s)
	}
	for at := 0; at < len(text); {
		end := len(text)
		if end-at >= 2*segmentBytes {
			if end = t.border(text[:min(at+searchBytes, len(text))], at+segmentBytes); end < 0 {
				end = len(text)
			}
		}
		dst = t.segment(dst, text, at, end, s)
		at = end
	}
	return dst
}

func (t *Tokenizer) segment(dst []sequence.Token, text string, at, end int, s *scratch) []sequence.Token {
	if end-at > maxSegmentBytes {
		return t.stretch(dst, text, at, end, s)
	}
	key := t.segments.key(text[at:end])
	dst, sight := t.segments.find(dst, key)
	if sight == known {
		return dst
	}
	from := len(dst)
	if dst = t.stretch(dst, text, at, end, s); sight == seen {
		t.segments.put(key, dst[from:])
	}
	return dst
}

// stretch encodes what is between two places of a text, piece by piece.
func (t *Tokenizer) stretch(dst []sequence.Token, text string, at, end int, s *scratch) []sequence.Token {
	if !t.pieces.Splits() {
		return t.model(dst, text[at:end], s)
	}
	for at < end {
		ends := s.ends[:t.pieces.Fill(text, at, end, &s.cursor, s.ends[:])]
		if t.bpe != nil {
			dst = t.bpe.AppendPieces(dst, text, at, ends, split.Dropped, &s.bpe)
		} else {
			dst = t.appendUnigram(dst, text, at, ends, s)
		}
		at = int(ends[len(ends)-1] &^ split.Dropped)
	}
	return dst
}

func (t *Tokenizer) appendUnigram(dst []sequence.Token, text string, at int, ends []uint32, s *scratch) []sequence.Token {
	for _, mark := range ends {
		end := int(mark &^ split.Dropped)
		if mark&split.Dropped == 0 {
			dst = t.unigram.Append(dst, text[at:end], &s.unigram)
		}
		at = end
	}
	return dst
}

// model encodes a piece.
func (t *Tokenizer) model(dst []sequence.Token, piece string, s *scratch) []sequence.Token {
	if t.bpe != nil {
		return t.bpe.Append(dst, piece, &s.bpe)
	}
	return t.unigram.Append(dst, piece, &s.unigram)
}

// join returns the text of all segments as valid UTF-8, and where it is untrusted.
// The text may alias the scratch.
func join(segments []Segment, s *scratch) (text string, untrusted spans) {
	if len(segments) == 1 && utf8.ValidString(segments[0].Text) {
		text = segments[0].Text
		if !segments[0].Trusted {
			untrusted = spans{{0, len(text)}}
		}
		return text, untrusted
	}
	s.joined = s.joined[:0]
	for _, segment := range segments {
		start := len(s.joined)
		if utf8.ValidString(segment.Text) {
			s.joined = append(s.joined, segment.Text...)
		} else {
			for _, r := range segment.Text { // an invalid byte comes out as U+FFFD
				s.joined = utf8.AppendRune(s.joined, r)
			}
		}
		if !segment.Trusted && len(s.joined) > start {
			untrusted = append(untrusted, span{start, len(s.joined)})
		}
	}
	return asString(s.joined), untrusted
}

// asString is b, which nobody writes to while the string is used.
func asString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
