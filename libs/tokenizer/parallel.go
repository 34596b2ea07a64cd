package tokenizer

import (
	"runtime"
	"sync"

	"github.com/switchyard-llm/switchyard/libs/sequence"
)

const (
	// parallelBytes is from where a text is cut for more cores: shorter ones are done before
	// another goroutine has begun.
	parallelBytes = 64 << 10
	// partBytes is the least that a core is given.
	partBytes = 32 << 10
	// searchBytes is how far a place to cut at is looked for.
	searchBytes = 64 << 10
)

// parallel encodes a long text in parts, cut where the model sees a border anyway.
func (t *Tokenizer) parallel(dst []sequence.Token, text string, s *scratch) []sequence.Token {
	parts := t.parts(text, min(runtime.GOMAXPROCS(0), len(text)/partBytes))
	others := make([]*scratch, len(parts))
	var wg sync.WaitGroup
	for i, part := range parts[1:] {
		other := t.scratch.Get().(*scratch)
		others[i] = other
		wg.Go(func() { other.tokens = t.part(other.tokens[:0], part, other) })
	}
	dst = t.part(dst, parts[0], s)
	wg.Wait()
	for _, other := range others[:len(parts)-1] {
		dst = append(dst, other.tokens...)
		t.scratch.Put(other)
	}
	return dst
}

// parts cuts a text into at most n parts of about the same length.
func (t *Tokenizer) parts(text string, n int) (out []string) {
	for ; n > 1; n-- {
		near := len(text) / n
		at := t.border(text[:min(near+searchBytes, len(text))], near)
		if at < 0 {
			break
		}
		out, text = append(out, text[:at]), text[at:]
	}
	return append(out, text)
}

// cuts reports whether there are places where texts may be cut.
func (t *Tokenizer) cuts() bool {
	return t.bpe != nil && (t.pieces.Cuts() || !t.pieces.Splits() && t.bpe.Cuts())
}

// border returns the first place from a byte on where a text may be cut, or -1.
func (t *Tokenizer) border(text string, from int) int {
	if t.pieces.Splits() {
		return t.pieces.Border(text, from)
	}
	if t.bpe != nil {
		return t.bpe.Border(text, from)
	}
	return -1
}
