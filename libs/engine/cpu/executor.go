package cpu

import (
	"context"
	"fmt"
	"runtime"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/engine"
	"github.com/switchyard-llm/switchyard/libs/engine/cpu/kernel"
)

// Options say how an executor uses its model.
type Options struct {
	// Model is the name on the card; it is required.
	Model string
	// BlockTokens is the size of a block of KV: 16 to 128, a multiple of 16; 0 for 16.
	BlockTokens int
	// ContextTokens caps the length of a sequence; 0 for what the model was trained for.
	ContextTokens int
	// Threads is how many goroutines a step uses, its caller included; 0 for
	// GOMAXPROCS, at most the number of cores. It does not change any result.
	Threads int
	// Kernel is the arithmetic; the zero value for the fastest of this machine. It
	// does not change any result.
	Kernel kernel.Set
}

const (
	minBlockTokens = 16
	maxBlockTokens = 128
)

// MaxThreads is the most threads of one step.
const MaxThreads = 256

// Executor is a forward pass over the model's weights and one block memory. It
// is used by one goroutine at a time; only Card may be called at any time.
type Executor struct {
	model    *Model
	kernel   kernel.Set
	card     engine.Card
	rotation rotation
	memory   []float32 // nil until Bind
	blocks   int
	crew     crew
	buffers  buffers
}

var _ engine.Executor = (*Executor)(nil)

// Executor makes an executor that shares the model's weights. It holds nothing
// that has to be closed.
func (m *Model) Executor(o Options) (*Executor, error) {
	if err := o.complete(m.shape); err != nil {
		return nil, fmt.Errorf("cpu engine: %w", err)
	}
	s := m.shape
	e := &Executor{
		model:    m,
		kernel:   o.Kernel,
		rotation: newRotation(s, m.weights.frequencyFactors),
		card: engine.Card{
			Model:         o.Model,
			VocabTokens:   s.VocabTokens,
			ContextTokens: o.ContextTokens,
			Layout: block.Layout{
				BlockTokens: o.BlockTokens, Layers: s.Layers, KVHeads: s.KVHeads,
				HeadDim: s.HeadDim, ElemBytes: 4, KeysTransposed: true,
			},
			KVFormat:   m.kvFormat(),
			NumericsID: numericsID,
			Exact:      true,
		},
	}
	for range o.Threads {
		e.crew.workers = append(e.crew.workers, newWorker(s))
	}
	return e, nil
}

// complete fills in the defaults and names the first field that cannot be.
func (o *Options) complete(s Shape) error {
	if o.BlockTokens == 0 {
		o.BlockTokens = minBlockTokens
	}
	if o.ContextTokens == 0 {
		o.ContextTokens = s.ContextTokens
	}
	if o.Threads == 0 {
		o.Threads = min(runtime.GOMAXPROCS(0), runtime.NumCPU(), MaxThreads)
	}
	if !o.Kernel.Valid() {
		o.Kernel = kernel.Best()
	}
	switch {
	case o.Model == "":
		return fmt.Errorf("option Model is empty, want the name under which the model is served")
	case o.BlockTokens < minBlockTokens || o.BlockTokens > maxBlockTokens || o.BlockTokens%kernel.Lanes != 0:
		return fmt.Errorf("option BlockTokens is %d, want %d to %d, a multiple of %d", o.BlockTokens, minBlockTokens, maxBlockTokens, kernel.Lanes)
	case o.ContextTokens < 1 || o.ContextTokens > s.ContextTokens:
		return fmt.Errorf("option ContextTokens is %d, want 1 to the model's %d", o.ContextTokens, s.ContextTokens)
	case o.Threads < 1 || o.Threads > MaxThreads:
		return fmt.Errorf("option Threads is %d, want 1 to %d", o.Threads, MaxThreads)
	}
	return nil
}

// Card is constant.
func (e *Executor) Card() engine.Card { return e.card }

// Bind gives the memory for keys and values. It must be reachable by the CPU and
// have the card's layout.
func (e *Executor) Bind(m block.Memory) error {
	layout, bytes := m.Layout(), m.Bytes()
	switch {
	case e.memory != nil:
		return fmt.Errorf("bind block memory: one is bound already")
	case layout != e.card.Layout:
		return fmt.Errorf("bind block memory: layout is %+v, want %+v", layout, e.card.Layout)
	case bytes == nil:
		return fmt.Errorf("bind block memory: the CPU cannot reach it")
	case m.Blocks() < 1 || len(bytes)/layout.BlockBytes() < m.Blocks():
		return fmt.Errorf("bind block memory: %d bytes do not hold its %d blocks of %d", len(bytes), m.Blocks(), layout.BlockBytes())
	case address(bytes)%4 != 0:
		return fmt.Errorf("bind block memory: its address is no multiple of 4")
	}
	e.memory, e.blocks = asFloats(bytes), m.Blocks()
	return nil
}

// Step computes a batch. It looks at ctx before every layer of every slab of
// rows, and returns the context's error; nothing of the batch may be used then.
func (e *Executor) Step(ctx context.Context, b *engine.Batch) error {
	if e.memory == nil {
		return fmt.Errorf("cpu engine: step before Bind")
	}
	for i := range b.Segments {
		if err := e.check(&b.Segments[i]); err != nil {
			return fmt.Errorf("cpu engine: segment %d: %w", i, err)
		}
	}
	e.crew.open()
	defer e.crew.close()
	for s := range slabs(b, slabRows) {
		if err := e.forward(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// check names the first field of a segment that would make the step read or
// write where it may not.
func (e *Executor) check(s *engine.Segment) error {
	end := s.Start + len(s.Tokens)
	switch {
	case len(s.Tokens) == 0:
		return fmt.Errorf("no tokens, want at least one")
	case s.Start < 0 || end > e.card.ContextTokens:
		return fmt.Errorf("positions %d to %d, want them within the context of %d", s.Start, end-1, e.card.ContextTokens)
	case len(s.Blocks) < e.card.Layout.Blocks(end):
		return fmt.Errorf("%d blocks of %d tokens do not cover %d positions", len(s.Blocks), e.card.Layout.BlockTokens, end)
	case s.Logits != nil && len(s.Logits) != e.card.VocabTokens:
		return fmt.Errorf("%d logits, want %d", len(s.Logits), e.card.VocabTokens)
	}
	for i, t := range s.Tokens {
		if int64(t) >= int64(e.card.VocabTokens) {
			return fmt.Errorf("token %d is %d, want below %d", i, t, e.card.VocabTokens)
		}
	}
	for i, b := range s.Blocks[:e.card.Layout.Blocks(end)] {
		if b < 0 || int(b) >= e.blocks {
			return fmt.Errorf("block %d is number %d, want 0 to %d", i, b, e.blocks-1)
		}
	}
	return nil
}
