package tcp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/gate"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/wire"
)

// goodbyeTimeout bounds the wait for a peer that sends nothing at the end of a link.
const goodbyeTimeout = 500 * time.Millisecond

// link is all that connects us with a peer in one direction: the side that added the other
// moves bytes, both send notes. Its goroutines are awaited by run.
type link struct {
	agent   *agent
	peer    nixl.PeerID
	order   uint64       // by age
	attempt uint64       // of a peer that added us, by which it numbers its links
	from    netip.Prefix // of a peer that added us
	added   bool         // we added the peer, else it added us
	verify  bool
	nonce   nonce
	regions []nixl.RegionInfo // of a peer that we added

	// gate is shut when the link is to end. Whoever touches our memory for a peer that added us
	// is within it.
	gate     gate.Gate
	stopping chan struct{} // closed with the gate
	killed   chan struct{} // closed when the sockets are
	ended    chan struct{} // closed when the agent has forgotten the link

	notes  notes
	outbox *outbox // of a peer that we added

	mu       sync.Mutex // guards all below
	conns    []*conn    // by index: that of the notes, then those of the data; nil: not joined yet
	joined   int
	stopped  bool // no loop may begin
	farewell code // what the goodbye says
	dead     bool
	removed  bool           // by us
	loops    sync.WaitGroup // grows under mu while !stopped
}

func (a *agent) newLink(peer nixl.PeerID, connections int) *link {
	l := &link{
		agent: a, peer: peer, conns: make([]*conn, 1+connections),
		stopping: make(chan struct{}), killed: make(chan struct{}), ended: make(chan struct{}),
	}
	l.notes.init(a.config.Notes)
	return l
}

// stop lets the link end: nothing new begins, what is under way is told good bye. The
// first cause stays.
func (l *link) stop(cause error) { l.stopWith(cause, codeGone) }

func (l *link) stopWith(cause error, farewell code) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stopped {
		l.stopped, l.farewell = true, farewell
		l.gate.Shut(cause)
		close(l.stopping)
	}
}

// remove is stop of our own accord, which is no news.
func (l *link) remove(cause error) {
	l.mu.Lock()
	l.removed = true
	l.mu.Unlock()
	l.stop(cause)
}

// goodbye is the frame with which each connection ends, once nothing of the peer's touches
// our memory any more.
func (l *link) goodbye() []byte {
	<-l.gate.Shut(nil) // it is shut; who is within it does not wait for anyone
	l.mu.Lock()
	defer l.mu.Unlock()
	return appendGoodbye(nil, l.farewell, l.gate.Err())
}

// kill ends the connections at once.
func (l *link) kill(cause error) {
	l.stop(cause)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return
	}
	l.dead = true
	close(l.killed)
	for _, c := range l.conns {
		if c != nil {
			c.close()
		}
	}
}

// attach makes a connection part of the link, unless its place is taken.
func (l *link) attach(index int, c *conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.stopped && l.farewell == codeFenced:
		return nixl.ErrFenced
	case l.stopped:
		return l.gate.Err()
	case index < 0 || index >= len(l.conns) || l.conns[index] != nil:
		return fmt.Errorf("no place for connection %d among %d", index, len(l.conns))
	}
	l.conns[index] = c
	l.joined++
	return nil
}

// start runs the loops of a connection until the link ends; false when it has ended.
func (l *link) start(loops ...func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return false
	}
	for _, loop := range loops {
		l.loops.Go(loop)
	}
	return true
}

// run carries the link until its end.
func (l *link) run() {
	l.notes.conn = l.conns[0]
	delivering, cancel := context.WithCancel(context.Background())
	defer cancel()
	l.start(l.readNotes, l.writeNotes, func() { l.deliver(delivering) })
	if l.added {
		for _, c := range l.outbox.clients {
			l.start(c.read, c.write)
		}
	}
	l.watch()
	cancel()
	l.linger()
	l.kill(nil)
	l.loops.Wait()
	cause := l.gate.Err()
	if l.added {
		l.outbox.end(cause)
	}
	l.agent.forget(l, cause)
	close(l.ended)
}

// watch sends signs of life and looks for the peer's until the link stops.
func (l *link) watch() {
	beat := l.agent.config.beat()
	patience := int(l.agent.config.Silence / beat)
	ticks := time.NewTicker(beat)
	defer ticks.Stop()
	for age := time.Duration(0); ; age += beat {
		select {
		case <-l.stopping:
			return
		case <-ticks.C:
		}
		l.mu.Lock()
		conns, missing := l.conns, l.joined < len(l.conns)
		var silent error
		for i, c := range conns {
			if c != nil {
				silent = errors.Join(silent, c.look(i, patience, l.agent.config.Silence))
			}
		}
		l.mu.Unlock()
		if missing && age > handshakeTimeout {
			silent = errors.New("it did not open all connections")
		}
		if silent != nil {
			l.kill(fmt.Errorf("%w: %w", nixl.ErrGone, silent))
			return
		}
	}
}

// look asks for a sign of life, and reports a peer that has been silent for that many looks.
func (c *conn) look(index, patience int, silence time.Duration) error {
	select {
	case c.beats <- struct{}{}:
	default:
	}
	c.silent++
	if c.meter.heard.Swap(false) {
		c.silent = 0
	}
	c.stalled++
	if c.meter.wrote.Swap(false) || !c.meter.writing.Load() {
		c.stalled = 0
	}
	c.late++
	if n := c.meter.frames.Load(); n != c.frames || !c.meter.partial.Load() {
		c.late, c.frames = 0, n
	}
	switch {
	case c.late > patience: // a damaged length would be waited for with the signs of life that follow
		return fmt.Errorf("connection %d: %w: it does not end within %v", index, wire.ErrFrame, silence)
	case c.silent > patience:
		return fmt.Errorf("connection %d: it has been silent for %v", index, silence)
	case c.stalled > patience:
		return fmt.Errorf("connection %d: it has taken nothing for %v", index, silence)
	}
	return nil
}

// linger waits until both sides have said good bye on all connections, while the peer
// sends anything, and not for ever.
func (l *link) linger() {
	done := make(chan struct{})
	go func() { l.loops.Wait(); close(done) }() // ends with the loops, which run awaits
	looks := time.NewTicker(goodbyeTimeout)
	defer looks.Stop()
	last := time.NewTimer(l.agent.config.Silence)
	defer last.Stop()
	for {
		select {
		case <-done:
			return
		case <-l.killed:
			return
		case <-last.C:
			return
		case <-looks.C:
			if !l.heard() {
				return
			}
		}
	}
}

func (l *link) heard() (any bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		if c != nil && c.meter.heard.Swap(false) {
			any = true
		}
	}
	return any
}

// corrupt tells whether the cause is to be counted as a refused frame.
func corrupt(cause error) bool {
	return errors.Is(cause, wire.ErrFrame) || errors.Is(cause, nixl.ErrChecksum)
}
