//go:build !linux

package memory

import (
	"errors"
	"fmt"
	"runtime"
)

// Shared needs memfd, which only Linux has.
func Shared(size int) (*Memory, error) {
	return nil, fmt.Errorf("map %d shared bytes on %s: %w", size, runtime.GOOS, errors.ErrUnsupported)
}

// Retire needs shared memory.
func (m *Memory) Retire(touched, keep []Range) error {
	return fmt.Errorf("retire memory on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
