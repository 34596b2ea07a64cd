//go:build unix

package region

import (
	"golang.org/x/sys/unix"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// Anonymous maps memory of this process alone.
func Anonymous(id nixl.RegionID, info nixl.RegionInfo) (*Region, error) {
	bytes, err := unix.Mmap(-1, 0, info.Bytes(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	adviseHuge(bytes)
	return New(id, info, bytes, unix.Munmap), nil
}
