package memory

import (
	"strings"
	"testing"
)

func TestMappedMemoryIsZeroedAndWritable(t *testing.T) {
	for name, open := range map[string]func(int) (*Memory, error){"anonymous": Anonymous, "shared": Shared} {
		m, err := open(5000)
		if err != nil {
			t.Fatal(name, err)
		}
		b := m.Bytes()
		if len(b) != 5000 || m.Size() != 5000 || m.Kind() != DRAM || m.Device() != 0 || m.Address() == 0 {
			t.Errorf("%s: %d bytes, size %d, %s", name, len(b), m.Size(), m.Kind())
		}
		for i := range b {
			if b[i] != 0 {
				t.Fatalf("%s: byte %d is %d", name, i, b[i])
			}
			b[i] = 1
		}
		if shared := len(m.Files()) > 0; shared != (name == "shared") {
			t.Errorf("%s: has files: %t", name, shared)
		}
		for range 2 {
			if err := m.Close(); err != nil {
				t.Error(name, err)
			}
		}
		if _, err := open(0); err == nil || !strings.Contains(err.Error(), "at least 1") {
			t.Errorf("%s of 0 bytes: %v", name, err)
		}
	}
}

func TestDeviceMemoryIsDescribedOnly(t *testing.T) {
	m, err := Device(0x7f00, 64, 3)
	if err != nil {
		t.Fatal(err)
	}
	if m.Kind() != VRAM || m.Device() != 3 || m.Address() != 0x7f00 || m.Size() != 64 || m.Bytes() != nil {
		t.Fatalf("%+v", m)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		address      uintptr
		size, device int
	}{{0, 64, 0}, {1, 0, 0}, {1, 64, -1}} {
		if _, err := Device(c.address, c.size, c.device); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}
