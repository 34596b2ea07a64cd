package router

import (
	"cmp"
	"slices"
)

// Explained is what one worker would cost a request, or why it is no candidate.
type Explained struct {
	ID WorkerID
	// Excluded says why it cannot be picked; empty if it can.
	Excluded string
	// Terms and Cost are as in a Choice. A worker of another model has none.
	Terms Terms
	Cost  float64
}

// Explain lists every worker with its cost terms for a request, candidates first, cheapest first. It
// books nothing and draws nothing, so with ties, a temperature or a policy other than kv the worker
// that a request gets may be another one.
func (r *Router) Explain(req Request) ([]Explained, Weights) {
	q := r.query(req)
	defer r.release(q)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire()
	r.find(q)
	list := make([]Explained, len(r.workers))
	for i, w := range r.workers {
		e := &list[i]
		e.ID, e.Excluded = w.ID, r.admits(q, i)
		if g := int(r.seats[i].group); g < len(q.groups) && q.groups[g].wanted {
			e.Terms = r.terms(q, int32(i))
			e.Cost = r.weights.cost(&e.Terms)
		}
	}
	slices.SortFunc(list, func(a, b Explained) int {
		if (a.Excluded == "") != (b.Excluded == "") {
			return cmp.Compare(a.Excluded, b.Excluded)
		}
		return cmp.Or(cmp.Compare(a.Cost, b.Cost), cmp.Compare(a.ID.Name, b.ID.Name))
	})
	return list, r.weights
}
