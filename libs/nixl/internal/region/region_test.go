package region

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
)

var info = nixl.RegionInfo{Layout: block.Layout{BlockTokens: 4, Layers: 1, KVHeads: 1, HeadDim: 8, ElemBytes: 2}, Blocks: 2}

func anonymous(t *testing.T, size int) *memory.Memory {
	t.Helper()
	m, err := memory.Anonymous(size)
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

func TestCloseWaitsForTheLastCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(0, info, anonymous(t, info.Bytes()))
		if err := r.Gate.Enter(); err != nil {
			t.Fatal(err)
		}
		closed := make(chan error, 1)
		go func() { closed <- r.Close() }()
		synctest.Wait()
		if len(closed) != 0 {
			t.Fatal("closed under a copy")
		}
		r.Gate.Leave()
		if err := errors.Join(<-closed, r.Close()); err != nil {
			t.Fatal(err)
		}
		if err := r.Gate.Enter(); !errors.Is(err, nixl.ErrClosed) {
			t.Fatalf("entered a closed region: %v", err)
		}
	})
}

func TestBytesAreExactlyAsLongAsTheBlocks(t *testing.T) {
	r := New(3, info, anonymous(t, info.Bytes()+100))
	b := r.Bytes()
	if len(b) != 2*info.Layout.BlockBytes() || cap(b) != len(b) || r.ID() != 3 || r.Blocks() != 2 || r.Layout() != info.Layout {
		t.Fatalf("%d bytes, capacity %d, id %d, %d blocks", len(b), cap(b), r.ID(), r.Blocks())
	}
	vram, err := memory.Device(0x1000, info.Bytes(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if b := New(0, info, vram).Bytes(); b != nil {
		t.Fatalf("%d bytes of a device's memory", len(b))
	}
}

func TestTableHasABound(t *testing.T) {
	var table Table
	m := anonymous(t, info.Bytes())
	for range nixl.MaxRegions {
		if _, err := table.Add(m, info.Layout, info.Blocks); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := table.Add(m, info.Layout, info.Blocks); err == nil || !strings.Contains(err.Error(), "16 regions") {
		t.Fatalf("got %v", err)
	}
}
