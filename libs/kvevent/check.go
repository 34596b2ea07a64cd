package kvevent

import (
	"fmt"

	kveventv1 "github.com/switchyard-llm/switchyard/proto/switchyard/kvevent/v1"
)

// nameBytes bounds the names in a batch, which are kept.
const nameBytes = 256

// check takes a batch apart if it is one that can be used here.
func (f *Follower) check(b *kveventv1.Batch) (span, error) {
	switch {
	case b.GetModel() != f.cfg.Model:
		return span{}, fmt.Errorf("model is %q, want %q", b.GetModel(), f.cfg.Model)
	case f.cfg.BlockTokens != 0 && int(b.GetBlockTokens()) != f.cfg.BlockTokens:
		return span{}, fmt.Errorf("block_tokens is %d, want %d", b.GetBlockTokens(), f.cfg.BlockTokens)
	}
	for _, n := range []struct{ name, value string }{{"worker", b.GetWorker()}, {"incarnation", b.GetIncarnation()}} {
		if n.value == "" || len(n.value) > nameBytes {
			return span{}, fmt.Errorf("%s has %d bytes, want 1 to %d", n.name, len(n.value), nameBytes)
		}
	}
	return decode(b.GetFirstSequence(), b.GetRuns())
}

// checkPart takes a part of a snapshot apart if it belongs to the ones before it.
func (f *Follower) checkPart(p *kveventv1.SnapshotPart, source Source, sequence uint64) (span, error) {
	switch {
	case p.GetIncarnation() != source.Incarnation || p.GetDpRank() != source.Rank:
		return span{}, fmt.Errorf("it is of rank %d of life %q, want %d of %q",
			p.GetDpRank(), p.GetIncarnation(), source.Rank, source.Incarnation)
	case p.GetSequence() != sequence:
		return span{}, fmt.Errorf("sequence is %d, want %d as before", p.GetSequence(), sequence)
	case f.cfg.BlockTokens != 0 && int(p.GetBlockTokens()) != f.cfg.BlockTokens:
		return span{}, fmt.Errorf("block_tokens is %d, want %d", p.GetBlockTokens(), f.cfg.BlockTokens)
	}
	s, err := decode(1, p.GetRuns())
	for i := range s.runs {
		if s.runs[i].kind != kveventv1.Kind_KIND_STORED {
			return span{}, fmt.Errorf("runs.kinds[%d] is %v, want stored", i, s.runs[i].kind)
		}
	}
	return s, err
}
