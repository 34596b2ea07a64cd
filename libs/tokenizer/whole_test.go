package tokenizer

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/corpus"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/testfiles"
)

func fromFile(t testing.TB, model string) *Tokenizer {
	t.Helper()
	data, err := os.ReadFile(testfiles.File(t, model))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := FromJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// texts are of the kinds that take different ways through the package.
func texts(t testing.TB, size int) map[string]string {
	t.Helper()
	c := testfiles.Corpus(t)
	out := map[string]string{
		"made up": corpus.MadeUp(1000, size), "letter": corpus.OneLetter(size), "emoji": corpus.Emoji(size),
		"blanks": corpus.Spaces(size), "bytes": corpus.RandomBytes(size),
	}
	for name, of := range map[string]func(int) (string, error){"english": c.English, "code": c.Code, "cjk": c.CJK, "languages": c.Languages} {
		text, err := of(size)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = text
	}
	return out
}

func shortOr(models ...string) []string {
	if testing.Short() {
		return models[:1]
	}
	return models
}

func TestALongTextIsEncodedAsIfUncut(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4)) // parts, whatever the machine
	for _, model := range shortOr("qwen3", "gptoss", "deepseek_v3", "gemma3") {
		tok, uncut := fromFile(t, model), fromFile(t, model)
		uncut.segments = nil
		for name, text := range texts(t, 300<<10) {
			if name == "bytes" {
				text = strings.ToValidUTF8(text, "\uFFFD")
			}
			normalized := string(tok.normalizer.Append(nil, text))
			marked := tok.marks.apply(normalized, true, new(scratch))
			want := uncut.stretch(nil, marked, 0, len(marked), new(scratch))
			for round := range 2 { // the second time, segments are known
				if got := tok.plain(nil, normalized, true, new(scratch)); !slices.Equal(got, want) {
					t.Errorf("%s, %s, round %d: %s", model, name, round, firstDifference(tok, got, want))
				}
			}
		}
	}
}

func firstDifference(tok *Tokenizer, got, want []sequence.Token) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("token %d is %q, want %q", i, tok.vocab.text(got[i]), tok.vocab.text(want[i]))
		}
	}
	return fmt.Sprintf("%d tokens, want %d", len(got), len(want))
}

func TestManyEncodeAtOnce(t *testing.T) {
	tok := fromFile(t, "qwen3")
	all := texts(t, 100<<10)
	want := map[string][]sequence.Token{}
	for name, text := range all {
		want[name] = tok.Encode(nil, text, NoSpecial)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for name, text := range all {
				if got := tok.Encode(nil, text, NoSpecial); !slices.Equal(got, want[name]) {
					t.Errorf("%s: %s", name, firstDifference(tok, got, want[name]))
				}
			}
		})
	}
	wg.Wait()
}

func TestEncodingAllocatesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector, which runs the short tests, makes pools forget")
	}
	for _, model := range shortOr("qwen3", "gemma3") {
		tok := fromFile(t, model)
		for name, text := range texts(t, 20<<10) {
			if name == "bytes" {
				continue // not UTF-8: it is copied
			}
			exact := make([]sequence.Token, 0, len(tok.Encode(nil, text, NoSpecial)))
			segments := []Segment{{Text: text}}
			if n := testing.AllocsPerRun(5, func() { exact = tok.EncodeSegments(exact[:0], segments) }); n > 1 { // untrusted spans
				t.Errorf("%s, %s: %v allocations", model, name, n)
			}
		}
	}
}

func TestAnImageIsTheTokenizer(t *testing.T) {
	for _, model := range shortOr("llama3_1", "qwen3", "gemma3", "deepseek_v3", "llama2") {
		path := testfiles.File(t, model)
		cache := Cache{Folder: filepath.Join(t.TempDir(), "images"), Warn: func(err error) { t.Error(err) }}
		built, err := cache.Load(path, func() (*Tokenizer, error) { return fromFile(t, model), nil })
		if err != nil {
			t.Fatal(err)
		}
		read, err := cache.Load(path, func() (*Tokenizer, error) { return nil, fmt.Errorf("built again") })
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range texts(t, 64<<10) {
			text += "<|im_end|><|eot_id|><eos></s><｜end▁of▁sentence｜>"
			for _, special := range []Special{NoSpecial, WithSpecial} {
				want := built.Encode(nil, text, special)
				if got := read.Encode(nil, text, special); !slices.Equal(got, want) {
					t.Errorf("%s, %s: %s", model, name, firstDifference(read, got, want))
				}
				if got := read.Decode(want, special); got != built.Decode(want, special) {
					t.Errorf("%s, %s: decoded text differs", model, name)
				}
			}
		}
		if !slices.Equal(read.EndTokens(), built.EndTokens()) || !slices.Equal(read.ControlTexts(), built.ControlTexts()) || read.AddBOS() != built.AddBOS() {
			t.Errorf("%s: end tokens, control tokens or BOS differ", model)
		}
	}
}

func TestADamagedImageIsBuiltAgain(t *testing.T) {
	path := testfiles.File(t, "llama2")
	warnings := 0
	cache := Cache{Folder: t.TempDir(), Warn: func(error) { warnings++ }}
	builds := 0
	load := func() {
		t.Helper()
		if _, err := cache.Load(path, func() (*Tokenizer, error) { builds++; return fromFile(t, "llama2"), nil }); err != nil {
			t.Fatal(err)
		}
	}
	load()
	images, err := filepath.Glob(filepath.Join(cache.Folder, "*"))
	if err != nil || len(images) != 1 {
		t.Fatalf("the folder has %q, %v; want one image", images, err)
	}
	whole, err := os.ReadFile(images[0])
	if err != nil {
		t.Fatal(err)
	}
	broken := slices.Clone(whole)
	broken[len(broken)/2] ^= 1
	for i, data := range [][]byte{broken, whole[:len(whole)/2], {}} {
		if err := os.WriteFile(images[0], data, 0o600); err != nil {
			t.Fatal(err)
		}
		if load(); builds != i+2 || warnings != i+1 {
			t.Errorf("case %d: built %d times with %d warnings, want %d and %d", i, builds, warnings, i+2, i+1)
		}
	}
	if load(); builds != 4 {
		t.Error("the image that was written last was not read")
	}
}

func TestOffsetsCoverTheText(t *testing.T) {
	for _, model := range shortOr("llama3_1", "qwen3", "gemma3", "llama2", "deepseek_v3") {
		tok := fromFile(t, model)
		for name, text := range texts(t, 8<<10) {
			text += "e\u0301 <|im_end|><eos></s> \u212b"
			tokens, spans := tok.Offsets(text, WithSpecial)
			if want := tok.Encode(nil, text, WithSpecial); !slices.Equal(tokens, want) {
				t.Fatalf("%s, %s: %s", model, name, firstDifference(tok, tokens, want))
			}
			at := 0
			for i, span := range spans {
				if span.Start > span.End || span.End < at || span.Start > at {
					t.Fatalf("%s, %s: token %d %q is of bytes %v, after byte %d", model, name, i, tok.vocab.text(tokens[i]), span, at)
				}
				at = max(at, span.End)
				if model == "llama3_1" && name != "bytes" && text[span.Start:span.End] != tok.vocab.text(tokens[i]) {
					t.Fatalf("%s, %s: token %d is %q, its bytes %q", model, name, i, tok.vocab.text(tokens[i]), text[span.Start:span.End])
				}
			}
			if at != len(text) {
				t.Errorf("%s, %s: the tokens end at byte %d of %d", model, name, at, len(text))
			}
		}
	}
}
