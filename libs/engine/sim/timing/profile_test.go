package timing

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const goodProfile = `{
	"prefill": {"tokens": [100, 1000, 2000], "ms": [20, 56, 116]},
	"decode": {"sequences": [1, 11], "context_tokens": [1000, 3000], "ms": [[8, 10], [18, 30]]}}`

func mustParse(t testing.TB, text string) *Profile {
	t.Helper()
	p, err := ParseProfile([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAProfileIsLinearBetweenItsPoints(t *testing.T) {
	file := filepath.Join(t.TempDir(), "profile.json")
	if err := os.WriteFile(file, []byte(goodProfile), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := LoadProfile(file)
	if err != nil {
		t.Fatal(err)
	}
	prompt := func(n, start int) Step { return Step{PromptTokens: n, PromptPairs: Pairs(n, start)} }
	for _, c := range []struct {
		name string
		step Step
		ms   float64
	}{
		{"nothing", Step{}, 0},
		{"below the first", prompt(10, 0), 20},
		{"at a point", prompt(1000, 0), 56},
		{"between two", prompt(550, 0), 38},
		{"beyond the last", prompt(3000, 0), 176},
		{"after cached ones", prompt(1000, 1000), 60},
		{"a few after cached ones", prompt(100, 1000), 20},
		{"one decoding", Step{Decoding: 1, ContextTokens: 2000}, 9},
		{"some decoding", Step{Decoding: 6, ContextTokens: 2000}, (9 + 24) / 2.},
		{"decoding beyond the last", Step{Decoding: 21, ContextTokens: 4000}, 61},
		{"both", Step{PromptTokens: 100, PromptPairs: Pairs(100, 0), Decoding: 11, ContextTokens: 1000}, 38},
	} {
		want := time.Duration(c.ms * 1e6)
		if got := p.Step(c.step); (got - want).Abs() > time.Microsecond {
			t.Errorf("%s: %v, want %v", c.name, got, want)
		}
	}
}

func TestAProfileThatCannotBeIsRefusedByField(t *testing.T) {
	for want, text := range map[string]string{
		"unknown field":                             `{"prefil": {}}`,
		"text follows":                              goodProfile + `{}`,
		"prefill.tokens has 0 points, want":         `{}`,
		"prefill.tokens[1] is 5, want more than 10": `{"prefill": {"tokens": [10, 5], "ms": [1, 2]}}`,
		"prefill.ms has 1 times, want 2":            `{"prefill": {"tokens": [10, 50], "ms": [1]}}`,
		"prefill.ms[0] is -1, want":                 `{"prefill": {"tokens": [10], "ms": [-1]}}`,
		"decode.sequences has 0 points":             `{"prefill": {"tokens": [10], "ms": [1]}}`,
		"decode.ms has 1 lines, want":               `{"prefill": {"tokens": [10], "ms": [1]}, "decode": {"sequences": [1, 2], "context_tokens": [1], "ms": [[1]]}}`,
		"decode.ms[1] has 2 times, want 1":          `{"prefill": {"tokens": [10], "ms": [1]}, "decode": {"sequences": [1, 2], "context_tokens": [1], "ms": [[1], [1, 2]]}}`,
	} {
		if _, err := ParseProfile([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	if _, err := LoadProfile(filepath.Join(t.TempDir(), "none.json")); err == nil {
		t.Error("a file that is not there was read")
	}
}

func FuzzParseProfile(f *testing.F) {
	f.Add([]byte(goodProfile), 5, 100, 3, 1000)
	f.Add([]byte(`{"prefill": {"tokens": [1e9], "ms": [1e9]}, "decode": {"sequences": [1], "context_tokens": [1], "ms": [[1e-9]]}}`), 1<<30, 1<<30, 1<<30, 1<<60)
	f.Fuzz(func(t *testing.T, text []byte, tokens, start, decoding, context int) {
		p, err := ParseProfile(text)
		if err != nil {
			return
		}
		if got := p.Step(Step{PromptTokens: tokens, PromptPairs: Pairs(tokens, start), Decoding: decoding, ContextTokens: int64(context)}); got < 0 {
			t.Errorf("a step takes %v", got)
		}
	})
}
