package prefillworker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// inFlight is how many transfers of one prompt are under way at most: enough to keep a
// link busy while the next layers are computed.
const inFlight = 8

// outlet writes a prompt's rows into the claimed blocks layer by layer, while the engine
// still computes, so that the transfer hides behind the computation.
type outlet struct {
	t    *task
	kick chan struct{} // capacity 1: look at ready

	mu       sync.Mutex // guards ready and complete
	ready    []int      // by layer: the rows up to this position are in their blocks
	complete bool       // ready will not change any more

	// Owned by run.
	seen    []int // ready, as it was
	written []int // by layer: blocks of the ticket that were posted
	copies  []nixl.Copy
	posted  chan posted

	// Owned by reap until it has ended.
	bytes     uint64
	busy      time.Duration
	err       error
	unsettled []nixl.Transfer
}

type posted struct {
	transfer nixl.Transfer
	bytes    int
	at       time.Time
}

func (t *task) newOutlet() *outlet {
	layers := t.p.deps.Worker.Layout().Layers
	return &outlet{t: t, kick: make(chan struct{}, 1), ready: make([]int, layers), written: make([]int, layers), posted: make(chan posted, inFlight)}
}

// placed is scheduler.Options.Placed: the step loop tells how far a layer is.
func (o *outlet) placed(layer, _, to int) {
	o.mu.Lock()
	o.ready[layer] = to
	o.mu.Unlock()
	o.look()
}

// allPlaced tells that all rows up to a position are in their blocks; last, that no more will come.
func (o *outlet) allPlaced(to int, last bool) {
	o.mu.Lock()
	for i := range o.ready {
		o.ready[i] = max(o.ready[i], to)
	}
	o.complete = o.complete || last
	o.mu.Unlock()
	o.look()
}

func (o *outlet) look() {
	select {
	case o.kick <- struct{}{}:
	default:
	}
}

// run writes until everything is written, or ctx ends or a transfer fails. When it
// returns nothing of this outlet moves any more, unless it leaves transfers in unsettled.
func (o *outlet) run(ctx context.Context) error {
	ctx, span := o.t.p.tracer.Start(ctx, "prefillworker.write")
	defer span.End()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reaped := make(chan struct{})
	go func() { defer close(reaped); o.reap(ctx, cancel) }()
	err := o.post(ctx)
	if err != nil {
		cancel()
	}
	close(o.posted)
	<-reaped
	if o.err != nil {
		err = o.err
	}
	span.SetAttributes(attribute.Int64("bytes", int64(o.bytes)), attribute.String("peer", o.t.peer.String()),
		attribute.Float64("transfer_ms", float64(o.busy)/1e6), attribute.Bool("complete", err == nil))
	return err
}

// post posts what is ready until all is.
func (o *outlet) post(ctx context.Context) error {
	for {
		select {
		case <-o.kick:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		complete, err := o.postReady(ctx)
		if complete || err != nil {
			return err
		}
	}
}

// postReady posts the layers of the blocks that are full by now and, at the end, the
// rows of the last, partial block.
func (o *outlet) postReady(ctx context.Context) (complete bool, err error) {
	// All at one time: what is ready when complete is seen must be all that there will be.
	o.mu.Lock()
	o.seen = append(o.seen[:0], o.ready...)
	complete = o.complete
	o.mu.Unlock()
	for layer, ready := range o.seen {
		if err := o.postLayer(ctx, layer, ready); err != nil {
			return false, err
		}
	}
	if !complete {
		return false, nil
	}
	return true, o.postTail(ctx)
}

// postLayer posts one layer of the full blocks that end at or before a position.
func (o *outlet) postLayer(ctx context.Context, layer, ready int) error {
	layout := o.t.p.deps.Worker.Layout()
	first, remote := o.t.firstBlock(), o.t.ticket.GetBlocks().GetBlocks()
	full := min(ready/layout.BlockTokens-first, len(remote))
	if full <= o.written[layer] {
		return nil
	}
	local, err := o.t.localBlocks(first + full)
	if err != nil {
		return err
	}
	o.copies = o.copies[:0]
	for i := o.written[layer]; i < full; i++ {
		o.copies = append(o.copies, nixl.Copy{
			Local: layout.LayerSpan(local[first+i], layer), Remote: layout.LayerSpan(block.ID(remote[i]), layer),
		})
	}
	o.written[layer] = full
	return o.send(ctx)
}

// postTail posts the rows of the last block if it is not full.
func (o *outlet) postTail(ctx context.Context) error {
	layout, end := o.t.p.deps.Worker.Layout(), int(o.t.ticket.GetEndPosition())
	rows := end % layout.BlockTokens
	if rows == 0 {
		return nil
	}
	first, remote := o.t.firstBlock(), o.t.ticket.GetBlocks().GetBlocks()
	last := end / layout.BlockTokens
	if last-first >= len(remote) {
		return fmt.Errorf("write: the ticket names %d blocks from the %d-th, the prompt ends in the %d-th", len(remote), first, last)
	}
	local, err := o.t.localBlocks(last + 1)
	if err != nil {
		return err
	}
	o.copies = nixl.AppendCopies(o.copies[:0], layout, local[last], block.ID(remote[last-first]), rows)
	return o.send(ctx)
}

// send posts the collected copies.
func (o *outlet) send(ctx context.Context) error {
	if !o.t.a.startWriting() {
		return errAborted // an abort that overtook the grant
	}
	bytes := 0
	for _, c := range o.copies {
		bytes += c.Local.Bytes
	}
	at := time.Now()
	transfer, err := nixl.Post(ctx, o.t.p.deps.Worker.Agent, nixl.Request{
		Peer: o.t.peer, Op: nixl.Write, Grant: o.t.grant(nixl.Write), Copies: o.copies,
	})
	if err != nil {
		return fmt.Errorf("post %d copies: %w", len(o.copies), err)
	}
	o.posted <- posted{transfer, o.t.p.deps.Worker.LinkBytes(bytes), at} // reap takes all that comes
	return nil
}

// reap waits for the transfers in their order. The first that fails ends the others.
func (o *outlet) reap(ctx context.Context, cancel context.CancelFunc) {
	var before time.Time
	for p := range o.posted {
		err := nixl.Settle(ctx, p.transfer, 0)
		now := time.Now()
		if p.at.Before(before) {
			p.at = before
		}
		before = now
		if err == nil {
			o.bytes += uint64(p.bytes)
			o.busy += now.Sub(p.at)
			continue
		}
		if errors.Is(err, nixl.ErrUnsettled) {
			o.unsettled = append(o.unsettled, p.transfer)
		}
		if o.err == nil {
			o.err = err
		}
		cancel()
	}
}
