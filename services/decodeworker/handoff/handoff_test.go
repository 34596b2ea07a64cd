package handoff

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/engine"
	"github.com/switchyard-llm/switchyard/libs/engine/enginetest"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/inproc"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
	"github.com/switchyard-llm/switchyard/libs/nixl/nixltest"
	"github.com/switchyard-llm/switchyard/libs/scheduler"
	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/worker"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

const blockTokens = 4

// memoryQueue is a prefill queue of this process.
type memoryQueue struct {
	mu      sync.Mutex
	fail    error
	next    uint64
	jobs    map[uint64]*transferv1.RemotePrefillRequest
	arrived chan *transferv1.RemotePrefillRequest
	kept    chan keptJob
	deleted chan uint64
}

func (q *memoryQueue) Publish(_ context.Context, r *transferv1.RemotePrefillRequest, _ string) (uint64, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.fail != nil {
		return 0, q.fail
	}
	q.next++
	q.jobs[q.next] = r
	q.arrived <- r
	return q.next, nil
}

// keptJob is one that only one prefill worker gets.
type keptJob struct {
	worker string
	number uint64
	*transferv1.RemotePrefillRequest
}

func (q *memoryQueue) PublishFor(_ context.Context, worker string, r *transferv1.RemotePrefillRequest, _ string) (uint64, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.fail != nil {
		return 0, q.fail
	}
	q.next++
	q.jobs[q.next] = r
	q.kept <- keptJob{worker, q.next, r}
	return q.next, nil
}

func (q *memoryQueue) Delete(_ context.Context, number uint64) error {
	q.mu.Lock()
	delete(q.jobs, number)
	q.mu.Unlock()
	q.deleted <- number
	return nil
}

// rig is a coordinator with its worker, and a peer that plays the prefill workers.
type rig struct {
	*Coordinator
	t      *testing.T
	worker *worker.Worker
	queue  *memoryQueue
	net    *inproc.Network
	meta   []byte
	aborts chan *prefillworkerv1.AbortRequest
	word   error         // the answer to an abort
	alive  atomic.Int32  // prefill workers
	looked chan struct{} // capacity 1: they were counted
	top    *uint32       // Sequence.logprobs of what is prefilled
}

func newRig(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	return newSizedRig(t, 40, 150, change)
}

// newProvingRig is over a transport that can revoke.
func newProvingRig(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	return openRig(t, 40, 150, change, func(a nixl.Agent) nixl.Agent { return a })
}

// newSizedRig is over a transport that cannot revoke.
func newSizedRig(t *testing.T, blocks, contextTokens int, change func(*Config)) *rig {
	t.Helper()
	return openRig(t, blocks, contextTokens, change, func(a nixl.Agent) nixl.Agent { return nixltest.Unproven{Agent: a} })
}

func openRig(t *testing.T, blocks, contextTokens int, change func(*Config), wrap func(nixl.Agent) nixl.Agent, adjust ...func(*Deps)) *rig {
	t.Helper()
	r := &rig{
		looked: make(chan struct{}, 1),
		t:      t, net: inproc.NewNetwork(), aborts: make(chan *prefillworkerv1.AbortRequest, 16),
		queue: &memoryQueue{
			jobs:    make(map[uint64]*transferv1.RemotePrefillRequest),
			arrived: make(chan *transferv1.RemotePrefillRequest, 16), kept: make(chan keptJob, 16), deleted: make(chan uint64, 16),
		},
	}
	r.alive.Store(1)
	log := slog.New(slog.DiscardHandler)
	agent, err := r.net.NewAgent(nixl.Config{Name: "decode", Incarnation: "1", KVFormat: "toy"})
	if err != nil {
		t.Fatal(err)
	}
	cfg := worker.DefaultConfig()
	cfg.PoolTokens, cfg.Poison = blocks*blockTokens, true
	r.worker, err = worker.New(cfg, worker.Deps{Executor: enginetest.NewToy(blockTokens, contextTokens), Agent: wrap(agent), Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	c := DefaultConfig()
	if change != nil {
		change(&c)
	}
	deps := Deps{
		Worker: r.worker, Queue: r.queue, Logger: log, Tracer: noop.NewTracerProvider(),
		PrefillWorkers: func() []*instancev1.Instance {
			select {
			case r.looked <- struct{}{}:
			default:
			}
			return slices.Repeat([]*instancev1.Instance{{Id: "prefill"}}, int(r.alive.Load()))
		},
		Abort: func(_ context.Context, _ string, a *prefillworkerv1.AbortRequest) error {
			r.aborts <- a
			return r.word
		},
	}
	for _, f := range adjust {
		f(&deps)
	}
	r.Coordinator, err = New(c, deps)
	if err != nil {
		t.Fatal(err)
	}
	if r.meta, err = agent.Metadata(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.worker.Close(); err != nil {
			t.Error(err)
		}
	})
	r.background(r.worker.Run)
	r.background(r.Coordinator.Run)
	return r
}

// background runs f until the test ends.
func (r *rig) background(f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
	})
}

// sink collects a sequence.
type sink struct {
	tokens []sequence.Token
	probs  []sequence.LogProbs
	reason sequence.Finish
	err    error
	done   chan struct{}
}

func (s *sink) Token(t sequence.Token, p *sequence.LogProbs) {
	s.tokens = append(s.tokens, t)
	if p != nil {
		s.probs = append(s.probs, *p)
	}
}
func (s *sink) End(reason sequence.Finish, err error) {
	s.reason, s.err = reason, err
	close(s.done)
}

var prompt = []sequence.Token{3, 1, 4, 1, 5, 9, 2, 6, 5, 3}

// admit brings a sequence to where its place is decided.
func (r *rig) admit() (*scheduler.Sequence, *sink) {
	r.t.Helper()
	s := &sink{done: make(chan struct{})}
	q, err := r.worker.Scheduler.Submit(sequence.Spec{Prompt: prompt, MaxTokens: 6, LogProbs: r.top != nil}, s, r.worker.Options(""))
	if err != nil {
		r.t.Fatal(err)
	}
	if err := q.Wait(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	return q, s
}

// outcome is what Prefill answered.
type outcome struct {
	first First
	err   error
}

func (r *rig) prefill(ctx context.Context, q *scheduler.Sequence) <-chan outcome {
	out := make(chan outcome, 1)
	go func() {
		first, err := r.Prefill(ctx, q, &generationv1.Sequence{Prompt: prompt, MaxTokens: 6, Logprobs: r.top})
		out <- outcome{first, err}
	}()
	return out
}

// peer is a prefill worker.
type peer struct {
	r     *rig
	agent nixl.Agent
	mem   nixl.Region
	toy   *enginetest.Toy
	close context.CancelFunc
	probs *generationv1.LogProbs // of the first token
}

func (r *rig) peer(name string) *peer {
	r.t.Helper()
	agent, err := r.net.NewAgent(nixl.Config{Name: name, Incarnation: "1", KVFormat: "toy"})
	if err != nil {
		r.t.Fatal(err)
	}
	p := &peer{r: r, agent: agent, toy: enginetest.NewToy(blockTokens, 150)}
	m, err := memory.Anonymous(10 * p.toy.Card().Layout.BlockBytes())
	if err != nil {
		r.t.Fatal(err)
	}
	if p.mem, err = agent.Register(m, p.toy.Card().Layout, 10); err != nil {
		r.t.Fatal(err)
	}
	if err := p.toy.Bind(p.mem); err != nil {
		r.t.Fatal(err)
	}
	r.background(func(context.Context) error { return agent.Run(context.Background()) })
	p.close = func() {
		if err := agent.Close(); err != nil {
			r.t.Error(err)
		}
	}
	r.t.Cleanup(p.close)
	if _, err := agent.AddPeer(r.t.Context(), r.meta); err != nil {
		r.t.Fatal(err)
	}
	return p
}

func (p *peer) claim(job *transferv1.RemotePrefillRequest, attempt string) *decodeworkerv1.ClaimPrefillResponse {
	p.r.t.Helper()
	answer, err := p.r.Claim(p.r.t.Context(), &decodeworkerv1.ClaimPrefillRequest{
		TransferId: job.GetTransferId(), AttemptId: attempt, DecodeIncarnation: "1",
		PrefillWorker: p.agent.ID().Name, PrefillIncarnation: p.agent.ID().Incarnation, PrefillAddress: "address",
	})
	if err != nil {
		p.r.t.Fatal(err)
	}
	return answer
}

func (p *peer) ticket(job *transferv1.RemotePrefillRequest, attempt string) *transferv1.Ticket {
	p.r.t.Helper()
	ticket := p.claim(job, attempt).GetTicket()
	if ticket == nil {
		p.r.t.Fatalf("%s: no ticket for attempt %s", p.agent.ID(), attempt)
	}
	return ticket
}

// write computes the prompt and puts it into the ticket's blocks.
func (p *peer) write(ticket *transferv1.Ticket) error {
	p.r.t.Helper()
	local := []block.ID{7, 2, 5}
	batch := toyBatch(prompt, local)
	if err := p.toy.Step(p.r.t.Context(), batch); err != nil {
		p.r.t.Fatal(err)
	}
	layout := p.mem.Layout()
	var copies []nixl.Copy
	for i, remote := range ticket.GetBlocks().GetBlocks() {
		at := int(ticket.GetFirstPosition())/blockTokens + i
		rows := min(blockTokens, len(prompt)-at*blockTokens)
		for span := range layout.Spans(local[at], 0, rows) {
			far := block.Span{Offset: span.Offset + (int(remote)-int(local[at]))*layout.BlockBytes(), Bytes: span.Bytes}
			copies = append(copies, nixl.Copy{Local: span, Remote: far})
		}
	}
	transfer, err := nixl.Post(p.r.t.Context(), p.agent, nixl.Request{
		Peer: nixl.PeerID{Name: "decode", Incarnation: "1"}, Op: nixl.Write, Copies: copies,
		Grant: &nixl.Grant{Number: ticket.GetNumber(), Blocks: worker.Refs(ticket.GetBlocks())},
	})
	if err != nil {
		return err
	}
	return transfer.Wait(p.r.t.Context())
}

// note sends a completion note and waits for its answer.
func (p *peer) note(job *transferv1.RemotePrefillRequest, ticket *transferv1.Ticket) transferv1.NoteOutcome {
	p.r.t.Helper()
	payload, err := proto.Marshal(&transferv1.CompletionNote{
		TransferId: job.GetTransferId(), Ticket: ticket.GetNumber(), Blocks: ticket.GetBlocks(),
		FirstPosition: ticket.GetFirstPosition(), EndPosition: ticket.GetEndPosition(), PrefillWorker: p.agent.ID().Name,
		FirstTokens: []*transferv1.FirstToken{{Token: enginetest.ToyAnswer(prompt, 1)[0], Logprobs: p.probs}},
	})
	if err != nil {
		p.r.t.Fatal(err)
	}
	if err := p.agent.Notify(p.r.t.Context(), nixl.PeerID{Name: "decode", Incarnation: "1"}, payload); err != nil {
		p.r.t.Fatal(err)
	}
	event, err := p.agent.Receive(p.r.t.Context())
	if err != nil {
		p.r.t.Fatal(err)
	}
	var answer transferv1.NoteAnswer
	if err := proto.Unmarshal(event.Payload, &answer); err != nil {
		p.r.t.Fatal(err)
	}
	return answer.GetOutcome()
}

// finish attaches what a remote prefill ended with and checks the whole answer.
func (r *rig) finish(q *scheduler.Sequence, s *sink, o outcome) {
	r.t.Helper()
	if o.err != nil {
		r.t.Fatal(o.err)
	}
	if err := q.Attach(o.first.Token, o.first.LogProbs, o.first.Finish); err != nil {
		r.t.Fatal(err)
	}
	r.checkAnswer(s)
}

func (r *rig) checkAnswer(s *sink) {
	r.t.Helper()
	<-s.done
	if want := enginetest.ToyAnswer(prompt, 6); !slices.Equal(s.tokens, want) || s.err != nil {
		r.t.Errorf("tokens %v (%v), want %v", s.tokens, s.err, want)
	}
	r.checkIdle()
}

// fallBack computes the prompt here and checks the whole answer.
func (r *rig) fallBack(q *scheduler.Sequence, s *sink, o outcome, want Cause) {
	r.t.Helper()
	var f *FallBack
	if !errors.As(o.err, &f) || f.Cause != want {
		r.t.Fatalf("Prefill = %v, want a fallback by %s", o.err, want)
	}
	if err := r.Rebook(r.t.Context(), q.Table()); err != nil {
		r.t.Fatal(err)
	}
	if err := q.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.checkAnswer(s)
}

// checkIdle waits until QUARANTINE is empty and checks that all blocks are back.
func (r *rig) checkIdle() {
	r.t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		r.mu.Lock()
		settled := r.settled
		r.mu.Unlock()
		c := r.worker.Pool.Counts()
		if c.Now[block.Free]+c.Now[block.Sealed] == c.Capacity {
			return
		}
		select {
		case <-settled:
		case <-time.After(10 * time.Millisecond): // a release is not announced
		case <-deadline:
			r.t.Fatalf("blocks did not come back: %+v", c)
		}
	}
}

func (r *rig) counters() *decodeworkerv1.HandOffReport {
	var report decodeworkerv1.HandOffReport
	r.Report(&report)
	return &report
}

func TestAPromptIsComputedElsewhere(t *testing.T) {
	r := newRig(t, nil)
	q, s := r.admit()
	got := r.prefill(t.Context(), q)
	job := <-r.queue.arrived
	p := r.peer("prefill")
	ticket := p.ticket(job, "a")
	if again := p.ticket(job, "a"); again.GetNumber() != ticket.GetNumber() {
		t.Errorf("a repeated claim got ticket %d, want %d", again.GetNumber(), ticket.GetNumber())
	}
	if err := p.write(ticket); err != nil {
		t.Fatal(err)
	}
	for i := range 2 { // the second is a repetition
		if o := p.note(job, ticket); o != transferv1.NoteOutcome_NOTE_OUTCOME_COMMITTED {
			t.Errorf("note %d was answered %v", i, o)
		}
	}
	r.finish(q, s, <-got)
	if n := r.worker.Scheduler.Report().PromptTokens; n != 0 {
		t.Errorf("%d prompt tokens were computed here, want none", n)
	}
	if got := p.claim(job, "b"); got.GetGone() == nil {
		t.Errorf("a claim after the end was answered %v, want gone", got)
	}
	c := r.counters()
	if c.GetNotesCommitted() != 2 || c.GetClaimsGranted() != 1 || c.GetClaimsRepeated() != 1 || c.GetReceivedTokens() != uint64(len(prompt)) {
		t.Errorf("counters: %v", c)
	}
}

func TestAnotherAttemptWaitsUntilTheLeaseHasEnded(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Lease = 300 * time.Millisecond })
	fence := make(chan struct{})
	r.Coordinator.deps.Abort = func(_ context.Context, _ string, a *prefillworkerv1.AbortRequest) error {
		r.aborts <- a
		<-fence
		return errors.New("no answer") // the first writer is frozen
	}
	q, s := r.admit()
	got := r.prefill(t.Context(), q)
	job := <-r.queue.arrived
	frozen, other := r.peer("frozen"), r.peer("other")
	old := frozen.ticket(job, "a")
	if got := other.claim(job, "b"); got.GetLater() == nil {
		t.Fatalf("a second claim was answered %v, want later", got)
	}
	<-r.aborts // the lease has ended and the writer was asked for its word
	ticket := other.ticket(job, "c")
	for _, b := range ticket.GetBlocks().GetBlocks() {
		if slices.Contains(old.GetBlocks().GetBlocks(), b) {
			t.Errorf("block %d is in the old ticket and in the new one", b)
		}
	}
	close(fence)
	if err := other.write(ticket); err != nil {
		t.Fatal(err)
	}
	if o := other.note(job, ticket); o != transferv1.NoteOutcome_NOTE_OUTCOME_COMMITTED {
		t.Errorf("the note was answered %v", o)
	}
	r.finish(q, s, <-got)
	if c := r.counters(); c.GetTicketsExpired() != 1 || c.GetQuarantineSettledByFence() != 1 {
		t.Errorf("counters: %v", c)
	}
	if err := frozen.write(old); err == nil {
		t.Error("a fenced writer wrote")
	}
}

func TestARevokedTicketNeedsNoWordOfItsWriter(t *testing.T) {
	r := newProvingRig(t, func(c *Config) { c.Lease, c.Proof = 300*time.Millisecond, time.Hour })
	frozen := make(chan struct{})
	t.Cleanup(func() { close(frozen) })
	r.Coordinator.deps.Abort = func(_ context.Context, _ string, a *prefillworkerv1.AbortRequest) error {
		r.aborts <- a
		<-frozen
		return errors.New("no answer")
	}
	q, s := r.admit()
	got := r.prefill(t.Context(), q)
	job := <-r.queue.arrived
	slow := r.peer("slow")
	old := slow.ticket(job, "a")
	<-r.aborts // the lease has ended; the writer is told, though nothing waits for its answer
	if c := r.worker.Pool.Counts(); c.Now[block.Quarantine] != 0 {
		t.Errorf("%d blocks are in quarantine", c.Now[block.Quarantine])
	}
	if err := slow.write(old); !errors.Is(err, nixl.ErrNotGranted) {
		t.Errorf("a late write: %v", err)
	}
	ticket := slow.ticket(job, "b") // it was not fenced
	if err := slow.write(ticket); err != nil {
		t.Fatal(err)
	}
	if o := slow.note(job, ticket); o != transferv1.NoteOutcome_NOTE_OUTCOME_COMMITTED {
		t.Errorf("the note was answered %v", o)
	}
	if err := slow.write(ticket); !errors.Is(err, nixl.ErrNotGranted) {
		t.Errorf("a write after the commit: %v", err)
	}
	r.finish(q, s, <-got)
}

func TestALateNoteOfAnExpiredTicketSettlesItAndCommitsNothing(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Lease, c.Proof = 100*time.Millisecond, time.Hour })
	release := make(chan struct{})
	r.Coordinator.deps.Abort = func(ctx context.Context, _ string, a *prefillworkerv1.AbortRequest) error {
		r.aborts <- a
		<-release
		return errors.New("no answer")
	}
	t.Cleanup(func() { close(release) })
	q, s := r.admit()
	ctx, cancel := context.WithCancel(t.Context())
	got := r.prefill(ctx, q)
	job := <-r.queue.arrived
	p := r.peer("slow")
	ticket := p.ticket(job, "a")
	<-r.aborts
	if o := p.note(job, ticket); o != transferv1.NoteOutcome_NOTE_OUTCOME_STALE {
		t.Errorf("the late note was answered %v, want stale", o)
	}
	if c := r.worker.Pool.Counts(); c.Now[block.Quarantine] != 0 {
		t.Errorf("%d blocks are in quarantine after the writer's note", c.Now[block.Quarantine])
	}
	cancel()
	r.fallBack(q, s, <-got, CauseCancel)
}

func TestACancelTakesTheJobBack(t *testing.T) {
	for _, claimed := range []bool{false, true} {
		t.Run(fmt.Sprintf("claimed %v", claimed), func(t *testing.T) {
			r := newRig(t, nil)
			q, s := r.admit()
			ctx, cancel := context.WithCancel(t.Context())
			got := r.prefill(ctx, q)
			job := <-r.queue.arrived
			p := r.peer("prefill")
			var ticket *transferv1.Ticket
			if claimed {
				ticket = p.ticket(job, "a")
			}
			cancel()
			o := <-got
			if n := <-r.queue.deleted; n != 1 {
				t.Errorf("job %d was deleted, want 1", n)
			}
			if got := p.claim(job, "b"); got.GetGone() == nil {
				t.Errorf("a claim after the cancel was answered %v, want gone", got)
			}
			if claimed {
				if a := <-r.aborts; a.GetAttemptId() != "a" || a.GetPrefillIncarnation() != "1" {
					t.Errorf("abort %v", a)
				}
				if got := p.note(job, ticket); got != transferv1.NoteOutcome_NOTE_OUTCOME_GONE {
					t.Errorf("a note after the cancel was answered %v, want gone", got)
				}
			}
			r.fallBack(q, s, o, CauseCancel)
		})
	}
}

func TestTheDeadlineMeansHere(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Deadline = 50 * time.Millisecond })
	q, s := r.admit()
	r.fallBack(q, s, <-r.prefill(t.Context(), q), CauseDeadline)
}

func TestAQueueThatIsAwayMeansHere(t *testing.T) {
	r := newRig(t, nil)
	r.queue.fail = errors.New("away")
	q, s := r.admit()
	r.fallBack(q, s, <-r.prefill(t.Context(), q), CausePublish)
}

func TestAJobThatNobodyFinishesMeansHere(t *testing.T) {
	r := newRig(t, func(c *Config) { c.GrantsMax = 2 })
	q, s := r.admit()
	got := r.prefill(t.Context(), q)
	job := <-r.queue.arrived
	p := r.peer("prefill")
	for _, attempt := range []string{"a", "b"} {
		p.ticket(job, attempt)
		if _, err := r.Abandon(t.Context(), &decodeworkerv1.AbandonClaimRequest{TransferId: job.GetTransferId(), AttemptId: attempt}); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.claim(job, "c"); got.GetGone() == nil {
		t.Errorf("the claim that is one too many was answered %v, want gone", got)
	}
	r.fallBack(q, s, <-got, CauseGrants)
	if c := r.counters(); c.GetClaimsGranted() != 2 || c.GetClaimsGone() != 1 {
		t.Errorf("counters %v, want 2 granted and 1 gone", c)
	}
}

func TestAJobOfALostWriterIsQueuedAgain(t *testing.T) {
	r := newRig(t, nil)
	r.word = errors.New("it is gone")
	q, s := r.admit()
	got := r.prefill(t.Context(), q)
	job := <-r.queue.arrived
	lost := r.peer("lost")
	lost.ticket(job, "a")
	lost.close()
	again := <-r.queue.arrived
	if again.GetTransferId() != job.GetTransferId() {
		t.Fatalf("queued %v, want %v again", again, job)
	}
	p := r.peer("other")
	ticket := p.ticket(again, "b")
	if err := p.write(ticket); err != nil {
		t.Fatal(err)
	}
	p.note(again, ticket)
	r.finish(q, s, <-got)
}

func TestAClaimForAnotherLifeIsRefused(t *testing.T) {
	r := newRig(t, nil)
	_, err := r.Claim(t.Context(), &decodeworkerv1.ClaimPrefillRequest{TransferId: "t", AttemptId: "a", DecodeIncarnation: "0"})
	if err == nil {
		t.Error("the claim was answered")
	}
}

func toyBatch(tokens []sequence.Token, blocks []block.ID) *engine.Batch {
	return &engine.Batch{Segments: []engine.Segment{{Tokens: tokens, Blocks: blocks}}}
}
