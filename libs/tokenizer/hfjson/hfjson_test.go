package hfjson

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/testfiles"
)

// tiny is a model with a merge.
const tiny = `"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "<u>": 3}, "merges": ["a b"]}`

func decode(t *testing.T, members ...string) *spec.Tokenizer {
	t.Helper()
	out, err := Decode([]byte("{" + strings.Join(members, ", ") + "}"))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRealFilesAreReadInFull(t *testing.T) {
	for model, want := range map[string]struct {
		tokens, merges, added    int
		normalizer, pre, decoder string
		prefix                   []uint32
	}{
		"llama3_1":     {128000, 280147, 256, "", "Split ByteLevel", "ByteLevel", []uint32{128000}},
		"qwen3":        {151643, 151387, 26, "NFC", "Split ByteLevel", "ByteLevel", nil},
		"gptoss":       {199998, 446189, 21, "", "Split ByteLevel", "ByteLevel", nil},
		"gpt4o":        {200019, 199742, 2, "", "Split ByteLevel", "ByteLevel", nil},
		"deepseek_v3":  {128000, 127741, 818, "", "Split Split Split ByteLevel", "ByteLevel", nil},
		"gemma3":       {262144, 514906, 6415, "Replace", "Split", "Replace ByteFallback Fuse", []uint32{2}},
		"llama2":       {32000, 58980, 3, "Prepend Replace", "", "Replace ByteFallback Fuse Strip", []uint32{1}},
		"gemma2":       {256000, 580604, 249, "Replace", "Split", "Replace ByteFallback Fuse", []uint32{2}},
		"claude":       {65000, 64739, 5, "NFKC", "ByteLevel", "ByteLevel", nil},
		"mistral_nemo": {131072, 269443, 1000, "", "Split ByteLevel", "ByteLevel", []uint32{1}},
	} {
		t.Run(model, func(t *testing.T) {
			got, err := Decode(read(t, model))
			if err != nil {
				t.Fatal(err)
			}
			if got.BPE == nil || len(got.BPE.Vocab) != want.tokens || len(got.BPE.Merges) != want.merges || len(got.Added) != want.added {
				t.Errorf("%d tokens, %d merges, %d added, want %+v", len(got.BPE.Vocab), len(got.BPE.Merges), len(got.Added), want)
			}
			types := []string{types(got.Normalizer), types(got.PreTokenizer), types(got.Decoder)}
			if diff := cmp.Diff([]string{want.normalizer, want.pre, want.decoder}, types); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(want.prefix, got.Prefix); diff != "" {
				t.Error(diff)
			}
			for i, m := range got.BPE.Merges {
				if v := got.BPE.Vocab; v[m.Left]+v[m.Right] != v[m.Result] {
					t.Fatalf("merge %d joins %q and %q to %q", i, v[m.Left], v[m.Right], v[m.Result])
				}
			}
		})
	}
}

func types(steps []spec.Step) string {
	var out []string
	for _, s := range steps {
		out = append(out, s.Type)
	}
	return strings.Join(out, " ")
}

func read(t testing.TB, model string) []byte {
	t.Helper()
	data, err := os.ReadFile(testfiles.File(t, model))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestAFileIsReadWhateverTheOrderOfItsMembers(t *testing.T) {
	added := `"added_tokens": [{"id": 4, "content": "<s>", "special": true, "single_word": false, "lstrip": true, "rstrip": false, "normalized": false}]`
	merges, vocab := `"merges": [["a", "b"]]`, `"vocab": {"a": 0, "b": 1, "ab": 2, "<u>": 3}`
	post := `"post_processor": {"type": "BertProcessing", "cls": ["<s>", 4], "sep": ["a", 0]}`
	want := &spec.Tokenizer{
		BPE:   &spec.BPE{Vocab: []string{"a", "b", "ab", "<u>"}, Merges: []spec.Merge{{Left: 0, Right: 1, Result: 2}}, Unk: 3, FuseUnk: true},
		Added: []spec.AddedToken{{ID: 4, Content: "<s>", Special: true, LStrip: true}}, Prefix: []uint32{4}, Suffix: []uint32{0},
	}
	options := `"unk_token": "<u>", "fuse_unk": true, "byte_fallback": null, "dropout": 0.0, "end_of_word_suffix": ""`
	for _, members := range [][]string{
		{added, post, fmt.Sprintf(`"model": {%s, %s, "type": "BPE", %s}`, merges, options, vocab)},
		{fmt.Sprintf(`"model": {"type": "BPE", %s, %s, %s}`, vocab, merges, options), post, `"version": "1.0"`, `"truncation": {"max_length": 7}`, added},
	} {
		if diff := cmp.Diff(want, decode(t, members...)); diff != "" {
			t.Errorf("%s:\n%s", members, diff)
		}
	}
}

func TestMergesMayBeLines(t *testing.T) {
	got := decode(t, `"model": {"vocab": {"\"": 0, "\u00e9": 1, "\"é": 2, "\\": 4, "\"é\\": 3}, "merges": ["#version: 0.2", "\" é", "\"\u00e9 \\"]}`)
	want := &spec.BPE{Vocab: []string{`"`, "é", `"é`, `"é\`, `\`}, Merges: []spec.Merge{{Left: 0, Right: 1, Result: 2}, {Left: 2, Right: 4, Result: 3}}, Unk: -1}
	if diff := cmp.Diff(want, got.BPE); diff != "" {
		t.Error(diff)
	}
}

func TestAVocabularyMayHaveHoles(t *testing.T) {
	got := decode(t, `"model": {"type": "BPE", "vocab": {"a": 0, "b": 5}, "merges": []}`)
	if diff := cmp.Diff([]string{"a", "", "", "", "", "b"}, got.BPE.Vocab); diff != "" {
		t.Error(diff)
	}
}

func TestAUnigramIsRead(t *testing.T) {
	got := decode(t, `"model": {"type": "Unigram", "unk_id": 1, "vocab": [["a", -1.5], ["<u>", 0], ["\u2581b", -2e1]], "byte_fallback": true}`)
	want := &spec.Unigram{Pieces: []spec.Piece{{Text: "a", Score: -1.5}, {Text: "<u>"}, {Text: "▁b", Score: -20}}, Unk: 1, ByteFallback: true}
	if diff := cmp.Diff(want, got.Unigram); diff != "" {
		t.Error(diff)
	}
}

const addedFlags = `"special": false, "single_word": false, "lstrip": false, "rstrip": false, "normalized": true`

func TestAddedTokensAreCountedAsTheReferenceDoes(t *testing.T) {
	token := func(id int, content string) string {
		return fmt.Sprintf(`{"id": %d, "content": %q, %s}`, id, content, addedFlags)
	}
	got := decode(t, tiny, fmt.Sprintf(`"added_tokens": [%s, %s, %s, %s, %s]`,
		token(2, "ab"), token(4, "x"), token(9, ""), token(4, "x"), token(5, "y")))
	var ids []uint32
	for _, a := range got.Added {
		ids = append(ids, a.ID)
	}
	if diff := cmp.Diff([]uint32{2, 4, 5}, ids); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, model := range testfiles.Models() {
		b.Run(model, func(b *testing.B) {
			data := read(b, model)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Decode(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
