package router

// groupKey says whose blocks can be compared.
type groupKey struct {
	model  string
	tokens int // of a block
}

// group is the workers of one model and block size.
type group struct {
	groupKey
	at      int32 // in groups; a group without workers is free for another key
	workers int
	known   int     // workers that have told their speed
	sum     rates   // over those
	usual   rates   // their mean, as it was when the seats were last settled
	outputs float64 // tokens that an answer is expected to have
}

// enter puts a worker into its group.
func (r *Router) enter(w *worker) {
	key := groupKey{w.Model, w.BlockTokens}
	if w.group != nil {
		if w.group.groupKey == key {
			r.settle(w)
			return
		}
		r.quit(w)
	}
	w.group = r.groupOf(key)
	w.group.workers++
	r.tally(w.group, Speed{}, w.report.Speed)
	r.settle(w)
}

// quit takes it out.
func (r *Router) quit(w *worker) {
	g := w.group
	r.tally(g, w.report.Speed, Speed{})
	w.group = nil
	if g.workers--; g.workers == 0 {
		*g = group{at: g.at}
		r.publishGroups()
	}
}

func (r *Router) groupOf(key groupKey) *group {
	var free *group
	for _, g := range r.groups {
		if g.groupKey == key {
			return g
		}
		if g.workers == 0 {
			free = g
		}
	}
	if free == nil {
		free = &group{at: int32(len(r.groups))}
		r.groups = append(r.groups, free)
	}
	free.groupKey, free.outputs = key, outputsStart
	r.publishGroups()
	return free
}

func (r *Router) publishGroups() {
	keys := make([]groupKey, len(r.groups))
	for i, g := range r.groups {
		keys[i] = g.groupKey
	}
	r.sizes.Store(&keys)
}

// tally replaces one worker's speed in the group's mean. The first that is known, and the last that is forgotten,
// change the unit of all costs; a mean that has moved changes what each of them is compared with.
func (r *Router) tally(g *group, old, now Speed) {
	before := g.known
	if old.known() {
		g.known--
		g.sum.add(old.rates(), -1)
	}
	if now.known() {
		g.known++
		g.sum.add(now.rates(), 1)
	}
	if g.known == 0 {
		g.sum = rates{} // without what rounding left
	}
	mean := g.sum.over(float64(g.known))
	if (before == 0) == (g.known == 0) && !mean.moved(&g.usual) {
		return
	}
	g.usual = mean
	for _, w := range r.workers {
		if w.group == g {
			r.settle(w)
		}
	}
}
