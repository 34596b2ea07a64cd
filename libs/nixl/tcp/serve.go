package tcp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/lifecycle"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/wire"
)

// caller is a connection that has not said who it is.
type caller struct {
	raw    net.Conn
	socket net.Conn           // raw, or TLS over it
	drop   context.CancelFunc // ends the handshake
	done   func() error       // within's
}

// accept greets each connection in a task of its own. Run closes the listener to end it.
func (a *agent) accept() {
	lifecycle.Accept(a.life, a.config.Logger.With("transport", transport), a.listener.Accept, func(socket net.Conn) {
		ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
		c := &caller{raw: socket, socket: socket, drop: cancel}
		if !a.track(c) || !a.spawn(func() { a.greet(ctx, c) }) {
			cancel()
			socket.Close()
		}
	})
}

// track makes sure that a handshake ends with the agent, and when there are too many. Nothing is
// waited for, as others want to be accepted meanwhile.
func (a *agent) track(c *caller) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return false
	}
	out, full := a.callers.add(c, placeOf(c.raw))
	if !full {
		return true
	}
	out.drop()
	if a.callers.tell(time.Now()) {
		a.config.Logger.Warn("nixl connections are closed: too many have not said who they are",
			"transport", transport, "connections", len(a.callers.members), "from", out.raw.RemoteAddr().String())
	}
	return true
}

// untrack tells whether the caller was tracked still; else it has been dropped.
func (a *agent) untrack(c *caller) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.callers.remove(c)
}

// keep lets a caller stay whose handshake is done, unless that comes too late.
func (a *agent) keep(c *caller) error {
	if !a.untrack(c) {
		return context.Canceled
	}
	return c.done()
}

// greet reads the first frame of a connection, and lets it become part of a link.
func (a *agent) greet(ctx context.Context, c *caller) {
	l, err := a.shake(ctx, c)
	dropped := ctx.Err() == context.Canceled // by us, who have said so or are at our end
	switch {
	case err != nil && ctx.Err() == nil:
		part(c.raw)
	case err != nil:
		c.raw.Close()
	}
	a.untrack(c)
	c.drop()
	if err != nil {
		if !dropped {
			a.config.Logger.Warn("nixl connection refused", "transport", transport, "from", c.raw.RemoteAddr().String(), "error", err)
		}
		return
	}
	if l != nil {
		a.config.Logger.Info("nixl peer connected", "transport", transport, "peer", l.peer.String())
		l.run()
	}
}

// shake returns the link to be run, if the connection opens one.
func (a *agent) shake(ctx context.Context, c *caller) (l *link, err error) {
	if c.socket, err = a.secureTaken(ctx, c.raw); err != nil {
		return nil, err
	}
	c.done = within(ctx, c.raw)
	k, payload, err := readFirst(c.socket)
	if errors.Is(err, errWithTLS) {
		return nil, errors.Join(err, refuse(c.raw, err))
	}
	if err == nil && k != wire.Hello && k != kindJoin {
		err = fmt.Errorf("%w: type %d before the hello", wire.ErrFrame, k)
	}
	if errors.Is(err, wire.ErrFrame) {
		a.ledger.Refused()
	}
	if err != nil {
		return nil, err
	}
	if k == wire.Hello {
		l, err = a.welcome(ctx, c, payload)
	} else {
		err = a.join(c, payload)
	}
	if err != nil {
		return nil, errors.Join(err, refuse(c.socket, err))
	}
	return l, nil
}

// refuse says why, to one who may not read it.
func refuse(socket net.Conn, why error) error {
	payload, err := wire.EncodeRefusal(why)
	if err == nil {
		err = socket.SetWriteDeadline(time.Now().Add(goodbyeTimeout))
	}
	if err == nil {
		_, err = socket.Write(wire.Append(nil, wire.Refusal, payload))
	}
	return err
}

// welcome admits a peer and tells it so.
func (a *agent) welcome(ctx context.Context, caller *caller, payload []byte) (*link, error) {
	h, err := parse[hello](payload)
	if err != nil {
		return nil, err
	}
	own := a.metadata()
	m, err := h.Check(own, protocolVersion) // first: another version's hello may be bounded otherwise
	if err == nil {
		err = h.check()
	}
	if err == nil {
		err = covers(caller.socket, m.Peer.Name)
	}
	if err != nil {
		return nil, err
	}
	metadata, err := own.Encode()
	if err != nil {
		return nil, err
	}
	l := a.newLink(m.Peer, min(h.Connections, a.config.Connections))
	l.attempt, l.from = h.Attempt, placeOf(caller.raw)
	_, _ = rand.Read(l.nonce[:]) // never fails
	if err := l.attach(0, newConn(caller.socket, wire.MaxPayloadBytes)); err != nil {
		return nil, err
	}
	if err := a.admit(ctx, l); err != nil {
		return nil, err
	}
	err = sendJSON(caller.socket, wire.Welcome, welcome{metadata, l.nonce[:], len(l.conns) - 1, h.Verify || a.config.Verify == VerifyOn})
	if err == nil {
		err = a.keep(caller)
	}
	if err != nil { // the link has been seen, so that it must come to its end
		l.stop(gone(err))
	}
	return l, nil
}

// admit takes a link in. A peer has one at a time: an earlier one, which it has given up, is
// ended first.
func (a *agent) admit(ctx context.Context, l *link) error {
	for {
		former, stranger, err := a.tryAdmit(l)
		if stranger != nil {
			stranger.kill(nil)
		}
		if err != nil || former == nil {
			return err
		}
		former.stop(fmt.Errorf("%w: it has connected again", nixl.ErrGone))
		select {
		case <-former.ended:
		case <-ctx.Done():
			return fmt.Errorf("%s is connected already", l.peer)
		}
	}
}

// tryAdmit returns the former link if that is in the way, or the one of a stranger that has to go.
func (a *agent) tryAdmit(l *link) (former, stranger *link, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.ended:
		return nil, nil, fmt.Errorf("%w: the agent is closed", nixl.ErrGone)
	case a.fenced[l.peer]:
		return nil, nil, nixl.ErrFenced
	case a.in[l.peer] != nil && a.in[l.peer].attempt >= l.attempt:
		return nil, nil, fmt.Errorf("attempt %d of %s comes after attempt %d", l.attempt, l.peer, a.in[l.peer].attempt)
	case a.in[l.peer] != nil:
		return a.in[l.peer], nil, nil
	}
	a.opened++
	l.order = a.opened
	a.links[l] = struct{}{}
	a.in[l.peer] = l
	a.nonces[l.nonce] = l
	if a.out[l.peer] == nil && !a.grants.Knows(l.peer) {
		stranger = a.admitStranger(l)
	}
	return nil, stranger, nil
}

// admitStranger stops the link of another stranger if there are too many. Nobody here misses it.
// It is called within mu.
func (a *agent) admitStranger(l *link) *link {
	out, full := a.strangers.add(l, l.from)
	if !full {
		return nil
	}
	out.remove(fmt.Errorf("%w: too many have connected that nobody here has met", nixl.ErrGone))
	if a.strangers.tell(time.Now()) {
		a.config.Logger.Warn("nixl peers are disconnected: too many have connected that nobody here has met",
			"transport", transport, "peers", len(a.strangers.members), "from", out.from.String())
	}
	return out
}

// join makes a data connection part of the link whose nonce it knows.
func (a *agent) join(caller *caller, payload []byte) error {
	j, err := parse[join](payload)
	if err == nil {
		err = j.check()
	}
	if err != nil {
		return err
	}
	a.mu.Lock()
	l := a.nonces[nonce(j.Nonce)]
	a.mu.Unlock()
	if l == nil {
		return fmt.Errorf("%w: no link has that nonce", nixl.ErrGone)
	}
	if err := covers(caller.socket, l.peer.Name); err != nil {
		return err
	}
	if err := a.keep(caller); err != nil { // before it is part of the link, which would end with it
		return err
	}
	c := newConn(caller.socket, maxHead)
	if err := l.attach(j.Index, c); err != nil {
		return err
	}
	if err := sendJSON(caller.socket, wire.Welcome, struct{}{}); err != nil {
		l.stop(gone(err))
		return err
	}
	s := l.newServer(c)
	if !l.start(s.read, s.write) {
		return l.gate.Err()
	}
	return nil
}
