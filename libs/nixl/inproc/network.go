// Package inproc is the transport between workers of one process: a write is a
// copy from one worker's region to another's, a note a queued message. It is what
// `switchyard serve` uses between its own workers.
//
// It does not find agents of other processes; their metadata is answered with
// ErrUnreachable or ErrUnknownPeer. An agent's goroutines belong to its Run.
package inproc

import (
	"fmt"
	"sync"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/gate"
)

// transport is the name in the metadata.
const transport = "inproc"

// Network connects the agents of a process by name. A process makes one and
// hands it to all its workers.
type Network struct {
	mu     sync.Mutex // guards agents, and links and fenced of every agent
	agents map[nixl.PeerID]*agent
}

// NewNetwork makes a network without agents.
func NewNetwork() *Network {
	return &Network{agents: make(map[nixl.PeerID]*agent)}
}

// link is one agent's connection to a peer that it added. Its copies enter the
// gate, which either side may shut.
type link struct {
	from, to *agent
	gate     *gate.Gate
}

// links are an agent's connections: out to the peers it added, in from those that added it.
type links struct {
	out, in map[nixl.PeerID]*link
}

func (l links) any(peer nixl.PeerID) *agent {
	if o := l.out[peer]; o != nil {
		return o.to
	}
	if i := l.in[peer]; i != nil {
		return i.from
	}
	return nil
}

func (n *Network) join(a *agent) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.agents[a.ID()] != nil {
		return fmt.Errorf("nixl agent %s exists already in this process", a.ID())
	}
	n.agents[a.ID()] = a
	return nil
}

// connect links a to the agent that published its metadata, or returns the reason
// why it cannot be.
func (n *Network) connect(a *agent, peer nixl.PeerID) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a.life.Err() != nil {
		return nixl.ErrClosed
	}
	if a.links.out[peer] != nil {
		return nil
	}
	target := n.agents[peer]
	if target == nil {
		return fmt.Errorf("%w in this process", nixl.ErrUnknownPeer)
	}
	if target.fenced[a.ID()] {
		return nixl.ErrFenced
	}
	l := &link{from: a, to: target, gate: new(gate.Gate)}
	a.links.out[peer] = l
	target.links.in[a.ID()] = l
	return nil
}

// cut ends a link that a made, waits until no copy uses it, and tells the peer if
// it was the last.
func (n *Network) cut(l *link, cause error) {
	idle := l.gate.Shut(cause)
	n.mu.Lock()
	if l.from.links.out[l.to.ID()] == l {
		delete(l.from.links.out, l.to.ID())
	}
	last := false
	if l.to.links.in[l.from.ID()] == l {
		delete(l.to.links.in, l.from.ID())
		last = l.to.links.any(l.from.ID()) == nil
	}
	n.mu.Unlock()
	<-idle
	if last {
		l.to.inbox.PutGone(l.from.ID(), fmt.Errorf("%w: it removed us", nixl.ErrGone))
	}
}

// leave takes a out of the network: nobody finds it, its links are cut, and its
// peers hear that it is gone once no copy of it runs.
func (n *Network) leave(a *agent) {
	n.mu.Lock()
	if n.agents[a.ID()] == a {
		delete(n.agents, a.ID())
	}
	gone := fmt.Errorf("%w: %s has closed", nixl.ErrGone, a.ID())
	peers := make(map[*agent]bool)
	var idle []<-chan struct{}
	for id, l := range a.links.out {
		idle = append(idle, l.gate.Shut(nixl.ErrClosed))
		delete(l.to.links.in, a.ID())
		delete(a.links.out, id)
		peers[l.to] = true
	}
	for id, l := range a.links.in {
		idle = append(idle, l.gate.Shut(gone))
		delete(l.from.links.out, a.ID())
		delete(a.links.in, id)
		peers[l.from] = true
	}
	n.mu.Unlock()
	for _, i := range idle {
		<-i
	}
	for peer := range peers {
		peer.inbox.PutGone(a.ID(), gone)
	}
}
