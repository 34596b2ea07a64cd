package route

import (
	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/prefix"
)

// token is one, as in libs/sequence.
type token = uint32

// chains gives prompts tokens, and runs the hashes that those have.
type chains struct {
	size   int            // tokens of a block
	hashes [][]block.Hash // by run
	parent []block.Hash   // by run: of the block before it
	buffer []token        // scratch
}

func newChains(c *Cluster) *chains {
	ch := &chains{size: c.Config.BlockTokens, hashes: make([][]block.Hash, c.Trace.Runs), parent: make([]block.Hash, c.Trace.Runs)}
	root := prefix.Root(model, "", "")
	for i := range c.Trace.Requests {
		ch.hash(root, &c.Trace.Requests[i])
	}
	return ch
}

// hash fills in the runs of a request that are not known yet, or only in part.
func (c *chains) hash(root block.Hash, r *Request) {
	parent := root
	for place, run := range r.Runs {
		if whole := r.tokens(place) / c.size; len(c.hashes[run]) < whole {
			c.parent[run] = parent
			c.hashes[run] = prefix.Chain(make([]block.Hash, 0, whole), parent, c.fill(run, whole*c.size), c.size)
		}
		if n := len(c.hashes[run]); n > 0 {
			parent = c.hashes[run][n-1]
		}
	}
}

// fill makes up the tokens of a run: equal runs have equal ones, and different ones none in common.
func (c *chains) fill(run int32, tokens int) []token {
	c.buffer = c.buffer[:0]
	for range tokens {
		c.buffer = append(c.buffer, token(run))
	}
	return c.buffer
}

// tokens makes up a prompt. It is valid until the next call.
func (c *chains) tokens(r *Request) []token {
	c.buffer = c.buffer[:0]
	for place, run := range r.Runs {
		for range r.tokens(place) {
			c.buffer = append(c.buffer, token(run))
		}
	}
	return c.buffer
}

// of are the hashes of a run's blocks, and that of the block before.
func (c *chains) of(run int32, from, to int) (chain []block.Hash, parent block.Hash) {
	parent = c.parent[run]
	if from > 0 {
		parent = c.hashes[run][from-1]
	}
	return c.hashes[run][from:to], parent
}
