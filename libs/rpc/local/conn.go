// Package local carries gRPC calls between two parts of one process. A Conn is both ends:
// services register with it, clients call through it, and messages pass as they are,
// without being serialised.
//
// It is not a transport for everything. It serves unary and server-streaming RPCs. It has
// no goroutines and no queue: the handler of a stream is a coroutine that runs inside the
// caller's RecvMsg, and its Send pauses it until the next one. From that follows what a
// handler must do: Send only from its own goroutine, watch its context wherever it blocks,
// never touch a message once it is sent, and treat the request as read-only, because
// submessages are shared with the caller.
//
// The handler sees the values of the caller's context, so spans go through; deadline and
// cancel are the caller's. Metadata is turned from outgoing to incoming, and what had come
// in to the caller stays there. Call options that speak of a network (sizes, credentials,
// waiting for readiness) have no effect.
package local

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// errClosed is the cause of a context that Close cancelled.
var errClosed = errors.New("the in-process connection is closed")

// Options holds what a server on a socket would be built with. The zero value works.
type Options struct {
	// Unary runs around each unary call. Nil: nothing does.
	Unary grpc.UnaryServerInterceptor
	// Stream runs around each stream, inside its coroutine. Nil: nothing does.
	Stream grpc.StreamServerInterceptor
}

// Conn connects clients to the services of its own process. Services are registered before
// the first call; after that all methods may be called from any goroutine.
type Conn struct {
	options Options
	unary   map[string]unaryMethod
	streams map[string]streamMethod
	sharer  sharer

	mu     sync.Mutex // guards closed and active
	closed bool
	active map[*call]struct{}
	calls  sync.WaitGroup // one for each of active; added to under mu
}

var (
	_ grpc.ClientConnInterface = (*Conn)(nil)
	_ grpc.ServiceRegistrar    = (*Conn)(nil)
)

type unaryMethod struct {
	service any
	desc    grpc.MethodDesc
}

type streamMethod struct {
	service any
	desc    grpc.StreamDesc
}

// New returns a Conn without services. It starts nothing.
func New(options Options) *Conn {
	return &Conn{
		options: options,
		unary:   make(map[string]unaryMethod),
		streams: make(map[string]streamMethod),
		active:  make(map[*call]struct{}),
	}
}

// RegisterService adds a service; generated code calls it. It must not be called once
// calls are made.
func (c *Conn) RegisterService(desc *grpc.ServiceDesc, service any) {
	for _, m := range desc.Methods {
		c.unary["/"+desc.ServiceName+"/"+m.MethodName] = unaryMethod{service, m}
	}
	for _, s := range desc.Streams {
		c.streams["/"+desc.ServiceName+"/"+s.StreamName] = streamMethod{service, s}
	}
}

// Close refuses further calls with UNAVAILABLE, cancels those that run, and returns when
// their handlers have. It is idempotent.
func (c *Conn) Close() {
	c.mu.Lock()
	c.closed = true
	for call := range c.active {
		call.cancel(errClosed)
	}
	c.mu.Unlock()
	c.calls.Wait()
}

// Invoke runs a unary handler in the caller's goroutine.
func (c *Conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	m, ok := c.unary[method]
	if !ok {
		return status.Errorf(codes.Unimplemented, "unknown unary method %s", method)
	}
	call, err := c.begin(ctx, method)
	if err != nil {
		return err
	}
	defer c.end(call)
	out, err := m.desc.Handler(m.service, call.ctx, func(dst any) error { return c.sharer.share(dst, args) }, c.options.Unary)
	call.report(opts)
	if err != nil {
		return call.fault(err)
	}
	return c.sharer.share(reply, out)
}

// begin starts the bookkeeping of a call; end ends it.
func (c *Conn) begin(parent context.Context, method string) (*call, error) {
	if err := parent.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	sent, _ := metadata.FromOutgoingContext(parent)
	ctx := metadata.NewIncomingContext(metadata.NewOutgoingContext(parent, nil), sent)
	ctx = peer.NewContext(ctx, &peer.Peer{Addr: address{}, LocalAddr: address{}})
	call := &call{method: method}
	call.ctx, call.cancel = context.WithCancelCause(grpc.NewContextWithServerTransportStream(ctx, call))

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		call.cancel(errClosed)
		return nil, status.Error(codes.Unavailable, errClosed.Error())
	}
	c.active[call] = struct{}{}
	c.calls.Add(1)
	return call, nil
}

func (c *Conn) end(call *call) {
	call.cancel(context.Canceled)
	c.mu.Lock()
	delete(c.active, call)
	c.mu.Unlock()
	c.calls.Done()
}

// address is where a peer of the same process is.
type address struct{}

func (address) Network() string { return "local" }
func (address) String() string  { return "local" }
