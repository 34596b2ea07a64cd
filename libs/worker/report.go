package worker

import (
	"fmt"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/switchyard-llm/switchyard/libs/block"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
)

// stateNames maps the pool's states to those of the contract.
var stateNames = map[block.State]instancev1.BlockState{
	block.Free:       instancev1.BlockState_BLOCK_STATE_FREE,
	block.Reserved:   instancev1.BlockState_BLOCK_STATE_RESERVED,
	block.Claimed:    instancev1.BlockState_BLOCK_STATE_CLAIMED,
	block.Open:       instancev1.BlockState_BLOCK_STATE_OPEN,
	block.Sealed:     instancev1.BlockState_BLOCK_STATE_SEALED,
	block.Held:       instancev1.BlockState_BLOCK_STATE_HELD,
	block.Quarantine: instancev1.BlockState_BLOCK_STATE_QUARANTINE,
}

// ModelCard is the engine's card as it is published.
func (w *Worker) ModelCard() *instancev1.ModelCard {
	return &instancev1.ModelCard{
		Name:             w.card.Model,
		ContextTokens:    uint32(w.card.ContextTokens),
		VocabularyTokens: uint32(w.card.VocabTokens),
		BlockTokens:      uint32(w.card.Layout.BlockTokens),
		KvRowBytes:       uint32(w.card.RowBytes()),
		KvFormat:         w.card.KVFormat,
		NumericsId:       w.card.NumericsID,
		Exact:            w.card.Exact,
		PoolBlocks:       uint32(w.region.Blocks()),
		KvEvents:         w.Events.Published(),
	}
}

// Endpoint is how peers reach the worker's memory.
func (w *Worker) Endpoint(transport string) (*instancev1.TransferEndpoint, error) {
	metadata, err := w.Agent.Metadata()
	if err != nil {
		return nil, fmt.Errorf("transfer metadata of %s: %w", w.id, err)
	}
	return &instancev1.TransferEndpoint{Transport: transport, Metadata: metadata}, nil
}

// PoolReport reads the states of all blocks from the pool's own table.
func (w *Worker) PoolReport() *instancev1.PoolReport {
	c := w.Pool.Counts()
	r := &instancev1.PoolReport{
		CapacityBlocks: uint32(c.Capacity),
		BookedBlocks:   uint32(c.Booked),
		PoisonedBlocks: w.poisoned.Load(),
		EvictedBlocks:  w.Pool.Stats().Evictions,
	}
	for state := range c.Now {
		r.States = append(r.States, &instancev1.BlockCount{
			State: stateNames[block.State(state)], Blocks: uint32(c.Now[state]), HighWaterBlocks: uint32(c.Peak[state]),
		})
	}
	return r
}

// TransportReport counts what the agent moved.
func (w *Worker) TransportReport(transport string) *instancev1.TransportReport {
	s := w.Agent.Stats()
	return &instancev1.TransportReport{
		Transport: transport, WrittenBytes: s.BytesWritten, ReadBytes: s.BytesRead,
		NotesSent: s.NotesSent, NotesReceived: s.NotesReceived,
	}
}

// LoadReport is the scheduler's report as it is published.
func (w *Worker) LoadReport() *instancev1.LoadReport {
	r := w.Scheduler.Report()
	return &instancev1.LoadReport{
		RunningSequences: uint32(r.Running), WaitingSequences: uint32(r.Waiting),
		WaitingPromptTokens: uint32(r.WaitingTokens), ActiveTokens: uint32(r.ActiveTokens),
		ComputedPromptTokens: r.PromptTokens, GeneratedTokens: r.GeneratedTokens, Steps: r.Steps,
		PrefillBusy: durationpb.New(r.PrefillBusy), DecodeBusy: durationpb.New(r.DecodeBusy),
	}
}
