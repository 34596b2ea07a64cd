package corpus

import "math/bits"

// Random is a generator of random numbers, SplitMix64, that stays as it is.
type Random struct{ state uint64 }

// NewRandom gives a generator; different seeds make different sequences.
func NewRandom(seed uint64) *Random { return &Random{seed * 0xd1342543de82ef95} }

// Uint64 is the next number.
func (r *Random) Uint64() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Below is a number from 0 to n-1.
func (r *Random) Below(n int) int {
	hi, _ := bits.Mul64(r.Uint64(), uint64(n))
	return int(hi)
}

// Pick is one of a list.
func Pick[T any](r *Random, of []T) T { return of[r.Below(len(of))] }
