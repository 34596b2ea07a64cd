package normalize

import (
	"strings"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

var benchTexts = map[string]string{
	"ascii":   strings.Repeat("The quick brown fox jumps over the lazy dog; it was 42 years old.\n", 1000),
	"french":  strings.Repeat("L'été dernier, les élèves ont préféré rester à l'école près du château. ", 1000),
	"russian": strings.Repeat("Съешь ещё этих мягких французских булок, да выпей же чаю. ", 1000),
	"chinese": strings.Repeat("敏捷的棕色狐狸跳过了懒狗，然后继续向前走去。", 1000),
	"hindi":   strings.Repeat("सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता प्राप्त है। ", 500),
	"korean":  strings.Repeat("모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. ", 500),
	// Decomposed, so that every word takes the slow way.
	"decomposed": strings.Repeat("Tie\u0302\u0301ng Vie\u0323\u0302t co\u0301 da\u0302\u0301u. ", 1000),
	// Marks in an order that makes each one move.
	"marks": "a" + strings.Repeat("\u0301\u0327\u0345\u0335", 20000),
	"jamo":  strings.Repeat("\u1100\u1161\u11a8", 10000),
}

func benchmark(b *testing.B, steps []spec.Step, texts ...string) {
	c, err := New(steps)
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range texts {
		text := benchTexts[name]
		b.Run(name, func(b *testing.B) {
			var dst []byte
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				dst = c.Append(dst[:0], text)
			}
		})
	}
}

func BenchmarkNFC(b *testing.B) {
	benchmark(b, []spec.Step{{Type: "NFC"}}, "ascii", "french", "russian", "chinese", "hindi", "korean", "decomposed", "marks", "jamo")
}

func BenchmarkNFKC(b *testing.B) {
	benchmark(b, []spec.Step{{Type: "NFKC"}}, "ascii", "french", "chinese", "decomposed")
}

func BenchmarkNFD(b *testing.B) {
	benchmark(b, []spec.Step{{Type: "NFD"}}, "ascii", "french", "korean", "marks")
}

func BenchmarkSame(b *testing.B) {
	c, err := New([]spec.Step{{Type: "NFC"}})
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"ascii", "french", "russian", "chinese"} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(benchTexts[name])))
			for b.Loop() {
				if !c.Same(benchTexts[name]) {
					b.Fatal("not the same")
				}
			}
		})
	}
}

func BenchmarkLowercase(b *testing.B) {
	benchmark(b, []spec.Step{{Type: "Lowercase"}}, "ascii", "russian")
}

func BenchmarkLlama(b *testing.B) {
	benchmark(b, []spec.Step{{Type: "Prepend", Content: "▁"}, {Type: "Replace", Pattern: " ", Content: "▁"}}, "ascii", "chinese")
}

func BenchmarkT5(b *testing.B) {
	benchmark(b, answeredSteps(b)["T5"], "ascii", "french", "chinese", "hindi", "decomposed", "marks")
}

func BenchmarkAligned(b *testing.B) {
	c, err := New([]spec.Step{{Type: "NFC"}})
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"ascii", "decomposed"} {
		b.Run(name, func(b *testing.B) {
			var dst []byte
			var spans []Span
			b.SetBytes(int64(len(benchTexts[name])))
			for b.Loop() {
				dst, spans = c.AppendAligned(dst[:0], spans[:0], benchTexts[name])
			}
		})
	}
}

// BenchmarkNew is the load of the tables, which is done once.
func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		newUnicodeData()
	}
}
