package router

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/switchyard-llm/switchyard/libs/prefix"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// hintMax is how many prefill workers a hint names: a decode worker asks three at most.
const hintMax = 4

// prefill is what the router knows of a prefill worker; the router's mutex guards it.
type prefill struct {
	Worker
	slot     prefix.Slot // in remote
	assumed  assumed
	expected int // prompts under way whose hint names it first
}

// Hint is the prefill workers that a request's prefix is known to lie at, longest first, and
// among equals the one that the fewest prompts under way were hinted to.
type Hint struct {
	Names []string
	// Tokens is the length of the prefix that the first of them holds.
	Tokens int
	first  *prefill
}

// AddPrefill makes a prefill worker known. An earlier life of the same name, whose cache is
// gone, is forgotten.
func (r *Router) AddPrefill(w Worker) error {
	if w.BlockTokens < 1 {
		return fmt.Errorf("router: prefill worker %s has blocks of %d tokens, want at least 1", w.ID, w.BlockTokens)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.findPrefill(w.ID.Name)
	if known != nil && known.ID == w.ID {
		known.Worker = w
		r.assume(&known.assumed, &known.Worker, !w.Events)
		return nil
	}
	if known != nil {
		r.dropPrefill(known)
	}
	p := &prefill{Worker: w, slot: r.remote.Add()}
	p.assumed.bind(r.remote, p.slot)
	r.prefills = append(r.prefills, p)
	r.assume(&p.assumed, &p.Worker, !w.Events)
	return nil
}

// KeepPrefills forgets the prefill workers that are not among these.
func (r *Router) KeepPrefills(present map[WorkerID]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range slices.Clone(r.prefills) {
		if !present[p.ID] {
			r.dropPrefill(p)
		}
	}
}

func (r *Router) dropPrefill(gone *prefill) {
	r.assume(&gone.assumed, &gone.Worker, false)
	r.remote.Drop(gone.slot)
	r.prefills = slices.DeleteFunc(r.prefills, func(o *prefill) bool { return o == gone })
}

func (r *Router) findPrefill(name string) *prefill {
	for _, p := range r.prefills {
		if p.ID.Name == name {
			return p
		}
	}
	return nil
}

// ComputedAt notes that the prefill worker of that name computed a prompt. Of one that publishes
// what it holds, that says more.
func (r *Router) ComputedAt(name, salt string, tokens []sequence.Token) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.findPrefill(name); p != nil && !p.Events {
		r.assumeTokens(&p.assumed, &p.Worker, salt, tokens)
	}
}

// Hint ranks the prefill workers for a request. It must be given to Placed once the prompt
// is computed or nobody waits for it any more.
func (r *Router) Hint(req Request) Hint {
	type ranked struct {
		*prefill
		tokens int
	}
	var (
		list []ranked
		size int
	)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.prefills {
		if p.Model != req.Model {
			continue
		}
		if p.BlockTokens != size { // one size per model and pool, so once
			size = p.BlockTokens
			r.chain = prefix.Chain(r.chain[:0], prefix.Root(req.Model, req.LoRA, req.Salt), req.Tokens, size)
			r.remote.Lookup(r.chain[:min(len(r.chain), (len(req.Tokens)-1)/size)], &r.matches) // never the last token
		}
		if hit := r.matches.Device(p.slot); hit > 0 {
			list = append(list, ranked{p, hit * size})
		}
	}
	slices.SortStableFunc(list, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.tokens, a.tokens), cmp.Compare(a.expected, b.expected))
	})
	var h Hint
	for i, p := range list[:min(len(list), hintMax)] {
		if i == 0 {
			h.first, h.Tokens = p.prefill, p.tokens
			p.expected++
		}
		h.Names = append(h.Names, p.ID.Name)
	}
	return h
}

// Placed ends a hint: its prompt is no load any more. Ending one again changes nothing.
func (r *Router) Placed(h *Hint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.first != nil {
		h.first.expected--
		h.first = nil
	}
}
