package tokenizer

import (
	"unicode/utf8"
	"unsafe"

	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// Encode appends the tokens of text to dst. It adds no BOS.
func (t *Tokenizer) Encode(dst []sequence.Token, text string, special Special) []sequence.Token {
	one := [1]Segment{{Text: text, Trusted: bool(special)}}
	return t.EncodeSegments(dst, one[:])
}

// EncodeSegments appends the tokens of the segments' joined text. A control token
// is formed only by text that is trusted from its first to its last byte; nothing
// else depends on where segments end. User-defined tokens, which are words and no
// orders to the model, are formed by any text.
func (t *Tokenizer) EncodeSegments(dst []sequence.Token, segments []Segment) []sequence.Token {
	s := t.scratch.Get().(*scratch)
	defer t.scratch.Put(s)
	text, untrusted := join(segments, s)
	for at := 0; at < len(text); {
		start, end, id := t.added.find(text, at, &untrusted)
		dst = t.encodePlain(dst, text[at:start], s)
		if end > start {
			dst = append(dst, id)
		}
		at = end
	}
	return dst
}

func (t *Tokenizer) encodePlain(dst []sequence.Token, text string, s *scratch) []sequence.Token {
	if t.single {
		return appendBytes(dst, text)
	}
	for at := 0; at < len(text); {
		end := t.split.next(text, at)
		dst = t.bpe.encode(dst, text[at:end], s)
		at = end
	}
	return dst
}

// spans is a list of byte ranges in ascending order, asked about from left to right.
type spans []span

type span struct{ start, end int }

// overlap reports whether a range that starts no earlier than that of the last
// call has a byte in one of the spans.
func (s *spans) overlap(start, end int) bool {
	for len(*s) > 0 && (*s)[0].end <= start {
		*s = (*s)[1:]
	}
	return len(*s) > 0 && (*s)[0].start < end
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
	return unsafe.String(unsafe.SliceData(s.joined), len(s.joined)), untrusted
}
