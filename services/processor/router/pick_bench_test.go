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

// BenchmarkPick measures a decision from the lookup to the booking, for a prompt of 1,000 blocks. Of a chat
// all workers hold the first 16 blocks, as of a system prompt, and one in 32 more; spread out each holds
// another part of up to 500.
func BenchmarkPick(b *testing.B) {
	for _, workers := range []int{8, 64, 512, 4096} {
		b.Run(fmt.Sprintf("workers=%d/chat", workers), func(b *testing.B) {
			benchmarkPick(b, workers, func(i int) int {
				if i%32 == 0 {
					return 100 + i*7919%900
				}
				return 16
			})
		})
		b.Run(fmt.Sprintf("workers=%d/spread", workers), func(b *testing.B) {
			benchmarkPick(b, workers, func(i int) int { return i*7919%500 + 1 })
		})
	}
}

func benchmarkPick(b *testing.B, workers int, held func(i int) int) {
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
		r.Stored(id, prefix.Device, root, chain[:held(i)])
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
