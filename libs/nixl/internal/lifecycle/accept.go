package lifecycle

import (
	"errors"
	"log/slog"
	"net"
	"time"
)

// acceptRetry is the pause after an accept that did not work, such as for want of
// descriptors.
const acceptRetry = 100 * time.Millisecond

// Accept gives serve each connection that accept returns, until the listener is closed.
func Accept[C any](l *Life, log *slog.Logger, accept func() (C, error), serve func(C)) {
	for {
		socket, err := accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			log.Warn("nixl accept", "error", err)
			retry := time.NewTimer(acceptRetry)
			select {
			case <-retry.C:
			case <-l.Closing():
			}
			retry.Stop()
		default:
			serve(socket)
		}
	}
}
