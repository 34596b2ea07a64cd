// Package dials makes many callers who add one peer share one attempt to connect. It
// starts no goroutine.
package dials

import (
	"context"
	"fmt"
	"sync"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// Dials is ready as its zero value. Its methods may be called concurrently.
type Dials struct {
	mu     sync.Mutex
	active map[nixl.PeerID]chan struct{} // closed at the end of the attempt
}

// Do calls dial unless the peer is connected or another caller dials: that one is waited
// for while ctx lasts, and followed when it gives up.
//
// connected says that there is nothing to do, or returns the end of a dying connection
// that is to be waited for, or neither. It is called under a lock.
func (d *Dials) Do(ctx context.Context, peer nixl.PeerID, connected func() (bool, <-chan struct{}, error), dial func() error) error {
	for {
		wait, done, err := d.claim(peer, connected)
		switch {
		case err != nil:
			return err
		case done:
			return nil
		case wait == nil:
			defer d.end(peer)
			return dial()
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", nixl.ErrUnreachable, ctx.Err())
		}
	}
}

func (d *Dials) claim(peer nixl.PeerID, connected func() (bool, <-chan struct{}, error)) (wait <-chan struct{}, done bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	done, wait, err = connected()
	if done || wait != nil || err != nil {
		return wait, done, err
	}
	if active := d.active[peer]; active != nil {
		return active, false, nil
	}
	if d.active == nil {
		d.active = make(map[nixl.PeerID]chan struct{})
	}
	d.active[peer] = make(chan struct{})
	return nil, false, nil
}

func (d *Dials) end(peer nixl.PeerID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.active[peer])
	delete(d.active, peer)
}
