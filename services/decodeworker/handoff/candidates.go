package handoff

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
)

// creditsFor is how long a prefill worker's word on its room counts: about as long as the
// prompts take that were in work then.
const creditsFor = time.Second

// A prefill worker that cannot be reached is not asked again for barAtLeast, and each time
// it is again found so for twice as long, up to barAtMost.
const (
	barAtLeast = time.Second
	barAtMost  = time.Minute
)

// standing is what is known of a prefill worker in one of its lives.
type standing struct {
	inFlight int           // calls from here
	credits  int           // what it last said, less what was begun since
	said     time.Time     // when; zero: never, or too long ago to matter
	bar      time.Duration // how long it was last not to be asked; 0: it can be reached, as far as is known
	barred   time.Time     // until when
}

// candidate is a prefill worker that may be asked.
type candidate struct {
	*instancev1.Instance
	full     bool // it said so just now
	hint     int  // its place in the sequence's hint; beyond the end: not in it
	credits  int
	inFlight int
}

func peerOf(i *instancev1.Instance) nixl.PeerID {
	return nixl.PeerID{Name: i.GetId(), Incarnation: i.GetIncarnation()}
}

// choose picks the prefill worker to ask next; nil: there is no other. Those that have just
// said that they are full come last, those of the hint first, in its order; of the rest
// the one with the most free credits, then with the fewest calls from here, then any.
func (c *Coordinator) choose(hint []string, tried []nixl.PeerID) *instancev1.Instance {
	live := slices.DeleteFunc(slices.Clone(c.deps.PrefillWorkers()), func(i *instancev1.Instance) bool {
		return !c.Usable(i) || slices.Contains(tried, peerOf(i))
	})
	list := c.rate(live, hint)
	if len(list) == 0 {
		return nil
	}
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return slices.MinFunc(list, func(a, b candidate) int {
		if a.full != b.full {
			if a.full {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(a.hint, b.hint), cmp.Compare(b.credits, a.credits), cmp.Compare(a.inFlight, b.inFlight))
	}).Instance
}

// rate adds what is known. One that has not said anything of late is taken to have as much
// room as the best of the others.
func (c *Coordinator) rate(live []*instancev1.Instance, hint []string) []candidate {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetStandings()
	best := 0
	for _, i := range live {
		if s := c.standings[peerOf(i)]; s != nil {
			best = max(best, s.credits)
		}
	}
	list := make([]candidate, len(live))
	for n, i := range live {
		x := candidate{Instance: i, hint: slices.Index(hint, i.GetId()), credits: best}
		if x.hint < 0 {
			x.hint = len(hint)
		}
		if s := c.standings[peerOf(i)]; s != nil {
			x.inFlight = s.inFlight
			if !s.said.IsZero() {
				x.credits, x.full = s.credits, s.credits <= 0
			}
		}
		list[n] = x
	}
	return list
}

// forgetStandings drops what is too old to count. The caller has mu.
func (c *Coordinator) forgetStandings() {
	for peer, s := range c.standings {
		if time.Since(s.said) > creditsFor {
			s.credits, s.said = 0, time.Time{}
			if s.inFlight == 0 && (s.bar == 0 || time.Since(s.barred) > barAtMost) {
				delete(c.standings, peer)
			}
		}
	}
}

// standing is that of a prefill worker. The caller has mu.
func (c *Coordinator) standing(peer nixl.PeerID) *standing {
	s := c.standings[peer]
	if s == nil {
		s = &standing{}
		c.standings[peer] = s
	}
	return s
}

// said notes a prefill worker's word on its room.
func (c *Coordinator) said(peer nixl.PeerID, credits int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.standing(peer)
	s.credits, s.said = credits, time.Now()
}

// judge takes note of a try that has ended: whether the prefill worker can be reached.
func (c *Coordinator) judge(ctx context.Context, peer nixl.PeerID, why Cause) {
	unreachable := why == CauseUnreachable && !errors.Is(ctx.Err(), context.Canceled) // that would be the client's doing
	if why != "" && !unreachable {
		return
	}
	c.mu.Lock()
	s, now := c.standing(peer), time.Now()
	switch {
	case !unreachable:
		s.bar, s.barred = 0, time.Time{}
	case now.Before(s.barred): // found by several at once
		unreachable = false
	default:
		s.bar = min(max(2*s.bar, barAtLeast), barAtMost)
		s.barred = now.Add(s.bar)
	}
	bar := s.bar
	c.mu.Unlock()
	if unreachable {
		c.log.WarnContext(ctx, "a prefill worker cannot be reached and is not asked for a while", "peer", peer.String(), "while", bar)
	}
}

// InFlight is how many calls of prefill workers are under way.
func (c *Coordinator) InFlight() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.tries)
}
