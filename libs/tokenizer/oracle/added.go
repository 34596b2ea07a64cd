package oracle

import (
	"strings"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/corpus"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

// added is the added tokens of a model, to put them where they touch things.
type added struct{ contents, rare []string }

// newAdded tells tokens that differ from each other, since most models have hundreds that hardly do.
func newAdded(tokens []spec.AddedToken) *added {
	a := &added{rare: []string{"<|im_start|>", "<s>", "<0x0A>", "[INST]", "▁"}} // another model's, or nobody's
	seen := map[spec.AddedToken]int{}
	for _, t := range tokens {
		a.contents = append(a.contents, t.Content)
		t.ID, t.Content = 0, strings.TrimRight(t.Content, "0123456789|>]")
		if seen[t]++; seen[t] <= 2 {
			a.rare = append(a.rare, a.contents[len(a.contents)-1])
		}
	}
	return a
}

func (a *added) texts(block int) []string {
	r := corpus.NewRandom(uint64(10000 + block))
	around := []alphabet{between('a', 'z'), eachOf(blanks), eachOf(" "), eachOf("\n"), eachOf(marks), eachOf(punctuation), anyOf("中 é 1 _ < > | [ ▁")}
	return times(500, func() string {
		var out strings.Builder
		for range 1 + r.Below(6) {
			out.WriteString(some(r, corpus.Pick(r, around), 3))
			out.WriteString(a.token(r))
		}
		return out.String() + some(r, corpus.Pick(r, around), 3)
	})
}

// token is a token, or one that lacks something.
func (a *added) token(r *corpus.Random) string {
	token := corpus.Pick(r, a.rare)
	if len(a.contents) > 0 && r.Below(2) == 0 {
		token = corpus.Pick(r, a.contents)
	}
	switch at := r.Below(len(token) + 1); r.Below(12) {
	case 0:
		return token[:at]
	case 1:
		return token[at:]
	case 2:
		return token[:at] + token
	case 3:
		return token[:at] + " " + token[at:]
	case 4:
		return strings.ToUpper(token)
	}
	return token
}
