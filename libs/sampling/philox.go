package sampling

import "math/bits"

// The constants of Philox 4x32-10: J. K. Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3", SC 2011.
const (
	philoxRounds = 10
	philoxMul0   = 0xD2511F53
	philoxMul1   = 0xCD9E8D57
	philoxWeyl0  = 0x9E3779B9
	philoxWeyl1  = 0xBB67AE85
)

// philox is the bijection of a counter that the key selects.
func philox(counter [4]uint32, key [2]uint32) [4]uint32 {
	for range philoxRounds {
		hi0, lo0 := bits.Mul32(philoxMul0, counter[0])
		hi1, lo1 := bits.Mul32(philoxMul1, counter[2])
		counter = [4]uint32{hi1 ^ counter[1] ^ key[0], lo1, hi0 ^ counter[3] ^ key[1], lo0}
		key[0] += philoxWeyl0
		key[1] += philoxWeyl1
	}
	return counter
}

// random is the number that belongs to a place in a generation: the key is the seed,
// the counter is position and choice. The last word of the counter is free for
// further numbers at the same place.
func random(seed uint64, choice, position int) uint64 {
	at := uint64(position)
	out := philox(
		[4]uint32{uint32(at), uint32(at >> 32), uint32(choice), 0},
		[2]uint32{uint32(seed), uint32(seed >> 32)},
	)
	return uint64(out[1])<<32 | uint64(out[0])
}
