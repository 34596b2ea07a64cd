package nixltest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// A lane is a run of blocks that one goroutine writes again and again.
const lanes, laneBlocks, laneRounds = 8, 64, 20

// laneCopies are short and long runs, in blocks of their own for each writer and lane.
func laneCopies(writer, lane int) (copies []nixl.Copy) {
	first := (writer*lanes + lane) * laneBlocks
	for b := range 8 {
		for run := range Layout.Spans(block.ID(first+b), 0, 1+b%Layout.BlockTokens) {
			copies = append(copies, nixl.Copy{Local: run, Remote: run})
		}
	}
	at := first + 8
	for n := 1; at+n < first+laneBlocks; n++ { // with a block between two runs, so that they stay apart
		run := span(at, n*Layout.BlockBytes())
		copies = append(copies, nixl.Copy{Local: run, Remote: run})
		at += n + 1
	}
	return copies
}

// testOrderUnderLoad has two peers write from many goroutines at a time, each of which
// tells the target when its bytes have landed.
func testOrderUnderLoad(t *testing.T, tr Transport, start starter) {
	folder := Folder(t)
	target := tr.start(t, "decode", "1", folder)
	writers := []*peer{start(t, "prefill-a", "1", folder), start(t, "prefill-b", "1", folder)}
	var writing sync.WaitGroup
	for i, w := range writers {
		id := w.add(target)
		writing.Go(func() {
			if _, err := w.try(Command{Do: "lanes", Peer: id, Offset: i}); err != nil {
				t.Errorf("%s: %v", w.id, err)
			}
		})
	}
	ctx, cancel := context.WithCancel(lasting(t, patience))
	received := make(chan error, 1)
	go func() { received <- target.checkLanes(ctx) }()
	writing.Wait()
	cancel()
	if err := <-received; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// checkLanes looks at the bytes of each lane when its note says that they are there, and
// answers the note.
func (h *host) checkLanes(ctx context.Context) error {
	for {
		e, err := h.agent.Receive(ctx)
		if err != nil {
			return err
		}
		if e.Gone || len(e.Payload) != 3 {
			return fmt.Errorf("got %+v", e)
		}
		writer, lane, value := int(e.Payload[0]), int(e.Payload[1]), e.Payload[2]
		for _, c := range laneCopies(writer, lane) {
			for at := range c.Remote.Bytes {
				if got := h.region.Bytes()[c.Remote.Offset+at]; got != value {
					return fmt.Errorf("writer %d, lane %d: byte %d is %d when the note says %d", writer, lane, c.Remote.Offset+at, got, value)
				}
			}
		}
		if err := h.agent.Notify(ctx, e.Peer, e.Payload); err != nil {
			return err
		}
	}
}

// lanes writes all lanes of one writer until each has had its rounds.
func (h *host) lanes(ctx context.Context, to nixl.PeerID, writer int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var acked [lanes]chan byte
	for i := range acked {
		acked[i] = make(chan byte, 1)
	}
	var working, receiving sync.WaitGroup
	receiving.Go(func() {
		for {
			e, err := h.agent.Receive(ctx)
			if err == nil && (e.Gone || len(e.Payload) != 3) {
				err = fmt.Errorf("got %+v", e)
			}
			if err != nil {
				cancel(err)
				return
			}
			acked[e.Payload[1]] <- e.Payload[2]
		}
	})
	for lane := range lanes {
		working.Go(func() {
			for round := range laneRounds {
				if err := h.lane(ctx, to, writer, lane, byte(1+(round+lane)%250), acked[lane]); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	working.Wait()
	err := context.Cause(ctx)
	cancel(nil)
	receiving.Wait()
	return err
}

// lane writes a lane once, in two transfers as a prompt's layers are, and waits for the answer.
func (h *host) lane(ctx context.Context, to nixl.PeerID, writer, lane int, value byte, acked <-chan byte) error {
	copies := laneCopies(writer, lane)
	for _, c := range copies {
		for at := range c.Local.Bytes {
			h.region.Bytes()[c.Local.Offset+at] = value
		}
	}
	var posted []nixl.Transfer
	for _, part := range [][]nixl.Copy{copies[:len(copies)/2], copies[len(copies)/2:]} {
		transfer, err := nixl.Post(ctx, h.agent, nixl.Request{Peer: to, Grant: everythingGrant(), Copies: part})
		if err != nil {
			return err
		}
		posted = append(posted, transfer)
	}
	for _, transfer := range posted {
		if err := transfer.Wait(ctx); err != nil {
			return err
		}
		if err := transfer.Release(); err != nil {
			return err
		}
	}
	if err := h.agent.Notify(ctx, to, []byte{byte(writer), byte(lane), value}); err != nil {
		return err
	}
	select {
	case got := <-acked:
		if got != value {
			return fmt.Errorf("lane %d was answered for %d, want %d", lane, got, value)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
