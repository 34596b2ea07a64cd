package processor

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

const (
	// deathsMax is how many workers may die with a sequence where it is. Of the second it died alone.
	deathsMax = 2
	// groundTokens is how many tokens a sequence gains until it is no longer where a worker died
	// with it: more than can be lost on their way from a worker that dies, fewer than it
	// generates alone (see the decode worker's trial.go).
	groundTokens = 4
	// letterWithin bounds the sending of a dead letter, after its request has ended.
	letterWithin = 2 * time.Second
)

// crashes counts the workers that died with a sequence where it is. A worker's death counts against all
// the sequences that it had: one of them may have killed it. Each is then on trial: no
// other is computed with it, so a worker that dies of it, too, proves it; and a sequence that has
// come on by then is proven to be another that was there by chance.
type crashes struct {
	deaths []*generationv1.WorkerDeath
	place  int // how many tokens were generated at the latest
}

// at forgets the deaths of a sequence that has come on from where they were.
func (c *crashes) at(generated int) {
	if generated-c.place >= groundTokens {
		c.deaths = nil
	}
}

// count notes a worker's death with so many tokens generated. tried: the worker had begun the
// sequence, alone.
func (c *crashes) count(worker, incarnation string, cause error, generated int, tried bool) {
	c.at(generated)
	if len(c.deaths) > 0 && !tried { // its turn had not come
		return
	}
	c.place = generated
	c.deaths = append(c.deaths, &generationv1.WorkerDeath{
		Worker: worker, Incarnation: incarnation, Time: timestamppb.Now(), Error: cause.Error(), Alone: tried,
	})
}

// convicted says that no other worker may be given the sequence.
func (c *crashes) convicted() bool { return len(c.deaths) >= deathsMax }

// bury tells the operator of a request that was ended because workers died of it.
func (p *Processor) bury(ctx context.Context, base *generationv1.Sequence, c *crashes, generated int) {
	letter := &generationv1.DeadLetter{
		RequestId: base.GetRequestId(), Model: p.deps.Model.Name, Time: timestamppb.Now(),
		PromptTokens: uint32(len(base.GetPrompt())), GeneratedTokens: uint32(generated), Deaths: c.deaths,
	}
	p.metrics.deadLetters.Add(ctx, 1)
	p.log.ErrorContext(ctx, "a request was ended: the workers that computed it died", "dead_letter", letter)
	if p.deps.Bury == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), letterWithin)
	defer cancel()
	if err := p.deps.Bury(ctx, letter); err != nil {
		p.log.ErrorContext(ctx, "its dead letter could not be sent", "request_id", letter.GetRequestId(), "error", err)
	}
}
