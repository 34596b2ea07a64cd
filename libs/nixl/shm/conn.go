//go:build linux

package shm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/wire"
)

// goodbyeTimeout bounds the wait for a peer that does not read.
const goodbyeTimeout = 500 * time.Millisecond

// conn is an open socket between two agents. Its two loops belong to run; notes
// wait for the writing loop in a bounded queue.
type conn struct {
	socket *net.UnixConn
	peer   nixl.PeerID // set before the conn is shared
	order  uint64      // by age; set before the conn is shared
	queue  chan outgoingFrame

	quit  chan struct{} // closed by abandon
	once  sync.Once
	ended chan struct{} // closed when the agent has forgotten the conn
}

type outgoingFrame struct {
	bytes   []byte
	written chan<- struct{} // closed after the write, unless nil
}

func newConn(socket *net.UnixConn, notes int) *conn {
	return &conn{
		socket: socket, queue: make(chan outgoingFrame, notes),
		quit: make(chan struct{}), ended: make(chan struct{}),
	}
}

// abandon ends the connection at once; what is queued is lost.
func (c *conn) abandon() {
	c.once.Do(func() {
		close(c.quit)
		c.socket.Close()
	})
}

// enqueue waits for a place while ctx lasts.
func (c *conn) enqueue(ctx context.Context, f outgoingFrame) error {
	select {
	case <-c.quit:
		return nixl.ErrGone
	default:
	}
	select {
	case c.queue <- f:
		return nil
	case <-c.quit:
		return nixl.ErrGone
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sayGoodbye tells the peer that we have unmapped its memory. A peer that does not
// read learns it from the end of our process, if it must know.
func (c *conn) sayGoodbye() {
	ctx, cancel := context.WithTimeout(context.Background(), goodbyeTimeout)
	defer cancel()
	written := make(chan struct{})
	if c.enqueue(ctx, outgoingFrame{wire.Append(nil, wire.Goodbye, nil), written}) != nil {
		return
	}
	select {
	case <-written:
	case <-c.quit:
	case <-ctx.Done():
	}
}

// run passes frames to handle until the connection ends, and returns why.
func (c *conn) run(handle func(context.Context, wire.Kind, []byte) error) error {
	ctx, cancel := context.WithCancel(context.Background())
	var loops sync.WaitGroup
	loops.Go(func() { c.write() })
	loops.Go(func() { // so that a handler that waits for a place in the inbox ends as well
		<-c.quit
		cancel()
	})
	err := c.read(ctx, handle)
	c.abandon()
	loops.Wait()
	return err
}

func (c *conn) read(ctx context.Context, handle func(context.Context, wire.Kind, []byte) error) error {
	r := bufio.NewReaderSize(c.socket, 16<<10)
	for {
		k, payload, err := wire.Read(r)
		if err == nil {
			err = handle(ctx, k, payload)
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%w: its end of the connection closed", nixl.ErrGone)
		default:
			return fmt.Errorf("%w: %w", nixl.ErrGone, err)
		}
	}
}

func (c *conn) write() {
	for {
		select {
		case f := <-c.queue:
			if _, err := c.socket.Write(f.bytes); err != nil {
				c.abandon() // the reading loop reports the end
				return
			}
			if f.written != nil {
				close(f.written)
			}
		case <-c.quit:
			return
		}
	}
}
