package block_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

const (
	historyBlocks = 48
	historySize   = 4
)

// mix is a weak chain hash: with few bits, unequal contents collide all the time.
func mix(bits int) func(block.Hash, []sequence.Token) block.Hash {
	return func(h block.Hash, ts []sequence.Token) block.Hash {
		for _, t := range ts {
			h = (h ^ block.Hash(t)) * 0x9e3779b97f4a7c15
			h ^= h >> 29
		}
		return h >> (64 - bits)
	}
}

// history drives a pool at random and keeps its own books of what must be true.
type history struct {
	rematched int // tokens
	t         *testing.T
	rnd       *rand.Rand
	pool      *block.Pool
	now       time.Time
	seqs      []*seq
	tables    []*block.Table
	known     []known         // tickets ever seen, live or not
	quiet     map[uint64]bool // tickets whose writers have said or were proven to write no more
	serial    int

	content     map[block.Ref]string // what each sealed block means: namespace and all tokens so far
	quarantined map[block.Ref]bool
	proof       map[block.Ref]bool // may leave QUARANTINE in this step
	seen        [block.States]bool
	commits     uint64
	unquiet     uint64 // tickets looked at whose writer could still write
	evicted     bool
	changes     *mirror
	weak        bool // unequal contents have equal hashes all the time
}

// seq is one sequence and what the model of it knows.
type seq struct {
	table     *block.Table
	namespace string
	tokens    []sequence.Token // all that the rows will hold
	prompt    int
	total     int // blocks
	id        block.TransferID
	committed bool
}

type known struct {
	block.Ticket
	seq *seq
}

func TestRandomHistoryKeepsEveryInvariant(t *testing.T) {
	steps := 20_000
	if testing.Short() {
		steps = 10_000
	}
	for _, bits := range []int{64, 5} {
		t.Run(fmt.Sprintf("hash of %d bits", bits), func(t *testing.T) {
			pool, err := block.NewPool(block.Config{Blocks: historyBlocks, BlockTokens: historySize, Chain: mix(bits), HeldCap: 3, QuarantineCap: 6, Changes: 4})
			if err != nil {
				t.Fatal(err)
			}
			h := &history{
				t: t, weak: bits < 64, rnd: rand.New(rand.NewPCG(1, uint64(bits))), pool: pool, now: time.Unix(1e9, 0),
				content: map[block.Ref]string{}, quarantined: map[block.Ref]bool{}, quiet: map[uint64]bool{}, proof: map[block.Ref]bool{},
			}
			for i := range steps {
				h.step()
				h.verify(i)
			}
			h.end()
			h.wantCoverage(bits)
		})
	}
}

func (h *history) step() {
	clear(h.proof)
	h.now = h.now.Add(time.Duration(h.rnd.IntN(20)) * time.Millisecond)
	ops := []func(){
		h.admit, h.admit, h.admit, h.rematch, h.rematch, h.reserve, h.reserve, h.claim, h.claim, h.claim, h.claim, h.local, h.local, h.commit, h.commit,
		h.commitWrong, h.renew, h.releaseHold, h.abort, h.withdraw, h.expire, h.settle, h.releaseTable, h.releaseTable, h.fence,
	}
	ops[h.rnd.IntN(len(ops))]()
}

// pick returns a sequence that is fit, or nil.
func (h *history) pick(fit func(*seq) bool) *seq {
	for range h.seqs {
		if s := h.seqs[h.rnd.IntN(len(h.seqs))]; fit(s) {
			return s
		}
	}
	return nil
}

func every(*seq) bool          { return true }
func transferring(s *seq) bool { return s.id != "" }
func untouched(s *seq) bool {
	return s.id == "" && s.table.Len() == s.table.CachedTokens()
}

func (h *history) ticket() (known, bool) {
	if len(h.known) == 0 {
		return known{}, false
	}
	// Mostly recent ones: live, or freshly lost.
	return h.known[max(0, len(h.known)-1-h.rnd.IntN(12))], true
}

func (h *history) admit() {
	s := &seq{namespace: fmt.Sprint("n", h.rnd.IntN(2)), prompt: 1 + h.rnd.IntN(40)}
	n := s.prompt + 1 + h.rnd.IntN(20)
	for i := range n {
		// Few tokens and few changes: prefixes are shared, in trees.
		token := sequence.Token(i / 8)
		if h.rnd.IntN(16) == 0 {
			token += 100
		}
		s.tokens = append(s.tokens, token)
	}
	h.enter(s)
}

// enter admits a sequence, if there is room.
func (h *history) enter(s *seq) {
	s.total = (len(s.tokens) + historySize - 1) / historySize
	table, err := h.pool.Admit(block.Prompt{Tokens: s.tokens[:s.prompt:s.prompt], Namespace: s.namespace, Root: 7}, s.total)
	if err != nil {
		if !errors.Is(err, block.ErrNoRoom) {
			h.t.Fatal(err)
		}
		return
	}
	s.table = table
	h.tables = append(h.tables, table)
	h.seqs = append(h.seqs, s)
	if table.CachedTokens() > s.prompt-1 {
		h.t.Fatalf("hit %d tokens of a prompt of %d", table.CachedTokens(), s.prompt)
	}
	h.checkMeaning(s, table.CachedTokens()/historySize)
}

// rematch looks again for the prefix of a sequence, begun or not; of one that was not, after
// another one with the same prompt was begun, perhaps.
func (h *history) rematch() {
	s := h.pick(every)
	if s == nil {
		return
	}
	if n := len(h.seqs); untouched(s) {
		h.enter(&seq{namespace: s.namespace, prompt: s.prompt, tokens: slices.Clone(s.tokens)})
		if len(h.seqs) > n {
			h.compute(h.seqs[n])
		}
	}
	idle, before, available := untouched(s), s.table.Len(), h.pool.Available()
	gained := s.table.Rematch()
	if gained > 0 && !idle {
		h.t.Fatalf("a prompt that was begun was matched again: %d tokens", gained)
	}
	if s.table.Len() != before+gained || gained%historySize != 0 || s.table.Len() > max(before, s.prompt-1) || h.pool.Available() < available {
		h.t.Fatalf("rematch from %d by %d of a prompt of %d tokens; %d blocks available, then %d",
			before, gained, s.prompt, available, h.pool.Available())
	}
	h.rematched += gained
	h.checkMeaning(s, s.table.CachedTokens()/historySize)
}

// checkMeaning verifies that the first n blocks hold what the sequence says.
func (h *history) checkMeaning(s *seq, n int) {
	for i, b := range s.table.Blocks()[:n] {
		want := fmt.Sprint(s.namespace, s.tokens[:(i+1)*historySize])
		if got := h.content[h.ref(b)]; got != want {
			h.t.Fatalf("block %d of the sequence means %s, want %s", i, got, want)
		}
	}
}

func (h *history) ref(b block.ID) block.Ref {
	return block.Ref{ID: b, Generation: h.pool.Generation(b)}
}

// noteSealed writes down what the blocks sealed between two lengths mean.
func (h *history) noteSealed(s *seq, from, to int) {
	blocks := s.table.Blocks()
	for i := from / historySize; i < to/historySize; i++ {
		ref := h.ref(blocks[i])
		if _, ok := h.content[ref]; ok {
			h.t.Fatalf("block %v was sealed twice in one use", ref)
		}
		h.content[ref] = fmt.Sprint(s.namespace, s.tokens[:(i+1)*historySize])
	}
}

func (h *history) local() {
	if s := h.pick(every); s != nil {
		h.compute(s)
	}
}

// compute computes a few tokens of a sequence, unless a transfer has its blocks.
func (h *history) compute(s *seq) {
	from := s.table.Len()
	to := min(len(s.tokens), from+1+h.rnd.IntN(9))
	if s.id != "" && !s.committed {
		if err := s.table.Extend(to); err == nil {
			h.t.Fatal("Extend went past a pending transfer")
		}
		return
	}
	if err := s.table.Rebook(); err != nil {
		if !errors.Is(err, block.ErrNoRoom) {
			h.t.Fatal(err)
		}
		return
	}
	if err := s.table.Extend(to); err != nil {
		h.t.Fatal(err)
	}
	if err := s.table.Advance(s.tokens[from:to]); err != nil {
		h.t.Fatal(err)
	}
	h.noteSealed(s, from, to)
}

func (h *history) reserve() {
	s := h.pick(untouched)
	if s == nil || s.table.Rebook() != nil {
		return
	}
	h.serial++
	id := block.TransferID(fmt.Sprint("t", h.serial))
	if _, err := s.table.Reserve(id); err != nil {
		if len(s.table.Blocks())*historySize > s.table.CachedTokens() {
			return // opened, though nothing was written
		}
		h.t.Fatal(err)
	}
	s.id = id
}

func (h *history) claim() {
	s := h.pick(transferring)
	if s == nil {
		return
	}
	c := block.Claim{
		Attempt: block.AttemptID(fmt.Sprint("a", h.rnd.IntN(6))), Writer: block.WriterID(fmt.Sprint("w", h.rnd.IntN(3))),
		Now: h.now, Expiry: h.now.Add(time.Duration(1+h.rnd.IntN(300)) * time.Millisecond),
	}
	tk, err := h.pool.Claim(s.id, c)
	switch {
	case err == nil && s.committed:
		h.t.Fatal("a committed transfer was claimed")
	case err == nil && !tk.Repeated:
		h.known = append(h.known, known{tk, s})
		if tk.From != s.table.CachedTokens() || tk.To != s.prompt || len(tk.Prefix)*historySize > tk.From {
			h.t.Fatalf("ticket %+v does not fit a prompt of %d with a hit of %d", tk, s.prompt, s.table.CachedTokens())
		}
	}
}

func (h *history) receipt(k known) block.Receipt {
	return block.Receipt{Writer: k.Writer, Ticket: k.Number, Blocks: slices.Clone(k.Blocks), Tokens: k.To}
}

func (h *history) commit() {
	k, ok := h.ticket()
	if !ok {
		return
	}
	h.allow(k.Blocks) // if it is quarantined, this note is the proof
	h.quiet[k.Number] = true
	if err := h.pool.Commit(k.Transfer, h.receipt(k)); err == nil {
		if k.seq.committed || k.seq.id != k.Transfer {
			h.t.Fatal("a transfer was committed twice, or after its withdrawal")
		}
		k.seq.committed = true
		h.commits++
		if got := k.seq.table.Len(); got != k.seq.prompt {
			h.t.Fatalf("Len after the commit is %d, want %d", got, k.seq.prompt)
		}
		h.noteSealed(k.seq, k.From, k.To)
	}
}

func (h *history) commitWrong() {
	k, ok := h.ticket()
	if !ok {
		return
	}
	r := h.receipt(k)
	switch h.rnd.IntN(5) {
	case 0:
		r.Blocks[h.rnd.IntN(len(r.Blocks))].Generation++
	case 1:
		r.Blocks = r.Blocks[1:]
	case 2:
		r.Tokens--
	case 3:
		r.Writer += "x"
	case 4:
		r.Ticket += 1000
	}
	if err := h.pool.Commit(k.Transfer, r); !errors.Is(err, block.ErrStale) && !errors.Is(err, block.ErrGone) {
		h.t.Fatalf("a wrong receipt was answered %v", err)
	}
}

func (h *history) renew() {
	if k, ok := h.ticket(); ok {
		_ = h.pool.Renew(k.Transfer, k.Attempt, h.now.Add(200*time.Millisecond)) // any answer may be right
	}
}

func (h *history) releaseHold() {
	k, ok := h.ticket()
	if !ok || h.pool.ReleaseHold(k.Transfer, k.Attempt) != nil {
		return
	}
	if err := h.pool.ReleaseHold(k.Transfer, k.Attempt); err != nil {
		h.t.Fatalf("a repeated release was answered %v", err)
	}
}

func (h *history) abort() {
	k, ok := h.ticket()
	if !ok {
		return
	}
	if h.rnd.IntN(2) == 0 {
		h.pool.AbortTicket(k.Number)
		return
	}
	if q, ok := h.pool.Abort(k.Transfer, k.Attempt); ok && h.rnd.IntN(2) == 0 {
		h.allow(q.Blocks)
		h.quiet[q.Ticket] = true
		if tickets, n := h.pool.Settle(block.Proof{Writer: q.Writer, Ticket: q.Ticket}); tickets != 1 || n != len(q.Blocks) {
			h.t.Fatalf("settled %d blocks, want %d", n, len(q.Blocks))
		}
	}
}

func (h *history) withdraw() {
	s := h.pick(transferring)
	if s == nil {
		return
	}
	if got := h.pool.Withdraw(s.id); got != s.committed {
		h.t.Fatalf("Withdraw says committed=%v, want %v", got, s.committed)
	}
	if !s.committed {
		s.id = ""
	}
}

func (h *history) expire() { h.pool.Expire(h.now) }

func (h *history) settle() {
	qs := h.pool.Quarantined()
	if len(qs) == 0 {
		return
	}
	q := qs[h.rnd.IntN(len(qs))]
	if tickets, n := h.pool.Settle(block.Proof{Writer: q.Writer + "x", Ticket: q.Ticket}); tickets+n != 0 {
		h.t.Fatal("a proof for another writer settled a ticket")
	}
	h.allow(q.Blocks)
	h.quiet[q.Ticket] = true
	h.pool.Settle(block.Proof{Writer: q.Writer, Ticket: q.Ticket})
}

func (h *history) fence() {
	if h.rnd.IntN(4) > 0 {
		return
	}
	w := block.WriterID(fmt.Sprint("w", h.rnd.IntN(3)))
	h.pool.AbortWriter(w)
	for _, q := range h.pool.Quarantined() {
		if q.Writer == w {
			h.allow(q.Blocks)
			h.quiet[q.Ticket] = true
		}
	}
	h.pool.Settle(block.Proof{Writer: w})
}

func (h *history) releaseTable() {
	if len(h.seqs) == 0 || h.rnd.IntN(2) == 0 {
		return
	}
	i := h.rnd.IntN(len(h.seqs))
	h.seqs[i].table.Release()
	h.seqs[i].table.Release()
	h.seqs[i].id = ""
	h.seqs = slices.Delete(h.seqs, i, i+1)
}
