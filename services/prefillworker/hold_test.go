package prefillworker

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
)

// What one decode worker asked for is not for another, and outlives it.
func TestTwoDecodeWorkersAskOnePrefillWorker(t *testing.T) {
	r := newReader(t, func(c *Config) { c.Hold = time.Hour })
	r.start()
	r.connect()
	mine := r.held("a")
	q := of("b", 9)
	q.DecodeWorker = "other"
	others := take(t, "an answer", r.ask(within(t), q))
	if others.err != nil {
		t.Fatal(others.err)
	}
	if err := r.read(others.PrefillResponse); !errors.Is(err, nixl.ErrNotGranted) {
		t.Errorf("a read of what another asked for: %v", err)
	}
	if err := r.read(mine); err != nil {
		t.Error(err)
	}
	_ = r.decode.agent.Close()
	r.report("what the dead one asked for is free", func(r *prefillworkerv1.JobReport) bool {
		return r.GetHoldsDropped() == 1 && r.GetHeldBlocks() == 3
	})
	r.release("a", stale)
	r.release("b", ok)
	r.checkIdle()
}

func TestWhatADeadDecodeWorkerAskedForIsFreedAtOnce(t *testing.T) {
	for name, die := range map[string]func(r *reader){
		"its connection ended": func(r *reader) { _ = r.decode.agent.Close() },
		"another life is listed": func(r *reader) {
			again := proto.CloneOf(r.decode.instance)
			again.Incarnation = "2"
			r.members.Store(again)
		},
		"it is not listed any more": func(r *reader) { r.members.Store(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newReader(t, func(c *Config) { c.Hold = time.Hour })
			r.start()
			r.connect()
			r.held("a")
			r.eventually("its decode worker was seen", func() bool {
				r.p.calls.mu.Lock()
				defer r.p.calls.mu.Unlock()
				return r.p.calls.known[attemptKey{"t", "a"}].seen
			}, func() any { return nil })
			die(r)
			r.checkIdle()
			r.release("a", stale)
			r.report("one dropped", func(r *prefillworkerv1.JobReport) bool { return r.GetHoldsDropped() == 1 && r.GetHeldBlocks() == 0 })
		})
	}
}

func TestAWorkerThatLeavesWaitsForItsReaders(t *testing.T) {
	r := newReader(t, func(c *Config) { c.Drain = time.Hour })
	r.start()
	a := r.held("a")
	r.terminate()
	r.eventually("it drains", func() bool {
		r.p.calls.mu.Lock()
		defer r.p.calls.mu.Unlock()
		return r.p.calls.leaving
	}, func() any { return nil })
	r.refused(request("b"), codes.Unavailable)
	if err := r.read(a); err != nil {
		t.Fatal(err)
	}
	r.release("a", ok)
	r.stopped()
	r.checkIdle()
}

func TestAWorkerThatLeavesWaitsForItsReadersNotForEver(t *testing.T) {
	for _, computing := range []bool{true, false} {
		r := newReader(t, func(c *Config) { c.Drain, c.Hold = 20*time.Millisecond, time.Hour })
		var steps atomic.Int32
		reached := make(chan struct{}, 8)
		r.step = func(ctx context.Context) error {
			if computing && steps.Add(1) == 1 {
				reached <- struct{}{}
				<-time.After(100 * time.Millisecond) // longer than the drain
			}
			return nil
		}
		r.start()
		got := r.ask(within(t), request("a"))
		if computing {
			take(t, "a step", reached)
		} else if a := take(t, "an answer", got); a.err != nil {
			t.Fatal(a.err)
		}
		r.terminate()
		r.stopped()
		r.checkIdle()
	}
}
