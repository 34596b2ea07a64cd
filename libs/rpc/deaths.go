package rpc

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	// A process that is just ending may take connections still, and one in its place may soon do
	// so again: a supervisor takes longer to start it than the asking pauses.
	deathEvery  = 5 * time.Millisecond
	deathWithin = 200 * time.Millisecond
	// deathDial bounds each attempt: a host that is silent says nothing.
	deathDial = time.Second
)

// Deaths finds out whether processes have ended. The zero value is ready; those who ask about
// one address at the same time share the asking.
type Deaths struct{ asking singleflight.Group }

// Died says whether the process that served at an address, and whose connections have broken,
// has ended: its host says that nobody listens there. Of a process that lives, of a host that is silent,
// and when ctx ends first, the answer is false.
func (d *Deaths) Died(ctx context.Context, address string) bool {
	shared := context.WithoutCancel(ctx)
	answer := d.asking.DoChan(address, func() (any, error) { return refuses(shared, address), nil })
	select {
	case a := <-answer:
		return a.Val.(bool)
	case <-ctx.Done():
		return false
	}
}

func refuses(ctx context.Context, address string) bool {
	dialer := &net.Dialer{Timeout: deathDial}
	ticker := time.NewTicker(deathEvery)
	defer ticker.Stop()
	for end := time.Now().Add(deathWithin); ; <-ticker.C {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			_ = conn.Close() // nothing was sent
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			return true
		}
		if time.Now().After(end) { // also after one attempt that nobody answered
			return false
		}
	}
}
