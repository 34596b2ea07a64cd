package gate

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

var errFirst = errors.New("first")

func TestShutWaitsForTheLastUser(t *testing.T) {
	var g Gate
	if err := errors.Join(g.Enter(), g.Enter(), g.Err()); err != nil {
		t.Fatal(err)
	}
	idle := g.Shut(errFirst)
	g.Leave()
	select {
	case <-idle:
		t.Fatal("idle with a user inside")
	default:
	}
	if err := g.Enter(); err != errFirst {
		t.Fatalf("entered a shut gate: %v", err)
	}
	g.Leave()
	<-idle
	if again := g.Shut(errors.New("second")); again != idle || g.Err() != errFirst {
		t.Fatal("the first cause must stay")
	}
}

func TestUnusedGateIsIdleAtOnce(t *testing.T) {
	var g Gate
	<-g.Shut(errFirst)
}

func TestNobodyIsInsideOnceIdle(t *testing.T) {
	for range 200 {
		var g Gate
		var inside atomic.Int32
		var users sync.WaitGroup
		for range 4 {
			users.Go(func() {
				for g.Enter() == nil {
					inside.Add(1)
					inside.Add(-1)
					g.Leave()
				}
			})
		}
		<-g.Shut(errFirst)
		if n := inside.Load(); n != 0 {
			t.Fatalf("%d users inside after idle", n)
		}
		users.Wait()
	}
}
