package block

import "github.com/switchyard-llm/switchyard/libs/sequence"

// ChangeKind says what happened to a block's content.
type ChangeKind uint8

const (
	// Stored content can be found from now on.
	Stored ChangeKind = iota
	// Removed content cannot be found any more.
	Removed
)

// Change is one change of what a worker can find by its hash. A second copy of the same
// content is none, nor is a copy that takes the place of another.
type Change struct {
	Hash Hash
	// Parent is the hash of the block before it, of the namespace's root for a first
	// block. Of Stored only.
	Parent  Hash
	Content *Content // nil unless Config.ChangeContent; of Stored device blocks only
	Kind    ChangeKind
	Tier    Tier
}

// Content is what a hash stands for, beside the blocks before it.
type Content struct {
	// First says that the block starts a sequence.
	First bool
	// Namespace is the prompt's. Of first blocks only.
	Namespace string
	// Tokens are the block's own.
	Tokens []sequence.Token
}

// changes is the log of a pool's changes, and what its owner says of lower tiers. All of
// it is guarded by the pool's mutex.
type changes struct {
	ring  []Change // the last len(ring) changes; sequence s lies at s mod len(ring)
	total uint64   // sequence of the last change; the first one's is 1
	taken uint64   // sequence of the last change that was drained or lost
	wake  chan struct{}
	lower [Tiers]map[Hash]Hash // of each tier but Device: hash to parent
}

func newChanges(bound int) changes {
	return changes{ring: make([]Change, bound), wake: make(chan struct{}, 1)}
}

// add notes a change; the oldest one that nobody has drained is overwritten when there
// are too many. It must stay this cheap: the engine's step loop is in here.
func (l *changes) add(c Change) {
	l.total++
	if len(l.ring) == 0 {
		return
	}
	l.ring[l.total%uint64(len(l.ring))] = c
	if l.total == l.taken+1 {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// stored notes that a block became findable.
func (p *Pool) stored(b ID, parent Hash) {
	c := Change{Kind: Stored, Hash: p.blocks[b].hash, Parent: parent}
	if p.config.ChangeContent {
		c.Content = p.contentOf(b)
	}
	p.changes.add(c)
}

func (p *Pool) contentOf(b ID) *Content {
	r := &p.blocks[b]
	c := &Content{First: r.first, Tokens: append([]sequence.Token(nil), p.tokensOf(b)...)}
	if r.first {
		c.Namespace = p.spaceByID[r.parent].name
	}
	return c
}

// Changed receives a value when there is a change to drain after there was none.
func (p *Pool) Changed() <-chan struct{} { return p.changes.wake }

// Changes appends to dst the changes since the last call, in order, and returns the
// sequence of the first of them. The sequences of one pool start at 1 and have no gaps;
// lost is how many before first were dropped, because nobody drained them while
// Config.Changes later ones came. There is one drainer.
func (p *Pool) Changes(dst []Change) (all []Change, first, lost uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &p.changes
	bound := uint64(len(l.ring))
	if l.total > l.taken+bound {
		lost = l.total - bound - l.taken
	}
	first = l.taken + lost + 1
	l.taken = l.total
	if first > l.total {
		return dst, first, lost
	}
	at, end := first%bound, l.total%bound+1
	if at < end {
		dst = append(dst, l.ring[at:end]...)
	} else {
		dst = append(append(dst, l.ring[at:]...), l.ring[:end]...)
	}
	if p.config.ChangeContent {
		clear(l.ring) // their contents are not ours to keep
	}
	return dst, first, lost
}

// Sequence is that of the last change.
func (p *Pool) Sequence() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changes.total
}

// StoredBelow says that a lower tier of the same worker holds a chain of blocks that
// follows parent, so that it is among the changes and in snapshots: all tiers share one
// sequence. Blocks that the tier is known to hold are no change.
func (p *Pool) StoredBelow(tier Tier, parent Hash, chain []Hash) {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := p.below(tier)
	for _, h := range chain {
		if _, ok := held[h]; !ok {
			held[h] = parent
			p.changes.add(Change{Kind: Stored, Tier: tier, Hash: h, Parent: parent})
		}
		parent = h
	}
}

// RemovedBelow says that a lower tier holds these blocks no more. Blocks that it is not
// known to hold are no change.
func (p *Pool) RemovedBelow(tier Tier, hashes []Hash) {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := p.below(tier)
	for _, h := range hashes {
		if _, ok := held[h]; ok {
			delete(held, h)
			p.changes.add(Change{Kind: Removed, Tier: tier, Hash: h})
		}
	}
}

func (p *Pool) below(tier Tier) map[Hash]Hash {
	if tier == Device || tier >= Tiers {
		panic("block pool: " + tier.String() + " is not a lower tier") // the pool's own, or none
	}
	l := &p.changes
	if l.lower[tier] == nil {
		l.lower[tier] = make(map[Hash]Hash)
	}
	return l.lower[tier]
}
