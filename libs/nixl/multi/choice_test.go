package multi_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
	"github.com/switchyard-llm/switchyard/libs/nixl/multi"
	"github.com/switchyard-llm/switchyard/libs/nixl/nixltest"
	"github.com/switchyard-llm/switchyard/libs/nixl/shm"
)

var layout = block.Layout{BlockTokens: 4, Layers: 1, KVHeads: 1, HeadDim: 8, ElemBytes: 4}

// running registers a block and runs an agent until the test ends.
func running(t *testing.T, a nixl.Agent, err error) nixl.Agent {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	m, err := memory.Shared(layout.BlockBytes())
	if err != nil {
		t.Fatal(err)
	}
	r, err := a.Register(m, layout, 1)
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- a.Run(context.Background()) }()
	t.Cleanup(func() {
		err := a.Close()
		if end := <-ran; !errors.Is(end, nixl.ErrClosed) { // it may not have begun
			err = errors.Join(err, end)
		}
		if err := errors.Join(err, r.Close(), m.Close()); err != nil {
			t.Error(err)
		}
	})
	return a
}

func config(name, format string) nixl.Config {
	return nixl.Config{Name: name, Incarnation: "1", KVFormat: format}
}

func overShm(c nixl.Config, folder string) (nixl.Agent, error) {
	return shm.New(shm.Config{Config: c, Socket: filepath.Join(folder, c.Name+".sock")})
}

func metadata(t *testing.T, a nixl.Agent) []byte {
	t.Helper()
	m, err := a.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestAPeerIsReachedByTheBestWayThatLeadsThere(t *testing.T) {
	folder := nixltest.Folder(t)
	var here, there agents // two processes, as far as inproc can tell
	one, err := here.open(config("one", "f"), folder, "inproc")
	one = running(t, one, err)
	near, err := here.open(config("near", "f"), folder, "inproc")
	near = running(t, near, err)
	far, err := there.open(config("far", "f"), folder, "inproc")
	far = running(t, far, err)
	plain, err := overShm(config("plain", "f"), folder)
	plain = running(t, plain, err)
	for _, peer := range []nixl.Agent{near, far, plain} {
		id, err := one.AddPeer(within(t), metadata(t, peer))
		if err != nil || id != peer.ID() {
			t.Fatalf("add %s: %v", peer.ID(), err)
		}
		if err := peer.Allow(one.ID(), nixl.Grant{Number: 1, Blocks: []block.Ref{{}}}); err != nil {
			t.Fatal(err)
		}
		s := block.Span{Bytes: 8}
		transfer, err := nixl.Post(within(t), one, nixl.Request{Peer: id, Grant: &nixl.Grant{Number: 1}, Copies: []nixl.Copy{{Local: s, Remote: s}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(transfer.Wait(within(t)), transfer.Release()); err != nil {
			t.Fatal(err)
		}
	}
	ways := one.(nixl.Chooser)
	for peer, want := range map[nixl.PeerID]string{near.ID(): "inproc", far.ID(): "shm", plain.ID(): "shm", one.ID(): ""} {
		if got := ways.Way(peer); got != want {
			t.Errorf("the way to %s is %q, want %q", peer, got, want)
		}
	}
	// Who is reached by inproc can be revoked, who maps memory cannot.
	for peer, want := range map[nixl.Agent]error{near: nil, far: nixl.ErrStillAlive} {
		if err := peer.Revoke(within(t), one.ID(), 1); !errors.Is(err, want) {
			t.Errorf("revoke at %s: %v, want %v", peer.ID(), err, want)
		}
	}
}

func TestWhatCannotBeAPeerIsRefusedAtOnce(t *testing.T) {
	folder := nixltest.Folder(t)
	var here agents
	one, err := here.open(config("one", "f"), folder, "inproc")
	one = running(t, one, err)
	other, err := here.open(config("other", "g"), folder, "inproc")
	other = running(t, other, err)
	if _, err := one.AddPeer(within(t), metadata(t, other)); !errors.Is(err, nixl.ErrMismatch) {
		t.Errorf("another KV format: %v", err)
	}
	for name, c := range map[string]struct{ metadata, want string }{
		"no transports":       {"[]", "0 transports"},
		"not JSON":            {"[", "nixl metadata"},
		"an unknown way":      {`[{"switchyard_nixl":1,"transport":"pigeon","name":"x","incarnation":"1","kv_format":"f"}]`, "none of its transports"},
		"two agents":          {`[{"switchyard_nixl":1,"transport":"a","name":"x","incarnation":"1","kv_format":"f"},{"switchyard_nixl":1,"transport":"b","name":"y","incarnation":"1","kv_format":"f"}]`, "want one agent"},
		"too many transports": {"[" + strings.Repeat("{},", 8) + "{}]", "9 transports"},
	} {
		if _, err := one.AddPeer(within(t), []byte(c.metadata)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestAgentsOfOneNameOnly(t *testing.T) {
	folder := nixltest.Folder(t)
	var here agents
	a, err := here.inproc(config("a", "f"), folder)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := overShm(config("b", "f"), folder)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for _, all := range [][]multi.Transport{{}, {{Name: "inproc", Agent: a}, {Name: "shm", Agent: b}}, {{Name: "x", Agent: a}, {Name: "x", Agent: a}}} {
		if _, err := multi.New(all...); err == nil {
			t.Errorf("%v: an agent was made", all)
		}
	}
}
