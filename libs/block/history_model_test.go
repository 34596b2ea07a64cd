package block_test

import (
	"slices"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
)

func (h *history) allow(refs []block.Ref) {
	for _, r := range refs {
		h.proof[r] = true
	}
}

func (h *history) verify(step int) {
	h.t.Helper()
	if err := h.pool.Check(h.tables); err != nil {
		h.t.Fatalf("step %d: %v", step, err)
	}
	for i := range historyBlocks {
		b := block.ID(i)
		ref, state := h.ref(b), h.pool.StateOf(b)
		h.seen[state] = true
		if h.quarantined[ref] && state != block.Quarantine && !h.proof[ref] {
			h.t.Fatalf("step %d: block %v left QUARANTINE without proof", step, ref)
		}
		h.quarantined[ref] = state == block.Quarantine
	}
	for ref, in := range h.quarantined {
		if in && h.pool.Generation(ref.ID) != ref.Generation && !h.proof[ref] {
			h.t.Fatalf("step %d: block %v was reused without proof", step, ref)
		}
		if h.pool.Generation(ref.ID) != ref.Generation {
			delete(h.quarantined, ref)
		}
	}
	h.checkWriters(step)
	h.checkChanges(step)
	for _, s := range h.seqs {
		h.checkRows(step, s)
	}
	if len(h.tables) > 4*len(h.seqs)+16 { // forget released ones
		h.tables = h.tables[:0]
		for _, s := range h.seqs {
			h.tables = append(h.tables, s.table)
		}
	}
}

// checkWriters verifies that whatever a writer that was not proven quiet writes late lands
// where nobody reads: its blocks are still this use of them, CLAIMED or in QUARANTINE.
func (h *history) checkWriters(step int) {
	for _, k := range h.known {
		if h.quiet[k.Number] {
			continue
		}
		h.unquiet++
		for _, ref := range k.Blocks {
			state := h.pool.StateOf(ref.ID)
			if h.pool.Generation(ref.ID) != ref.Generation || state != block.Claimed && state != block.Quarantine {
				h.t.Fatalf("step %d: ticket %d may still write block %v, which is %v of generation %d",
					step, k.Number, ref, state, h.pool.Generation(ref.ID))
			}
		}
	}
}

// checkRows verifies that no one else wrote into the sequence's blocks.
func (h *history) checkRows(step int, s *seq) {
	for i, b := range s.table.Blocks() {
		rows := min(historySize, s.table.Len()-i*historySize)
		if rows <= 0 {
			return
		}
		want := s.tokens[i*historySize : i*historySize+rows]
		if got := h.pool.TokensOf(b)[:rows]; !slices.Equal(got, want) {
			h.t.Fatalf("step %d: block %d holds %v, want %v", step, b, got, want)
		}
	}
}

func (h *history) end() {
	for _, s := range h.seqs {
		s.table.Release()
	}
	h.pool.Expire(h.now.Add(time.Hour))
	for _, q := range h.pool.Quarantined() {
		h.pool.Settle(block.Proof{Writer: q.Writer})
	}
	if err := h.pool.Check(h.tables); err != nil {
		h.t.Fatal(err)
	}
	c := h.pool.Counts()
	if c.Now[block.Free]+c.Now[block.Sealed] != c.Capacity || c.Booked != 0 || h.pool.Available() != c.Capacity {
		h.t.Errorf("at the end %+v, want FREE + SEALED = capacity and nothing booked", c)
	}
}

// wantCoverage fails when the history was too tame to prove anything.
func (h *history) wantCoverage(bits int) {
	s := h.pool.Stats()
	if h.unquiet < 10_000 {
		h.t.Errorf("writers that could still write were looked at %d times", h.unquiet)
	}
	if !h.weak && (h.changes.changes < 300 || h.changes.losses < 5) {
		h.t.Errorf("%d changes were followed, %d times some were lost", h.changes.changes, h.changes.losses)
	}
	if h.rematched < 8 {
		h.t.Errorf("%d tokens were found by a rematch", h.rematched)
	}
	for state, seen := range h.seen {
		if !seen || h.pool.Counts().Peak[state] == 0 {
			h.t.Errorf("no block was ever %v", block.State(state))
		}
	}
	if s.Commits != h.commits {
		h.t.Errorf("%d commits counted, %d done", s.Commits, h.commits)
	}
	rare := map[string]uint64{
		"commits": s.Commits, "duplicate notes": s.DuplicateNotes, "stale notes": s.StaleNotes, "gone notes": s.GoneNotes,
		"late notes": s.LateNotes, "claims": s.Claims, "repeated": s.RepeatedClaims, "later": s.LaterClaims, "fenced": s.FencedClaims,
		"expired": s.Expired, "aborted": s.Aborted, "withdrawn": s.Withdrawn, "settled": s.SettledBlocks, "evictions": s.Evictions,
		"duplicates": s.DuplicateBlocks, "hits": s.CachedTokens, "stale holds": s.StaleHolds,
	}
	if bits < 64 {
		rare["collisions"] = s.Collisions
	}
	for name, n := range rare {
		if n < 5 {
			h.t.Errorf("%s happened %d times, want at least 5", name, n)
		}
	}
}
