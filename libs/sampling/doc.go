// Package sampling draws the next token from a row of logits, and tells how likely it was.
//
// The same request gives the same draw wherever and whenever it is computed: the random
// number is a function of (seed, choice, absolute position), not of a state; and
// the arithmetic is the same on every architecture. Weights are integers, so that no
// order of summation shows; the exponential and the logarithm are written here, out of operations that IEEE
// 754 fixes, because those of package math are assembly on some machines. Go may
// fuse x*y + z into one rounding, hence the conversions float64(x*y) + z.
//
// What penalties look at is a function of the prompt and the generated tokens, kept from draw to
// draw in a History.
//
// The package starts no goroutine; a Sampler is scratch memory.
package sampling
