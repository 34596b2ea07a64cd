package nixltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// Command is one thing that a driven peer does; unused fields are empty.
type Command struct {
	Do            string // metadata, allow, add, remove, post, lanes, flood, notify, receive, fill, bytes, stats
	Metadata      []byte
	Peer          nixl.PeerID
	Request       nixl.Request
	Payload       []byte
	Offset, Bytes int
	Value         byte
}

// Result is the answer to a Command. An error travels as its text and the
// sentinels that it is.
type Result struct {
	Peer  nixl.PeerID
	Data  []byte
	Gone  bool
	Stats nixl.Stats
	Error string
	Is    []string
}

var sentinels = []error{
	nixl.ErrClosed, nixl.ErrUnknownPeer, nixl.ErrGone, nixl.ErrMismatch, nixl.ErrDescriptor, nixl.ErrTooLarge,
	nixl.ErrUnreachable, nixl.ErrFenced, nixl.ErrNotGranted, nixl.ErrStillAlive, nixl.ErrAborted, nixl.ErrUnsettled, context.DeadlineExceeded,
}

// travelled is an error that came from a driven peer.
type travelled struct{ Result }

func (e travelled) Error() string { return e.Result.Error }

func (e travelled) Is(target error) bool {
	for _, name := range e.Result.Is {
		if name == target.Error() {
			return true
		}
	}
	return false
}

// do carries a command out at a host.
func (h *host) do(c Command) (r Result) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := h.carryOut(ctx, c, &r)
	if err == nil {
		return r
	}
	r.Error = err.Error()
	for _, s := range sentinels {
		if errors.Is(err, s) {
			r.Is = append(r.Is, s.Error())
		}
	}
	return r
}

func (h *host) carryOut(ctx context.Context, c Command, r *Result) (err error) {
	switch c.Do {
	case "metadata":
		r.Peer = h.agent.ID()
		r.Data, err = h.agent.Metadata()
	case "allow":
		err = h.allow(c.Peer)
	case "add":
		r.Peer, err = h.agent.AddPeer(ctx, c.Metadata)
	case "remove":
		err = h.agent.RemovePeer(c.Peer)
	case "post":
		err = h.post(ctx, c.Request)
	case "lanes":
		err = h.lanes(ctx, c.Peer, c.Offset)
	case "flood":
		h.flood(c.Request)
	case "notify":
		err = h.agent.Notify(ctx, c.Peer, c.Payload)
	case "receive":
		var e nixl.Event
		e, err = h.agent.Receive(ctx)
		r.Peer, r.Data, r.Gone = e.Peer, e.Payload, e.Gone
	case "fill":
		fill(h.region.Bytes()[c.Offset:c.Offset+c.Bytes], c.Value)
	case "bytes":
		r.Data = bytes.Clone(h.region.Bytes()[c.Offset : c.Offset+c.Bytes])
	case "stats":
		r.Stats = h.agent.Stats()
	default:
		err = fmt.Errorf("no command %q", c.Do)
	}
	return err
}

func (h *host) post(ctx context.Context, r nixl.Request) error {
	if r.Grant == nil {
		r.Grant = &nixl.Grant{Number: everything}
	}
	h.source.RLock()
	defer h.source.RUnlock()
	transfer, err := nixl.Post(ctx, h.agent, r)
	if err != nil {
		return err
	}
	if err := transfer.Wait(ctx); err != nil {
		return err // an unsettled one cannot be released
	}
	return transfer.Release()
}

// flood repeats a transfer, with new bytes each time, until one does not work.
func (h *host) flood(r nixl.Request) {
	done := make(chan struct{})
	h.done = append(h.done, done)
	go func() {
		defer close(done)
		for i := byte(0); ; i++ {
			select {
			case <-h.floods:
				return
			default:
			}
			h.source.Lock()
			fill(h.region.Bytes(), i)
			h.source.Unlock()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			err := h.post(ctx, r)
			cancel()
			if err != nil {
				return
			}
		}
	}()
}

func fill(b []byte, value byte) {
	for i := range b {
		b[i] = value + byte(i%251)
	}
}

func filled(n int, value byte) []byte {
	b := make([]byte, n)
	fill(b, value)
	return b
}

// peer drives a host, wherever it is.
type peer struct {
	t  *testing.T
	do func(Command) Result
	id nixl.PeerID
}

func (p *peer) try(c Command) (Result, error) {
	r := p.do(c)
	if r.Error != "" {
		return r, travelled{r}
	}
	return r, nil
}

func (p *peer) must(c Command) Result {
	p.t.Helper()
	r, err := p.try(c)
	if err != nil {
		p.t.Fatalf("%s: %s: %v", p.id, c.Do, err)
	}
	return r
}

func (p *peer) metadata() []byte { p.t.Helper(); return p.must(Command{Do: "metadata"}).Data }

func (p *peer) add(h *host) nixl.PeerID {
	p.t.Helper()
	if err := h.allow(p.id); err != nil {
		p.t.Fatal(err)
	}
	return p.must(Command{Do: "add", Metadata: h.metadata(p.t)}).Peer
}

func (p *peer) fill(offset, n int, value byte) {
	p.t.Helper()
	p.must(Command{Do: "fill", Offset: offset, Bytes: n, Value: value})
}

func (p *peer) write(to nixl.PeerID, copies ...nixl.Copy) error {
	_, err := p.try(Command{Do: "post", Request: nixl.Request{Peer: to, Copies: copies}})
	return err
}

func (p *peer) notify(to nixl.PeerID, payload string) {
	p.t.Helper()
	p.must(Command{Do: "notify", Peer: to, Payload: []byte(payload)})
}

func (p *peer) wantNote(from nixl.PeerID, payload string) {
	p.t.Helper()
	if r := p.must(Command{Do: "receive"}); r.Gone || r.Peer != from || string(r.Data) != payload {
		p.t.Fatalf("%s got %+v, want the note %q of %s", p.id, r, payload, from)
	}
}

// ended is a context whose time is up.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func lasting(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
