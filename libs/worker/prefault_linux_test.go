package worker

import (
	"fmt"
	"log/slog"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/switchyard-llm/switchyard/libs/engine/enginetest"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/inproc"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
)

// resident is how many pages of the bytes are in memory, and how many there are.
func resident(t *testing.T, b []byte) (now, all int) {
	t.Helper()
	pages := make([]byte, (len(b)+unix.Getpagesize()-1)/unix.Getpagesize())
	_, _, errno := unix.Syscall(unix.SYS_MINCORE,
		uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(unsafe.Pointer(unsafe.SliceData(pages))))
	if errno != 0 {
		t.Fatal(errno)
	}
	for _, p := range pages {
		now += int(p & 1)
	}
	return now, len(pages)
}

func TestThePoolIsTouchedAtStartWhereThatIsWanted(t *testing.T) {
	for kind, open := range map[string]opener{"anonymous": memory.Anonymous, "shared": memory.Shared} {
		for _, prefault := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s memory, %v", kind, prefault), func(t *testing.T) {
				agent, err := inproc.NewNetwork().NewAgent(nixl.Config{Name: "w", Incarnation: "1", KVFormat: "toy"})
				if err != nil {
					t.Fatal(err)
				}
				cfg := DefaultConfig()
				cfg.PoolTokens, cfg.Prefault = 64<<10, prefault
				w, err := New(cfg, Deps{Executor: enginetest.NewToy(4, 150), Agent: agent, Memory: open, Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := w.Close(); err != nil {
						t.Error(err)
					}
				}()
				if now, all := resident(t, w.region.Bytes()); (now == all) != prefault {
					t.Errorf("%d of %d pages are there", now, all)
				}
			})
		}
	}
}
