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

const (
	// maxShaking bounds the connections that have not said who they are; further ones are closed.
	maxShaking = 256
)

// accept greets each connection in a task of its own. Run closes the listener to end it.
func (a *agent) accept() {
	lifecycle.Accept(a.life, a.config.Logger.With("transport", transport), a.listener.Accept, func(socket net.Conn) {
		if !a.track(socket) || !a.spawn(func() { a.greet(socket) }) {
			socket.Close()
		}
	})
}

// track makes sure that a socket in its handshake is closed when the agent ends.
func (a *agent) track(socket net.Conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return false
	}
	if len(a.shaking) >= maxShaking {
		if !a.crowded {
			a.config.Logger.Warn("nixl connections are refused: too many have not said who they are",
				"transport", transport, "connections", maxShaking, "from", socket.RemoteAddr().String())
		}
		a.crowded = true // until there is room again: one line for each time
		return false
	}
	a.crowded = false
	a.shaking[socket] = struct{}{}
	return true
}

func (a *agent) untrack(socket net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.shaking, socket)
}

// greet reads the first frame of a connection, and lets it become part of a link.
func (a *agent) greet(raw net.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	defer cancel()
	l, err := a.shake(ctx, raw)
	if err != nil {
		part(raw)
	}
	a.untrack(raw)
	if err != nil {
		a.config.Logger.Warn("nixl connection refused", "transport", transport, "from", raw.RemoteAddr().String(), "error", err)
		return
	}
	if l != nil {
		a.config.Logger.Info("nixl peer connected", "transport", transport, "peer", l.peer.String())
		l.run()
	}
}

// shake returns the link to be run, if the connection opens one.
func (a *agent) shake(ctx context.Context, raw net.Conn) (*link, error) {
	socket, err := a.secureTaken(ctx, raw)
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	if err := socket.SetDeadline(deadline); err != nil {
		return nil, err
	}
	k, payload, err := readFirst(socket)
	if errors.Is(err, errWithTLS) {
		return nil, errors.Join(err, refuse(raw, err))
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
	var l *link
	if k == wire.Hello {
		l, err = a.welcome(ctx, socket, payload)
	} else {
		err = a.join(socket, payload)
	}
	if err != nil {
		return nil, errors.Join(err, refuse(socket, err))
	}
	return l, nil
}

func refuse(socket net.Conn, err error) error {
	payload, err := wire.EncodeRefusal(err)
	if err == nil {
		_, err = socket.Write(wire.Append(nil, wire.Refusal, payload))
	}
	return err
}

// welcome admits a peer and tells it so.
func (a *agent) welcome(ctx context.Context, socket net.Conn, payload []byte) (*link, error) {
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
		err = covers(socket, m.Peer.Name)
	}
	if err != nil {
		return nil, err
	}
	metadata, err := own.Encode()
	if err != nil {
		return nil, err
	}
	l := a.newLink(m.Peer, min(h.Connections, a.config.Connections))
	l.attempt = h.Attempt
	_, _ = rand.Read(l.nonce[:]) // never fails
	c := newConn(socket, wire.MaxPayloadBytes)
	if err := l.attach(0, c); err != nil {
		return nil, err
	}
	if err := a.admit(ctx, l); err != nil {
		return nil, err
	}
	err = sendJSON(socket, wire.Welcome, welcome{metadata, l.nonce[:], len(l.conns) - 1, h.Verify || a.config.Verify == VerifyOn})
	if err == nil {
		err = socket.SetDeadline(time.Time{})
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
		former, err := a.tryAdmit(l)
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

// tryAdmit returns the former link if that is in the way.
func (a *agent) tryAdmit(l *link) (former *link, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.ended:
		return nil, fmt.Errorf("%w: the agent is closed", nixl.ErrGone)
	case a.fenced[l.peer]:
		return nil, nixl.ErrFenced
	case a.in[l.peer] != nil && a.in[l.peer].attempt >= l.attempt:
		return nil, fmt.Errorf("attempt %d of %s comes after attempt %d", l.attempt, l.peer, a.in[l.peer].attempt)
	case a.in[l.peer] != nil:
		return a.in[l.peer], nil
	}
	a.opened++
	l.order = a.opened
	a.links[l] = struct{}{}
	a.in[l.peer] = l
	a.nonces[l.nonce] = l
	return nil, nil
}

// join makes a data connection part of the link whose nonce it knows.
func (a *agent) join(socket net.Conn, payload []byte) error {
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
	if err := covers(socket, l.peer.Name); err != nil {
		return err
	}
	c := newConn(socket, maxHead)
	if err := l.attach(j.Index, c); err != nil {
		return err
	}
	if err = sendJSON(socket, wire.Welcome, struct{}{}); err == nil {
		err = socket.SetDeadline(time.Time{})
	}
	if err != nil {
		l.stop(gone(err))
		return err
	}
	s := l.newServer(c)
	if !l.start(s.read, s.write) {
		return l.gate.Err()
	}
	return nil
}
