package sim

import (
	"container/list"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/engine"
	"github.com/switchyard-llm/switchyard/libs/engine/sim/timing"
)

// TierSink is told what the lower tiers hold; a *block.Pool is one. It is called in the order of
// the changes, must return at once and not call back.
type TierSink interface {
	// StoredBelow says that a tier holds a chain of blocks that follows parent.
	StoredBelow(t block.Tier, parent block.Hash, chain []block.Hash)
	// RemovedBelow says that it holds blocks no more.
	RemovedBelow(t block.Tier, blocks []block.Hash)
}

var _ TierSink = (*block.Pool)(nil)

// TierConfig sizes the lower tiers.
type TierConfig struct {
	// HostBlocks and DiskBlocks are how many blocks they hold; 0: there is no such tier.
	HostBlocks, DiskBlocks int
	// HostBytes and DiskBytes per second are how fast blocks come back to the device; 0 or
	// infinity is at once.
	HostBytesPerSecond, DiskBytesPerSecond float64
}

func (c TierConfig) any() bool { return c.HostBlocks > 0 || c.DiskBlocks > 0 }

func (c TierConfig) validate() error {
	switch {
	case c.HostBlocks < 0:
		return fmt.Errorf("host_blocks is %d, want at least 0", c.HostBlocks)
	case c.DiskBlocks < 0:
		return fmt.Errorf("disk_blocks is %d, want at least 0", c.DiskBlocks)
	case math.IsNaN(c.HostBytesPerSecond) || c.HostBytesPerSecond < 0:
		return fmt.Errorf("host bandwidth is %g, want at least 0", c.HostBytesPerSecond)
	case math.IsNaN(c.DiskBytesPerSecond) || c.DiskBytesPerSecond < 0:
		return fmt.Errorf("disk bandwidth is %g, want at least 0", c.DiskBytesPerSecond)
	}
	return nil
}

// tiers are the blocks below the device: what its pool gives up goes to the host, what the host
// gives up to the disk, each the longest unused first. A block that is fetched stays.
type tiers struct {
	mu     sync.Mutex                // guards all below, and orders what the sink is told
	sink   TierSink                  // may be nil
	device map[block.Hash]block.Hash // a block of the pool, and its parent
	lower  [block.Tiers]tier         // none of the device
}

// tier is one of them, by last use.
type tier struct {
	capacity int
	at       map[block.Hash]*list.Element // of held
	order    list.List                    // the last used in front
}

type held struct{ hash, parent block.Hash }

func newTiers(c TierConfig) *tiers {
	t := &tiers{device: make(map[block.Hash]block.Hash)}
	for i, capacity := range [block.Tiers]int{block.Host: c.HostBlocks, block.Disk: c.DiskBlocks} {
		t.lower[i] = tier{capacity: capacity, at: make(map[block.Hash]*list.Element)}
	}
	return t
}

// SetTierSink names who is told of changes in the lower tiers from now on. Without tiers there are none.
func (s *Sim) SetTierSink(sink TierSink) {
	if t := s.tiers; t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.sink = sink
	}
}

// DeviceStored tells that the device's pool holds a block, after which block. The executor
// calls it for every block that it fills or finds filled; who knows the pool's own changes may tell
// them too, from any goroutine. Without tiers it does nothing.
func (s *Sim) DeviceStored(parent, hash block.Hash) {
	if t := s.tiers; t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.device[hash] = parent
	}
}

// DeviceRemoved tells that the device's pool gave a block up: it goes to the tier below. The
// executor calls it when it finds one overwritten, which is when the pool needed its place. Blocks that
// it was not told of, or that are gone already, are ignored.
func (s *Sim) DeviceRemoved(hash block.Hash) {
	if t := s.tiers; t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		if parent, ok := t.device[hash]; ok {
			delete(t.device, hash)
			t.put(block.Host, held{hash, parent})
		}
	}
}

// put brings a block into a tier, or into the next one if there is no such tier. t.mu is held.
func (t *tiers) put(to block.Tier, b held) {
	if to >= block.Tiers {
		return
	}
	l := &t.lower[to]
	if e := l.at[b.hash]; e != nil {
		l.order.MoveToFront(e)
		return
	}
	if l.capacity == 0 {
		t.put(to+1, b)
		return
	}
	l.at[b.hash] = l.order.PushFront(b)
	if t.sink != nil {
		t.sink.StoredBelow(to, b.parent, []block.Hash{b.hash})
	}
	if l.order.Len() <= l.capacity {
		return
	}
	oldest := l.order.Remove(l.order.Back()).(held)
	delete(l.at, oldest.hash)
	t.put(to+1, oldest) // before it is told to have left: it is never nowhere
	if t.sink != nil {
		t.sink.RemovedBelow(to, []block.Hash{oldest.hash})
	}
}

// load is what a step brings back from the tiers.
type load struct {
	tokens int
	pairs  int64
	from   [block.Tiers]int // tokens of each tier
}

func (l *load) add(m load) {
	l.tokens += m.tokens
	l.pairs += m.pairs
	for i := range l.from {
		l.from[i] += m.from[i]
	}
}

// time is how long it takes: the tiers one after the other, before the step computes.
func (l *load) time(c TierConfig, card engine.Card) time.Duration {
	var seconds float64
	for i, speed := range [block.Tiers]float64{block.Host: c.HostBytesPerSecond, block.Disk: c.DiskBytesPerSecond} {
		if speed > 0 {
			seconds += float64(l.from[i]) * float64(card.KVRowBytes) / speed
		}
	}
	return time.Duration(seconds * float64(time.Second))
}

// fetch looks for the block of the positions from first on; an empty load if no tier has it.
func (t *tiers) fetch(hash block.Hash, first, size int) (found load) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.lower {
		l := &t.lower[i]
		if e := l.at[hash]; e != nil {
			l.order.MoveToFront(e)
			found.tokens, found.pairs = size, timing.Pairs(size, first)
			found.from[i] = size
			return found
		}
	}
	return found
}
