package block_test

import (
	"testing"

	"github.com/switchyard-llm/switchyard/libs/block"
)

// 256 blocks of Llama 3 8B, which a prompt of 16,384 tokens fills.
func BenchmarkMap256Blocks(b *testing.B) {
	llama := block.Layout{BlockTokens: 64, Layers: 32, KVHeads: 8, HeadDim: 128, ElemBytes: 2}
	for _, c := range []struct {
		name          string
		local, remote func(*block.Layout)
		shuffled      bool
	}{
		{"equal", func(*block.Layout) {}, func(*block.Layout) {}, false},
		{"equal/shuffled", func(*block.Layout) {}, func(*block.Layout) {}, true},
		{"tp2to1", func(l *block.Layout) { l.TPSize, l.TPRank = 2, 1 }, func(*block.Layout) {}, false},
		{"tp1to2", func(*block.Layout) {}, func(l *block.Layout) { l.TPSize, l.TPRank = 2, 1 }, false},
		{"size64to16", func(*block.Layout) {}, func(l *block.Layout) { l.BlockTokens = 16 }, false},
		{"size16to64", func(l *block.Layout) { l.BlockTokens = 16 }, func(*block.Layout) {}, false},
		// One head of one layer alone: element by element, the model's copies would not fit into memory.
		{"transposed", func(l *block.Layout) { l.KeysTransposed, l.Layers, l.KVHeads, l.HeadDim = true, 1, 1, 16 },
			func(l *block.Layout) { l.Layers, l.KVHeads, l.HeadDim = 1, 1, 16 }, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			m := block.Mapping{Local: block.Side{Layout: llama}, Remote: block.Side{Layout: llama}, To: 256 * 64}
			c.local(&m.Local.Layout)
			c.remote(&m.Remote.Layout)
			for i := range m.Local.Layout.Blocks(m.To) {
				m.Local.Blocks = append(m.Local.Blocks, block.ID(3*i+1))
			}
			for i := range m.Remote.Layout.Blocks(m.To) {
				id := 2*i + 1
				if c.shuffled {
					id = i * 97 % 256
				}
				m.Remote.Blocks = append(m.Remote.Blocks, block.ID(id))
			}
			copies, err := m.Append(nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if copies, err = m.Append(copies[:0]); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(copies)), "ns/run")
			b.ReportMetric(float64(len(copies)), "runs")
		})
	}
}
