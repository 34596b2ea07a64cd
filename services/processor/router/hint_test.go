package router_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/switchyard-llm/switchyard/libs/prefix"
	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/services/processor/router"
)

func addPrefills(t testing.TB, r *router.Router, names ...string) {
	t.Helper()
	for _, n := range names {
		if err := r.AddPrefill(router.Worker{ID: id(n), Model: model, BlockTokens: size}); err != nil {
			t.Fatal(err)
		}
	}
}

func hint(t testing.TB, r *router.Router, tokens []sequence.Token, want ...string) router.Hint {
	t.Helper()
	h := r.Hint(router.Request{Model: model, Tokens: tokens})
	if diff := cmp.Diff(want, h.Names); diff != "" {
		t.Errorf("hint (-want +got):\n%s", diff)
	}
	return h
}

func TestAHintNamesTheLongestPrefixFirst(t *testing.T) {
	r := newRouter(t, nil)
	addPrefills(t, r, "a", "b", "c", "d", "e", "none")
	long := prompt(40)
	hint(t, r, long)
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		r.ComputedAt(name, "", prompt(40, slices.Clone(long[:(5-i)*size])...))
	}
	r.ComputedAt("gone", "", long)
	if h := hint(t, r, long, "a", "b", "c", "d"); h.Tokens != 5*size {
		t.Errorf("the first of the hint holds %d tokens, want %d", h.Tokens, 5*size)
	}
	r.ComputedAt("none", "", long)
	hint(t, r, long, "none", "a", "b", "c")
	hint(t, r, long[:size]) // the last token is always computed
	if h := hint(t, r, prompt(40)); h.Tokens != 0 {
		t.Errorf("nobody holds %d tokens", h.Tokens)
	}
	if h := r.Hint(router.Request{Model: model, Salt: "other", Tokens: long}); h.Names != nil {
		t.Errorf("another tenant's hint is %v", h.Names)
	}
	if h := r.Hint(router.Request{Model: "other", Tokens: long}); h.Names != nil {
		t.Errorf("another model's hint is %v", h.Names)
	}
}

func TestAmongEqualsTheOneWithFewestPromptsUnderWayIsHinted(t *testing.T) {
	r := newRouter(t, nil)
	addPrefills(t, r, "a", "b")
	shared := prompt(40)
	r.ComputedAt("a", "", shared)
	r.ComputedAt("b", "", shared)
	first := hint(t, r, shared, "a", "b")
	hint(t, r, shared, "b", "a")
	for range 2 { // the second changes nothing
		r.Placed(&first)
	}
	hint(t, r, shared, "a", "b")
	hint(t, r, shared, "a", "b")
	hint(t, r, shared, "b", "a")
	r.Placed(&router.Hint{})
}

func TestWhatAPrefillWorkerThatLeftComputedIsForgotten(t *testing.T) {
	r := newRouter(t, nil)
	addPrefills(t, r, "a", "b")
	tokens := prompt(40)
	r.ComputedAt("a", "", tokens)
	r.ComputedAt("b", "", tokens)
	r.KeepPrefills(map[router.WorkerID]bool{id("b"): true})
	hint(t, r, tokens, "b")
	again := router.Worker{ID: router.WorkerID{Name: "b", Incarnation: "2"}, Model: model, BlockTokens: size}
	if err := r.AddPrefill(again); err != nil {
		t.Fatal(err)
	}
	hint(t, r, tokens)
	r.ComputedAt("b", "", tokens)
	if err := r.AddPrefill(again); err != nil { // a new word of the same life
		t.Fatal(err)
	}
	hint(t, r, tokens, "b")
	if err := r.AddPrefill(router.Worker{ID: id("c"), Model: model}); err == nil {
		t.Error("blocks of no tokens were taken")
	}
}

// Prefill workers that publish what they hold are ranked by that.
func TestPrefillWorkersThatPublishAreRankedByTheirEvents(t *testing.T) {
	r := newRouter(t, nil)
	for _, n := range []string{"a", "b"} {
		if err := r.AddPrefill(router.Worker{ID: id(n), Model: model, BlockTokens: size, Events: true}); err != nil {
			t.Fatal(err)
		}
	}
	tokens := prompt(40)
	root := prefix.Root(model, "", "")
	chain := prefix.Chain(nil, root, tokens, size)
	r.ComputedAt("a", "", tokens)
	hint(t, r, tokens)
	r.Stored(id("a"), prefix.Device, root, chain[:3])
	r.Stored(id("b"), prefix.Device, root, chain[:5])
	if h := hint(t, r, tokens, "b", "a"); h.Tokens != 5*size {
		t.Errorf("the first of the hint holds %d tokens, want %d", h.Tokens, 5*size)
	}
	r.Removed(id("b"), prefix.Device, chain[1:2])
	hint(t, r, tokens, "a", "b")
	r.Reset(id("a"))
	hint(t, r, tokens, "b")
}

func BenchmarkHint(b *testing.B) {
	for _, workers := range []int{1, 16} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			r := newRouter(b, nil)
			tokens := prompt(4000)
			for i := range workers {
				addPrefills(b, r, fmt.Sprint(i))
				r.ComputedAt(fmt.Sprint(i), "", tokens)
			}
			b.ReportAllocs()
			for b.Loop() {
				h := r.Hint(router.Request{Model: model, Tokens: tokens})
				r.Placed(&h)
			}
		})
	}
}
