package bpe

import (
	"encoding/binary"
	"math/bits"
	"unsafe"

	"github.com/zeebo/xxh3"
)

// cache remembers the tokens of short pieces. A piece has two sets of two places.
type cache [1 << cacheBits][2]cacheLine

// cacheLine is half a line of a processor's cache. The key is the piece's bytes, filled up
// with zeros, and its length in the last byte; 0 is no piece. The first number of tokens is
// their count in its upper bits, and three tokens; the second is three more.
type cacheLine struct {
	low, high uint64
	tokens    [2]uint64
}

const (
	cacheBits = 15 // sets
	// keyBytes is the longest piece that is a key.
	keyBytes = 15
	// lineTokens is how many tokens of a piece are remembered at most.
	lineTokens = 6
	tokenMask  = 1<<tokenBits - 1
)

// find returns the line of a key, or nil. h is the key's mix.
func (c *cache) find(low, high, h uint64) *cacheLine {
	if line := c.first(low, high, h); line.low == low && line.high == high {
		return line
	}
	return c.findOther(low, high, h)
}

// first returns the line of a key's first set that is the key's, if one is: without a branch,
// since which of them it is cannot be foreseen.
func (c *cache) first(low, high, h uint64) *cacheLine {
	set, way := &c[h>>(64-cacheBits)], 0
	if set[1].low == low && set[1].high == high {
		way = 1
	}
	return &set[way&1]
}

func (c *cache) findOther(low, high, h uint64) *cacheLine {
	set := &c[other(h)]
	for i := range set {
		if set[i].low == low && set[i].high == high {
			return &set[i]
		}
	}
	return nil
}

// other is the second set of a key.
func other(h uint64) uint64 { return h & (1<<cacheBits - 1) }

// put remembers a piece: in a place that is free, or that of the older of its first set.
func (c *cache) put(low, high, h uint64, tokens []uint32) {
	if len(tokens) > lineTokens {
		return
	}
	line := cacheLine{low: low, high: high, tokens: [2]uint64{uint64(len(tokens)) << (3 * tokenBits)}}
	for i, t := range tokens {
		line.tokens[i/3] |= uint64(t) << (i % 3 * tokenBits)
	}
	first, second := &c[h>>(64-cacheBits)], &c[other(h)]
	for _, place := range []*cacheLine{&first[0], &first[1], &second[0], &second[1]} {
		if place.high == 0 {
			*place = line
			return
		}
	}
	first[0], first[1] = line, first[0]
}

// append appends the tokens of a line.
func (l *cacheLine) append(dst []uint32) []uint32 {
	for i := range l.count() {
		dst = append(dst, uint32(l.tokens[i/3]>>(i%3*tokenBits))&tokenMask)
	}
	return dst
}

func (l *cacheLine) count() int { return int(l.tokens[0] >> (3 * tokenBits)) }

// unpack writes as many tokens as a line may have, whatever their count: no branch.
func (l *cacheLine) unpack(out *[lineTokens]uint32) {
	a, b := l.tokens[0], l.tokens[1]
	out[0], out[1], out[2] = uint32(a)&tokenMask, uint32(a>>tokenBits)&tokenMask, uint32(a>>(2*tokenBits))&tokenMask
	out[3], out[4], out[5] = uint32(b)&tokenMask, uint32(b>>tokenBits)&tokenMask, uint32(b>>(2*tokenBits))&tokenMask
}

// key is the key of a piece of at most keyBytes bytes.
func key(piece string) (low, high uint64) {
	b := unsafe.Slice(unsafe.StringData(piece), len(piece))
	n := len(b)
	switch {
	case n >= 8:
		low = binary.LittleEndian.Uint64(b)
		high = binary.LittleEndian.Uint64(b[n-8:]) >> (8 * (16 - n)) // n is below 16
	case n >= 4:
		low = uint64(binary.LittleEndian.Uint32(b)) | uint64(binary.LittleEndian.Uint32(b[n-4:]))<<(8*(n-4))
	default:
		low = uint64(b[0]) | uint64(b[n/2])<<(8*(n/2)) | uint64(b[n-1])<<(8*(n-1))
	}
	return low, high | uint64(n)<<56
}

// wideKey is key for a piece with 16 bytes of text from its start on.
func wideKey(text string, at, n int) (low, high uint64) {
	b := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(unsafe.StringData(text)), at)), 16)
	lowShift, highShift := uint(64-8*min(n, 8)), uint(64-8*max(n-8, 0))
	return binary.LittleEndian.Uint64(b) << lowShift >> lowShift, binary.LittleEndian.Uint64(b[8:])<<highShift>>highShift | uint64(n)<<56
}

func mix(low, high uint64) uint64 {
	h, l := bits.Mul64(low^0x9e3779b97f4a7c15, high^0xc2b2ae3d27d4eb4f)
	return (h ^ l) * 0x165667b19e3779f9
}

// longCache is cache for longer pieces. A piece has two places.
type longCache [1 << longCacheBits]longLine

// longLine is two lines of a processor's cache.
type longLine struct {
	hash   uint64
	bytes  uint8
	count  uint8
	text   [54]byte
	tokens [16]uint32
}

const (
	longCacheBits = 14
	longBytes     = len(longLine{}.text)
)

func (c *longCache) find(piece string, h uint64) *longLine {
	for _, at := range [2]uint64{h >> (64 - longCacheBits), h & (1<<longCacheBits - 1)} {
		if line := &c[at]; line.hash == h && string(line.text[:line.bytes]) == piece {
			return line
		}
	}
	return nil
}

func (c *longCache) put(piece string, h uint64, tokens []uint32) {
	line := &c[h>>(64-longCacheBits)]
	if len(tokens) > len(line.tokens) {
		return
	}
	if second := &c[h&(1<<longCacheBits-1)]; line.count > 0 && second.count == 0 {
		line = second
	}
	line.hash, line.bytes, line.count = h, uint8(copy(line.text[:], piece)), uint8(copy(line.tokens[:], tokens))
}

// hashLong is not 0.
func hashLong(piece string) uint64 { return max(xxh3.HashString(piece), 1) }
