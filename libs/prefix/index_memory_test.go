package prefix_test

import (
	"runtime"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/prefix"
)

// fill gives each of the slots chains of 250 blocks behind a trunk of 100.
func fill(x *prefix.Index, slots, chains int, seed uint64) {
	trunk := chainOf(1, 100)
	for range slots {
		s := x.Add()
		x.Store(s, prefix.Device, root, trunk)
		for range chains {
			seed++
			x.Store(s, prefix.Device, trunk[99], chainOf(seed, 250))
		}
	}
}

func TestMemoryComesBackWhenWorkersLeave(t *testing.T) {
	before := heap()
	x := prefix.NewIndex(prefix.IndexConfig{})
	fill(x, 32, 20, 100)
	full, held := x.Stats(), heap()-before
	for s := range prefix.Slot(16) {
		x.Drop(s)
	}
	if half := x.Stats().Bytes; half > full.Bytes*6/10 {
		t.Errorf("%d bytes of %d are left when half of the workers have gone", half, full.Bytes)
	}
	for s := range prefix.Slot(16) {
		x.Drop(16 + s)
	}
	if left := x.Stats(); left.Bytes > full.Bytes/50 || left.Entries+left.Blocks+left.Runs != 0 {
		t.Errorf("left of %+v: %+v", full, left)
	}
	if left := heap() - before; left > held/20 {
		t.Errorf("%d bytes of heap of %d are left", left, held)
	}
	runtime.KeepAlive(x)
}

func TestChurnDoesNotGrowMemory(t *testing.T) {
	x := prefix.NewIndex(prefix.IndexConfig{})
	const slots, kept = 8, 40
	var chains [slots][][]block.Hash
	for range slots {
		x.Add()
	}
	seed, after := uint64(0), 0
	for round := range 4 * kept {
		for s := range prefix.Slot(slots) {
			seed++
			chain := chainOf(seed, 100+int(seed*7919%200))
			x.Store(s, prefix.Device, root, chain)
			chains[s] = append(chains[s], chain)
			if len(chains[s]) > kept {
				x.Remove(s, prefix.Device, chains[s][0])
				chains[s] = chains[s][1:]
			}
		}
		if round == kept {
			after = x.Stats().Bytes
		}
	}
	if got := x.Stats().Bytes; got > after*105/100 {
		t.Errorf("%d bytes after as many blocks as are kept, %d after three times as many more", after, got)
	}
}

func TestLookupsAndChangesDoNotAllocate(t *testing.T) {
	x := prefix.NewIndex(prefix.IndexConfig{})
	fill(x, 40, 4, 100)
	s, chain, more := x.Add(), chainOf(1, 100), chainOf(2, 300)
	x.Store(s, prefix.Host, root, more)
	var m prefix.Matches
	round := func() {
		x.Lookup(chain, &m)
		x.Lookup(more, &m)
		x.Store(s, prefix.Device, root, chain)
		x.Store(s, prefix.Device, chain[49], more)
		x.Lookup(more, &m)
		x.Remove(s, prefix.Device, more)
		x.Remove(s, prefix.Device, chain)
	}
	round()
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("a round of lookups, stores and removes allocates %v times", n)
	}
}

func TestTheByteBudgetHoldsAndTheOldestGoes(t *testing.T) {
	const budget = 256 << 10
	x := prefix.NewIndex(prefix.IndexConfig{Bytes: budget})
	s := x.Add()
	used, unused := chainOf(1, 500), chainOf(2, 500)
	x.Store(s, prefix.Device, root, used)
	x.Store(s, prefix.Device, root, unused)
	evicted := uint64(0)
	for seed := range uint64(60) {
		chain := chainOf(10+seed, 500)
		x.Store(s, prefix.Device, root, chain)
		wantDevice(t, x, s, used, 500)
		wantDevice(t, x, s, chain, 500)
		if stats := x.Stats(); stats.Bytes > budget*3/2 {
			t.Fatalf("%d bytes are allocated with a budget of %d", stats.Bytes, budget)
		} else if stats.Evictions < evicted || stats.Entries+int(stats.Evictions) != 500*(int(seed)+3) {
			t.Fatalf("%d entries and %d evictions of %d", stats.Entries, stats.Evictions, 500*(seed+3))
		} else {
			evicted = stats.Evictions
		}
	}
	wantDevice(t, x, s, unused, 0)
	if evicted == 0 {
		t.Error("nothing was evicted")
	}
}

// A chain loses its end before its beginning, without which the end is of no use.
func TestEvictionTakesAChainFromItsEnd(t *testing.T) {
	for _, others := range []int{17, 20, 22} {
		x := prefix.NewIndex(prefix.IndexConfig{Bytes: 256 << 10})
		s := x.Add()
		chain, parent := chainOf(1, 4000), root
		for from := 0; from < len(chain); from += 500 {
			x.Store(s, prefix.Device, parent, chain[from:from+500])
			parent = chain[from+499]
		}
		for i := range others {
			x.Store(s, prefix.Device, root, chainOf(uint64(10+i), 500))
		}
		left := x.Stats().Entries - 500*others
		if got := onDevice(x, s, chain); got != left || left == 0 || left == len(chain) {
			t.Errorf("beside %d others %d blocks of the chain are left, %d of them leading", others, left, got)
		}
	}
}

func TestParentsInACircleAreEvicted(t *testing.T) {
	x := prefix.NewIndex(prefix.IndexConfig{Bytes: 64 << 10})
	s := x.Add()
	for seed := range uint64(100) {
		circle := chainOf(seed, 128)
		x.Store(s, prefix.Device, root, circle[64:])
		x.Store(s, prefix.Device, circle[127], circle[:64])
		x.Store(s, prefix.Device, circle[63], circle[64:])
	}
	if stats := x.Stats(); stats.Evictions == 0 || stats.Evictions+uint64(stats.Entries) != 100*128 {
		t.Errorf("%d entries, %d evictions of 12,800", stats.Entries, stats.Evictions)
	}
	if err := x.Check(); err != nil {
		t.Error(err)
	}
}
