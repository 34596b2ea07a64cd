//go:build !unix

package memory

import (
	"errors"
	"fmt"
	"runtime"
)

// Anonymous cannot map memory on this system.
func Anonymous(size int) (*Memory, error) {
	return nil, fmt.Errorf("map %d bytes on %s: %w", size, runtime.GOOS, errors.ErrUnsupported)
}
