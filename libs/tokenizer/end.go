package tokenizer

import (
	"slices"

	"github.com/switchyard-llm/switchyard/libs/gguf"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// endTokens lists the tokens that end a generation, by the rule of llama.cpp: what
// the metadata names, and every token with a name that is known to end turns or
// texts, whatever its kind; such a token is a control token (markEnds). Left out
// of that rule are the fill-in-the-middle separators (<reponame>, <|file_sep|>, …):
// in SmolLM2's vocabulary they are structure of documents.
func endTokens(f *gguf.File, t *Tokenizer) ([]sequence.Token, error) {
	var ends []sequence.Token
	for _, key := range []string{"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"} {
		id, ok, err := tokenKey(f, key, t.VocabTokens())
		if err != nil {
			return nil, err
		}
		if ok {
			ends = append(ends, id)
		}
	}
	names := endNames()
	for id := range sequence.Token(t.VocabTokens()) {
		if slices.Contains(names, t.vocab.text(id)) {
			ends = append(ends, id)
		}
	}
	slices.Sort(ends)
	return withoutFalseEnds(slices.Compact(ends), &t.vocab), nil
}

// markEnds makes control tokens of those that are known by name.
func (r *ggufReader) markEnds() {
	for id, text := range r.texts {
		if slices.Contains(endNames(), text) {
			r.types[id] = ggufControl
		}
	}
}

func endNames() []string {
	return []string{
		"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>", "<|endoftext|>",
		"</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>",
		"<|tool_response>", "<｜end▁of▁sentence｜>", "[e~[",
	}
}

// withoutFalseEnds drops <|end|> where it ends a message within a turn, and </s>
// where it is a leftover beside the tokens of a newer chat format.
func withoutFalseEnds(ends []sequence.Token, v *vocabulary) []sequence.Token {
	has := func(names ...string) bool {
		for _, name := range names {
			if !slices.ContainsFunc(ends, func(id sequence.Token) bool { return v.text(id) == name }) {
				return false
			}
		}
		return true
	}
	messageEnd := has("<|return|>", "<|call|>") || has("<|flush|>", "<|calls|>")
	leftover := has("<|tool_response>")
	return slices.DeleteFunc(ends, func(id sequence.Token) bool {
		text := v.text(id)
		return messageEnd && text == "<|end|>" || leftover && text == "</s>"
	})
}
