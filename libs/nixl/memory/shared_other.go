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
