package region

import (
	"errors"
	"fmt"
	"sync"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
)

var errSealed = errors.New("the agent's metadata has been given out, and peers would not see the region")

// Table is an agent's own regions. The zero value is empty. Its methods may be
// called concurrently.
type Table struct {
	mu      sync.Mutex // guards all below
	sealed  bool
	regions []*Region
}

// Add gives the region the next id.
func (t *Table) Add(m *memory.Memory, layout block.Layout, blocks int) (*Region, error) {
	info := nixl.RegionInfo{Layout: layout, Blocks: blocks}
	if err := info.Validate(); err != nil {
		return nil, fmt.Errorf("register: %w", err)
	}
	if m.Size() < info.Bytes() {
		return nil, fmt.Errorf("register %d blocks of %d bytes: the memory has %d bytes, want at least %d",
			blocks, layout.BlockBytes(), m.Size(), info.Bytes())
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sealed {
		return nil, fmt.Errorf("register %d blocks: %w", blocks, errSealed)
	}
	if len(t.regions) == nixl.MaxRegions {
		return nil, fmt.Errorf("register %d blocks: the agent has %d regions already", blocks, nixl.MaxRegions)
	}
	r := New(nixl.RegionID(len(t.regions)), info, m)
	t.regions = append(t.regions, r)
	return r, nil
}

// Seal ends the registration and returns what was registered, by id.
func (t *Table) Seal() []*Region {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sealed = true
	return t.regions
}

// Infos describes regions for metadata.
func Infos(regions []*Region) []nixl.RegionInfo {
	infos := make([]nixl.RegionInfo, len(regions))
	for i, r := range regions {
		infos[i] = r.info
		infos[i].Epoch = r.Epoch()
	}
	return infos
}

// Find returns the region of that id.
func Find(side string, regions []*Region, id nixl.RegionID) (*Region, error) {
	if id < 0 || int(id) >= len(regions) {
		return nil, fmt.Errorf("no %s region %d among %d: %w", side, id, len(regions), nixl.ErrDescriptor)
	}
	return regions[id], nil
}
