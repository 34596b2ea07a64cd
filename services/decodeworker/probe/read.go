package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/link"
	"github.com/switchyard-llm/switchyard/libs/worker"
)

const (
	// tinyBytes say nothing about bandwidth.
	tinyBytes = 4 << 10
	// reads are made of each size: the median counts.
	reads = 3
	// growth is by how much a read becomes larger until it is large: so that a slow link is not
	// burdened, and a far one is known in time.
	growth = 4
	// A read is large once it lasts manyLatencies, of which a latency that is wrong by half
	// shifts the bandwidth by a sixteenth, and long enough for the clock; or once it lasts tooLong:
	// a slow link is known soon.
	manyLatencies = 8
	longEnough    = time.Millisecond
	tooLong       = 250 * time.Millisecond
	// readWithin bounds one read.
	readWithin = time.Second
	// settleWithin is how long a read that came too late may take to end.
	settleWithin = 500 * time.Millisecond
)

// reader reads one prefill worker's probe memory into the own one.
type reader struct {
	p     *Prober
	peer  nixl.PeerID
	grant uint64
	bytes int // that may be read
}

// measure finds the line through tiny and large reads.
func (r *reader) measure(ctx context.Context) (link.Estimate, error) {
	if r.bytes < worker.ProbeBlockBytes {
		return link.Estimate{}, fmt.Errorf("%d bytes may be read, want at least %d", r.bytes, worker.ProbeBlockBytes)
	}
	latency, err := r.median(ctx, tinyBytes)
	if err != nil {
		return link.Estimate{}, err
	}
	large, err := r.large(ctx, latency)
	if err != nil {
		return link.Estimate{}, err
	}
	took, err := r.median(ctx, large)
	if err != nil {
		return link.Estimate{}, err
	}
	return link.Probed(latency, large, took), nil
}

// large finds how many bytes make a large read. What it reads does not count: a quick link's memory
// is only mapped by that.
func (r *reader) large(ctx context.Context, latency time.Duration) (int, error) {
	for n := worker.ProbeBlockBytes; ; n = min(growth*n, r.bytes) {
		took, err := r.read(ctx, n)
		if err != nil {
			return 0, err
		}
		if n == r.bytes || took >= tooLong || took >= max(manyLatencies*latency, longEnough) {
			return n, nil
		}
	}
}

// median is how long reads of a size take.
func (r *reader) median(ctx context.Context, bytes int) (time.Duration, error) {
	var all [reads]time.Duration
	for i := range all {
		var err error
		if all[i], err = r.read(ctx, bytes); err != nil {
			return 0, err
		}
	}
	slices.Sort(all[:])
	return all[reads/2], nil
}

// read reads the first bytes, block by block as prompts are, and says how long it took.
func (r *reader) read(ctx context.Context, bytes int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	var copies []nixl.Copy
	for at := 0; at < bytes; at += worker.ProbeBlockBytes {
		span := block.Span{Offset: at, Bytes: min(worker.ProbeBlockBytes, bytes-at)}
		copies = append(copies, nixl.Copy{Local: span, Remote: span})
	}
	begun := time.Now()
	transfer, err := nixl.Post(ctx, r.p.deps.Worker.Agent, nixl.Request{
		Peer: r.peer, Op: nixl.Read, Local: worker.ProbeRegion, Remote: worker.ProbeRegion, Copies: copies,
		Grant: &nixl.Grant{Number: r.grant, Op: nixl.Read, Region: worker.ProbeRegion},
	})
	if err == nil {
		err = nixl.Settle(ctx, transfer, settleWithin)
	}
	if errors.Is(err, nixl.ErrUnsettled) {
		r.p.doubtful = transfer
	}
	if err != nil {
		return 0, fmt.Errorf("read %d bytes: %w", bytes, err)
	}
	return max(time.Since(begun), 1), nil
}
