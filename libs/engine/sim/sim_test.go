package sim

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/engine"
	"github.com/switchyard-llm/switchyard/libs/engine/sim/timing"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

const testBlock = 16

// perToken takes a millisecond for a prompt token and ten for each pass that decodes.
type perToken struct{}

func (perToken) Step(s timing.Step) time.Duration {
	d := time.Duration(s.PromptTokens) * time.Millisecond
	if s.Decoding > 0 {
		d += 10 * time.Millisecond
	}
	return d
}

type memory struct {
	bytes  []byte
	layout block.Layout
}

func (m memory) Bytes() []byte        { return m.bytes }
func (m memory) Layout() block.Layout { return m.layout }
func (m memory) Blocks() int          { return len(m.bytes) / m.layout.BlockBytes() }

func config(t testing.TB) Config {
	t.Helper()
	shape, err := timing.ShapeNamed("llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	return Config{Model: "m", Shape: shape, Numerics: timing.BF16, TP: 1, Timing: perToken{}, BlockTokens: testBlock}
}

// open makes an executor over so many blocks of what was left there by others.
func open(t testing.TB, cfg Config, blocks int) (*Sim, memory) {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	layout := s.Card().Layout
	m := memory{make([]byte, blocks*layout.BlockBytes()), layout}
	for i := range m.bytes {
		m.bytes[i] = byte(i * 7)
	}
	if err := s.Bind(m); err != nil {
		t.Fatal(err)
	}
	return s, m
}

func randomPrompt(r *rand.Rand, n int) []sequence.Token { return randomTokens(r, n, VocabTokens) }

func randomTokens(r *rand.Rand, n, vocabulary int) []sequence.Token {
	p := make([]sequence.Token, n)
	for i := range p {
		p[i] = sequence.Token(r.IntN(vocabulary))
	}
	return p
}

// wide is a vocabulary whose tokens do not fit into 16 bits.
func wide() *Vocabulary {
	v := &Vocabulary{tokens: 200_000}
	for i := range v.answers {
		v.answers[i] = sequence.Token(300 + i)
	}
	return v
}

func randomTable(r *rand.Rand, blocks, n int) []block.ID {
	table := make([]block.ID, n)
	for i, b := range r.Perm(blocks)[:n] {
		table[i] = block.ID(b)
	}
	return table
}

// generate computes the rows from start on in chunks, then token by token, and answers the tokens drawn.
func generate(s *Sim, tokens []sequence.Token, start, chunk, max int, table []block.ID) ([]sequence.Token, error) {
	logits := make([]float32, s.card.Logits())
	var out []sequence.Token
	for len(out) < max {
		n := min(chunk, len(tokens)-start)
		segment := engine.Segment{Tokens: tokens[start : start+n], Start: start, Blocks: table}
		if start += n; start == len(tokens) {
			segment.Logits = logits
		}
		if err := s.Step(context.Background(), &engine.Batch{Segments: []engine.Segment{segment}}); err != nil {
			return out, err
		}
		if start < len(tokens) {
			continue
		}
		best := 0
		for i, x := range logits {
			if x > logits[best] {
				best = i
			}
		}
		out = append(out, sequence.Token(best))
		tokens = append(tokens[:len(tokens):len(tokens)], sequence.Token(best))
	}
	return out, nil
}

// The same tokens come out of a prompt that is computed here and of one whose blocks were
// moved from another executor, whatever the chunks and the tables; of one that lacks a block, a
// layer of one, or a row, none.
func TestMovedBlocksGiveTheSameAnswer(t *testing.T) {
	t.Run("bytes", func(t *testing.T) { movedBlocks(t, nil) })
	t.Run("words", func(t *testing.T) { movedBlocks(t, wide()) })
}

func movedBlocks(t *testing.T, v *Vocabulary) {
	r := rand.New(rand.NewPCG(3, 4))
	const blocks = 64
	cfg := config(t)
	cfg.Vocabulary = v
	near, nearMemory := open(t, cfg, blocks)
	far, farMemory := open(t, cfg, blocks)
	for trial := range 300 {
		prompt := randomTokens(r, 1+r.IntN(300), v.size())
		want := v.Answer(prompt, 40)
		tables := [2][]block.ID{randomTable(r, blocks, 24), randomTable(r, blocks, 24)}
		out, err := generate(near, prompt, 0, 1+r.IntN(100), 40, tables[0])
		if diff := cmp.Diff(want, out); err != nil || diff != "" {
			t.Fatalf("local: %v (-want +got):\n%s", err, diff)
		}
		layout, rows := farMemory.layout, len(prompt)-1+r.IntN(2)
		moved, whole := layout.Blocks(rows), rows/testBlock
		lost, lostLayer := r.IntN(2*moved+1), r.IntN(layers)
		for i := range moved {
			for layer := range layers {
				if i == lost && (trial%2 == 0 || layer == lostLayer) {
					continue // not moved
				}
				to, from := layout.LayerSpan(tables[1][i], layer), layout.LayerSpan(tables[0][i], layer)
				copy(farMemory.bytes[to.Offset:][:to.Bytes], nearMemory.bytes[from.Offset:][:from.Bytes])
			}
		}
		if lost >= moved && whole > 0 && trial%3 == 0 {
			lost = r.IntN(whole) // moved, and then something wrote into a row
			farMemory.bytes[int(tables[1][lost])*layout.BlockBytes()+r.IntN(layout.BlockBytes())] ^= 4
		}
		out, err = generate(far, append(prompt, want[:1+rows-len(prompt)]...), rows, 1+r.IntN(100), 30, tables[1])
		if rows == 0 {
			continue
		}
		switch broken := lost < moved; {
		case broken && err == nil && cmp.Equal(out, want[1+rows-len(prompt):][:30]):
			t.Fatalf("trial %d: %d of %d blocks was not there, and nothing shows it", trial, lost, moved)
		case !broken && (err != nil || !cmp.Equal(out, want[1+rows-len(prompt):][:30])):
			t.Fatalf("trial %d: remote: %v, got %v, want %v", trial, err, out, want)
		}
	}
}

// A block that another sequence has overwritten meanwhile shows wherever it is in a table that is
// taken up anew.
func TestEveryBlockOfATableIsChecked(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		s, _ := open(t, config(t), 64)
		prompt, table := randomPrompt(r, 20*testBlock), randomTable(r, 64, 24)
		if _, err := generate(s, prompt, 0, 1000, 2, table); err != nil {
			t.Fatal(err)
		}
		lost, hit := r.IntN(10), 11+r.IntN(6)
		if _, err := generate(s, randomPrompt(r, 1+r.IntN(2*testBlock)), 0, 1000, 1, []block.ID{table[lost], table[22]}); err != nil {
			t.Fatal(err)
		}
		for _, more := range []int{1, 2, testBlock} { // tokens after the hit
			if out, err := generate(s, prompt[:hit*testBlock+more], hit*testBlock, 1000, 1, table); err == nil {
				t.Fatalf("block %d is another sequence's, and %d tokens after block %d gave %v", lost, more, hit, out)
			}
		}
	}
}

func TestAnswersEndAtAStop(t *testing.T) {
	all := Answer([]sequence.Token{1, 2, 3}, 50)
	stopped := Answer([]sequence.Token{1, 2, 3}, 50, all[9])
	if diff := cmp.Diff(all[:len(stopped)], stopped); diff != "" || len(stopped) > 10 || stopped[len(stopped)-1] != all[9] {
		t.Errorf("stopped after %d tokens (-want +got):\n%s", len(stopped), diff)
	}
}

// step runs one step of a prompt of n tokens.
func step(ctx context.Context, s *Sim, n int, placed func(layer, from, to int)) error {
	table := make([]block.ID, 1+n/testBlock)
	for i := range table {
		table[i] = block.ID(i)
	}
	return s.Step(ctx, &engine.Batch{Segments: []engine.Segment{{Tokens: make([]sequence.Token, n), Blocks: table, Placed: placed}}})
}

func TestStepsTakeTheirTimeInTheLongRun(t *testing.T) {
	for _, speedUp := range []float64{1, 7.5, math.Inf(1), 0} {
		synctest.Test(t, func(t *testing.T) {
			cfg := config(t)
			cfg.SpeedUp = speedUp
			s, _ := open(t, cfg, 8)
			begin := time.Now()
			for range 1000 {
				if err := step(t.Context(), s, 3, nil); err != nil {
					t.Fatal(err)
				}
				time.Sleep(50 * time.Microsecond) // what a scheduler takes between two steps
			}
			want := 50 * time.Microsecond // after the last
			if Waits(speedUp) {
				want += time.Duration(1000 * 3 / speedUp * 1e6)
			} else {
				want *= 1000
			}
			if took := time.Since(begin); (took - want).Abs() > time.Microsecond {
				t.Errorf("at %gx: %v, want %v", speedUp, took, want)
			}
		})
	}
}

func TestAPauseIsNotMadeUpFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(t)
		cfg.SpeedUp = 1
		s, _ := open(t, cfg, 8)
		for range 3 {
			begin := time.Now()
			if err := step(t.Context(), s, 20, nil); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begin); took != 20*time.Millisecond {
				t.Errorf("a step after a pause took %v, want 20ms", took)
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
}

func TestLayersAreToldAsTheirTimePasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(t)
		cfg.SpeedUp = 1
		s, _ := open(t, cfg, 8)
		type told struct {
			At              time.Duration
			Layer, From, To int
		}
		var got []told
		begin := time.Now()
		if err := step(t.Context(), s, 20, func(layer, from, to int) { got = append(got, told{time.Since(begin), layer, from, to}) }); err != nil {
			t.Fatal(err)
		}
		want := []told{{10 * time.Millisecond, 0, 0, 20}, {20 * time.Millisecond, 1, 0, 20}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestACancelEndsAStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(t)
		cfg.SpeedUp = 1
		s, _ := open(t, cfg, 8)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Millisecond)
		defer cancel()
		begin := time.Now()
		if err := step(ctx, s, 100, nil); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 3*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

func TestTPIsLayoutAndNotFormat(t *testing.T) {
	cfg := config(t)
	one, _ := open(t, cfg, 1)
	cfg.TP = 4
	four, _ := open(t, cfg, 1)
	cfg.Numerics = timing.FP8
	other, _ := open(t, cfg, 1)
	a, b, c := one.Card(), four.Card(), other.Card()
	if a.KVFormat != b.KVFormat || a.Layout == b.Layout || b.Layout.TPSize != 4 {
		t.Errorf("TP 1 and 4: %+v, %+v", a, b)
	}
	if b.KVFormat == c.KVFormat || c.RowBytes()*2 != b.RowBytes() || b.RowBytes() != 128<<10 {
		t.Errorf("bf16 and fp8: %+v, %+v", b, c)
	}
	if err := b.Layout.Validate(); err != nil || a.Layout.Mappable(b.Layout) != nil {
		t.Errorf("layouts: %v, %v", err, a.Layout.Mappable(b.Layout))
	}
}

func TestConfigurationsThatCannotBeAreNamed(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"shape is empty":                      func(c *Config) { c.Shape = timing.Shape{} },
		`numerics is "int3", want`:            func(c *Config) { c.Numerics = "int3" },
		"tp is 0, want 1 to 64":               func(c *Config) { c.TP = 0 },
		"timing is nil":                       func(c *Config) { c.Timing = nil },
		"speedup is -1, want at least 0":      func(c *Config) { c.SpeedUp = -1 },
		"speedup is NaN":                      func(c *Config) { c.SpeedUp = math.NaN() },
		"block_tokens is 0":                   func(c *Config) { c.BlockTokens = 0 },
		"context_tokens is -1":                func(c *Config) { c.ContextTokens = -1 },
		"host_blocks is -1, want at least 0":  func(c *Config) { c.Tiers.HostBlocks = -1 },
		"disk_blocks is -1, want at least 0":  func(c *Config) { c.Tiers.DiskBlocks = -1 },
		"host bandwidth is -1, want at least": func(c *Config) { c.Tiers.HostBytesPerSecond = -1 },
		"disk bandwidth is -1, want at least": func(c *Config) { c.Tiers.DiskBytesPerSecond = -1 },
	} {
		cfg := config(t)
		change(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	s, m := open(t, config(t), 2)
	m.bytes = m.bytes[:10]
	if err := s.Bind(m); err == nil {
		t.Error("a memory without blocks was bound")
	}
}

// Decoding costs the same at any length of the context.
func BenchmarkDecodeStep(b *testing.B) {
	for name, context := range map[string]int{"context=1k": 1000, "context=100k": 100_000} {
		b.Run(name, func(b *testing.B) {
			const sequences = 64
			per := context/testBlock + 1000
			s, _ := open(b, config(b), sequences*per)
			batch := &engine.Batch{Segments: make([]engine.Segment, sequences)}
			for i := range batch.Segments {
				table := make([]block.ID, per)
				for j := range table {
					table[j] = block.ID(i*per + j)
				}
				prompt := engine.Segment{Tokens: make([]sequence.Token, context), Blocks: table}
				if err := s.Step(b.Context(), &engine.Batch{Segments: []engine.Segment{prompt}}); err != nil {
					b.Fatal(err)
				}
				batch.Segments[i] = engine.Segment{Tokens: []sequence.Token{1}, Start: context, Blocks: table, Logits: make([]float32, VocabTokens)}
			}
			steps := 0
			for b.Loop() {
				if err := s.Step(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
				for i := range batch.Segments {
					batch.Segments[i].Start++
				}
				if steps++; context+steps >= per*testBlock-1 {
					for i := range batch.Segments {
						batch.Segments[i].Start = context
					}
					steps = 0
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/sequences, "ns/token")
		})
	}
}

func TestThePaceIsThatOfTheTimingModel(t *testing.T) {
	cfg := config(t)
	cfg.SpeedUp = 2
	var err error
	if cfg.Timing, err = timing.ParseProfile([]byte(`{
		"prefill": {"tokens": [1, 100001], "ms": [8, 2008]},
		"decode": {"sequences": [1, 101], "context_tokens": [1, 1000001], "ms": [[8, 38], [28, 58]]}}`)); err != nil {
		t.Fatal(err)
	}
	s, _ := open(t, cfg, 8)
	got := s.Card().Pace // half of 8 ms a step, 0.2 ms a sequence, 30 ns a token attended to
	want := engine.Pace{Token: 10 * time.Microsecond, Step: 3900 * time.Microsecond, Sequence: 100 * time.Microsecond, Context: 15}
	if (got.Token-want.Token).Abs() > 100*time.Nanosecond || (got.Step-want.Step).Abs() > time.Microsecond ||
		(got.Sequence-want.Sequence).Abs() > time.Microsecond || math.Abs(got.Context-want.Context) > 0.01 {
		t.Errorf("the pace is %+v, want %+v", got, want)
	}
	cfg.SpeedUp = 0
	if s, _ := open(t, cfg, 8); s.Card().Pace != (engine.Pace{}) {
		t.Errorf("the pace of one that waits for nothing is %+v", s.Card().Pace)
	}
}
