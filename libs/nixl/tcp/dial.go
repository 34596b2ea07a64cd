package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/wire"
)

// AddPeer connects once, however many callers there are.
func (a *agent) AddPeer(ctx context.Context, metadata []byte) (nixl.PeerID, error) {
	m, err := nixl.ParseMetadata(metadata)
	if err != nil {
		return nixl.PeerID{}, err
	}
	if err = a.life.Started(ctx); err == nil {
		err = a.metadata().Compatible(m)
	}
	if err == nil {
		connected := func() (bool, <-chan struct{}, error) { return a.connected(m.Peer) }
		err = a.dials.Do(ctx, m.Peer, connected, func() error { return a.dial(ctx, m) })
	}
	if err != nil {
		return nixl.PeerID{}, fmt.Errorf("add peer %s: %w", m.Peer, err)
	}
	return m.Peer, nil
}

// connected tells whether the peer is, or returns the end of a dying link.
func (a *agent) connected(peer nixl.PeerID) (bool, <-chan struct{}, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return false, nil, nixl.ErrClosed
	}
	l := a.out[peer]
	switch {
	case l == nil:
		return false, nil, nil
	case l.gate.Err() == nil:
		return true, nil, nil
	}
	return false, l.ended, nil
}

func (a *agent) dial(ctx context.Context, m nixl.Metadata) error {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	a.mu.Lock()
	a.dialed++
	attempt := a.dialed
	a.mu.Unlock()
	socket, answer, err := a.open(ctx, m, wire.Hello, func() (any, error) {
		own, err := a.Metadata()
		return hello{
			wire.Greeting{Version: protocolVersion, Wants: m.Peer, Metadata: own},
			attempt, a.config.Connections, a.config.Verify == VerifyOn,
		}, err
	})
	if err != nil {
		return err
	}
	l, err := a.meet(m, answer)
	if err != nil {
		socket.Close()
		return err
	}
	if err = l.attach(0, newConn(socket, wire.MaxPayloadBytes)); err == nil {
		err = l.dialData(ctx, m)
	}
	if err == nil {
		err = a.install(l)
	}
	if err != nil {
		l.kill(err)
		return err
	}
	a.config.Logger.InfoContext(ctx, "nixl peer added", "transport", transport, "peer", m.Peer.String())
	return nil
}

// open makes a connection to an agent and exchanges its first frames. ctx bounds all of it.
func (a *agent) open(ctx context.Context, m nixl.Metadata, k wire.Kind, greeting func() (any, error)) (net.Conn, []byte, error) {
	first, err := greeting()
	if err != nil {
		return nil, nil, err
	}
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", m.Address)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", nixl.ErrUnreachable, err)
	}
	socket, err := a.secureMade(ctx, raw, m.Peer.Name)
	if err != nil {
		raw.Close()
		return nil, nil, err
	}
	done := within(ctx, socket)
	answer, err := exchange(socket, k, first)
	if late := done(); late != nil && (err == nil || !refusedBy(err)) {
		err = fmt.Errorf("%w: %w", nixl.ErrUnreachable, errors.Join(err, late))
	}
	if err != nil {
		socket.Close()
		return nil, nil, err
	}
	return socket, answer, nil
}

// refusedBy tells an answer of the peer from the lack of one.
func refusedBy(err error) bool { return !errors.Is(err, nixl.ErrUnreachable) }

func exchange(socket net.Conn, k wire.Kind, first any) ([]byte, error) {
	err := sendJSON(socket, k, first)
	var payload []byte
	if err == nil {
		k, payload, err = readFirst(socket)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", nixl.ErrUnreachable, err)
	case k == wire.Refusal:
		return nil, wire.DecodeRefusal(payload)
	case k != wire.Welcome:
		return nil, fmt.Errorf("%w: %w: answer of type %d", nixl.ErrUnreachable, wire.ErrFrame, k)
	}
	return payload, nil
}

// meet checks who answered, and makes the link.
func (a *agent) meet(m nixl.Metadata, answer []byte) (*link, error) {
	w, err := parse[welcome](answer)
	if err == nil {
		err = w.check(a.config.Connections)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", nixl.ErrUnreachable, err)
	}
	actual, err := nixl.ParseMetadata(w.Metadata)
	if err == nil && actual.Peer != m.Peer {
		err = fmt.Errorf("%w: here is %s", nixl.ErrUnknownPeer, actual.Peer)
	}
	if err == nil {
		err = a.metadata().Compatible(actual)
	}
	if err != nil {
		return nil, err
	}
	l := a.newLink(m.Peer, w.Connections)
	l.added, l.verify, l.regions = true, w.Verify, actual.Regions
	copy(l.nonce[:], w.Nonce)
	l.outbox = newOutbox(l, a.config.Transfers)
	return l, nil
}

// dialData opens the data connections, all at once.
func (l *link) dialData(ctx context.Context, m nixl.Metadata) error {
	errs := make([]error, len(l.conns)-1)
	var dialing sync.WaitGroup
	for i := range errs {
		dialing.Go(func() {
			socket, _, err := l.agent.open(ctx, m, kindJoin, func() (any, error) {
				return join{protocolVersion, l.nonce[:], i + 1}, nil
			})
			if err == nil {
				if err = l.attach(i+1, newConn(socket, maxHead)); err != nil {
					socket.Close()
				}
			}
			errs[i] = err
		})
	}
	dialing.Wait()
	switch err := errors.Join(errs...); {
	case errors.Is(err, nixl.ErrFenced):
		return nixl.ErrFenced
	case err != nil:
		return fmt.Errorf("%w: its data connections: %w", nixl.ErrUnreachable, err)
	}
	for _, c := range l.conns[1:] {
		l.outbox.clients = append(l.outbox.clients, l.newClient(c))
	}
	return nil
}

// install shares a connected peer and lets it run.
func (a *agent) install(l *link) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return nixl.ErrClosed
	}
	a.opened++
	l.order = a.opened
	a.links[l] = struct{}{}
	a.out[l.peer] = l
	a.know(l.peer)
	delete(a.outcast, l.peer)
	a.tasks.Go(l.run)
	return nil
}
