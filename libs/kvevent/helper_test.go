package kvevent

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/prefix"
	"github.com/switchyard-llm/switchyard/libs/sequence"
	kveventv1 "github.com/switchyard-llm/switchyard/proto/switchyard/kvevent/v1"
)

const (
	testModel = "m"
	testBlock = 4
)

// held is what one source holds by tier: hash to parent.
type held [block.Tiers]map[block.Hash]block.Hash

func newHeld() *held {
	h := new(held)
	for i := range h {
		h[i] = map[block.Hash]block.Hash{}
	}
	return h
}

// plain is a Sink of plain maps. Its own lock lets a test look while the follower works.
type plain struct {
	t    *testing.T
	mu   sync.Mutex // guards the rest
	of   map[Source]*held
	seen map[string]int // calls by name
}

func newPlain(t *testing.T) *plain {
	return &plain{t: t, of: map[Source]*held{}, seen: map[string]int{}}
}

func (p *plain) at(s Source, call string) *held {
	p.seen[call]++
	if p.of[s] == nil {
		for other := range p.of {
			if other.Worker == s.Worker && other.Incarnation != s.Incarnation {
				p.t.Errorf("%s for %v while %v is not gone", call, s, other)
			}
		}
		p.of[s] = newHeld()
	}
	return p.of[s]
}

// Stored implements Sink.
func (p *plain) Stored(s Source, tier block.Tier, parent block.Hash, chain []block.Hash) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range chain {
		p.at(s, "stored")[tier][h] = parent
		parent = h
	}
}

// Removed implements Sink.
func (p *plain) Removed(s Source, tier block.Tier, hashes []block.Hash) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range hashes {
		delete(p.at(s, "removed")[tier], h)
	}
}

// Reset implements Sink.
func (p *plain) Reset(s Source) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at(s, "reset")
	p.of[s] = newHeld()
}

// Gone implements Sink.
func (p *plain) Gone(s Source) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen["gone"]++
	delete(p.of, s)
}

var _ Sink = (*plain)(nil)

// check compares what it has of a source with what a log says.
func (p *plain) check(s Source, log Log) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	want, got := truth(log), p.of[s]
	if got == nil {
		got = newHeld()
	}
	for tier := range want {
		if !maps.Equal(want[tier], got[tier]) {
			p.t.Fatalf("%v holds (-worker +sink):\n%s", s, cmp.Diff(want, got))
		}
	}
}

// knows says whether it has anything of any life of a worker.
func (p *plain) knows(worker string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.of {
		if s.Worker == worker {
			return true
		}
	}
	return false
}

// truth is what a log says that it holds.
func truth(log Log) *held {
	h := newHeld()
	for _, c := range log.Snapshot().Blocks {
		h[c.Tier][c.Hash] = c.Parent
	}
	return h
}

// life is one life of a worker: a real pool whose changes are published.
type life struct {
	t      *testing.T
	pool   *block.Pool
	header Header
	out    *Batches
	serves *Snapshots
	sent   []*kveventv1.Batch
	root   block.Hash
	tables []*block.Table
}

func newLife(t *testing.T, worker string, number int) *life {
	t.Helper()
	pool, err := block.NewPool(block.Config{Blocks: 64, BlockTokens: testBlock, Chain: prefix.Next, Changes: 256})
	if err != nil {
		t.Fatal(err)
	}
	l := &life{t: t, pool: pool, root: prefix.Root(testModel, "", "")}
	l.header = Header{
		Pool:   Decode,
		Source: Source{Worker: worker, Incarnation: fmt.Sprintf("%08d", number)}, Model: testModel, BlockTokens: testBlock,
	}
	l.out = NewBatches(l.header, func(b *kveventv1.Batch) error {
		l.sent = append(l.sent, proto.CloneOf(b))
		return nil
	})
	l.serves = NewSnapshots(pool, l.header, 2)
	return l
}

func (l *life) source() Source { return l.header.Source }

// work changes what the worker holds, in some tier.
func (l *life) work(rnd *rand.Rand) {
	l.t.Helper()
	switch rnd.IntN(6) {
	case 0:
		var hashes []block.Hash
		for range 1 + rnd.IntN(5) {
			hashes = append(hashes, block.Hash(1+rnd.IntN(50)))
		}
		tier := block.Host + block.Tier(rnd.IntN(2))
		if rnd.IntN(2) == 0 {
			l.pool.StoredBelow(tier, block.Hash(1+rnd.IntN(50)), hashes)
		} else {
			l.pool.RemovedBelow(tier, hashes)
		}
	case 1:
		if len(l.tables) > 0 {
			l.tables[0].Release()
			l.tables = l.tables[1:]
		}
	default:
		l.admit(rnd)
	}
}

func (l *life) admit(rnd *rand.Rand) {
	l.t.Helper()
	tokens := make([]sequence.Token, 5+rnd.IntN(30))
	for i := range tokens {
		tokens[i] = sequence.Token(i / 8)
		if rnd.IntN(24) == 0 {
			tokens[i] += 100
		}
	}
	table, err := l.pool.Admit(block.Prompt{Tokens: tokens, Namespace: "n", Root: l.root}, (len(tokens)+testBlock-1)/testBlock)
	if err != nil { // no room now
		l.tables[0].Release()
		l.tables = l.tables[1:]
		return
	}
	if err := table.Extend(len(tokens)); err != nil {
		l.t.Fatal(err)
	}
	if err := table.Advance(tokens[table.Len():]); err != nil {
		l.t.Fatal(err)
	}
	l.tables = append(l.tables, table)
}

// publish makes batches of what has changed since the last call.
func (l *life) publish() []*kveventv1.Batch {
	changes, first, lost := l.pool.Changes(nil)
	l.sent = nil
	l.out.Publish(first, lost, changes)
	return l.sent
}

// grow stores n blocks in a row and publishes them as one batch.
func (l *life) grow(n int) *kveventv1.Batch {
	l.t.Helper()
	var chain []block.Hash
	for range n {
		chain = append(chain, block.Hash(rand.Uint64()|1))
	}
	l.pool.StoredBelow(block.Host, l.root, chain)
	sent := l.publish()
	if len(sent) != 1 {
		l.t.Fatalf("%d batches, want 1", len(sent))
	}
	return sent[0]
}

// partsOf answers a query at once, as far as the parts go.
func (l *life) partsOf(s Source) (*sliceParts, error) {
	out := &sliceParts{}
	err := l.serves.Serve(&kveventv1.SnapshotQuery{Incarnation: s.Incarnation, DpRank: s.Rank}, func(p *kveventv1.SnapshotPart) error {
		out.parts = append(out.parts, p)
		return nil
	})
	return out, err
}

// sliceParts are the parts of a snapshot that was taken already.
type sliceParts struct{ parts []*kveventv1.SnapshotPart }

// Recv implements Parts.
func (s *sliceParts) Recv() (*kveventv1.SnapshotPart, error) {
	if len(s.parts) == 0 {
		return nil, io.EOF
	}
	p := s.parts[0]
	s.parts = s.parts[1:]
	return p, nil
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newFollower(t *testing.T, sink Sink, snapshot func(context.Context, Source) (Parts, error), adjust ...func(*FollowerConfig)) *Follower {
	t.Helper()
	cfg := DefaultFollowerConfig(Decode, testModel, testBlock)
	for _, a := range adjust {
		a(&cfg)
	}
	f, err := NewFollower(cfg, Deps{Snapshot: snapshot, Sink: sink, Logger: discard()})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// start runs the follower until the test ends.
func start(t *testing.T, f *Follower) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
