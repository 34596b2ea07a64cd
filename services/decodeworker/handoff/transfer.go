package handoff

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/scheduler"
	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/worker"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

// blocksMax is the most blocks that are handed off at once, so that the completion note,
// which names each with at most ten bytes, stays within nixl.MaxNoteBytes.
const blocksMax = 6000

// inlineTokens is the longest prompt that travels in the queue's message, in tokens
// (at most five bytes each); a longer one travels in the claim's answer.
const inlineTokens = 64 << 10

// First is what a remote prefill ends with.
type First struct {
	Token         sequence.Token
	LogProbs      *sequence.LogProbs // where the sequence asks for them
	Finish        sequence.Finish
	PrefillWorker string
	// Peer is that worker's agent, and Work what its note says of the work.
	Peer nixl.PeerID
	Work Work
}

// Work is what a completion note says of how long the work took; 0 where it says nothing.
type Work struct {
	Admit, Compute, Write, Transfer time.Duration
	WrittenBytes                    uint64
	ComputedTokens, ReadTokens      int
}

// ErrFallBack says that the prompt must be computed here. It wraps a Cause.
var ErrFallBack = errors.New("remote prefill did not come to its end")

// errNoLogProbs is why a first token does not count.
var errNoLogProbs = errors.New("the first token came without its log-probability")

// Cause is why a remote prefill did not come to its end; the label of a counter.
type Cause string

// The causes of a fallback.
const (
	CauseReserve  Cause = "reserve"
	CausePublish  Cause = "publish"
	CauseDeadline Cause = "deadline"
	CauseGrants   Cause = "grants"
	CauseNoWorker Cause = "no_prefill_worker"
	CauseCancel   Cause = "cancel"
	CauseCrash    Cause = "crash" // the error is a *Crash

	// Of the styles in which prefill workers are asked.
	CauseNoCredit    Cause = "no_credit"   // none has room for it
	CauseUnreachable Cause = "unreachable" // its memory or its server
	CausePrefill     Cause = "prefill"     // it gave the work up
	CauseBlocks      Cause = "blocks"      // no fresh ones are to be had here
	CauseRead        Cause = "read"        // what it held did not come over
	CauseStale       Cause = "stale"       // it held it no more when all had come over
)

// transfer is one remote prefill that somebody waits for.
type transfer struct {
	id       block.TransferID
	sequence *generationv1.Sequence
	job      *transferv1.RemotePrefillRequest
	span     trace.SpanContext // what a note belongs to, which comes without a context

	done   chan First    // capacity 1: the commit
	gaveUp chan FallBack // capacity 1: why nobody will do it
	lost   chan struct{} // capacity 1: some ticket of it may have been lost
	tries  int           // calls so far; Prefill's own

	// claim is held while a claim is answered: blocks are poisoned before their ticket is
	// out. Whoever gives blocks of the transfer away passes through it.
	claim sync.Mutex

	mu        sync.Mutex // guards the rest
	published int        // messages so far
	number    uint64     // of the latest
	held      bool       // some worker has a ticket
	kept      bool       // the latest message is for one worker alone
}

// fits says what a first token lacks that its sequence asks for: it may come from a worker that
// does not know of it.
func (t *transfer) fits(f *transferv1.FirstToken) error {
	if t.sequence.Logprobs != nil && f.GetLogprobs() == nil {
		return errNoLogProbs
	}
	return nil
}

// giveUp ends the waiting for a transfer that nobody will do.
func (t *transfer) giveUp(cause Cause, err error) {
	select {
	case t.gaveUp <- FallBack{cause, err}:
	default: // told already
	}
}

// Prefill has the prompt of a sequence computed by a prefill worker, into q's table. On nil
// the rows are in place: attach the first token. On ErrFallBack the table has no transfer
// any more: Rebook, then compute the prompt here, unless the error is a *Crash, too: then the
// prefill worker may have died of it. A ctx that ends withdraws the transfer.
// Until it returns, nobody else may end q.
func (c *Coordinator) Prefill(ctx context.Context, q *scheduler.Sequence, msg *generationv1.Sequence) (First, error) {
	caller := ctx
	uncached := q.Spec().Len() - q.Table().CachedTokens()
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Deadline+time.Duration(uncached)*c.cfg.PerToken)
	defer cancel()
	ctx, span := c.tracer.Start(ctx, "decodeworker.handoff")
	defer span.End()
	t, err := c.open(ctx, q, msg)
	if err != nil {
		return First{}, c.fellBack(ctx, CauseReserve, err)
	}
	defer c.close(t)
	span.SetAttributes(attribute.String("transfer_id", string(t.id)))
	perform := c.push
	if c.asks() {
		perform = c.ask
	}
	first, cause, err := perform(ctx, t)
	if err == nil {
		return first, nil
	}
	if caller.Err() != nil {
		cause, err = CauseCancel, caller.Err()
	}
	return c.withdraw(ctx, t, cause, err)
}

// push has the job done by whoever takes it from the queue, at first perhaps by one alone.
func (c *Coordinator) push(ctx context.Context, t *transfer) (First, Cause, error) {
	worker, keep := c.keeper(t)
	if err := c.publishFor(ctx, t, worker); err != nil {
		return First{}, CausePublish, err
	}
	timer := time.NewTimer(keep)
	defer timer.Stop()
	for {
		select {
		case first := <-t.done:
			return first, "", nil
		case why := <-t.gaveUp:
			return First{}, why.Cause, why.Err
		case <-ctx.Done():
			return First{}, CauseDeadline, ctx.Err()
		case <-timer.C: // once; a kept job that is in work by now stays there
		case <-t.lost:
			select {
			case why := <-t.gaveUp:
				return First{}, why.Cause, why.Err
			default:
			}
		}
		if err := c.share(ctx, t); err != nil {
			return First{}, CausePublish, err
		}
	}
}

// open reserves the blocks and makes the transfer known to claims.
func (c *Coordinator) open(ctx context.Context, q *scheduler.Sequence, msg *generationv1.Sequence) (*transfer, error) {
	_, span := c.tracer.Start(ctx, "decodeworker.reserve")
	defer span.End()
	self, layout := c.deps.Worker.ID(), c.deps.Worker.Layout()
	if n := layout.Blocks(q.Spec().Len()) - q.Table().CachedTokens()/layout.BlockTokens; n > blocksMax && c.deps.Style != worker.Pull {
		return nil, fmt.Errorf("%d blocks are more than a completion note can name, which is %d", n, blocksMax)
	}
	c.mu.Lock()
	c.count++
	id := block.TransferID(fmt.Sprintf("%s/%s/%d", self.Name, self.Incarnation, c.count))
	c.mu.Unlock()
	refs, err := q.Table().Reserve(id)
	if err != nil {
		return nil, err
	}
	span.SetAttributes(attribute.Int("blocks", len(refs)))
	c.deps.Worker.Poison(refs)
	deadline, _ := ctx.Deadline()
	t := &transfer{
		id: id, sequence: msg, span: trace.SpanContextFromContext(ctx), done: make(chan First, 1), gaveUp: make(chan FallBack, 1),
		lost: make(chan struct{}, 1),
		job: &transferv1.RemotePrefillRequest{
			TransferId: string(id), DecodeWorker: self.Name, DecodeIncarnation: self.Incarnation,
			PromptTokens: uint32(q.Spec().Len()), CachedTokens: uint32(q.Table().CachedTokens()),
			KvFormat: c.deps.Worker.Card().KVFormat, Deadline: timestamppb.New(deadline),
		},
	}
	for _, r := range refs {
		t.job.ReservedBlocks = append(t.job.ReservedBlocks, int32(r.ID))
	}
	if q.Spec().Len() <= inlineTokens {
		t.job.Sequence = msg
	}
	c.mu.Lock()
	c.transfers[id] = t
	c.mu.Unlock()
	return t, nil
}

// publish queues the job for all prefill workers, again if it was queued before.
func (c *Coordinator) publish(ctx context.Context, t *transfer) error {
	return c.publishFor(ctx, t, "")
}

// publishFor queues the job for one prefill worker; for all if it names none.
func (c *Coordinator) publishFor(ctx context.Context, t *transfer, worker string) error {
	ctx, span := c.tracer.Start(ctx, "decodeworker.enqueue")
	defer span.End()
	t.mu.Lock()
	t.published++
	messageID := fmt.Sprintf("%s#%d", t.id, t.published)
	old := t.number
	t.kept = worker != ""
	t.mu.Unlock()
	var (
		number uint64
		err    error
	)
	if worker == "" {
		number, err = c.deps.Queue.Publish(ctx, t.job, messageID)
	} else {
		span.SetAttributes(attribute.String("kept_for", worker))
		number, err = c.deps.Queue.PublishFor(ctx, worker, t.job, messageID)
	}
	if err != nil {
		return err
	}
	t.mu.Lock()
	t.number = number
	t.mu.Unlock()
	c.takeBack(old)
	if c.find(t.id) == nil { // it ended meanwhile
		c.takeBack(number)
	}
	return nil
}

// hold notes whether some worker has a ticket for the transfer.
func (c *Coordinator) hold(id block.TransferID, held bool) {
	if t := c.find(id); t != nil {
		t.mu.Lock()
		t.held = held
		t.mu.Unlock()
		if !held {
			select {
			case t.lost <- struct{}{}:
			default:
			}
		}
	}
}

// takeBack deletes a job from the queue, soon; 0 is none.
func (c *Coordinator) takeBack(number uint64) {
	if number == 0 {
		return
	}
	select {
	case c.deletes <- number:
	default:
	}
}

// close forgets the transfer: its claims are answered GONE from now on.
func (c *Coordinator) close(t *transfer) {
	c.mu.Lock()
	delete(c.transfers, t.id)
	c.mu.Unlock()
}

// withdraw ends the transfer, unless a commit came first.
func (c *Coordinator) withdraw(ctx context.Context, t *transfer, cause Cause, err error) (First, error) {
	t.claim.Lock()
	committed := c.pool.Withdraw(t.id)
	t.claim.Unlock()
	if committed {
		return <-t.done, nil
	}
	t.mu.Lock()
	number := t.number
	t.mu.Unlock()
	c.takeBack(number)
	c.sweepSoon()
	return First{}, c.fellBack(ctx, cause, err)
}

func (c *Coordinator) fellBack(ctx context.Context, cause Cause, err error) error {
	c.mu.Lock()
	switch cause {
	case CauseCancel:
		c.report.cancelled++
	case CauseDeadline:
		c.report.deadlines++
	}
	c.mu.Unlock()
	if cause != CauseCancel {
		level := slog.LevelWarn
		if cause == CauseNoCredit { // that is how prefill workers say that they are busy
			level = slog.LevelInfo
		}
		c.log.Log(ctx, level, "remote prefill fell back", "cause", cause, "error", err)
	}
	return &FallBack{Cause: cause, Err: err}
}

// FallBack is the error of a transfer that ended without its blocks.
type FallBack struct {
	Cause Cause
	Err   error
}

func (f *FallBack) Error() string { return fmt.Sprintf("%v (%s): %v", ErrFallBack, f.Cause, f.Err) }

// Unwrap gives ErrFallBack and what led to it.
func (f *FallBack) Unwrap() []error { return []error{ErrFallBack, f.Err} }

// Rebook books the blocks of a withdrawn transfer anew. When QUARANTINE holds too many, it
// forces the proofs and waits, as long as for a prefill worker; then it returns block.ErrNoRoom.
func (c *Coordinator) Rebook(ctx context.Context, table *block.Table) error {
	c.starving.Add(1)
	defer c.starving.Add(-1)
	ticker := time.NewTicker(20 * time.Millisecond) // other sequences give blocks back as well
	defer ticker.Stop()
	end := time.NewTimer(c.cfg.Deadline)
	defer end.Stop()
	for {
		c.mu.Lock()
		settled := c.settled
		c.mu.Unlock()
		err := table.Rebook()
		if !errors.Is(err, block.ErrNoRoom) {
			return err
		}
		c.sweepSoon()
		select {
		case <-settled:
		case <-ticker.C:
		case <-end.C:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// firstOf reads the first token of a note; false if it has none that fits.
func firstOf(peer nixl.PeerID, n *transferv1.CompletionNote) (First, bool) {
	if len(n.GetFirstTokens()) != 1 {
		return First{}, false
	}
	f := n.GetFirstTokens()[0]
	return First{
		Token: f.GetToken(), LogProbs: worker.FromLogProbs(f.GetLogprobs()), Finish: worker.Finish(f.GetFinishReason()), PrefillWorker: n.GetPrefillWorker(), Peer: peer,
		Work: Work{
			Admit: n.GetAdmitTime().AsDuration(), Compute: n.GetComputeTime().AsDuration(), Write: n.GetWriteTime().AsDuration(),
			Transfer: n.GetTransferTime().AsDuration(), WrittenBytes: n.GetWrittenBytes(),
			ComputedTokens: int(n.GetComputedTokens()), ReadTokens: int(n.GetReadTokens()),
		},
	}, true
}
