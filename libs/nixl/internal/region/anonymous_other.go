//go:build !unix

package region

import (
	"fmt"
	"runtime"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// Anonymous cannot map memory on this system.
func Anonymous(nixl.RegionID, nixl.RegionInfo) (*Region, error) {
	return nil, fmt.Errorf("map memory on %s: %w", runtime.GOOS, nixl.ErrUnavailable)
}
