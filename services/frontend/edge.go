package frontend

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/switchyard-llm/switchyard/libs/telemetry"
	frontendv1 "github.com/switchyard-llm/switchyard/proto/switchyard/frontend/v1"
	"github.com/switchyard-llm/switchyard/services/frontend/openai"
)

// edge is the HTTP handler in front of the gateway.
type edge struct {
	f       *Frontend
	gateway http.Handler
	keys    keys
	// receiving are the bodies that are being read.
	receiving atomic.Int64
	metrics   http.Handler // nil: served elsewhere
}

func newEdge(f *Frontend) (*edge, error) {
	gateway, err := newGateway(frontendv1.NewFrontendClient(f.own))
	if err != nil {
		return nil, err
	}
	return &edge{f: f, gateway: gateway, keys: newKeys(f.cfg.APIKeys), metrics: f.deps.Metrics}, nil
}

// route is what the edge has to know of a path before the gateway routes it.
type route struct {
	kind     string
	method   string
	idPrefix string
}

func routeOf(path string) route {
	switch {
	case path == "/v1/chat/completions":
		return route{chatKind.name, http.MethodPost, chatKind.idPrefix}
	case path == "/v1/completions":
		return route{textKind.name, http.MethodPost, textKind.idPrefix}
	case path == "/tokenize" || path == "/detokenize":
		return route{path[1:], http.MethodPost, "req_"}
	case path == "/v1/models" || strings.HasPrefix(path, "/v1/models/"):
		return route{"models", http.MethodGet, "req_"}
	}
	return route{"other", http.MethodGet, "req_"}
}

// ServeHTTP implements http.Handler.
func (e *edge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if e.cors(w, r) {
		return
	}
	if probe := e.probe(r.URL.Path); probe != nil {
		serveProbe(w, r, probe)
		return
	}
	e.exchange(w, r)
}

// exchange serves one request of the OpenAI paths.
func (e *edge) exchange(w http.ResponseWriter, r *http.Request) {
	route := routeOf(r.URL.Path)
	ctx, cancel := context.WithCancel(propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header)))
	defer cancel()
	ctx, endSpan := e.f.server.startSpan(ctx, route.kind)
	x := &exchange{
		id: newID(route.idPrefix), clientID: clientID(r), worker: r.Header.Get(workerHeader), start: time.Now(), status: http.StatusOK,
		writer: w, wire: http.NewResponseController(w), cancel: cancel, writeTimeout: e.f.cfg.WriteTimeout, resets: r.ProtoMajor >= 2,
	}
	defer x.lend()()
	if r.ContentLength != 0 {
		// It holds for whoever reads the body: also for the server, which reads the rest of
		// one that was refused. Without deadlines, as in tests, there is nothing to wait for.
		_ = x.wire.SetReadDeadline(x.start.Add(e.f.cfg.BodyTimeout))
	}
	w.Header().Set("X-Request-Id", cmp.Or(x.clientID, x.id))
	defer func() {
		if p := recover(); p != nil {
			x.fail(openai.Broken(fmt.Errorf("panic: %v\n%s", p, debug.Stack())))
		}
		x.finish()
		e.settle(ctx, x, route, r)
		if x.failure != nil {
			endSpan(x.failure)
			return
		}
		endSpan(nil)
	}()
	if err := e.serve(x, route, r.WithContext(context.WithValue(ctx, exchangeKey{}, x))); err != nil {
		x.fail(openai.ErrorOf(err))
	}
}

// serve reads the body where there may be one and calls the gateway.
func (e *edge) serve(x *exchange, route route, r *http.Request) error {
	if err := e.keys.check(x, r); err != nil {
		return err
	}
	inner := r.WithContext(r.Context()) // a shallow copy
	// The gateway would make metadata, deadlines and methods of what it finds here.
	inner.Header = http.Header{}
	inner.RemoteAddr, inner.Host, inner.Body = "", "", http.NoBody
	if r.Method == http.MethodHead && route.method == http.MethodGet {
		inner.Method = http.MethodGet // the server leaves out the body
	}
	if route.method == http.MethodPost && r.Method == http.MethodPost {
		data, err := e.receive(x, r)
		if err != nil {
			return err
		}
		if err := e.f.server.admit(r.Context()); err != nil {
			return err
		}
		defer e.f.server.leave(r.Context())
		inner.Body = openai.NewBody(data)
	}
	e.gateway.ServeHTTP(x, inner)
	return nil
}

// receivingFactor is how many times as many bodies may be on their way as requests in flight: clients
// that send slowly must not take the places of others.
const receivingFactor = 4

// receive reads a body, unless too many are being read.
func (e *edge) receive(x *exchange, r *http.Request) ([]byte, error) {
	defer e.receiving.Add(-1)
	if e.receiving.Add(1) > int64(receivingFactor*e.f.cfg.MaxRequests) {
		return nil, openai.Overloaded("Too many requests are being received. Try again later.", time.Second)
	}
	return e.readBody(x, r)
}

// settle counts and logs what the service did not.
func (e *edge) settle(ctx context.Context, x *exchange, route route, r *http.Request) {
	if x.counted {
		return
	}
	status, level := x.status, slog.LevelDebug
	attrs := []slog.Attr{
		slog.String("kind", route.kind), slog.Int("status", status),
		slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Duration("duration", time.Since(x.start)),
	}
	if x.failure != nil {
		level = slog.LevelInfo
		attrs = append(attrs, slog.String("error", x.failure.Message))
		if x.failure.Cause != nil {
			level = slog.LevelWarn
			attrs = append(attrs, slog.String("cause", x.failure.Cause.Error()))
		}
	}
	e.f.server.observe.count(ctx, route.kind, status)
	e.f.deps.Logger.LogAttrs(telemetry.WithRequestID(ctx, x.id), level, "request ended", attrs...)
}

// newID draws an id that nobody can guess.
func newID(prefix string) string {
	var random [12]byte
	_, _ = rand.Read(random[:]) // it never fails
	return prefix + hex.EncodeToString(random[:])
}

// workerHeader names the only decode worker that may serve a request.
const workerHeader = "X-Switchyard-Worker"

// maxRequestIDBytes bounds the id that a client may give its request.
const maxRequestIDBytes = 128

// clientID is the X-Request-Id that the client sent, if it is fit to be sent back.
func clientID(r *http.Request) string {
	given := r.Header.Get("X-Request-Id")
	if len(given) > maxRequestIDBytes {
		return ""
	}
	for _, c := range []byte(given) {
		if c <= ' ' || c > '~' {
			return ""
		}
	}
	return given
}
