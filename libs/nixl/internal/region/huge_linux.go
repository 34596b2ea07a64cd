package region

import (
	"golang.org/x/sys/unix"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// adviseHuge asks for huge pages, which make copies faster. A kernel without them
// refuses, and the memory works as well without.
func adviseHuge(bytes []byte) { _ = unix.Madvise(bytes, unix.MADV_HUGEPAGE) }

// Shared maps the memory of a file descriptor, which may be closed afterwards.
func Shared(id nixl.RegionID, info nixl.RegionInfo, fd int) (*Region, error) {
	bytes, err := unix.Mmap(fd, 0, info.Bytes(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	adviseHuge(bytes)
	return New(id, info, bytes, unix.Munmap), nil
}
