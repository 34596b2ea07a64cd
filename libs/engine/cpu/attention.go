package cpu

import (
	"math"

	"github.com/switchyard-llm/switchyard/libs/engine/cpu/kernel"
)

const (
	// queryTokens is how many tokens of a prompt walk over the keys together.
	queryTokens = 8
	// walkStrips is how many strips of sixteen positions they take per visit: keys
	// or values of 64 positions stay in the first-level cache.
	walkStrips = 4
)

// place rotates queries and keys and writes keys and values into their blocks.
func (e *Executor) place(s slab, layer int) {
	b, layout := &e.buffers, e.card.Layout
	scale := float32(1 / math.Sqrt(float64(layout.HeadDim)))
	for i := range s.spans {
		sp := &s.spans[i]
		e.eachRow(sp.rows, func(_ *worker, r int) {
			row := sp.first + r
			angles := b.angles.Row(row)[:b.angles.Stride]
			query, key := b.query.Row(row)[:b.query.Stride], b.key.Row(row)[:b.key.Stride]
			e.kernel.Rotate(query, angles)
			e.kernel.Rotate(key, angles)
			e.kernel.Multiply(query, scale)
			position := sp.position + r
			id := int(sp.segment.Blocks[position/layout.BlockTokens])
			e.store(id*layout.BlockBytes()/4, position%layout.BlockTokens, layer, key, b.value.Row(row))
		})
	}
}

// store writes one token's keys, transposed, and values.
func (e *Executor) store(at, slot, layer int, key, value []float32) {
	layout := e.card.Layout
	dims, stride := layout.HeadDim, layout.BlockTokens
	for h := range layout.KVHeads {
		column := e.memory[at+layout.KeysOffset(layer, h)/4+slot:]
		for d, v := range key[h*dims:][:dims] {
			column[d*stride] = v
		}
		copy(e.memory[at+layout.ValuesOffset(layer, h)/4+slot*dims:][:dims], value[h*dims:])
	}
}

// attend computes the attention of all rows into normed.
func (e *Executor) attend(s slab, layer int) {
	heads := e.card.Layout.KVHeads
	items := 0
	for i := range s.spans {
		items += queryTiles(&s.spans[i]) * heads
	}
	e.crew.run(items, func(w *worker, item int) {
		for i := range s.spans {
			n := queryTiles(&s.spans[i]) * heads
			if item < n {
				// The longest rows come first, so that the phase ends evenly.
				tile := queryTiles(&s.spans[i]) - 1 - item/heads
				e.attendTile(w, &s.spans[i], i, layer, item%heads, tile*queryTokens)
				return
			}
			item -= n
		}
	})
}

func queryTiles(s *span) int { return (s.rows + queryTokens - 1) / queryTokens }

// attendTile computes up to queryTokens tokens from the span's row first on, for
// the query heads that share one KV head.
func (e *Executor) attendTile(w *worker, sp *span, number, layer, head, first int) {
	b, layout := &e.buffers, e.card.Layout
	tokens := min(queryTokens, sp.rows-first)
	positions := sp.position + first + tokens // those of the last token
	strips := (positions + kernel.Lanes - 1) / kernel.Lanes
	group := e.model.shape.Heads / layout.KVHeads
	stride := roundUp(positions, 2*kernel.Lanes)
	w.reserve(tokens*group, stride)
	t := tile{
		executor: e, tokens: tokens, group: group, dims: layout.HeadDim,
		position: sp.position + first,
		scores:   kernel.Grid{Data: w.scores, Rows: tokens * group, Stride: stride},
		query:    headRows(b.query, sp.first+first, head*group*layout.HeadDim),
		out:      headRows(b.normed, sp.first+first, head*group*layout.HeadDim),
		keys:     kernel.Strips{Memory: e.memory[layout.KeysOffset(layer, head)/4:], Offsets: b.keys[number][:strips], Stride: layout.BlockTokens},
		values:   kernel.Strips{Memory: e.memory[layout.ValuesOffset(layer, head)/4:], Offsets: b.values[number][:strips], Stride: layout.HeadDim},
		sums:     w.sums,
	}
	t.score()
	t.softmax()
	t.mix()
}

// reserve makes room for the scores of a tile, with some to grow.
func (w *worker) reserve(rows, stride int) {
	if n := rows * stride; len(w.scores) < n {
		w.scores = make([]float32, n+n/4)
	}
	if len(w.sums) < rows {
		w.sums = make([]float32, rows)
	}
}

// headRows is a grid of tokens from a row and column on.
func headRows(g kernel.Grid, row, column int) kernel.Grid {
	return kernel.Grid{Data: g.Row(row)[column:], Rows: g.Rows - row, Stride: g.Stride}
}
