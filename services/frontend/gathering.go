package frontend

import (
	"cmp"
	"math"
	"slices"
	"strings"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	"github.com/switchyard-llm/switchyard/services/frontend/openai"
)

// gathering is what has come of the choices of an answer that is passed on as a whole.
type gathering struct {
	req  *generationv1.Request
	all  []candidate
	n    int // choices wanted of each prompt
	best bool
}

// candidate is a choice that is wanted, or may turn out to be.
type candidate struct {
	text     strings.Builder
	choice   *generationv1.Choice
	logprobs float64 // their sum
	tokens   int     // that have one
}

// newGathering is for a complete request.
func newGathering(req *generationv1.Request) *gathering {
	g := &gathering{req: req, n: int(openai.Choices(req)), best: req.GetBestOf() > 0}
	g.all = make([]candidate, partsOf(req)*int(openai.Candidates(req)))
	for i := range g.all {
		g.all[i].choice = &generationv1.Choice{}
	}
	return g
}

// add takes in chunks of the answer.
func (g *gathering) add(chunks []*generationv1.Chunk) error {
	for _, c := range chunks {
		g.addOne(c)
	}
	return nil
}

func (g *gathering) addOne(c *generationv1.Chunk) {
	one := &g.all[c.GetChoice()]
	one.text.WriteString(c.GetText())
	if g.best {
		for _, t := range c.GetLogprobs() {
			one.logprobs += float64(t.GetLogprob())
		}
		one.tokens += len(c.GetLogprobs())
	}
	if g.req.Logprobs != nil { // else they only tell the best
		one.choice.Logprobs = append(one.choice.Logprobs, c.GetLogprobs()...)
	}
	one.choice.TokenIds = append(one.choice.TokenIds, c.GetTokenIds()...)
	if ids := c.GetPromptTokenIds(); len(ids) > 0 { // it comes once, and may be long
		one.choice.PromptTokenIds = ids
	}
	if c.GetFinishReason() != generationv1.FinishReason_FINISH_REASON_UNSPECIFIED {
		one.choice.FinishReason, one.choice.Served = c.GetFinishReason(), c.GetServed()
	}
}

// choices gives those that are wanted, numbered anew.
func (g *gathering) choices() []*generationv1.Choice {
	var out []*generationv1.Choice
	for group := range slices.Chunk(g.all, int(openai.Candidates(g.req))) {
		for _, i := range g.kept(group) {
			choice := group[i].choice
			choice.Index, choice.Text = uint32(len(out)), group[i].text.String()
			out = append(out, choice)
		}
	}
	return out
}

// kept gives the candidates of one prompt that are wanted: the likeliest, best first.
func (g *gathering) kept(group []candidate) []int {
	order := make([]int, len(group))
	for i := range order {
		order[i] = i
	}
	if g.best {
		slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(group[j].mean(), group[i].mean()) })
	}
	return order[:g.n]
}

// mean is the mean log-probability of the tokens; that of none is the least.
func (c *candidate) mean() float64 {
	mean := c.logprobs / float64(c.tokens)
	if c.tokens == 0 || math.IsNaN(mean) {
		return math.Inf(-1)
	}
	return mean
}
