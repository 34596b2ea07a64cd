package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// TransferConfig says what moves how.
type TransferConfig struct {
	// Transport is one of Transports.
	Transport  string
	BlockBytes int
	Blocks     int
	// Listen is the host:port of the agent, for transports that need one.
	Listen string
	// Advertise is where the other host finds it, if not there.
	Advertise string
	// Verify checksums the bytes on the way, where the transport can.
	Verify  bool
	Seconds float64
}

const (
	maxBytes   = 4 << 30 // of memory on one side
	maxSeconds = 3600
)

// Validate names the first field that cannot be.
func (c TransferConfig) Validate() error {
	switch {
	case !known(c.Transport):
		return fmt.Errorf("transport is %q, want one of %s", c.Transport, strings.Join(Transports(), ", "))
	case c.BlockBytes < 2 || c.BlockBytes%2 != 0:
		return fmt.Errorf("block-bytes is %d, want an even number above 0", c.BlockBytes)
	case c.Blocks < 1:
		return fmt.Errorf("blocks is %d, want at least 1", c.Blocks)
	case c.Blocks > maxBytes/c.BlockBytes:
		return fmt.Errorf("%d blocks of %d bytes are more than %d bytes", c.Blocks, c.BlockBytes, maxBytes)
	case !(c.Seconds > 0 && c.Seconds <= maxSeconds): // not a number is neither
		return fmt.Errorf("seconds is %v, want more than 0 and at most %d", c.Seconds, maxSeconds)
	}
	return nil
}

// layout is any that has blocks of the wanted size.
func (c TransferConfig) layout() block.Layout {
	return block.Layout{BlockTokens: c.BlockBytes / 2, Layers: 1, KVHeads: 1, HeadDim: 1, ElemBytes: 1}
}

func (c TransferConfig) duration() time.Duration {
	return time.Duration(c.Seconds * float64(time.Second))
}

// everything is the number of the grants of all blocks.
const everything = 1

// Transfer measures how fast blocks and notes get from this process to another agent:
// one of this process, or with to, of whoever runs Serve there.
func Transfer(ctx context.Context, c TransferConfig, to string, report Report) (err error) {
	if err := c.Validate(); err != nil {
		return err
	}
	own, err := openHost(c, "writer")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, own.close()) }()
	peer, closePeer, err := connect(ctx, c, own, to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closePeer()) }()
	m := &measurement{c: c, own: own, peer: peer, report: report}
	return m.run(ctx)
}

type measurement struct {
	c      TransferConfig
	own    *host
	peer   nixl.PeerID
	report Report
}

func (m *measurement) tell(name string, value float64, unit string) {
	m.report(Figure{Bench: "transfer", Case: m.c.Transport, Name: name, Value: value, Unit: unit})
}

func (m *measurement) run(ctx context.Context) error {
	memcpy, err := m.memcpy(ctx)
	if err != nil {
		return err
	}
	m.tell("memcpy", memcpy/1e9, "GB/s")
	for _, op := range []nixl.Op{nixl.Write, nixl.Read} {
		rate, cpu, err := m.blocks(ctx, op)
		if err != nil {
			return fmt.Errorf("%s blocks: %w", op, err)
		}
		m.tell(op.String(), rate/1e9, "GB/s")
		m.tell(op.String()+" / memcpy", rate/memcpy, "")
		m.tell(op.String()+" CPU of this process", cpu*1e9, "s/GB")
	}
	if err := m.posts(ctx); err != nil {
		return fmt.Errorf("post descriptors: %w", err)
	}
	if err := m.notes(ctx); err != nil {
		return fmt.Errorf("send notes: %w", err)
	}
	return nil
}

// memcpy is the rate of plain copies of the same bytes into memory of the same kind of
// this process, block by block, in bytes per second.
func (m *measurement) memcpy(ctx context.Context) (rate float64, err error) {
	from := m.own.region.Bytes()
	other, err := m.c.memory(len(from))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, other.Close()) }()
	to := other.Bytes()
	copy(to, from) // warms the memory
	begin, moved := time.Now(), 0
	for time.Since(begin) < m.c.duration() {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		for at := 0; at < len(from); at += m.c.BlockBytes {
			copy(to[at:at+m.c.BlockBytes], from[at:])
		}
		moved += len(from)
	}
	return float64(moved) / time.Since(begin).Seconds(), nil
}

// transfer is a prepared transfer of n descriptors, each a block or a part of one.
func (m *measurement) transfer(op nixl.Op, runs []block.Span) (nixl.Transfer, func(), error) {
	local, err := m.own.agent.Prepare(m.own.agent.ID(), 0, runs)
	if err != nil {
		return nil, nil, err
	}
	remote, err := m.own.agent.Prepare(m.peer, 0, runs)
	if err != nil {
		local.Release()
		return nil, nil, err
	}
	index := make([]int32, len(runs))
	for i := range index {
		index[i] = int32(i)
	}
	release := func() { local.Release(); remote.Release() }
	t, err := m.own.agent.Make(nixl.Prepared{
		Op: op, Grant: &nixl.Grant{Number: everything, Op: op}, Local: local, Remote: remote, LocalRuns: index, RemoteRuns: index,
	})
	if err != nil {
		release()
		return nil, nil, err
	}
	return t, release, nil
}

// blocks is the rate of whole blocks in bytes per second, and the CPU seconds of this process per byte.
func (m *measurement) blocks(ctx context.Context, op nixl.Op) (rate, cpu float64, err error) {
	runs := make([]block.Span, m.c.Blocks)
	for i := range runs {
		runs[i] = block.Span{Offset: i * m.c.BlockBytes, Bytes: m.c.BlockBytes}
	}
	t, release, err := m.transfer(op, runs)
	if err != nil {
		return 0, 0, err
	}
	defer release()
	once := func() error { return errors.Join(t.Post(ctx), t.Wait(ctx)) }
	if err := once(); err != nil { // warms the memory
		return 0, 0, err
	}
	begin, spent, moved := time.Now(), cpuTime(), 0
	for time.Since(begin) < m.c.duration() {
		if err := once(); err != nil {
			return 0, 0, err
		}
		moved += m.c.Blocks * m.c.BlockBytes
	}
	took := time.Since(begin)
	return float64(moved) / took.Seconds(), (cpuTime() - spent).Seconds() / float64(moved), t.Release()
}

// descriptors is how many one posted transfer has at most.
const descriptors = 4096

// posts measures how long making and posting a transfer of many descriptors takes until
// Post returns.
func (m *measurement) posts(ctx context.Context) error {
	size := m.c.Blocks * m.c.BlockBytes / descriptors
	if size == 0 {
		return nil // too little memory for so many
	}
	runs := make([]block.Span, descriptors)
	for i := range runs {
		runs[i] = block.Span{Offset: i * size, Bytes: size}
	}
	var samples []time.Duration
	for range 50 {
		took, err := m.post(ctx, runs)
		if err != nil {
			return err
		}
		samples = append(samples, took)
	}
	m.tell(fmt.Sprintf("make and post %d descriptors, p50", descriptors), float64(percentile(samples, 0.5))/1e3, "µs")
	return nil
}

func (m *measurement) post(ctx context.Context, runs []block.Span) (time.Duration, error) {
	local, err := m.own.agent.Prepare(m.own.agent.ID(), 0, runs)
	if err != nil {
		return 0, err
	}
	defer local.Release()
	remote, err := m.own.agent.Prepare(m.peer, 0, runs)
	if err != nil {
		return 0, err
	}
	defer remote.Release()
	index := make([]int32, len(runs))
	for i := range index {
		index[i] = int32(i)
	}
	begin := time.Now()
	t, err := m.own.agent.Make(nixl.Prepared{Grant: &nixl.Grant{Number: everything}, Local: local, Remote: remote, LocalRuns: index, RemoteRuns: index})
	if err != nil {
		return 0, err
	}
	err = t.Post(ctx)
	took := time.Since(begin)
	return took, errors.Join(err, t.Wait(ctx), t.Release())
}

// notes measures the way of a note: half of the time there and back.
func (m *measurement) notes(ctx context.Context) error {
	payload := make([]byte, 256)
	var samples []time.Duration
	for begin := time.Now(); len(samples) < 100 || time.Since(begin) < m.c.duration()/2; {
		at := time.Now()
		if err := m.own.agent.Notify(ctx, m.peer, payload); err != nil {
			return err
		}
		if _, err := m.own.agent.Receive(ctx); err != nil {
			return err
		}
		samples = append(samples, time.Since(at)/2)
	}
	for _, p := range []float64{0.5, 0.99} {
		m.tell(fmt.Sprintf("note, p%.0f", p*100), float64(percentile(samples, p))/1e3, "µs")
	}
	return nil
}
