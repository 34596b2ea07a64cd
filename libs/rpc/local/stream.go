package local

import (
	"context"
	"io"
	"iter"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// NewStream opens a server-streaming call. The handler starts with the first RecvMsg. As
// with every gRPC stream the caller reads to the end or cancels ctx; else the handler stays.
func (c *Conn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	m, ok := c.streams[method]
	if !ok {
		return nil, status.Errorf(codes.Unimplemented, "unknown stream %s", method)
	}
	if m.desc.ClientStreams {
		return nil, status.Errorf(codes.Unimplemented, "%s streams from the client; in process only the server may", method)
	}
	call, err := c.begin(ctx, method)
	if err != nil {
		return nil, err
	}
	s := &clientStream{conn: c, call: call, method: m, options: opts}
	// The lock: a context that ended already runs abandon at once, beside this.
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detach = context.AfterFunc(call.ctx, s.abandon)
	return s, nil
}

// clientStream is the caller's end, and the owner of the handler's coroutine.
type clientStream struct {
	conn    *Conn
	call    *call
	method  streamMethod
	options []grpc.CallOption
	detach  func() bool

	// mu is held by whoever runs the coroutine; what the handler reads and writes below
	// is guarded by it through that.
	mu      sync.Mutex
	request any
	next    func() (any, bool) // nil until the first RecvMsg
	stop    func()
	done    bool
	err     error // why the stream ended; nil for its regular end
}

var _ grpc.ClientStream = (*clientStream)(nil)

// SendMsg keeps the request for the handler.
func (s *clientStream) SendMsg(m any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return io.EOF
	}
	if s.request != nil {
		return status.Error(codes.Internal, "a server stream takes one request")
	}
	s.request = m
	return nil
}

// CloseSend does nothing: the one request is sent as a whole.
func (s *clientStream) CloseSend() error { return nil }

// Context is the call's.
func (s *clientStream) Context() context.Context { return s.call.ctx }

// Header returns at once what the handler has set so far.
func (s *clientStream) Header() (metadata.MD, error) { return s.call.headers(), nil }

// Trailer is complete once RecvMsg has returned an error.
func (s *clientStream) Trailer() metadata.MD { return s.call.trailers() }

// RecvMsg runs the handler up to its next message.
func (s *clientStream) RecvMsg(m any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return s.result()
	}
	if s.call.ctx.Err() != nil {
		s.halt()
		return s.result()
	}
	if s.next == nil {
		s.next, s.stop = iter.Pull(s.run)
	}
	message, ok := s.next()
	if !ok {
		return s.result()
	}
	if err := s.conn.sharer.share(m, message); err != nil {
		s.halt()
		s.err = err
		return err
	}
	return nil
}

func (s *clientStream) result() error {
	if s.err == nil {
		return io.EOF
	}
	return s.err
}

// run is the coroutine's body.
func (s *clientStream) run(yield func(any) bool) {
	defer s.finish()
	stream := &serverStream{call: s.call, sharer: &s.conn.sharer, request: s.request, yield: yield}
	var err error
	if intercept := s.conn.options.Stream; intercept != nil {
		info := &grpc.StreamServerInfo{FullMethod: s.call.method, IsServerStream: true}
		err = intercept(s.method.service, stream, info, s.method.desc.Handler)
	} else {
		err = s.method.desc.Handler(s.method.service, stream)
	}
	if err != nil {
		s.err = s.call.fault(err)
	}
}

// abandon ends the stream after the call's context did, whether or not the caller ever
// reads again: a handler that is paused in Send goes on with an error.
func (s *clientStream) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.halt()
}

// halt ends a stream before its regular end. mu is held.
func (s *clientStream) halt() {
	if s.done {
		return
	}
	if s.call.ctx.Err() == nil {
		s.call.cancel(context.Canceled)
	}
	if s.stop != nil {
		s.stop()
	}
	s.err = s.call.ended()
	// A handler that never ran does not finish by itself.
	s.finish()
}

// finish settles the call once. mu is held.
func (s *clientStream) finish() {
	if s.done {
		return
	}
	s.done = true
	s.detach()
	s.call.report(s.options)
	s.conn.end(s.call)
}

// serverStream is the handler's end.
type serverStream struct {
	call    *call
	sharer  *sharer
	request any
	yield   func(any) bool
	stopped bool
}

var _ grpc.ServerStream = (*serverStream)(nil)

// SetHeader adds to what the caller's Header returns.
func (s *serverStream) SetHeader(md metadata.MD) error { return s.call.SetHeader(md) }

// SendHeader does the same.
func (s *serverStream) SendHeader(md metadata.MD) error { return s.call.SendHeader(md) }

// SetTrailer adds to what the caller's Trailer returns.
func (s *serverStream) SetTrailer(md metadata.MD) { _ = s.call.SetTrailer(md) } // it has no error

// Context ends with the call.
func (s *serverStream) Context() context.Context { return s.call.ctx }

// SendMsg hands m to the caller and returns when the caller asks for more, or with an error
// when it never will.
func (s *serverStream) SendMsg(m any) error {
	if s.stopped || s.call.ctx.Err() != nil || !s.yield(m) {
		s.stopped = true
		return s.call.ended()
	}
	return nil
}

// RecvMsg gives the request, then io.EOF.
func (s *serverStream) RecvMsg(m any) error {
	if s.request == nil {
		return io.EOF
	}
	request := s.request
	s.request = nil
	return s.sharer.share(m, request)
}
