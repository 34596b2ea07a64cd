package cpu

import "github.com/switchyard-llm/switchyard/libs/engine/cpu/kernel"

// The piece of a product that a goroutine computes at once: up to tileRows
// outputs of a band of tokens.
const (
	tileRows   = 64
	tileGroups = tileRows / kernel.GroupRows
	tileTokens = 132
	// bandFloats bounds the activations of a band: they stay in a second-level
	// cache of 512 KiB while the weights pass by.
	bandFloats = 80 << 10
)

// bandTokens cuts the rows into bands of about equal size, multiples of three as
// the kernel likes them, within tileTokens.
func bandTokens(x kernel.Grid, cols int) int {
	limit := max(12, min(tileTokens-3, bandFloats/cols))
	bands := max(1, (x.Rows+limit-1)/limit)
	return max(3, roundUp((x.Rows+bands-1)/bands, 3))
}

// bands is the number of bands of a size.
func bands(x kernel.Grid, tokens int) int { return (x.Rows + tokens - 1) / tokens }

// product is one matrix by the rows of a phase and where its outputs go.
type product struct {
	matrix *kernel.Matrix
	out    kernel.Grid
	rows   [][]float32 // in place of out
	add    bool        // add to out
}

func (p *product) row(t int) []float32 {
	if p.rows != nil {
		return p.rows[t]
	}
	return p.out.Row(t)
}

// tiles is the number of pieces of tileRows of a matrix.
func tiles(m *kernel.Matrix) int { return (m.Groups() + tileGroups - 1) / tileGroups }

// linear computes products of the same x, in one phase.
func (e *Executor) linear(x kernel.Grid, products ...product) {
	band := bandTokens(x, products[0].matrix.Cols)
	items := 0
	for i := range products {
		items += bands(x, band) * tiles(products[i].matrix)
	}
	e.crew.run(items, func(w *worker, item int) {
		for i := range products {
			p := &products[i]
			n := tiles(p.matrix)
			if all := bands(x, band) * n; item >= all {
				item -= all
				continue
			}
			// Neighbouring items share their tokens, which stay in the cache.
			e.tile(w, x, p, piece{item / n * band, band, item % n})
			return
		}
	})
}

// tile computes one piece into scratch and hands its rows on.
func (e *Executor) tile(w *worker, x kernel.Grid, p *product, c piece) {
	y, first, n := e.multiply(w, w.tiles[0], x, p.matrix, c)
	for t := range y.Rows {
		to, from := p.row(c.token + t)[first:first+n], y.Row(t)[:n]
		if p.add {
			e.kernel.Add(to, from)
		} else {
			copy(to, from)
		}
	}
}

// piece is tokens from one on, by one tile of outputs.
type piece struct{ token, tokens, tile int }

// multiply computes a piece of W·x: n outputs, the first one of that number.
func (e *Executor) multiply(w *worker, scratch []float32, x kernel.Grid, m *kernel.Matrix, c piece) (y kernel.Grid, first, n int) {
	tokens := min(c.tokens, x.Rows-c.token)
	part := kernel.Part{Matrix: m, First: c.tile * tileGroups, Groups: min(tileGroups, m.Groups()-c.tile*tileGroups)}
	y = kernel.Grid{Data: scratch, Rows: tokens, Stride: tileRows}
	e.kernel.Linear(y, kernel.Grid{Data: x.Row(c.token), Rows: tokens, Stride: x.Stride}, part, w.weights)
	return y, c.tile * tileRows, min(tileRows, m.Rows-c.tile*tileRows)
}

// gated computes out = SiLU(gate·x) · (up·x).
func (e *Executor) gated(x, out kernel.Grid, gate, up *kernel.Matrix) {
	band, n := bandTokens(x, gate.Cols), tiles(gate)
	e.crew.run(bands(x, band)*n, func(w *worker, item int) {
		c := piece{item / n * band, band, item % n}
		g, first, n := e.multiply(w, w.tiles[0], x, gate, c)
		u, _, _ := e.multiply(w, w.tiles[1], x, up, c)
		for t := range g.Rows {
			row := g.Row(t)[:n]
			e.kernel.Gate(row, u.Row(t)[:n])
			copy(out.Row(c.token + t)[first:], row)
		}
	})
}
