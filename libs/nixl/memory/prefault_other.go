//go:build !linux

package memory

// Prefault does nothing here: the memory is backed as it is touched.
func (m *Memory) Prefault() error { return nil }

// Segments are none without shared memory.
func (m *Memory) Segments([]Range) []Range { return nil }
