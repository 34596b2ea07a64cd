package decodeworker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

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
	work  sync.WaitGroup

	// Owned by the receiving goroutine; cancels is shared with the ends of sequences.
	mu      sync.Mutex
	cancels map[uint32]context.CancelFunc
	booking uint64
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
	a := &attachment{d: d, hello: hello, box: newOutbox(), cancels: make(map[uint32]context.CancelFunc)}
	d.attached.add(a)
	defer d.attached.remove(a)
	ctx, cancel := context.WithCancel(stream.Context())
	defer a.work.Wait()
	defer cancel()
	received := make(chan error, 1)
	go func() { received <- a.receive(ctx, stream) }()
	return a.send(ctx, stream, received)
}

// send sends batches and load reports until the processor hangs up, or the worker drains
// and nothing runs any more.
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
		draining := a.d.draining
		if !a.box.idle() {
			draining = nil
		}
		select {
		case <-a.box.wake:
		case <-ticker.C:
			load = true
		case err := <-received:
			return err
		case <-draining:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
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
		default:
			return rpc.InvalidArgument("message", "submit, cancel or void after the hello")
		}
	}
}

// submit starts a sequence. It fails the stream only for what breaks its rules.
func (a *attachment) submit(ctx context.Context, m *decodeworkerv1.Submit) error {
	id := m.GetSequenceId()
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier(m.GetTraceContext()))
	ctx, cancel := bounded(ctx, m.GetSequence())
	a.mu.Lock()
	if a.cancels[id] != nil {
		a.mu.Unlock()
		cancel()
		return rpc.InvalidArgument("submit.sequence_id", fmt.Sprintf("a number that is not in use, not %d", id))
	}
	a.cancels[id] = cancel
	a.mu.Unlock()
	out := ending{output: a.box.add(id), end: func() { a.forget(id) }}
	g, err := a.d.accept(m.GetSequence(), out)
	a.booked(m.GetBooking()) // the report counts the sequence, or it was refused
	if err != nil {
		out.Ended(&decodeworkerv1.Ended{
			Reason: generationv1.FinishReason_FINISH_REASON_ERROR, Code: uint32(rpc.Code(err)), Message: rpc.Message(err),
		})
		return nil
	}
	a.work.Go(func() { g.run(ctx) })
	return nil
}

// accept is submit for a worker that may be draining.
func (d *DecodeWorker) accept(msg *generationv1.Sequence, out output) (*generation, error) {
	select {
	case <-d.draining:
		return nil, rpc.Unavailable("the worker is draining")
	default:
		return d.submit(msg, out)
	}
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
	cancel := a.cancels[id]
	a.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// forget gives back what belongs to a sequence that has ended.
func (a *attachment) forget(id uint32) {
	a.mu.Lock()
	cancel := a.cancels[id]
	delete(a.cancels, id)
	a.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// ending is an output with something to do after the end.
type ending struct {
	output
	end func()
}

func (e ending) Ended(m *decodeworkerv1.Ended) {
	e.end() // first: the caller may use the number again once it sees the end
	e.output.Ended(m)
}

// load is the worker's load with all bookings that are part of it.
func (d *DecodeWorker) load() *decodeworkerv1.Load {
	// Bookings first: what is booked in between is then counted twice, never lost.
	booked := d.attached.booked()
	return &decodeworkerv1.Load{Booked: booked, Report: d.deps.Worker.LoadReport()}
}

func (s *attachments) add(a *attachment) {
	s.mu.Lock()
	s.list = append(s.list, a)
	s.mu.Unlock()
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
