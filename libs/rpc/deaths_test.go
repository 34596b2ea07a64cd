package rpc

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestADeathShowsHoweverSoonTheAddressIsTakenAgain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	var taken atomic.Int32
	accept := func(l net.Listener, then func()) {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
			taken.Add(1)
			then()
		}
	}
	var serving sync.WaitGroup
	defer serving.Wait()
	var d Deaths
	alive := make(chan struct{})
	serving.Go(func() { accept(l, sync.OnceFunc(func() { close(alive) })) })
	var asking sync.WaitGroup
	for range 20 {
		asking.Go(func() {
			if d.Died(t.Context(), address) {
				t.Error("a process that lives has died")
			}
		})
	}
	asking.Wait()
	<-alive
	if n := taken.Load(); n > 2*int32(deathWithin/deathEvery) {
		t.Errorf("20 who ask at once make %d connections, want about %d", n, deathWithin/deathEvery)
	}
	died := make(chan bool, 1)
	taken.Store(0)
	go func() { died <- d.Died(t.Context(), address) }()
	for taken.Load() == 0 { // it is still there when the asking begins
		time.Sleep(time.Millisecond)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if !<-died {
		t.Error("a process that ended while it was asked has not died")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if d.Died(ctx, address) {
		t.Error("somebody has died by an ended context")
	}
}
