package region

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
)

var info = nixl.RegionInfo{Layout: block.Layout{BlockTokens: 4, Layers: 1, KVHeads: 1, HeadDim: 8, ElemBytes: 2}, Blocks: 2}

func TestCloseUnmapsOnceAndAfterTheLastCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unmapped := 0
		r := New(0, info, make([]byte, 4096), func([]byte) error { unmapped++; return nil })
		if err := r.Gate.Enter(); err != nil {
			t.Fatal(err)
		}
		closed := make(chan error)
		go func() { closed <- r.Close() }()
		synctest.Wait()
		if unmapped != 0 {
			t.Fatal("unmapped under a copy")
		}
		r.Gate.Leave()
		if err := errors.Join(<-closed, r.Close()); err != nil || unmapped != 1 {
			t.Fatalf("%v, unmapped %d times", err, unmapped)
		}
		if err := r.Gate.Enter(); !errors.Is(err, nixl.ErrClosed) {
			t.Fatalf("entered a closed region: %v", err)
		}
	})
}

func TestMemoryIsZeroedAndExactlyAsLongAsItsBlocks(t *testing.T) {
	r, err := Anonymous(3, info)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b := r.Bytes()
	if len(b) != 2*info.Layout.BlockBytes() || cap(b) != len(b) || r.ID() != 3 || r.Blocks() != 2 || r.Layout() != info.Layout {
		t.Fatalf("%d bytes, capacity %d, id %d, %d blocks", len(b), cap(b), r.ID(), r.Blocks())
	}
	for i := range b {
		if b[i] != 0 {
			t.Fatalf("byte %d is %d", i, b[i])
		}
		b[i] = 1
	}
}

func TestTableHasABound(t *testing.T) {
	var table Table
	for range nixl.MaxRegions {
		r, err := table.Add(info.Layout, info.Blocks, Anonymous)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
	}
	if _, err := table.Add(info.Layout, info.Blocks, Anonymous); err == nil || !strings.Contains(err.Error(), "16 regions") {
		t.Fatalf("got %v", err)
	}
}
