package zmq

import (
	"encoding/binary"
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/prefix"
)

// Encoding is how batches are written.
type Encoding string

const (
	// Maps is the form of vLLM since 0.26: maps with a type.
	Maps Encoding = "map"
	// Arrays is the older, positional one.
	Arrays Encoding = "array"
)

// encoder writes batches. What it has not to say it writes as nil: both forms have the same fields.
type encoder struct {
	encoding    Encoding
	rank        int
	blockTokens int
}

// batch appends a batch of events to out.
func (c encoder) batch(out []byte, now time.Time, events []event) []byte {
	seconds := float64(now.UnixNano()) / 1e9
	if c.encoding == Arrays {
		out = msgp.AppendFloat64(msgp.AppendArrayHeader(out, 3), seconds)
		out = msgp.AppendArrayHeader(out, uint32(len(events)))
	} else {
		out = msgp.AppendFloat64(msgp.AppendString(msgp.AppendMapHeader(out, 3), "ts"), seconds)
		out = msgp.AppendArrayHeader(msgp.AppendString(out, "events"), uint32(len(events)))
	}
	for i := range events {
		out = c.event(out, &events[i])
	}
	if c.encoding != Arrays {
		out = msgp.AppendString(out, "data_parallel_rank")
	}
	return msgp.AppendInt(out, c.rank)
}

func (c encoder) event(out []byte, e *event) []byte {
	var names []string
	switch e.tag {
	case tagStored:
		names = storedFields[:8] // to extra_keys; there is one cache group
	case tagRemoved:
		names = removedFields[:2]
	}
	if c.encoding == Arrays {
		out = msgp.AppendString(msgp.AppendArrayHeader(out, uint32(1+len(names))), e.tag)
	} else {
		out = msgp.AppendString(msgp.AppendString(msgp.AppendMapHeader(out, uint32(1+len(names))), "type"), e.tag)
	}
	for _, name := range names {
		if c.encoding != Arrays {
			out = msgp.AppendString(out, name)
		}
		out = c.field(out, e, name)
	}
	return out
}

func (c encoder) field(out []byte, e *event, name string) []byte {
	switch name {
	case "block_hashes":
		out = msgp.AppendArrayHeader(out, uint32(len(e.hashes)))
		for _, h := range e.hashes {
			out = appendHash(out, h)
		}
		return out
	case "parent_block_hash":
		if e.parent == "" {
			return msgp.AppendNil(out)
		}
		return appendHash(out, e.parent)
	case "token_ids":
		out = msgp.AppendArrayHeader(out, uint32(len(e.tokens)))
		for _, t := range e.tokens {
			out = msgp.AppendUint32(out, uint32(t))
		}
		return out
	case "block_size":
		return msgp.AppendInt(out, c.blockTokens)
	case "medium":
		return msgp.AppendString(out, mediumOf[e.tier])
	case "lora_name":
		if e.lora != "" {
			return msgp.AppendString(out, e.lora)
		}
	case "extra_keys":
		if e.extra != nil {
			return appendExtra(out, e.extra)
		}
	}
	return msgp.AppendNil(out)
}

// appendHash writes a hash of 8 bytes as a number, as vLLM does.
func appendHash(out []byte, h hash) []byte {
	return msgp.AppendUint64(out, binary.BigEndian.Uint64([]byte(h)))
}

func appendExtra(out []byte, extra [][]string) []byte {
	out = msgp.AppendArrayHeader(out, uint32(len(extra)))
	for _, keys := range extra {
		if keys == nil {
			out = msgp.AppendNil(out)
			continue
		}
		out = msgp.AppendArrayHeader(out, uint32(len(keys)))
		for _, k := range keys {
			out = msgp.AppendString(out, k)
		}
	}
	return out
}

func hashOf(h block.Hash) hash {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(h))
	return hash(b[:])
}

// eventsOf makes events of changes: one for each run of blocks that follow each other.
func eventsOf(changes []block.Change) (events []event) {
	var last block.Change
	for i, c := range changes {
		joins := i > 0 && c.Kind == last.Kind && c.Tier == last.Tier &&
			(c.Kind == block.Removed || c.Parent == last.Hash && (c.Content == nil || !c.Content.First))
		if !joins {
			e := event{tag: tagRemoved, tier: c.Tier}
			if c.Kind == block.Stored {
				e.begin(c)
			}
			events = append(events, e)
		}
		e := &events[len(events)-1]
		e.hashes = append(e.hashes, hashOf(c.Hash))
		if c.Content != nil {
			e.tokens = append(e.tokens, c.Content.Tokens...)
		}
		if e.extra != nil && len(e.extra) < len(e.hashes) {
			e.extra = append(e.extra, nil)
		}
		last = c
	}
	return events
}

// begin makes e the event of a stored run that begins with c.
func (e *event) begin(c block.Change) {
	e.tag = tagStored
	switch {
	case c.Content == nil: // a lower tier: whoever reads this was told the rest before
	case !c.Content.First:
		e.parent = hashOf(c.Parent)
	default:
		_, lora, salt, ok := prefix.SplitNamespace(c.Content.Namespace)
		if !ok {
			salt = c.Content.Namespace // of another making: no other prompt may match it
		}
		e.lora = lora
		if salt != "" {
			e.extra = [][]string{{salt}}
		}
	}
}
