package sim

import (
	"os"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/tokenizer"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/testfiles"
)

func TestAnswersAreMadeOfShortWords(t *testing.T) {
	for _, model := range []string{"llama3_1", "qwen3", "gptoss"} {
		data, err := os.ReadFile(testfiles.File(t, model))
		if err != nil {
			t.Fatal(err)
		}
		tok, err := tokenizer.FromJSON(data)
		if err != nil {
			t.Fatal(err)
		}
		v, err := NewVocabulary(tok)
		if err != nil {
			t.Fatalf("%s: %v", model, err)
		}
		seen := map[string]bool{}
		for _, id := range v.answers {
			text, _ := tok.Token(id)
			if seen[text] || !isWord(text) && !isLetter(text) || int(id) >= v.logits() {
				t.Errorf("%s: answers have %q, token %d", model, text, id)
			}
			seen[text] = true
		}
		if v.size() != tok.VocabTokens() {
			t.Errorf("%s: %d tokens", model, v.size())
		}
	}
	if v, err := NewVocabulary(tokenizer.Bytes()); err == nil {
		t.Errorf("of bytes: %v, want an error: there are not enough letters", v.answers)
	}
}
