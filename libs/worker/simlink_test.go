package worker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/inproc"
	"github.com/switchyard-llm/switchyard/libs/nixl/multi"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
)

// simulated is a worker with a simulated engine of the given TP behind a link of its own.
func simulated(t *testing.T, network *inproc.Network, name string, tp int) *Worker {
	t.Helper()
	c := DefaultProcessConfig("").Engine
	c.Kind, c.Sim.TP = Sim, tp
	executor, err := c.simulate()
	if err != nil {
		t.Fatal(err)
	}
	card := executor.Card()
	near, err := network.NewAgent(nixl.Config{Name: name, Incarnation: "1", KVFormat: card.KVFormat})
	if err != nil {
		t.Fatal(err)
	}
	agent, err := multi.New(multi.Transport{Name: InProc, Agent: near})
	if err != nil {
		t.Fatal(err)
	}
	if agent, err = slow(agent, c.Sim.linkBytesPerSecond(), float64(card.RowBytes())/float64(card.Layout.RowBytes())); err != nil {
		t.Fatal(err)
	}
	events := DefaultEventsConfig()
	w, err := New(DefaultConfig(), Deps{Executor: executor, Agent: agent, Events: &events, Rank: uint32(tp), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, w.Close()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// met is two workers that have met: of one TP and another, as the layout of neither matters to
// the one head that all their ranks hold.
func met(t *testing.T) (from, to *Worker, grant *nixl.Grant) {
	t.Helper()
	network := inproc.NewNetwork()
	from, to = simulated(t, network, "from", 4), simulated(t, network, "to", 1)
	endpoint, err := to.Endpoint(InProc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := from.Meet(t.Context(), &instancev1.Instance{Transfer: []*instancev1.TransferEndpoint{endpoint}}); err != nil {
		t.Fatal(err)
	}
	grant = &nixl.Grant{Number: 1, Op: nixl.Write, Epoch: to.MemoryEpoch()}
	for b := range block.ID(8) {
		grant.Blocks = append(grant.Blocks, block.Ref{ID: b})
	}
	if err := to.Agent.Allow(from.ID(), *grant); err != nil {
		t.Fatal(err)
	}
	return from, to, grant
}

func post(t *testing.T, from, to *Worker, grant *nixl.Grant, first, blocks int) nixl.Transfer {
	t.Helper()
	size := from.Layout().BlockBytes()
	span := block.Span{Offset: first * size, Bytes: blocks * size}
	transfer, err := nixl.Post(t.Context(), from.Agent, nixl.Request{Peer: to.ID(), Op: nixl.Write, Grant: grant, Copies: []nixl.Copy{{Local: span, Remote: span}}})
	if err != nil {
		t.Fatal(err)
	}
	return transfer
}

// The model keeps 128 KiB per token; at 64 GB/s a block of 16 tokens is 32.768 µs on the link.
func TestBlocksTakeTheTimeOfWhatTheyStandFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to, grant := met(t)
		const perBlock = 32768 * time.Nanosecond
		for i := range from.region.Bytes()[:8*from.Layout().BlockBytes()] {
			from.region.Bytes()[i] = byte(i * 11)
		}
		begin := time.Now()
		first, second := post(t, from, to, grant, 0, 3), post(t, from, to, grant, 3, 5)
		if err := first.Status(); !errors.Is(err, nixl.ErrInProgress) {
			t.Errorf("status before its time: %v", err)
		}
		for blocks, transfer := range map[int]nixl.Transfer{3: first, 8: second} { // in any order: each ends at its own time
			if err := transfer.Wait(t.Context()); err != nil {
				t.Error(err)
			}
			if took := time.Since(begin); blocks == 8 && took != 8*perBlock || took < time.Duration(blocks)*perBlock {
				t.Errorf("%d blocks were through after %v, want %v", blocks, took, time.Duration(blocks)*perBlock)
			}
			if err := errors.Join(transfer.Status(), transfer.Release()); err != nil {
				t.Error(err)
			}
		}
		n := 8 * from.Layout().BlockBytes()
		if !bytes.Equal(from.region.Bytes()[:n], to.region.Bytes()[:n]) {
			t.Error("the blocks did not arrive")
		}
		if got := from.LinkBytes(n); got != 8*16*128<<10 {
			t.Errorf("8 blocks count as %d bytes", got)
		}
	})
}

func TestAnImpatientWaitLeavesATransferUnsettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to, grant := met(t)
		transfer := post(t, from, to, grant, 0, 8)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Microsecond)
		defer cancel()
		if err := transfer.Wait(ctx); !errors.Is(err, nixl.ErrUnsettled) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		// The bytes have landed: a cancel leaves nothing to wait for, as with any transfer that was complete.
		begin := time.Now()
		transfer.Cancel()
		if err := errors.Join(transfer.Wait(t.Context()), transfer.Status(), transfer.Release()); err != nil || time.Since(begin) != 0 {
			t.Errorf("after a cancel: %v after %v", err, time.Since(begin))
		}
	})
}

// Who follows a worker's events takes its rank off its card.
func TestEventsCarryTheRank(t *testing.T) {
	w := simulated(t, inproc.NewNetwork(), "w", 4)
	if got := w.Events.header.Source.Rank; got != 4 {
		t.Errorf("events are of rank %d, want 4", got)
	}
}

func TestALinkWithoutBoundIsNone(t *testing.T) {
	for _, speed := range []float64{0, math.Inf(1)} {
		if agent, err := slow(nil, speed, 1); agent != nil || err != nil {
			t.Errorf("%g bytes a second: %v, %v", speed, agent, err)
		}
	}
}
