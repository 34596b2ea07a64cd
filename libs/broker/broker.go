// Package broker connects to NATS.
package broker

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
)

// connectTimeout bounds the wait for NATS at start.
const connectTimeout = 5 * time.Second

// Connect connects to NATS, at nats://host:port, under a name that its monitoring shows.
// An unreachable server is an error at once or within 5 s or ctx; a connection lost later
// is sought again for ever, at most a second apart. Nothing is buffered meanwhile: calls
// fail at once. The caller closes the connection.
func Connect(ctx context.Context, url, name string, log *slog.Logger) (*nats.Conn, error) {
	timeout := connectTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline))
	}
	return connect(url, name, log, nats.Timeout(timeout))
}

// Seek is Connect for those who can do without NATS: an unreachable server is sought for
// ever from the start. Only a URL that is none is an error.
func Seek(url, name string, log *slog.Logger) (*nats.Conn, error) {
	nc, err := connect(url, name, log, nats.Timeout(connectTimeout), nats.RetryOnFailedConnect(true))
	if err == nil && !nc.IsConnected() {
		log.Warn("nats cannot be reached, trying on", "url", url)
	}
	return nc, err
}

func connect(url, name string, log *slog.Logger, more ...nats.Option) (*nats.Conn, error) {
	nc, err := nats.Connect(url, append(more,
		nats.Name(name),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(100*time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
		nats.ReconnectBufSize(-1),
		// A frozen server is taken for gone after three pings.
		nats.PingInterval(2*time.Second),
		nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("nats connection lost", "error", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) { log.Info("nats connected again", "url", nc.ConnectedUrlRedacted()) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { log.Warn("nats reports", "error", err) }),
	)...)
	if err != nil {
		return nil, fmt.Errorf("connect to nats at %s: %w", url, err)
	}
	return nc, nil
}
