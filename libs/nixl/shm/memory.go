//go:build linux

package shm

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/region"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
)

// openMemory maps the regions that a peer passed, each over as many descriptors as it
// takes, and closes the descriptors. It takes none that could change its size.
func openMemory(infos []nixl.RegionInfo, fds []int) (regions []*region.Region, err error) {
	defer func() {
		closeFDs(fds)
		if err != nil {
			closeAll(regions)
		}
	}()
	rest := fds
	for i, info := range infos {
		m, used, err := memory.Open(rest, info.Bytes())
		if err != nil {
			return regions, fmt.Errorf("the peer's region %d: %w", i, err)
		}
		regions, rest = append(regions, region.New(nixl.RegionID(i), info, m)), rest[used:]
	}
	if len(rest) > 0 {
		return regions, fmt.Errorf("the peer passed %d descriptors for %d regions, %d too many", len(fds), len(infos), len(rest))
	}
	return regions, nil
}

// closeAll unmaps a peer's regions. An address that was mapped once cannot fail to be unmapped.
func closeAll(regions []*region.Region) {
	for _, r := range regions {
		_ = r.Close()
		_ = r.Memory().Close()
	}
}

func closeFDs(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
