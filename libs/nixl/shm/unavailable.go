//go:build !linux

package shm

import (
	"fmt"
	"runtime"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// New answers ErrUnavailable: the transport needs memfd and pidfd.
func New(Config) (nixl.Agent, error) {
	return nil, fmt.Errorf("shm on %s: %w", runtime.GOOS, nixl.ErrUnavailable)
}
