package cpu

import (
	"context"

	"github.com/switchyard-llm/switchyard/libs/engine/cpu/kernel"
)

// buffers hold the activations of a slab; they grow to the largest one seen.
type buffers struct {
	stream kernel.Grid // the residual stream
	normed kernel.Grid // what a matrix reads: normalized rows, or mixed heads
	query  kernel.Grid
	key    kernel.Grid
	value  kernel.Grid
	hidden kernel.Grid
	angles kernel.Grid // rotation tables
	// offsets of the strips of every span, in floats from the layer's first key or value.
	keys, values [][]int
}

// worker is the scratch of one goroutine of a step.
type worker struct {
	weights []float32 // of kernel.ScratchFloats
	tiles   [2][]float32
	scores  []float32
	sums    []float32
}

func newWorker(s Shape) *worker {
	w := &worker{weights: make([]float32, kernel.ScratchFloats(max(s.Width, s.Hidden, s.Heads*s.HeadDim), tileTokens))}
	for i := range w.tiles {
		w.tiles[i] = make([]float32, tileRows*tileTokens)
	}
	return w
}

func (b *buffers) resize(rows int, s Shape) {
	heads := s.Heads * s.HeadDim
	for _, g := range []struct {
		grid   *kernel.Grid
		stride int
	}{
		{&b.stream, s.Width}, {&b.normed, max(s.Width, heads)}, {&b.query, heads}, {&b.key, s.KVHeads * s.HeadDim},
		{&b.value, s.KVHeads * s.HeadDim}, {&b.hidden, s.Hidden}, {&b.angles, 2 * s.HeadDim},
	} {
		if n := rows * g.stride; cap(g.grid.Data) < n {
			g.grid.Data = make([]float32, n)
		} else {
			g.grid.Data = g.grid.Data[:n]
		}
		g.grid.Rows, g.grid.Stride = rows, g.stride
	}
}

// forward computes one slab.
func (e *Executor) forward(ctx context.Context, s slab) error {
	b, shape := &e.buffers, e.model.shape
	b.resize(s.rows, shape)
	e.begin(s)
	for i := range e.model.weights.layers {
		if err := ctx.Err(); err != nil {
			return err
		}
		y := &e.model.weights.layers[i]
		e.normalize(s.rows, y.attentionNorm)
		e.linear(b.normed, product{matrix: y.query, out: b.query}, product{matrix: y.key, out: b.key}, product{matrix: y.value, out: b.value})
		e.place(s, i)
		s.placed(i)
		e.attend(s, i)
		e.linear(b.normed, product{matrix: y.mixed, out: b.stream, add: true})
		e.normalize(s.rows, y.feedNorm)
		e.gated(b.normed, b.hidden, y.gate, y.up)
		e.linear(b.hidden, product{matrix: y.down, out: b.stream, add: true})
	}
	e.logits(s)
	return nil
}

// rowItem is how many rows a goroutine takes at once in a phase of light work.
const rowItem = 16

func (e *Executor) eachRow(rows int, do func(w *worker, row int)) {
	e.crew.run((rows+rowItem-1)/rowItem, func(w *worker, item int) {
		for row := item * rowItem; row < min(rows, (item+1)*rowItem); row++ {
			do(w, row)
		}
	})
}

// begin looks up the embeddings, the angles and the places of the blocks.
func (e *Executor) begin(s slab) {
	b, layout := &e.buffers, e.card.Layout
	width, blockFloats := e.model.shape.Width, layout.BlockBytes()/4
	b.keys, b.values = b.keys[:0], b.values[:0]
	for i := range s.spans {
		sp := &s.spans[i]
		strips := (sp.position + sp.rows + kernel.Lanes - 1) / kernel.Lanes
		keys, values := make([]int, strips), make([]int, strips)
		for j := range strips {
			id, column := int(sp.segment.Blocks[j*kernel.Lanes/layout.BlockTokens]), j*kernel.Lanes%layout.BlockTokens
			keys[j] = id*blockFloats + column
			values[j] = id*blockFloats + column*layout.HeadDim
		}
		b.keys, b.values = append(b.keys, keys), append(b.values, values)
		e.eachRow(sp.rows, func(w *worker, r int) {
			token := int(sp.segment.Tokens[sp.offset+r])
			e.kernel.Lookup(b.stream.Row(sp.first + r)[:width], e.model.weights.embedding, token, w.weights)
			e.rotation.table(b.angles.Row(sp.first + r)[:b.angles.Stride], sp.position+r)
		})
	}
}

func (e *Executor) normalize(rows int, weight []float32) {
	b, width := &e.buffers, e.model.shape.Width
	e.eachRow(rows, func(_ *worker, r int) {
		e.kernel.Normalize(b.normed.Row(r), b.stream.Row(r)[:width], weight, e.model.shape.NormEpsilon)
	})
}

// logits computes the rows that are wanted, all at once.
func (e *Executor) logits(s slab) {
	b, width := &e.buffers, e.model.shape.Width
	var wanted [][]float32
	for i := range s.spans {
		sp := &s.spans[i]
		if sp.segment.Logits == nil || !sp.last() {
			continue
		}
		row := b.stream.Row(sp.first + sp.rows - 1)[:width]
		e.kernel.Normalize(b.normed.Row(len(wanted)), row, e.model.weights.norm, e.model.shape.NormEpsilon)
		wanted = append(wanted, sp.segment.Logits)
	}
	x := kernel.Grid{Data: b.normed.Data, Rows: len(wanted), Stride: b.normed.Stride}
	e.linear(x, product{matrix: e.model.weights.output, rows: wanted})
}
