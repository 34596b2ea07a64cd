package cpu

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/engine"
	"github.com/switchyard-llm/switchyard/libs/engine/cpu/cputest"
	"github.com/switchyard-llm/switchyard/libs/engine/cpu/kernel"
	"github.com/switchyard-llm/switchyard/libs/gguf"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

func tiny(t testing.TB, s cputest.Shape) *Model {
	t.Helper()
	var b bytes.Buffer
	if err := cputest.Write(&b, s, 1); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	m, err := LoadModel(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// text is a sequence that several runs have to agree on: its logits after every
// token, and the bits of its keys and values.
type text struct {
	tokens []sequence.Token
	logits map[int][]float32 // by position
	blocks []block.ID
}

func texts(r *rand.Rand, vocab int, lengths ...int) []*text {
	var out []*text
	for _, n := range lengths {
		x := &text{logits: map[int][]float32{}}
		for range n {
			x.tokens = append(x.tokens, sequence.Token(r.IntN(vocab)))
		}
		out = append(out, x)
	}
	return out
}

// run feeds the texts in steps of cuts of random length in random company, into
// blocks in random places, and keeps the logits of every step.
func run(t testing.TB, e *Executor, xs []*text, r *rand.Rand, longest int) {
	t.Helper()
	places := r.Perm(e.blocks)
	done := make([]int, len(xs))
	for i, x := range xs {
		n := e.card.Layout.Blocks(len(x.tokens))
		x.blocks = nil
		for _, p := range places[:n] {
			x.blocks = append(x.blocks, block.ID(p))
		}
		places, done[i] = places[n:], 0
	}
	for left := len(xs); left > 0; {
		var batch []engine.Segment
		for _, i := range r.Perm(len(xs)) {
			x := xs[i]
			rest := len(x.tokens) - done[i]
			if rest == 0 || len(batch) > 0 && r.IntN(3) == 0 {
				continue
			}
			n := 1 + r.IntN(min(rest, longest))
			s := engine.Segment{Tokens: x.tokens[done[i] : done[i]+n], Start: done[i], Blocks: x.blocks}
			if done[i] += n; done[i] == len(x.tokens) {
				left--
			}
			if r.IntN(4) > 0 || done[i] == len(x.tokens) {
				s.Logits = make([]float32, e.card.VocabTokens)
				x.logits[done[i]-1] = s.Logits
			}
			batch = append(batch, s)
		}
		step(t, e, batch...)
	}
}

// rows is the bits of a text's keys and values, wherever they lie.
func rows(e *Executor, x *text) []float32 {
	layout := e.card.Layout
	var out []float32
	for p := range x.tokens {
		at := int(x.blocks[p/layout.BlockTokens]) * layout.BlockBytes() / 4
		slot := p % layout.BlockTokens
		for l := range layout.Layers {
			for h := range layout.KVHeads {
				for d := range layout.HeadDim {
					out = append(out, e.memory[at+layout.KeysOffset(l, h)/4+d*layout.BlockTokens+slot],
						e.memory[at+layout.ValuesOffset(l, h)/4+slot*layout.HeadDim+d])
				}
			}
		}
	}
	return out
}

func same(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) || got[i] != got[i] {
			t.Fatalf("%s: element %d is %g, want %g", what, i, got[i], want[i])
		}
	}
}

// The promise of the package: whatever the batch, the cut, the blocks, the
// threads and the kernel, each row has the same bits.
func TestResultsDependOnNothingButTheTokens(t *testing.T) {
	shapes := map[string]cputest.Shape{"one KV head": cputest.Tiny()}
	s := cputest.Tiny()
	s.Heads, s.KVHeads, s.HeadDim, s.Untied = 6, 3, 64, true
	s.Embedding, s.Attention, s.Feeding = gguf.TypeF32, gguf.TypeQ8_0, gguf.TypeQ4_1
	shapes["three KV heads"] = s
	for name, s := range shapes {
		m := tiny(t, s)
		xs := texts(rand.New(rand.NewPCG(1, 2)), s.VocabTokens, 1, 17, 33, 48, 90)
		// One token at a time, alone, in plain Go.
		want := map[*text]map[int][]float32{}
		wantRows := map[*text][]float32{}
		for _, x := range xs {
			e := bound(t, m, Options{Threads: 1, Kernel: kernel.Generic()}, 9)
			x.blocks = table(len(x.tokens), 0)
			want[x] = map[int][]float32{}
			for p := range x.tokens {
				want[x][p] = make([]float32, s.VocabTokens)
				step(t, e, engine.Segment{Tokens: x.tokens[p : p+1], Start: p, Blocks: x.blocks, Logits: want[x][p]})
			}
			wantRows[x] = rows(e, x)
		}
		for i, o := range []Options{
			{Threads: 1}, {Threads: 2}, {Threads: 3}, {Threads: 8}, {Threads: 2, BlockTokens: 64},
			{Threads: 1, BlockTokens: 128}, {Threads: 2, BlockTokens: 48}, {Threads: 2, Kernel: kernel.Generic()},
		} {
			for _, longest := range []int{1, 5, 37, 1000} {
				if o.Kernel.Valid() && longest != 37 {
					continue // plain Go is slow
				}
				e := bound(t, m, o, 40)
				run(t, e, xs, rand.New(rand.NewPCG(uint64(i), uint64(longest))), longest)
				for n, x := range xs {
					what := fmt.Sprintf("%s, options %d, cuts to %d, text %d", name, i, longest, n)
					for p, logits := range x.logits {
						same(t, fmt.Sprintf("%s: logits at %d", what, p), logits, want[x][p])
					}
					same(t, what+": keys and values", rows(e, x), wantRows[x])
				}
			}
		}
	}
}

// The bits of one text, fixed for good: on every architecture and compiler setting
// plain Go and assembly must come to them. Whoever changes them changes numericsID.
func TestTheBitsAreThoseOfTheNumericsID(t *testing.T) {
	const want = "48413cfa31e80361a39c221158a96695"
	m := tiny(t, cputest.Tiny())
	for _, k := range []kernel.Set{kernel.Generic(), kernel.Best()} {
		e := bound(t, m, Options{Threads: 1, Kernel: k}, 8)
		logits, tokens := make([]float32, 259), make([]sequence.Token, 75)
		for i := range tokens {
			tokens[i] = sequence.Token(i * 89 % 259)
		}
		step(t, e, engine.Segment{Tokens: tokens, Blocks: table(75, 0), Logits: logits})
		h := sha256.New()
		if err := binary.Write(h, binary.LittleEndian, logits); err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(h.Sum(nil)[:16]); got != want {
			t.Errorf("%s, %s: digest of the logits is %s, want %s", numericsID, k.Name(), got, want)
		}
	}
}

func TestTheRealModelIsExactToo(t *testing.T) {
	m := model(t)
	x := texts(rand.New(rand.NewPCG(3, 4)), 49152, 150)[0]
	x.blocks = table(len(x.tokens), 0)
	last := func(threads int, cuts ...int) []float32 {
		e := bound(t, m, Options{Threads: threads}, len(x.blocks))
		logits := make([]float32, 49152)
		start := 0
		for _, n := range cuts {
			step(t, e, engine.Segment{Tokens: x.tokens[start : start+n], Start: start, Blocks: x.blocks, Logits: logits})
			start += n
		}
		return append(logits, rows(e, x)...)
	}
	want := last(1, 150)
	same(t, "cut in four, two threads", last(2, 130, 1, 18, 1), want)
	same(t, "cut in five", last(1, 60, 17, 3, 55, 15), want)
}

func TestACancelledStepEndsWithTheContextsError(t *testing.T) {
	m := tiny(t, cputest.Tiny())
	e := bound(t, m, Options{Threads: 2}, 32)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	x := texts(rand.New(rand.NewPCG(5, 6)), 259, 400)[0]
	b := &engine.Batch{Segments: []engine.Segment{{Tokens: x.tokens, Blocks: table(400, 0)}}}
	if err := e.Step(ctx, b); err != context.Canceled {
		t.Fatalf("step with a cancelled context: %v, want %v", err, context.Canceled)
	}
	if err := e.Step(context.Background(), b); err != nil {
		t.Fatalf("the executor works on after a cancel: %v", err)
	}
}
