package prefillworker

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

// receive takes the answers of decode workers, and the news of those that are gone, until
// ctx ends.
func (p *PrefillWorker) receive(ctx context.Context) error {
	for {
		event, err := p.deps.Worker.Agent.Receive(ctx)
		switch {
		case ctx.Err() != nil, errors.Is(err, nixl.ErrClosed): // the agent's own Run says why
			return nil
		case err != nil:
			return fmt.Errorf("receive answers: %w", err)
		case event.Gone:
			p.peerGone(event.Peer)
		default:
			p.answered(event)
		}
	}
}

func (p *PrefillWorker) answered(event nixl.Event) {
	var n transferv1.NoteAnswer
	if err := proto.Unmarshal(event.Payload, &n); err != nil {
		p.log.Error("the answer to a note cannot be read", "peer", event.Peer.String(), "error", err)
		return
	}
	p.mu.Lock()
	a := p.tickets[ticketKey{event.Peer, n.GetTicket()}]
	p.mu.Unlock()
	if a == nil {
		return // the attempt has ended; the answer changes nothing
	}
	select {
	case a.answer <- n.GetOutcome():
	default: // answered before
	}
}

// peerGone ends what is under way with a decode worker that is gone.
func (p *PrefillWorker) peerGone(peer nixl.PeerID) {
	p.log.Info("a decode worker is gone", "peer", peer.String())
	p.dropAll(nixl.ErrGone, func(c *call) bool { return c.decode == peer })
	p.endProbes(func(of nixl.PeerID, _ probeLeave) bool { return of == peer })
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, a := range p.tickets {
		if k.peer == peer {
			a.cancel(fmt.Errorf("%s: %w", peer, nixl.ErrGone))
		}
	}
}
