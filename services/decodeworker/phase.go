package decodeworker

// phase is how far a sequence has come on this worker.
type phase uint8

const (
	undecided  phase = iota // where its prompt is computed
	handedOff               // its prompt is computed elsewhere
	prefilling              // it is computed here
	decoding
	over
)

// phases is what the admitted sequences of this worker are at.
type phases struct {
	sequences [over + 1]int
	tokens    [over + 1]int // rows of prompts that were not cached here
}

// ahead is how many rows of other prompts are computed here before those of one more.
// The scheduler, which counts what waits, knows how far each prompt has come, but includes
// the one itself, those that are computed elsewhere and those that wait for blocks, behind it.
func (p *phases) ahead(waiting, own int) int {
	return min(p.tokens[prefilling], max(0, waiting-own-p.tokens[handedOff]))
}

// enter moves a sequence to a phase. One that is over stays so.
func (g *generation) enter(p phase) {
	g.d.mu.Lock()
	defer g.d.mu.Unlock()
	if g.phase == over {
		return
	}
	l, tokens := &g.d.phases, g.decided.facts.PromptTokens-g.decided.facts.CachedTokens
	if g.phase != undecided {
		l.sequences[g.phase]--
		l.tokens[g.phase] -= tokens
	}
	if p != over {
		l.sequences[p]++
		l.tokens[p] += tokens
	}
	g.phase = p
}
