package prefix

import (
	"math/bits"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// XXH3-64 of a parent and 16 or 32 tokens, by the specification of xxHash for inputs of 65–96 and 129–240 bytes. In
// a chain each hash waits for its parent; here everything but the parent's own part is computed while it does, and
// nothing is copied. The other sizes take the general way.

// Words of XXH3's default secret, by their offset in bytes.
const (
	secret0   = 0xbe4ba423396cfeb8
	secret8   = 0x1cad21f72c81017c
	secret16  = 0xdb979083e96dd4de
	secret24  = 0x1f67b3b7a4a44072
	secret32  = 0x78e5c0cc4ee679cb
	secret40  = 0x2172ffcc7dd05a82
	secret48  = 0x8e2443f7744608b8
	secret56  = 0x4c263a81e69035e0
	secret64  = 0xcb00c391bb52283c
	secret72  = 0xa32e531b8b65d088
	secret80  = 0x4ef90da297486471
	secret88  = 0xd8acdea946ef1938
	secret96  = 0x3f349ce33f76faa8
	secret104 = 0x1d4f0bc7c7bbdcf9
	secret112 = 0x3159b4cd4be0518a
	secret119 = 0x7378d9c97e9fc831
	secret120 = 0x647378d9c97e9fc8
	secret127 = 0xebd33483acc5ea64

	primeAvalanche = 0x165667919e3779f9
	// The length in bytes times the first prime of 64 bits, 0x9e3779b185ebca87.
	start72  = uint64(0x7f9a39edaa50f5f8)
	start136 = uint64(0xd78a64f254397b8)
)

func next16(parent block.Hash, t *[16]sequence.Token) block.Hash {
	last, beforeLast := pair(t[14], t[15]), pair(t[12], t[13])
	sum := start72
	sum += fold(pair(t[6], t[7])^secret64, pair(t[8], t[9])^secret72)
	sum += fold(pair(t[4], t[5])^secret80, pair(t[6], t[7])^secret88)
	sum += fold(pair(t[2], t[3])^secret32, pair(t[4], t[5])^secret40)
	sum += fold(pair(t[8], t[9])^secret48, pair(t[10], t[11])^secret56)
	sum += fold(beforeLast^secret16, last^secret24)
	return block.Hash(avalanche(sum + fold(uint64(parent)^secret0, pair(t[0], t[1])^secret8)))
}

func next32(parent block.Hash, t *[32]sequence.Token) block.Hash {
	sum := start136
	sum += fold(pair(t[2], t[3])^secret16, pair(t[4], t[5])^secret24)
	sum += fold(pair(t[6], t[7])^secret32, pair(t[8], t[9])^secret40)
	sum += fold(pair(t[10], t[11])^secret48, pair(t[12], t[13])^secret56)
	sum += fold(pair(t[14], t[15])^secret64, pair(t[16], t[17])^secret72)
	sum += fold(pair(t[18], t[19])^secret80, pair(t[20], t[21])^secret88)
	sum += fold(pair(t[22], t[23])^secret96, pair(t[24], t[25])^secret104)
	sum += fold(pair(t[26], t[27])^secret112, pair(t[28], t[29])^secret120)
	last := fold(pair(t[28], t[29])^secret119, pair(t[30], t[31])^secret127)
	return block.Hash(avalanche(last + avalanche(sum+fold(uint64(parent)^secret0, pair(t[0], t[1])^secret8))))
}

// pair is two tokens as they lie in memory that is little-endian.
func pair(low, high sequence.Token) uint64 { return uint64(low) | uint64(high)<<32 }

func fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

func avalanche(h uint64) uint64 {
	h ^= h >> 37
	h *= primeAvalanche
	return h ^ h>>32
}
