package region

import (
	"errors"
	"fmt"
	"sync"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
)

var errSealed = errors.New("the agent's metadata has been given out, and peers would not see the region")

// Table is an agent's own regions. The zero value is empty. Its methods may be
// called concurrently.
type Table struct {
	mu      sync.Mutex // guards all below
	sealed  bool
	regions []*Region
}

// Add maps a region by make and gives it the next id.
func (t *Table) Add(layout block.Layout, blocks int, make func(nixl.RegionID, nixl.RegionInfo) (*Region, error)) (*Region, error) {
	info := nixl.RegionInfo{Layout: layout, Blocks: blocks}
	if err := info.Validate(); err != nil {
		return nil, fmt.Errorf("register: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sealed {
		return nil, fmt.Errorf("register %d blocks: %w", blocks, errSealed)
	}
	if len(t.regions) == nixl.MaxRegions {
		return nil, fmt.Errorf("register %d blocks: the agent has %d regions already", blocks, nixl.MaxRegions)
	}
	r, err := make(nixl.RegionID(len(t.regions)), info)
	if err != nil {
		return nil, fmt.Errorf("register %d blocks of %d bytes: %w", blocks, layout.BlockBytes(), err)
	}
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
	}
	return infos
}

// Pair finds the two regions of a request and checks it against them.
func Pair(local, remote []*Region, r nixl.Request) (*Region, *Region, error) {
	l, err := find("local", local, r.Local)
	if err != nil {
		return nil, nil, err
	}
	m, err := find("remote", remote, r.Remote)
	if err != nil {
		return nil, nil, err
	}
	if err := nixl.SameLayout(l.info.Layout, m.info.Layout); err != nil {
		return nil, nil, err
	}
	return l, m, nixl.CheckCopies(r.Op, r.Copies, l.info.Bytes(), m.info.Bytes())
}

func find(side string, regions []*Region, id nixl.RegionID) (*Region, error) {
	if id < 0 || int(id) >= len(regions) {
		return nil, fmt.Errorf("no %s region %d among %d: %w", side, id, len(regions), nixl.ErrDescriptor)
	}
	return regions[id], nil
}
