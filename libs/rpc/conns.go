package rpc

import (
	"container/list"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/grpc"
)

// connsMax is how many connections a Conns keeps; the one not used for longest is closed.
const connsMax = 256

// Conns keeps one lazy connection per target, for callers that reach peers by address.
type Conns struct {
	opts DialOptions

	mu      sync.Mutex // guards the rest
	targets map[string]*list.Element
	recent  *list.List // of *targetConn, the latest first
	closed  bool
}

type targetConn struct {
	target string
	conn   *grpc.ClientConn
}

// NewConns makes an empty set; opts hold for all its connections.
func NewConns(opts DialOptions) *Conns {
	return &Conns{opts: opts, targets: make(map[string]*list.Element), recent: list.New()}
}

// To gives the connection to a target. It is lazy: an unreachable target shows at the first call.
func (c *Conns) To(target string) (*grpc.ClientConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("connect to %s: %w", target, grpc.ErrClientConnClosing)
	}
	if e := c.targets[target]; e != nil {
		c.recent.MoveToFront(e)
		return e.Value.(*targetConn).conn, nil
	}
	conn, err := Dial(target, c.opts)
	if err != nil {
		return nil, err
	}
	c.targets[target] = c.recent.PushFront(&targetConn{target, conn})
	if c.recent.Len() > connsMax {
		oldest := c.recent.Remove(c.recent.Back()).(*targetConn)
		delete(c.targets, oldest.target)
		_ = oldest.conn.Close() // its calls end with CANCELLED; there is nothing to add
	}
	return conn, nil
}

// Close closes all connections.
func (c *Conns) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	var errs []error
	for e := c.recent.Front(); e != nil; e = e.Next() {
		errs = append(errs, e.Value.(*targetConn).conn.Close())
	}
	c.recent.Init()
	clear(c.targets)
	return errors.Join(errs...)
}
