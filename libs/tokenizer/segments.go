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
	segmentBits     = 15
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

// ways is how many lines a key has, which are neighbours.
const ways = 4

// set gives the first of a key's lines, and its tag, which is not 0.
func (k segmentKey) set() (first int, tag uint32) {
	return int(k.Lo>>(64-segmentBits)) &^ (ways - 1), uint32(k.Lo) | 1
}

// sight says what is known of a segment.
type sight uint8

const (
	unseen sight = iota
	seen         // it came before, once: its tokens are worth keeping now
	known        // its tokens are kept
)

// find appends the tokens of a segment, if they are known. Of a segment that is new the tag
// alone is kept: most never come again, and a line costs more than the tokens.
func (s *segments) find(dst []sequence.Token, key segmentKey) ([]sequence.Token, sight) {
	first, tag := key.set()
	at := first + int(key.Hi%ways)
	for i := first; i < first+ways; i++ {
		switch s.tags[i].Load() {
		case tag:
			return s.read(dst, key, &s.lines[i])
		case 0:
			at = i
		}
	}
	s.tags[at].Store(tag)
	return dst, unseen
}

func (s *segments) read(dst []sequence.Token, key segmentKey, line *segmentLine) ([]sequence.Token, sight) {
	if !line.busy.CompareAndSwap(0, 1) {
		return dst, unseen
	}
	defer line.busy.Store(0)
	if segmentKey(line.hash) != key {
		return dst, seen
	}
	return append(dst, line.tokens[:line.count]...), known
}

// put keeps the tokens of a segment that was seen before.
func (s *segments) put(key segmentKey, tokens []sequence.Token) {
	first, tag := key.set()
	for i := first; i < first+ways; i++ {
		line := &s.lines[i]
		if s.tags[i].Load() != tag || len(tokens) > len(line.tokens) || !line.busy.CompareAndSwap(0, 1) {
			continue
		}
		line.hash, line.count = xxh3.Uint128(key), uint32(copy(line.tokens[:], tokens))
		line.busy.Store(0)
		return
	}
}
