package prefix_test

import (
	"slices"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/prefix"
)

const root block.Hash = 1 << 50

// chainOf is n blocks; chains of different seeds have none in common.
func chainOf(seed uint64, n int) []block.Hash {
	return prefix.Chain(nil, block.Hash(seed), tokens(n), 1)
}

// onDevice is how many leading blocks of the chain the slot has.
func onDevice(x *prefix.Index, s prefix.Slot, chain []block.Hash) int {
	var m prefix.Matches
	x.Lookup(chain, &m)
	return m.Device(s)
}

func wantDevice(t *testing.T, x *prefix.Index, s prefix.Slot, chain []block.Hash, want int) {
	t.Helper()
	if got := onDevice(x, s, chain); got != want {
		t.Errorf("slot %d has %d leading blocks of %d, want %d", s, got, len(chain), want)
	}
	if err := x.Check(); err != nil {
		t.Error(err)
	}
}

func TestAHoleEndsTheRunUntilItIsStoredAgain(t *testing.T) {
	x, chain := prefix.NewIndex(prefix.IndexConfig{}), chainOf(1, 300)
	s, other := x.Add(), x.Add()
	x.Store(s, prefix.Device, root, chain)
	x.Remove(s, prefix.Device, chain[100:102])
	wantDevice(t, x, s, chain, 100)
	x.Store(other, prefix.Device, root, chain) // another's copy fills no hole
	wantDevice(t, x, s, chain, 100)
	wantDevice(t, x, other, chain, 300)
	x.Store(s, prefix.Device, chain[99], chain[100:101])
	wantDevice(t, x, s, chain, 101)
	x.Store(s, prefix.Device, chain[100], chain[101:102])
	wantDevice(t, x, s, chain, 300)
}

func TestDescendantsOfARemovedBeginningComeBackWithItOnly(t *testing.T) {
	x, chain := prefix.NewIndex(prefix.IndexConfig{}), chainOf(1, 200)
	s := x.Add()
	x.Store(s, prefix.Device, root, chain)
	x.Remove(s, prefix.Device, chain[:64]) // parents before children
	wantDevice(t, x, s, chain, 0)
	x.Remove(s, prefix.Device, chain[70:])
	x.Store(s, prefix.Device, root, chain[:64])
	wantDevice(t, x, s, chain, 70)
}

func TestACopyStaysUntilItsLastReferenceIsRemoved(t *testing.T) {
	x, chain := prefix.NewIndex(prefix.IndexConfig{}), chainOf(1, 10)
	s := x.Add()
	x.Store(s, prefix.Device, root, chain)
	x.Store(s, prefix.Device, root, chain)
	x.Remove(s, prefix.Device, chain)
	wantDevice(t, x, s, chain, 10)
	x.Remove(s, prefix.Device, chain)
	wantDevice(t, x, s, chain, 0)
	x.Remove(s, prefix.Device, chain)
	wantDevice(t, x, s, chain, 0)
	if stats := x.Stats(); stats.Duplicates != 10 || stats.IgnoredRemoves != 10 || stats.Entries != 0 {
		t.Errorf("stats = %+v, want 10 duplicates, 10 ignored removes, no entries", stats)
	}
}

func TestParentsThatAreUnknownOrTheBlockItselfMisplaceNothing(t *testing.T) {
	x, chain := prefix.NewIndex(prefix.IndexConfig{}), chainOf(1, 200)
	s := x.Add()
	x.Store(s, prefix.Device, chain[149], chain[150:])
	x.Store(s, prefix.Device, chain[0], chain[:1])
	x.Store(s, prefix.Device, 12345, chain[50:150])
	x.Store(s, prefix.Device, chain[199], chain[1:50]) // a circle
	wantDevice(t, x, s, chain, 200)
	wantDevice(t, x, s, chain[120:], 80)
}

// Nobody has all of the first run, and those that have as much of it as the chain does have all of the second.
func TestChainsThatPartInTheMiddleOfARunGoOn(t *testing.T) {
	for _, tier := range []prefix.Tier{prefix.Device, prefix.Host} {
		x, long, end := prefix.NewIndex(prefix.IndexConfig{}), chainOf(1, 64), chainOf(2, 64)
		x.Store(x.Add(), tier, root, long)
		for range 100 {
			s := x.Add()
			x.Store(s, tier, root, long[:40])
			x.Store(s, tier, 12345, end) // where it belongs is not known
		}
		chain := slices.Concat(long[:40], end)
		var m prefix.Matches
		x.Lookup(chain, &m)
		for s, want := range slices.Concat([]uint32{40}, slices.Repeat([]uint32{104}, 100)) {
			if m.Depths[s] != want || m.Count(prefix.Slot(s), tier) != int(want) {
				t.Errorf("tier %d: slot %d has %d blocks, want %d", tier, s, m.Depths[s], want)
			}
		}
	}
}

func TestClearedAndDroppedSlotsHoldNothing(t *testing.T) {
	x, chain := prefix.NewIndex(prefix.IndexConfig{}), chainOf(1, 1000)
	a, b := x.Add(), x.Add()
	for _, s := range []prefix.Slot{a, b} {
		for _, tier := range []prefix.Tier{prefix.Device, prefix.Host, prefix.Disk} {
			x.Store(s, tier, root, chain)
			x.Store(s, tier, root, chain[:5])
		}
	}
	x.Clear(a)
	wantDevice(t, x, a, chain, 0)
	wantDevice(t, x, b, chain, 1000)
	x.Store(a, prefix.Device, root, chain[:7])
	x.Remove(a, prefix.Device, chain[:1]) // its second reference went with Clear
	wantDevice(t, x, a, chain, 0)
	x.Drop(b)
	x.Store(b, prefix.Device, root, chain) // too late
	wantDevice(t, x, b, chain, 0)
	if again := x.Add(); again != b {
		t.Errorf("Add after Drop(%d) = %d", b, again)
	}
	wantDevice(t, x, b, chain, 0)
	x.Drop(99)
	x.Clear(-1)
}

func TestBlocksAreCreditedToTheirBestTier(t *testing.T) {
	x, chain := prefix.NewIndex(prefix.IndexConfig{}), chainOf(1, 150)
	s, plain := x.Add(), x.Add()
	x.Store(plain, prefix.Device, root, chain)
	x.Store(s, prefix.Device, root, chain[:70])
	x.Store(s, prefix.Host, root, chain[:100])
	x.Store(s, prefix.Disk, root, chain[90:140])
	var m prefix.Matches
	x.Lookup(chain, &m)
	want := [prefix.Tiers]int{70, 30, 40}
	for tier, n := range want {
		if got := m.Count(s, prefix.Tier(tier)); got != n {
			t.Errorf("tier %d has %d blocks, want %d", tier, got, n)
		}
	}
	if m.Depths[s] != 140 || m.Device(plain) != 150 || len(m.Tiered) != 1 || m.Tiered[0] != s {
		t.Errorf("depths %v, tiered %v", m.Depths, m.Tiered)
	}
	x.Clear(s)
	x.Lookup(chain, &m) // an old answer leaves nothing behind
	if m.Count(s, prefix.Host) != 0 || len(m.Tiered) != 0 {
		t.Errorf("after Clear: host %d, tiered %v", m.Count(s, prefix.Host), m.Tiered)
	}
}

func TestAnAnswerServesIndexesOfAnySize(t *testing.T) {
	small, large, chain := prefix.NewIndex(prefix.IndexConfig{}), prefix.NewIndex(prefix.IndexConfig{}), chainOf(1, 40)
	small.Store(small.Add(), prefix.Device, root, chain)
	for range 500 {
		large.Store(large.Add(), prefix.Device, root, chain)
	}
	var m prefix.Matches
	for _, x := range []*prefix.Index{large, small, large} {
		x.Lookup(chain, &m)
		if len(m.Depths) != x.Stats().Slots || m.Device(0) != 40 || m.Device(1000) != 0 {
			t.Errorf("%d slots: %d depths, the first %d", x.Stats().Slots, len(m.Depths), m.Device(0))
		}
	}
	large.Lookup(nil, &m)
	if m.Device(499) != 0 {
		t.Errorf("an empty chain matches %d blocks", m.Device(499))
	}
}
