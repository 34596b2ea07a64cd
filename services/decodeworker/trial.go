package decodeworker

import "context"

// trialTokens is how many tokens a sequence on trial generates before it joins the others.
// The worker died where the sequence was, give or take the tokens that were still on their way;
// the processor, which counts on from fewer (see its crash.go), has seen enough of them by then.
const trialTokens = 16

// onTrial waits until no other sequence of this worker is on trial, and until the processor
// knows that this one is: should the worker die now, it died of this one or of chance.
func (g *generation) onTrial(ctx context.Context) {
	select {
	case g.d.trial <- struct{}{}:
	case <-ctx.Done():
		return
	}
	g.trial = true
	select {
	case <-g.out.Trial():
	case <-ctx.Done():
	}
}

// endTrial lets the next one in.
func (g *generation) endTrial() {
	if g.trial {
		g.trial = false
		<-g.d.trial
	}
}
