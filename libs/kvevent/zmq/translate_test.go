package zmq

import (
	"testing"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/prefix"
)

// bench is a translator over a plain sink.
type bench struct {
	*translator
	t    *testing.T
	sink *plain
}

func newBench(t *testing.T) *bench {
	sink := newPlain()
	cfg := SubscriberConfig{Model: testModel, BlockTokens: testBlock, Blocks: 100}
	return &bench{newTranslator(cfg, header().Source, sink, &counters{}), t, sink}
}

func (b *bench) give(events ...event) { b.apply(&batch{events: events}) }

// want fails unless exactly these are held on a tier.
func (b *bench) want(what string, tier block.Tier, hashes ...block.Hash) {
	b.t.Helper()
	got := b.sink.at(b.source)[tier]
	for _, h := range hashes {
		if _, ok := got[h]; !ok {
			b.t.Errorf("%s: %x is not held", what, h)
		}
	}
	if len(got) != len(hashes) {
		b.t.Errorf("%s: %d are held, want %d", what, len(got), len(hashes))
	}
}

var eight = []uint32{1, 2, 3, 4, 5, 6, 7, 8}

func stored(tokens []uint32, parent hash, hashes ...hash) event {
	return event{tag: tagStored, hashes: hashes, parent: parent, tokens: tokens, blockSize: testBlock}
}

func removed(hashes ...hash) event { return event{tag: tagRemoved, hashes: hashes} }

func chain(lora, salt string) []block.Hash {
	return prefix.Chain(nil, prefix.Root(testModel, lora, salt), eight, testBlock)
}

func TestEngineHashesAreMappedByTheTokens(t *testing.T) {
	b, own := newBench(t), chain("", "")
	b.give(stored(eight[:4], "", "a"))
	b.give(stored(eight[4:], "a", "b"))
	b.want("two events", block.Device, own...)
	b.give(removed("b", "b", "unknown"))
	b.want("a repeated end", block.Device, own[0])
	b.give(stored(eight[4:], "gone", "c"))
	b.want("an unknown parent", block.Device, own[0])
	if b.counts.orphans.Load() != 1 {
		t.Errorf("%d orphans, want 1", b.counts.orphans.Load())
	}
	b.give(event{tag: tagCleared})
	b.want("cleared", block.Device)
	b.give(stored(eight[4:], "a", "b"))
	b.want("a parent from before", block.Device)
}

func TestCopiesAreCounted(t *testing.T) {
	b, own := newBench(t), chain("", "")
	b.give(stored(eight, "", "a", "b"), stored(eight, "", "a", "b"))
	b.give(removed("b"))
	b.want("one copy is left", block.Device, own...)
	b.give(removed("b"))
	b.want("none is left", block.Device, own[0])

	other := stored(eight, "", "x", "y") // the same content in another group
	other.group = 1
	b.give(other, removed("a"))
	b.want("a second group", block.Device, own...)
}

func TestGroupsThatHoldOnlyAPartDoNotCount(t *testing.T) {
	for spec, counts := range map[string]bool{"": true, "full_attention": true, "sink_full_attention": true, "mla_attention": true, "sliding_window": false, "mamba": false} {
		b := newBench(t)
		e := stored(eight, "", "a", "b")
		e.spec = spec
		b.give(e)
		if got := len(b.sink.at(b.source)[block.Device]) > 0; got != counts {
			t.Errorf("a group of kind %q counts: %v, want %v", spec, got, counts)
		}
	}
	b := newBench(t)
	e := stored(eight, "", "a", "b")
	e.window = 128
	b.give(e)
	b.want("a sliding window", block.Device)
}

func TestACopyInAnotherTierIsKnownByItsHash(t *testing.T) {
	b, own := newBench(t), chain("", "")
	b.give(stored(eight, "", "a", "b"))
	offload := event{tag: tagStored, tier: block.Host, hashes: []hash{"a", "b", "never"}, blockSize: testBlock}
	b.give(offload, removed("a", "b"))
	b.want("gone from the device", block.Device)
	b.want("copied", block.Host, own...)
	gone := removed("a", "b")
	gone.tier = block.Host
	b.give(gone)
	b.want("gone from memory", block.Host)
	if len(b.known) != 0 || len(b.held) != 0 {
		t.Errorf("%d entries are known and %d held of nothing", len(b.known), len(b.held))
	}
}

func TestWhatABlockDependsOnBesideItsTokensIsPartOfItsHash(t *testing.T) {
	plainPrompt := chain("", "")
	for name, tc := range map[string]struct {
		lora  string
		extra [][]string
		want  []block.Hash // nil: neither the plain prompt's nor another's
	}{
		"nothing":           {"", [][]string{nil, nil}, plainPrompt},
		"a salt":            {"", [][]string{{"s"}, nil}, chain("", "s")},
		"a LoRA":            {"l", [][]string{{"l"}, {"l"}}, chain("l", "")},
		"both":              {"l", [][]string{{"l", "s"}, {"l"}}, chain("l", "s")},
		"an image":          {"", [][]string{{rawKey + "image"}, nil}, nil},
		"a later image":     {"", [][]string{nil, {"image"}}, nil},
		"an image and salt": {"", [][]string{{"image", "s"}, nil}, nil},
	} {
		b := newBench(t)
		e := stored(eight, "", "a", "b")
		e.lora, e.extra = tc.lora, tc.extra
		b.give(e)
		if tc.want != nil {
			b.want(name, block.Device, tc.want...)
			continue
		}
		if held := b.sink.at(b.source)[block.Device]; len(held) != 2 || hasAll(held, plainPrompt) {
			t.Errorf("%s: %v is held, want two others than the plain prompt's", name, held)
		}
	}
}

func hasAll(held map[block.Hash]block.Hash, hashes []block.Hash) bool {
	for _, h := range hashes {
		if _, ok := held[h]; !ok {
			return false
		}
	}
	return true
}

func TestALossVoidsWhatIsHeldButNotWhatHashesMean(t *testing.T) {
	b, own := newBench(t), chain("", "")
	b.give(stored(eight[:4], "", "a"))
	b.doubt()
	b.want("in doubt", block.Device)
	b.give(stored(eight[4:], "a", "b"))
	b.want("a prompt that goes on", block.Device, own[1])
	b.give(removed("a"))
	b.want("an end of what was lost", block.Device, own[1])
}

func TestNoMoreIsRememberedThanAsked(t *testing.T) {
	b := newBench(t)
	b.capacity = 2
	b.give(stored(eight, "", "a", "b"), stored(eight[4:], "", "c"))
	if b.counts.overflow.Load() != 1 || len(b.known) != 2 {
		t.Errorf("%d overflowed, %d are known; want 1 and 2", b.counts.overflow.Load(), len(b.known))
	}
	b.give(removed("c")) // which changes nothing
	b.doubt()
	b.give(stored(eight[4:], "", "c"))
	b.want("room after a loss", block.Device, prefix.Next(prefix.Root(testModel, "", ""), eight[4:]))
	misfit := stored(eight, "", "d")
	misfit.blockSize = 8
	b.give(misfit)
	if b.counts.misfits.Load() != 1 {
		t.Errorf("%d misfits, want 1", b.counts.misfits.Load())
	}
}
