package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/engine"
	"github.com/switchyard-llm/switchyard/libs/prefix"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// log is a sink that writes down what it is told.
type log []string

func (l *log) StoredBelow(t block.Tier, parent block.Hash, blocks []block.Hash) {
	*l = append(*l, fmt.Sprintf("%v has %v after %d", t, blocks, parent))
}

func (l *log) RemovedBelow(t block.Tier, blocks []block.Hash) {
	*l = append(*l, fmt.Sprintf("%v lost %v", t, blocks))
}

func tiered(t testing.TB, host, disk int, sink TierSink) *Sim {
	t.Helper()
	cfg := config(t)
	cfg.SpeedUp = 1
	// 100 and 10 tokens a millisecond.
	row := float64(cfg.Shape.KVBytes(cfg.Numerics))
	cfg.Tiers = TierConfig{HostBlocks: host, DiskBlocks: disk, HostBytesPerSecond: row * 100_000, DiskBytesPerSecond: row * 10_000}
	s, _ := open(t, cfg, 64)
	s.SetTierSink(sink)
	return s
}

func TestBlocksGoDownTheTiersTheLongestUnusedFirst(t *testing.T) {
	var told log
	s := tiered(t, 2, 2, &told)
	for i := range block.Hash(6) {
		s.DeviceStored(100+i, i+1)
	}
	s.DeviceRemoved(77) // never stored
	for _, h := range []block.Hash{1, 2, 3} {
		s.DeviceRemoved(h)
	}
	if s.tiers.fetch(2, 0, testBlock).from != [block.Tiers]int{block.Host: testBlock} || s.tiers.fetch(1, 0, testBlock).from != [block.Tiers]int{block.Disk: testBlock} {
		t.Error("a block is not where it went")
	}
	s.DeviceStored(101, 2) // it came back to the device, and goes again
	s.DeviceRemoved(2)
	for _, h := range []block.Hash{4, 5, 6} {
		s.DeviceRemoved(h)
	}
	want := log{
		"host has [1] after 100", "host has [2] after 101", "host has [3] after 102", "disk has [1] after 100", "host lost [1]",
		"host has [4] after 103", "disk has [3] after 102", "host lost [3]",
		"host has [5] after 104", "disk has [2] after 101", "disk lost [1]", "host lost [2]",
		"host has [6] after 105", "disk has [4] after 103", "disk lost [3]", "host lost [4]",
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestADiskAloneTakesWhatTheDeviceGivesUp(t *testing.T) {
	var told log
	s := tiered(t, 0, 1, &told)
	s.DeviceStored(0, 1)
	s.DeviceRemoved(1)
	if diff := cmp.Diff(log{"disk has [1] after 0"}, told); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A tier never exceeds its size, what the sink was told is what the tiers hold, and whatever the device
// gave up last is found.
func TestTiersHoldWhatTheyTold(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	var books [block.Tiers][]block.Hash
	s := tiered(t, 3, 5, sinkFuncs{
		func(at block.Tier, h block.Hash) { books[at] = append(books[at], h) },
		func(at block.Tier, h block.Hash) {
			i := slices.Index(books[at], h)
			if i < 0 {
				t.Fatalf("%v lost %d, which it never had", at, h)
			}
			books[at] = slices.Delete(books[at], i, i+1)
		},
	})
	for range 5000 {
		h := block.Hash(1 + r.IntN(20))
		switch r.IntN(3) {
		case 0:
			s.DeviceStored(h-1, h)
		case 1:
			_, was := s.tiers.device[h]
			s.DeviceRemoved(h)
			if was && s.tiers.fetch(h, 0, testBlock).tokens == 0 {
				t.Fatalf("block %d was given up and is nowhere", h)
			}
		default:
			s.tiers.fetch(h, 0, testBlock)
		}
		for i, book := range books {
			if len(book) != s.tiers.lower[i].order.Len() || len(book) != len(s.tiers.lower[i].at) || len(book) > s.tiers.lower[i].capacity {
				t.Fatalf("%v: told of %v, holds %d", block.Tier(i), book, s.tiers.lower[i].order.Len())
			}
		}
	}
}

type sinkFuncs struct {
	stored, removed func(block.Tier, block.Hash)
}

func (f sinkFuncs) StoredBelow(t block.Tier, _ block.Hash, blocks []block.Hash) {
	f.stored(t, blocks[0])
}
func (f sinkFuncs) RemovedBelow(t block.Tier, blocks []block.Hash) { f.removed(t, blocks[0]) }

// A prompt takes the time of its computed tokens and of loading the others, and answers as before.
func TestBlocksOfALowerTierAreLoadedAndNotComputed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tiered(t, 2, 8, nil)
		prompt := randomPrompt(rand.New(rand.NewPCG(9, 9)), 6*testBlock)
		root := prefix.Root("m", "", "salt")
		parent := root
		hashes := make([]block.Hash, 5)
		for i := range hashes {
			hashes[i] = prefix.Next(parent, prompt[i*testBlock:][:testBlock])
			s.DeviceStored(parent, hashes[i])
			parent = hashes[i]
		}
		// The last that the device gave up stay with the host.
		for _, h := range slices.Backward(hashes) {
			s.DeviceRemoved(h)
		}
		used := block.ID(0)
		took := func(root block.Hash, cuts ...int) time.Duration {
			table := make([]block.ID, 6) // of blocks that nothing was in yet
			for i := range table {
				table[i], used = used, used+1
			}
			logits := make([]float32, VocabTokens)
			begin, from := time.Now(), 0
			for _, to := range append(cuts, len(prompt)) {
				segment := engine.Segment{Tokens: prompt[from:to], Start: from, Blocks: table, Root: root}
				if to == len(prompt) {
					segment.Logits = logits
				}
				if err := s.Step(t.Context(), &engine.Batch{Segments: []engine.Segment{segment}}); err != nil {
					t.Fatal(err)
				}
				from = to
			}
			if want := Answer(prompt, 1); logits[want[0]] != certain {
				t.Errorf("the answer does not begin with %v", want)
			}
			elapsed := time.Since(begin)
			time.Sleep(time.Second)
			return elapsed
		}
		const computed, host, disk = time.Millisecond, 10 * time.Microsecond, 100 * time.Microsecond // of a token
		if got, want := took(root), testBlock*(2*host+3*disk+computed); got != want {
			t.Errorf("in one step: %v, want %v", got, want)
		}
		// A block that a step begins amid is computed; only what a step fills whole is loaded.
		if got, want := took(root, testBlock/2, 3*testBlock), testBlock*(computed+host+disk+2*disk+computed); got != want {
			t.Errorf("in three steps: %v, want %v", got, want)
		}
		if got, want := took(prefix.Root("m", "", "other")), time.Duration(len(prompt))*computed; got != want {
			t.Errorf("another tenant's: %v, want %v", got, want)
		}
	})
}

func TestTheLastTokenIsComputed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tiered(t, 8, 0, nil)
		prompt := make([]sequence.Token, 2*testBlock)
		for i := range 2 {
			var parent block.Hash
			if i == 1 {
				parent = prefix.Next(0, prompt[:testBlock])
			}
			h := prefix.Next(parent, prompt[:testBlock])
			s.DeviceStored(parent, h)
			s.DeviceRemoved(h)
		}
		begin := time.Now()
		segment := engine.Segment{Tokens: prompt, Blocks: []block.ID{0, 1}, Logits: make([]float32, VocabTokens)}
		if err := s.Step(t.Context(), &engine.Batch{Segments: []engine.Segment{segment}}); err != nil {
			t.Fatal(err)
		}
		if got, want := time.Since(begin), testBlock*(10*time.Microsecond+time.Millisecond); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	})
}
