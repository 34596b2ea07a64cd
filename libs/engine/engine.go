// Package engine says what a worker expects of an inference engine.
//
// An Executor is one forward pass over a batch of rows; the scheduler forms the
// batches. Nothing here starts a goroutine.
package engine

import (
	"context"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// Card declares what an engine is: what peers must agree on and what callers may expect.
type Card struct {
	// Model is the name under which the model is served.
	Model string
	// VocabTokens is the size of the vocabulary.
	VocabTokens int
	// LogitTokens is the length of a row of logits: tokens from there on are never drawn. 0 is
	// VocabTokens.
	LogitTokens int
	// ContextTokens is the longest sequence, prompt and output together.
	ContextTokens int
	// Layout is how the engine keeps keys and values in a block.
	Layout block.Layout
	// KVRowBytes is how many bytes of keys and values a token stands for, over all layers and
	// ranks, when time is reckoned; 0 is what the layout keeps. The blocks of a simulated engine hold less.
	KVRowBytes int
	// KVFormat is a digest of all that makes keys and values mean the same: weights,
	// numerics, KV type, positional scheme. Peers with unequal formats never exchange blocks.
	KVFormat string
	// NumericsID names the kernel family, reduction order, weight and KV type. Exact
	// engines with equal ids compute the same bits.
	NumericsID string
	// Exact promises that a row's result depends on nothing but its own tokens:
	// not on the batch, the chunking, the threads or the instruction set.
	Exact bool
	// Pace is what the engine says of its own speed before anything was measured; zero: it does not know.
	Pace Pace
}

// Pace is roughly how long steps take: Step + n·Sequence + t·Context for n sequences that get one token each
// and attend to t tokens together, and Token more for every row of a prompt. Context is in nanoseconds,
// since it is a fraction of one where bandwidth is high.
type Pace struct {
	Token, Step, Sequence time.Duration
	Context               float64
}

// Logits is the length of a row of logits.
func (c *Card) Logits() int {
	if c.LogitTokens > 0 {
		return c.LogitTokens
	}
	return c.VocabTokens
}

// RowBytes is KVRowBytes, or what the layout keeps of a token.
func (c *Card) RowBytes() int {
	if c.KVRowBytes > 0 {
		return c.KVRowBytes
	}
	return c.Layout.RowBytes()
}

// Executor runs forward passes. Step is called by one goroutine at a time.
type Executor interface {
	// Card is constant.
	Card() Card
	// Bind gives the memory in which the executor keeps keys and values. It is
	// called once, before the first Step, with a memory of the card's layout.
	Bind(block.Memory) error
	// Step computes every segment of the batch: it writes the keys and values of the
	// new tokens into their blocks and fills the logits that are wanted. It reads
	// no position of a block that was not written before. On an error no result of
	// the batch may be used.
	Step(ctx context.Context, b *Batch) error
}

// Batch is what one step computes.
type Batch struct{ Segments []Segment }

// Segment is a run of new tokens of one sequence: a chunk of a prompt, or the one
// token of a decode step. Segments of a batch belong to different sequences.
type Segment struct {
	// Tokens are the new tokens, at least one.
	Tokens []sequence.Token
	// Start is the absolute position of the first of them; all positions before
	// it are in the blocks already.
	Start int
	// Root is where the hash chain of the sequence's blocks starts (block.Prompt).
	Root block.Hash
	// Blocks is the sequence's block table: position p lies in
	// Blocks[p / BlockTokens], row p mod BlockTokens. It covers all new tokens.
	Blocks []block.ID
	// Logits, unless nil, has Card.Logits elements and receives the logits after the last token.
	Logits []float32
	// Placed, unless nil, is called from within Step once the keys and values of a layer lie
	// in the blocks for the positions [from, to), and will not change any more: for every layer
	// and position once, positions in order. It must return at once. When Step then returns an
	// error, what it told is void like all other results.
	Placed func(layer, from, to int)
}
