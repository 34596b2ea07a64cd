package cpu

import (
	"math"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/engine"
	"github.com/switchyard-llm/switchyard/libs/engine/cpu/cputest"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

func TestStepRefusesWhatItCannotReach(t *testing.T) {
	m := tiny(t, cputest.Tiny())
	e := bound(t, m, Options{ContextTokens: 100}, 8)
	one := []sequence.Token{7}
	for want, s := range map[string]engine.Segment{
		"no tokens":             {Blocks: table(16, 0)},
		"token 1 is 259":        {Tokens: []sequence.Token{258, 259}, Blocks: table(16, 0)},
		"positions 99 to 100":   {Tokens: []sequence.Token{1, 1}, Start: 99, Blocks: table(112, 0)},
		"positions -1":          {Tokens: one, Start: -1, Blocks: table(16, 0)},
		"1 blocks of 16 tokens": {Tokens: one, Start: 16, Blocks: table(16, 0)},
		"block 1 is number 8":   {Tokens: one, Start: 16, Blocks: []block.ID{0, 8}},
		"block 0 is number -1":  {Tokens: one, Blocks: []block.ID{-1}},
		"258 logits, want 259":  {Tokens: one, Blocks: table(16, 0), Logits: make([]float32, 258)},
	} {
		err := e.Step(t.Context(), &engine.Batch{Segments: []engine.Segment{{Tokens: one, Blocks: table(16, 1)}, s}})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "segment 1") {
			t.Errorf("error is %v, want one about segment 1 that says %q", err, want)
		}
	}
}

func TestBindWantsTheCardsLayout(t *testing.T) {
	m := tiny(t, cputest.Tiny())
	e, err := m.Executor(Options{Model: "x", BlockTokens: 32})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Step(t.Context(), &engine.Batch{}); err == nil {
		t.Error("step before Bind is accepted")
	}
	other := e.Card().Layout
	other.KeysTransposed = false
	short := poisoned(e.Card().Layout, 2)
	short.blocks = 3
	for _, bad := range []*slice{poisoned(other, 2), {nil, e.Card().Layout, 2}, short} {
		if err := e.Bind(bad); err == nil {
			t.Errorf("%d bytes of layout %+v are accepted", len(bad.bytes), bad.layout)
		}
	}
	if err := e.Bind(poisoned(e.Card().Layout, 2)); err != nil {
		t.Fatal(err)
	}
	if err := e.Bind(poisoned(e.Card().Layout, 2)); err == nil {
		t.Error("a second Bind is accepted")
	}
}

func TestNoGoroutineOutlivesAStep(t *testing.T) {
	m := tiny(t, cputest.Tiny())
	e := bound(t, m, Options{Threads: 4}, 8)
	before := goleak.IgnoreCurrent()
	for range 20 {
		step(t, e, engine.Segment{Tokens: []sequence.Token{1}, Blocks: table(16, 0)})
	}
	goleak.VerifyNone(t, before) // one that was joined may still be on its last instructions, which this waits for
}

func TestCrewComputesEveryItemOnce(t *testing.T) {
	c := crew{workers: make([]*worker, 5)}
	for range 3 {
		c.open()
		for n := range 200 {
			count := make([]int, n) // one goroutine per element: -race would see two
			c.run(n, func(_ *worker, i int) { count[i]++ })
			for i, times := range count {
				if times != 1 {
					t.Fatalf("item %d of %d computed %d times", i, n, times)
				}
			}
		}
		c.close()
	}
}

func TestRotationIsAccurate(t *testing.T) {
	for _, base := range []float64{1, 10000, 100000, 500000} {
		r := newRotation(Shape{HeadDim: 64, RopeBase: base, RopeScale: 1}, nil)
		for i, f := range r.frequency {
			if want := math.Pow(base, -float64(i)/32); math.Abs(f-want) > 1e-15*want*4 {
				t.Fatalf("base %g: frequency %d is %.17g, want %.17g", base, i, f, want)
			}
		}
	}
	for i := range 200_000 {
		angle := float64(i) * 0.71
		sin, cos := sineCosine(angle)
		if math.Abs(sin-math.Sin(angle)) > 4e-16 || math.Abs(cos-math.Cos(angle)) > 4e-16 {
			t.Fatalf("angle %g: (%.17g, %.17g), want (%.17g, %.17g)", angle, sin, cos, math.Sin(angle), math.Cos(angle))
		}
	}
}

func TestRotationFactorsDivide(t *testing.T) {
	factors := make([]float32, 32)
	for i := range factors {
		factors[i] = 4
	}
	s := Shape{HeadDim: 64, RopeBase: 10000, RopeScale: 2}
	plain, scaled := newRotation(Shape{HeadDim: 64, RopeBase: 10000, RopeScale: 1}, nil), newRotation(s, factors)
	for i := range plain.frequency {
		if scaled.frequency[i] != plain.frequency[i]/8 {
			t.Fatalf("frequency %d is %g, want %g", i, scaled.frequency[i], plain.frequency[i]/8)
		}
	}
}

func TestSlabsCoverABatchInOrder(t *testing.T) {
	b := &engine.Batch{}
	for i, n := range []int{1, 10, 3, 256, 1, 700, 2} {
		b.Segments = append(b.Segments, engine.Segment{Tokens: make([]sequence.Token, n), Start: 100 * i})
	}
	done := make([]int, len(b.Segments))
	total := 0
	for s := range slabs(b, 256) {
		rows := 0
		for _, sp := range s.spans {
			i := sp.segment.Start / 100
			if sp.segment != &b.Segments[i] || sp.first != rows || sp.offset != done[i] || sp.position != sp.segment.Start+done[i] {
				t.Fatalf("span %+v of segment %d, of which %d tokens are done, at row %d", sp, i, done[i], rows)
			}
			rows, done[i] = rows+sp.rows, done[i]+sp.rows
			if sp.last() != (done[i] == len(sp.segment.Tokens)) {
				t.Fatalf("span %+v says last: %t", sp, sp.last())
			}
		}
		if total += rows; rows != s.rows || rows != 256 && total != 973 {
			t.Fatalf("a slab of %d rows (says %d) after %d in all", rows, s.rows, total)
		}
	}
	if total != 973 {
		t.Fatalf("%d rows in all, want 973", total)
	}
}
