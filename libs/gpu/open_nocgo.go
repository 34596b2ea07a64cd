//go:build !cgo || !linux

package gpu

import (
	"fmt"
	"runtime"
)

func open(o Options) (driver, error) {
	return nil, fmt.Errorf("%w: %s was not looked for: this build for %s/%s cannot load it (it needs Linux and cgo)",
		ErrUnavailable, o.Library, runtime.GOOS, runtime.GOARCH)
}
