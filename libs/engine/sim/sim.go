package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/engine"
	"github.com/switchyard-llm/switchyard/libs/engine/sim/timing"
)

// certain is a logit beside which no other counts, at any temperature.
const certain = 1e6

// Sim is the simulated executor.
type Sim struct {
	cfg    Config
	card   engine.Card
	blocks int
	tiers  *tiers // nil: there are none

	// Owned by the step loop.
	rows *rows
	pace pace
}

var _ engine.Executor = (*Sim)(nil)

// New makes an executor.
func New(cfg Config) (*Sim, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("sim: %w", err)
	}
	s := &Sim{cfg: cfg, card: cfg.card()}
	if Waits(cfg.SpeedUp) {
		s.pace.speedUp = cfg.SpeedUp
	}
	if cfg.Tiers.any() {
		s.tiers = newTiers(cfg.Tiers)
	}
	return s, nil
}

// Card implements engine.Executor.
func (s *Sim) Card() engine.Card { return s.card }

// Bind implements engine.Executor.
func (s *Sim) Bind(m block.Memory) (err error) {
	var d device
	if s.tiers != nil {
		d = s
	}
	s.rows, err = newRows(m, d)
	s.blocks = m.Blocks()
	return err
}

// Step implements engine.Executor. It writes all rows at once, tells of each layer when its
// share of the modelled time is over, and returns when all of it is.
func (s *Sim) Step(ctx context.Context, b *engine.Batch) error {
	begin := s.pace.begin()
	took, err := s.compute(b)
	if err != nil {
		return err
	}
	listening := false
	for i := range b.Segments {
		listening = listening || b.Segments[i].Placed != nil
	}
	for layer := range layers {
		if !listening && layer < layers-1 {
			continue
		}
		if err := s.pace.until(ctx, begin, took*time.Duration(layer+1)/layers); err != nil {
			return err
		}
		for i := range b.Segments {
			if segment := &b.Segments[i]; segment.Placed != nil {
				segment.Placed(layer, segment.Start, segment.Start+len(segment.Tokens))
			}
		}
	}
	return nil
}

// compute writes the rows of a batch, fills its logits and answers the modelled time.
func (s *Sim) compute(b *engine.Batch) (time.Duration, error) {
	var step timing.Step
	var loaded load
	used := 0
	for i := range b.Segments {
		segment := &b.Segments[i]
		state, err := s.rows.arrive(segment.Blocks, segment.Start, len(segment.Tokens), segment.Root)
		if err != nil {
			return 0, fmt.Errorf("sim: positions before %d: %w", segment.Start, err)
		}
		found := s.write(segment, &state)
		loaded.add(found)
		if n := len(segment.Tokens); n == 1 && segment.Start > 0 {
			step.Decoding++
			step.ContextTokens += int64(segment.Start + 1)
		} else {
			step.PromptTokens += n - found.tokens
			step.PromptPairs += timing.Pairs(n, segment.Start) - found.pairs
		}
		used += len(segment.Blocks)
		if segment.Logits != nil {
			clear(segment.Logits)
			segment.Logits[s.cfg.Vocabulary.draw(state)] = certain
		}
	}
	step.PoolUsed = min(1, float64(used)/float64(s.blocks))
	return s.cfg.Timing.Step(step) + loaded.time(s.cfg.Tiers, s.card), nil
}

// write puts the segment's tokens into their rows, and looks in the lower tiers for the blocks
// that it fills from the first row on.
func (s *Sim) write(segment *engine.Segment, state *uint32) load {
	var found load
	size, end := s.card.Layout.BlockTokens, segment.Start+len(segment.Tokens)
	for position := segment.Start; position < end; {
		at, row := position/size, position%size
		b, n := segment.Blocks[at], min(size-row, end-position)
		if at > 0 && row == 0 {
			s.rows.known[segment.Blocks[at-1]].fresh = false
		}
		*state = s.rows.write(b, row, segment.Tokens[position-segment.Start:][:n], *state)
		position += n
		if s.tiers == nil || row+n < size {
			continue
		}
		parent := segment.Root
		if at > 0 {
			parent = s.rows.known[segment.Blocks[at-1]].hash
		}
		s.rows.hash(b, parent)
		// One token of a prompt is always computed: its logits are wanted.
		if n == size && (segment.Logits == nil || position < end) {
			found.add(s.tiers.fetch(s.rows.known[b].hash, position-size, size))
		}
	}
	return found
}
