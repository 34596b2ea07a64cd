package nixl

import (
	"errors"
	"fmt"
)

// Sentinels on which callers branch.
var (
	// ErrClosed: this agent has ended.
	ErrClosed = errors.New("the agent is closed")
	// ErrUnknownPeer: no connection with that name and incarnation, or none any more.
	ErrUnknownPeer = errors.New("unknown peer")
	// ErrGone: the connection with the peer ended meanwhile; later calls meet ErrUnknownPeer.
	ErrGone = errors.New("the peer is gone")
	// ErrMismatch: the KV formats differ. The error also is a *MismatchError.
	ErrMismatch = errors.New("the peers' KV blocks differ")
	// ErrDescriptor: a copy lies outside its region, has unequal lengths or overlaps another.
	// Nothing was moved.
	ErrDescriptor = errors.New("bad descriptor")
	// ErrTooLarge: a note exceeds MaxNoteBytes.
	ErrTooLarge = errors.New("note too large")
	// ErrUnreachable: this transport does not lead to the peer.
	ErrUnreachable = errors.New("the peer cannot be reached")
	// ErrUnavailable: this transport does not exist on this system.
	ErrUnavailable = errors.New("transport unavailable")
	// ErrFenced: the target has fenced this agent off for good.
	ErrFenced = errors.New("fenced off by the peer")
	// ErrNotGranted: the owner of the memory does not allow it, or no longer. Nothing was moved.
	ErrNotGranted = errors.New("not granted")
	// ErrNotPosted: the transfer was made but not posted.
	ErrNotPosted = errors.New("transfer not posted")
	// ErrInProgress: the transfer is in flight.
	ErrInProgress = errors.New("transfer in progress")
	// ErrReleased: the transfer was released.
	ErrReleased = errors.New("transfer released")
	// ErrChecksum: bytes arrived otherwise than they were sent.
	ErrChecksum = errors.New("checksum differs")
	// ErrStillAlive: Fence or Revoke has no proof; the peer may still write.
	ErrStillAlive = errors.New("the peer may still write")
	// ErrAborted: a transfer ended early and is quiet. The error also is an *AbortedError.
	ErrAborted = errors.New("transfer aborted")
	// ErrUnsettled: a transfer goes on. The error also is an *UnsettledError.
	ErrUnsettled = errors.New("transfer unsettled")
	// ErrCancelled: why a transfer was aborted on which Cancel was called.
	ErrCancelled = errors.New("cancelled")
)

// AbortedError says that a transfer ended before all its bytes had moved and that
// its last copy call has returned: it will write nothing more.
type AbortedError struct{ Cause error }

func (e *AbortedError) Error() string { return ErrAborted.Error() + ": " + e.Cause.Error() }

// Is makes the error match ErrAborted.
func (e *AbortedError) Is(target error) bool { return target == ErrAborted }

// Unwrap is the cause, such as ErrGone.
func (e *AbortedError) Unwrap() error { return e.Cause }

// UnsettledError says that a Wait ended while its transfer went on, or that its end
// cannot be told: it may still write, so no memory that it uses may be given away.
type UnsettledError struct{ Cause error }

func (e *UnsettledError) Error() string { return ErrUnsettled.Error() + ": " + e.Cause.Error() }

// Is makes the error match ErrUnsettled.
func (e *UnsettledError) Is(target error) bool { return target == ErrUnsettled }

// Unwrap is the error of the Wait's context, or why the connection ended.
func (e *UnsettledError) Unwrap() error { return e.Cause }

// MismatchError names what two peers would have to agree on and do not.
type MismatchError struct{ Field, Local, Remote string }

func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s: %s is %s here, %s at the peer", ErrMismatch, e.Field, e.Local, e.Remote)
}

// Is makes the error match ErrMismatch.
func (e *MismatchError) Is(target error) bool { return target == ErrMismatch }
