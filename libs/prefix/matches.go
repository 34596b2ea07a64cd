package prefix

// Matches is the answer to a lookup: how many leading blocks of the chain each slot holds. Its owner reuses it
// for the next lookup, so that lookups do not allocate once it has grown; it belongs to one goroutine at a time.
type Matches struct {
	// Depths has, for each slot, the length in blocks of the longest leading run of the chain in which every
	// block is in some tier of that slot. Slots that nobody has are 0.
	Depths []uint32
	// Tiered lists the slots whose run has blocks below the device, in no order. For all others the whole
	// run is on the device.
	Tiered []Slot

	// lower has, for the slots of Tiered, how many blocks of the run are credited to the host and the disk.
	lower [][Tiers - 1]uint32
}

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
