package block_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/prefix"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// mirror follows a pool by its changes alone, and by snapshots where some were lost.
type mirror struct {
	t       *testing.T
	pool    *block.Pool
	held    [block.Tiers]map[block.Hash]block.Hash
	weak    bool   // a hash may be that of a block and of a root: no order can be told
	last    uint64 // sequence of the last change that held has
	scratch []block.Change

	changes, losses int
}

func newMirror(t *testing.T, pool *block.Pool) *mirror {
	m := &mirror{t: t, pool: pool}
	m.clear()
	return m
}

func (m *mirror) clear() {
	for i := range m.held {
		m.held[i] = map[block.Hash]block.Hash{}
	}
}

// follow drains the changes. A Stored of what is there, or a Removed of what is not, is
// one change too many.
func (m *mirror) follow() {
	m.t.Helper()
	var first, lost uint64
	m.scratch, first, lost = m.pool.Changes(m.scratch[:0])
	if first > m.last+1 {
		m.losses++
		if lost == 0 {
			m.t.Fatalf("the first change is %d after %d, and none is lost", first, m.last)
		}
		m.reload()
	}
	for i, c := range m.scratch {
		if sequence := first + uint64(i); sequence > m.last {
			m.apply(c)
			m.last = sequence
		}
	}
}

func (m *mirror) apply(c block.Change) {
	m.t.Helper()
	m.changes++
	_, held := m.held[c.Tier][c.Hash]
	if held == (c.Kind == block.Stored) {
		m.t.Fatalf("change %d: %+v changes nothing", m.last+1, c)
	}
	if c.Kind == block.Stored {
		m.held[c.Tier][c.Hash] = c.Parent
	} else {
		delete(m.held[c.Tier], c.Hash)
	}
}

// reload begins anew from a snapshot.
func (m *mirror) reload() {
	m.t.Helper()
	s := m.pool.Snapshot()
	m.clear()
	m.last = s.Sequence
	after := map[block.Hash]bool{} // parents that have come after a child of theirs
	for _, c := range s.Blocks {
		if c.Kind != block.Stored {
			m.t.Fatalf("a snapshot holds %+v", c)
		}
		if !m.weak && after[c.Hash] {
			m.t.Fatalf("block %x comes after its child", c.Hash)
		}
		if _, held := m.held[c.Tier][c.Parent]; c.Tier == block.Device && !held {
			after[c.Parent] = true
		}
		m.apply(c)
	}
}

func (m *mirror) check() {
	m.t.Helper()
	if want, got := m.pool.Indexed(), m.held[block.Device]; !maps.Equal(want, got) {
		m.t.Fatalf("the changes up to %d do not give the index (-index +changes):\n%s", m.last, cmp.Diff(want, got))
	}
}

// checkChanges follows most of the time; now and then so late that changes are lost.
func (h *history) checkChanges(step int) {
	h.t.Helper()
	if h.changes == nil {
		h.changes = newMirror(h.t, h.pool)
		h.changes.weak = h.weak
	}
	switch {
	case h.rnd.IntN(64) == 0:
		h.changes.reload() // covers changes that are not drained yet, too
		h.changes.check()
	case step/500%2 == 1 && h.rnd.IntN(100) > 0:
		return // a drainer that is late
	}
	h.changes.follow()
	h.changes.check()
}

func TestLowerTiersShareTheSequenceAndTheSnapshot(t *testing.T) {
	pool, err := block.NewPool(block.Config{Blocks: 8, BlockTokens: 4, Chain: prefix.Next, Changes: 64})
	if err != nil {
		t.Fatal(err)
	}
	m, rnd := newMirror(t, pool), rand.New(rand.NewPCG(1, 2))
	truth := [block.Tiers]map[block.Hash]bool{block.Host: {}, block.Disk: {}}
	for i := range 3000 {
		tier := block.Host + block.Tier(rnd.IntN(2))
		var chain []block.Hash
		for range 1 + rnd.IntN(4) {
			chain = append(chain, block.Hash(1+rnd.IntN(40)))
		}
		if rnd.IntN(2) == 0 {
			pool.StoredBelow(tier, block.Hash(rnd.IntN(40)), chain)
		} else {
			pool.RemovedBelow(tier, chain)
			for _, h := range chain {
				delete(truth[tier], h)
			}
			chain = nil
		}
		for _, h := range chain {
			truth[tier][h] = true
		}
		if m.follow(); i%50 == 0 {
			m.reload()
		}
		for tier := block.Host; tier < block.Tiers; tier++ {
			if len(m.held[tier]) != len(truth[tier]) {
				t.Fatalf("%v holds %v, want %v", tier, m.held[tier], truth[tier])
			}
		}
	}
	if m.losses > 0 || pool.Sequence() != m.last {
		t.Errorf("%d losses; followed to %d of %d", m.losses, m.last, pool.Sequence())
	}
}

func TestChangesTellTheContentWhereAsked(t *testing.T) {
	pool, err := block.NewPool(block.Config{Blocks: 8, BlockTokens: 4, Chain: prefix.Next, Changes: 64, ChangeContent: true})
	if err != nil {
		t.Fatal(err)
	}
	tokens := []sequence.Token{1, 2, 3, 4, 5, 6, 7, 8, 9}
	root := prefix.Root("m", "", "s")
	table, err := pool.Admit(block.Prompt{Tokens: tokens, Namespace: "n", Root: root}, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Extend(9); err != nil {
		t.Fatal(err)
	}
	if err := table.Advance(tokens); err != nil {
		t.Fatal(err)
	}
	hashes := prefix.Chain(nil, root, tokens, 4)
	want := []block.Change{
		{Kind: block.Stored, Hash: hashes[0], Parent: root, Content: &block.Content{First: true, Namespace: "n", Tokens: tokens[:4]}},
		{Kind: block.Stored, Hash: hashes[1], Parent: hashes[0], Content: &block.Content{Tokens: tokens[4:8]}},
	}
	<-pool.Changed()
	got, first, lost := pool.Changes(nil)
	if diff := cmp.Diff(want, got); diff != "" || first != 1 || lost != 0 {
		t.Errorf("first %d, lost %d, (-want +got):\n%s", first, lost, diff)
	}
	if diff := cmp.Diff(block.Snapshot{Sequence: 2, Blocks: want}, pool.Snapshot()); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
	if got, first, lost = pool.Changes(nil); len(got) != 0 || first != 3 || lost != 0 {
		t.Errorf("drained twice: %v from %d, lost %d", got, first, lost)
	}
}

// What the log of changes adds to BenchmarkPrefillMissAndRelease, the drainer included.
func BenchmarkPrefillMissWithChanges(b *testing.B) {
	for _, bound := range []int{0, 1 << 14} {
		b.Run(fmt.Sprintf("bound%d", bound), func(b *testing.B) {
			const size = 16
			pool, err := block.NewPool(block.Config{Blocks: 4096, BlockTokens: size, Chain: prefix.Next, Changes: bound})
			if err != nil {
				b.Fatal(err)
			}
			_, pr := benchPool(b, size)
			var drained []block.Change
			b.ReportAllocs()
			for b.Loop() {
				pr.Tokens[0]++
				prefill(b, pool, pr, size).Release()
				drained, _, _ = pool.Changes(drained[:0])
			}
			perBlock(b, size)
		})
	}
}

func BenchmarkSnapshot(b *testing.B) {
	const size, blocks = 16, 1 << 15
	pool, err := block.NewPool(block.Config{Blocks: blocks, BlockTokens: size, Chain: prefix.Next})
	if err != nil {
		b.Fatal(err)
	}
	_, pr := benchPool(b, size)
	for range blocks * size / benchTokens {
		pr.Tokens[0]++
		prefill(b, pool, pr, size).Release()
	}
	for b.Loop() {
		pool.Snapshot()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/blocks, "ns/block")
}
