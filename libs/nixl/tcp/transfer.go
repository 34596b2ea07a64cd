package tcp

import (
	"context"
	"fmt"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/list"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/progress"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/region"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/request"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/wire"
)

// transfer is cut into requests by the connections of its link.
type transfer struct {
	progress.Progress
	link       *link
	op         nixl.Op
	grant      uint64
	refs       refs
	local      *region.Region
	memory     []byte // of local
	remote     nixl.RegionID
	blockBytes int // at the peer
	runs       list.Runs

	// What the latest post has come to; guarded by the outbox's mu.
	id       uint64
	cursor   cursor
	flying   int   // requests that are not answered
	err      error // why it ends early
	doubtful bool  // the peer may still write
	settled  bool
	moved    uint64
}

var _ nixl.Transfer = (*transfer)(nil)

// cursor is a place in the runs of a transfer.
type cursor struct{ run, offset int }

// Transfer is request.Carrier's.
func (l *link) Transfer(s request.Spec) (nixl.Transfer, error) {
	if s.Grant == nil {
		return nil, fmt.Errorf("the request names no grant: %w", nixl.ErrNotGranted)
	}
	t := &transfer{
		link: l, op: s.Op, grant: s.Grant.Number, refs: refs{list: append([]block.Ref(nil), s.Grant.Blocks...)},
		local: s.Local, memory: s.Local.Bytes(), remote: s.Remote,
		blockBytes: l.regions[s.Remote].Layout.BlockBytes(), runs: s.Runs, settled: true,
	}
	return t, t.check()
}

// check reports, as ErrNotGranted, a run beside the blocks that the grant names.
func (t *transfer) check() error {
	if t.refs.list == nil {
		return nil
	}
	for i := range t.runs.Len() {
		r := t.runs.At(i).Remote
		for at := r.Offset; at < r.Offset+r.Bytes; {
			id := block.ID(at / t.blockBytes)
			if _, ok := t.refs.find(id); !ok {
				return fmt.Errorf("grant %d does not name block %d: %w", t.grant, id, nixl.ErrNotGranted)
			}
			at = (int(id) + 1) * t.blockBytes
		}
	}
	return nil
}

// Post is nixl.Transfer's.
func (t *transfer) Post(ctx context.Context) error {
	err := t.link.gate.Err()
	if err == nil {
		err = t.local.Gate.Err()
	}
	if err == nil {
		err = t.Begin()
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", t.op, t.link.peer, err)
	}
	if err = t.link.outbox.post(ctx, t); err != nil {
		t.End(&nixl.AbortedError{Cause: err})
	}
	return err
}

// Cancel is nixl.Transfer's.
func (t *transfer) Cancel() {
	t.Progress.Cancel()
	t.link.outbox.cancel(t)
}

// Release is nixl.Transfer's.
func (t *transfer) Release() error {
	err := t.Progress.Release()
	if err != nil {
		t.Cancel()
		return fmt.Errorf("release a transfer with %s: %w", t.link.peer, err)
	}
	return nil
}

func (t *transfer) begin(id uint64) {
	t.refs.at = 0
	t.id, t.cursor, t.err, t.doubtful, t.settled, t.moved = id, cursor{}, nil, false, false, 0
}

// finished tells whether all of it was cut into requests.
func (t *transfer) finished() bool { return t.cursor.run >= t.runs.Len() }

// conclude counts and ends it.
func (t *transfer) conclude(l *link) {
	var d nixl.Counters
	if t.op == nixl.Write {
		d.BytesWritten = t.moved
	} else {
		d.BytesRead = t.moved
	}
	var err error
	switch {
	case t.err == nil:
		d.Transfers = 1
	case t.doubtful:
		d.TransfersAborted = 1
		err = &nixl.UnsettledError{Cause: t.err}
	default:
		d.TransfersAborted = 1
		err = &nixl.AbortedError{Cause: t.err}
	}
	l.agent.ledger.Add(l.peer, d)
	t.End(err)
}

// cut makes the next request in the connection's buffers and returns its bytes, or 0.
func (t *transfer) cut(c *client) int {
	flags := byte(0)
	if t.link.verify {
		flags |= flagVerified
	}
	named := t.refs.list != nil
	if named {
		flags |= flagNamed
	}
	head := c.head[:wire.HeaderBytes+requestBytes]
	c.vector.reset(t.memory)
	runs := 0
	for runs < maxRuns && c.vector.bytes < maxBytes && len(head) <= maxHead-maxRunBytes && !t.finished() {
		r, local := t.next(maxBytes - c.vector.bytes)
		if r.bytes == 0 {
			continue
		}
		if named {
			r.ref.Generation, _ = t.refs.find(r.ref.ID) // check found it
		}
		head = r.append(head, named)
		c.vector.add(local, r.bytes)
		runs++
	}
	for !t.finished() && t.runs.At(t.cursor.run).Local.Bytes == 0 {
		t.cursor.run++ // so that the last request is known to be it
	}
	requestHead{t.id, t.grant, t.remote, flags, runs, c.vector.bytes}.put(head[wire.HeaderBytes:])
	kind := kindWrite
	if t.op == nixl.Read {
		kind = kindRead
	}
	wire.Seal(head, kind)
	c.head = head
	c.sending = t
	return c.vector.bytes
}

// next is the part of the run at the cursor that lies in one block, up to limit bytes, and
// its local offset. The cursor moves behind it.
func (t *transfer) next(limit int) (r run, local int) {
	copies := t.runs.At(t.cursor.run)
	remote := copies.Remote.Offset + t.cursor.offset
	local = copies.Local.Offset + t.cursor.offset
	id := remote / t.blockBytes
	r = run{ref: block.Ref{ID: block.ID(id)}, offset: remote - id*t.blockBytes}
	r.bytes = min(copies.Local.Bytes-t.cursor.offset, t.blockBytes-r.offset, limit)
	t.cursor.offset += r.bytes
	if t.cursor.offset == copies.Local.Bytes {
		t.cursor = cursor{run: t.cursor.run + 1}
	}
	return r, local
}

// aim lets v be the local side of a request that was cut.
func (t *transfer) aim(v *vector, at cursor, bytes int) {
	v.reset(t.memory)
	for bytes > 0 {
		local := t.runs.At(at.run).Local
		if n := min(local.Bytes-at.offset, bytes); n > 0 {
			v.add(local.Offset+at.offset, n)
			bytes -= n
		}
		at = cursor{run: at.run + 1}
	}
}

// refs are the blocks that a grant names. They are asked in about their own order.
type refs struct {
	list  []block.Ref
	at    int
	index map[block.ID]int // made when they are asked in another order
}

func (r *refs) find(id block.ID) (block.Generation, bool) {
	switch {
	case r.at < len(r.list) && r.list[r.at].ID == id:
	case r.at+1 < len(r.list) && r.list[r.at+1].ID == id:
		r.at++
	default:
		at, ok := r.look(id)
		if !ok {
			return 0, false
		}
		r.at = at
	}
	return r.list[r.at].Generation, true
}

func (r *refs) look(id block.ID) (int, bool) {
	if r.index == nil {
		r.index = make(map[block.ID]int, len(r.list))
		for i, ref := range r.list {
			r.index[ref.ID] = i
		}
	}
	at, ok := r.index[id]
	return at, ok
}
