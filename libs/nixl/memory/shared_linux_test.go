package memory

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFilesThatCouldLoseTheirBytesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		size  int64
		seals int
		want  string
	}{
		"unsealed":  {4096, 0, "cut short"},
		"too small": {4095, seals, "bytes, want at least 4096"},
	} {
		fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Ftruncate(fd, c.size); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, c.seals); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(fd, 4096); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		unix.Close(fd)
	}
}

func TestOpenedMemoryIsTheSame(t *testing.T) {
	own, err := Shared(8192)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	fd, _ := own.File()
	if err := unix.Ftruncate(fd, 0); err != unix.EPERM {
		t.Errorf("our own file could be cut: %v", err)
	}
	peer, err := Open(fd, 4096)
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	peer.Bytes()[7] = 9
	if len(peer.Bytes()) != 4096 || own.Bytes()[7] != 9 {
		t.Fatalf("%d bytes, byte 7 is %d", len(peer.Bytes()), own.Bytes()[7])
	}
}
