// Package nixl moves KV blocks directly from worker to worker: one-sided writes
// and reads between registered memory, and small notes that follow the data.
//
// It holds the Agent interface and what all transports share: metadata,
// descriptor checks, errors, counters. The transports are packages of their own.
// Who knows NVIDIA's NIXL finds its calls here:
//
//	registerMem              Agent.Register; deregisterMem is Region.Close
//	getLocalMD, loadRemoteMD Agent.Metadata, Agent.AddPeer
//	invalidateRemoteMD       Agent.RemovePeer
//	prepXferDlist            Agent.Prepare; releaseDlistH is List.Release
//	makeXferReq              Agent.Make, from prepared lists
//	createXferReq            Agent.Create, from copies
//	postXferReq              Transfer.Post
//	getXferStatus            Transfer.Status, Transfer.Wait
//	releaseXferReq           Transfer.Release
//	genNotif, getNotifs      Agent.Notify, Agent.Receive
//
// What NIXL does not have: Allow and Revoke, by which the owner of memory says which
// blocks a peer may touch, Fence, and errors that tell whether a transfer that ended
// early is quiet.
//
// It is not the owner of blocks. Which block may be written by whom is decided in
// libs/block; an Agent checks that bytes lie within registered regions and granted
// blocks, and answers by Revoke and Fence whether a peer can still touch them.
//
// An Agent's goroutines belong to its Run; constructors start none.
package nixl

import (
	"context"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
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

// Region is memory of blocks that peers can write and read.
type Region interface {
	block.Memory
	// ID is the region's number at its agent.
	ID() RegionID
	// Epoch counts how often some of the memory was moved away from a peer. A grant carries it:
	// who has mapped the memory of an earlier epoch must map it anew.
	Epoch() uint64
	// Close waits until no copy of this agent uses the region, and ends the registration.
	// The memory is its owner's to close afterwards. Peers in other processes may keep
	// their mapping: Close proves nothing about them.
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
type Copy = block.Copy

// Grant names blocks that the owner of a region allows one peer to write, or to
// read: what a ticket says. Number is unique at the owner.
type Grant struct {
	Number uint64
	Op     Op
	Region RegionID
	Blocks []block.Ref
	// Epoch is the region's when the grant was given. A peer whose mapping is older gets ErrGone.
	Epoch uint64
}

// Request describes a transfer by its copies.
type Request struct {
	Peer PeerID
	Op   Op
	// Grant is the owner's leave to touch the remote side, as its Allow said. Transports that
	// check it (tcp, inproc) refuse a request without one.
	Grant *Grant
	// Local and Remote choose the regions; zero is the first of each side.
	Local, Remote RegionID
	// Copies must not overlap on the side that is written. The transfer keeps a copy of its own.
	Copies []Copy
}

// List is one side of transfers: runs of a region that were checked and resolved
// once, so that transfers can name them by index.
type List interface {
	// Len is the number of runs.
	Len() int
	// Release frees what the list holds at the transport. Transfers made from it must have
	// been released. It is idempotent.
	Release()
}

// Prepared describes a transfer by indices into two lists: run LocalRuns[i] of Local
// is paired with run RemoteRuns[i] of Remote. Paired runs have equal lengths, and
// those on the side that is written do not overlap.
type Prepared struct {
	Op            Op
	Grant         *Grant // as in Request
	Local, Remote List
	// LocalRuns and RemoteRuns must not change until the transfer is released.
	LocalRuns, RemoteRuns []int32
}

// Transfer is a request that can be posted, again once it has settled. Its methods
// may be called concurrently.
type Transfer interface {
	// Post queues the transfer and returns; ctx bounds only the wait for a place in the queue.
	// On an error nothing was and will be moved by this call. Errors: ErrInProgress,
	// ErrReleased, ErrUnknownPeer, ErrGone, ErrFenced, ErrNotGranted, ErrClosed, ctx's own.
	Post(ctx context.Context) error
	// Status is Wait's answer so far: ErrNotPosted, ErrInProgress, nil once every byte has
	// landed, or an error that Is ErrAborted or ErrUnsettled.
	Status() error
	// Wait returns nil once every byte has landed; an error that Is ErrAborted when the
	// transfer ended early and is quiet; an error that Is ErrUnsettled when ctx ended first or
	// when its end cannot be told: then it may still move bytes, and no memory it uses
	// may be given away. Of a transfer that was not posted: ErrNotPosted.
	Wait(ctx context.Context) error
	// Cancel lets no further copy start. It does not wait; Wait tells when the
	// transfer is quiet. A transfer that had finished stays finished.
	Cancel()
	// Release gives back what the transfer holds at the transport; it cannot be posted any
	// more. One in flight is cancelled, and ErrInProgress says that it was not released:
	// it may move bytes until a Wait has told its end. Release is idempotent.
	Release() error
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
	// Register makes memory reachable for peers. All regions are registered before the first
	// Metadata or AddPeer; a later call is refused, since no peer would see the region.
	// ErrUnavailable: the transport does not reach memory of this kind.
	Register(m *memory.Memory, layout block.Layout, blocks int) (Region, error)
	// Metadata is what a peer needs for AddPeer, to be published as it is.
	Metadata() ([]byte, error)
	// AddPeer connects to the agent that published metadata. It is
	// idempotent; concurrent calls share one connection. It waits, as long as ctx allows, for Run to
	// have started. Errors: ErrMismatch, ErrFenced, ErrUnknownPeer, ErrUnreachable, ErrClosed.
	AddPeer(ctx context.Context, metadata []byte) (PeerID, error)
	// RemovePeer aborts the transfers with a peer that was added, unmaps its regions and
	// tells it so. An unknown peer is no error.
	RemovePeer(peer PeerID) error
	// Prepare checks and resolves runs of a region, of this agent (peer is ID) or of a peer
	// that was added. It keeps runs. A list ends with its connection: later uses meet
	// ErrUnknownPeer. Errors: ErrDescriptor, ErrUnknownPeer, ErrClosed.
	Prepare(peer PeerID, region RegionID, runs []block.Span) (List, error)
	// Make makes a transfer from a list of this agent and a list of a peer. It costs no
	// allocation per run. Errors: ErrDescriptor, ErrUnknownPeer, ErrNotGranted, ErrClosed.
	Make(p Prepared) (Transfer, error)
	// Create makes a transfer from copies. Errors as Make's.
	Create(r Request) (Transfer, error)
	// Notify queues a note for a peer that was added or that added us; ctx bounds the wait for
	// a place in the queue. The peer receives it after the bytes of all transfers whose Wait
	// returned before the call. nil does not mean that it was received: a note is lost when the
	// connection breaks. Errors: ErrTooLarge, ErrUnknownPeer, ErrGone, ErrClosed, ctx's own.
	Notify(ctx context.Context, peer PeerID, payload []byte) error
	// Receive waits for the next event. The queue is bounded: a receiver that does not
	// come makes its senders wait. After the agent's end it yields what had come, then ErrClosed.
	Receive(ctx context.Context) (Event, error)
	// Allow lets peer do what g says, until it is revoked or the peer is fenced. A number that is
	// in use for the peer and operation is an error.
	Allow(peer PeerID, g Grant) error
	// Revoke ends the grants of that number, and returns nil as the proof that peer can no longer
	// touch our memory by them; it waits for the proof as long as ctx allows. ErrStillAlive
	// means that there is no proof: the transport may not be able to give one.
	Revoke(ctx context.Context, peer PeerID, number uint64) error
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

// Retirer is an Agent that can move its memory out of the reach of a peer that it has no
// proof of, as shared memory can be moved to other files.
type Retirer interface {
	// Retire replaces the memory under blocks of a region, which peer may still write, and
	// refuses peer for good. nil is the proof that it can no longer touch our memory. Blocks
	// around them may have to move as well: still is told of all that move, and calls replace
	// while nobody computes in them; keep says whose rows are to be kept. Who else has mapped the
	// memory is disconnected, and connects anew. ErrStillAlive: there is no proof.
	Retire(ctx context.Context, peer PeerID, region RegionID, blocks []block.ID, still Still) error
}

// Chooser is an Agent that has several ways to a peer.
type Chooser interface {
	// Way names the transport by which a peer was added, as its metadata have it; empty: it was not.
	Way(peer PeerID) string
}

// Still calls replace once, while nobody writes into the moving blocks, and returns its error.
type Still func(ctx context.Context, moving []block.ID, replace func(keep func(block.ID) bool) error) error
