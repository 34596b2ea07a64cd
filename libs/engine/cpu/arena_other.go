//go:build !linux

package cpu

// arena is memory for weights; here the Go heap.
type arena struct{ bytes []byte }

func newArena(n int) (*arena, error) { return &arena{bytes: make([]byte, n)}, nil }

func (a *arena) close() error {
	a.bytes = nil
	return nil
}
