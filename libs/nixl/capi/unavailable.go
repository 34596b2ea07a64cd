//go:build !cgo || !linux

package capi

import (
	"fmt"
	"runtime"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// New answers ErrUnavailable: the library is reached through cgo, on Linux.
func New(Config) (nixl.Agent, error) {
	_, err := Available()
	return nil, err
}

// Available answers ErrUnavailable.
func Available() (path string, err error) {
	if runtime.GOOS != "linux" {
		return "", fmt.Errorf("%w on %s", ErrUnavailable, runtime.GOOS)
	}
	return "", fmt.Errorf("%w: built without cgo", ErrUnavailable)
}
