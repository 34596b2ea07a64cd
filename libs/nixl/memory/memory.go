// Package memory maps the bytes in which KV blocks lie, so that agents of several
// transports can register the same memory. It is never Go heap: the kernel, other
// processes and devices address it.
//
// It does not know blocks, peers or transfers, and starts no goroutine.
package memory

import (
	"fmt"
	"slices"
	"sync"
	"unsafe"
)

// Kind says where memory lies.
type Kind uint8

const (
	// DRAM is this machine's main memory.
	DRAM Kind = iota
	// VRAM is a GPU's memory, which the CPU does not reach by its address. It was not
	// tried on a GPU yet.
	VRAM
)

func (k Kind) String() string {
	switch k {
	case DRAM:
		return "DRAM"
	case VRAM:
		return "VRAM"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Memory is a run of bytes. Its methods may be called concurrently.
type Memory struct {
	kind    Kind
	device  int
	address uintptr
	size    int
	bytes   []byte // nil for VRAM

	mu     sync.Mutex // guards files and pinned
	files  []File     // that others may map, in the order of their addresses
	epoch  uint64     // how often Retire replaced some
	pinned bool

	once  sync.Once
	close func() error
	err   error
}

// File is a descriptor that other processes can map, and its size.
type File struct{ FD, Bytes int }

// Range is a run of bytes within a Memory.
type Range struct{ Offset, Bytes int }

// Kind says where it lies.
func (m *Memory) Kind() Kind { return m.kind }

// Device numbers the GPU of VRAM; 0 for DRAM.
func (m *Memory) Device() int { return m.device }

// Address is that of the first byte, in this process or on the device.
func (m *Memory) Address() uintptr { return m.address }

// Size is in bytes.
func (m *Memory) Size() int { return m.size }

// Bytes is the memory, or nil for VRAM. It must not be used after Close.
func (m *Memory) Bytes() []byte { return m.bytes }

// Files are those behind shared memory, one after the other; other memory has none. They
// live as long as m, or until a Retire replaces them.
func (m *Memory) Files() []File {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.files)
}

// Epoch counts the Retires: who mapped the memory in an earlier epoch may not reach all of it.
func (m *Memory) Epoch() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.epoch
}

// Pin says that something holds the memory's pages, such as a network card: they cannot be
// replaced from now on.
func (m *Memory) Pin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pinned = true
}

// Close gives the memory back. All regions over it must have been closed. It is
// idempotent.
func (m *Memory) Close() error {
	m.once.Do(func() {
		if m.close == nil {
			return
		}
		if err := m.close(); err != nil {
			m.err = fmt.Errorf("unmap %d bytes: %w", m.size, err)
		}
	})
	return m.err
}

// Device describes a run of bytes on a GPU that somebody else has allocated and
// frees after Close.
func Device(address uintptr, size, device int) (*Memory, error) {
	if address == 0 || size < 1 || device < 0 {
		return nil, fmt.Errorf("device memory: address %#x, %d bytes, device %d; want an address, at least 1 byte, device 0 or above", address, size, device)
	}
	return &Memory{kind: VRAM, device: device, address: address, size: size}, nil
}

// mapped wraps bytes of this process's address space.
func mapped(bytes []byte, files []File, close func() error) *Memory {
	return &Memory{
		address: uintptr(unsafe.Pointer(unsafe.SliceData(bytes))), size: len(bytes), bytes: bytes, files: files, close: close,
	}
}

func checkSize(size int) error {
	if size < 1 {
		return fmt.Errorf("map %d bytes: want at least 1", size)
	}
	return nil
}
