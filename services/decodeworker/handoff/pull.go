package handoff

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/worker"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

// ownLease is how long beyond its deadline a transfer's own claim lasts. It is no bound of
// anything: the one who claimed gives the ticket back, whatever comes.
const ownLease = time.Minute

// read is a read of our own whose end its transport could not tell. Its ticket stays in
// QUARANTINE until it has settled.
type read struct {
	transfer nixl.Transfer
	proof    block.Proof
}

// pull has the prompt computed and fetches it. Nothing that was read counts before the
// holder has said that it was held all the time.
func (x *try) pull() (First, Cause, error) {
	if err := x.reach(); err != nil {
		return First{}, CauseUnreachable, x.because(err)
	}
	x.asked = true
	a, cause, err := x.prefill(nil)
	if err != nil {
		if !refusal(err) { // it may be computed all the same, and the answer lost
			x.c.cancelSoon(x, err)
		}
		return First{}, cause, err
	}
	first, cause, err := x.fetch(a, time.Now())
	if err != nil {
		x.c.cancelSoon(x, err)
		return First{}, cause, x.because(err)
	}
	return first, "", nil
}

// refusal says that nothing was begun for a call.
func refusal(err error) bool {
	switch rpc.Code(err) {
	case codes.ResourceExhausted, codes.FailedPrecondition, codes.InvalidArgument:
		return true
	}
	return false
}

// reach connects to the prefill worker's memory, in the life that the members name.
func (x *try) reach() error {
	ctx, span := x.c.tracer.Start(x.ctx, "decodeworker.metadata")
	defer span.End()
	peer, err := x.c.deps.Worker.Meet(ctx, x.target)
	if err == nil && peer != x.peer {
		err = fmt.Errorf("its metadata is of %s", peer)
	}
	return err
}

// fetch reads what is held into blocks of the transfer, releases it, and commits.
func (x *try) fetch(a *prefillworkerv1.PrefillResponse, answered time.Time) (First, Cause, error) {
	c, job := x.c, x.t.job
	if a.GetFirstPosition() != job.GetCachedTokens() || a.GetEndPosition() != job.GetPromptTokens() || len(a.GetFirstTokens()) != 1 ||
		len(worker.Refs(a.GetBlocks())) != len(job.GetReservedBlocks()) {
		return First{}, CausePrefill, fmt.Errorf("it holds %d blocks of positions [%d, %d) with %d first tokens, want %d blocks of [%d, %d) with 1",
			len(worker.Refs(a.GetBlocks())), a.GetFirstPosition(), a.GetEndPosition(), len(a.GetFirstTokens()),
			len(job.GetReservedBlocks()), job.GetCachedTokens(), job.GetPromptTokens())
	}
	if err := x.t.fits(a.GetFirstTokens()[0]); err != nil {
		return First{}, CausePrefill, err
	}
	ticket, err := x.claimOwn()
	if err != nil {
		return First{}, CauseBlocks, err
	}
	begun := time.Now()
	bytes, err := x.read(ticket, a)
	if err != nil {
		return First{}, CauseRead, err
	}
	note := x.note(a, bytes, time.Since(begun), time.Since(answered))
	if err := x.release(); err != nil {
		x.giveBack(nil)
		return First{}, CauseStale, err
	}
	_, span := c.tracer.Start(x.ctx, "decodeworker.commit")
	defer span.End()
	err = c.pool.Commit(x.t.id, block.Receipt{Writer: ticket.Writer, Ticket: ticket.Number, Blocks: ticket.Blocks, Tokens: ticket.To})
	if err != nil {
		x.giveBack(nil)
		return First{}, CauseBlocks, err
	}
	c.countCommit(note)
	first, _ := firstOf(x.peer, note)
	return first, "", nil
}

// claimOwn claims the transfer for this worker's own agent. The pool's memory never moves
// meanwhile: in this style no ticket is another's.
func (x *try) claimOwn() (block.Ticket, error) {
	c, now := x.c, time.Now()
	deadline, _ := x.ctx.Deadline() // the transfer's
	x.t.claim.Lock()
	defer x.t.claim.Unlock()
	ticket, err := c.pool.Claim(x.t.id, block.Claim{
		Attempt: x.attempt, Writer: writerID(c.deps.Worker.ID()), Now: now, Expiry: deadline.Add(ownLease),
	})
	if err != nil {
		return block.Ticket{}, err
	}
	// Nobody reads the prefix of an own ticket; a hold that was released just before it
	// began is always there.
	_ = c.pool.ReleaseHold(x.t.id, x.attempt)
	if ticket.Grants > 1 {
		c.deps.Worker.Poison(ticket.Blocks)
	}
	return ticket, nil
}

// giveBack returns the blocks of this try's own claim: at once, or once its read has settled.
func (x *try) giveBack(unsettled nixl.Transfer) {
	q, live := x.c.pool.Abort(x.t.id, x.attempt)
	if !live {
		return
	}
	proof := block.Proof{Writer: q.Writer, Ticket: q.Ticket}
	if unsettled == nil {
		x.c.settle(proof, byWord)
		return
	}
	x.c.log.Warn("blocks stay in quarantine: a read of them does not end", "peer", x.peer.String(), "transfer_id", x.t.id, "blocks", len(q.Blocks))
	x.c.mu.Lock()
	x.c.reads = append(x.c.reads, read{unsettled, proof})
	x.c.mu.Unlock()
}

// read copies the rows into the ticket's blocks. After an error the claim was given back.
func (x *try) read(ticket block.Ticket, a *prefillworkerv1.PrefillResponse) (bytes int, err error) {
	ctx, span := x.c.tracer.Start(x.ctx, "decodeworker.read")
	defer span.End()
	ctx, cancel := context.WithTimeout(ctx, a.GetHold().AsDuration()) // what comes later is stale
	defer cancel()
	layout, refs := x.c.deps.Worker.Layout(), worker.Refs(a.GetBlocks())
	var copies []nixl.Copy
	for i, local := range ticket.Blocks {
		rows := min(layout.BlockTokens, ticket.To-ticket.From-i*layout.BlockTokens)
		copies = nixl.AppendCopies(copies, layout, local.ID, refs[i].ID, rows)
	}
	for _, c := range copies {
		bytes += c.Local.Bytes
	}
	span.SetAttributes(attribute.Int("bytes", bytes), attribute.String("peer", x.peer.String()))
	transfer, err := nixl.Post(ctx, x.c.agent, nixl.Request{
		Peer: x.peer, Op: nixl.Read, Copies: copies,
		Grant: &nixl.Grant{Number: a.GetGrant(), Op: nixl.Read, Blocks: refs, Epoch: a.GetMemoryEpoch()},
	})
	if err != nil {
		x.giveBack(nil)
		return 0, fmt.Errorf("post %d copies: %w", len(copies), err)
	}
	if err = nixl.Settle(ctx, transfer, x.c.cfg.Proof); err == nil {
		return bytes, nil
	}
	if errors.Is(err, nixl.ErrUnsettled) {
		x.giveBack(transfer)
	} else {
		x.giveBack(nil)
	}
	return 0, err
}

// settleReads frees the blocks of those reads that have ended meanwhile.
func (c *Coordinator) settleReads() {
	c.mu.Lock()
	doubtful := c.reads
	c.reads = nil
	c.mu.Unlock()
	for _, r := range doubtful {
		if r.transfer.Release() == nil {
			c.settle(r.proof, byWord)
			continue
		}
		c.mu.Lock()
		c.reads = append(c.reads, r)
		c.mu.Unlock()
	}
}

// release asks the holder whether it held the blocks until now, and lets it free them.
func (x *try) release() error {
	ctx, span := x.c.tracer.Start(x.ctx, "decodeworker.release")
	defer span.End()
	ctx, cancel := context.WithTimeout(ctx, releaseWithin)
	defer cancel()
	a, err := x.client.Release(ctx, &prefillworkerv1.ReleaseRequest{
		TransferId: string(x.t.id), AttemptId: string(x.attempt), PrefillIncarnation: x.peer.Incarnation,
	})
	if err != nil {
		return fmt.Errorf("release: %w", err)
	}
	if a.GetOutcome() != prefillworkerv1.ReleaseOutcome_RELEASE_OUTCOME_OK {
		return fmt.Errorf("release: %w", block.ErrStale)
	}
	return nil
}

// note is what a completion note would say of a prompt that was fetched.
func (x *try) note(a *prefillworkerv1.PrefillResponse, bytes int, reading, sinceAnswer time.Duration) *transferv1.CompletionNote {
	return &transferv1.CompletionNote{
		TransferId: string(x.t.id), AttemptId: string(x.attempt), FirstTokens: a.GetFirstTokens(), PrefillWorker: x.peer.Name,
		FirstPosition: a.GetFirstPosition(), EndPosition: a.GetEndPosition(),
		ComputedTokens: a.GetComputedTokens(), OwnHitTokens: a.GetOwnHitTokens(),
		AdmitTime: a.GetAdmitTime(), ComputeTime: a.GetComputeTime(), WriteTime: durationpb.New(sinceAnswer),
		WrittenBytes: uint64(x.c.deps.Worker.LinkBytes(bytes)), TransferTime: durationpb.New(reading),
	}
}
