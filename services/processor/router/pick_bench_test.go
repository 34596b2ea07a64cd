package router

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/prefix"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// BenchmarkPick measures a decision from the lookup to the booking, for a prompt of 1,000 blocks of
// which each worker holds a part.
func BenchmarkPick(b *testing.B) {
	for _, workers := range []int{8, 64, 512, 4096} {
		for _, depths := range []int{8, 500} { // different lengths of what is held
			b.Run(fmt.Sprintf("workers=%d/depths=%d", workers, depths), func(b *testing.B) { benchmarkPick(b, workers, depths) })
		}
	}
}

func benchmarkPick(b *testing.B, workers, depths int) {
	const size, blocks = 32, 1000
	r, err := New(DefaultConfig(), Options{Random: rand.New(rand.NewPCG(3, 4)), Now: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	tokens := make([]sequence.Token, blocks*size+1)
	for i := range tokens {
		tokens[i] = rand.Uint32N(100_000)
	}
	root := prefix.Root("m", "", "")
	chain := prefix.Chain(nil, root, tokens, size)
	for i := range workers {
		id := WorkerID{Name: fmt.Sprint("w", i), Incarnation: "1"}
		if err := r.Add(Worker{ID: id, Model: "m", BlockTokens: size, PoolBlocks: 1 << 20, Events: true}); err != nil {
			b.Fatal(err)
		}
		r.Attach(id)
		r.Stored(id, prefix.Device, root, chain[:i*7919%depths*(500/depths)+1])
		r.Report(id, Report{
			PrefillTokens: i * 31 % 1000, Running: i % 32, DecodeTokens: i * 977 % 100_000,
			Speed: Speed{PrefillToken: 20 * time.Microsecond, Step: 10 * time.Millisecond, StepToken: 20},
		})
	}
	q := r.query(Request{Model: "m", Tokens: tokens})
	send := func(*Choice) bool { return true }
	samples := make([]time.Duration, 0, 1<<20)
	b.ReportAllocs()
	for b.Loop() {
		begin := time.Now()
		c, err := r.pick(q, send)
		took := time.Since(begin)
		if err != nil {
			b.Fatal(err)
		}
		if len(samples) < cap(samples) {
			samples = append(samples, took)
		}
		r.Ended(&c, 10)
	}
	slices.Sort(samples)
	b.ReportMetric(float64(samples[len(samples)/2])/1e3, "p50-µs/decision")
	b.ReportMetric(float64(samples[len(samples)*99/100])/1e3, "p99-µs/decision")
}
