package processor

import (
	"context"
	"errors"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"

	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	"github.com/switchyard-llm/switchyard/services/processor/link"
	"github.com/switchyard-llm/switchyard/services/processor/router"
)

// peer is one life of a worker.
type peer struct {
	workers *workers
	id      router.WorkerID
	conn    *grpc.ClientConn
	traffic traffic
	counted metric.MeasurementOption // its attributes
	// corrections counts requests of which the worker had less than it had said.
	corrections atomic.Uint64

	// The workers' mutex guards the rest.
	instance *instancev1.Instance
	link     *link.Link
	present  bool // discovery names it
	attached bool
	ended    bool // this life is over, whatever discovery says
}

// takesWork says whether the worker is there for new sequences, reachable or not. The
// workers' mutex is held.
func (p *peer) takesWork() bool { return p.present && !p.ended && !p.instance.GetDraining() }

// candidate tells the router what the worker is.
func (p *peer) candidate(in *instancev1.Instance) error {
	card := in.GetModel()
	err := p.workers.router.Add(router.Worker{
		ID: p.id, Model: card.GetName(), BlockTokens: int(card.GetBlockTokens()), PoolBlocks: int(card.GetPoolBlocks()),
		ContextTokens: int(card.GetContextTokens()), Events: card.GetKvEvents() && p.workers.events != nil,
	})
	if err == nil {
		p.workers.events.join(in)
	}
	return err
}

func (p *peer) newLink() *link.Link {
	return link.New(link.Config{
		Processor: p.workers.name, Incarnation: p.workers.incarnation, Worker: p.id.Name, WorkerIncarnation: p.id.Incarnation,
		Client: decodeworkerv1.NewDecodeWorkerClient(p.conn), Events: p, Logger: p.workers.log,
	})
}

// run keeps a link until ctx ends or the worker has left.
func (p *peer) run(ctx context.Context) {
	w := p.workers
	for {
		w.mu.Lock()
		l := p.link
		w.mu.Unlock()
		err := l.Run(ctx)
		w.events.leave(p.self())
		w.router.Remove(p.id)
		in := p.again(ctx, err)
		if in == nil {
			break
		}
		if err := p.candidate(in); err != nil {
			w.log.Error("a decode worker cannot be used", "error", err)
		}
	}
	if err := p.conn.Close(); err != nil {
		w.log.Warn("close the connection to a decode worker", "worker_id", p.id.Name, "error", err)
	}
}

// again makes a new link when the worker was drained because discovery had lost sight of
// it, and is back; else it returns nil. A worker whose life is over stays known, so that it
// is not tried again while discovery still names it; another is forgotten.
func (p *peer) again(ctx context.Context, err error) *instancev1.Instance {
	w := p.workers
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case errors.Is(err, link.ErrEnded) && p.present:
		p.ended = true
		w.log.Info("decode worker has ended", "worker_id", p.id.Name, "incarnation", p.id.Incarnation, "reason", err)
	case ctx.Err() == nil && err == nil && p.present:
		p.link = p.newLink()
		return p.instance
	default:
		delete(w.peers, p.id)
	}
	return nil
}

// drain lets what runs at the worker finish, and gives it nothing new.
func (p *peer) drain() {
	p.workers.router.SetDraining(p.id, true)
	p.workers.mu.Lock()
	l := p.link
	p.workers.mu.Unlock()
	l.Drain()
}

var _ link.Events = (*peer)(nil)

// Attached implements link.Events.
func (p *peer) Attached() {
	p.workers.router.Attach(p.id)
	p.set(true)
	p.workers.wake()
}

// Detached implements link.Events.
func (p *peer) Detached(error) {
	p.workers.router.Detach(p.id)
	p.set(false)
	p.workers.members.Lost(p.id.Name, p.id.Incarnation)
}

func (p *peer) set(attached bool) {
	p.workers.mu.Lock()
	p.attached = attached
	p.workers.mu.Unlock()
}

// Loaded implements link.Events.
func (p *peer) Loaded(l *decodeworkerv1.Load) {
	report, speed := l.GetReport(), l.GetSpeed()
	r := router.Report{
		PrefillTokens: int(report.GetWaitingPromptTokens()), Running: int(report.GetRunningSequences()), DecodeTokens: int(report.GetActiveTokens()),
		Speed: router.Speed{
			PrefillFixed: speed.GetPrefillFixed().AsDuration(), PrefillToken: speed.GetPrefillToken().AsDuration(),
			Step: speed.GetStep().AsDuration(), StepSequence: speed.GetStepSequence().AsDuration(), StepToken: speed.GetStepTokenNanoseconds(),
		},
	}
	for _, b := range l.GetBooked() {
		r.Booked = append(r.Booked, router.Counted{
			Processor: router.ProcessorID{Name: b.GetProcessor(), Incarnation: b.GetProcessorIncarnation()}, Booking: b.GetBooking(),
		})
	}
	p.workers.router.Report(p.id, r)
	p.workers.events.reported(p.self(), l.GetKvSequence())
}

// self is what the worker says of itself now.
func (p *peer) self() *instancev1.Instance {
	p.workers.mu.Lock()
	defer p.workers.mu.Unlock()
	return p.instance
}

// traffic counts what was sent to a worker and how much of it was there.
type traffic struct{ sequences, prompt, expected, cached atomic.Uint64 }

func (t *traffic) add(prompt, expected, cached int) {
	t.sequences.Add(1)
	t.prompt.Add(uint64(prompt))
	t.expected.Add(uint64(expected))
	t.cached.Add(uint64(cached))
}
