package block

// State is what may be done with a block, and by whom.
type State uint8

const (
	// Free blocks belong to nobody.
	Free State = iota
	// Reserved blocks wait for the remote writer of a transfer.
	Reserved
	// Claimed blocks may be written by the holder of one ticket.
	Claimed
	// Open blocks are the growing tail of one sequence.
	Open
	// Sealed blocks are full and immutable.
	Sealed
	// Held blocks are sealed ones that a remote reader may be reading.
	Held
	// Quarantine blocks may still be written by a writer that lost its ticket.
	Quarantine

	// States is the number of states.
	States = iota
)

var stateNames = [States]string{"free", "reserved", "claimed", "open", "sealed", "held", "quarantine"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "unknown"
}

// Generation numbers the uses of a block: it grows each time the block leaves FREE.
type Generation uint64

// Ref names one use of a block.
type Ref struct {
	ID         ID
	Generation Generation
}

// TransferID names one remote prefill into this pool.
type TransferID string

// AttemptID names one try of a writer at a transfer; the writer chooses it.
type AttemptID string

// WriterID names a remote writer: a worker in one incarnation.
type WriterID string
