package handoff

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/worker"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

// answerTimeout bounds how long the answer to one note may hold up the next notes.
const answerTimeout = 500 * time.Millisecond

// receive takes notes, and the news of peers that are gone, until ctx ends.
func (c *Coordinator) receive(ctx context.Context) error {
	var burials sync.WaitGroup
	defer burials.Wait()
	for {
		event, err := c.agent.Receive(ctx)
		switch {
		case ctx.Err() != nil, errors.Is(err, nixl.ErrClosed): // the agent's own Run says why
			return nil
		case err != nil:
			return fmt.Errorf("receive notes: %w", err)
		case event.Gone:
			c.peerGone(ctx, event.Peer, &burials)
		default:
			c.note(ctx, event)
		}
	}
}

// note commits what a completion note says and answers it.
func (c *Coordinator) note(ctx context.Context, event nixl.Event) {
	var n transferv1.CompletionNote
	if err := proto.Unmarshal(event.Payload, &n); err != nil {
		c.log.Error("a completion note cannot be read", "peer", event.Peer.String(), "error", err)
		return
	}
	outcome := c.commit(ctx, event.Peer, &n)
	c.countNote(outcome)
	answer, err := proto.Marshal(&transferv1.NoteAnswer{TransferId: n.GetTransferId(), Ticket: n.GetTicket(), Outcome: outcome})
	if err == nil {
		bounded, cancel := context.WithTimeout(ctx, answerTimeout)
		err = c.agent.Notify(bounded, event.Peer, answer)
		cancel()
	}
	if err != nil && ctx.Err() == nil {
		// The prefill worker asks again by a new claim, which is answered GONE.
		c.log.Warn("a completion note was not answered", "peer", event.Peer.String(), "transfer_id", n.GetTransferId(), "error", err)
	}
}

// commit makes the blocks of a note part of their sequence, if everything matches.
func (c *Coordinator) commit(ctx context.Context, peer nixl.PeerID, n *transferv1.CompletionNote) transferv1.NoteOutcome {
	first, ok := firstOf(peer, n)
	if !ok {
		c.log.Error("a completion note has no first token", "peer", peer.String(), "transfer_id", n.GetTransferId())
		return transferv1.NoteOutcome_NOTE_OUTCOME_STALE
	}
	id := block.TransferID(n.GetTransferId())
	t := c.find(id)
	if t != nil {
		_, span := c.tracer.Start(trace.ContextWithSpanContext(ctx, t.span), "decodeworker.commit")
		defer span.End()
		if err := t.fits(n.GetFirstTokens()[0]); err != nil { // no other note of this writer would
			c.log.Error("a completion note cannot be used", "peer", peer.String(), "transfer_id", n.GetTransferId(), "error", err)
			t.giveUp(CausePrefill, err)
			return transferv1.NoteOutcome_NOTE_OUTCOME_STALE
		}
	}
	c.moving.RLock()
	defer c.moving.RUnlock()
	c.revoke(peer, n.GetTicket()) // by its note the writer has said its last word
	err := c.pool.Commit(id, block.Receipt{
		Writer: writerID(peer), Ticket: n.GetTicket(), Blocks: worker.Refs(n.GetBlocks()), Tokens: int(n.GetEndPosition()),
	})
	switch {
	case err == nil:
		c.countCommit(n)
		if t != nil { // it is gone only if its sequence was released, and then nobody waits
			t.done <- first
		}
		return transferv1.NoteOutcome_NOTE_OUTCOME_COMMITTED
	case errors.Is(err, block.ErrCommitted):
		return transferv1.NoteOutcome_NOTE_OUTCOME_COMMITTED
	}
	c.deps.Worker.Scheduler.Kick() // a late note may have settled its own ticket
	c.wakeRebook()
	if errors.Is(err, block.ErrGone) {
		return transferv1.NoteOutcome_NOTE_OUTCOME_GONE
	}
	return transferv1.NoteOutcome_NOTE_OUTCOME_STALE
}

// peerGone takes back what a lost writer held.
func (c *Coordinator) peerGone(ctx context.Context, peer nixl.PeerID, burials *sync.WaitGroup) {
	lost := c.pool.AbortWriter(writerID(peer))
	c.mu.Lock()
	w, known := c.writers[writerID(peer)]
	if known {
		w.gone = true
		c.writers[writerID(peer)] = w
	}
	c.mu.Unlock()
	level := slog.LevelInfo // it left
	if len(lost) > 0 {
		level = slog.LevelWarn
	}
	c.endTries(peer, fmt.Errorf("%s: %w", peer, nixl.ErrGone))
	c.log.Log(ctx, level, "a prefill worker is gone", "peer", peer.String(), "tickets", len(lost))
	burials.Go(func() { c.bury(ctx, peer, w.address, lost) }) // it asks the network, and notes do not wait for that
	c.sweepSoon()
}
