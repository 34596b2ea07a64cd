package cpu

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/switchyard-llm/switchyard/libs/engine"
)

// cpuTime is what this thread has computed so far; beside the wall clock it tells
// whether the machine was shared.
func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measure reports tokens per second of wall time, of processor time, and in the
// fastest call, which other users of the machine disturbed least.
func measure(b *testing.B, tokens int, do func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start, fastest := cpuTime(b), time.Duration(1<<63-1)
	for b.Loop() {
		begin := time.Now()
		do()
		fastest = min(fastest, time.Since(begin))
	}
	total := float64(tokens) * float64(b.N)
	b.ReportMetric(total/b.Elapsed().Seconds(), "tokens/s")
	b.ReportMetric(total/(cpuTime(b)-start).Seconds(), "tokens/cpu-s")
	b.ReportMetric(float64(tokens)/fastest.Seconds(), "best-tokens/s")
}

func BenchmarkPrefill(b *testing.B) {
	m := model(b)
	for _, n := range []int{128, 512, 2048} {
		b.Run(fmt.Sprintf("tokens=%d", n), func(b *testing.B) {
			e := bound(b, m, Options{Threads: 1}, (n+15)/16)
			segment := engine.Segment{Tokens: prompt(n, 0), Blocks: table(n, 0), Logits: make([]float32, m.Shape().VocabTokens)}
			measure(b, n, func() { step(b, e, segment) })
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	m := model(b)
	for _, batch := range []int{1, 8} {
		for _, n := range []int{64, 512} {
			b.Run(fmt.Sprintf("batch=%d/context=%d", batch, n), func(b *testing.B) {
				e := bound(b, m, Options{Threads: 1}, batch*(n+16)/16)
				segments := make([]engine.Segment, batch)
				for i := range segments {
					segments[i] = engine.Segment{Tokens: prompt(n, i), Blocks: table(n+1, i)}
				}
				step(b, e, segments...)
				for i := range segments {
					segments[i] = engine.Segment{
						Tokens: prompt(1, i), Start: n, Blocks: segments[i].Blocks, Logits: make([]float32, m.Shape().VocabTokens),
					}
				}
				measure(b, batch, func() { step(b, e, segments...) })
			})
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	model(b)
	for b.Loop() {
		m, err := Open(realPath)
		if err != nil {
			b.Fatal(err)
		}
		if err := m.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
