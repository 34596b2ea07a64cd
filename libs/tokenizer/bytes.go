package tokenizer

import (
	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

// ByteTokens is the vocabulary of Bytes: one token per byte, then the control tokens.
const ByteTokens = 256 + 3

// Bytes returns the tokenizer of a vocabulary without any file, for engines that know no
// text: token b is the byte b, and the last three are the control tokens <|im_start|>,
// <|im_end|> and <|endoftext|>, the latter two of which end a generation.
func Bytes() *Tokenizer {
	s := &spec.Tokenizer{
		BPE:          &spec.BPE{Unk: -1},
		PreTokenizer: []spec.Step{{Type: "ByteLevel"}},
		Decoder:      []spec.Step{{Type: "ByteLevel"}},
	}
	for _, r := range newByteAlphabet() {
		s.BPE.Vocab = append(s.BPE.Vocab, string(r))
	}
	for i, text := range []string{"<|im_start|>", "<|im_end|>", "<|endoftext|>"} {
		s.Added = append(s.Added, spec.AddedToken{ID: uint32(256 + i), Content: text, Special: true})
	}
	t, err := build(s)
	if err != nil {
		panic(err) // the vocabulary is this one
	}
	t.ends = []sequence.Token{257, 258}
	return t
}
