package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/engine"
	"github.com/switchyard-llm/switchyard/libs/engine/sim/timing"
	"github.com/switchyard-llm/switchyard/libs/tokenizer"
)

// VocabTokens is the vocabulary of a simulated model without a tokenizer of its own: that of
// tokenizer.Bytes.
const VocabTokens = tokenizer.ByteTokens

// MaxTP bounds the GPUs that share a model.
const MaxTP = 64

// Config says what is simulated.
type Config struct {
	// Model is the name under which the model is served.
	Model string
	// Shape and Numerics decide how large the keys and values of a token are.
	Shape    timing.Shape
	Numerics timing.Numerics
	// TP is how many GPUs share the model; part of the layout, not of the KV format.
	TP int
	// Timing says how long a step takes.
	Timing timing.Model
	// SpeedUp divides all times; 0 or infinity is as fast as can be.
	SpeedUp float64
	// BlockTokens is the size of a block.
	BlockTokens int
	// ContextTokens is the longest sequence; 0 is the shape's.
	ContextTokens int
	// Vocabulary is the model's. Nil: each byte is a token.
	Vocabulary *Vocabulary
	// Tiers are where blocks go that the device's pool gave up.
	Tiers TierConfig
}

// Validate names the first field that cannot be.
func (c Config) Validate() error {
	switch {
	case c.Shape.Layers < 1:
		return errors.New("shape is empty, want a model's")
	case c.Numerics.Validate() != nil:
		return fmt.Errorf("numerics %w", c.Numerics.Validate())
	case c.TP < 1 || c.TP > MaxTP:
		return fmt.Errorf("tp is %d, want 1 to %d", c.TP, MaxTP)
	case c.Timing == nil:
		return errors.New("timing is nil, want a model of it")
	case math.IsNaN(c.SpeedUp) || c.SpeedUp < 0:
		return fmt.Errorf("speedup is %g, want at least 0", c.SpeedUp)
	case c.BlockTokens < 1:
		return fmt.Errorf("block_tokens is %d, want at least 1", c.BlockTokens)
	case c.ContextTokens < 0:
		return fmt.Errorf("context_tokens is %d, want at least 0", c.ContextTokens)
	}
	if err := c.Vocabulary.validate(); err != nil {
		return fmt.Errorf("vocabulary %w", err)
	}
	return c.Tiers.validate()
}

// Waits says whether a factor of speed leaves anything to wait for.
func Waits(speedUp float64) bool { return speedUp > 0 && !math.IsInf(speedUp, 1) }

// layout is that of the rows that are really kept: one KV head, which every rank of the group
// has. So the memory of rank 0 stands for the group's, whatever its TP.
func (c Config) layout() block.Layout {
	l := block.Layout{BlockTokens: c.BlockTokens, Layers: layers, KVHeads: 1, HeadDim: 1, ElemBytes: c.Vocabulary.elemBytes()}
	if c.TP > 1 {
		l.TPSize = c.TP
	}
	return l
}

func (c Config) card() engine.Card {
	format := fmt.Appendf(nil, "%s %s %s protocol=%d", numericsID, c.Shape.Name, c.Numerics, protocolVersion)
	sum := sha256.Sum256(c.Vocabulary.appendFormat(format))
	context := c.ContextTokens
	if context == 0 {
		context = c.Shape.ContextTokens
	}
	return engine.Card{
		Model: c.Model, VocabTokens: c.Vocabulary.size(), LogitTokens: c.Vocabulary.logits(), ContextTokens: context,
		Layout: c.layout(), KVRowBytes: c.Shape.KVBytes(c.Numerics),
		KVFormat: hex.EncodeToString(sum[:16]), NumericsID: numericsID, Exact: true, Pace: c.pace(),
	}
}

// What the pace is read off the timing model with: some rows of a prompt, and some sequences of a usual length.
const (
	paceRows      = 2048
	paceSequences = 8
)

// pace is what the timing model says; nothing where nobody waits for it.
func (c Config) pace() engine.Pace {
	if !Waits(c.SpeedUp) {
		return engine.Pace{}
	}
	decode := func(n, context int64) time.Duration {
		return c.Timing.Step(timing.Step{Decoding: int(n), ContextTokens: context})
	}
	one, some := decode(1, paceRows), decode(1+paceSequences, paceRows)
	sequence := max(0, some-one) / paceSequences
	context := float64(max(0, decode(1+paceSequences, (1+paceSequences)*paceRows)-some)) / (paceSequences * paceRows)
	step := max(0, one-sequence-time.Duration(context*paceRows))
	prompt := c.Timing.Step(timing.Step{PromptTokens: paceRows, PromptPairs: timing.Pairs(paceRows, 0)})
	real := func(d time.Duration) time.Duration { return time.Duration(float64(d) / c.SpeedUp) }
	return engine.Pace{
		Token: real(max(0, prompt-step) / paceRows), Step: real(step), Sequence: real(sequence), Context: context / c.SpeedUp,
	}
}
