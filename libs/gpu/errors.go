package gpu

import "errors"

var (
	// ErrUnavailable: there is no driver here; the message says what was looked for.
	ErrUnavailable = errors.New("no NVIDIA driver")
	// ErrLost: the GPU does not answer any more, or wants a reset.
	ErrLost = errors.New("the GPU is lost")
	// ErrUnknown: no GPU here has that UUID.
	ErrUnknown = errors.New("unknown GPU")
	// ErrClosed: the Machine was closed.
	ErrClosed = errors.New("the GPU inventory is closed")
)
