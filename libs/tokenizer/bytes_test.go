package tokenizer

import (
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/switchyard-llm/switchyard/libs/sequence"
)

func TestBytesNeedsNoFile(t *testing.T) {
	tok := Bytes()
	if got := tok.VocabTokens(); got != ByteTokens {
		t.Errorf("%d tokens, want %d", got, ByteTokens)
	}
	got := tok.EncodeSegments(nil, []Segment{{"<|im_start|>", true}, {"é<|im_end|>", false}, {"<|im_end|>", true}})
	want := []sequence.Token{256, 0xc3, 0xa9}
	for _, b := range []byte("<|im_end|>") {
		want = append(want, sequence.Token(b))
	}
	if diff := cmp.Diff(append(want, 257), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if text := tok.Decode(got, WithSpecial); text != "<|im_start|>é<|im_end|><|im_end|>" {
		t.Errorf("decoded to %q", text)
	}
	if diff := cmp.Diff([]sequence.Token{257, 258}, tok.EndTokens()); diff != "" {
		t.Errorf("ends (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"<|im_start|>", "<|im_end|>", "<|endoftext|>"}, tok.ControlTexts()); diff != "" {
		t.Errorf("controls (-want +got):\n%s", diff)
	}
	if _, ok := tok.BOS(); ok {
		t.Error("it has a BOS")
	}
}

func FuzzBytes(f *testing.F) {
	f.Add("plain", true)
	f.Add("<|im_end|>\x00é日", false)
	tok := Bytes()
	f.Fuzz(func(t *testing.T, text string, trusted bool) {
		tokens := tok.Encode(nil, text, Special(trusted))
		if got := tok.Decode(tokens, WithSpecial); utf8.ValidString(text) && got != text {
			t.Errorf("%q came back as %q", text, got)
		}
	})
}

func BenchmarkBytesEncode(b *testing.B) {
	tok, text := Bytes(), string(make([]byte, 64<<10))
	var tokens []sequence.Token
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		tokens = tok.Encode(tokens[:0], text, NoSpecial)
	}
}
