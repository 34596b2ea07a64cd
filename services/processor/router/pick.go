package router

import (
	"slices"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/prefix"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// Choice is a worker picked and booked.
type Choice struct {
	Worker WorkerID
	// Booking numbers the request on the worker's stream, from 1, without gaps.
	Booking uint64
	// CachedTokens is how much of the request the router takes to be resident there.
	CachedTokens int
	// Cost is the worker's cost before the request, in blocks; 0 where the policy asks for none.
	Cost float64
	// Candidates is how many workers could have been picked.
	Candidates int

	stream int // the booking's number is of this stream
}

// Pick selects a worker and books the request on it. send puts the request on the
// worker's stream; it is called under the router's mutex, so that bookings travel in the
// order of their numbers, and must neither block nor call the router. When it returns
// false, the stream is broken and the next worker is tried. The error is ErrNoWorker.
func (r *Router) Pick(req Request, send func(Choice) bool) (Choice, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	candidates := r.candidates(req)
	for len(candidates) > 0 {
		choice, i := r.choose(candidates, req.Tokens)
		w := candidates[i].worker
		number := w.book(len(req.Tokens), choice.CachedTokens)
		choice.Worker, choice.Booking, choice.Candidates, choice.stream = w.ID, number, len(candidates), w.stream
		if send(choice) {
			w.memory.touch(candidates[i].chain)
			return choice, nil
		}
		w.attached = false
		w.reset()
		candidates = slices.Delete(candidates, i, i+1)
	}
	return Choice{}, ErrNoWorker
}

// Withdraw ends a booking that the worker will not admit; the caller sends it as a void.
func (r *Router) Withdraw(c Choice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.find(c.Worker); w != nil && w.stream == c.stream {
		w.drop(c.Booking)
	}
}

// Remember notes that a worker holds the blocks of these tokens: the answer of a request
// is the prefix of the next turn.
func (r *Router) Remember(id WorkerID, salt string, tokens []sequence.Token) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.find(id); w != nil {
		r.chain = prefix.Chain(r.chain[:0], prefix.Root(w.Model, "", salt), tokens, w.BlockTokens)
		w.memory.touch(r.chain)
	}
}

type candidate struct {
	worker *worker
	chain  []block.Hash // of the request, in blocks of the worker's size
}

func (r *Router) candidates(req Request) []candidate {
	var (
		list  []candidate
		chain []block.Hash
		size  int
	)
	for _, w := range r.workers {
		if !w.attached || w.draining || w.Model != req.Model || slices.Contains(req.Avoid, w.ID) {
			continue
		}
		if w.BlockTokens != size { // one size per model and pool, so once
			size = w.BlockTokens
			chain = prefix.Chain(make([]block.Hash, 0, len(req.Tokens)/size), prefix.Root(req.Model, "", req.Salt), req.Tokens, size)
		}
		list = append(list, candidate{worker: w, chain: chain})
	}
	return list
}

// choose applies the policy to at least one candidate.
func (r *Router) choose(candidates []candidate, tokens []sequence.Token) (Choice, int) {
	switch r.cfg.Policy {
	case RoundRobin:
		r.turn++
		i := r.turn % len(candidates)
		return Choice{CachedTokens: cached(candidates[i], tokens)}, i
	case Random:
		i := r.random.IntN(len(candidates))
		return Choice{CachedTokens: cached(candidates[i], tokens)}, i
	}
	var (
		best  Choice
		index int
		ties  int
	)
	for i, c := range candidates {
		hit := cached(c, tokens)
		cost := c.worker.prefill() + r.cfg.DecodeWeight*c.worker.decode()
		if r.cfg.Policy == KV {
			cost += r.cfg.PrefillWeight * float64(len(tokens)-hit) / float64(c.worker.BlockTokens)
		}
		switch {
		case i == 0 || cost < best.Cost:
			ties = 1
		case cost > best.Cost:
			continue
		default: // each of n equal ones is kept with probability 1/n
			if ties++; r.random.IntN(ties) != 0 {
				continue
			}
		}
		best, index = Choice{CachedTokens: hit, Cost: cost}, i
	}
	return best, index
}

// cached is how many tokens the worker is taken to hold: whole blocks, and never the last
// token, which is always computed.
func cached(c candidate, tokens []sequence.Token) int {
	return c.worker.memory.match(usable(c.chain, tokens, c.worker.BlockTokens)) * c.worker.BlockTokens
}
