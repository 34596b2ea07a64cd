package handoff

import (
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/worker"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
)

func TestTheOrderInWhichWorkersAreAsked(t *testing.T) {
	r := newAskingRig(t, worker.Pull, nil)
	for _, name := range []string{"a", "b", "c", "d"} {
		r.live = append(r.live, &instancev1.Instance{Id: name, Incarnation: "1"})
	}
	id := func(name string) nixl.PeerID { return nixl.PeerID{Name: name, Incarnation: "1"} }
	order := func(hint ...string) (names string) {
		var tried []nixl.PeerID
		for i := r.choose(hint, tried); i != nil; i = r.choose(hint, tried) {
			names += i.GetId()
			tried = append(tried, peerOf(i))
		}
		return names
	}
	seen := map[string]bool{}
	for range 200 {
		seen[order()[:1]] = true
	}
	if len(seen) != 4 {
		t.Errorf("of equal ones only %v came first", seen)
	}
	r.said(id("a"), 1)
	r.said(id("b"), 4)
	r.said(id("c"), 0)
	r.said(id("d"), 3)
	if got := order(); got != "bdac" {
		t.Errorf("by credits: %s", got)
	}
	if got := order("gone", "a", "c"); got != "abdc" {
		t.Errorf("with a hint: %s", got)
	}
	r.Coordinator.mu.Lock()
	r.standing(id("b")).credits -= 2 // two calls from here
	r.standing(id("b")).inFlight += 2
	r.standing(id("d")).credits = 2
	r.Coordinator.mu.Unlock()
	if got := order(); got != "dbac" {
		t.Errorf("by calls from here: %s", got)
	}
	r.Coordinator.mu.Lock()
	r.standing(id("a")).credits, r.standing(id("d")).credits = 2, 2
	r.standing(id("a")).inFlight = 1
	r.Coordinator.mu.Unlock()
	for range 20 {
		if got := order(); got[:3] != "dab" {
			t.Fatalf("equal credits: %s", got)
		}
	}
	r.Coordinator.mu.Lock()
	r.standing(id("a")).inFlight = 0
	for _, s := range r.standings {
		s.said = s.said.Add(-creditsFor - time.Second)
	}
	r.Coordinator.mu.Unlock()
	if got := order(); got[3] != 'b' {
		t.Errorf("by old words: %s", got)
	}
	if n := len(r.standings); n != 1 {
		t.Errorf("%d standings are kept, want that of the one in flight", n)
	}
	r.Coordinator.mu.Lock()
	r.writers[writerID(id("d"))] = writer{fenced: true}
	r.standing(id("b")).inFlight = 0
	r.Coordinator.mu.Unlock()
	if got := order("d", "c", "b", "a"); got != "cba" {
		t.Errorf("with one that is fenced: %s", got)
	}
}
