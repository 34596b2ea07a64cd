package kvevent

import "github.com/switchyard-llm/switchyard/libs/block"

// Pool is which of a model's pools a worker is of. A decode and a prefill worker may have one name, so
// each pool has its events and followers for itself.
type Pool string

const (
	Decode  Pool = "decode"
	Prefill Pool = "prefill"
)

// Source is whose blocks an event is about: one data-parallel rank of one life of a worker.
type Source struct {
	Worker string
	// Incarnation names the life; a later one sorts after an earlier one.
	Incarnation string
	Rank        uint32
}

// Sink takes what a Follower has found out. Its calls come one at a time, in the order in which
// they are true, and for one life of a rank at a time: Gone before the first call for the next.
// A call must not keep its slices.
type Sink interface {
	// Stored says that a tier holds a chain of blocks, of which the first follows parent (the
	// root of a namespace, for the first block of a prompt). Of blocks that are stored already
	// it changes nothing.
	Stored(s Source, tier block.Tier, parent block.Hash, chain []block.Hash)
	// Removed says that a tier holds these blocks no more.
	Removed(s Source, tier block.Tier, hashes []block.Hash)
	// Reset says that all it held is void, in every tier. Where a snapshot takes its place, the
	// Stored calls follow at once.
	Reset(s Source)
	// Gone is Reset for a source that will not be heard of any more.
	Gone(s Source)
}
