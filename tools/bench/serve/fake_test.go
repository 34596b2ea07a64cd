package serve

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener without sockets: goroutines that wait for it let a bubble's clock go on.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// against runs a config against a handler, in a bubble with its own clock.
func against(t *testing.T, cfg Config, handler http.HandlerFunc, check func(*Result, error)) {
	t.Helper()
	interrupted(t, 24*time.Hour, cfg, handler, check)
}

// interrupted does so until a time.
func interrupted(t *testing.T, after time.Duration, cfg Config, handler http.HandlerFunc, check func(*Result, error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		listener := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		server := http.Server{Handler: handler}
		ended := make(chan error)
		go func() { ended <- server.Serve(listener) }()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		defer time.AfterFunc(after, cancel).Stop()
		result, err := runOver(ctx, cfg, listener.dial)
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-ended
		check(result, err)
	})
}

// config is the default with a model and few words.
func config() Config {
	cfg := DefaultConfig()
	cfg.Model, cfg.Vocabulary = "m", []string{"ba", "ce", "di", "fo", "gu"}
	return cfg
}

// event comes after a pause.
type event struct {
	pause time.Duration
	data  string
}

// stream answers with events.
func stream(list ...event) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range list {
			wait(r.Context(), e.pause)
			fmt.Fprintf(w, "data: %s\n\n", e.data)
			w.(http.Flusher).Flush()
		}
	}
}

// wait lets time of the bubble pass.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func delta(text string) string {
	return fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}],"usage":null}`, text)
}

const (
	role  = `{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`
	ended = "[DONE]"
)

func counted(input, output, cached int) string {
	return fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}}`, input, output, cached)
}

// after answers one token after a time.
func after(d time.Duration) http.HandlerFunc {
	return stream(event{d, delta("x")}, event{0, counted(7, 1, 2)}, event{0, ended})
}
