package nixltest

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

func testMismatch(t *testing.T, tr Transport) {
	folder := Folder(t)
	target := tr.start(t, "decode", "1", folder)
	other := tr.startWith(t, nixl.Config{Name: "prefill", Incarnation: "1", KVFormat: "weights-b/f32"}, folder, Layout)
	_, err := other.agent.AddPeer(lasting(t, patience), target.metadata(t))
	var m *nixl.MismatchError
	if !errors.Is(err, nixl.ErrMismatch) || !errors.As(err, &m) || m.Field != "KV format" || m.Local != `"weights-b/f32"` || m.Remote != `"`+format+`"` {
		t.Fatalf("got %v, want the two formats", err)
	}
	layout := Layout
	layout.BlockTokens = 8 // to be mapped by who moves the blocks
	wide := tr.startWith(t, nixl.Config{Name: "wide", Incarnation: "1", KVFormat: format}, folder, layout)
	wide.add(t, target)
	_, err = target.agent.AddPeer(lasting(t, patience), target.metadata(t))
	if err == nil {
		t.Fatal("an agent became its own peer")
	}
}

func testSealed(t *testing.T, tr Transport) {
	h := tr.start(t, "decode", "1", Folder(t))
	h.metadata(t)
	if _, err := h.agent.Register(h.memory, Layout, 1); err == nil || !strings.Contains(err.Error(), "metadata") {
		t.Fatalf("got %v, want a refusal that names the metadata", err)
	}
	if _, err := h.agent.Register(h.memory, Layout, blocks+1); err == nil || !strings.Contains(err.Error(), "want at least") {
		t.Fatalf("got %v, want a refusal that names the memory's size", err)
	}
	if _, err := h.agent.Register(h.memory, Layout, 0); err == nil || !strings.Contains(err.Error(), "blocks is 0") {
		t.Fatalf("got %v, want a refusal that names the blocks", err)
	}
}

func testBackpressure(t *testing.T, tr Transport) {
	folder := Folder(t)
	target := tr.startWith(t, nixl.Config{Name: "decode", Incarnation: "1", KVFormat: format, Notes: 4}, folder, Layout)
	writer := tr.startWith(t, nixl.Config{Name: "prefill", Incarnation: "1", KVFormat: format, Notes: 4}, folder, Layout)
	id := writer.add(t, target)
	err := writer.agent.Notify(lasting(t, patience), id, make([]byte, nixl.MaxNoteBytes+1))
	within(t, err, nixl.ErrTooLarge)
	sent, payload := 0, make([]byte, nixl.MaxNoteBytes-8)
	for ctx := lasting(t, 300*time.Millisecond); ; sent++ {
		note := append(bytes.Clone(payload), strconv.Itoa(sent)...)
		if err = writer.agent.Notify(ctx, id, note); err != nil {
			break
		}
	}
	within(t, err, context.DeadlineExceeded)
	if sent < 4 || sent > 64 {
		t.Fatalf("%d notes were taken without a receiver", sent)
	}
	for i := range sent {
		e := target.receive(t)
		if got := string(e.Payload[len(payload):]); got != strconv.Itoa(i) {
			t.Fatalf("note %d is %s", i, got)
		}
	}
	_, err = target.agent.Receive(ended())
	within(t, err, context.Canceled)
}

func testCloseUnderLoad(t *testing.T, tr Transport) {
	for _, closing := range []string{"writer", "target"} {
		t.Run(closing, func(t *testing.T) { closeUnderLoad(t, tr, closing) })
	}
}

func closeUnderLoad(t *testing.T, tr Transport, closing string) {
	folder := Folder(t)
	target := tr.start(t, "decode", "1", folder)
	writer := tr.start(t, "prefill", "1", folder)
	id := writer.add(t, target)
	var load sync.WaitGroup
	under := make(chan struct{}, 4)
	for i := range 4 {
		load.Go(func() {
			r := nixl.Request{Peer: id, Copies: []nixl.Copy{whole(i, i), whole(i+100, i+100)}}
			for n := 0; ; n++ {
				if err := writer.post(context.Background(), r); err != nil {
					if errors.Is(err, nixl.ErrUnsettled) {
						t.Errorf("post: %v", err)
					}
					return
				}
				_ = writer.agent.Notify(lasting(t, patience), id, nil) // may meet the end
				if n == 20 {
					under <- struct{}{}
				}
			}
		})
	}
	load.Go(func() {
		for {
			if _, err := target.agent.Receive(context.Background()); err != nil {
				return
			}
		}
	})
	for range 4 {
		<-under
	}
	first, second := writer, target
	if closing == "target" {
		first, second = target, writer
	}
	if err := first.agent.Close(); err != nil {
		t.Error(err)
	}
	if err := second.agent.Close(); err != nil {
		t.Error(err)
	}
	load.Wait()
}

// testFence fences a living peer that writes all the time.
func testFence(t *testing.T, tr Transport) {
	folder := Folder(t)
	target := tr.start(t, "decode", "1", folder)
	writer := tr.start(t, "prefill", "1", folder)
	id := writer.add(t, target)
	all := firstBlocks(blocks)
	writer.do(Command{Do: "flood", Request: nixl.Request{Peer: id, Copies: all}})
	for writer.agent.Stats().Transfers < 3 {
		if err := writer.post(lasting(t, patience), nixl.Request{Peer: id, Copies: all[:1]}); err != nil {
			t.Fatal(err)
		}
	}
	err := target.agent.Fence(lasting(t, 200*time.Millisecond), writer.agent.ID())
	if !tr.FencesLiving {
		within(t, err, nixl.ErrStillAlive)
		if err := writer.post(lasting(t, patience), nixl.Request{Peer: id, Copies: all[:1]}); err != nil {
			t.Fatalf("a fence without proof changed something: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	before := bytes.Clone(target.region.Bytes())
	late := writer.post(lasting(t, patience), nixl.Request{Peer: id, Copies: all})
	within(t, late, nixl.ErrFenced)
	if !bytes.Equal(before, target.region.Bytes()) {
		t.Fatal("a fenced peer wrote")
	}
	if err := writer.agent.RemovePeer(id); err != nil {
		t.Fatal(err)
	}
	_, err = writer.agent.AddPeer(lasting(t, patience), target.metadata(t))
	within(t, err, nixl.ErrFenced)
}

// firstBlocks pairs the first n blocks of both sides.
func firstBlocks(n int) []nixl.Copy {
	copies := make([]nixl.Copy, n)
	for i := range copies {
		copies[i] = whole(i, i)
	}
	return copies
}

func testClosed(t *testing.T, tr Transport) {
	folder := Folder(t)
	target := tr.start(t, "decode", "1", folder)
	writer := tr.start(t, "prefill", "1", folder)
	id := writer.add(t, target)
	if err := errors.Join(writer.agent.Close(), writer.agent.Close()); err != nil {
		t.Fatal(err)
	}
	target.wantGone(t, writer.agent.ID())
	if err := target.agent.Fence(ended(), writer.agent.ID()); err != nil {
		t.Fatalf("fence of a peer that closed: %v", err)
	}
	_, err := writer.agent.Create(nixl.Request{Peer: id})
	within(t, err, nixl.ErrClosed)
	within(t, writer.agent.Notify(lasting(t, patience), id, nil), nixl.ErrClosed)
	_, err = writer.agent.AddPeer(lasting(t, patience), target.metadata(t))
	within(t, err, nixl.ErrClosed)
	_, err = writer.agent.Receive(lasting(t, patience))
	within(t, err, nixl.ErrClosed)
	within(t, writer.agent.Run(context.Background()), nixl.ErrClosed)
	// An agent whose Run never ran closes as well, and leaves its address free.
	for range 2 {
		idle, err := tr.Open(nixl.Config{Name: "idle", Incarnation: "1", KVFormat: format}, folder)
		if err != nil {
			t.Fatal(err)
		}
		if err := idle.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
