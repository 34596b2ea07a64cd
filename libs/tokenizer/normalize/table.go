package normalize

// tableEnd is above every character with an entry that is not zero.
const tableEnd = 0xE1000

const (
	blockBits = 6
	blockSize = 1 << blockBits
	blockMask = blockSize - 1
)

// table maps the characters below tableEnd to small numbers, others to 0. Equal
// blocks of 64 are stored once; a block is what the last byte of UTF-8 chooses from.
type table struct {
	index  [tableEnd >> blockBits]uint16
	blocks []uint16
}

// newTable packs the values, which are by character and at least tableEnd long.
func newTable(values []uint16) *table {
	t := &table{}
	seen := make(map[[blockSize]uint16]uint16)
	var last [blockSize]uint16
	for i := range t.index {
		block := [blockSize]uint16(values[i*blockSize:])
		if i > 0 && block == last {
			t.index[i] = t.index[i-1]
			continue
		}
		last = block
		at, ok := seen[block]
		if !ok {
			at = uint16(len(t.blocks) / blockSize)
			seen[block] = at
			t.blocks = append(t.blocks, block[:]...)
		}
		t.index[i] = at
	}
	return t
}

func (t *table) of(r rune) uint16 {
	if uint32(r) >= tableEnd {
		return 0
	}
	return t.blocks[int(t.index[r>>blockBits])<<blockBits|int(r&blockMask)]
}

// at returns the value of the character of more than one byte at text[i], and its length. It
// takes a broken character for one byte with the value 0.
func (t *table) at(text string, i int) (uint16, int) {
	b0 := text[i]
	switch {
	case b0 < 0xC2:
	case b0 < 0xE0:
		if i+1 < len(text) {
			return t.blocks[int(t.index[b0&0x1F])<<blockBits|int(text[i+1]&blockMask)], 2
		}
	case b0 < 0xF0:
		if i+2 < len(text) {
			block := int(b0&0x0F)<<6 | int(text[i+1]&0x3F)
			return t.blocks[int(t.index[block])<<blockBits|int(text[i+2]&blockMask)], 3
		}
	case b0 < 0xF5:
		if i+3 < len(text) {
			block := int(b0&7)<<12 | int(text[i+1]&0x3F)<<6 | int(text[i+2]&0x3F)
			if block >= len(t.index) {
				return 0, 4
			}
			return t.blocks[int(t.index[block])<<blockBits|int(text[i+3]&blockMask)], 4
		}
	}
	return 0, 1
}
