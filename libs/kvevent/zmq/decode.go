package zmq

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/tinylib/msgp/msgp"

	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// Bounds on what a batch holds. They are far above an engine's: a prompt of a million tokens in blocks of
// 16 has 65,536 hashes. SHA-512 has 64 bytes.
const (
	eventsMax    = 1 << 14
	hashesMax    = 1 << 17
	hashBytesMax = 64
)

// batchFields and the lists below are the orders of the positional form.
var (
	batchFields   = []string{"ts", "events", "data_parallel_rank"}
	storedFields  = []string{"block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name", "extra_keys", "group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window"}
	removedFields = []string{"block_hashes", "medium", "group_idx"}
)

// decode reads a batch. Both it and its events may be arrays (the older form) or maps. Fields and kinds
// of events that are not known are passed over: versions drift. Memory grows with the bytes, not with what
// they claim.
func decode(payload []byte) (b batch, err error) {
	b.rank = -1
	rest, err := fields(payload, batchFields, func(name string, in []byte) (out []byte, err error) {
		switch name {
		case "ts":
			return number(in, &b.time)
		case "events":
			return list(in, func(in []byte) ([]byte, error) { return b.event(in) })
		case "data_parallel_rank":
			return optionalInt(in, &b.rank)
		}
		return msgp.Skip(in)
	})
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes after the batch", len(rest))
	}
	return b, err
}

// event reads one event of the batch.
func (b *batch) event(in []byte) ([]byte, error) {
	if len(b.events) == eventsMax {
		return nil, fmt.Errorf("more than %d entries", eventsMax)
	}
	tag, body, err := tagOf(in)
	if err != nil {
		return nil, err
	}
	e := event{tag: tag}
	var order []string
	switch tag {
	case tagStored:
		order = storedFields
	case tagRemoved:
		order = removedFields
	case tagCleared:
	default:
		b.unknown++
		return msgp.Skip(in)
	}
	var medium string
	if msgp.NextType(in) == msgp.ArrayType {
		order = append([]string{"type"}, order...)
	}
	out, err := fields(body, order, func(name string, in []byte) ([]byte, error) {
		if name == "medium" {
			return optionalString(in, &medium)
		}
		return e.field(name, in)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tag, err)
	}
	e.tier = tierOf(medium)
	if err := e.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", tag, err)
	}
	b.events = append(b.events, e)
	return out, nil
}

func (e *event) field(name string, in []byte) (out []byte, err error) {
	switch name {
	case "block_hashes":
		return list(in, func(in []byte) ([]byte, error) {
			if len(e.hashes) == hashesMax {
				return nil, fmt.Errorf("more than %d entries", hashesMax)
			}
			h, out, err := readHash(in)
			e.hashes = append(e.hashes, h)
			return out, err
		})
	case "parent_block_hash":
		if msgp.IsNil(in) {
			return msgp.ReadNilBytes(in)
		}
		e.parent, out, err = readHash(in)
		return out, err
	case "token_ids":
		return list(in, func(in []byte) ([]byte, error) {
			t, out, err := msgp.ReadUint32Bytes(in)
			e.tokens = append(e.tokens, sequence.Token(t))
			return out, err
		})
	case "block_size":
		return optionalInt(in, &e.blockSize)
	case "lora_name":
		return optionalString(in, &e.lora)
	case "extra_keys":
		return optionalList(in, func(in []byte) ([]byte, error) {
			if len(e.extra) == hashesMax {
				return nil, fmt.Errorf("more than %d entries", hashesMax)
			}
			keys, out, err := extraKeys(in)
			e.extra = append(e.extra, keys)
			return out, err
		})
	case "group_idx":
		return optionalInt(in, &e.group)
	case "kv_cache_spec_kind":
		return optionalString(in, &e.spec)
	case "kv_cache_spec_sliding_window":
		return optionalInt(in, &e.window)
	}
	return msgp.Skip(in)
}

// check finds what cannot be.
func (e *event) check() error {
	switch {
	case e.tag != tagStored:
		return nil
	case e.blockSize < 0:
		return fmt.Errorf("block_size is %d, want at least 0", e.blockSize)
	case len(e.tokens) > 0 && (e.blockSize == 0 || len(e.tokens)/e.blockSize != len(e.hashes) || len(e.tokens)%e.blockSize != 0):
		return fmt.Errorf("token_ids has %d tokens, want block_size (%d) for each of %d hashes", len(e.tokens), e.blockSize, len(e.hashes))
	case e.extra != nil && len(e.extra) != len(e.hashes):
		return fmt.Errorf("extra_keys has %d entries, want one for each of %d hashes", len(e.extra), len(e.hashes))
	}
	return nil
}

// tagOf reads an event's tag; body is where fields begins.
func tagOf(in []byte) (tag string, body []byte, err error) {
	if msgp.NextType(in) == msgp.ArrayType {
		n, rest, err := msgp.ReadArrayHeaderBytes(in)
		if err != nil {
			return "", nil, err
		}
		if n == 0 {
			return "", nil, errors.New("an event without a type")
		}
		tag, _, err = msgp.ReadStringBytes(rest)
		return tag, in, err
	}
	_, err = fields(in, nil, func(name string, in []byte) (out []byte, err error) {
		if name == "type" {
			tag, out, err = msgp.ReadStringBytes(in)
			return out, err
		}
		return msgp.Skip(in)
	})
	return tag, in, err
}

// fields reads a map, or an array whose elements have names by their order; further elements have none.
func fields(in []byte, order []string, each func(name string, in []byte) ([]byte, error)) ([]byte, error) {
	if msgp.NextType(in) == msgp.ArrayType {
		i := -1
		return list(in, func(in []byte) ([]byte, error) {
			if i++; i >= len(order) {
				return msgp.Skip(in)
			}
			return named(order[i], in, each)
		})
	}
	n, in, err := msgp.ReadMapHeaderBytes(in)
	for range n {
		if err != nil {
			break
		}
		var name string
		if name, in, err = msgp.ReadStringBytes(in); err == nil {
			in, err = named(name, in, each)
		}
	}
	return in, err
}

func named(name string, in []byte, each func(name string, in []byte) ([]byte, error)) ([]byte, error) {
	out, err := each(name, in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}

// list reads an array; an element takes at least a byte, so one that claims too many ends soon.
func list(in []byte, each func(in []byte) ([]byte, error)) ([]byte, error) {
	n, in, err := msgp.ReadArrayHeaderBytes(in)
	for range n {
		if err != nil {
			break
		}
		in, err = each(in)
	}
	return in, err
}

func optionalList(in []byte, each func(in []byte) ([]byte, error)) ([]byte, error) {
	if msgp.IsNil(in) {
		return msgp.ReadNilBytes(in)
	}
	return list(in, each)
}

func optionalInt(in []byte, to *int) ([]byte, error) {
	if msgp.IsNil(in) {
		return msgp.ReadNilBytes(in)
	}
	n, out, err := msgp.ReadInt32Bytes(in)
	if err == nil && n < 0 {
		err = fmt.Errorf("%d, want at least 0", n)
	}
	*to = int(n)
	return out, err
}

func optionalString(in []byte, to *string) (out []byte, err error) {
	if msgp.IsNil(in) {
		return msgp.ReadNilBytes(in)
	}
	*to, out, err = msgp.ReadStringBytes(in)
	return out, err
}

// number reads a time, which is a float but for a publisher that rounds.
func number(in []byte, to *float64) (out []byte, err error) {
	switch msgp.NextType(in) {
	case msgp.IntType, msgp.UintType:
		var n int64
		n, out, err = msgp.ReadInt64Bytes(in)
		*to = float64(n)
	default:
		*to, out, err = msgp.ReadFloat64Bytes(in)
		if math.IsNaN(*to) {
			*to = 0
		}
	}
	return out, err
}

// readHash reads a hash: a number of 64 bits, signed or not, or bytes.
func readHash(in []byte) (h hash, out []byte, err error) {
	var n uint64
	switch msgp.NextType(in) {
	case msgp.BinType, msgp.StrType:
		var b []byte
		if msgp.NextType(in) == msgp.BinType {
			b, out, err = msgp.ReadBytesZC(in)
		} else {
			b, out, err = msgp.ReadStringZC(in)
		}
		if err == nil && (len(b) == 0 || len(b) > hashBytesMax) {
			err = fmt.Errorf("a hash of %d bytes, want 1 to %d", len(b), hashBytesMax)
		}
		return hash(b), out, err
	case msgp.IntType:
		var signed int64
		signed, out, err = msgp.ReadInt64Bytes(in)
		n = uint64(signed)
	default:
		n, out, err = msgp.ReadUint64Bytes(in)
	}
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	return hash(b[:]), out, err
}

// extraKeys reads what a block depends on beside its tokens, each key as text that differs from other
// keys'.
func extraKeys(in []byte) (keys []string, out []byte, err error) {
	out, err = optionalList(in, func(in []byte) ([]byte, error) {
		if msgp.NextType(in) == msgp.StrType {
			s, out, err := msgp.ReadStringBytes(in)
			keys = append(keys, s)
			return out, err
		}
		out, err := msgp.Skip(in)
		if err == nil {
			keys = append(keys, rawKey+strconv.QuoteToASCII(string(in[:len(in)-len(out)])))
		}
		return out, err
	})
	return keys, out, err
}

// rawKey begins the text of a key that is none.
const rawKey = "\x00"
