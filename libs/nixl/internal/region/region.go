// Package region holds registered memory: an agent's own regions, and its mappings of
// its peers'. It starts no goroutine.
package region

import (
	"fmt"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/gate"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
)

// Region is memory that copies may use until it is closed.
type Region struct {
	id     nixl.RegionID
	info   nixl.RegionInfo
	memory *memory.Memory
	// Gate is entered by whoever copies from or to the memory.
	Gate gate.Gate
}

var _ nixl.Region = (*Region)(nil)

// New makes a region of memory that is at least as long as its blocks need.
func New(id nixl.RegionID, info nixl.RegionInfo, m *memory.Memory) *Region {
	return &Region{id: id, info: info, memory: m}
}

// ID is the region's number.
func (r *Region) ID() nixl.RegionID { return r.id }

// Epoch is the memory's own, or for a peer's memory the one in which it was mapped.
func (r *Region) Epoch() uint64 { return r.info.Epoch + r.memory.Epoch() }

// Memory is what the region lies in.
func (r *Region) Memory() *memory.Memory { return r.memory }

// Info describes the region.
func (r *Region) Info() nixl.RegionInfo { return r.info }

// Bytes is the part of the memory that holds blocks, or nil for memory of a device.
func (r *Region) Bytes() []byte {
	if r.memory.Bytes() == nil {
		return nil
	}
	return r.memory.Bytes()[:r.info.Bytes():r.info.Bytes()]
}

// Layout is that of each block.
func (r *Region) Layout() block.Layout { return r.info.Layout }

// Blocks is the number of blocks.
func (r *Region) Blocks() int { return r.info.Blocks }

// Close waits for the copies that use the memory. Later ones are refused.
func (r *Region) Close() error {
	<-r.Gate.Shut(fmt.Errorf("region %d is closed: %w", r.id, nixl.ErrClosed))
	return nil
}
