package inbox

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

var peer = nixl.PeerID{Name: "a", Incarnation: "1"}

func note(text string) nixl.Event { return nixl.Event{Peer: peer, Payload: []byte(text)} }

func TestFullInboxHoldsItsSendersAndNeverTheNewsOfAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(2)
		ctx := t.Context()
		for _, text := range []string{"1", "2"} {
			if err := b.PutNote(ctx, note(text)); err != nil {
				t.Fatal(err)
			}
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := b.PutNote(short, note("late")); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a full inbox took a note: %v", err)
		}
		waiting := make(chan error)
		go func() { waiting <- b.PutNote(ctx, note("3")) }()
		synctest.Wait()
		b.PutGone(peer, nixl.ErrGone)
		for _, want := range []string{"1", "2", "", "3"} {
			e, err := b.Receive(ctx)
			if err != nil || string(e.Payload) != want || e.Gone != (want == "") {
				t.Fatalf("got %+v, %v, want %q", e, err, want)
			}
			if want == "1" {
				if err := <-waiting; err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

func TestClosedInboxYieldsWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(1)
		ctx := t.Context()
		if err := b.PutNote(ctx, note("left")); err != nil {
			t.Fatal(err)
		}
		sending := make(chan error)
		go func() { sending <- b.PutNote(ctx, note("too late")) }()
		synctest.Wait()
		b.Close()
		b.Close()
		if err := <-sending; err != nixl.ErrClosed {
			t.Fatalf("a waiting sender got %v", err)
		}
		b.PutGone(peer, nixl.ErrGone)
		if e, err := b.Receive(ctx); err != nil || string(e.Payload) != "left" {
			t.Fatalf("got %+v, %v", e, err)
		}
		if _, err := b.Receive(ctx); err != nixl.ErrClosed {
			t.Fatalf("got %v, want ErrClosed", err)
		}
	})
}
