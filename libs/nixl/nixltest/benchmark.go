package nixltest

import (
	"context"
	"testing"
	"time"

	kv "github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// embedded is the layout of the embedded model: 737,280 bytes a block of 16 tokens.
var embedded = kv.Layout{BlockTokens: 16, Layers: 30, KVHeads: 3, HeadDim: 64, ElemBytes: 4, KeysTransposed: true}

const benchBlocks = 64

// Benchmark measures writes between two agents of this process over warm memory,
// and the way of a note there and back.
func Benchmark(b *testing.B, tr Transport) {
	folder := Folder(b)
	open := func(name string) *host {
		h, err := tr.openSized(nixl.Config{Name: name, Incarnation: "1", KVFormat: format}, folder, embedded, benchBlocks)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := h.close(); err != nil {
				b.Error(err)
			}
		})
		fill(h.region.Bytes(), 1) // warm
		return h
	}
	target, writer := open("decode"), open("prefill")
	id := writer.add(b, target)
	b.Run("blocks-memcpy", func(b *testing.B) { bareCopies(b, target, writer, wholeBlocks(benchBlocks)) })
	b.Run("blocks", func(b *testing.B) { write(b, writer, id, wholeBlocks(benchBlocks)) })
	b.Run("block", func(b *testing.B) { write(b, writer, id, wholeBlocks(1)) })
	b.Run("partial", func(b *testing.B) { write(b, writer, id, partialBlock()) })
	b.Run("partial-memcpy", func(b *testing.B) { bareCopies(b, target, writer, partialBlock()) })
	b.Run("note", func(b *testing.B) { noteRoundTrip(b, writer, target, id) })
}

func wholeBlocks(n int) []nixl.Copy {
	copies := make([]nixl.Copy, n)
	for i := range copies {
		s := kv.Span{Offset: i * embedded.BlockBytes(), Bytes: embedded.BlockBytes()}
		copies[i] = nixl.Copy{Local: s, Remote: s}
	}
	return copies
}

// partialBlock is the first 7 rows of a block: many short runs, as keys lie transposed.
func partialBlock() (copies []nixl.Copy) {
	for s := range embedded.Spans(0, 0, 7) {
		copies = append(copies, nixl.Copy{Local: s, Remote: s})
	}
	return copies
}

func total(copies []nixl.Copy) (bytes int64) {
	for _, c := range copies {
		bytes += int64(c.Local.Bytes)
	}
	return bytes
}

// bareCopies is what a write cannot be faster than.
func bareCopies(b *testing.B, target, writer *host, copies []nixl.Copy) {
	to, from := target.region.Bytes(), writer.region.Bytes()
	b.SetBytes(total(copies))
	for b.Loop() {
		for _, c := range copies {
			copy(to[c.Remote.Offset:][:c.Remote.Bytes], from[c.Local.Offset:][:c.Local.Bytes])
		}
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(len(copies)), "ns/copy")
}

func write(b *testing.B, writer *host, to nixl.PeerID, copies []nixl.Copy) {
	r := nixl.Request{Peer: to, Copies: copies}
	b.SetBytes(total(copies))
	b.ReportAllocs()
	for b.Loop() {
		if err := writer.post(context.Background(), r); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(len(copies)), "ns/copy")
}

func noteRoundTrip(b *testing.B, writer, target *host, id nixl.PeerID) {
	ctx := context.Background()
	payload := make([]byte, 256)
	answered := make(chan struct{})
	n := 0
	go func() {
		defer close(answered)
		for {
			e, err := target.agent.Receive(ctx)
			if err != nil || len(e.Payload) == 0 {
				return
			}
			if target.agent.Notify(ctx, e.Peer, e.Payload) != nil {
				return
			}
		}
	}()
	for b.Loop() {
		if err := writer.agent.Notify(ctx, id, payload); err != nil {
			b.Fatal(err)
		}
		if _, err := writer.agent.Receive(ctx); err != nil {
			b.Fatal(err)
		}
		n++
	}
	b.ReportMetric(float64(b.Elapsed())/float64(time.Microsecond)/float64(n), "µs/roundtrip")
	if err := writer.agent.Notify(ctx, id, nil); err != nil {
		b.Fatal(err)
	}
	<-answered
}
