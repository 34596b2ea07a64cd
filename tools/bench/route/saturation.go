package route

import (
	"context"
	"fmt"
	"time"
)

// SaturationTTFT is the p99 time to the first token that a cluster at saturation keeps.
const SaturationTTFT = 5 * time.Second

// step ends the search for saturation: the rates known to be below and above are so near.
const saturationStep = 1.005

// Saturation is the highest rate at which the better one of round-robin and least-loaded
// keeps the p99 time to the first token below SaturationTTFT: found by doubling and
// bisection from a rate of 1, whatever cfg.Rate is. progress is that of each replay.
func Saturation(ctx context.Context, t *Trace, cfg Config, progress func(done int)) (float64, error) {
	keeps := func(rate float64) (bool, error) {
		cfg.Rate = rate
		best := time.Duration(0)
		for i, policy := range []string{"round-robin", "least-loaded"} {
			result, err := Run(ctx, t, cfg, policy, DefaultKV(), progress)
			if err != nil {
				return false, err
			}
			if i == 0 || result.TTFT.P99 < best {
				best = result.TTFT.P99
			}
		}
		return best < SaturationTTFT, nil
	}
	below, above, err := bracket(keeps)
	if err != nil {
		return 0, err
	}
	for above > below*saturationStep {
		rate := (below + above) / 2
		ok, err := keeps(rate)
		if err != nil {
			return 0, err
		}
		if ok {
			below = rate
		} else {
			above = rate
		}
	}
	return below, nil
}

// bracket finds two rates, one twice the other, of which the lower one is kept and the
// higher one is not.
func bracket(keeps func(float64) (bool, error)) (below, above float64, err error) {
	ok, err := keeps(1)
	if err != nil {
		return 0, 0, err
	}
	below, above = 0.5, 1
	if ok {
		below, above = 1, 2
	}
	const bound = 1 << 16
	for above < bound && below > 1.0/bound {
		rate := below
		if ok {
			rate = above
		}
		kept, err := keeps(rate)
		switch {
		case err != nil:
			return 0, 0, err
		case kept != ok:
			return below, above, nil
		case ok:
			below, above = above, 2*above
		default:
			below, above = below/2, below
		}
	}
	return 0, 0, fmt.Errorf("no rate from 1/%d to %d is saturation", bound, bound)
}
