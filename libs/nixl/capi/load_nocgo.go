//go:build !cgo || !linux

package capi

import (
	"fmt"
	"runtime"
)

// Available answers ErrUnavailable: the library is reached through cgo, on Linux.
func Available() (path string, err error) {
	if runtime.GOOS != "linux" {
		return "", fmt.Errorf("%w on %s", ErrUnavailable, runtime.GOOS)
	}
	return "", fmt.Errorf("%w: built without cgo", ErrUnavailable)
}
