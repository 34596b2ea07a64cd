//go:build linux

package shm

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/nixltest"
)

var small = nixl.RegionInfo{Layout: block.Layout{BlockTokens: 4, Layers: 1, KVHeads: 1, HeadDim: 8, ElemBytes: 4}, Blocks: 3}

func TestSocketPathsThatCannotBe(t *testing.T) {
	for path, want := range map[string]string{
		"@abstract":                        "abstract",
		"\x00abstract":                     "abstract",
		"relative.sock":                    "absolute",
		"":                                 "absolute",
		"/tmp/" + strings.Repeat("x", 103): "108 bytes, want at most 107",
		"/tmp/a\x00b":                      "zero byte",
	} {
		if _, err := listen(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", path, err, want)
		}
	}
}

func TestSocketOfADeadProcessIsReplaced(t *testing.T) {
	path := filepath.Join(nixltest.Folder(t), "a.sock")
	dead, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listen(path); err == nil || !strings.Contains(err.Error(), "living process") {
		t.Fatalf("got %v, want that a living process has it", err)
	}
	own, err := identifyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dead.Close() // leaves the file, as a death does
	l, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v, want 0600", info.Mode(), err)
	}
	if next, err := identifyFile(path); err == nil && next != own { // else the inode was reused
		if err := unlink(path, own); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Fatal("the dead process's clean-up removed its successor's socket")
		}
	}
}

func TestFileInTheWayIsKept(t *testing.T) {
	path := filepath.Join(nixltest.Folder(t), "a.sock")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listen(path); err == nil {
		t.Fatal("a file was taken for a socket")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "precious" {
		t.Fatalf("the file was touched: %q, %v", text, err)
	}
}

func TestDescriptorsThatArePassedAreClosed(t *testing.T) {
	fd, err := unix.MemfdCreate("unsealed", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openMemory([]nixl.RegionInfo{small}, []int{fd}); err == nil || !strings.Contains(err.Error(), "cut short") {
		t.Errorf("got %v", err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != unix.EBADF {
		t.Errorf("the descriptor is still open: %v", err)
	}
	if _, err := openMemory([]nixl.RegionInfo{small}, nil); err == nil {
		t.Error("a region without a descriptor was accepted")
	}
}

// connected is both ends of a socket within this process.
func connected(t *testing.T) (near, far *net.UnixConn) {
	t.Helper()
	path := filepath.Join(nixltest.Folder(t), "a.sock")
	l, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if far, err = net.DialUnix("unix", nil, address(path)); err != nil {
		t.Fatal(err)
	}
	if near, err = l.AcceptUnix(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

func TestBothWaysToAPidfdFindTheProcess(t *testing.T) {
	for _, usePeerPidfd := range []bool{true, false} {
		near, far := connected(t)
		p, err := identify(near, usePeerPidfd)
		if err != nil || p.pid != os.Getpid() || p.ended() {
			t.Fatalf("got %+v, %v, want our own living process", p, err)
		}
		p.pidfd.Close()
		if p.wait() {
			t.Fatal("a closed pidfd is no proof of an end")
		}
		far.Close()
		if _, err := identify(near, false); !errors.Is(err, nixl.ErrUnreachable) {
			t.Fatalf("the pid of a closed socket was trusted: %v", err)
		}
	}
}
