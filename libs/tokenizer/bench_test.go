package tokenizer

import (
	"strings"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/gguf"
	"github.com/switchyard-llm/switchyard/libs/modelstore/modeltest"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

func open(t testing.TB) *gguf.File {
	t.Helper()
	f, err := gguf.Open(modeltest.TestModel(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func load(t testing.TB) *Tokenizer {
	t.Helper()
	tok, err := FromGGUF(open(t))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func BenchmarkFromGGUF(b *testing.B) {
	f := open(b)
	for b.Loop() {
		if _, err := FromGGUF(f); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkTexts() map[string]string {
	return map[string]string{
		"prose":      strings.Repeat("The decode worker coordinates every hand-off; it doesn't wait for the 2nd attempt. ", 1000),
		"code":       strings.Repeat("func (c *cursor) take(n uint64, field string) ([]byte, error) {\n\tif n > c.remaining() {\n\t\treturn nil, fault(c.pos, field)\n\t}\n", 700),
		"chinese":    strings.Repeat("人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心。", 1000),
		"one letter": strings.Repeat("a", 100_000),
		"blanks":     strings.Repeat(" ", 100_000),
	}
}

func BenchmarkEncode(b *testing.B) {
	tok := load(b)
	for name, text := range benchmarkTexts() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			var out []sequence.Token
			for b.Loop() {
				out = tok.Encode(out[:0], text, NoSpecial)
			}
		})
	}
}

func BenchmarkDetokenizer(b *testing.B) {
	tok := load(b)
	tokens := tok.Encode(nil, benchmarkTexts()["prose"], NoSpecial)
	d := tok.NewDetokenizer(NoSpecial)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		d.Push(tokens[i%len(tokens)])
		i++
	}
}
