//go:build linux

package shm

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/wire"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
	"github.com/switchyard-llm/switchyard/libs/nixl/nixltest"
)

const patience = 20 * time.Second

// running is an agent with one region whose Run runs until the test ends.
func running(t *testing.T, name, folder string) *agent {
	t.Helper()
	a, err := New(Config{Config: nixl.Config{Name: name, Incarnation: "1", KVFormat: "f"}, Socket: filepath.Join(folder, name+".sock")})
	if err != nil {
		t.Fatal(err)
	}
	m, err := memory.Shared(small.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	r, err := a.Register(m, small.Layout, small.Blocks)
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- a.Run(context.Background()) }()
	if err := a.(*agent).life.Started(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(a.Close(), <-ran, r.Close(), m.Close()); err != nil {
			t.Error(err)
		}
	})
	return a.(*agent)
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func receive(t *testing.T, a *agent) nixl.Event {
	t.Helper()
	e, err := a.Receive(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// raw connects by hand as the peer "raw" and says hello.
func raw(t *testing.T, a *agent, change func(*wire.Greeting)) (*net.UnixConn, wire.Kind, []byte) {
	t.Helper()
	socket, err := net.DialUnix("unix", nil, address(a.config.Socket))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	if err := socket.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	own, err := nixl.Metadata{Transport: transport, Peer: nixl.PeerID{Name: "raw", Incarnation: "1"}, KVFormat: "f"}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	g := wire.Greeting{Version: protocolVersion, Wants: a.ID(), Metadata: own}
	change(&g)
	payload, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := socket.Write(wire.Append(nil, wire.Hello, payload)); err != nil {
		t.Fatal(err)
	}
	k, answer, fds, err := receiveAnswer(socket)
	closeFDs(fds)
	if err != nil {
		t.Fatal(err)
	}
	return socket, k, answer
}

func TestCorruptNoteIsRefusedAndCounted(t *testing.T) {
	for name, corrupt := range map[string]func([]byte){
		"payload": func(f []byte) { f[wire.HeaderBytes] ^= 1 },
		"type":    func(f []byte) { f[8] = byte(wire.Hello) },
		"size":    func(f []byte) { f[3] = 0xff },
	} {
		t.Run(name, func(t *testing.T) {
			a := running(t, "decode", nixltest.Folder(t))
			socket, k, _ := raw(t, a, func(*wire.Greeting) {})
			if k != wire.Welcome {
				t.Fatalf("answer of type %d", k)
			}
			bad := wire.Append(nil, wire.Note, []byte("bad"))
			corrupt(bad)
			if _, err := socket.Write(append(wire.Append(nil, wire.Note, []byte("good")), bad...)); err != nil {
				t.Fatal(err)
			}
			peer := nixl.PeerID{Name: "raw", Incarnation: "1"}
			if e := receive(t, a); e.Peer != peer || string(e.Payload) != "good" {
				t.Fatalf("got %+v", e)
			}
			if e := receive(t, a); !e.Gone || !errors.Is(e.Err, wire.ErrFrame) || !errors.Is(e.Err, nixl.ErrGone) {
				t.Fatalf("got %+v, want Gone for a corrupt frame", e)
			}
			if _, err := socket.Read(make([]byte, 1)); err != io.EOF {
				t.Fatalf("the connection goes on: %v", err)
			}
			want := nixl.Counters{NotesReceived: 1, NotesRefused: 1}
			if s := a.Stats(); s.Counters != want || s.Peers[peer] != want {
				t.Fatalf("got %+v, want %+v", s, want)
			}
			if err := a.Fence(soonEnded(), peer); !errors.Is(err, nixl.ErrStillAlive) {
				t.Fatalf("a lost connection was taken for a proof: %v", err)
			}
		})
	}
}

func soonEnded() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestHelloThatIsRefused(t *testing.T) {
	a := running(t, "decode", nixltest.Folder(t))
	for name, c := range map[string]struct {
		change func(*wire.Greeting)
		want   string
	}{
		"version":           {func(g *wire.Greeting) { g.Version = 2 }, "version is 2, want 1"},
		"other incarnation": {func(g *wire.Greeting) { g.Wants.Incarnation = "0" }, "decode/0 is not here"},
		"no metadata":       {func(g *wire.Greeting) { g.Metadata = nil }, "version is 0"},
		"format": {func(g *wire.Greeting) {
			g.Metadata = json.RawMessage(strings.Replace(string(g.Metadata), `"kv_format":"f"`, `"kv_format":"g"`, 1))
		}, `KV format is "g" here, "f" at the peer`},
	} {
		_, k, answer := raw(t, a, c.change)
		if err := wire.DecodeRefusal(answer); k != wire.Refusal || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: type %d, %v, want %q", name, k, err, c.want)
		}
	}
	if n := len(a.writers); n != 0 {
		t.Errorf("%d refused peers count as writers", n)
	}
}

func TestConcurrentAddsOpenOneConnection(t *testing.T) {
	folder := nixltest.Folder(t)
	target, writer := running(t, "decode", folder), running(t, "prefill", folder)
	metadata, err := target.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	var adding sync.WaitGroup
	for range 16 {
		adding.Go(func() {
			if _, err := writer.AddPeer(soon(t), metadata); err != nil {
				t.Error(err)
			}
		})
	}
	adding.Wait()
	target.mu.Lock()
	defer target.mu.Unlock()
	if target.opened != 1 {
		t.Fatalf("%d connections, want 1", target.opened)
	}
}

func TestBothWaysGiveOneGone(t *testing.T) {
	folder := nixltest.Folder(t)
	a, b := running(t, "a", folder), running(t, "b", folder)
	for _, pair := range [][2]*agent{{a, b}, {b, a}} {
		metadata, err := pair[1].Metadata()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pair[0].AddPeer(soon(t), metadata); err != nil {
			t.Fatal(err)
		}
	}
	b.mu.Lock()
	in, out := b.in[a.ID()], b.out[a.ID()].conn
	b.mu.Unlock()
	if err := a.RemovePeer(b.ID()); err != nil {
		t.Fatal(err)
	}
	<-in.ended
	if err := a.Notify(soon(t), b.ID(), []byte("by the other connection")); err != nil {
		t.Fatal(err)
	}
	if e := receive(t, b); e.Gone || string(e.Payload) != "by the other connection" {
		t.Fatalf("got %+v", e)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	<-out.ended
	if e := receive(t, b); !e.Gone || e.Peer != a.ID() {
		t.Fatalf("got %+v", e)
	}
	if e, err := b.Receive(soonEnded()); err == nil {
		t.Fatalf("then %+v", e)
	}
}

// TestNothingIsLeftBehind counts what goleak does not see.
func TestNothingIsLeftBehind(t *testing.T) {
	folder := nixltest.Folder(t)
	descriptors, mappings := held(t)
	t.Run("life", func(t *testing.T) {
		target, writer := running(t, "decode", folder), running(t, "prefill", folder)
		metadata, err := target.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			id, err := writer.AddPeer(soon(t), metadata)
			if err != nil {
				t.Fatal(err)
			}
			if err := writer.RemovePeer(id); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := writer.AddPeer(soon(t), metadata); err != nil {
			t.Fatal(err)
		}
	})
	if d, m := held(t); d != descriptors || m != mappings {
		t.Fatalf("%d descriptors and %d mappings, before it were %d and %d", d, m, descriptors, mappings)
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) != 0 {
		t.Fatalf("left in the folder: %v, %v", files, err)
	}
}

func TestLostPeerIsUnmapped(t *testing.T) {
	folder := nixltest.Folder(t)
	target, writer := running(t, "decode", folder), running(t, "prefill", folder)
	metadata, err := target.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	_, before := held(t)
	if _, err := writer.AddPeer(soon(t), metadata); err != nil {
		t.Fatal(err)
	}
	if _, added := held(t); added != before+1 {
		t.Fatalf("%d mappings with a peer, want %d", added, before+1)
	}
	if err := target.Close(); err != nil {
		t.Fatal(err)
	}
	if e := receive(t, writer); !e.Gone {
		t.Fatalf("got %+v", e)
	}
	if _, after := held(t); after != before {
		t.Fatalf("%d mappings after the loss, want %d", after, before)
	}
}

func held(t *testing.T) (descriptors, mappings int) {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files { // the runtime's own poller may come up meanwhile
		target, err := os.Readlink("/proc/self/fd/" + f.Name())
		if err == nil && (strings.Contains(target, "memfd") || strings.Contains(target, "socket") || strings.Contains(target, "pidfd")) {
			descriptors++
		}
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return descriptors, strings.Count(string(maps), "switchyard-kv")
}
