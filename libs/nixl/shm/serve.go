//go:build linux

package shm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/lifecycle"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/wire"
)

// accept serves each connection in a task of its own. Run closes the listener to end it.
func (a *agent) accept() {
	lifecycle.Accept(a.life, a.config.Logger.With("transport", transport), a.listener.AcceptUnix, func(socket *net.UnixConn) {
		c := newConn(socket, a.config.Notes)
		if !a.track(c) || !a.spawn(func() { a.serve(c) }) {
			c.abandon()
		}
	})
}

// track makes sure that a socket in its handshake is closed when the agent ends.
func (a *agent) track(c *conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return false
	}
	a.opened++
	c.order = a.opened
	a.conns[c] = struct{}{}
	return true
}

func (a *agent) serve(c *conn) {
	err := a.shake(c)
	if err == nil {
		a.config.Logger.Info("nixl peer connected", "transport", transport, "peer", c.peer.String())
		err = c.run(func(ctx context.Context, k wire.Kind, payload []byte) error {
			if k == wire.Goodbye {
				a.quiet(c.peer)
				return errors.New("it removed us")
			}
			return a.receive(ctx, c.peer, k, payload)
		})
	} else {
		a.config.Logger.Warn("nixl peer refused", "transport", transport, "peer", c.peer.String(), "error", err)
	}
	c.abandon()
	a.mu.Lock()
	delete(a.conns, c)
	admitted := a.in[c.peer] == c
	if admitted {
		delete(a.in, c.peer)
	}
	last := admitted && a.out[c.peer] == nil
	a.mu.Unlock()
	if admitted {
		a.lost(c.peer, err, last)
	}
	close(c.ended)
}

// shake reads the hello and answers it, within the handshake's time.
func (a *agent) shake(c *conn) error {
	deadline := time.Now().Add(handshakeTimeout)
	if err := c.socket.SetDeadline(deadline); err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	metadata, fds, err := a.judge(ctx, c)
	if err != nil {
		payload, encodeErr := wire.EncodeRefusal(err)
		if encodeErr != nil {
			return errors.Join(err, encodeErr)
		}
		_, writeErr := c.socket.Write(wire.Append(nil, wire.Refusal, payload))
		return errors.Join(err, writeErr)
	}
	if err := sendWelcome(c.socket, metadata, fds); err != nil {
		return fmt.Errorf("welcome: %w", err)
	}
	return c.socket.SetDeadline(time.Time{})
}

// judge returns what the welcome passes, if the other end may have it. From then on
// it counts among those who may write.
func (a *agent) judge(ctx context.Context, c *conn) ([]byte, []int, error) {
	k, payload, err := wire.Read(c.socket)
	if err == nil && k != wire.Hello {
		err = fmt.Errorf("%w: type %d before the hello", wire.ErrFrame, k)
	}
	if errors.Is(err, wire.ErrFrame) {
		a.ledger.Refused()
	}
	if err != nil {
		return nil, nil, err
	}
	own := a.metadata()
	m, err := checkGreeting(payload, own)
	if err != nil {
		return nil, nil, err
	}
	c.peer = m.Peer
	p, err := identify(c.socket, true)
	if err != nil {
		return nil, nil, err
	}
	if err := a.admit(ctx, c, p); err != nil {
		return nil, nil, err
	}
	metadata, err := own.Encode()
	return metadata, a.files(), err
}

// receive handles what both sides may send.
func (a *agent) receive(ctx context.Context, peer nixl.PeerID, k wire.Kind, payload []byte) error {
	if k != wire.Note {
		return fmt.Errorf("%w: type %d out of place", wire.ErrFrame, k)
	}
	return a.inbox.PutNote(ctx, nixl.Event{Peer: peer, Payload: payload})
}

// lost reports the end of a connection, and the peer's if it was the last.
func (a *agent) lost(peer nixl.PeerID, cause error, last bool) {
	if errors.Is(cause, wire.ErrFrame) {
		a.ledger.Add(peer, nixl.Counters{NotesRefused: 1})
	}
	a.config.Logger.Info("nixl connection ended", "transport", transport, "peer", peer.String(), "error", cause)
	if last {
		a.inbox.PutGone(peer, cause)
	}
}
