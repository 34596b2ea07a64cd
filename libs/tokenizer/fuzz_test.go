package tokenizer

import (
	"bytes"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/gguf"
)

// FuzzFromGGUF gives hostile vocabularies: whatever is in the metadata, there is an error or a
// tokenizer that encodes.
func FuzzFromGGUF(f *testing.F) {
	for _, model := range []string{"gpt2", "llama", "t5"} {
		var file bytes.Buffer // as small as can be: what a fuzzer finds it makes smaller still
		if err := gguf.Write(&file, []gguf.Pair{
			{Key: "tokenizer.ggml.model", Value: model},
			{Key: "tokenizer.ggml.pre", Value: "gpt-2"},
			{Key: "tokenizer.ggml.tokens", Value: []string{"<s>", "a", "b", "ab", "<0x41>", "▁"}},
			{Key: "tokenizer.ggml.token_type", Value: []int32{3, 1, 1, 1, 6, 2}},
			{Key: "tokenizer.ggml.scores", Value: []float32{0, -1, -2, -3, 0, 0}},
			{Key: "tokenizer.ggml.merges", Value: []string{"a b"}},
		}, nil); err != nil {
			f.Fatal(err)
		}
		f.Add(file.Bytes(), "ab <s>A")
	}
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		file, err := gguf.Parse(data)
		if err != nil {
			return
		}
		tok, err := FromGGUF(file)
		if err != nil {
			return
		}
		tokens := tok.Encode(nil, text, NoSpecial)
		_ = tok.Decode(tokens, WithSpecial)
		for _, id := range tokens {
			if _, special := tok.Token(id); special {
				t.Fatalf("text formed the control token %d", id)
			}
		}
	})
}

// FuzzFromJSON does the same for a tokenizer.json.
func FuzzFromJSON(f *testing.F) {
	const head = `{"version":"1.0","added_tokens":[{"id":3,"content":"<s>","special":true,"single_word":false,"lstrip":false,"rstrip":true,"normalized":true}],`
	f.Add([]byte(head+`"normalizer":{"type":"NFC"},"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true},"post_processor":null,`+
		`"decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true},"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}}`), "ab <s>")
	f.Add([]byte(head+`"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},{"type":"Replace","pattern":{"String":" "},"content":"▁"}]},`+
		`"pre_tokenizer":null,"post_processor":null,"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},`+
		`{"type":"ByteFallback"},{"type":"Fuse"}]},"model":{"type":"BPE","unk_token":"▁","fuse_unk":true,"byte_fallback":true,"vocab":{"a":0,"▁":1,"▁a":2,"<0x41>":3},"merges":[["▁","a"]]}}`), " a Ab")
	f.Add([]byte(head+`"normalizer":null,"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true},"post_processor":null,`+
		`"decoder":{"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true},"model":{"type":"Unigram","unk_id":0,"vocab":[["?",0],["▁a",-1.5],["b",-2]],"byte_fallback":false}}`), "a bc")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		tok, err := FromJSON(data)
		if err != nil {
			return
		}
		tokens := tok.Encode(nil, text, WithSpecial)
		_ = tok.Decode(tokens, NoSpecial)
		offsets, spans := tok.Offsets(text, WithSpecial)
		if len(offsets) != len(tokens) || len(spans) != len(tokens) {
			t.Fatalf("%d tokens, %d with offsets", len(tokens), len(offsets))
		}
		for _, id := range tok.Encode(nil, text, NoSpecial) {
			if _, special := tok.Token(id); special {
				t.Fatalf("text formed the control token %d", id)
			}
		}
	})
}
