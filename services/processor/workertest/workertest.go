// Package workertest is a decode worker for tests: a real gRPC server that speaks Attach and
// computes nothing. Its tokens depend on the prompt and the position alone, so that an answer
// which moves between workers can be told from one that lost or repeated a token.
package workertest

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/tokenizertest"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// Behaviour is what a worker does with a sequence; it runs in a goroutine of its own until
// it returns. ctx ends with the sequence's cancel and with the stream.
type Behaviour func(ctx context.Context, s *Stream, sub *decodeworkerv1.Submit)

// Worker is a running worker.
type Worker struct {
	decodeworkerv1.UnimplementedDecodeWorkerServer
	Name, Incarnation, Address string
	// Received has every message of every stream, in order.
	Received chan *decodeworkerv1.AttachRequest

	behave Behaviour
	server *grpc.Server
	served sync.WaitGroup

	mu      sync.Mutex
	streams map[*Stream]bool
}

// Start runs a worker until the test ends. A nil behaviour answers with Tokens.
func Start(t testing.TB, name string, behave Behaviour) *Worker {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if behave == nil {
		behave = Answer
	}
	w := &Worker{
		Name: name, Incarnation: "1", Address: listener.Addr().String(), behave: behave, server: grpc.NewServer(grpc.WaitForHandlers(true)),
		Received: make(chan *decodeworkerv1.AttachRequest, 1<<16), streams: map[*Stream]bool{},
	}
	decodeworkerv1.RegisterDecodeWorkerServer(w.server, w)
	w.served.Go(func() { _ = w.server.Serve(listener) })
	t.Cleanup(w.Kill)
	return w
}

// Kill ends the worker with all its connections.
func (w *Worker) Kill() {
	w.server.Stop()
	w.served.Wait()
}

// Break ends all streams with an error; the worker lives on.
func (w *Worker) Break() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.streams {
		s.broken(status.Error(codes.Unavailable, "broken by the test"))
	}
}

// Report sends a load report on all streams.
func (w *Worker) Report(load *decodeworkerv1.Load) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.streams {
		s.Send(&decodeworkerv1.AttachResponse{Message: &decodeworkerv1.AttachResponse_Load{Load: load}})
	}
}

// Stream is one processor's stream.
type Stream struct {
	ctx     context.Context
	broken  context.CancelCauseFunc
	mu      sync.Mutex // gRPC allows one Send at a time
	server  decodeworkerv1.DecodeWorker_AttachServer
	cancels map[uint32]context.CancelFunc
}

// Send sends a message; one that cannot be sent is lost with the stream.
func (s *Stream) Send(m *decodeworkerv1.AttachResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.server.Send(m)
}

// Batch sends tokens of one sequence, and its end when that is set.
func (s *Stream) Batch(id uint32, end *decodeworkerv1.Ended, tokens ...uint32) {
	b := &decodeworkerv1.StepBatch{Tokens: tokens}
	for range tokens {
		b.SequenceIds = append(b.SequenceIds, id)
	}
	if end != nil {
		end.SequenceId = id
		b.Ended = append(b.Ended, end)
	}
	s.Send(&decodeworkerv1.AttachResponse{Message: &decodeworkerv1.AttachResponse_Batch{Batch: b}})
}

// Trial announces a sequence on trial.
func (s *Stream) Trial(id uint32) {
	b := &decodeworkerv1.StepBatch{Trials: []uint32{id}}
	s.Send(&decodeworkerv1.AttachResponse{Message: &decodeworkerv1.AttachResponse_Batch{Batch: b}})
}

// Attach implements the contract.
func (w *Worker) Attach(server decodeworkerv1.DecodeWorker_AttachServer) error {
	hello, err := server.Recv()
	if err != nil {
		return err
	}
	if hello.GetHello().GetWorkerIncarnation() != w.Incarnation {
		w.Received <- hello
		return status.Error(codes.FailedPrecondition, "another incarnation is meant")
	}
	ctx, cancel := context.WithCancelCause(server.Context())
	defer cancel(nil)
	s := &Stream{ctx: ctx, broken: cancel, server: server, cancels: map[uint32]context.CancelFunc{}}
	// Whoever sees the hello may report: so the first word is said, and the stream is known.
	s.Send(&decodeworkerv1.AttachResponse{Message: &decodeworkerv1.AttachResponse_Load{Load: &decodeworkerv1.Load{}}})
	w.mu.Lock()
	w.streams[s] = true
	w.mu.Unlock()
	w.Received <- hello
	defer func() {
		w.mu.Lock()
		delete(w.streams, s)
		w.mu.Unlock()
	}()
	ended := make(chan error, 1)
	w.served.Go(func() { ended <- w.receive(s) })
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return context.Cause(ctx) // the return ends the receiver, too
	}
}

func (w *Worker) receive(s *Stream) error {
	for {
		m, err := s.server.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		w.Received <- m
		switch m := m.GetMessage().(type) {
		case *decodeworkerv1.AttachRequest_Submit:
			ctx, cancel := context.WithCancel(s.ctx)
			s.cancels[m.Submit.GetSequenceId()] = cancel
			w.served.Go(func() {
				defer cancel()
				w.behave(ctx, s, m.Submit)
			})
		case *decodeworkerv1.AttachRequest_Cancel:
			if cancel := s.cancels[m.Cancel.GetSequenceId()]; cancel != nil {
				cancel()
			}
		}
	}
}

// Token is what follows so many tokens after this prompt: a lower-case letter in the
// vocabulary of tokenizertest.
func Token(prompt []uint32, length int) uint32 {
	h := uint32(length) * 2654435761
	for _, p := range prompt {
		h = (h ^ p) * 16777619
	}
	return tokenizertest.FirstByte + 'a' + h>>8%26
}

// Tokens is the whole answer to a sequence.
func Tokens(seq *generationv1.Sequence) []uint32 {
	var tokens []uint32
	for n := len(seq.GetGenerated()); n < int(seq.GetMaxTokens()); n++ {
		tokens = append(tokens, Token(seq.GetPrompt(), n))
	}
	return tokens
}

// Answer sends Tokens, one a batch, and the end with the last; a cancel ends it as the contract says.
func Answer(ctx context.Context, s *Stream, sub *decodeworkerv1.Submit) {
	end := &decodeworkerv1.Ended{
		Reason: generationv1.FinishReason_FINISH_REASON_LENGTH, CachedTokens: 1, Placement: generationv1.Placement_PLACEMENT_LOCAL,
	}
	tokens := Tokens(sub.GetSequence())
	for i, t := range tokens {
		if ctx.Err() != nil {
			end.Reason = generationv1.FinishReason_FINISH_REASON_CANCELLED
			s.Batch(sub.GetSequenceId(), end)
			return
		}
		if i == len(tokens)-1 {
			s.Batch(sub.GetSequenceId(), end, t)
		} else {
			s.Batch(sub.GetSequenceId(), nil, t)
		}
	}
}

// Dial returns a client of the worker, closed when the test ends.
func (w *Worker) Dial(t testing.TB) decodeworkerv1.DecodeWorkerClient {
	t.Helper()
	conn, err := grpc.NewClient(w.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return decodeworkerv1.NewDecodeWorkerClient(conn)
}
