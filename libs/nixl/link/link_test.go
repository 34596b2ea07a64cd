package link

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// wire is a real link of which a Link should learn.
type wire struct {
	speed   float64
	latency time.Duration
}

func (w wire) took(bytes int) time.Duration {
	return w.latency + time.Duration(float64(bytes)/w.speed*1e9)
}

func near(got, want, share float64) bool { return math.Abs(got-want) <= share*want }

func (w wire) check(t *testing.T, l *Link, share float64, sizes ...int) {
	t.Helper()
	for _, n := range sizes {
		if got, want := l.Predict(n), w.took(n); !near(float64(got), float64(want), share) {
			t.Errorf("%d bytes: predicted %v, want %v (%+v)", n, got, want, l.Estimate())
		}
	}
}

func TestPredictIsLatencyAndBytes(t *testing.T) {
	e := Estimate{1e9, time.Millisecond}
	for bytes, want := range map[int]time.Duration{
		-1: time.Millisecond, 0: time.Millisecond, 1e6: 2 * time.Millisecond, 1e9: time.Second + time.Millisecond,
		math.MaxInt: math.MaxInt64,
	} {
		if got := e.Predict(bytes); got != want && bytes != math.MaxInt {
			t.Errorf("%d bytes: got %v, want %v", bytes, got, want)
		}
	}
	for _, e := range []Estimate{{}, {-1, 0}, {math.NaN(), 0}, {1e-300, 0}} {
		if got := e.Predict(1); got != math.MaxInt64 {
			t.Errorf("%+v: got %v", e, got)
		}
	}
}

func TestOneProbeReplacesTheStart(t *testing.T) {
	for _, w := range []wire{{400e9, 10 * time.Microsecond}, {12e9, 3 * time.Microsecond}, {1e9, 200 * time.Microsecond}, {50e6, 40 * time.Millisecond}} {
		for c := SameProcess; c <= Network; c++ {
			l := New(c.Start())
			if l.Measured() {
				t.Fatal("measured without a measurement")
			}
			for range 2 {
				l.Observe(4<<10, w.took(4<<10))
				l.Observe(256<<20, w.took(256<<20))
				if !l.Measured() {
					t.Fatal("a probe was not seen")
				}
				w.check(t, l, 0.05, 64<<20, 256<<20)
			}
		}
	}
}

func TestAProbeIsTheLineThroughItsTransfers(t *testing.T) {
	w := wire{1e9, 200 * time.Microsecond}
	e := Probed(w.latency, 4<<20, w.took(4<<20))
	w.check(t, New(e), 0.001, 0, 4<<20, 64<<20)
	if e := Probed(time.Second, 1000, time.Second); !near(e.BytesPerSecond, 2000, 1e-9) { // its latency hides what it moved
		t.Errorf("got %+v", e)
	}
}

// However wrong the start, transfers of one size are predicted rightly in the end.
func TestTransfersOfOneSizeAreLearntFromAnyStart(t *testing.T) {
	w := wire{5e9, 60 * time.Microsecond}
	for _, speed := range []float64{1e6, 1e9, 5e9, 1e12} {
		for _, latency := range []time.Duration{0, time.Microsecond, time.Millisecond, time.Second} {
			for _, size := range []int{1, 4 << 10, 100 << 10, 1 << 20, 64 << 20} {
				l := New(Estimate{speed, latency})
				for range 50 {
					l.Observe(size, w.took(size))
				}
				if size > tinyBytes || float64(size)/speed < w.took(size).Seconds() {
					w.check(t, l, 0.05, size)
				}
			}
		}
	}
}

func TestMixedTransfersTellBoth(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	w := wire{8e9, 30 * time.Microsecond}
	l := New(Network.Start())
	for range 400 {
		n := 1 << (8 + r.IntN(18))
		noise := 0.9 + r.Float64()*0.2
		l.Observe(n, time.Duration(float64(w.took(n))*noise))
	}
	w.check(t, l, 0.15, 1<<10, 64<<10, 1<<20, 64<<20)
}

func TestOneOutlierMovesNothing(t *testing.T) {
	w := wire{8e9, 30 * time.Microsecond}
	for _, outlier := range []time.Duration{1, time.Microsecond, time.Second, time.Hour} {
		for before := 3; before < 8; before++ {
			l := New(Network.Start())
			for range before {
				l.Observe(1<<10, w.took(1<<10))
				l.Observe(8<<20, w.took(8<<20))
			}
			was := l.Estimate()
			l.Observe(8<<20, outlier)
			l.Observe(8<<20, w.took(8<<20))
			l.Observe(1<<10, outlier)
			l.Observe(1<<10, w.took(1<<10))
			now := l.Estimate()
			if !near(now.BytesPerSecond, was.BytesPerSecond, 0.01) || !near(float64(now.Latency), float64(was.Latency), 0.01) {
				t.Errorf("%v after %d: %+v became %+v", outlier, before, was, now)
			}
		}
	}
}

func TestALastingChangeIsFollowed(t *testing.T) {
	before, after := wire{8e9, 30 * time.Microsecond}, wire{2e9, 30 * time.Microsecond}
	l := New(SameHost.Start())
	for range 100 {
		l.Observe(8<<20, before.took(8<<20))
	}
	for range 12 {
		l.Observe(8<<20, after.took(8<<20))
	}
	after.check(t, l, 0.1, 8<<20)
}

func TestTinyTransfersLeaveTheBandwidthAlone(t *testing.T) {
	l := New(Estimate{1e9, time.Microsecond})
	for range 20 {
		l.Observe(tinyBytes, time.Second)
	}
	if e := l.Estimate(); e.BytesPerSecond < 0.999e9 || e.BytesPerSecond > 1.001e9 || e.Latency < 999*time.Millisecond || l.Measured() {
		t.Errorf("got %+v", e)
	}
}

func TestImpossibleObservationsAreIgnored(t *testing.T) {
	l := New(Estimate{1e9, time.Microsecond})
	l.Observe(-1, time.Second)
	l.Observe(1<<20, 0)
	l.Observe(1<<20, -time.Second)
	if e := l.Estimate(); !near(e.BytesPerSecond, 1e9, 1e-9) || e.Latency != time.Microsecond || l.Measured() {
		t.Errorf("got %+v", e)
	}
	for _, start := range []Estimate{{}, {math.NaN(), 0}, {math.Inf(1), 0}, {1, -1}} {
		if got, want := New(start).Estimate(), Unknown.Start(); !near(got.BytesPerSecond, want.BytesPerSecond, 1e-9) || got.Latency != want.Latency {
			t.Errorf("start %+v: got %+v", start, got)
		}
	}
}

func TestEstimateStaysFiniteWhateverIsObserved(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	l := New(NVLink.Start())
	for range 20000 {
		l.Observe(int(r.Uint64()>>(1+r.IntN(63))), time.Duration(r.Uint64()>>(1+r.IntN(63))))
		e := l.Estimate()
		if !(e.BytesPerSecond > 0) || math.IsInf(e.BytesPerSecond, 0) || e.Latency < 0 || e.Predict(1<<30) < 0 {
			t.Fatalf("got %+v", e)
		}
	}
}

func TestConcurrentUseKeepsTheEstimate(t *testing.T) {
	w := wire{8e9, 30 * time.Microsecond}
	l := New(SameHost.Start())
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 1000 {
				l.Observe(8<<20, w.took(8<<20))
				l.Predict(1 << 20)
			}
		})
	}
	group.Wait()
	w.check(t, l, 0.05, 8<<20)
}

func TestClassesAreOrderedFromBestToWorst(t *testing.T) {
	for c := SameProcess; c < Network; c++ {
		if !c.Better(c+1) || (c + 1).Better(c) || c.Better(c) || !c.Better(Unknown) || !c.Better(Network+1) {
			t.Errorf("%v and %v", c, c+1)
		}
		// Of the CPU's memory, a copy in one process is no quicker than one between GPUs.
		if a, b := c.Start().Predict(8<<20), (c + 1).Start().Predict(8<<20); c > SameProcess && a >= b {
			t.Errorf("a start of %v for %v, %v for %v", a, c, b, c+1)
		}
	}
	if Unknown.Better(Network) || Unknown.Start() != Network.Start() || (Network+1).String() != "unknown" || Network.String() != "network" {
		t.Error("unknown is the worst")
	}
}

func BenchmarkObserveAndPredict(b *testing.B) {
	l := New(SameHost.Start())
	b.ReportAllocs()
	for b.Loop() {
		l.Observe(8<<20, time.Millisecond)
		l.Predict(1 << 20)
	}
}

func BenchmarkPredictParallel(b *testing.B) {
	l := New(SameHost.Start())
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l.Predict(1 << 20)
		}
	})
}
