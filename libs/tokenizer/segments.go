package tokenizer

import (
	"math/rand/v2"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// segments remembers the tokens of stretches of text, for all goroutines: a chat comes back
// with each turn, and most prompts begin as others do. Stretches end where the model sees a
// border in any text, so their tokens are theirs wherever they stand, and since each is cut
// from where the last ended, a text that begins like another is cut like it.
//
// A stretch is known by 128 bits of a hash with a secret of this process, which nobody can
// aim at. A line that another goroutine uses is passed by; nobody waits.
type segments struct {
	seed  uint64
	tags  []atomic.Uint32 // of each line some bits of its hash, so that few lines are looked at in vain
	lines []segmentLine
}

// segmentLine is four lines of a processor's cache.
type segmentLine struct {
	busy   atomic.Uint32 // what follows is its holder's
	count  uint32
	hash   xxh3.Uint128
	tokens [58]sequence.Token
}

const (
	segmentBits     = 14
	segmentBytes    = 128 // a segment is at least so long, but for the last of a text
	maxSegmentBytes = 256 // a longer one is not remembered
)

func newSegments() *segments {
	return &segments{seed: rand.Uint64(), tags: make([]atomic.Uint32, 1<<segmentBits), lines: make([]segmentLine, 1<<segmentBits)}
}

// segmentKey is the hash of a segment.
type segmentKey xxh3.Uint128

func (s *segments) key(text string) segmentKey {
	return segmentKey(xxh3.HashString128Seed(text, s.seed))
}

// places gives the two lines of a key, which are neighbours, and its tag, which is not 0.
func (k segmentKey) places() (first, second int, tag uint32) {
	first = int(k.Lo >> (64 - segmentBits))
	return first, first ^ 1, uint32(k.Lo) | 1
}

// find appends the tokens of a segment, if they are known.
func (s *segments) find(dst []sequence.Token, key segmentKey) ([]sequence.Token, bool) {
	first, second, tag := key.places()
	for _, at := range [2]int{first, second} {
		if s.tags[at].Load() != tag {
			continue
		}
		line := &s.lines[at]
		if !line.busy.CompareAndSwap(0, 1) {
			continue
		}
		found := segmentKey(line.hash) == key
		if found {
			dst = append(dst, line.tokens[:line.count]...)
		}
		line.busy.Store(0)
		if found {
			return dst, true
		}
	}
	return dst, false
}

// put remembers the tokens of a segment: in the line that is free, or in its first.
func (s *segments) put(key segmentKey, tokens []sequence.Token) {
	first, second, tag := key.places()
	at := first
	if s.tags[first].Load() != 0 && s.tags[second].Load() == 0 {
		at = second
	}
	line := &s.lines[at]
	if len(tokens) > len(line.tokens) || !line.busy.CompareAndSwap(0, 1) {
		return
	}
	line.hash, line.count = xxh3.Uint128(key), uint32(copy(line.tokens[:], tokens))
	s.tags[at].Store(tag)
	line.busy.Store(0)
}
