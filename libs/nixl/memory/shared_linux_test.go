package memory

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func shared(t *testing.T, size int) *Memory {
	t.Helper()
	m, err := Shared(size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func pattern(b []byte) {
	for i := range b {
		b[i] = byte(i>>10) | 1
	}
}

func fds(m *Memory) (all []int) {
	for _, f := range m.Files() {
		all = append(all, f.FD)
	}
	return all
}

func opened(t *testing.T, m *Memory, size int) *Memory {
	t.Helper()
	peer, used, err := Open(fds(m), size)
	if err != nil {
		t.Fatal(err)
	}
	if used > len(m.Files()) {
		t.Fatalf("used %d of %d files", used, len(m.Files()))
	}
	t.Cleanup(func() {
		if err := peer.Close(); err != nil {
			t.Error(err)
		}
	})
	return peer
}

func TestFilesThatCouldLoseTheirBytesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		size  int64
		seals int
		want  string
	}{
		"unsealed":   {8192, 0, "cut short"},
		"too small":  {4096, seals, "4096 bytes, want at least 8192"},
		"part pages": {8193, seals, "want whole pages"},
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
		if _, _, err := Open([]int{fd}, 8192); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		unix.Close(fd)
	}
	if _, _, err := Open(nil, 1); err == nil {
		t.Error("memory without files was opened")
	}
}

func TestOpenedMemoryIsTheSame(t *testing.T) {
	for _, size := range []int{8192, 5000, 33<<20 + 12345} {
		own := shared(t, size)
		pattern(own.Bytes())
		if n := len(own.Files()); n < 1 || n > segments || size > segments*segmentUnit && n < segments/2 {
			t.Errorf("%d bytes lie in %d files", size, n)
		}
		if err := unix.Ftruncate(own.Files()[0].FD, 0); err != unix.EPERM {
			t.Errorf("our own file could be cut: %v", err)
		}
		if peer := opened(t, own, size); !bytes.Equal(peer.Bytes(), own.Bytes()) {
			t.Errorf("%d bytes are not the same at the peer", size)
		}
		part := opened(t, own, size/2)
		part.Bytes()[size/2-1]++
		if len(part.Bytes()) != size/2 || own.Bytes()[size/2-1] != part.Bytes()[size/2-1] {
			t.Errorf("%d bytes of %d", len(part.Bytes()), size)
		}
	}
}

func TestRetiredBytesAreOutOfThePeersReach(t *testing.T) {
	const size = 20 * segmentUnit // in files of two units
	own := shared(t, size)
	pattern(own.Bytes())
	before := bytes.Clone(own.Bytes())
	peer := opened(t, own, size)
	touched := []Range{{3 * segmentUnit, 10}, {9*segmentUnit - 1, 2*segmentUnit + 2}} // of the files 1, 4 and 5
	keep := []Range{{0, 100}, {2*segmentUnit + 7, 1000}, {8 * segmentUnit, segmentUnit}, {size - 10, 10}}
	if got := own.Segments(touched); len(got) != 3 || got[0] != (Range{2 * segmentUnit, 2 * segmentUnit}) {
		t.Fatalf("segments %v", got)
	}
	if err := own.Retire(touched, keep); err != nil {
		t.Fatal(err)
	}
	late := bytes.Repeat([]byte{0xff}, size)
	copy(peer.Bytes(), late)
	want := late // of the files that were not retired
	for _, r := range own.Segments(touched) {
		clear(want[r.Offset : r.Offset+r.Bytes])
		for _, k := range overlap(keep, r) {
			copy(want[k.Offset:k.Offset+k.Bytes], before[k.Offset:])
		}
	}
	if !bytes.Equal(own.Bytes(), want) {
		t.Fatal("the bytes kept, the zeroes and the files not retired are not as they must be")
	}
	again := opened(t, own, size)
	again.Bytes()[3*segmentUnit] = 5
	if own.Bytes()[3*segmentUnit] != 5 {
		t.Error("who maps the memory now does not reach it")
	}
}

func TestWhatCannotBeRetired(t *testing.T) {
	own := shared(t, 4096)
	own.Pin()
	anonymous, err := Anonymous(4096)
	if err != nil {
		t.Fatal(err)
	}
	defer anonymous.Close()
	for _, m := range []*Memory{own, anonymous} {
		if err := m.Retire([]Range{{0, 1}}, nil); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("got %v", err)
		}
	}
}

func TestPrefaultBacksTheMemory(t *testing.T) {
	m := shared(t, 4<<20)
	if err := m.Prefault(); err != nil {
		t.Fatal(err)
	}
	resident := make([]byte, m.Size()/unix.Getpagesize())
	if err := mincore(m.Bytes(), resident); err != nil {
		t.Fatal(err)
	}
	for i, r := range resident {
		if r&1 == 0 {
			t.Fatalf("page %d is not there", i)
		}
	}
}

func mincore(b, resident []byte) error {
	_, _, errno := unix.Syscall(unix.SYS_MINCORE,
		uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(unsafe.Pointer(unsafe.SliceData(resident))))
	if errno != 0 {
		return errno
	}
	return nil
}
