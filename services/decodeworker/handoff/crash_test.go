package handoff

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/worker"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
)

// dead answers for the addresses of processes that have ended, and notes who was asked about.
func dead(asked chan<- string, addresses ...string) func(context.Context, string) bool {
	return func(_ context.Context, address string) bool {
		asked <- address
		for _, a := range addresses {
			if a == address {
				return true
			}
		}
		return false
	}
}

// crash fails unless a hand-off ended with the death of a prefill worker.
func (r *rig) crash(err error, name string) {
	r.t.Helper()
	var c *Crash
	if !errors.As(err, &c) || c.Peer.Name != name || !errors.Is(err, ErrFallBack) {
		r.t.Errorf("Prefill = %v, want a crash of %s", err, name)
	}
}

func TestAJobWhoseWorkerDiedIsGivenToNoOther(t *testing.T) {
	for name, died := range map[string]bool{"died": true, "lives": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			asked := make(chan string, 9)
			if died {
				r.deps.Died = dead(asked, "address")
			} else {
				r.deps.Died = dead(asked)
			}
			q, s := r.admit()
			out := r.prefill(t.Context(), q)
			job := <-r.queue.arrived
			p := r.peer("prefill")
			p.ticket(job, "a")
			p.close()
			if address := <-asked; address != "address" {
				t.Errorf("asked about %q", address)
			}
			if !died {
				again := <-r.queue.arrived
				other := r.peer("other")
				ticket := other.ticket(again, "b")
				if err := other.write(ticket); err != nil {
					t.Fatal(err)
				}
				other.note(again, ticket)
				r.finish(q, s, <-out)
				return
			}
			o := <-out
			r.crash(o.err, "prefill")
			if got := r.peer("other").claim(job, "b"); got.GetGone() == nil {
				t.Errorf("another's claim: %v, want GONE", got)
			}
			r.fallBack(q, s, o, CauseCrash)
		})
	}
}

// A lease may end before the transport shows the death, and the worker live again by then.
func TestAWriterThatLivesAgainHasDied(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Lease = 1 })
	r.word = rpc.FailedPrecondition("incarnation", "this is another life")
	q, s := r.admit()
	out := r.prefill(t.Context(), q)
	p := r.peer("prefill")
	p.ticket(<-r.queue.arrived, "a")
	<-r.aborts
	o := <-out
	r.crash(o.err, "prefill")
	p.close() // which frees its blocks
	r.fallBack(q, s, o, CauseCrash)
}

func TestAfterADeathNoOtherWorkerIsAsked(t *testing.T) {
	for _, style := range []worker.Style{worker.Pull, worker.Rendezvous} {
		t.Run(string(style), func(t *testing.T) {
			r := newAskingRig(t, style, nil)
			r.deps.Died = dead(make(chan string, 9), "killed")
			killed, other := r.holder("killed"), r.holder("other")
			killed.prefill = func(context.Context, *prefillworkerv1.PrefillRequest) (*prefillworkerv1.PrefillResponse, error) {
				killed.close()
				return nil, rpc.Unavailable("the connection is closing")
			}
			q, s := r.admit()
			o := <-r.prefillBy(t.Context(), q, "killed", "other")
			r.crash(o.err, "killed")
			if len(other.asked) > 0 {
				t.Error("another worker was asked")
			}
			r.fallBack(q, s, o, CauseCrash)
		})
	}
}

// One that cannot be reached was not given the request.
func TestAWorkerThatWasDeadBeforeIsNoCrash(t *testing.T) {
	r := newAskingRig(t, worker.Pull, nil)
	r.deps.Died = dead(make(chan string, 9), "dead")
	gone := r.holder("dead")
	gone.close()
	r.holder("other")
	if o := r.with(t.Context(), "dead", "other")(); o.err != nil || o.first.PrefillWorker != "other" {
		t.Errorf("Prefill = %+v, want it of the other", o)
	}
	if len(gone.asked) > 0 {
		t.Error("a worker out of reach was asked")
	}
}

func TestAKeptJobWhoseKeeperDiedIsNotShared(t *testing.T) {
	r := newKeepingRig(t, time.Hour, time.Hour)
	r.deps.Died = dead(make(chan string, 9), "address")
	q, s := r.admit()
	out := make(chan outcome, 1)
	go func() {
		first, err := r.Prefill(r.t.Context(), q, &generationv1.Sequence{
			Prompt: prompt, MaxTokens: 6, PrefillHint: []string{"b"}, PrefillHintTokens: 8,
		})
		out <- outcome{first, err}
	}()
	kept := <-r.queue.kept
	p := r.peer("b")
	p.ticket(kept.RemotePrefillRequest, "b#1")
	p.close()
	o := <-out
	r.crash(o.err, "b")
	if n := len(r.queue.arrived); n != 0 {
		t.Errorf("%d jobs were shared, want none", n)
	}
	r.fallBack(q, s, o, CauseCrash)
}
