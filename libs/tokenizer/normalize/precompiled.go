package normalize

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// precompiled is a rule set of sentencepiece as its models carry it: a double array that leads from the
// bytes of what is replaced to a place in the texts that replace it.
type precompiled struct {
	units []uint32
	// texts has the replacements, each with a NUL after it.
	texts   string
	classes *table
	// plain are the ASCII characters without a rule of their own.
	plain [utf8.RuneSelf]bool
}

var _ step = (*precompiled)(nil)

// newPrecompiled reads a charsmap: the size of the array in bytes, the array, the texts; numbers are of
// four bytes, little endian. What its rules say where the data is wrong is checked as they are used: a
// rule that leads out of the data is none.
func newPrecompiled(charsmap []byte) (*precompiled, error) {
	if len(charsmap) < 4 {
		return nil, fmt.Errorf("the charsmap has %d bytes and no header", len(charsmap))
	}
	size, rest := int64(binary.LittleEndian.Uint32(charsmap)), charsmap[4:]
	size -= size % 4
	if size > int64(len(rest)) {
		return nil, fmt.Errorf("the charsmap says that its array has %d bytes, and has %d", size, len(rest))
	}
	if size == 0 {
		return nil, errors.New("the array of the charsmap is empty")
	}
	if !utf8.Valid(rest[size:]) {
		return nil, errors.New("the texts of the charsmap are not UTF-8")
	}
	p := &precompiled{units: make([]uint32, size/4), texts: string(rest[size:]), classes: graphemeClasses()}
	for i := range p.units {
		p.units[i] = binary.LittleEndian.Uint32(rest[i*4:])
	}
	for b := range p.plain {
		_, ok := p.rule(string(rune(b)))
		p.plain[b] = !ok
	}
	return p, nil
}

// The fields of a unit are those of the Darts library.
func unitOffset(u uint32) uint32 { return u >> 10 << (u & (1 << 9) >> 6) }

// rule returns what replaces a chunk, by the shortest key that it starts with.
func (p *precompiled) rule(chunk string) (string, bool) {
	at := unitOffset(p.units[0])
	for i := range len(chunk) {
		b := uint32(chunk[i])
		if b == 0 {
			break
		}
		at ^= b
		if int64(at) >= int64(len(p.units)) {
			break
		}
		u := p.units[at]
		if u&(1<<31|0xFF) != b {
			break
		}
		at ^= unitOffset(u)
		if u&(1<<8) != 0 {
			return p.text(at)
		}
	}
	return "", false
}

// text returns the replacement that the leaf at a place of the array leads to.
func (p *precompiled) text(leaf uint32) (string, bool) {
	if int64(leaf) >= int64(len(p.units)) {
		return "", false
	}
	start := int64(p.units[leaf] & (1<<31 - 1))
	if start > int64(len(p.texts)) || start < int64(len(p.texts)) && !utf8.RuneStart(p.texts[start]) {
		return "", false
	}
	text, _, _ := strings.Cut(p.texts[start:], "\x00")
	return text, true
}

// longestChunk is the length up to which a grapheme is tried as a whole.
const longestChunk = 5

// each calls visit for each part of the text that has a rule, and copy for what is between; it ends when
// visit says false. A grapheme is tried first, then each of its characters.
func (p *precompiled) each(text string, visit func(start, end int, text string) bool) {
	g := segmenter{classes: p.classes}
	for i := 0; i < len(text); {
		if p.isPlain(text, i) {
			g = segmenter{classes: p.classes}
			i++
			continue
		}
		end, first := g.next(text, i)
		if end-i <= longestChunk {
			if to, ok := p.rule(text[i:end]); ok {
				if !visit(i, end, to) {
					return
				}
				i = end
				continue
			}
		}
		if first == end && end-i <= longestChunk {
			i = end
			continue
		}
		for i < end {
			_, n := p.classes.at(text, i)
			if to, ok := p.rule(text[i : i+n]); ok && !visit(i, i+n, to) {
				return
			}
			i += n
		}
	}
}

// isPlain reports whether the character at i is a grapheme of one ASCII character without a rule.
func (p *precompiled) isPlain(text string, i int) bool {
	b := text[i]
	return b < utf8.RuneSelf && p.plain[b] && b != '\r' && (i+1 == len(text) || text[i+1] < utf8.RuneSelf)
}

func (p *precompiled) same(text string) bool {
	same := true
	p.each(text, func(start, end int, to string) bool {
		same = text[start:end] == to
		return same
	})
	return same
}

func (p *precompiled) append(dst []byte, text string, _ *scratch) []byte {
	copied := 0
	p.each(text, func(start, end int, to string) bool {
		dst = append(append(dst, text[copied:start]...), to...)
		copied = end
		return true
	})
	return append(dst, text[copied:]...)
}
