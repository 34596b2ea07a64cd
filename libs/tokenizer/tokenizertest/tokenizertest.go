// Package tokenizertest gives tests a small vocabulary to build model files with.
// It is not for programs.
package tokenizertest

import "github.com/switchyard-llm/switchyard/libs/gguf"

// VocabTokens is the size of the vocabulary: three control tokens and every byte.
const VocabTokens = 3 + 256

// The control tokens. EndOfText and TurnEnd end a generation.
const (
	EndOfText = 0 // <|endoftext|>
	TurnStart = 1 // <|im_start|>, the BOS
	TurnEnd   = 2 // <|im_end|>, the EOS
	FirstByte = 3 // the token of byte b is FirstByte + b
)

// ChatTemplate is in the form of ChatML, without a default system message.
const ChatTemplate = `{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}` +
	`{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

// Pairs is the metadata of the vocabulary, without merges, and of the chat template.
func Pairs() []gguf.Pair {
	tokens := []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}
	types := []int32{3, 3, 3} // control
	next := rune(0x100)
	for b := range rune(256) { // the byte alphabet of GPT-2
		r := b
		if !('!' <= b && b <= '~' || '¡' <= b && b <= '¬' || '®' <= b) {
			r, next = next, next+1
		}
		tokens = append(tokens, string(r))
		types = append(types, 1) // normal
	}
	return []gguf.Pair{
		{Key: "tokenizer.ggml.model", Value: "gpt2"},
		{Key: "tokenizer.ggml.pre", Value: "smollm"},
		{Key: "tokenizer.ggml.tokens", Value: tokens},
		{Key: "tokenizer.ggml.token_type", Value: types},
		{Key: "tokenizer.ggml.merges", Value: []string{}},
		{Key: "tokenizer.ggml.bos_token_id", Value: uint32(TurnStart)},
		{Key: "tokenizer.ggml.eos_token_id", Value: uint32(TurnEnd)},
		{Key: "tokenizer.ggml.add_bos_token", Value: false},
		{Key: "tokenizer.chat_template", Value: ChatTemplate},
	}
}
