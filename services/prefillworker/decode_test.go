package prefillworker

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/engine"
	"github.com/switchyard-llm/switchyard/libs/engine/enginetest"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/inproc"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/worker"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

// decode is a decode worker that a test plays: it answers over a real server, and its
// memory is real.
type decode struct {
	decodeworkerv1.UnimplementedDecodeWorkerServer

	t        *testing.T
	agent    nixl.Agent
	toy      *enginetest.Toy
	instance *instancev1.Instance

	// Set before the first job.
	claim   func(n int, r *decodeworkerv1.ClaimPrefillRequest) (*decodeworkerv1.ClaimPrefillResponse, error)
	renew   func() error
	release func() decodeworkerv1.PrefixOutcome
	lease   time.Duration

	claims    chan *decodeworkerv1.ClaimPrefillRequest
	abandoned chan *decodeworkerv1.AbandonClaimRequest
	notes     chan *transferv1.CompletionNote
	renewed   chan struct{} // capacity 1

	mu  sync.Mutex // guards the rest
	n   int        // claims so far
	end int        // of the prompt
}

// table is where the decode worker keeps the prompt: position p lies in block table[p/4].
var table = []block.ID{7, 2, 9}

func newDecode(t *testing.T, network *inproc.Network) *decode {
	t.Helper()
	d := &decode{
		t: t, toy: enginetest.NewToy(blockTokens, 150), lease: time.Hour, end: len(prompt),
		claims: make(chan *decodeworkerv1.ClaimPrefillRequest, 64), abandoned: make(chan *decodeworkerv1.AbandonClaimRequest, 64),
		notes: make(chan *transferv1.CompletionNote, 64), renewed: make(chan struct{}, 1),
		renew:   func() error { return nil },
		release: func() decodeworkerv1.PrefixOutcome { return decodeworkerv1.PrefixOutcome_PREFIX_OUTCOME_OK },
	}
	d.claim = func(int, *decodeworkerv1.ClaimPrefillRequest) (*decodeworkerv1.ClaimPrefillResponse, error) {
		return d.ticket(0), nil
	}
	var err error
	if d.agent, err = network.NewAgent(nixl.Config{Name: "decode", Incarnation: "1", KVFormat: "toy"}); err != nil {
		t.Fatal(err)
	}
	m, err := memory.Anonymous(10 * d.toy.Card().Layout.BlockBytes())
	if err != nil {
		t.Fatal(err)
	}
	region, err := d.agent.Register(m, d.toy.Card().Layout, 10)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.toy.Bind(region); err != nil {
		t.Fatal(err)
	}
	metadata, err := d.agent.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- d.agent.Run(context.Background()) }()
	t.Cleanup(func() {
		if err := errors.Join(d.agent.Close(), <-ran, region.Close(), m.Close()); err != nil {
			t.Error(err)
		}
	})
	d.serve(metadata)
	d.receive()
	return d
}

func (d *decode) serve(metadata []byte) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		d.t.Fatal(err)
	}
	d.instance = &instancev1.Instance{
		Id: "decode", Incarnation: "1", Address: listener.Addr().String(),
		Transfer: []*instancev1.TransferEndpoint{{Transport: worker.InProc, Metadata: metadata}},
	}
	server := rpc.NewServer(rpc.ServerOptions{})
	decodeworkerv1.RegisterDecodeWorkerServer(server, d)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener, 0) }()
	d.t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			d.t.Error(err)
		}
	})
}

// receive collects the notes.
func (d *decode) receive() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			event, err := d.agent.Receive(context.Background())
			if err != nil {
				return // the agent was closed
			}
			var n transferv1.CompletionNote
			if event.Gone || proto.Unmarshal(event.Payload, &n) != nil {
				continue
			}
			d.notes <- &n
		}
	}()
	d.t.Cleanup(func() { _ = d.agent.Close(); <-done })
}

// answerNote answers the next note.
func (d *decode) answerNote(outcome transferv1.NoteOutcome) *transferv1.CompletionNote {
	d.t.Helper()
	n := take(d.t, "a note", d.notes)
	answer, err := proto.Marshal(&transferv1.NoteAnswer{TransferId: n.GetTransferId(), Ticket: n.GetTicket(), Outcome: outcome})
	if err == nil {
		err = d.agent.Notify(within(d.t), nixl.PeerID{Name: "prefill", Incarnation: "1"}, answer)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return n
}

// ticket grants the blocks after the first so many, which it lets read.
func (d *decode) ticket(prefix int) *decodeworkerv1.ClaimPrefillResponse {
	refs := make([]block.Ref, len(table))
	for i, b := range table {
		refs[i] = block.Ref{ID: b, Generation: 1}
	}
	return &decodeworkerv1.ClaimPrefillResponse{Outcome: &decodeworkerv1.ClaimPrefillResponse_Ticket{Ticket: &transferv1.Ticket{
		Number: uint64(d.n), Blocks: worker.BlockRefs(refs[prefix:]), Prefix: worker.BlockRefs(refs[:prefix]),
		FirstPosition: uint32(prefix * blockTokens), EndPosition: uint32(d.end),
		LeaseExpiry: timestamppb.New(time.Now().Add(d.lease)),
	}}}
}

// fill computes the first tokens into the decode worker's own blocks.
func (d *decode) fill(tokens []sequence.Token) {
	d.t.Helper()
	if err := d.toy.Step(d.t.Context(), &engine.Batch{Segments: []engine.Segment{{Tokens: tokens, Blocks: table}}}); err != nil {
		d.t.Fatal(err)
	}
}

// answer decodes one token after the prompt that lies in the blocks.
func (d *decode) answer(tokens []sequence.Token) []sequence.Token {
	d.t.Helper()
	logits := make([]float32, enginetest.ToyVocab)
	next := enginetest.ToyAnswer(tokens, 1)
	segment := engine.Segment{Tokens: next, Start: len(tokens), Blocks: append(table[:3:3], 0), Logits: logits}
	if err := d.toy.Step(d.t.Context(), &engine.Batch{Segments: []engine.Segment{segment}}); err != nil {
		d.t.Error(err)
		return nil
	}
	for token, l := range logits {
		if l == 1 {
			return []sequence.Token{sequence.Token(token)}
		}
	}
	return nil
}

// ClaimPrefill implements decodeworkerv1.DecodeWorkerServer.
func (d *decode) ClaimPrefill(_ context.Context, r *decodeworkerv1.ClaimPrefillRequest) (*decodeworkerv1.ClaimPrefillResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n++
	answer, err := d.claim(d.n, r)
	if err == nil && answer.GetTicket() != nil {
		err = d.allow(nixl.PeerID{Name: r.GetPrefillWorker(), Incarnation: r.GetPrefillIncarnation()}, answer.GetTicket())
	}
	d.claims <- r
	return answer, err
}

func (d *decode) allow(peer nixl.PeerID, t *transferv1.Ticket) error {
	return errors.Join(
		d.agent.Allow(peer, nixl.Grant{Number: t.GetNumber(), Op: nixl.Write, Blocks: worker.Refs(t.GetBlocks())}),
		d.agent.Allow(peer, nixl.Grant{Number: t.GetNumber(), Op: nixl.Read, Blocks: worker.Refs(t.GetPrefix())}))
}

// RenewClaim implements decodeworkerv1.DecodeWorkerServer.
func (d *decode) RenewClaim(context.Context, *decodeworkerv1.RenewClaimRequest) (*decodeworkerv1.RenewClaimResponse, error) {
	err := d.renew()
	select {
	case d.renewed <- struct{}{}:
	default:
	}
	return &decodeworkerv1.RenewClaimResponse{}, err
}

// AbandonClaim implements decodeworkerv1.DecodeWorkerServer.
func (d *decode) AbandonClaim(_ context.Context, r *decodeworkerv1.AbandonClaimRequest) (*decodeworkerv1.AbandonClaimResponse, error) {
	d.abandoned <- r
	return &decodeworkerv1.AbandonClaimResponse{}, nil
}

// ReleasePrefix implements decodeworkerv1.DecodeWorkerServer.
func (d *decode) ReleasePrefix(context.Context, *decodeworkerv1.ReleasePrefixRequest) (*decodeworkerv1.ReleasePrefixResponse, error) {
	return &decodeworkerv1.ReleasePrefixResponse{Outcome: d.release()}, nil
}

var (
	answerGone = &decodeworkerv1.ClaimPrefillResponse{
		Outcome: &decodeworkerv1.ClaimPrefillResponse_Gone{Gone: &decodeworkerv1.Gone{}},
	}
	answerLater = &decodeworkerv1.ClaimPrefillResponse{
		Outcome: &decodeworkerv1.ClaimPrefillResponse_Later{Later: durationpb.New(time.Millisecond)},
	}
	errEnded = status.Error(codes.NotFound, "the claim has ended")
)
