package decodeworker

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/engine"
	"github.com/switchyard-llm/switchyard/libs/engine/enginetest"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
	"github.com/switchyard-llm/switchyard/libs/sequence"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
	"github.com/switchyard-llm/switchyard/services/decodeworker/disagg"
)

// prefiller plays a prefill worker over the worker's real server.
type prefiller struct {
	h     *harness
	agent nixl.Agent
	mem   nixl.Region
	toy   *enginetest.Toy
	work  func(*transferv1.CompletionNote) // says how long it took
}

func (h *harness) prefiller() *prefiller {
	h.t.Helper()
	p := &prefiller{h: h, toy: enginetest.NewToy(blockTokens, 150), work: func(*transferv1.CompletionNote) {}}
	m, err := memory.Anonymous(40 * p.toy.Card().Layout.BlockBytes())
	if err != nil {
		h.t.Fatal(err)
	}
	if p.agent, err = h.net.NewAgent(nixl.Config{Name: "prefill", Incarnation: "1", KVFormat: "toy"}); err != nil {
		h.t.Fatal(err)
	}
	if p.mem, err = p.agent.Register(m, p.toy.Card().Layout, 40); err != nil {
		h.t.Fatal(err)
	}
	if err := p.toy.Bind(p.mem); err != nil {
		h.t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- p.agent.Run(context.Background()) }()
	h.t.Cleanup(func() {
		if err := errors.Join(p.agent.Close(), <-ran, p.mem.Close(), m.Close()); err != nil {
			h.t.Error(err)
		}
	})
	metadata, err := h.worker.Agent.Metadata()
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := p.agent.AddPeer(within(h.t), metadata); err != nil {
		h.t.Fatal(err)
	}
	return p
}

func (p *prefiller) claim(job *transferv1.RemotePrefillRequest, attempt string) *decodeworkerv1.ClaimPrefillResponse {
	p.h.t.Helper()
	answer, err := p.h.client.ClaimPrefill(within(p.h.t), &decodeworkerv1.ClaimPrefillRequest{
		TransferId: job.GetTransferId(), AttemptId: attempt, DecodeIncarnation: "1",
		PrefillWorker: "prefill", PrefillIncarnation: "1", WantSequence: job.GetSequence() == nil,
	})
	if err != nil {
		p.h.t.Fatalf("claim: %v", err)
	}
	return answer
}

// complete computes the tokens, writes what the ticket names and sends the note.
func (p *prefiller) complete(job *transferv1.RemotePrefillRequest, ticket *transferv1.Ticket, tokens []sequence.Token, first sequence.Token) {
	t, layout := p.h.t, p.mem.Layout()
	t.Helper()
	local := make([]block.ID, layout.Blocks(len(tokens)))
	for i := range local {
		local[i] = block.ID(len(local) - i)
	}
	if err := p.toy.Step(within(t), &engine.Batch{Segments: []engine.Segment{{Tokens: tokens, Blocks: local}}}); err != nil {
		t.Fatal(err)
	}
	var copies []nixl.Copy
	for i, remote := range ticket.GetBlocks().GetBlocks() {
		at := int(ticket.GetFirstPosition())/blockTokens + i
		for span := range layout.Spans(local[at], 0, min(blockTokens, len(tokens)-at*blockTokens)) {
			far := block.Span{Offset: span.Offset + (int(remote)-int(local[at]))*layout.BlockBytes(), Bytes: span.Bytes}
			copies = append(copies, nixl.Copy{Local: span, Remote: far})
		}
	}
	decode := nixl.PeerID{Name: "decode", Incarnation: "1"}
	transfer, err := nixl.Post(within(t), p.agent, nixl.Request{Peer: decode, Op: nixl.Write, Copies: copies, Grant: &nixl.Grant{Number: ticket.GetNumber()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := transfer.Wait(within(t)); err != nil {
		t.Fatal(err)
	}
	done := &transferv1.CompletionNote{
		TransferId: job.GetTransferId(), Ticket: ticket.GetNumber(), Blocks: ticket.GetBlocks(), PrefillWorker: "prefill",
		FirstPosition: ticket.GetFirstPosition(), EndPosition: ticket.GetEndPosition(),
		FirstTokens: []*transferv1.FirstToken{{Token: first}},
	}
	p.work(done)
	note, err := proto.Marshal(done)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.agent.Notify(within(t), decode, note); err != nil {
		t.Fatal(err)
	}
}

func always(h *harness) { h.policy.Store(&disagg.Policy{Policy: disagg.Always}) }

func TestARemotePromptIsDecodedHere(t *testing.T) {
	h := newHarness(t, nil).start()
	always(h)
	p, s := h.prefiller(), h.attach("p", "1")
	s.submit(1, 1, spec(6))
	job := take(t, "a job", h.queue.arrived)
	p.complete(job, p.claim(job, "a").GetTicket(), prompt, enginetest.ToyAnswer(prompt, 1)[0])
	if e := s.end(); e.GetReason() != byLength || e.GetPlacement() != placedThere || e.GetPrefillWorker() != "prefill" {
		t.Errorf("ended %v", e)
	}
	s.check(1, 6)
	h.checkIdle()
	if n := h.worker.Scheduler.Report().PromptTokens; n != 0 {
		t.Errorf("%d prompt tokens were computed here", n)
	}
}

func TestAMigratedSequenceGoesOnAfterARemotePrompt(t *testing.T) {
	h := newHarness(t, nil).start()
	always(h)
	p, s := h.prefiller(), h.attach("p", "1")
	whole := enginetest.ToyAnswer(prompt, 6)
	q := spec(6)
	q.Generated = whole[:2]
	s.submit(1, 1, q)
	job := take(t, "a job", h.queue.arrived)
	if n := job.GetPromptTokens(); n != uint32(len(prompt)+2) {
		t.Errorf("the job has %d tokens, want %d", n, len(prompt)+2)
	}
	known := append(append([]sequence.Token(nil), prompt...), whole[:2]...)
	p.complete(job, p.claim(job, "a").GetTicket(), known, whole[2])
	if e := s.end(); e.GetReason() != byLength {
		t.Errorf("ended %v", e)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := s.tokens[1]; len(got) != 4 || got[0] != whole[2] || got[3] != whole[5] {
		t.Errorf("tokens %v, want %v", got, whole[2:])
	}
}

// A cancel in each state of the transfer: the sequence ends once, its blocks come back,
// and what is counted is a cancel.
func TestACancelOfARemotePromptBringsEverythingBack(t *testing.T) {
	for _, claimed := range []bool{false, true} {
		h := newHarness(t, nil).start()
		always(h)
		aborted := make(chan string, 4)
		h.abort = func(r *prefillworkerv1.AbortRequest) error { aborted <- r.GetAttemptId(); return nil }
		p, s := h.prefiller(), h.attach("p", "1")
		s.submit(1, 1, spec(6))
		job := take(t, "a job", h.queue.arrived)
		if claimed {
			p.claim(job, "a")
		}
		s.cancel(1)
		if e := s.end(); e.GetReason() != byCancel {
			t.Errorf("ended %v, want cancelled", e)
		}
		if claimed {
			if got := take(t, "an abort", aborted); got != "a" {
				t.Errorf("attempt %s was aborted, want a", got)
			}
		}
		h.checkIdle()
		if got := p.claim(job, "b"); got.GetGone() == nil {
			t.Errorf("a claim after the cancel was answered %v, want gone", got)
		}
		d, err := h.client.Describe(within(t), &decodeworkerv1.DescribeRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if r := d.GetHandOff(); r.GetCancelled() != 1 || r.GetFallback() != 0 || r.GetDeadlinePassed() != 0 {
			t.Errorf("counters %v, want one cancel", r)
		}
	}
}

// Blocks that stay in QUARANTINE must not hold a request for ever: another worker may
// have room.
func TestAPromptWhoseBlocksStayInQuarantineGoesElsewhere(t *testing.T) {
	h := newHarness(t, func(c *Config) {
		c.Pool.PoolTokens = 4 * blockTokens // the prompt and the answer need all of it
		c.HandOff.Deadline, c.HandOff.Proof = 100*time.Millisecond, time.Hour
	})
	always(h)
	release := make(chan struct{})
	h.abort = func(*prefillworkerv1.AbortRequest) error { <-release; return nil } // neither word nor fence
	h.start()
	p, s := h.prefiller(), h.attach("p", "1")
	s.submit(1, 1, spec(6))
	p.claim(take(t, "a job", h.queue.arrived), "a")
	if e := s.end(); codes.Code(e.GetCode()) != codes.Unavailable {
		t.Errorf("ended %v, want unavailable", e)
	}
	close(release)
	h.checkIdle()
}

func TestAFencedPrefillWorkerGetsNoMoreWork(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.HandOff.Deadline = 200 * time.Millisecond })
	always(h)
	h.abort = func(*prefillworkerv1.AbortRequest) error { return errors.New("no answer") }
	h.start()
	p, s := h.prefiller(), h.attach("p", "1")
	s.submit(1, 1, spec(6))
	p.claim(take(t, "a job", h.queue.arrived), "a")
	if e := s.end(); e.GetReason() != byLength { // here, after the deadline
		t.Errorf("ended %v", e)
	}
	h.checkIdle() // by a fence
	other := &instancev1.Instance{Id: "other", Incarnation: "1"}
	h.prefills.Store(&[]*instancev1.Instance{{Id: "prefill", Incarnation: "1"}, other})
	s.submit(2, 2, spec(6))
	if got := p.claim(take(t, "a job", h.queue.arrived), "b"); got.GetLater() == nil {
		t.Errorf("a fenced worker's claim was answered %v, want later", got)
	}
	s.end()
	h.prefills.Store(&[]*instancev1.Instance{{Id: "prefill", Incarnation: "1"}})
	s.submit(3, 3, spec(6))
	if e := s.end(); e.GetPlacement() != placedHere {
		t.Errorf("placed %v with no other prefill worker, want here", e.GetPlacement())
	}
}
