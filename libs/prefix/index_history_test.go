package prefix_test

import (
	"math/rand/v2"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/prefix"
)

// history drives an index and the model with the same calls and compares what they say.
type history struct {
	t       testing.TB
	index   *prefix.Index
	model   model
	live    []prefix.Slot
	matches prefix.Matches
	root    block.Hash
	chains  [][]block.Hash
	next    func(n int) int // below n
}

func newHistory(t testing.TB, config prefix.IndexConfig, next func(int) int) *history {
	return &history{t: t, index: prefix.NewIndex(config), root: 1 << 40, next: next}
}

// fresh makes a chain that shares a random prefix with another one.
func (h *history) fresh(longest int) []block.Hash {
	var chain []block.Hash
	if len(h.chains) > 0 && h.next(10) > 0 {
		other := h.chains[h.next(len(h.chains))]
		chain = append(chain, other[:h.next(len(other)+1)]...)
	}
	for n := 1 + h.next(longest); n > 0; n-- {
		chain = append(chain, block.Hash(uint64(len(h.chains)+1)<<20+uint64(len(chain))))
	}
	h.chains = append(h.chains, chain)
	return chain
}

func (h *history) chain() []block.Hash {
	if len(h.chains) == 0 || h.next(8) == 0 {
		return h.fresh(200)
	}
	return h.chains[h.next(len(h.chains))]
}

// piece is some of a chain and the hash before it.
func (h *history) piece() (parent block.Hash, piece []block.Hash) {
	chain := h.chain()
	from := 0
	if h.next(2) == 0 {
		from = h.next(len(chain))
	}
	to := len(chain)
	if h.next(2) == 0 {
		to = from + 1 + h.next(len(chain)-from)
	}
	parent = h.root
	if from > 0 {
		parent = chain[from-1]
	}
	switch h.next(20) {
	case 0:
		parent = chain[from] // its own parent
	case 1:
		parent = block.Hash(h.next(1000)) // unknown
	case 2:
		other := h.chains[h.next(len(h.chains))]
		parent = other[h.next(len(other))]
	}
	return parent, chain[from:to]
}

func (h *history) tier() prefix.Tier {
	if h.next(4) > 0 {
		return prefix.Device
	}
	return prefix.Tier(h.next(prefix.Tiers))
}

func (h *history) slot() prefix.Slot { return h.live[h.next(len(h.live))] }

func (h *history) step(slots int) {
	kind := h.next(100)
	switch {
	case len(h.live) == 0, kind < 3 && len(h.live) < slots:
		s := h.index.Add()
		h.model.add(s)
		h.live = append(h.live, s)
	case kind == 3:
		i := h.next(len(h.live))
		s := h.live[i]
		h.live = append(h.live[:i], h.live[i+1:]...)
		h.index.Drop(s)
		h.model.drop(s)
	case kind == 4:
		s := h.slot()
		h.index.Clear(s)
		h.model.clear(s)
	case kind < 55:
		s, tier := h.slot(), h.tier()
		parent, piece := h.piece()
		h.index.Store(s, tier, parent, piece)
		h.model.store(s, tier, piece)
	default:
		s, tier := h.slot(), h.tier()
		piece := h.removal()
		h.index.Remove(s, tier, piece)
		h.model.remove(s, tier, piece)
	}
}

// removal is some blocks of a chain: its end backwards, one in the middle, or all that there is.
func (h *history) removal() []block.Hash {
	chain := h.chain()
	var out []block.Hash
	switch h.next(4) {
	case 0:
		out = append(out, chain[h.next(len(chain))])
	case 1:
		out = append(out, chain...)
	case 2:
		for range 1 + h.next(20) {
			out = append(out, chain[h.next(len(chain))])
		}
	default:
		for i, n := len(chain)-1, h.next(len(chain)); i >= n; i-- {
			out = append(out, chain[i])
		}
	}
	return out
}

// verify compares the answers for a chain, all slots and tiers.
func (h *history) verify(chain []block.Hash) {
	h.t.Helper()
	h.index.Lookup(chain, &h.matches)
	if len(h.matches.Depths) != len(h.model.slots) {
		h.t.Fatalf("Depths has %d slots, want %d", len(h.matches.Depths), len(h.model.slots))
	}
	for s := range h.model.slots {
		want := h.model.match(prefix.Slot(s), chain)
		var got [prefix.Tiers]int
		for t := range got {
			got[t] = h.matches.Count(prefix.Slot(s), prefix.Tier(t))
		}
		if got != want {
			h.t.Fatalf("slot %d of %d has %v blocks of a chain of %d by tier, want %v", s, len(h.model.slots), got, len(chain), want)
		}
		if depth := want[0] + want[1] + want[2]; int(h.matches.Depths[s]) != depth {
			h.t.Fatalf("slot %d: depth %d, want %d", s, h.matches.Depths[s], depth)
		}
	}
}

// verifyCounts compares what Stats says is held, and looks whether the index is well.
func (h *history) verifyCounts() {
	h.t.Helper()
	if err := h.index.Check(); err != nil {
		h.t.Fatal(err)
	}
	stats := h.index.Stats()
	if want := h.model.entries(); stats.Entries != want {
		h.t.Fatalf("Entries = %d, want %d", stats.Entries, want)
	}
	if stats.Slots != len(h.live) {
		h.t.Fatalf("Slots = %d, want %d", stats.Slots, len(h.live))
	}
	if stats.Evictions != 0 {
		h.t.Fatalf("%d evictions without need", stats.Evictions)
	}
}

func TestIndexEqualsTheModelAfterAnyHistory(t *testing.T) {
	seeds, steps := uint64(40), 600
	if testing.Short() {
		seeds, steps = 5, 300
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 1))
		slots := []int{1, 3, 20, 80, 300}[seed%5]
		h := newHistory(t, prefix.IndexConfig{}, random.IntN)
		for range slots {
			s := h.index.Add()
			h.model.add(s)
			h.live = append(h.live, s)
		}
		for i := range steps {
			h.step(slots)
			h.verify(h.chain())
			if i%8 == 0 {
				h.verifyCounts()
			}
		}
		for _, chain := range h.chains {
			h.verify(chain)
			h.verify(chain[len(chain)/3:]) // not from the chain's beginning
		}
	}
}

func FuzzIndexHistory(f *testing.F) {
	f.Add([]byte{0, 0, 0, 9, 0, 50, 0, 0, 0, 7, 1, 4, 0, 9, 0, 1})
	f.Add([]byte("a history is what comes of any bytes, taken as choices one after another"))
	f.Fuzz(func(t *testing.T, data []byte) {
		h := newHistory(t, prefix.IndexConfig{}, func(n int) int {
			if len(data) < 2 {
				data = nil
				return 0
			}
			choice := int(data[0])<<8 | int(data[1])
			data = data[2:]
			return choice % n
		})
		for len(data) > 0 {
			h.step(4)
			h.verifyCounts()
			h.verify(h.chain())
		}
	})
}
