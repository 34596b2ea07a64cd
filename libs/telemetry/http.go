package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"
)

// httpDrain is how long a scrape may go on when the serving ends.
const httpDrain = time.Second

// HTTPOptions say what ServeHTTP serves.
type HTTPOptions struct {
	// Metrics answers /metrics, see Telemetry.Metrics. Nil: not served.
	Metrics http.Handler
	// Health decides /health: nil is 200, an error is 503 with its text. A nil Health is always 200.
	Health func() error
	// Pprof serves the profiles of the Go runtime under /debug/pprof/.
	Pprof bool
}

// ServeHTTP answers the operator's requests on lis, which it closes, until ctx ends. It
// returns nil then, or the error that ended the serving.
func ServeHTTP(ctx context.Context, lis net.Listener, o HTTPOptions) error {
	server := &http.Server{Handler: operatorMux(o), ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(lis) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve HTTP on %s: %w", lis.Addr(), err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), httpDrain)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		_ = server.Close() // cuts off what did not end in time, which is the intent
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP on %s: %w", lis.Addr(), err)
	}
	return nil
}

func operatorMux(o HTTPOptions) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		if o.Health != nil {
			if err := o.Health(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
		fmt.Fprintln(w, "ok")
	})
	if o.Metrics != nil {
		mux.Handle("GET /metrics", o.Metrics)
	}
	if o.Pprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}
