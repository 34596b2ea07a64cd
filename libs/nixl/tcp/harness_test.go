package tcp

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/wire"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
)

const (
	patience   = 20 * time.Second
	blockBytes = 64 << 10
	blocks     = 64
	everything = 1 // the number of the grant for all blocks, in generation 3
)

var (
	layout = block.Layout{BlockTokens: 16, Layers: 8, KVHeads: 2, HeadDim: 32, ElemBytes: 4}
	rawID  = nixl.PeerID{Name: "raw", Incarnation: "1"}
)

// host is an agent with one region, whose Run runs until the test ends.
type host struct {
	*agent
	region nixl.Region
}

func start(t testing.TB, name string, change ...func(*Config)) *host {
	t.Helper()
	c := Config{Config: nixl.Config{Name: name, Incarnation: "1", KVFormat: "f"}, Listen: "127.0.0.1:0"}
	for _, f := range change {
		f(&c)
	}
	a, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, a)
}

func serve(t testing.TB, a nixl.Agent) *host {
	t.Helper()
	m, err := memory.Anonymous(blocks * blockBytes)
	if err != nil {
		t.Fatal(err)
	}
	r, err := a.Register(m, layout, blocks)
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- a.Run(context.Background()) }()
	h := &host{a.(*agent), r}
	if err := h.life.Started(soon(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(a.Close(), <-ran, r.Close(), m.Close()); err != nil {
			t.Error(err)
		}
	})
	return h
}

func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func over() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// allow lets a peer write and read all blocks.
func (h *host) allow(t testing.TB, peer nixl.PeerID) {
	t.Helper()
	refs := make([]block.Ref, blocks)
	for i := range refs {
		refs[i] = block.Ref{ID: block.ID(i), Generation: 3}
	}
	for _, op := range []nixl.Op{nixl.Write, nixl.Read} {
		if err := h.Allow(peer, nixl.Grant{Number: everything, Op: op, Blocks: refs}); err != nil {
			t.Fatal(err)
		}
	}
}

func (h *host) meta(t testing.TB) []byte {
	t.Helper()
	m, err := h.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (h *host) add(t testing.TB, target *host) nixl.PeerID {
	t.Helper()
	id, err := h.AddPeer(soon(t), target.meta(t))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (h *host) event(t testing.TB) nixl.Event {
	t.Helper()
	e, err := h.Receive(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (h *host) wantGone(t testing.TB, peer nixl.PeerID) error {
	t.Helper()
	e := h.event(t)
	if !e.Gone || e.Peer != peer || !errors.Is(e.Err, nixl.ErrGone) {
		t.Fatalf("got %+v, want %s to be gone", e, peer)
	}
	return e.Err
}

func whole(n int) []nixl.Copy {
	s := block.Span{Bytes: n * blockBytes}
	return []nixl.Copy{{Local: s, Remote: s}}
}

func (h *host) move(ctx context.Context, op nixl.Op, peer nixl.PeerID, copies []nixl.Copy) error {
	t, err := nixl.Post(ctx, h, nixl.Request{Peer: peer, Op: op, Grant: &nixl.Grant{Number: everything}, Copies: copies})
	if err != nil {
		return err
	}
	return t.Wait(ctx)
}

// pattern differs at every place and from one seed to the next.
func pattern(b []byte, seed byte) {
	for i := range b {
		b[i] = byte(i*7) + byte(i>>8)*31 + seed
	}
}

// raw is a peer that is played by hand: the connection for notes, and one for data.
type raw struct {
	t           testing.TB
	notes, data net.Conn
	nonce       []byte
}

func dialRaw(t testing.TB, h *host) net.Conn {
	t.Helper()
	socket, err := net.Dial("tcp", h.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	if err := socket.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return socket
}

func rawHello(t testing.TB, h *host) hello {
	t.Helper()
	own, err := nixl.Metadata{Transport: transport, Peer: rawID, KVFormat: "f"}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return hello{wire.Greeting{Version: protocolVersion, Wants: h.ID(), Metadata: own}, 1, 1, false}
}

// ask sends a frame of the handshake and returns the answer.
func ask(t testing.TB, socket net.Conn, k wire.Kind, payload any) (wire.Kind, []byte) {
	t.Helper()
	if err := sendJSON(socket, k, payload); err != nil {
		t.Fatal(err)
	}
	k, answer, err := wire.Read(socket)
	if err != nil {
		t.Fatal(err)
	}
	return k, answer
}

func connect(t testing.TB, h *host, change ...func(*hello)) *raw {
	t.Helper()
	r := &raw{t: t, notes: dialRaw(t, h), data: dialRaw(t, h)}
	g := rawHello(t, h)
	for _, f := range change {
		f(&g)
	}
	k, answer := ask(t, r.notes, wire.Hello, g)
	var w welcome
	if err := json.Unmarshal(answer, &w); err != nil || k != wire.Welcome {
		t.Fatalf("type %d, %s, %v", k, answer, err)
	}
	r.nonce = w.Nonce
	if k, answer := ask(t, r.data, kindJoin, join{protocolVersion, w.Nonce, 1}); k != wire.Welcome {
		t.Fatalf("type %d, %s", k, answer)
	}
	return r
}

func (r *raw) send(b ...[]byte) {
	r.t.Helper()
	if _, err := r.data.Write(bytes.Join(b, nil)); err != nil {
		r.t.Fatal(err)
	}
}

// end sends bytes, which may not all be taken, and ends the link when the other side has.
func (r *raw) end(socket net.Conn, b []byte) {
	_, _ = socket.Write(b)
	_, _ = io.Copy(io.Discard, socket)
	r.notes.Close()
	r.data.Close()
}

// skip reads bytes that do not matter.
func (r *raw) skip(n int64) {
	r.t.Helper()
	if _, err := io.CopyN(io.Discard, r.data, n); err != nil {
		r.t.Fatal(err)
	}
}

// frame is the next one on a connection that is no sign of life.
func frame(t testing.TB, socket net.Conn) (wire.Kind, []byte) {
	t.Helper()
	for {
		k, payload, err := wire.Read(socket)
		if err != nil {
			t.Fatal(err)
		}
		if k != kindBeat {
			return k, payload
		}
	}
}

// wantAnswer reads the answer to a request.
func (r *raw) wantAnswer(transfer uint64, want error) {
	r.t.Helper()
	k, payload := frame(r.t, r.data)
	id, err, bad := parseAnswer(payload)
	if k != kindAnswer || bad != nil || id != transfer || !errors.Is(err, want) {
		r.t.Fatalf("type %d, transfer %d, %v, %v, want %v", k, id, err, bad, want)
	}
}

// requestFrame makes a request of runs that may lie.
func requestFrame(k wire.Kind, r requestHead, runs ...run) []byte {
	b := make([]byte, wire.HeaderBytes+requestBytes)
	for _, run := range runs {
		b = run.append(b, r.flags&flagNamed != 0)
	}
	if r.runs == 0 {
		r.runs = len(runs)
	}
	if r.bytes == 0 {
		for _, run := range runs {
			r.bytes += run.bytes
		}
	}
	r.put(b[wire.HeaderBytes:])
	wire.Seal(b, k)
	return b
}

func trailer(payload []byte) []byte {
	var (
		v vector
		d digest
	)
	v.reset(payload)
	v.add(0, len(payload))
	for v.bytes > 0 {
		n := min(v.bytes, stretchBytes)
		d.stretch(&v, v.place, n)
		v.skip(n)
	}
	return append(binary.LittleEndian.AppendUint64(nil, d.sum), make([]byte, 8)...)
}

func at(id, offset, bytes int) run {
	return run{block.Ref{ID: block.ID(id), Generation: 3}, offset, bytes}
}
