// Package native calls NVIDIA's NIXL library, libnixl_capi.so, by addresses that
// dlopen found. It needs none of NIXL's headers, and a binary that holds it runs
// without the library.
//
// It is the calls alone: no peers, no checks, no waiting. The Go side starts no
// goroutine; an Agent has a thread of NIXL's own, which serves its peers' transfers
// until Destroy. No call calls back into Go, and C keeps no Go pointer.
package native

import (
	"fmt"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// Status is a nixl_capi_status_t other than success. The C API folds most of NIXL's errors, a
// lost peer among them, into Backend.
type Status int32

// The C API's values.
const (
	InProgress   Status = 1
	success      Status = 0
	InvalidParam Status = -1
	Backend      Status = -2
	InvalidState Status = -3
	Exception    Status = -4
	NoTelemetry  Status = -5
	NotFound     Status = -6
)

func (s Status) Error() string {
	for _, n := range []struct {
		status Status
		name   string
	}{
		{InProgress, "in progress"}, {InvalidParam, "invalid parameter"}, {Backend, "error of the backend"}, {InvalidState, "invalid state"},
		{Exception, "exception"}, {NoTelemetry, "no telemetry"}, {NotFound, "not found"},
	} {
		if s == n.status {
			return "NIXL: " + n.name
		}
	}
	return fmt.Sprintf("NIXL: status %d", int32(s))
}

// Unwrap is the sentinel that has the same meaning, or nil.
func (s Status) Unwrap() error {
	switch s {
	case InProgress:
		return nixl.ErrInProgress
	case InvalidParam:
		return nixl.ErrDescriptor
	case NotFound:
		return nixl.ErrUnknownPeer
	}
	return nil
}

// Err is nil for success.
func (s Status) Err() error {
	if s == success {
		return nil
	}
	return s
}

// Note is a notification, with the NIXL name of the agent that says to have sent it.
type Note struct {
	From    string
	Payload []byte
}
