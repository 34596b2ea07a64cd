package cpu

import (
	"bytes"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/engine"
	"github.com/switchyard-llm/switchyard/libs/engine/cpu/cputest"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// TestPlacedRowsStayAsTheyAre copies each layer's rows when they are told of, and
// compares at the end.
func TestPlacedRowsStayAsTheyAre(t *testing.T) {
	e, err := tiny(t, cputest.Tiny()).Executor(Options{Model: "test"})
	if err != nil {
		t.Fatal(err)
	}
	layout := e.card.Layout
	bound := poisoned(layout, 64)
	if err := e.Bind(bound); err != nil {
		t.Fatal(err)
	}
	memory := bound.bytes
	const n = 16 * 31 // more than one slab
	blocks := table(n, 0)
	reached := make([]int, layout.Layers)
	early := make([][]byte, layout.Layers)
	s := engine.Segment{Tokens: make([]sequence.Token, n), Blocks: blocks, Logits: make([]float32, e.card.VocabTokens)}
	for i := range s.Tokens {
		s.Tokens[i] = sequence.Token(i * 7 % e.card.VocabTokens)
	}
	s.Placed = func(layer, from, to int) {
		if from != reached[layer] || to <= from || layer > 0 && to > reached[layer-1] {
			t.Errorf("layer %d was told of [%d, %d) after %d", layer, from, to, reached[layer])
		}
		for p := from; p < to; p += layout.BlockTokens {
			early[layer] = append(early[layer], layerOf(memory, layout, blocks[p/layout.BlockTokens], layer)...)
		}
		reached[layer] = to
	}
	step(t, e, s)
	for layer, to := range reached {
		if to != n {
			t.Errorf("layer %d was told of up to %d, want %d", layer, to, n)
		}
		var late []byte
		for _, b := range blocks {
			late = append(late, layerOf(memory, layout, b, layer)...)
		}
		if !bytes.Equal(early[layer], late) {
			t.Errorf("rows of layer %d changed after they were told of", layer)
		}
	}
}

func layerOf(memory []byte, layout block.Layout, b block.ID, layer int) []byte {
	s := layout.LayerSpan(b, layer)
	return memory[s.Offset:][:s.Bytes]
}
