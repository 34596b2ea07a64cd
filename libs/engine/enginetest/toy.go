// Package enginetest holds what tests of engines, and of whatever drives one, share.
package enginetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/engine"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// ToyVocab is the size of the toy's vocabulary.
const ToyVocab = 251

// toyLayers is how often the toy keeps each row.
const toyLayers = 2

// Toy is an executor that keeps tokens and positions where a model keeps keys and values,
// and draws the next token from a hash of all that it finds there. A row that is missing,
// stale or in the wrong block is an error or changes every later token.
type Toy struct {
	card engine.Card
	mem  block.Memory

	// Spread gives every token a logit of its own, of which the next one's is still the highest, so
	// that what is asked of a draw beside the likeliest token shows. Set it before the first step.
	Spread bool
	// BeforeStep, unless nil, is called with each batch; its error is the step's.
	BeforeStep func(ctx context.Context, b *engine.Batch) error
}

// NewToy makes a toy with blocks of the given size.
func NewToy(blockTokens, contextTokens int) *Toy {
	return &Toy{card: engine.Card{
		Model: "toy", VocabTokens: ToyVocab, ContextTokens: contextTokens,
		Layout:   block.Layout{BlockTokens: blockTokens, Layers: toyLayers, KVHeads: 1, HeadDim: 1, ElemBytes: 4, KeysTransposed: true},
		KVFormat: "toy", NumericsID: "toy", Exact: true,
	}}
}

// Card implements engine.Executor.
func (t *Toy) Card() engine.Card { return t.card }

// Bind implements engine.Executor.
func (t *Toy) Bind(m block.Memory) error {
	t.mem = m
	return nil
}

// Step implements engine.Executor.
func (t *Toy) Step(ctx context.Context, b *engine.Batch) error {
	if t.BeforeStep != nil {
		if err := t.BeforeStep(ctx, b); err != nil {
			return err
		}
	}
	for i := range b.Segments {
		s := &b.Segments[i]
		for layer := range toyLayers {
			for j, token := range s.Tokens {
				key, value := t.row(s.Blocks, layer, s.Start+j)
				binary.LittleEndian.PutUint32(key, token)
				binary.LittleEndian.PutUint32(value, uint32(s.Start+j))
			}
			if s.Placed != nil {
				s.Placed(layer, s.Start, s.Start+len(s.Tokens))
			}
		}
		if s.Logits == nil {
			continue
		}
		sum, err := t.hash(s.Blocks, s.Start+len(s.Tokens))
		if err != nil {
			return err
		}
		toyLogits(s.Logits, sum, t.Spread)
	}
	return nil
}

// toyLogits makes the logits of a hash: 1 for the next token and 0 for others or, spread, 4 for
// it and less for others, down to −4.
func toyLogits(logits []float32, sum uint64, spread bool) {
	clear(logits)
	if !spread {
		logits[sum%ToyVocab] = 1
		return
	}
	for i := range logits {
		x := (sum ^ uint64(i)) * 0x9e3779b97f4a7c15
		logits[i] = float32((x^x>>29)*0xbf58476d1ce4e5b9>>40)/(1<<21) - 4
	}
	logits[sum%ToyVocab] = 4
}

// toyLogitsAfter are the logits that a toy with Spread gives after these tokens.
func toyLogitsAfter(tokens []sequence.Token) []float32 {
	h, out := fnv.New64a(), make([]float32, ToyVocab)
	for _, t := range tokens {
		h.Write(binary.LittleEndian.AppendUint32(nil, t))
	}
	toyLogits(out, h.Sum64(), true)
	return out
}

// hash reads n rows back and makes a hash of them.
func (t *Toy) hash(blocks []block.ID, n int) (uint64, error) {
	h := fnv.New64a()
	for p := range n {
		first, _ := t.row(blocks, 0, p)
		for layer := range toyLayers {
			key, value := t.row(blocks, layer, p)
			if got := binary.LittleEndian.Uint32(value); got != uint32(p) {
				return 0, fmt.Errorf("toy: position %d of layer %d holds the row of %d", p, layer, got)
			}
			if !bytes.Equal(key, first) {
				return 0, fmt.Errorf("toy: position %d differs from layer to layer", p)
			}
		}
		h.Write(first)
	}
	return h.Sum64(), nil
}

func (t *Toy) row(blocks []block.ID, layer, position int) (key, value []byte) {
	size := t.card.Layout.BlockTokens
	base := t.card.Layout.LayerSpan(blocks[position/size], layer).Offset + position%size*4
	return t.mem.Bytes()[base:][:4], t.mem.Bytes()[base+size*4:][:4]
}

// ToyAnswer is what a toy generates after a prompt, without any blocks: up to max tokens,
// ending with the first of stops.
func ToyAnswer(prompt []sequence.Token, max int, stops ...sequence.Token) []sequence.Token {
	h := fnv.New64a()
	var buf [4]byte
	feed := func(t sequence.Token) {
		binary.LittleEndian.PutUint32(buf[:], t)
		h.Write(buf[:])
	}
	for _, t := range prompt {
		feed(t)
	}
	var out []sequence.Token
	for len(out) < max {
		next := sequence.Token(h.Sum64() % ToyVocab)
		out = append(out, next)
		for _, s := range stops {
			if next == s {
				return out
			}
		}
		feed(next)
	}
	return out
}

var _ engine.Executor = (*Toy)(nil)
