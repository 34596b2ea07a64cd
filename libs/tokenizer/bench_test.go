package tokenizer

import (
	"runtime"
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

// BenchmarkEncode encodes text that was seen, by stretches that are known. `switchyard bench
// tokenizer` also has what is new.
func BenchmarkEncode(b *testing.B) {
	for _, model := range []string{"llama3_1", "qwen3", "gemma3"} {
		tok := fromFile(b, model)
		for name, text := range texts(b, 1_000_000) {
			b.Run(model+"/"+name, func(b *testing.B) { benchmarkEncode(b, tok, text) })
			unknown := fromFile(b, model)
			unknown.segments = nil
			b.Run(model+"/"+name+"/by pieces", func(b *testing.B) { benchmarkEncode(b, unknown, text) })
		}
	}
}

func benchmarkEncode(b *testing.B, tok *Tokenizer, text string) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	var out []sequence.Token
	for b.Loop() {
		out = tok.Encode(out[:0], text, NoSpecial)
	}
}

func BenchmarkDetokenizer(b *testing.B) {
	tok := load(b)
	tokens := tok.Encode(nil, strings.Repeat("The decode worker coordinates every hand-off. ", 100), NoSpecial)
	d := tok.NewDetokenizer(NoSpecial)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		d.Push(tokens[i%len(tokens)])
		i++
	}
}
