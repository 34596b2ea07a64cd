package prefix

import "math/bits"

// Matches is the answer to a lookup: how many leading blocks of the chain each slot holds. Its owner reuses it
// for the next lookup, so that lookups do not allocate once it has grown; it belongs to one goroutine at a time.
type Matches struct {
	// Depths has, for each slot, the length in blocks of the longest leading run of the chain in which every
	// block is in some tier of that slot. Slots that nobody has are 0.
	Depths []uint32
	// Tiered lists the slots whose run has blocks below the device, in no order. For all others the whole
	// run is on the device. A slot that is just leaving may be among them, with no blocks.
	Tiered []Slot

	// lower has, for the slots of Tiered, how many blocks of the run are credited to the host and the disk.
	lower [][Tiers - 1]uint32
	// on is the slots that hold all of a trunk so far; they have no depth yet.
	on []uint64
	// out is slots that have just dropped out of it, if they are few.
	out []Slot
}

const fewSlots = 8

// Device is how many blocks of the slot's leading run are on its device.
func (m *Matches) Device(s Slot) int { return m.Count(s, Device) }

// Count is how many blocks of the slot's leading run are credited to the tier: each counts once, in the best
// tier that has it. It is 0 for a slot that the lookup did not know.
func (m *Matches) Count(s Slot, t Tier) int {
	if int(s) >= len(m.Depths) {
		return 0
	}
	if t != Device {
		return int(m.below(s, t))
	}
	return int(m.Depths[s] - m.below(s, Host) - m.below(s, Disk))
}

func (m *Matches) below(s Slot, t Tier) uint32 {
	if len(m.Tiered) == 0 || int(s) >= len(m.lower) {
		return 0
	}
	return m.lower[s][t-1]
}

// reset makes it the answer "nothing" for so many slots.
func (m *Matches) reset(slots int) {
	for _, s := range m.Tiered {
		m.lower[s] = [Tiers - 1]uint32{}
	}
	m.Tiered = m.Tiered[:0]
	words := (slots + 63) / 64
	if cap(m.on) < words {
		m.on = make([]uint64, words)
	}
	m.on = m.on[:words]
	if cap(m.Depths) < slots {
		m.Depths = make([]uint32, slots, slots+slots/2)
		return
	}
	m.Depths = m.Depths[:slots]
	clear(m.Depths)
}

// credit counts blocks of the slot's run in a tier below the device.
func (m *Matches) credit(s Slot, t Tier, blocks uint32) {
	if blocks == 0 {
		return
	}
	if len(m.lower) < len(m.Depths) {
		m.lower = append(m.lower, make([][Tiers - 1]uint32, len(m.Depths)-len(m.lower))...)
	}
	if m.lower[s] == [Tiers - 1]uint32{} {
		m.Tiered = append(m.Tiered, s)
	}
	m.lower[s][t-1] += blocks
}

// narrow keeps of the slots that hold the trunk so far those that have all of its next run; before its first run that
// is all slots. The others get the depth that they have reached, and are in m.out if they are few. It says how many.
func (m *Matches) narrow(full slotSet, depth int) (dropped int) {
	m.out = m.out[:0]
	if depth == 0 {
		clear(m.on[copy(m.on, full):])
		return len(m.Depths)
	}
	for w, on := range m.on {
		if on == 0 {
			continue
		}
		if w < len(full) {
			m.on[w] = on & full[w]
		} else {
			m.on[w] = 0
		}
		if drop := on &^ m.on[w]; drop != 0 {
			dropped += bits.OnesCount64(drop)
			m.set(w, drop, depth)
			for ; dropped <= fewSlots && drop != 0; drop &= drop - 1 {
				m.out = append(m.out, Slot(w*64+bits.TrailingZeros64(drop)))
			}
		}
	}
	return dropped
}

// settle ends the trunk: all that hold it have reached the depth.
func (m *Matches) settle(depth int) {
	for w, on := range m.on {
		m.set(w, on, depth)
	}
}

// set sets the depth of the slots in a word of a set.
func (m *Matches) set(w int, word uint64, depth int) {
	if word == ^uint64(0) {
		for i := range m.Depths[w*64 : w*64+64] {
			m.Depths[w*64+i] = uint32(depth)
		}
		return
	}
	for ; word != 0; word &= word - 1 {
		m.Depths[w*64+bits.TrailingZeros64(word)] = uint32(depth)
	}
}

// forget makes the answer for a slot "nothing".
func (m *Matches) forget(s Slot) {
	m.Depths[s] = 0
	if int(s) < len(m.lower) {
		m.lower[s] = [Tiers - 1]uint32{}
	}
}
