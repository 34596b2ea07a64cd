package normalize

// pairSlots is a power of two above twice the number of compositions.
const pairSlots = 2048

// pairs is a hash table from two characters to one.
type pairs struct {
	keys   [pairSlots]uint64
	values [pairSlots]rune
}

func pairKey(a, b rune) uint64 { return uint64(a)<<32 | uint64(b) }

func pairSlot(key uint64) int { return int(key * 0x9E3779B97F4A7C15 >> (64 - 11)) }

func (p *pairs) add(a, b, value rune) {
	key := pairKey(a, b)
	i := pairSlot(key)
	for p.keys[i] != 0 {
		i = (i + 1) % pairSlots
	}
	p.keys[i], p.values[i] = key, value
}

// of returns the value of a and b; 0: they have none.
func (p *pairs) of(a, b rune) rune {
	key := pairKey(a, b)
	for i := pairSlot(key); p.keys[i] != 0; i = (i + 1) % pairSlots {
		if p.keys[i] == key {
			return p.values[i]
		}
	}
	return 0
}
