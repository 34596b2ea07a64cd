package sim

import (
	"encoding/binary"
	"fmt"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/prefix"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// A row is kept twice over, once per layer: its token where keys are, inverted in the second
// layer, and half of the chain's state after it where values are: 8 bytes in all. Where tokens have
// more than 16 bits it is 16 bytes, and both layers have the whole state. A layer that was not moved leaves a row that is none.
const layers = 2

// known is what the executor has seen of a block's rows: it wrote or checked them. That they
// are still there shows by the state of the last, which stands for all before it.
type known struct {
	from, to uint32     // the chain before the block, and after the last known row
	hash     block.Hash // of the block when all its rows are known, else 0; with tiers only
	rows     int32
	fresh    bool // it was filled, and nothing came after it yet
}

// rows is the pool's memory with what is known of it. The step loop owns it.
type rows struct {
	bytes  []byte
	layout block.Layout
	known  []known
	tokens []sequence.Token // scratch
	device device           // nil: nobody asks for hashes
}

// device is told of full blocks that the pool's memory has, and of those that were overwritten.
type device interface {
	DeviceStored(parent, hash block.Hash)
	DeviceRemoved(hash block.Hash)
}

func newRows(m block.Memory, d device) (*rows, error) {
	layout, bytes := m.Layout(), m.Bytes()
	if m.Blocks() < 1 || len(bytes)/layout.BlockBytes() < m.Blocks() {
		return nil, fmt.Errorf("bind block memory: %d bytes do not hold its %d blocks of %d", len(bytes), m.Blocks(), layout.BlockBytes())
	}
	return &rows{
		bytes: bytes, layout: layout, known: make([]known, m.Blocks()),
		tokens: make([]sequence.Token, layout.BlockTokens), device: d,
	}, nil
}

// at is where the key of a row is in a layer; the value is a block's tokens further.
func (r *rows) at(b block.ID, layer, row int) (key, value []byte) {
	elem := r.layout.ElemBytes
	offset := int(b)*r.layout.BlockBytes() + (layer*2*r.layout.BlockTokens+row)*elem
	return r.bytes[offset:], r.bytes[offset+r.layout.BlockTokens*elem:]
}

// put writes tokens into rows from one on, after a state, and answers the next one.
func (r *rows) put(b block.ID, row int, tokens []sequence.Token, state uint32) uint32 {
	key, value := r.at(b, 0, row)
	key1, value1 := r.at(b, 1, row)
	if r.layout.ElemBytes > 2 {
		for i, t := range tokens {
			state = next(state, t)
			binary.LittleEndian.PutUint32(key[4*i:], t)
			binary.LittleEndian.PutUint32(key1[4*i:], ^t)
			binary.LittleEndian.PutUint32(value[4*i:], state)
			binary.LittleEndian.PutUint32(value1[4*i:], ^state)
		}
		return state
	}
	for i, t := range tokens {
		state = next(state, t)
		binary.LittleEndian.PutUint16(value[2*i:], uint16(state))
		binary.LittleEndian.PutUint16(value1[2*i:], uint16(state>>16))
		binary.LittleEndian.PutUint16(key[2*i:], uint16(t))
		binary.LittleEndian.PutUint16(key1[2*i:], ^uint16(t))
	}
	return state
}

// get reads a row; false if the layers do not agree.
func (r *rows) get(b block.ID, row int) (t sequence.Token, state uint32, ok bool) {
	key, value := r.at(b, 0, row)
	key1, value1 := r.at(b, 1, row)
	if r.layout.ElemBytes > 2 {
		t, state = binary.LittleEndian.Uint32(key), binary.LittleEndian.Uint32(value)
		return t, state, t == ^binary.LittleEndian.Uint32(key1) && state == ^binary.LittleEndian.Uint32(value1)
	}
	state = uint32(binary.LittleEndian.Uint16(value)) | uint32(binary.LittleEndian.Uint16(value1))<<16
	token := binary.LittleEndian.Uint16(key)
	return sequence.Token(token), state, token == ^binary.LittleEndian.Uint16(key1)
}

// holds says whether the first n rows of a block are known and still there.
func (r *rows) holds(b block.ID, n int) bool {
	k := &r.known[b]
	if int(k.rows) != n {
		return false
	}
	_, state, ok := r.get(b, n-1)
	return ok && state == k.to
}

// arrive is the chain after the rows [0, start) of a table, each of which was checked against
// the one before it: all those that are not known, and where blocks meet. A table is walked when
// prompt tokens come, or its last block was not filled here just now; otherwise a token comes after rows
// that were walked before.
func (r *rows) arrive(blocks []block.ID, start, tokens int, root block.Hash) (uint32, error) {
	size := r.layout.BlockTokens
	last, rest := (start-1)/size, (start-1)%size+1
	if start == 0 {
		return seed, nil
	}
	if k := &r.known[blocks[last]]; tokens == 1 && (rest < size || k.fresh) && r.holds(blocks[last], rest) {
		k.fresh = false
		return k.to, nil
	}
	state, parent := uint32(seed), root
	for i, b := range blocks[:last+1] {
		n := size
		if i == last {
			n = rest
		}
		if k := &r.known[b]; k.from != state || !r.holds(b, n) {
			if err := r.check(b, n, state, parent); err != nil {
				return 0, fmt.Errorf("block %d of %d, number %d: %w", i, last+1, b, err)
			}
		}
		state, parent = r.known[b].to, r.known[b].hash
	}
	return state, nil
}

// check makes the first n rows of a block known, if they continue the chain.
func (r *rows) check(b block.ID, n int, state uint32, parent block.Hash) error {
	k := known{from: state, rows: int32(n)}
	for row := range n {
		t, got, ok := r.get(b, row)
		state = next(state, t)
		if !ok || got != state {
			return fmt.Errorf("row %d is not that of this sequence", row)
		}
	}
	k.to = state
	old := r.known[b].hash
	r.known[b] = k
	r.hash(b, parent)
	if old != r.known[b].hash {
		r.lost(old)
	}
	return nil
}

// write puts tokens into rows of a block from one on, after a state, and answers the next one.
func (r *rows) write(b block.ID, row int, tokens []sequence.Token, state uint32) uint32 {
	k := &r.known[b]
	if row == 0 {
		old := k.hash
		*k = known{from: state}
		r.lost(old)
	}
	state = r.put(b, row, tokens, state)
	k.to, k.rows, k.fresh = state, int32(row+len(tokens)), row+len(tokens) == r.layout.BlockTokens
	return state
}

// lost tells that a block with a hash was overwritten.
func (r *rows) lost(hash block.Hash) {
	if r.device != nil && hash != 0 {
		r.device.DeviceRemoved(hash)
	}
}

// hash notes the hash of a block that is full.
func (r *rows) hash(b block.ID, parent block.Hash) {
	if r.device == nil || int(r.known[b].rows) < r.layout.BlockTokens {
		return
	}
	for row := range r.tokens {
		r.tokens[row], _, _ = r.get(b, row)
	}
	r.known[b].hash = prefix.Next(parent, r.tokens)
	r.device.DeviceStored(parent, r.known[b].hash)
}
