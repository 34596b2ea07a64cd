package route

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Synthetic makes a trace of conversations of so many requests, for when there is no real
// one at hand: every conversation begins with one of a few system prompts, each turn
// repeats the one before and adds to it, and arrivals have a clock of 3 s, about ten
// requests to a tick. The error is a number of requests that cannot be.
func Synthetic(requests int, seed uint64) (*Trace, error) {
	const most = 1 << 20
	if requests < 1 || requests > most {
		return nil, fmt.Errorf("%d requests, want 1 to %d", requests, most)
	}
	g := generator{random: rand.New(rand.NewPCG(seed, 1)), trace: &Trace{}}
	for i := range requests {
		c := g.conversation()
		r := g.turn(c)
		r.index, r.Tick = i, time.Duration(i/10)*3*time.Second
		g.trace.Requests = append(g.trace.Requests, r)
	}
	return g.trace, nil
}

// generator makes a synthetic trace.
type generator struct {
	random  *rand.Rand
	trace   *Trace
	systems [4][]int32
	open    []*conversation
}

// conversation is what its next turn begins with.
type conversation struct {
	runs   []int32 // whole ones
	tokens int     // of them and what comes after
}

// conversation goes on with an open one, or begins one.
func (g *generator) conversation() *conversation {
	const most, longest = 64, 24_000
	if len(g.open) > 0 && g.random.IntN(3) > 0 {
		i := g.random.IntN(len(g.open))
		c := g.open[i]
		if c.tokens < longest && len(g.open) <= most {
			return c
		}
		g.open[i] = g.open[len(g.open)-1]
		g.open = g.open[:len(g.open)-1]
	}
	i := g.random.IntN(len(g.systems))
	if g.systems[i] == nil {
		g.systems[i] = g.fresh(1 + i)
	}
	runs := g.systems[i]
	c := &conversation{runs: runs[:len(runs):len(runs)], tokens: len(runs) * RunTokens}
	g.open = append(g.open, c)
	return c
}

// turn adds a question of a log-normal length; its answer is part of the next turn.
func (g *generator) turn(c *conversation) Request {
	input := c.tokens + 1 + int(min(60_000, 800*math.Exp(g.random.NormFloat64())))
	output := 1 + int(min(2000, 200*math.Exp(g.random.NormFloat64())))
	whole := input / RunTokens
	c.runs = append(c.runs, g.fresh(whole-len(c.runs))...)
	r := Request{InputTokens: input, OutputTokens: output, Runs: append([]int32(nil), c.runs...)}
	if input%RunTokens > 0 { // the run that it ends in will have other tokens after it
		r.Runs = append(r.Runs, g.fresh(1)...)
	}
	c.tokens = input + output
	return r
}

func (g *generator) fresh(runs int) []int32 {
	list := make([]int32, max(0, runs))
	for i := range list {
		list[i] = int32(g.trace.Runs)
		g.trace.Runs++
	}
	return list
}
