//go:build cgo && linux

package capi

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/capi/internal/native"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/gate"
)

// link is one side's connection with the other: notes both ways, and from the side that
// added the other also transfers. A pair has up to one in each direction.
type link struct {
	peer  *peer
	id    uint64 // numbered by the side that added the other
	out   bool   // we added the peer
	order uint64 // by age at this agent

	// Of a peer that we added; set before the link is ready.
	gate    gate.Gate // entered by transfers from their post to their end
	infos   []nixl.RegionInfo
	places  []native.Region
	handles handles

	// Sending.
	window chan struct{} // holds a token for each note that the peer has not taken
	sendMu sync.Mutex    // orders number and call
	sent   uint64        // number of the next frame

	// Receiving; the poller's.
	expected uint64
	early    map[uint64]frame
	credited uint64 // of our notes taken by the peer
	heard    time.Time

	ctx      context.Context // of the notes on their way; ends when nobody is to get them
	cancel   context.CancelFunc
	notes    chan []byte   // on their way to the inbox; as many as the peer may send
	taken    atomic.Uint64 // of the peer's notes, by the inbox
	telling  uint64        // after how many of them the peer is told; set before the link is ready
	answer   chan frame    // to our hello; has room for one
	farewell chan struct{} // closed when the peer has answered our goodbye

	once     sync.Once
	quit     chan struct{} // closed by stop
	cause    error         // set before quit is closed
	end      end           // as cause
	orphaned chan struct{} // closed when transfers are left whose end cannot be told
	detached chan struct{} // closed when NIXL holds nothing of the link but orphans
	ended    chan struct{} // closed when the agent has forgotten the link

	ready bool // both sides have greeted; guarded by the agent's mu
}

// end says what to do about a link that stops.
type end uint8

const (
	// byPeer: its last frame was read; ours says goodbye.
	byPeer end = iota
	// byUs: notes that have not been taken are dropped; the peer is told; nobody here asks why.
	byUs
	// silent: the peer may be told, but transfers are not waited for long.
	silent
	// broken: the peer cannot be told.
	broken
)

func newLink(p *peer, id uint64, out bool, notes int) *link {
	ctx, cancel := context.WithCancel(context.Background())
	return &link{
		ctx: ctx, cancel: cancel, telling: uint64(max(1, notes/4)), sent: 1, // 0 is the greeting
		peer: p, id: id, out: out, early: make(map[uint64]frame), heard: time.Now(),
		window: make(chan struct{}, notes), notes: make(chan []byte, notes), answer: make(chan frame, 1), farewell: make(chan struct{}),
		quit: make(chan struct{}), orphaned: make(chan struct{}), detached: make(chan struct{}), ended: make(chan struct{}),
	}
}

// stop begins the end of the link; its first cause stays.
func (l *link) stop(cause error, how end) {
	l.once.Do(func() {
		l.cause, l.end = cause, how
		l.gate.Shut(cause)
		close(l.quit)
		if how == byUs {
			l.cancel()
		}
	})
}

// reserve waits for a place in the peer's inbox while ctx lasts.
func (l *link) reserve(ctx context.Context) error {
	select {
	case <-l.quit:
		return nixl.ErrGone
	default:
	}
	select {
	case l.window <- struct{}{}:
		return nil
	default:
	}
	select {
	case l.window <- struct{}{}:
		return nil
	case <-l.quit:
		return nixl.ErrGone
	case <-ctx.Done():
		return ctx.Err()
	}
}

// narrow fits the window to a peer that takes fewer notes than we do.
func (l *link) narrow(theirs int) {
	for range cap(l.window) - theirs {
		l.window <- struct{}{}
	}
	l.telling = uint64(max(1, min(cap(l.notes), theirs)/4))
}

// credit gives back the places of notes that the peer has taken.
func (l *link) credit(taken uint64) {
	for ; l.credited < taken; l.credited++ {
		select {
		case <-l.window:
		default:
			return // it counts more than it got
		}
	}
}

// frame is one of a kind, without a number.
func (l *link) frame(self nixl.PeerID, k kind, payload []byte) frame {
	return frame{kind: k, adder: l.out, sender: self, link: l.id, taken: l.taken.Load(), payload: payload}
}

// sort returns the numbered frames whose turn has come with f. An error says that the
// peer does not keep to the protocol.
func (l *link) sort(f frame) (turn []frame, err error) {
	if f.number < l.expected {
		return nil, nil
	}
	if len(l.early) > cap(l.notes)+2 {
		return nil, fmt.Errorf("%w: frame %d is missing", errFrame, l.expected)
	}
	l.early[f.number] = f
	for {
		next, here := l.early[l.expected]
		if !here {
			return turn, nil
		}
		delete(l.early, l.expected)
		l.expected++
		turn = append(turn, next)
	}
}
