package prefix_test

import (
	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/prefix"
)

// model is what an Index must equal: per slot and tier, how many references of each block.
type model struct {
	slots []*modelSlot // by Slot, nil where it is not given out
}

type modelSlot [prefix.Tiers]map[block.Hash]int

func newModelSlot() *modelSlot {
	s := &modelSlot{}
	for t := range s {
		s[t] = map[block.Hash]int{}
	}
	return s
}

func (m *model) add(s prefix.Slot) {
	for int(s) >= len(m.slots) {
		m.slots = append(m.slots, nil)
	}
	m.slots[s] = newModelSlot()
}

func (m *model) drop(s prefix.Slot) { m.slots[s] = nil }

func (m *model) clear(s prefix.Slot) { m.slots[s] = newModelSlot() }

func (m *model) store(s prefix.Slot, t prefix.Tier, chain []block.Hash) {
	for _, h := range chain {
		m.slots[s][t][h]++
	}
}

func (m *model) remove(s prefix.Slot, t prefix.Tier, hashes []block.Hash) {
	for _, h := range hashes {
		if m.slots[s][t][h]--; m.slots[s][t][h] <= 0 {
			delete(m.slots[s][t], h)
		}
	}
}

// entries is how many (block, slot, tier) are held.
func (m *model) entries() int {
	n := 0
	for _, s := range m.slots {
		if s != nil {
			n += len(s[prefix.Device]) + len(s[prefix.Host]) + len(s[prefix.Disk])
		}
	}
	return n
}

// match is the answer for one slot: the blocks of its leading run, by tier.
func (m *model) match(s prefix.Slot, chain []block.Hash) (counts [prefix.Tiers]int) {
	if m.slots[s] == nil {
		return counts
	}
	for _, h := range chain {
		t := 0
		for t < prefix.Tiers && m.slots[s][t][h] == 0 {
			t++
		}
		if t == prefix.Tiers {
			return counts
		}
		counts[t]++
	}
	return counts
}
