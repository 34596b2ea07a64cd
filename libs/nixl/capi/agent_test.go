//go:build cgo && linux

package capi

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/capi/capitest"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
)

const patience = 20 * time.Second

var small = nixl.RegionInfo{Layout: block.Layout{BlockTokens: 1, Layers: 1, KVHeads: 1, HeadDim: 512, ElemBytes: 1}, Blocks: 4}

func useLibrary(t *testing.T) {
	t.Helper()
	path, err := capitest.Library(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(EnvLibrary, path)
	t.Setenv("UCX_TLS", "tcp,self")
	t.Setenv("UCX_NET_DEVICES", "lo")
}

// running is an agent with one region whose Run runs until the test ends. It finds its peers silent
// soon, and takes few notes at a time.
func running(t *testing.T, name string) *agent {
	t.Helper()
	made, err := New(Config{
		Config: nixl.Config{Name: name, Incarnation: "1", KVFormat: "f", Notes: 4}, Alive: 20 * time.Millisecond, Silence: 200 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	m, err := memory.Anonymous(small.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	r, err := made.Register(m, small.Layout, small.Blocks)
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- made.Run(context.Background()) }()
	t.Cleanup(func() {
		if err := errors.Join(made.Close(), <-ran, r.Close(), m.Close()); err != nil {
			t.Error(err)
		}
	})
	return made.(*agent)
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func add(t *testing.T, a, target *agent) {
	t.Helper()
	m, err := target.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.AddPeer(soon(t), m); err != nil {
		t.Fatal(err)
	}
}

func TestNotesGoOnAsTheyAreTaken(t *testing.T) {
	useLibrary(t)
	writer, target := running(t, "prefill"), running(t, "decode")
	add(t, writer, target)
	for i := range 40 {
		pass(t, writer, target, strconv.Itoa(i))
		pass(t, target, writer, strconv.Itoa(i))
	}
}

func TestForeignNotesAreRefusedAndCounted(t *testing.T) {
	useLibrary(t)
	writer, target := running(t, "prefill"), running(t, "decode")
	add(t, writer, target)
	p := writer.peers[target.ID()]
	pretended := frame{kind: note, adder: true, sender: nixl.PeerID{Name: "another", Incarnation: "1"}, link: 1, number: 1, payload: []byte("x")}
	mine := pretended
	mine.sender = writer.ID()
	changed := mine.encode()
	changed[len(changed)-1] ^= 1
	for i, foreign := range [][]byte{{}, []byte("not a frame"), changed, pretended.encode()} {
		writer.calls.RLock()
		err := writer.native.Notify(p.name, foreign)
		writer.calls.RUnlock()
		if err != nil {
			t.Fatal(err)
		}
		for ctx := soon(t); target.Stats().NotesRefused != uint64(i+1); runtime.Gosched() {
			if ctx.Err() != nil {
				t.Fatalf("note %d was not refused", i)
			}
		}
	}
	if err := writer.Notify(soon(t), target.ID(), []byte("sound")); err != nil {
		t.Fatal(err)
	}
	if e, err := target.Receive(soon(t)); err != nil || string(e.Payload) != "sound" {
		t.Fatalf("got %+v, %v", e, err)
	}
}
