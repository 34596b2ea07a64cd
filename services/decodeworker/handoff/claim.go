package handoff

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/worker"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

var (
	answerGone = &decodeworkerv1.ClaimPrefillResponse{
		Outcome: &decodeworkerv1.ClaimPrefillResponse_Gone{Gone: &decodeworkerv1.Gone{}},
	}
)

// Claim answers DecodeWorker.ClaimPrefill.
func (c *Coordinator) Claim(ctx context.Context, r *decodeworkerv1.ClaimPrefillRequest) (*decodeworkerv1.ClaimPrefillResponse, error) {
	ctx, span := c.tracer.Start(ctx, "decodeworker.claim")
	defer span.End()
	if self := c.deps.Worker.ID(); r.GetDecodeIncarnation() != self.Incarnation {
		return nil, rpc.FailedPrecondition("incarnation",
			fmt.Sprintf("decode_incarnation is %q, this is %s", r.GetDecodeIncarnation(), self))
	}
	id, peer := block.TransferID(r.GetTransferId()), nixl.PeerID{Name: r.GetPrefillWorker(), Incarnation: r.GetPrefillIncarnation()}
	t := c.find(id)
	if t == nil {
		c.countClaim(block.ErrGone, false)
		return answerGone, nil
	}
	c.moving.RLock() // so that the ticket's epoch is that of its blocks
	defer c.moving.RUnlock()
	t.claim.Lock()
	defer t.claim.Unlock()
	if !c.remember(peer, r.GetPrefillAddress()) {
		c.countClaim(block.ErrFenced, false)
		return c.answerLater(), nil
	}
	now := time.Now()
	ticket, err := c.pool.Claim(id, block.Claim{
		Attempt: block.AttemptID(r.GetAttemptId()), Writer: writerID(peer), Now: now, Expiry: now.Add(c.cfg.Lease),
	})
	if err == nil && ticket.Grants > c.cfg.GrantsMax {
		// The ticket is never handed out, so nobody can write by it.
		c.quiet(t.id, ticket.Attempt)
		t.giveUp(CauseGrants, fmt.Errorf("%d claims were granted, and none came to its end", c.cfg.GrantsMax))
		err = fmt.Errorf("%d claims were granted: %w", c.cfg.GrantsMax, block.ErrGone)
		c.log.ErrorContext(ctx, "a transfer used up its claims", "transfer_id", t.id, "grants", c.cfg.GrantsMax)
	}
	c.countClaim(err, ticket.Repeated)
	c.sweepSoon() // the claim may have put an expired ticket into QUARANTINE
	switch {
	case errors.Is(err, block.ErrGone):
		return answerGone, nil
	case errors.Is(err, block.ErrLater), errors.Is(err, block.ErrFenced):
		return c.answerLater(), nil
	case err != nil:
		return nil, rpc.InvalidArgument("attempt_id", err.Error())
	}
	if err := c.allow(peer, ticket); err != nil {
		c.quiet(t.id, ticket.Attempt) // nobody can write by it
		return nil, fmt.Errorf("allow the writes of ticket %d: %w", ticket.Number, err)
	}
	return c.grant(t, ticket, now, r.GetWantSequence()), nil
}

func (c *Coordinator) answerLater() *decodeworkerv1.ClaimPrefillResponse {
	return &decodeworkerv1.ClaimPrefillResponse{
		Outcome: &decodeworkerv1.ClaimPrefillResponse_Later{Later: durationpb.New(c.cfg.Later)},
	}
}

// allow opens this worker's memory to the ticket's writes and the reads of its prefix.
func (c *Coordinator) allow(peer nixl.PeerID, ticket block.Ticket) error {
	if ticket.Repeated {
		return nil
	}
	err := c.agent.Allow(peer, nixl.Grant{Number: ticket.Number, Op: nixl.Write, Blocks: ticket.Blocks})
	if err == nil && len(ticket.Prefix) > 0 {
		err = c.agent.Allow(peer, nixl.Grant{Number: ticket.Number, Op: nixl.Read, Blocks: ticket.Prefix})
	}
	return err
}

// revoke closes this worker's memory to a ticket. True: it is proven that nothing is
// moved by it any more.
func (c *Coordinator) revoke(peer nixl.PeerID, ticket uint64) bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // a transport that has the proof has it at once
	return c.agent.Revoke(ctx, peer, ticket) == nil
}

// grant makes a ticket's blocks ready and writes it to the wire.
func (c *Coordinator) grant(t *transfer, ticket block.Ticket, now time.Time, wantSequence bool) *decodeworkerv1.ClaimPrefillResponse {
	c.hold(t.id, true)
	if !ticket.Repeated && ticket.Grants > 1 {
		c.deps.Worker.Poison(ticket.Blocks)
	}
	wire := &transferv1.Ticket{
		Number: ticket.Number, Blocks: worker.BlockRefs(ticket.Blocks), Prefix: worker.BlockRefs(ticket.Prefix),
		FirstPosition: uint32(ticket.From), EndPosition: uint32(ticket.To),
		LeaseExpiry: timestamppb.New(now.Add(c.cfg.Lease)), MemoryEpoch: c.deps.Worker.MemoryEpoch(),
	}
	if c.deps.ReadAtLeast != nil {
		wire.ReadAtLeast = uint32(c.deps.ReadAtLeast())
	}
	if wantSequence {
		wire.Sequence = t.sequence
	}
	return &decodeworkerv1.ClaimPrefillResponse{Outcome: &decodeworkerv1.ClaimPrefillResponse_Ticket{Ticket: wire}}
}

// Renew answers DecodeWorker.RenewClaim.
func (c *Coordinator) Renew(_ context.Context, r *decodeworkerv1.RenewClaimRequest) (*decodeworkerv1.RenewClaimResponse, error) {
	expiry := time.Now().Add(c.cfg.Lease)
	err := c.pool.Renew(block.TransferID(r.GetTransferId()), block.AttemptID(r.GetAttemptId()), expiry)
	if err != nil {
		return nil, rpc.NotFound("claim", r.GetTransferId()+" by "+r.GetAttemptId())
	}
	return &decodeworkerv1.RenewClaimResponse{LeaseExpiry: timestamppb.New(expiry)}, nil
}

// Abandon answers DecodeWorker.AbandonClaim: the writer's own word that it is quiet.
func (c *Coordinator) Abandon(ctx context.Context, r *decodeworkerv1.AbandonClaimRequest) (*decodeworkerv1.AbandonClaimResponse, error) {
	id, attempt := block.TransferID(r.GetTransferId()), block.AttemptID(r.GetAttemptId())
	c.passClaim(id) // the word may overtake the grant
	c.gaveUp(id, attempt, r.GetReason())
	if c.quiet(id, attempt) {
		c.log.InfoContext(ctx, "a prefill worker gave up a transfer", "transfer_id", r.GetTransferId(), "reason", r.GetReason())
	}
	return &decodeworkerv1.AbandonClaimResponse{}, nil
}

// passClaim waits until a claim that is being answered no longer touches the transfer's blocks.
func (c *Coordinator) passClaim(id block.TransferID) {
	if t := c.find(id); t != nil {
		t.claim.Lock()
		defer t.claim.Unlock()
	}
}

// quiet ends an attempt whose writer is known to be quiet, wherever its ticket is by now.
func (c *Coordinator) quiet(id block.TransferID, attempt block.AttemptID) bool {
	lost, live := c.pool.Abort(id, attempt)
	if !live {
		for _, q := range c.pool.Quarantined() {
			if q.Transfer == id && q.Attempt == attempt {
				lost, live = q, true
			}
		}
	}
	if live {
		c.hold(id, false)
		c.mu.Lock()
		peer := c.writers[lost.Writer].peer
		c.mu.Unlock()
		c.revoke(peer, lost.Ticket)
		c.settle(block.Proof{Writer: lost.Writer, Ticket: lost.Ticket}, byWord)
	}
	return live
}

// ReleasePrefix answers DecodeWorker.ReleasePrefix.
func (c *Coordinator) ReleasePrefix(_ context.Context, r *decodeworkerv1.ReleasePrefixRequest) (*decodeworkerv1.ReleasePrefixResponse, error) {
	outcome := decodeworkerv1.PrefixOutcome_PREFIX_OUTCOME_OK
	if err := c.pool.ReleaseHold(block.TransferID(r.GetTransferId()), block.AttemptID(r.GetAttemptId())); err != nil {
		outcome = decodeworkerv1.PrefixOutcome_PREFIX_OUTCOME_STALE
	}
	c.deps.Worker.Scheduler.Kick()
	return &decodeworkerv1.ReleasePrefixResponse{Outcome: outcome}, nil
}

// remember keeps where a writer can be asked for its word; false for one that was fenced,
// whose writes would be refused.
func (c *Coordinator) remember(peer nixl.PeerID, address string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := writerID(peer)
	if c.writers[id].fenced {
		return false
	}
	c.writers[id] = writer{peer: peer, address: address}
	return true
}

// Usable says that a prefill worker can do work for this worker: its life was not fenced
// here, and it was not found unreachable just now.
func (c *Coordinator) Usable(i *instancev1.Instance) bool {
	peer := peerOf(i)
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.standings[peer]
	return !c.writers[writerID(peer)].fenced && (s == nil || !time.Now().Before(s.barred))
}

func writerID(peer nixl.PeerID) block.WriterID { return block.WriterID(peer.String()) }
