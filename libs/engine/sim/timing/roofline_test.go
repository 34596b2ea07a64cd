package timing

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func roofline(t testing.TB, shape, gpu string, n Numerics, tp int) Roofline {
	t.Helper()
	s, err := ShapeNamed(shape)
	if err != nil {
		t.Fatal(err)
	}
	g, err := GPUNamed(gpu)
	if err != nil {
		t.Fatal(err)
	}
	return Roofline{Shape: s, GPU: g, TP: tp, Numerics: n}
}

// The expected times were computed by hand from the formulas.
func TestRooflineFollowsItsFormula(t *testing.T) {
	llama, mixture := roofline(t, "llama-3.1-70b", "h100", FP8, 4), roofline(t, "deepseek-v3", "h200", FP8, 8)
	for _, c := range []struct {
		name  string
		model Roofline
		step  Step
		ms    float64
	}{
		{"nothing", llama, Step{}, 0},
		{"a prompt", llama, Step{PromptTokens: 4096, PromptPairs: Pairs(4096, 0)}, 145.6639},
		{"the second half of it", llama, Step{PromptTokens: 2048, PromptPairs: Pairs(2048, 2048)}, 76.7407},
		{"a prompt that is shorter than the weights", llama, Step{PromptTokens: 10, PromptPairs: Pairs(10, 0)}, 11.5118},
		{"decoding", llama, Step{Decoding: 64, ContextTokens: 64 * 4096}, 15.3275},
		{"one of a mixture of experts", mixture, Step{Decoding: 1, ContextTokens: 1000}, 6.7174},
		{"many of them", mixture, Step{Decoding: 64, ContextTokens: 64000}, 23.7678},
	} {
		if got := float64(c.model.Step(c.step)) / 1e6; got < c.ms-0.001 || got > c.ms+0.001 {
			t.Errorf("%s: %.4f ms, want %.4f", c.name, got, c.ms)
		}
	}
}

func TestKVBytesAreThePublishedOnes(t *testing.T) {
	for name, want := range map[string]int{"llama-3.1-8b": 128 << 10, "llama-3.1-70b": 320 << 10, "qwen3-32b": 256 << 10, "deepseek-v3": 70272} {
		s, err := ShapeNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.KVBytes(BF16); got != want {
			t.Errorf("%s keeps %d bytes per token, want %d", name, got, want)
		}
		if got := s.KVBytes(FP8); got != want/2 {
			t.Errorf("%s keeps %d bytes per token in FP8, want %d", name, got, want/2)
		}
	}
}

func TestNamesThatAreNotThereAreRefused(t *testing.T) {
	_, shape := ShapeNamed("gpt-9")
	_, gpu := GPUNamed("abacus")
	for want, err := range map[string]error{`"gpt-9", want one of llama-3.1-8b, `: shape, `"abacus", want one of a100, `: gpu, `"int3", want one of bf16, fp8`: Numerics("int3").Validate()} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// More work never takes less time, more GPUs never more but for what they say to each other.
func TestMoreWorkTakesNoLessTime(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	profile := mustParse(t, goodProfile)
	for range 2000 {
		model := Model(roofline(t, ShapeNames()[r.IntN(len(shapes))], GPUNames()[r.IntN(len(gpus))], Numerics(NumericsNames()[r.IntN(2)]), 1<<r.IntN(4)))
		if r.IntN(4) == 0 {
			model = profile
		}
		n, start, d := r.IntN(8192), r.IntN(100_000), r.IntN(256)
		less := Step{PromptTokens: n, PromptPairs: Pairs(n, start), Decoding: d, ContextTokens: int64(d) * int64(r.IntN(4096))}
		more := less
		switch r.IntN(3) {
		case 0:
			more.Decoding++
			more.ContextTokens += 100
		case 1:
			more.PromptTokens += 16
			more.PromptPairs = Pairs(n+16, start)
		default:
			more.ContextTokens += 5000
		}
		if a, b := model.Step(less), model.Step(more); b < a || a < 0 {
			t.Fatalf("%+v takes %v, %+v takes %v", less, a, more, b)
		}
	}
}

func BenchmarkRooflineStep(b *testing.B) {
	r := roofline(b, "deepseek-v3", "h200", FP8, 8)
	var sum time.Duration
	for i := 0; b.Loop(); i++ {
		sum += r.Step(Step{PromptTokens: i & 8191, PromptPairs: Pairs(i&8191, 100), Decoding: 200, ContextTokens: 400_000})
	}
	_ = sum
}
