package sim

import (
	"context"
	"time"
)

const (
	// follows is how soon after the end of a step the next one counts as begun at that end:
	// what the scheduler takes in between is part of the modelled time.
	follows = time.Millisecond
	// debtMax is how far a pace may fall behind before it gives the rest up: a machine that is too
	// slow should not rush afterwards.
	debtMax = 100 * time.Millisecond
)

// pace makes steps take their time. A timer rings late, by as much as a short step takes; so
// what one step took too long the next ones take less, and the mean is exact. No step takes less than half of its
// time, though: who learns from steps how quick the engine is should not find one that takes none.
type pace struct {
	speedUp float64   // of the model's time; 0: nothing is waited for
	due     time.Time // when the last step was to end
	begun   time.Time // when the present one really began
	left    time.Time // when the last step really ended
	timer   *time.Timer
}

// begin is when a step that the caller begins now is to be counted from.
func (p *pace) begin() time.Time {
	now := time.Now()
	p.begun = now
	if now.Sub(p.left) > follows || now.Sub(p.due) > debtMax {
		p.due = now
	}
	return p.due
}

// until waits until so much of the model's time has passed since a step's begin.
func (p *pace) until(ctx context.Context, begin time.Time, modelled time.Duration) error {
	if p.speedUp > 0 {
		takes := time.Duration(float64(modelled) / p.speedUp)
		p.due = begin.Add(takes)
		if err := p.sleep(ctx, time.Until(later(p.due, p.begun.Add(takes/2)))); err != nil {
			return err
		}
	}
	p.left = time.Now()
	return ctx.Err()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (p *pace) sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	if p.timer == nil {
		p.timer = time.NewTimer(d)
	} else {
		p.timer.Reset(d)
	}
	select {
	case <-p.timer.C:
		return nil
	case <-ctx.Done():
		p.timer.Stop()
		return ctx.Err()
	}
}
