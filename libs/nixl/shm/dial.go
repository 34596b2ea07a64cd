//go:build linux

package shm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/gate"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/region"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/wire"
)

// handshakeTimeout bounds the exchange of hello and welcome on both sides.
const handshakeTimeout = 5 * time.Second

// outgoing is a peer that we added: the connection and our mapping of its regions.
type outgoing struct {
	conn    *conn
	gate    gate.Gate // entered by the copies to and from the mapping
	regions []*region.Region
	removed bool // by us; guarded by the agent's mu
}

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
		err = a.addPeer(ctx, m)
	}
	if err != nil {
		return nixl.PeerID{}, fmt.Errorf("add peer %s: %w", m.Peer, err)
	}
	return m.Peer, nil
}

func (a *agent) addPeer(ctx context.Context, m nixl.Metadata) error {
	connected := func() (bool, <-chan struct{}, error) { return a.connected(m.Peer) }
	return a.dials.Do(ctx, m.Peer, connected, func() error { return a.dial(ctx, m) })
}

// connected tells whether the peer is, or returns the end of a dying connection: the
// peer relies on one mapping of its memory at a time.
func (a *agent) connected(peer nixl.PeerID) (bool, <-chan struct{}, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return false, nil, nixl.ErrClosed
	}
	o := a.out[peer]
	switch {
	case o == nil:
		return false, nil, nil
	case o.gate.Err() == nil:
		return true, nil, nil
	}
	return false, o.conn.ended, nil
}

func (a *agent) dial(ctx context.Context, m nixl.Metadata) error {
	if err := checkSocket(m.Address); err != nil {
		return fmt.Errorf("%w: %w", nixl.ErrUnreachable, err)
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	var d net.Dialer
	raw, err := d.DialContext(ctx, "unix", m.Address)
	if err != nil {
		return fmt.Errorf("%w: %w", nixl.ErrUnreachable, err)
	}
	socket := raw.(*net.UnixConn)
	regions, err := a.greet(ctx, socket, m)
	if err != nil {
		socket.Close()
		return err
	}
	o := &outgoing{conn: newConn(socket, a.config.Notes), regions: regions}
	o.conn.peer = m.Peer
	if !a.install(o) {
		socket.Close()
		closeAll(regions)
		return nixl.ErrClosed
	}
	a.config.Logger.InfoContext(ctx, "nixl peer added", "transport", transport, "peer", m.Peer.String())
	return nil
}

// greet says hello and maps what the peer passes. The context bounds all of it.
func (a *agent) greet(ctx context.Context, socket *net.UnixConn, m nixl.Metadata) ([]*region.Region, error) {
	defer context.AfterFunc(ctx, func() { _ = socket.SetDeadline(time.Unix(1, 0)) })()
	k, payload, fds, err := a.exchange(socket, m.Peer)
	if err == nil && k == wire.Refusal {
		err = wire.DecodeRefusal(payload)
	} else if err == nil && k != wire.Welcome {
		err = fmt.Errorf("%w: answer of type %d", wire.ErrFrame, k)
	} else if err != nil {
		err = fmt.Errorf("%w: %w", nixl.ErrUnreachable, errors.Join(err, ctx.Err()))
	}
	if err != nil {
		closeFDs(fds)
		return nil, err
	}
	actual, err := nixl.ParseMetadata(payload)
	if err == nil && actual.Peer != m.Peer {
		err = fmt.Errorf("%w: here is %s", nixl.ErrUnknownPeer, actual.Peer)
	}
	if err == nil {
		err = a.metadata().Compatible(actual)
	}
	if err != nil {
		closeFDs(fds)
		return nil, err
	}
	regions, err := openMemory(actual.Regions, fds)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", nixl.ErrUnreachable, err)
	}
	// From here on only the agent ends the connection; ctx may have ended just now.
	if ctx.Err() != nil {
		closeAll(regions)
		return nil, fmt.Errorf("%w: %w", nixl.ErrUnreachable, ctx.Err())
	}
	return regions, nil
}

func (a *agent) exchange(socket *net.UnixConn, peer nixl.PeerID) (wire.Kind, []byte, []int, error) {
	if err := checkUser(socket); err != nil {
		return 0, nil, nil, err
	}
	own, err := a.Metadata()
	if err != nil {
		return 0, nil, nil, err
	}
	payload, err := json.Marshal(wire.Greeting{Version: protocolVersion, Wants: peer, Metadata: own})
	if err != nil {
		return 0, nil, nil, err
	}
	if _, err := socket.Write(wire.Append(nil, wire.Hello, payload)); err != nil {
		return 0, nil, nil, err
	}
	return receiveAnswer(socket)
}

// install shares a connected peer and starts its loops.
func (a *agent) install(o *outgoing) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return false
	}
	a.opened++
	o.conn.order = a.opened
	a.conns[o.conn] = struct{}{}
	a.out[o.conn.peer] = o
	a.tasks.Go(func() {
		err := o.conn.run(func(ctx context.Context, k wire.Kind, payload []byte) error {
			return a.receive(ctx, o.conn.peer, k, payload)
		})
		a.forget(o, err)
	})
	return true
}

// forget ends a peer whose connection has ended: its copies are stopped and its
// regions unmapped before anyone can add it again.
func (a *agent) forget(o *outgoing, cause error) {
	<-o.gate.Shut(cause)
	closeAll(o.regions)
	peer := o.conn.peer
	a.mu.Lock()
	delete(a.conns, o.conn)
	delete(a.out, peer)
	last := !o.removed && a.in[peer] == nil
	a.mu.Unlock()
	a.lost(peer, cause, last)
	close(o.conn.ended)
}

// RemovePeer stops the copies, unmaps, says so, and waits until the connection is gone.
func (a *agent) RemovePeer(peer nixl.PeerID) error {
	a.mu.Lock()
	o := a.out[peer]
	if o != nil {
		o.removed = true
	}
	a.mu.Unlock()
	if o == nil {
		return nil
	}
	<-o.gate.Shut(fmt.Errorf("%w: we removed it", nixl.ErrGone))
	closeAll(o.regions)
	o.conn.sayGoodbye()
	o.conn.abandon()
	<-o.conn.ended
	return nil
}
