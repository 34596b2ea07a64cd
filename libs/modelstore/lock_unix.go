//go:build unix

package modelstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lock takes an advisory lock on the file at path and waits for it until the
// context ends. A process that dies lets go of it.
func lock(ctx context.Context, path string) (unlock func(), exclusive bool, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, false, err
	}
	// The kernel's blocking flock cannot be cancelled, hence the polling.
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, true, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, false, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, false, fmt.Errorf("wait for another process that fetches (%s): %w", path, context.Cause(ctx))
		case <-tick.C:
		}
	}
}
