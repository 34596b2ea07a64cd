package cpu

import (
	"math"

	"github.com/switchyard-llm/switchyard/libs/engine/cpu/kernel"
)

// tile is the attention of a few successive tokens over one KV head. Its scores
// have a row for each token and query head; token t sees position+t+1 positions.
type tile struct {
	executor   *Executor
	tokens     int
	group      int // query heads of the KV head
	dims       int
	position   int // of the first token
	scores     kernel.Grid
	query, out kernel.Grid // by token; heads follow each other
	keys       kernel.Strips
	values     kernel.Strips
	sums       []float32
}

func (t *tile) seen(token int) int { return t.position + token + 1 }

// heads is the rows of one token's heads.
func (t *tile) heads(g kernel.Grid, token int) kernel.Grid {
	return kernel.Grid{Data: g.Row(token), Rows: t.group, Stride: t.dims}
}

func (t *tile) scoresOf(token, position int) kernel.Grid {
	return kernel.Grid{Data: t.scores.Row(token * t.group)[position:], Rows: t.group, Stride: t.scores.Stride}
}

// walk is how many strips are visited at once: all of them by a lone token, which
// has nobody to share the cache with.
func (t *tile) walk() int {
	if t.tokens == 1 {
		return len(t.keys.Offsets)
	}
	return walkStrips
}

// score multiplies queries by keys. Scores behind a token's own position are
// whatever its block holds there; softmax overwrites them.
func (t *tile) score() {
	walk := t.walk()
	for from := 0; from < len(t.keys.Offsets); from += walk {
		for token := range t.tokens {
			strips := (t.seen(token) + kernel.Lanes - 1) / kernel.Lanes
			if from >= strips {
				continue
			}
			keys := t.keys
			keys.Offsets = keys.Offsets[from:min(from+walk, strips)]
			t.executor.kernel.Scores(t.scoresOf(token, from*kernel.Lanes), t.heads(t.query, token), keys, t.dims)
		}
	}
}

func (t *tile) softmax() {
	for row := range t.tokens * t.group {
		seen := t.seen(row / t.group)
		padded := t.scores.Row(row)[:roundUp(seen, kernel.Lanes)]
		for i := seen; i < len(padded); i++ {
			padded[i] = float32(math.Inf(-1))
		}
		t.sums[row] = t.executor.kernel.Softmax(padded)
	}
}

// mix weights the values, never touching one behind a token's own position: it
// may hold anything, and 0 · NaN is NaN.
func (t *tile) mix() {
	walk := t.walk() * kernel.Lanes
	for token := range t.tokens {
		clear(t.out.Row(token)[:t.group*t.dims])
	}
	for from := 0; from < t.seen(t.tokens-1); from += walk {
		values := t.values
		values.Offsets = values.Offsets[from/kernel.Lanes:]
		for token := range t.tokens {
			if n := min(walk, t.seen(token)-from); n > 0 {
				t.executor.kernel.Mix(t.heads(t.out, token), t.scoresOf(token, from), values, n, t.dims)
			}
		}
	}
	for row := range t.tokens * t.group {
		out := t.heads(t.out, row/t.group).Row(row % t.group)
		t.executor.kernel.Multiply(out[:t.dims], 1/t.sums[row])
	}
}
