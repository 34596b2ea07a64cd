package processor

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/broker"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
	"github.com/switchyard-llm/switchyard/services/processor/router"
)

const (
	// exchangeWaiting bounds the bookings that wait to be published. Beyond it they are lost, which
	// costs balance until the worker's next report.
	exchangeWaiting = 4096
	// exchangeBatch is how many go into one message at most.
	exchangeBatch = 64
	// exchangeBlocks is the longest prompt, in blocks, whose chain is told to the others.
	exchangeBlocks = 1 << 14
)

// exchange tells the other processors of the model of this one's bookings, and hears of theirs.
// While there are none it costs a comparison per booking.
type exchange struct {
	nc      *nats.Conn
	subject string
	self    router.ProcessorID
	router  *router.Router
	log     *slog.Logger
	out     chan *processorv1.Booking
	// others are the processors that discovery knows beside this one; nobody else is listened to.
	others     atomic.Pointer[map[router.ProcessorID]bool]
	unreadable atomic.Uint64 // messages
}

func newExchange(nc *nats.Conn, model string, self router.ProcessorID, log *slog.Logger) *exchange {
	e := &exchange{
		nc: nc, subject: "switchyard.bookings." + broker.Token(model), self: self, log: log,
		out: make(chan *processorv1.Booking, exchangeWaiting),
	}
	e.others.Store(&map[router.ProcessorID]bool{})
	return e
}

var bookingKinds = map[router.SharedKind]processorv1.BookingKind{
	router.SharedBooked:   processorv1.BookingKind_BOOKING_KIND_BOOKED,
	router.SharedComputed: processorv1.BookingKind_BOOKING_KIND_COMPUTED,
	router.SharedEnded:    processorv1.BookingKind_BOOKING_KIND_ENDED,
}

// share is router.Options.Share.
func (e *exchange) share(s router.Shared) {
	if len(*e.others.Load()) == 0 {
		return
	}
	b := &processorv1.Booking{
		Kind: bookingKinds[s.Kind], Worker: s.Worker.Name, WorkerIncarnation: s.Worker.Incarnation, Stream: s.Stream, Number: s.Booking,
		PrefillTokens: uint32(s.PrefillTokens), DecodeTokens: uint32(s.DecodeTokens), HeldBlocks: uint32(s.HeldBlocks),
	}
	if len(s.Chain) <= exchangeBlocks {
		b.Chain = make([]uint64, len(s.Chain))
		for i, h := range s.Chain {
			b.Chain[i] = uint64(h)
		}
	}
	select {
	case e.out <- b:
	default:
	}
}

// run publishes and hears until ctx ends.
func (e *exchange) run(ctx context.Context) error {
	heard, err := e.nc.Subscribe(e.subject, e.hear)
	if err != nil {
		return fmt.Errorf("hear of other processors' bookings: %w", err)
	}
	defer func() { _ = heard.Unsubscribe() }() // the connection may be gone
	for {
		select {
		case <-ctx.Done():
			return nil
		case b := <-e.out:
			e.publish(b)
		}
	}
}

// publish sends a booking with those that wait already.
func (e *exchange) publish(first *processorv1.Booking) {
	m := &processorv1.Bookings{Processor: e.self.Name, Incarnation: e.self.Incarnation, Bookings: []*processorv1.Booking{first}}
	for size := len(first.GetChain()); size < exchangeBlocks && len(m.Bookings) < exchangeBatch && len(e.out) > 0; {
		b := <-e.out // nobody else takes
		m.Bookings = append(m.Bookings, b)
		size += len(b.GetChain())
	}
	data, err := proto.Marshal(m)
	if err == nil {
		err = e.nc.Publish(e.subject, data)
	}
	if err != nil {
		e.log.Debug("bookings were not shared", "bookings", len(m.Bookings), "error", err)
	}
}

// hear takes in a message of another processor that discovery knows.
func (e *exchange) hear(m *nats.Msg) {
	var all processorv1.Bookings
	if err := proto.Unmarshal(m.Data, &all); err != nil {
		if e.unreadable.Add(1) == 1 { // of what may be many
			e.log.Warn("a message about bookings cannot be read; further ones are ignored", "error", err)
		}
		return
	}
	from := router.ProcessorID{Name: all.GetProcessor(), Incarnation: all.GetIncarnation()}
	if !(*e.others.Load())[from] {
		return
	}
	var chain []block.Hash
	for _, b := range all.GetBookings() {
		kind, ok := sharedKind(b.GetKind())
		if !ok || len(b.GetChain()) > exchangeBlocks {
			continue // of a later version, or nonsense
		}
		chain = slices.Grow(chain[:0], len(b.GetChain()))
		for _, h := range b.GetChain() {
			chain = append(chain, block.Hash(h))
		}
		e.router.Foreign(from, router.Shared{
			Kind: kind, Worker: router.WorkerID{Name: b.GetWorker(), Incarnation: b.GetWorkerIncarnation()}, Stream: b.GetStream(), Booking: b.GetNumber(),
			PrefillTokens: int(b.GetPrefillTokens()), DecodeTokens: int(b.GetDecodeTokens()), HeldBlocks: int(b.GetHeldBlocks()), Chain: chain,
		})
	}
}

func sharedKind(kind processorv1.BookingKind) (router.SharedKind, bool) {
	for k, name := range bookingKinds {
		if name == kind {
			return k, true
		}
	}
	return 0, false
}

// follow learns which other processors there are until ctx ends.
func (e *exchange) follow(ctx context.Context, members Watcher) {
	for snapshot := range members.Watch(ctx) {
		others := map[router.ProcessorID]bool{}
		for _, m := range snapshot.Members {
			id := router.ProcessorID{Name: m.Instance.GetId(), Incarnation: m.Instance.GetIncarnation()}
			if m.Instance.GetRole() == instancev1.Role_ROLE_PROCESSOR && id != e.self {
				others[id] = true
			}
		}
		e.others.Store(&others)
		e.router.KeepProcessors(others)
	}
}
