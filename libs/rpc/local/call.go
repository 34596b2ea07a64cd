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

// call is what both ends of one call share: its context and the metadata of the answer.
type call struct {
	method string
	ctx    context.Context // the handler's; it ends with the call
	cancel context.CancelCauseFunc

	mu      sync.Mutex // guards header and trailer
	header  metadata.MD
	trailer metadata.MD
}

var _ grpc.ServerTransportStream = (*call)(nil)

// Method implements grpc.ServerTransportStream.
func (c *call) Method() string { return c.method }

// SetHeader implements grpc.ServerTransportStream.
func (c *call) SetHeader(md metadata.MD) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.header = metadata.Join(c.header, md)
	return nil
}

// SendHeader implements grpc.ServerTransportStream. There is nothing to send: the caller
// reads what is set.
func (c *call) SendHeader(md metadata.MD) error { return c.SetHeader(md) }

// SetTrailer implements grpc.ServerTransportStream.
func (c *call) SetTrailer(md metadata.MD) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trailer = metadata.Join(c.trailer, md)
	return nil
}

func (c *call) headers() metadata.MD {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.header.Copy()
}

func (c *call) trailers() metadata.MD {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trailer.Copy()
}

// report fills the call options that ask for something.
func (c *call) report(opts []grpc.CallOption) {
	for _, opt := range opts {
		switch opt := opt.(type) {
		case grpc.HeaderCallOption:
			*opt.HeaderAddr = c.headers()
		case grpc.TrailerCallOption:
			*opt.TrailerAddr = c.trailers()
		case grpc.PeerCallOption:
			*opt.PeerAddr = peer.Peer{Addr: address{}, LocalAddr: address{}}
		}
	}
}

// fault is the status that the caller gets for a handler's error: what gRPC makes of it, but
// the call's own end wins over whatever the handler said because of it.
func (c *call) fault(err error) error {
	if c.ctx.Err() != nil {
		return c.ended()
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err).Err()
	}
	return status.Error(codes.Unknown, err.Error())
}

// ended is the status of a call whose context ended.
func (c *call) ended() error {
	if context.Cause(c.ctx) == errClosed {
		return status.Error(codes.Unavailable, errClosed.Error())
	}
	return status.FromContextError(c.ctx.Err()).Err()
}
