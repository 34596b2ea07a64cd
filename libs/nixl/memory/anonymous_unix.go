//go:build unix

package memory

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Anonymous maps zeroed memory of this process alone. It is backed as it is touched.
func Anonymous(size int) (*Memory, error) {
	if err := checkSize(size); err != nil {
		return nil, err
	}
	bytes, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	adviseHuge(bytes)
	return mapped(bytes, nil, func() error { return unix.Munmap(bytes) }), nil
}
