package nixl

// Counters counts from an agent's start. Bytes are those that this agent moved
// itself, including those of transfers that were aborted later on.
type Counters struct {
	BytesWritten uint64 // into peers' regions
	BytesRead    uint64 // out of peers' regions
	Transfers    uint64 // completed
	// TransfersAborted counts the transfers that were posted and ended early.
	TransfersAborted uint64
	NotesSent        uint64 // queued for a peer
	NotesReceived    uint64 // yielded by Receive
	// NotesRefused counts frames that arrived with a wrong checksum, type or size, those with
	// blocks' bytes included.
	NotesRefused uint64
}

// Add adds d to c.
func (c *Counters) Add(d Counters) {
	c.BytesWritten += d.BytesWritten
	c.BytesRead += d.BytesRead
	c.Transfers += d.Transfers
	c.TransfersAborted += d.TransfersAborted
	c.NotesSent += d.NotesSent
	c.NotesReceived += d.NotesReceived
	c.NotesRefused += d.NotesRefused
}

// Stats holds an agent's totals and their parts by peer. Of the peers only the
// most recently met 1,024 are kept; the totals are complete.
type Stats struct {
	Counters
	Peers map[PeerID]Counters
}
