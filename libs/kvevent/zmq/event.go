package zmq

import (
	"strings"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// The tags of events.
const (
	tagStored  = "BlockStored"
	tagRemoved = "BlockRemoved"
	tagCleared = "AllBlocksCleared"
)

// batch is one message of an engine.
type batch struct {
	time    float64 // seconds since 1970
	rank    int     // data-parallel; -1: not said
	events  []event
	unknown int // events of other kinds, which were passed over
}

// hash is an engine's own hash: 8 bytes, big-endian, for one that came as a number.
type hash string

// event is one of an engine's events.
type event struct {
	tag    string
	hashes []hash

	// Of stored ones.
	parent    hash // empty: the first block of a prompt
	tokens    []sequence.Token
	blockSize int
	lora      string
	extra     [][]string // by block: what else its content depends on, each key as text; nil: nothing
	spec      string     // kind of the cache group; empty: not said
	window    int        // of a group of sliding windows, in tokens

	tier  block.Tier
	group int // cache group; 0 if not said
}

// full says that a block of the event's cache group holds all of its tokens, so that finding it
// is a hit. Groups of sliding windows and of states hold less.
func (e *event) full() bool {
	return e.window == 0 && (e.spec == "" || e.spec == "mla_attention" || strings.HasSuffix(e.spec, "full_attention"))
}

// tierOf makes a tier of vLLM's medium.
func tierOf(medium string) block.Tier {
	switch medium {
	case "", "GPU":
		return block.Device
	case "CPU":
		return block.Host
	}
	return block.Disk // whatever else holds blocks is further away than memory
}

var mediumOf = [block.Tiers]string{block.Device: "GPU", block.Host: "CPU", block.Disk: "DISK"}
