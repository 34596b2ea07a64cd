package handoff

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/nixltest"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

// retiring is an agent that has no proof of a living peer, but can move all of its memory.
type retiring struct {
	nixltest.Unproven
	blocks int

	mu      sync.Mutex
	retired []nixl.PeerID
	kept    []block.ID
}

func (a *retiring) Fence(context.Context, nixl.PeerID) error { return nixl.ErrStillAlive }

func (a *retiring) Retire(ctx context.Context, peer nixl.PeerID, _ nixl.RegionID, _ []block.ID, still nixl.Still) error {
	all := make([]block.ID, a.blocks)
	for i := range all {
		all[i] = block.ID(i)
	}
	return still(ctx, all, func(keep func(block.ID) bool) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.retired = append(a.retired, peer)
		for _, b := range all {
			if keep(b) {
				a.kept = append(a.kept, b)
			}
		}
		return nil
	})
}

func (a *retiring) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.retired)
}

func TestMemoryMovesAwayFromAFrozenWriterWhenItsBlocksAreMissed(t *testing.T) {
	const blocks = 13 // of which each sequence needs 4; a writer may have 3 in quarantine
	agent := &retiring{blocks: blocks}
	r := openRig(t, blocks, 150, func(c *Config) { c.Lease, c.Proof = 300*time.Millisecond, 50*time.Millisecond }, func(a nixl.Agent) nixl.Agent {
		agent.Unproven = nixltest.Unproven{Agent: a}
		return agent
	})
	r.word = errors.New("no answer")
	first, firstSink := r.admit()
	gotFirst := r.prefill(t.Context(), first)
	jobFirst := <-r.queue.arrived
	frozen, other := r.peer("frozen"), r.peer("other")
	frozen.ticket(jobFirst, "a")
	<-r.aborts // its lease has ended and it does not answer
	<-r.aborts // nor does it later
	if c := r.worker.Pool.Counts(); c.Now[block.Quarantine] != 3 || agent.count() != 0 {
		t.Fatalf("%d blocks in quarantine, moved %d times; nobody misses them", c.Now[block.Quarantine], agent.count())
	}
	second, secondSink := r.admit()
	gotSecond := r.prefill(t.Context(), second)
	jobSecond := <-r.queue.arrived
	lost := other.ticket(jobSecond, "b")
	idle, idleSink := r.admit() // has its blocks, and waits for its owner
	waiting := make(chan struct{})
	go func() { // a fourth sequence misses the blocks
		defer close(waiting)
		fourth, sink := r.admit()
		if err := fourth.Start(); err != nil {
			t.Error(err)
		}
		<-sink.done
	}()
	again := <-r.queue.arrived // the innocent writer's job
	if again.GetTransferId() != jobSecond.GetTransferId() || agent.count() != 1 || agent.retired[0] != frozen.agent.ID() {
		t.Fatalf("queued %v again, moved away from %v", again, agent.retired)
	}
	if o := other.note(jobSecond, lost); o == transferv1.NoteOutcome_NOTE_OUTCOME_COMMITTED {
		t.Error("a ticket whose blocks have moved was committed")
	}
	if got := frozen.claim(jobFirst, "c"); got.GetLater() == nil {
		t.Errorf("a fenced writer's claim was answered %v", got)
	}
	idle.Cancel()
	<-idleSink.done
	<-waiting
	for job, q := range map[*transferv1.RemotePrefillRequest]<-chan outcome{jobFirst: gotFirst, jobSecond: gotSecond} {
		ticket := other.ticket(job, "d")
		if err := other.write(ticket); err != nil {
			t.Fatal(err)
		}
		if o := other.note(job, ticket); o != transferv1.NoteOutcome_NOTE_OUTCOME_COMMITTED {
			t.Errorf("the note was answered %v", o)
		}
		if job == jobFirst {
			r.finish(first, firstSink, <-q)
		} else {
			r.finish(second, secondSink, <-q)
		}
	}
}

var _ nixl.Retirer = (*retiring)(nil)
