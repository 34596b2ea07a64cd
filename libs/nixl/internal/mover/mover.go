// Package mover copies bytes between mapped regions, for the transports whose
// writes are plain copies. Its goroutines are started and awaited by Run.
package mover

import (
	"context"
	"fmt"
	"sync"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/gate"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/ledger"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/list"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/region"
)

// Mover runs transfers in the order in which they were posted, as many at a time
// as it has copiers. It is made by New; its methods may be called concurrently.
type Mover struct {
	copiers int
	ledger  *ledger.Ledger
	queue   chan *transfer
	ending  chan struct{}
	posting gate.Gate // users are posters; shut before the queue is emptied for the last time
	endOnce sync.Once
}

// New makes a mover that counts in l.
func New(c nixl.Config, l *ledger.Ledger) *Mover {
	return &Mover{copiers: c.Copiers, ledger: l, queue: make(chan *transfer, c.Transfers), ending: make(chan struct{})}
}

// Spec is a checked transfer between two mapped regions.
type Spec struct {
	Peer          nixl.PeerID
	Op            nixl.Op
	Runs          list.Runs
	Local, Remote *region.Region
	// Gates are entered while bytes are copied and end the transfer when they are shut.
	Gates []*gate.Gate
}

// New makes a transfer that can be posted.
func (m *Mover) New(s Spec) nixl.Transfer {
	return &transfer{
		Spec: s, mover: m, local: s.Local.Bytes(), remote: s.Remote.Bytes(),
		gates: append(s.Gates, &s.Local.Gate, &s.Remote.Gate),
	}
}

// enqueue waits for a place while ctx lasts.
func (m *Mover) enqueue(ctx context.Context, t *transfer) error {
	if err := m.posting.Enter(); err != nil {
		return err
	}
	defer m.posting.Leave()
	select {
	case m.queue <- t:
		return nil
	default:
	}
	select {
	case m.queue <- t:
		return nil
	case <-m.ending:
		return nixl.ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("wait for a place among %d queued transfers: %w", cap(m.queue), ctx.Err())
	}
}

// Run copies until ctx ends; then it aborts what is left.
func (m *Mover) Run(ctx context.Context) {
	defer m.End()
	var copiers sync.WaitGroup
	for range m.copiers {
		copiers.Go(func() { m.copy(ctx) })
	}
	<-ctx.Done()
	m.refuse()
	copiers.Wait()
}

func (m *Mover) copy(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		default:
		}
		select {
		case t := <-m.queue:
			t.run()
		case <-ctx.Done():
			return
		}
	}
}

// refuse makes posters and running transfers end.
func (m *Mover) refuse() {
	m.endOnce.Do(func() {
		close(m.ending)
		m.posting.Shut(nixl.ErrClosed)
	})
}

// End refuses further transfers and aborts the queued ones. It is for a mover
// whose Run has ended or never began.
func (m *Mover) End() {
	m.refuse()
	<-m.posting.Shut(nixl.ErrClosed)
	for {
		select {
		case t := <-m.queue:
			t.settle(0, nixl.ErrClosed)
		default:
			return
		}
	}
}
