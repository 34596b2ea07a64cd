//go:build cgo && linux

package capi_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/capi"
	"github.com/switchyard-llm/switchyard/libs/nixl/capi/internal/cloop"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
)

// side is an agent over warm memory.
type side struct {
	agent  nixl.Agent
	memory *memory.Memory
}

func open(b *testing.B, name string, blockBytes, blocks int) side {
	b.Helper()
	a, err := capi.New(capi.Config{Config: nixl.Config{Name: name, Incarnation: "1", KVFormat: "f"}})
	if err != nil {
		b.Fatal(err)
	}
	m := warm(b, blockBytes*blocks)
	layout := block.Layout{BlockTokens: 1, Layers: 1, KVHeads: 1, HeadDim: blockBytes / 2, ElemBytes: 1}
	if _, err := a.Register(m, layout, blocks); err != nil {
		b.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		if err := a.Run(context.Background()); err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(func() {
		if err := a.Close(); err != nil {
			b.Error(err)
		}
		running.Wait()
	})
	return side{a, m}
}

// warm is memory that is backed, and ends after the agents.
func warm(b *testing.B, bytes int) *memory.Memory {
	b.Helper()
	m, err := memory.Anonymous(bytes)
	if err != nil {
		b.Fatal(err)
	}
	for i := range m.Bytes() {
		m.Bytes()[i] = byte(i)
	}
	b.Cleanup(func() {
		if err := m.Close(); err != nil {
			b.Error(err)
		}
	})
	return m
}

// BenchmarkAgainstC has the transport and a bare C loop over the same library make the same
// transfers in turn, to an agent of this process. NIXL joins runs that touch, on both sides.
// "make+post" and "total" are ratios of the median times, the transport's over the loop's.
func BenchmarkAgainstC(b *testing.B) {
	useLibrary(b)
	for _, c := range []struct{ n, run, stride int }{
		{4096, 1 << 10, 1 << 10}, {4096, 1 << 10, 2 << 10}, {64, 256 << 10, 512 << 10}, {64, 1 << 20, 2 << 20},
	} {
		b.Run(fmt.Sprintf("%dx%dKiB-each-%dKiB", c.n, c.run>>10, c.stride>>10), func(b *testing.B) { againstC(b, c.n, c.run, c.stride) })
	}
}

// inTurn is the number of transfers that one of both makes before the other does, whose
// threads rest meanwhile.
const inTurn = 8

func againstC(b *testing.B, n, run, stride int) {
	writer, target := open(b, "prefill", stride, n), open(b, "decode", stride, n)
	metadata, err := target.agent.Metadata()
	if err != nil {
		b.Fatal(err)
	}
	id, err := writer.agent.AddPeer(context.Background(), metadata)
	if err != nil {
		b.Fatal(err)
	}
	runs, indices := make([]block.Span, n), make([]int32, n)
	for i := range runs {
		runs[i], indices[i] = block.Span{Offset: i * stride, Bytes: run}, int32(i)
	}
	var lists [2]nixl.List
	for i, owner := range []nixl.PeerID{writer.agent.ID(), id} {
		if lists[i], err = writer.agent.Prepare(owner, 0, runs); err != nil {
			b.Fatal(err)
		}
	}
	path, err := capi.Available()
	if err != nil {
		b.Fatal(err)
	}
	loop, err := cloop.Open(path, cloop.Runs{
		Local: writer.memory.Address(), Remote: target.memory.Address(), N: n, Run: run, Stride: stride})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(loop.Close)

	var ours, bare times
	b.ReportAllocs()
	for b.Loop() {
		for range inTurn {
			ours.add(once(b, writer.agent, nixl.Prepared{Local: lists[0], Remote: lists[1], LocalRuns: indices, RemoteRuns: indices}))
		}
		for range inTurn {
			posted, ended, err := loop.Once(indices)
			if err != nil {
				b.Fatal(err)
			}
			bare.add(posted, ended)
		}
	}
	ourPost, ourEnd := ours.medians()
	barePost, bareEnd := bare.medians()
	b.ReportMetric(ourPost/1e3, "µs/make+post")
	b.ReportMetric(ourPost/barePost, "make+post")
	b.ReportMetric(ourEnd/bareEnd, "total")
	b.ReportMetric(float64(n)*float64(run)/ourEnd, "GB/s")
	b.ReportMetric(float64(n)*float64(run)/bareEnd, "GB/s-in-C")
}

// times are nanoseconds until the post had returned, and until the end.
type times struct{ posted, ended []float64 }

func (t *times) add(posted, ended time.Duration) {
	t.posted, t.ended = append(t.posted, float64(posted)), append(t.ended, float64(ended))
}

func (t *times) medians() (posted, ended float64) {
	slices.Sort(t.posted)
	slices.Sort(t.ended)
	return t.posted[len(t.posted)/2], t.ended[len(t.ended)/2]
}

func once(b *testing.B, a nixl.Agent, p nixl.Prepared) (posted, ended time.Duration) {
	start := time.Now()
	t, err := a.Make(p)
	if err == nil {
		err = t.Post(context.Background())
	}
	posted = time.Since(start)
	if err == nil {
		err = t.Wait(context.Background())
	}
	ended = time.Since(start)
	if err == nil {
		err = t.Release()
	}
	if err != nil {
		b.Fatal(err)
	}
	return posted, ended
}
