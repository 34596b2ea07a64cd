// Package region holds mapped memory: an agent's own regions, and its mappings of
// its peers'. It starts no goroutine.
package region

import (
	"fmt"
	"sync"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/gate"
)

// Region is mapped memory that is unmapped when the last copy has left it.
type Region struct {
	id    nixl.RegionID
	info  nixl.RegionInfo
	bytes []byte
	// Gate is entered by whoever copies from or to the memory.
	Gate gate.Gate

	once  sync.Once
	unmap func([]byte) error
	err   error
}

var _ nixl.Region = (*Region)(nil)

// New wraps memory that unmap gives back; bytes may be longer than the blocks
// need, by the rest of a page.
func New(id nixl.RegionID, info nixl.RegionInfo, bytes []byte, unmap func([]byte) error) *Region {
	return &Region{id: id, info: info, bytes: bytes, unmap: unmap}
}

// ID is the region's number.
func (r *Region) ID() nixl.RegionID { return r.id }

// Bytes is the memory.
func (r *Region) Bytes() []byte { return r.bytes[:r.info.Bytes():r.info.Bytes()] }

// Layout is that of each block.
func (r *Region) Layout() block.Layout { return r.info.Layout }

// Blocks is the number of blocks.
func (r *Region) Blocks() int { return r.info.Blocks }

// Close waits for the copies that use the memory and unmaps it.
func (r *Region) Close() error {
	r.once.Do(func() {
		<-r.Gate.Shut(fmt.Errorf("region %d is closed: %w", r.id, nixl.ErrClosed))
		if err := r.unmap(r.bytes); err != nil {
			r.err = fmt.Errorf("unmap region %d: %w", r.id, err)
		}
	})
	return r.err
}
