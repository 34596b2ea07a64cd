package zmq

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/kvevent"
	"github.com/switchyard-llm/switchyard/libs/prefix"
)

// translator turns one rank's events into calls of a sink. It maps the engine's hashes to own ones by
// the tokens that came with them. One goroutine uses it.
type translator struct {
	sink        kvevent.Sink
	source      kvevent.Source
	model       string
	blockTokens int
	capacity    int // entries of known

	known  map[key]*entry
	idle   bool // some entries may be of blocks that are not held
	held   map[block.Hash]*copies
	counts *counters
}

// key names a block as its engine does. Each cache group has copies of its own.
type key struct {
	group int
	hash  hash
}

// entry is what a block is to us. Copies are counted: the engine tells each, and each one's end.
type entry struct {
	own, parent block.Hash
	copies      copies
}

// copies counts a content's by tier.
type copies [block.Tiers]int32

func (e *entry) idle() bool { return e.copies == (copies{}) }

func newTranslator(cfg SubscriberConfig, source kvevent.Source, sink kvevent.Sink, c *counters) *translator {
	return &translator{
		sink: sink, source: source, model: cfg.Model, blockTokens: cfg.BlockTokens, capacity: cfg.Blocks, counts: c,
		known: make(map[key]*entry), held: make(map[block.Hash]*copies),
	}
}

func (t *translator) apply(b *batch) {
	for i := range b.events {
		switch e := &b.events[i]; e.tag {
		case tagStored:
			t.stored(e)
		case tagRemoved:
			t.removed(e)
		default:
			t.clear()
		}
	}
}

// clear: the engine holds nothing any more.
func (t *translator) clear() {
	clear(t.known)
	clear(t.held)
	t.sink.Reset(t.source)
}

// doubt: events were lost for good. Nothing is claimed to be held that may be gone; what the hashes
// mean is still known, so that prompts which go on are.
func (t *translator) doubt() {
	for _, e := range t.known {
		e.copies = copies{}
	}
	t.idle = true
	clear(t.held)
	t.sink.Reset(t.source)
}

func (t *translator) stored(e *event) {
	if !e.full() {
		return
	}
	if len(e.tokens) == 0 { // copied to another tier: the engine has told the tokens before
		t.copied(e)
		return
	}
	if e.blockSize != t.blockTokens {
		t.counts.misfits.Add(uint64(len(e.hashes)))
		return
	}
	parent, ok := t.start(e)
	if !ok {
		t.counts.orphans.Add(uint64(len(e.hashes)))
		return
	}
	run := run{t: t, tier: e.tier}
	for i, h := range e.hashes {
		from := t.mixed(parent, e, i)
		own := prefix.Next(from, e.tokens[i*e.blockSize:(i+1)*e.blockSize])
		if x := t.enter(key{e.group, h}, own, parent); x != nil && t.copy(x, e.tier) {
			run.add(parent, own)
		}
		parent = own
	}
	run.flush()
}

// start is the hash of the block before the event's first one.
func (t *translator) start(e *event) (block.Hash, bool) {
	if e.parent != "" {
		x := t.known[key{e.group, e.parent}]
		if x == nil {
			return 0, false
		}
		return x.own, true
	}
	return prefix.Root(t.model, e.lora, e.salt()), true
}

// salt is the cache salt of a first block: the one key beside its LoRA's name.
func (e *event) salt() string {
	if e.parent == "" && len(e.extra) > 0 {
		if keys := e.others(0); len(keys) == 1 && !strings.HasPrefix(keys[0], rawKey) {
			return keys[0]
		}
	}
	return ""
}

// others are a block's keys but for the LoRA's name, which the root stands for.
func (e *event) others(i int) []string {
	if i >= len(e.extra) {
		return nil
	}
	if at := slices.Index(e.extra[i], e.lora); e.lora != "" && at >= 0 {
		return slices.Delete(slices.Clone(e.extra[i]), at, at+1)
	}
	return e.extra[i]
}

// mixed is what block i is hashed onto: the block before it and, where it depends on more than tokens
// (an image, say), all of that. No plain prompt hashes to the same.
func (t *translator) mixed(parent block.Hash, e *event, i int) block.Hash {
	keys := e.others(i)
	if len(keys) == 0 || i == 0 && e.salt() != "" {
		return parent
	}
	text := binary.LittleEndian.AppendUint64(nil, uint64(parent))
	for _, k := range keys {
		text = binary.LittleEndian.AppendUint32(text, uint32(len(k)))
		text = append(text, k...)
	}
	return prefix.Root(t.model, e.lora, rawKey+string(text))
}

// enter finds a block's entry or makes it; nil: there is no room.
func (t *translator) enter(k key, own, parent block.Hash) *entry {
	if x := t.known[k]; x != nil {
		return x
	}
	if len(t.known) >= t.capacity && t.idle {
		maps.DeleteFunc(t.known, func(_ key, x *entry) bool { return x.idle() })
		t.idle = false
	}
	if len(t.known) >= t.capacity {
		t.counts.overflow.Add(1)
		return nil
	}
	x := &entry{own: own, parent: parent}
	t.known[k] = x
	return x
}

// copy counts a copy and says whether it is the tier's first of this content.
func (t *translator) copy(x *entry, tier block.Tier) bool {
	x.copies[tier]++
	h := t.held[x.own]
	if h == nil {
		h = new(copies)
		t.held[x.own] = h
	}
	h[tier]++
	return h[tier] == 1
}

func (t *translator) copied(e *event) {
	run := run{t: t, tier: e.tier}
	for _, h := range e.hashes {
		x := t.known[key{e.group, h}]
		if x == nil {
			t.counts.orphans.Add(1)
			continue
		}
		if t.copy(x, e.tier) {
			run.add(x.parent, x.own)
		}
	}
	run.flush()
}

// removed drops a copy of each. Of what is not held there is nothing to drop: a group that does not
// count, or events before a loss.
func (t *translator) removed(e *event) {
	var gone []block.Hash
	for _, h := range e.hashes {
		k := key{e.group, h}
		x := t.known[k]
		if x == nil || x.copies[e.tier] == 0 {
			continue
		}
		x.copies[e.tier]--
		held := t.held[x.own]
		held[e.tier]--
		if held[e.tier] == 0 {
			gone = append(gone, x.own)
		}
		if *held == (copies{}) {
			delete(t.held, x.own)
		}
		if x.idle() {
			delete(t.known, k)
		}
	}
	if len(gone) > 0 {
		t.sink.Removed(t.source, e.tier, gone)
	}
}

// run gathers blocks that follow each other into one call.
type run struct {
	t      *translator
	tier   block.Tier
	parent block.Hash
	chain  []block.Hash
}

func (r *run) add(parent, own block.Hash) {
	if n := len(r.chain); n > 0 && r.chain[n-1] != parent {
		r.flush()
	}
	if len(r.chain) == 0 {
		r.parent = parent
	}
	r.chain = append(r.chain, own)
}

func (r *run) flush() {
	if len(r.chain) > 0 {
		r.t.sink.Stored(r.t.source, r.tier, r.parent, r.chain)
		r.chain = nil
	}
}
