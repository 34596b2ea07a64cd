// Package nixltest is the conformance suite that every transport of libs/nixl
// passes. Run tests what a peer in this process can show; RunProcesses needs a
// transport that reaches other processes, and kills and freezes them: the test
// binary runs itself again, see Child.
//
// It is for tests only. Its goroutines end with the test.
package nixltest

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
)

// Transport is what the suite needs to know of a transport.
type Transport struct {
	// Open makes an agent. Agents of one folder and name share an address, so that
	// the second meets what the first left behind.
	Open func(c nixl.Config, folder string) (nixl.Agent, error)
	// Memory maps memory that the transport can register; nil is memory.Anonymous.
	Memory func(bytes int) (*memory.Memory, error)
	// FencesLiving says that Fence can prove a living peer quiet.
	FencesLiving bool
	// ChecksGrants says that a request needs the owner's Allow, and that Revoke can prove
	// a living peer quiet.
	ChecksGrants bool
	// NeedsTarget says that bytes land only while the target's process runs.
	NeedsTarget bool
	// OwnAddress says that each agent has an address of its own, so that nobody answers at that
	// of an agent that has ended, where others let its successor say that it is another.
	OwnAddress bool
}

// wantStale is what becomes of the metadata of an agent that has ended and has a successor.
func (tr Transport) wantStale(t *testing.T, err error) {
	t.Helper()
	if !tr.OwnAddress || !errors.Is(err, nixl.ErrUnreachable) {
		within(t, err, nixl.ErrUnknownPeer)
	}
}

// Layout is that of the suite's regions: 1 KiB a block.
var Layout = block.Layout{BlockTokens: 4, Layers: 2, KVHeads: 2, HeadDim: 8, ElemBytes: 4, KeysTransposed: true}

const (
	blocks   = 4096
	format   = "weights-a/f32"
	patience = 20 * time.Second // bounds every wait of the suite
)

// Folder is a folder for sockets that ends with the test. The usual temporary one
// may be too deep for the path of a socket.
func Folder(t testing.TB) string {
	t.Helper()
	folder, err := os.MkdirTemp("/tmp", "nixl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	return folder
}

// host holds one agent, its region and its Run.
type host struct {
	agent  nixl.Agent
	memory *memory.Memory
	region nixl.Region
	stop   context.CancelFunc
	ran    chan error
	floods chan struct{} // closed to end the floods
	done   []chan struct{}
	source sync.RWMutex // held by transfers: what they move must not change under them
}

func (tr Transport) open(c nixl.Config, folder string, layout block.Layout) (*host, error) {
	return tr.openSized(c, folder, layout, blocks)
}

func (tr Transport) openSized(c nixl.Config, folder string, layout block.Layout, blocks int) (*host, error) {
	agent, err := tr.Open(c, folder)
	if err != nil {
		return nil, err
	}
	m, err := tr.memory(blocks * layout.BlockBytes())
	if err != nil {
		return nil, errors.Join(err, agent.Close())
	}
	region, err := agent.Register(m, layout, blocks)
	if err != nil {
		return nil, errors.Join(err, agent.Close(), m.Close())
	}
	ctx, stop := context.WithCancel(context.Background())
	h := &host{agent: agent, memory: m, region: region, stop: stop, ran: make(chan error, 1), floods: make(chan struct{})}
	go func() { h.ran <- agent.Run(ctx) }()
	return h, nil
}

func (tr Transport) memory(bytes int) (*memory.Memory, error) {
	if tr.Memory == nil {
		return memory.Anonymous(bytes)
	}
	return tr.Memory(bytes)
}

func (h *host) close() error {
	close(h.floods)
	h.stop()
	err := h.agent.Close()
	if ran := <-h.ran; !errors.Is(ran, nixl.ErrClosed) { // it may not have begun
		err = errors.Join(err, ran)
	}
	for _, done := range h.done {
		<-done
	}
	return errors.Join(err, h.region.Close(), h.memory.Close())
}

// everything is the grant that the suite's requests name when they name none.
const everything = 1

// allow lets a peer touch all blocks.
func (h *host) allow(peer nixl.PeerID) error {
	refs := make([]block.Ref, h.region.Blocks())
	for i := range refs {
		refs[i] = block.Ref{ID: block.ID(i)}
	}
	if err := h.agent.Revoke(ended(), peer, everything); err != nil && !errors.Is(err, nixl.ErrStillAlive) {
		return err
	}
	return errors.Join(
		h.agent.Allow(peer, nixl.Grant{Number: everything, Op: nixl.Write, Blocks: refs}),
		h.agent.Allow(peer, nixl.Grant{Number: everything, Op: nixl.Read, Blocks: refs}))
}

// add makes h a peer of target that may touch all of its blocks.
func (h *host) add(t testing.TB, target *host) nixl.PeerID {
	t.Helper()
	m, err := target.agent.Metadata()
	if err == nil {
		err = target.allow(h.agent.ID())
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	id, err := h.agent.AddPeer(ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// start opens a host that ends with the test.
func (tr Transport) start(t *testing.T, name, incarnation, folder string) *host {
	t.Helper()
	return tr.startWith(t, nixl.Config{Name: name, Incarnation: incarnation, KVFormat: format}, folder, Layout)
}

func (tr Transport) startWith(t *testing.T, c nixl.Config, folder string, layout block.Layout) *host {
	t.Helper()
	h, err := tr.open(c, folder, layout)
	if err != nil {
		t.Fatal(err)
	}
	closed := false
	t.Cleanup(func() {
		if !closed {
			closed = true
			if err := h.close(); err != nil {
				t.Errorf("close %s: %v", h.agent.ID(), err)
			}
		}
	})
	return h
}

func (h *host) metadata(t *testing.T) []byte {
	t.Helper()
	m, err := h.agent.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// receive waits for the next event.
func (h *host) receive(t *testing.T) nixl.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	e, err := h.agent.Receive(ctx)
	if err != nil {
		t.Fatalf("%s: receive: %v", h.agent.ID(), err)
	}
	return e
}

// wantNote waits for a note and compares it.
func (h *host) wantNote(t *testing.T, from nixl.PeerID, payload string) {
	t.Helper()
	if e := h.receive(t); e.Gone || e.Peer != from || string(e.Payload) != payload {
		t.Fatalf("got event %+v, want the note %q of %s", e, payload, from)
	}
}

// wantGone waits for the news that a peer is gone, past its notes.
func (h *host) wantGone(t *testing.T, peer nixl.PeerID) {
	t.Helper()
	for {
		e := h.receive(t)
		if e.Peer == peer && e.Gone {
			if e.Err == nil {
				t.Fatal("Gone without a cause")
			}
			return
		}
		if e.Gone {
			t.Fatalf("got %+v, want %s to be gone", e, peer)
		}
	}
}

// span is block b's whole run of bytes.
func span(b, n int) block.Span { return block.Span{Offset: b * Layout.BlockBytes(), Bytes: n} }

// whole pairs a local block with a remote one.
func whole(local, remote int) nixl.Copy {
	return nixl.Copy{Local: span(local, Layout.BlockBytes()), Remote: span(remote, Layout.BlockBytes())}
}

func within(t *testing.T, err error, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("got error %v, want %v", err, target)
	}
}
