package block

import "errors"

var (
	// ErrNoRoom: the blocks are not to be had now; they may be later.
	ErrNoRoom = errors.New("no room in the block pool")
	// ErrTooLarge: the pool is smaller than what was asked for.
	ErrTooLarge = errors.New("larger than the block pool")
	// ErrLater: the claim cannot be granted now; come again with a new attempt.
	ErrLater = errors.New("claim later")
	// ErrGone: the transfer is unknown, committed or withdrawn.
	ErrGone = errors.New("transfer is gone")
	// ErrStale: the ticket or hold is not, or no longer, the one that counts.
	ErrStale = errors.New("ticket or hold is stale")
	// ErrFenced: the writer left so many blocks in QUARANTINE that it gets no more.
	ErrFenced = errors.New("writer is over its quarantine cap")
	// ErrCommitted: this very receipt was committed before.
	ErrCommitted = errors.New("receipt was committed before")
)
