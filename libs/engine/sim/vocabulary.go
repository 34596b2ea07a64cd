package sim

import (
	"fmt"
	"strings"

	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/tokenizer"
)

// answerTokens is how many tokens answers are made of.
const answerTokens = 1 << (32 - answerShift)

// answerShift leaves the bits of a state that draw one.
const answerShift = 27

// logitTokens bounds the tokens that answers are made of, so that a row of logits is short: with
// one of a whole vocabulary, drawing would take more time than all the rest.
const logitTokens = 512

// Vocabulary is that of a model whose prompts are tokenized in earnest. The methods of nil are
// those of tokenizer.Bytes.
type Vocabulary struct {
	tokens  int
	answers [answerTokens]sequence.Token
}

const alphabet = "abcdefghijklmnopqrstuvwxyz"

// letters are what answers in bytes are made of.
const letters = alphabet + " eeat "

// NewVocabulary takes a tokenizer's. Answers are made of some of its short words.
func NewVocabulary(t *tokenizer.Tokenizer) (*Vocabulary, error) {
	v, n := &Vocabulary{tokens: t.VocabTokens()}, 0
	for _, fits := range []func(string) bool{isWord, isLetter} {
		for id := range sequence.Token(v.logits()) {
			if text, special := t.Token(id); n < answerTokens && !special && fits(text) {
				v.answers[n] = id
				n++
			}
		}
	}
	if n < answerTokens {
		return nil, fmt.Errorf("has %d short words and letters among the first %d tokens, want %d", n, v.logits(), answerTokens)
	}
	return v, nil
}

// isWord says whether a text is a blank and two letters or more.
func isWord(text string) bool {
	return len(text) > 2 && text[0] == ' ' && strings.Trim(text[1:], alphabet) == ""
}

func isLetter(text string) bool { return len(text) == 1 && strings.Contains(alphabet, text) }

func (v *Vocabulary) validate() error {
	if v != nil && v.tokens < 1 {
		return fmt.Errorf("has %d tokens, want NewVocabulary's", v.tokens)
	}
	return nil
}

func (v *Vocabulary) size() int {
	if v == nil {
		return VocabTokens
	}
	return v.tokens
}

func (v *Vocabulary) logits() int {
	if v == nil {
		return VocabTokens
	}
	return min(logitTokens, v.tokens)
}

// elemBytes is what half of a row takes: its token must fit.
func (v *Vocabulary) elemBytes() int {
	if v.size() > 1<<16 {
		return 4
	}
	return 2
}

// draw is the token that follows a state.
func (v *Vocabulary) draw(state uint32) sequence.Token {
	if v == nil {
		return sequence.Token(letters[state>>answerShift])
	}
	return v.answers[state>>answerShift]
}

// appendFormat adds to what makes up the KV format.
func (v *Vocabulary) appendFormat(dst []byte) []byte {
	if v == nil {
		return dst
	}
	return fmt.Appendf(dst, " vocabulary=%d %v", v.tokens, v.answers)
}
