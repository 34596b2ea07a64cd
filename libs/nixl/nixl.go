// Package nixl moves KV blocks directly from worker to worker: one-sided writes
// and reads between registered memory, and small notes that follow the data.
//
// It holds the Agent interface and what all transports share: metadata,
// descriptor checks, errors, counters. The transports are packages of their own:
// inproc (workers of one process) and shm (processes of one host). Who knows
// NVIDIA's NIXL finds its calls here under their names: registerMem is Register,
// getLocalMD Metadata, loadRemoteMD AddPeer, createXferReq with postXferReq is
// Post, getXferStatus is Wait, genNotif is Notify and getNotifs is Receive.
//
// It is not the owner of blocks. Which block may be written by whom is decided in
// libs/block; an Agent checks only that bytes lie within registered regions, and
// answers by Fence whether a peer can still touch them.
//
// An Agent's goroutines belong to its Run; constructors start none.
package nixl

import (
	"context"

	"github.com/switchyard-llm/switchyard/libs/block"
)

// PeerID names an agent: a worker's name and one life of it. A worker that
// restarts has a new incarnation and is therefore another peer.
type PeerID struct {
	Name        string
	Incarnation string
}

func (p PeerID) String() string { return p.Name + "/" + p.Incarnation }

// RegionID numbers an agent's regions in the order of their registration, from 0.
type RegionID int

// Region is memory that peers can write and read. It is mapped, never Go heap,
// starts as zeroes and is backed as it is touched.
type Region interface {
	block.Memory
	// ID is the region's number at its agent.
	ID() RegionID
	// Close waits until no copy of this agent uses the region and unmaps it. All other
	// use of Bytes must have ended, and Bytes must not be used afterwards. Peers in other
	// processes keep their mapping: Close proves nothing about them.
	Close() error
}

// Op is the direction of a transfer.
type Op uint8

const (
	// Write moves from the local region to the peer's.
	Write Op = iota
	// Read moves from the peer's region to the local one.
	Read
)

func (o Op) String() string {
	switch o {
	case Write:
		return "write"
	case Read:
		return "read"
	}
	return "unknown"
}

// Copy pairs a run of bytes of the local region with one of the peer's. Both have
// the same length, which may be zero.
type Copy struct{ Local, Remote block.Span }

// Request describes a transfer.
type Request struct {
	Peer PeerID
	Op   Op
	// Local and Remote choose the regions; zero is the first of each side.
	Local, Remote RegionID
	// Copies must not overlap on the side that is written. Post keeps a copy of its own.
	Copies []Copy
}

// Transfer is a posted request.
type Transfer interface {
	// Wait returns nil once every byte has landed; an error that Is ErrAborted when the
	// transfer ended early and is quiet; an error that Is ErrUnsettled when ctx ended first:
	// then the transfer goes on, and no memory it uses may be given away.
	Wait(ctx context.Context) error
	// Cancel lets no further copy start. It does not wait; Wait tells when the
	// transfer is quiet. A transfer that had finished stays finished.
	Cancel()
}

// Event is what an agent receives: a note, or the news that a peer is gone.
type Event struct {
	// Peer is the sender of the note, or the peer that is gone.
	Peer PeerID
	// Payload is the note; it belongs to the receiver.
	Payload []byte
	// Gone says that the last connection with Peer has ended. It comes after all notes
	// of that connection, and proves nothing about the peer's writes: Fence does.
	Gone bool
	// Err is, with Gone, why.
	Err error
}

// MaxNoteBytes bounds the payload of a note.
const MaxNoteBytes = 64 << 10

// MaxRegions bounds the regions of an agent.
const MaxRegions = 16

// Agent is a worker's end of a transport. Its methods may be called concurrently.
type Agent interface {
	// ID is the agent's own name and incarnation.
	ID() PeerID
	// Register maps a region of blocks. All regions are registered before the first
	// Metadata or AddPeer; a later call is refused, since no peer would see the region.
	Register(layout block.Layout, blocks int) (Region, error)
	// Metadata is what a peer needs for AddPeer, to be published as it is.
	Metadata() ([]byte, error)
	// AddPeer connects to the agent that published metadata, and maps its regions. It is
	// idempotent; concurrent calls share one connection. It waits, as long as ctx allows, for Run to
	// have started. Errors: ErrMismatch, ErrFenced, ErrUnknownPeer, ErrUnreachable, ErrClosed.
	AddPeer(ctx context.Context, metadata []byte) (PeerID, error)
	// RemovePeer aborts the transfers with a peer that was added, unmaps its regions and
	// tells it so. An unknown peer is no error.
	RemovePeer(peer PeerID) error
	// Post checks every descriptor and queues the transfer. ctx bounds only the wait for a
	// place in the queue. On an error nothing was and will be moved.
	// Errors: ErrDescriptor, ErrUnknownPeer, ErrGone, ErrFenced, ErrMismatch, ErrClosed, ctx's own.
	Post(ctx context.Context, r Request) (Transfer, error)
	// Notify queues a note for a peer that was added or that added us; ctx bounds the wait for
	// a place in the queue. The peer receives it after the bytes of all transfers whose Wait
	// returned before the call. nil does not mean that it was received: a note is lost when the
	// connection breaks. Errors: ErrTooLarge, ErrUnknownPeer, ErrGone, ErrClosed, ctx's own.
	Notify(ctx context.Context, peer PeerID, payload []byte) error
	// Receive waits for the next event. The queue is bounded: a receiver that does not
	// come makes its senders wait. After the agent's end it yields what had come, then ErrClosed.
	Receive(ctx context.Context) (Event, error)
	// Fence returns nil as the proof that peer can no longer touch our memory; from then on that
	// incarnation is refused for good. It waits for the proof as long as ctx allows; with an
	// ended ctx it asks once. ErrStillAlive means that there is no proof.
	Fence(ctx context.Context, peer PeerID) error
	// Stats counts what this agent did.
	Stats() Stats
	// Run does the agent's work until ctx ends or Close is called, and returns nil then. It can be
	// called once; afterwards the agent is closed.
	Run(ctx context.Context) error
	// Close ends Run, waits for it, and frees all but the regions, which their owners close
	// afterwards. It is idempotent.
	Close() error
}
