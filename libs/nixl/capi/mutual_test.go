//go:build cgo && linux

package capi

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// write moves the whole region.
func write(t *testing.T, a, target *agent) error {
	t.Helper()
	whole := block.Span{Bytes: small.Bytes()}
	transfer, err := nixl.Post(soon(t), a, nixl.Request{Peer: target.ID(), Copies: []nixl.Copy{{Local: whole, Remote: whole}}})
	if err != nil {
		return err
	}
	if err := transfer.Wait(soon(t)); err != nil {
		return err
	}
	return transfer.Release()
}

func pass(t *testing.T, from, to *agent, text string) {
	t.Helper()
	if err := from.Notify(soon(t), to.ID(), []byte(text)); err != nil {
		t.Fatal(err)
	}
	if e, err := to.Receive(soon(t)); err != nil || e.Gone || e.Peer != from.ID() || string(e.Payload) != text {
		t.Fatalf("got %+v, %v, want the note %q", e, err, text)
	}
}

// TestTwoThatAddEachOther share one endpoint at NIXL, which the first to leave must not close.
func TestTwoThatAddEachOtherLeaveOneByOne(t *testing.T) {
	useLibrary(t)
	a, b := running(t, "a"), running(t, "b")
	for range 3 {
		add(t, a, b)
		add(t, b, a)
		if err := errors.Join(write(t, a, b), write(t, b, a)); err != nil {
			t.Fatal(err)
		}
		pass(t, a, b, "from a")
		pass(t, b, a, "from b")
		if err := a.RemovePeer(b.ID()); err != nil {
			t.Fatal(err)
		}
		if err := write(t, a, b); !errors.Is(err, nixl.ErrUnknownPeer) {
			t.Fatalf("write to the removed peer: %v", err)
		}
		if err := write(t, b, a); err != nil {
			t.Fatalf("the other direction: %v", err)
		}
		pass(t, a, b, "a again")
		pass(t, b, a, "b again")
		if err := b.RemovePeer(a.ID()); err != nil {
			t.Fatal(err)
		}
		if e, err := a.Receive(soon(t)); err != nil || !e.Gone || e.Peer != b.ID() {
			t.Fatalf("got %+v, %v, want b to be gone", e, err)
		}
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		if e, err := b.Receive(ended); err == nil {
			t.Fatalf("who left last got %+v", e)
		}
	}
}

// TestPeerComesBackOverANewEndpoint has one side, then the other, find its endpoint failed.
func TestPeerComesBackOverANewEndpoint(t *testing.T) {
	useLibrary(t)
	a, b := running(t, "a"), running(t, "b")
	for _, broken := range []*agent{a, b, a} {
		add(t, a, b)
		if err := write(t, a, b); err != nil {
			t.Fatal(err)
		}
		pass(t, b, a, "hello")
		other := b
		if broken == b {
			other = a
		}
		broken.mu.Lock()
		p := broken.peers[other.ID()]
		broken.mu.Unlock()
		broken.fail(p, errors.New("as a test wants it"))
		for _, x := range []*agent{broken, other} { // the other one finds it silent
			if e, err := x.Receive(soon(t)); err != nil || !e.Gone {
				t.Fatalf("%s got %+v, %v", x.ID(), e, err)
			}
		}
	}
}

func TestDeadPeerIsForgotten(t *testing.T) {
	useLibrary(t)
	a, b := running(t, "a"), running(t, "b")
	add(t, a, b)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for ctx := soon(t); a.knows(b); runtime.Gosched() {
		if ctx.Err() != nil {
			t.Fatal("it is still loaded")
		}
	}
}

func (a *agent) knows(other *agent) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.peers[other.ID()] != nil
}
