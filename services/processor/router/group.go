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
	pace    pace    // what they told
	rates   rates   // from that; in blocks while there is none
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
	w.ratio = ratio{}
	w.group.tally(Speed{}, w.report.Speed)
	w.learn()
	r.settle(w)
}

// quit takes it out.
func (r *Router) quit(w *worker) {
	g := w.group
	g.tally(w.report.Speed, Speed{})
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
	free.groupKey, free.outputs, free.rates = key, outputsStart, inBlocks(key.tokens)
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

// tally counts the workers whose speed is known. The first that is, and the last that is
// forgotten, change the unit of all costs.
func (g *group) tally(old, now Speed) {
	if old.known() {
		g.known--
	}
	if now.known() {
		g.known++
	}
	if g.known == 0 {
		g.pace, g.rates = pace{}, inBlocks(g.tokens)
	}
}

// learn takes in what the worker says of its speed.
func (w *worker) learn() {
	if !w.report.Speed.known() {
		return
	}
	g, own := w.group, w.report.Speed.rates()
	running, tokens := float64(w.report.Running), float64(w.report.DecodeTokens)
	g.pace.add(own, running, tokens)
	g.rates = g.pace.rates()
	w.ratio.add(own, g.rates, running, tokens)
}
