package frontend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
	// lastWords is the time for writing the errors of requests that the drain cut off.
	lastWords = time.Second
)

// serveHTTP runs the OpenAI server until ctx ends and its requests have ended.
func (f *Frontend) serveHTTP(ctx context.Context) error {
	// Requests outlive ctx by the drain, so their context is another one.
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	server := &http.Server{
		Handler:           f.edge,
		BaseContext:       func(net.Listener) context.Context { return requests },
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		Protocols:         protocols(),
		ErrorLog:          slog.NewLogLogger(f.deps.Logger.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- f.listen(server) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve HTTP on %s: %w", f.deps.HTTP.Addr(), err)
	case <-ctx.Done():
	}
	select { // what balances load sees by /health and /ready that no more should come
	case <-time.After(f.cfg.DrainDelay):
	case err := <-served:
		return fmt.Errorf("serve HTTP on %s: %w", f.deps.HTTP.Addr(), err)
	}
	if !shutdown(server, f.cfg.Drain) { // the drain's time is over
		f.own.Close() // what still runs ends with an error, which its client should read
		if !shutdown(server, lastWords) {
			cancel()
			if err := server.Close(); err != nil {
				f.deps.Logger.WarnContext(ctx, "closing HTTP connections", "error", err)
			}
		}
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP on %s: %w", f.deps.HTTP.Addr(), err)
	}
	return nil
}

// protocols are HTTP/1.1, and HTTP/2 with and, for clients that know of it, without TLS.
func protocols() *http.Protocols {
	p := &http.Protocols{}
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// listen serves connections until the server is shut down.
func (f *Frontend) listen(server *http.Server) error {
	if f.cfg.HTTPCert != "" {
		return server.ServeTLS(f.deps.HTTP, f.cfg.HTTPCert, f.cfg.HTTPKey)
	}
	return server.Serve(wire{f.deps.HTTP})
}

// shutdown stops a server once its requests have ended; false if they have not in time.
func shutdown(server *http.Server, patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return server.Shutdown(ctx) == nil
}
