package router_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/switchyard-llm/switchyard/services/processor/router"
)

// cluster is processors that share their bookings, as the network does: each hears the others
// in order, but late.
type cluster struct {
	routers []*router.Router
	ids     []router.ProcessorID
	late    [][]func() // by who hears
}

func newCluster(t testing.TB, processors int, seed uint64, workers ...string) *cluster {
	c := &cluster{late: make([][]func(), processors)}
	for i := range processors {
		self := router.ProcessorID{Name: fmt.Sprint("processor-", i), Incarnation: "1"}
		c.ids = append(c.ids, self)
		r := newSharing(t, func(cfg *router.Config) { cfg.Weights = router.DefaultWeights() }, router.Options{
			Self: self, Random: rand.New(rand.NewPCG(seed, uint64(i))),
			Share: func(s router.Shared) {
				s.Chain = slices.Clone(s.Chain)
				for j := range c.late {
					if j != i {
						c.late[j] = append(c.late[j], func() { c.routers[j].Foreign(self, s) })
					}
				}
			},
		})
		join(t, r, nil, workers...)
		for _, w := range workers {
			r.Report(id(w), router.Report{Speed: speed})
		}
		c.routers = append(c.routers, r)
	}
	return c
}

// hear delivers what one processor has not heard yet, up to n.
func (c *cluster) hear(i, n int) {
	n = min(n, len(c.late[i]))
	for _, f := range c.late[i][:n] {
		f()
	}
	c.late[i] = c.late[i][n:]
}

// A burst of 64 equal prompts over 4 processors and 8 idle workers: none of them may pile up on one
// worker, although what is sent first makes that worker the cheapest for the others.
func TestABurstOfEqualPromptsSpreadsOverTheWorkers(t *testing.T) {
	workers := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	most, prefilled := 0, 0
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 9))
		c := newCluster(t, 4, seed, workers...)
		p, got := prompt(401), map[string]int{}
		for i := range 64 {
			at := i % 4
			choice := pick(t, c.routers[at], p)
			got[choice.Worker.Name]++
			prefilled += len(p) - choice.CachedTokens
			for j := range c.routers {
				c.hear(j, random.IntN(4)) // at most 3 of the 3 that were sent since, on average half of them
			}
		}
		for _, n := range got {
			most = max(most, n)
		}
	}
	t.Logf("at most %d on one worker; %.0f tokens to prefill a burst, of %d", most, float64(prefilled)/100, 64*401)
	if most > 16 {
		t.Errorf("%d of 64 requests went to one worker, want at most 16", most)
	}
}

func TestBookingsOfOthersAreLoadUntilTheReportNamesThem(t *testing.T) {
	c := newCluster(t, 2, 1, "a")
	check := func(when string, want int) {
		t.Helper()
		if got := c.routers[1].Loads()[0].DecodeTokens; got != want {
			t.Errorf("%s: %d tokens, want %d", when, got, want)
		}
	}
	var choices []router.Choice
	for range 3 {
		choices = append(choices, pick(t, c.routers[0], prompt(8)))
	}
	c.hear(1, 2)
	check("two heard of", 16)
	own := pick(t, c.routers[1], prompt(8))
	check("and one of its own", 24)
	c.routers[1].Report(id("a"), router.Report{DecodeTokens: 100, Booked: []router.Counted{
		{Processor: c.ids[0], Booking: 1}, {Processor: c.ids[1], Booking: own.Booking},
	}})
	check("two in the report", 108)
	c.hear(1, 1)
	check("the third", 116)
	c.routers[0].Ended(&choices[2], 1)
	c.hear(1, 1)
	check("the third has ended", 108)
	c.routers[0].Ended(&choices[0], 1) // the report contains it
	c.hear(1, 1)
	check("the first has ended", 108)
	c.routers[1].Report(id("a"), router.Report{DecodeTokens: 100, Booked: []router.Counted{{Processor: c.ids[1], Booking: own.Booking}}})
	check("the other processor has ended", 100)
	c.routers[0].Detach(id("a"))
	c.routers[0].Attach(id("a"))
	pick(t, c.routers[0], prompt(4))
	c.hear(1, 9)
	check("a new stream of it", 104)
	c.routers[1].KeepProcessors(map[router.ProcessorID]bool{c.ids[0]: true})
	check("it is still there", 104)
	c.routers[1].KeepProcessors(nil)
	check("discovery does not know it any more", 100)
	if got := c.routers[1].Counts().Shared; got != 4 {
		t.Errorf("%d bookings of others were counted, want 4", got)
	}
}

// What others say is bounded, and nonsense changes nothing.
func TestNonsenseOfOthersIsIgnored(t *testing.T) {
	r := newRouter(t, nil)
	join(t, r, nil, "a")
	other := router.ProcessorID{Name: "other", Incarnation: "1"}
	for _, s := range []router.Shared{
		{Worker: id("nobody"), Booking: 1, DecodeTokens: 5}, {Worker: id("a"), Booking: 1 << 60, DecodeTokens: 5},
		{Worker: id("a"), Booking: 1, PrefillTokens: math.MaxUint32}, {Worker: id("a"), Booking: 1, DecodeTokens: 1 << 31},
		{Worker: id("a"), DecodeTokens: 5}, {Worker: id("a"), Booking: 1, PrefillTokens: -1}, {Worker: id("a"), Booking: 1, DecodeTokens: -1},
		{Kind: router.SharedEnded, Worker: id("a"), Booking: 7}, {Kind: router.SharedComputed, Worker: id("a"), Booking: 7},
	} {
		r.Foreign(other, s)
	}
	if l := r.Loads()[0]; l.DecodeTokens != 0 || l.PrefillTokens != 0 {
		t.Errorf("load %+v, want none", l)
	}
	p := prompt(40)
	_, hashes := chain(p)
	for i := range uint64(3000) { // ends that were lost
		r.Foreign(other, router.Shared{Worker: id("a"), Booking: i + 1, Chain: hashes})
	}
	if e := explain(t, r, router.Request{Model: model, Tokens: p})["a"]; e.Terms.PendingBlocks != 9 {
		t.Errorf("terms %+v, want 9 pending blocks", e.Terms)
	}
	r.Report(id("a"), router.Report{})
	r.Report(id("a"), router.Report{}) // twice without the other processor
	if e := explain(t, r, router.Request{Model: model, Tokens: p})["a"]; e.Terms.PendingBlocks != 0 {
		t.Errorf("terms %+v, want nothing pending once its processor has ended", e.Terms)
	}
}
