package dials

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

var peer = nixl.PeerID{Name: "decode", Incarnation: "1"}

func TestManyCallersShareOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			d         Dials
			connected atomic.Bool
			attempts  atomic.Int32
		)
		state := func() (bool, <-chan struct{}, error) { return connected.Load(), nil, nil }
		refused := errors.New("refused")
		dial := func() error { // the first gives up, and the next takes over
			<-time.After(time.Second) // of the bubble's clock: the others wait by then
			if attempts.Add(1) == 1 {
				return refused
			}
			connected.Store(true)
			return nil
		}
		results := make(chan error, 8)
		for range 8 {
			go func() { results <- d.Do(t.Context(), peer, state, dial) }()
		}
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		synctest.Wait()
		if err := d.Do(short, peer, state, dial); !errors.Is(err, nixl.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		other := nixl.PeerID{Name: "decode", Incarnation: "2"}
		if err := d.Do(short, other, state, func() error { return nil }); err != nil {
			t.Fatalf("another peer: %v", err)
		}
		failed := 0
		for range 8 {
			if err := <-results; errors.Is(err, refused) {
				failed++
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if failed != 1 || attempts.Load() != 2 || len(d.active) != 0 {
			t.Fatalf("%d failed of %d attempts, %d go on", failed, attempts.Load(), len(d.active))
		}
	})
}

func TestADyingConnectionIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d Dials
		ended := make(chan struct{})
		state := func() (bool, <-chan struct{}, error) {
			select {
			case <-ended:
				return false, nil, nil
			default:
				return false, ended, nil
			}
		}
		dialled := make(chan error, 1)
		go func() { dialled <- d.Do(t.Context(), peer, state, func() error { return nil }) }()
		synctest.Wait()
		select {
		case <-dialled:
			t.Fatal("it did not wait")
		default:
		}
		close(ended)
		if err := <-dialled; err != nil {
			t.Fatal(err)
		}
		closed := func() (bool, <-chan struct{}, error) { return false, nil, nixl.ErrClosed }
		if err := d.Do(t.Context(), peer, closed, nil); !errors.Is(err, nixl.ErrClosed) {
			t.Fatalf("got %v", err)
		}
	})
}
