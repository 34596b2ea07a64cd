package kvevent

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard-llm/switchyard/libs/block"
	kveventv1 "github.com/switchyard-llm/switchyard/proto/switchyard/kvevent/v1"
)

// changesOf undoes decode.
func changesOf(s span) (all []block.Change) {
	for _, r := range s.runs {
		parent := r.parent
		for _, h := range r.hashes {
			c := block.Change{Kind: block.Removed, Tier: r.tier, Hash: h}
			if r.kind == kveventv1.Kind_KIND_STORED {
				c.Kind, c.Parent = block.Stored, parent
				parent = h
			}
			all = append(all, c)
		}
	}
	return all
}

func randomChanges(rnd *rand.Rand, n int) (all []block.Change) {
	parent, tier := block.Hash(7), block.Device
	for range n {
		if rnd.IntN(6) == 0 {
			parent = block.Hash(rnd.Uint64())
		}
		if rnd.IntN(10) == 0 {
			tier = block.Tier(rnd.IntN(block.Tiers))
		}
		c := block.Change{Kind: block.Removed, Tier: tier, Hash: block.Hash(rnd.Uint64())}
		if rnd.IntN(4) > 0 {
			c.Kind, c.Parent = block.Stored, parent
			parent = c.Hash
		}
		all = append(all, c)
	}
	return all
}

func TestColumnsHoldAnyChanges(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	runs := &kveventv1.Runs{}
	for n := range 300 {
		want := randomChanges(rnd, n)
		clearRuns(runs)
		encode(runs, want)
		got, err := decode(5, runs)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, changesOf(got)); diff != "" || got.first != 5 || got.end != 5+uint64(n) {
			t.Fatalf("%d changes came as %d to %d (-want +got):\n%s", n, got.first, got.end, diff)
		}
	}
}

func TestAChainIsOneRunAndEightBytesABlock(t *testing.T) {
	var chain []block.Change
	for i := range 1000 {
		chain = append(chain, block.Change{Kind: block.Stored, Hash: block.Hash(i + 2), Parent: block.Hash(i + 1)})
	}
	runs := &kveventv1.Runs{}
	encode(runs, chain)
	if len(runs.Kinds) != 1 || len(runs.Tiers) != 0 || proto.Size(runs) > 8*1000+30 {
		t.Errorf("%d runs, %d tiers, %d bytes; want 1, none, 8 a block", len(runs.Kinds), len(runs.Tiers), proto.Size(runs))
	}
}

// FuzzReceive gives a follower any bytes for a batch: what it passes on are the events that the
// batch's numbers claim.
func FuzzReceive(f *testing.F) {
	rnd := rand.New(rand.NewPCG(2, 2))
	for n := range 6 {
		batch := &kveventv1.Batch{Worker: "w", Incarnation: "1", Model: testModel, BlockTokens: testBlock, FirstSequence: 1, Runs: &kveventv1.Runs{}}
		encode(batch.Runs, randomChanges(rnd, 4*n))
		data, err := proto.Marshal(batch)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		batch := &kveventv1.Batch{}
		if proto.Unmarshal(data, batch) != nil {
			return
		}
		sink := newPlain(t)
		follower := newFollower(t, sink, nil)
		follower.Receive(batch)
		c := follower.Counts()
		if passed := sink.seen["stored"] + sink.seen["removed"] + sink.seen["reset"]; uint64(passed) != c.Events {
			t.Errorf("%d events were passed on, %d counted", passed, c.Events)
		}
		if s := follower.Sources(); len(s) == 1 && s[0].Sequence != c.Events {
			t.Errorf("%+v after %d events", s, c.Events)
		}
	})
}

// nowhere is a Sink that does nothing.
type nowhere struct{}

func (nowhere) Stored(Source, block.Tier, block.Hash, []block.Hash) {}
func (nowhere) Removed(Source, block.Tier, []block.Hash)            {}
func (nowhere) Reset(Source)                                        {}
func (nowhere) Gone(Source)                                         {}

// What an event costs the worker (publish) and the processor (receive), without the network.
func BenchmarkEvent(b *testing.B) {
	const n = 64
	changes := randomChanges(rand.New(rand.NewPCG(3, 3)), n)
	h := Header{Pool: Decode, Source: Source{Worker: "w", Incarnation: "1"}, Model: testModel, BlockTokens: testBlock}
	var data []byte
	out := NewBatches(h, func(batch *kveventv1.Batch) (err error) {
		data, err = (proto.MarshalOptions{}).MarshalAppend(data[:0], batch)
		return err
	})
	perEvent := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/event")
		b.ReportMetric(float64(len(data))/n, "B/event")
	}
	b.Run("publish", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			out.Publish(1, 0, changes)
		}
		perEvent(b)
	})
	b.Run("receive", func(b *testing.B) {
		f, err := NewFollower(DefaultFollowerConfig(Decode, testModel, testBlock), Deps{Sink: nowhere{}, Logger: discard()})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for i := uint64(0); b.Loop(); i++ {
			batch := &kveventv1.Batch{}
			if err := proto.Unmarshal(data, batch); err != nil {
				b.Fatal(err)
			}
			batch.FirstSequence = 1 + i*n
			f.Receive(batch)
		}
		perEvent(b)
	})
}
