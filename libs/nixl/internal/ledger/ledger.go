// Package ledger keeps an agent's counters, in total and by peer. It starts no
// goroutine.
package ledger

import (
	"sync"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// maxPeers bounds the peers that are counted one by one; every restart of a
// worker makes another.
const maxPeers = 1024

// Ledger is ready as its zero value. Its methods may be called concurrently.
type Ledger struct {
	mu    sync.Mutex // guards all below
	total nixl.Counters
	peers map[nixl.PeerID]*nixl.Counters
	met   []nixl.PeerID // in the order in which they were met
}

// Add counts d for peer.
func (l *Ledger) Add(peer nixl.PeerID, d nixl.Counters) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total.Add(d)
	c := l.peers[peer]
	if c == nil {
		c = l.meet(peer)
	}
	c.Add(d)
}

// Refused counts a refused frame of a sender that is not known yet.
func (l *Ledger) Refused() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total.NotesRefused++
}

func (l *Ledger) meet(peer nixl.PeerID) *nixl.Counters {
	if l.peers == nil {
		l.peers = make(map[nixl.PeerID]*nixl.Counters)
	}
	if len(l.met) == maxPeers {
		delete(l.peers, l.met[0])
		l.met = l.met[1:]
	}
	c := new(nixl.Counters)
	l.peers[peer] = c
	l.met = append(l.met, peer)
	return c
}

// Stats is a copy of the counters.
func (l *Ledger) Stats() nixl.Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := nixl.Stats{Counters: l.total, Peers: make(map[nixl.PeerID]nixl.Counters, len(l.peers))}
	for peer, c := range l.peers {
		s.Peers[peer] = *c
	}
	return s
}
