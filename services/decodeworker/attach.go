package decodeworker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/switchyard-llm/switchyard/libs/rpc"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// loadEvery is the shortest time between two load reports.
const loadEvery = 100 * time.Millisecond

// attachments are the processors attached now; each load report names them all.
type attachments struct {
	mu   sync.Mutex
	list []*attachment
}

// attachment is the stream of one processor.
type attachment struct {
	d     *DecodeWorker
	hello *decodeworkerv1.Hello
	box   *outbox
	end   context.CancelFunc // ends the stream with all its sequences
	work  sync.WaitGroup

	mu      sync.Mutex // guards the rest
	closed  bool       // nothing is added to work any more
	running map[uint32]*running
	booking uint64
}

// running is what an attachment keeps of a sequence until its end.
type running struct {
	cancel  context.CancelFunc
	proceed chan struct{} // capacity 1: the processor's Proceed
}

// Attach implements decodeworkerv1.DecodeWorkerServer.
func (d *DecodeWorker) Attach(stream grpc.BidiStreamingServer[decodeworkerv1.AttachRequest, decodeworkerv1.AttachResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	hello := first.GetHello()
	switch self := d.deps.Worker.ID(); {
	case hello == nil || hello.GetProcessor() == "" || hello.GetProcessorIncarnation() == "":
		return rpc.InvalidArgument("hello", "a first message that names the processor and its incarnation")
	case hello.GetWorkerIncarnation() != self.Incarnation:
		return rpc.FailedPrecondition("incarnation",
			fmt.Sprintf("worker_incarnation is %q, this is %s", hello.GetWorkerIncarnation(), self))
	}
	ctx, cancel := context.WithCancel(stream.Context())
	a := &attachment{d: d, hello: hello, box: newOutbox(), end: cancel, running: make(map[uint32]*running)}
	d.attached.add(a)
	defer a.close()
	received := make(chan error, 1)
	go func() { received <- a.receive(ctx, stream) }() // ends with the stream, which ends when this returns
	return a.send(ctx, stream, received)
}

// close ends what runs. A message that is being received at this moment starts nothing any more.
func (a *attachment) close() {
	a.d.attached.remove(a)
	a.end()
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.work.Wait()
}

// send sends batches and load reports until the processor hangs up, or the worker leaves.
func (a *attachment) send(ctx context.Context, stream grpc.BidiStreamingServer[decodeworkerv1.AttachRequest, decodeworkerv1.AttachResponse], received <-chan error) error {
	ticker := time.NewTicker(loadEvery)
	defer ticker.Stop()
	var last *decodeworkerv1.Load
	load := true
	for {
		if load {
			now := a.d.load()
			if !proto.Equal(now, last) {
				if err := stream.Send(&decodeworkerv1.AttachResponse{Message: &decodeworkerv1.AttachResponse_Load{Load: now}}); err != nil {
					return err
				}
				last = now
			}
			load = false
		}
		if batch := a.box.take(); batch != nil {
			if err := stream.Send(&decodeworkerv1.AttachResponse{Message: &decodeworkerv1.AttachResponse_Batch{Batch: batch}}); err != nil {
				return err
			}
			continue
		}
		select {
		case <-a.box.wake:
		case <-ticker.C:
			load = true
		case err := <-received:
			return err
		case <-a.d.leaving:
			return a.left(stream)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// left ends the stream of a worker that leaves. The sequences of a stream that ends early go
// to other workers; ends that were said meanwhile are said first.
func (a *attachment) left(stream grpc.BidiStreamingServer[decodeworkerv1.AttachRequest, decodeworkerv1.AttachResponse]) error {
	if batch := a.box.take(); batch != nil {
		return stream.Send(&decodeworkerv1.AttachResponse{Message: &decodeworkerv1.AttachResponse_Batch{Batch: batch}})
	}
	return nil
}

// receive takes submits and cancels until the processor hangs up.
func (a *attachment) receive(ctx context.Context, stream grpc.BidiStreamingServer[decodeworkerv1.AttachRequest, decodeworkerv1.AttachResponse]) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) { // the processor hung up
				return nil
			}
			return err
		}
		switch m := m.GetMessage().(type) {
		case *decodeworkerv1.AttachRequest_Submit:
			if err := a.submit(ctx, m.Submit); err != nil {
				return err
			}
		case *decodeworkerv1.AttachRequest_Cancel:
			a.cancel(m.Cancel.GetSequenceId())
		case *decodeworkerv1.AttachRequest_Void:
			a.booked(m.Void.GetBooking())
		case *decodeworkerv1.AttachRequest_Proceed:
			a.proceed(m.Proceed.GetSequenceId())
		default:
			return rpc.InvalidArgument("message", "submit, cancel, void or proceed after the hello")
		}
	}
}

// submit starts a sequence. It fails the stream only for what breaks its rules.
func (a *attachment) submit(ctx context.Context, m *decodeworkerv1.Submit) error {
	id := m.GetSequenceId()
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier(m.GetTraceContext()))
	ctx, cancel := bounded(ctx, m.GetSequence())
	a.mu.Lock()
	if a.closed || a.running[id] != nil {
		closed := a.closed
		a.mu.Unlock()
		cancel()
		if closed {
			return context.Canceled
		}
		return rpc.InvalidArgument("submit.sequence_id", fmt.Sprintf("a number that is not in use, not %d", id))
	}
	own := &running{cancel: cancel, proceed: make(chan struct{}, 1)}
	a.running[id] = own
	a.work.Add(1)
	a.mu.Unlock()
	out := ending{
		output: a.box.add(id), end: func() { a.forget(id) },
		trial: func() <-chan struct{} { a.box.trial(id); return own.proceed },
	}
	g, err := a.d.submit(m.GetSequence(), out)
	a.booked(m.GetBooking()) // the report counts the sequence, or it was refused
	if err != nil {
		a.work.Done()
		out.Ended(&decodeworkerv1.Ended{
			Reason: generationv1.FinishReason_FINISH_REASON_ERROR, Code: uint32(rpc.Code(err)), Message: rpc.Message(err),
		})
		return nil
	}
	go func() { defer a.work.Done(); g.run(ctx) }()
	return nil
}

// bounded ends with the client's deadline, if it has one.
func bounded(ctx context.Context, msg *generationv1.Sequence) (context.Context, context.CancelFunc) {
	if deadline := msg.GetDeadline(); deadline != nil {
		return context.WithDeadline(ctx, deadline.AsTime())
	}
	return context.WithCancel(ctx)
}

func (a *attachment) booked(n uint64) {
	a.mu.Lock()
	a.booking = max(a.booking, n)
	a.mu.Unlock()
}

func (a *attachment) cancel(id uint32) {
	a.mu.Lock()
	r := a.running[id]
	a.mu.Unlock()
	if r != nil {
		r.cancel()
	}
}

// proceed lets a sequence on trial begin; one that has ended meanwhile is no error.
func (a *attachment) proceed(id uint32) {
	a.mu.Lock()
	r := a.running[id]
	a.mu.Unlock()
	if r == nil {
		return
	}
	select {
	case r.proceed <- struct{}{}:
	default: // a repeated one
	}
}

// forget gives back what belongs to a sequence that has ended.
func (a *attachment) forget(id uint32) {
	a.mu.Lock()
	r := a.running[id]
	delete(a.running, id)
	a.mu.Unlock()
	if r != nil {
		r.cancel()
	}
}

// ending is an attachment's output: with something to do after the end, and somebody who
// knows of trials.
type ending struct {
	output
	end   func()
	trial func() <-chan struct{}
}

func (e ending) Trial() <-chan struct{} { return e.trial() }

func (e ending) Ended(m *decodeworkerv1.Ended) {
	e.end() // first: the caller may use the number again once it sees the end
	e.output.Ended(m)
}

// load is the worker's load with all bookings that are part of it.
func (d *DecodeWorker) load() *decodeworkerv1.Load {
	// Bookings first: what is booked in between is then counted twice, never lost.
	booked := d.attached.booked()
	return &decodeworkerv1.Load{Booked: booked, Report: d.deps.Worker.LoadReport(), KvSequence: d.deps.Worker.Events.Sequence(), Speed: d.speed()}
}

// speed is what this worker has learnt of itself, as routers want it: prompts take the quicker way. It
// is rounded, so that a load report is not sent for every sample.
func (d *DecodeWorker) speed() *decodeworkerv1.Speed {
	now := time.Now()
	s, local, remote := d.speeds.Measured(now)
	if !local && !remote {
		return nil
	}
	fixed, token := s.LocalOverhead, s.LocalToken
	if remote && d.prefillWorkers() > 0 && (!local || s.RemoteToken < s.LocalToken) {
		fixed, token = s.RemoteOverhead, s.RemoteToken
	}
	step := d.speeds.DecodeStep(now)
	return &decodeworkerv1.Speed{
		PrefillFixed: durationpb.New(rounded(fixed + step.Step)), PrefillToken: durationpb.New(rounded(token)),
		Step: durationpb.New(rounded(step.Step)), StepSequence: durationpb.New(rounded(step.Sequence)),
		StepTokenNanoseconds: float64(rounded(time.Duration(step.Token*tokenGrain))) / tokenGrain,
	}
}

// tokenGrain is how many parts of a nanosecond are told apart: a token takes few or less than one.
const tokenGrain = 1 << 10

// rounded keeps the five highest bits: 3 % at most are lost.
func rounded(d time.Duration) time.Duration {
	n := uint64(max(0, d))
	drop := max(0, bits.Len64(n)-5)
	return time.Duration(n >> drop << drop)
}

// add takes in an attachment. An older one of the same processor's life is a connection
// that this side has not found broken yet: its bookings say nothing of the new stream's,
// and nobody waits for its sequences.
func (s *attachments) add(a *attachment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.DeleteFunc(s.list, func(old *attachment) bool {
		same := old.hello.GetProcessor() == a.hello.GetProcessor() &&
			old.hello.GetProcessorIncarnation() == a.hello.GetProcessorIncarnation()
		if same {
			old.end()
		}
		return same
	})
	s.list = append(s.list, a)
}

func (s *attachments) remove(a *attachment) {
	s.mu.Lock()
	s.list = slices.DeleteFunc(s.list, func(x *attachment) bool { return x == a })
	s.mu.Unlock()
}

func (s *attachments) booked() []*decodeworkerv1.Booked {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*decodeworkerv1.Booked, len(s.list))
	for i, a := range s.list {
		a.mu.Lock()
		out[i] = &decodeworkerv1.Booked{
			Processor: a.hello.GetProcessor(), ProcessorIncarnation: a.hello.GetProcessorIncarnation(), Booking: a.booking,
		}
		a.mu.Unlock()
	}
	return out
}
