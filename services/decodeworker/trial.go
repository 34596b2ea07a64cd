package decodeworker

import (
	"context"
	"time"

	"github.com/switchyard-llm/switchyard/libs/rpc"
)

// trialTokens is how many tokens a sequence on trial generates before it joins the others.
// The worker died where the sequence was, give or take the tokens that were still on their way;
// the processor, which counts on from fewer (see its crash.go), has seen enough of them by then.
const trialTokens = 8

// proceedWithin bounds the wait for a processor, which holds up the other suspects.
const proceedWithin = 5 * time.Second

// onTrial waits until no other sequence of this worker is on trial, and until the processor
// knows that this one is: should the worker die now, it died of this one or of chance.
func (g *generation) onTrial(ctx context.Context) error {
	select {
	case g.d.trial <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	g.trial = true
	timer := time.NewTimer(g.d.proceedWithin)
	defer timer.Stop()
	select {
	case <-g.out.Trial():
		return nil
	case <-timer.C:
		return rpc.Unavailable("the processor did not answer that the sequence is on trial")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// endTrial lets the next one in.
func (g *generation) endTrial() {
	if g.trial {
		g.trial = false
		<-g.d.trial
	}
}
