package router_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/services/processor/router"
)

const (
	model = "m"
	size  = 4 // tokens per block
)

func id(name string) router.WorkerID { return router.WorkerID{Name: name, Incarnation: "1"} }

// prompt gives n tokens that start with the given ones and are otherwise unlike any other.
func prompt(n int, start ...sequence.Token) []sequence.Token {
	for len(start) < n {
		start = append(start, rand.Uint32())
	}
	return start[:n]
}

func newRouter(t testing.TB, change func(*router.Config), names ...string) *router.Router {
	t.Helper()
	return newSharing(t, change, router.Options{}, names...)
}

// self is the processor that the router belongs to.
var self = router.ProcessorID{Name: "processor", Incarnation: "1"}

func newSharing(t testing.TB, change func(*router.Config), opt router.Options, names ...string) *router.Router {
	t.Helper()
	cfg := router.DefaultConfig()
	cfg.PrefillWeight, cfg.DecodeWeight, cfg.StallWeight = 1, 1, 0
	if change != nil {
		change(&cfg)
	}
	if opt.Self == (router.ProcessorID{}) {
		opt.Self = self
	}
	if opt.Random == nil {
		opt.Random = rand.New(rand.NewPCG(1, 2))
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	r, err := router.New(cfg, opt)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if err := r.Add(router.Worker{ID: id(n), Model: model, BlockTokens: size}); err != nil {
			t.Fatal(err)
		}
		r.Attach(id(n))
	}
	return r
}

func accept(*router.Choice) bool { return true }

// counted is a report's word on how far this processor's bookings are part of it.
func counted(n uint64) []router.Counted { return []router.Counted{{Processor: self, Booking: n}} }

func pick(t testing.TB, r *router.Router, tokens []sequence.Token, avoid ...router.WorkerID) router.Choice {
	t.Helper()
	c, err := r.Pick(router.Request{Model: model, Tokens: tokens, Avoid: avoid}, accept)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCostIsUncachedPromptPlusPrefillPlusDecode(t *testing.T) {
	warm := prompt(40)
	for _, c := range []struct {
		name string
		a, b router.Report
		want string
	}{
		{"the cached one when idle", router.Report{}, router.Report{}, "a"},
		{"the cached one while it costs less", router.Report{DecodeTokens: 16, PrefillTokens: 16}, router.Report{}, "a"},
		{"the other when prefill outweighs the hit", router.Report{PrefillTokens: 40}, router.Report{}, "b"},
		{"the other when decode outweighs the hit", router.Report{DecodeTokens: 40}, router.Report{}, "b"},
		{"the cached one when the other is busier", router.Report{DecodeTokens: 40}, router.Report{DecodeTokens: 8}, "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRouter(t, nil, "a")
			pick(t, r, warm)
			if err := r.Add(router.Worker{ID: id("b"), Model: model, BlockTokens: size}); err != nil {
				t.Fatal(err)
			}
			r.Attach(id("b"))
			c.a.Booked = counted(1)
			r.Report(id("a"), c.a)
			r.Report(id("b"), c.b)
			got := pick(t, r, warm)
			if got.Worker.Name != c.want {
				t.Errorf("picked %+v, want %s", got, c.want)
			}
		})
	}
}

func TestOnePromptTokenIsAlwaysComputed(t *testing.T) {
	for n, want := range map[int]int{1: 0, 4: 0, 5: 4, 8: 4, 9: 8} {
		r := newRouter(t, nil, "a")
		p := prompt(n)
		pick(t, r, p)
		if got := pick(t, r, p).CachedTokens; got != want {
			t.Errorf("prompt of %d tokens: hit %d, want %d", n, got, want)
		}
	}
}

func TestSelectAndBookIsOneStep(t *testing.T) {
	r := newRouter(t, nil, "a", "b", "c", "d")
	seen := map[string]int{}
	for range 40 { // without a report in between
		seen[pick(t, r, prompt(10)).Worker.Name]++
	}
	if diff := cmp.Diff(map[string]int{"a": 10, "b": 10, "c": 10, "d": 10}, seen); diff != "" {
		t.Errorf("picks (-want +got):\n%s", diff)
	}
}

func TestReportReplacesTheBookingsThatItNames(t *testing.T) {
	r := newRouter(t, nil, "a")
	var bookings []uint64
	for range 3 {
		bookings = append(bookings, pick(t, r, prompt(8)).Booking)
	}
	if diff := cmp.Diff([]uint64{1, 2, 3}, bookings); diff != "" {
		t.Errorf("bookings (-want +got):\n%s", diff)
	}
	check := func(when string, prefill, decode int) { // in blocks
		t.Helper()
		if l := r.Loads()[0]; l.PrefillTokens != prefill*size || l.DecodeTokens != decode*size {
			t.Errorf("%s: load %d + %d, want %d + %d", when, l.PrefillTokens, l.DecodeTokens, prefill*size, decode*size)
		}
	}
	check("all pending", 6, 6)
	r.Report(id("a"), router.Report{Booked: counted(2), PrefillTokens: 4, DecodeTokens: 16})
	check("one pending", 3, 6)
	r.Report(id("a"), router.Report{Booked: counted(1), PrefillTokens: 4, DecodeTokens: 16})
	check("an older number", 3, 6)
	r.Report(id("a"), router.Report{Booked: counted(99), PrefillTokens: 4})
	check("a number never given", 1, 0)
	next := pick(t, r, prompt(8))
	check("one after it", 3, 2)
	r.Report(id("a"), router.Report{Booked: counted(next.Booking), PrefillTokens: 4})
	check("its own report", 1, 0)
}

func TestWithdrawnBookingIsNoLoad(t *testing.T) {
	r := newRouter(t, nil, "a")
	c := pick(t, r, prompt(8))
	r.Withdraw(&c)
	r.Withdraw(&c)
	if l := r.Loads()[0]; l.PrefillTokens != 0 || l.DecodeTokens != 0 {
		t.Errorf("load %+v, want none", l)
	}
	if next := pick(t, r, prompt(8)).Booking; next != 2 {
		t.Errorf("booking after a void is %d, want 2", next)
	}
}

func TestBrokenStreamGoesToTheNextWorkerAndForgetsItsBookings(t *testing.T) {
	r := newRouter(t, nil, "a", "b")
	warm := prompt(40)
	first := pick(t, r, warm).Worker
	r.Report(first, router.Report{Booked: counted(1)})
	got, err := r.Pick(router.Request{Model: model, Tokens: warm}, func(c *router.Choice) bool { return c.Worker != first })
	if err != nil || got.Worker == first || got.Booking != 1 {
		t.Fatalf("picked %+v, %v; want the other one, booking 1", got, err)
	}
	if _, err := r.Pick(router.Request{Model: model, Tokens: warm, Avoid: []router.WorkerID{got.Worker}}, accept); !errors.Is(err, router.ErrNoWorker) {
		t.Errorf("picking a detached worker: %v, want ErrNoWorker", err)
	}
	r.Attach(first)
	again := pick(t, r, warm, got.Worker)
	before := r.Loads()
	stale := again
	r.Detach(first)
	r.Attach(first)
	again = pick(t, r, warm, got.Worker)
	r.Withdraw(&stale) // has the number of the present one
	if diff := cmp.Diff(before, r.Loads()); diff != "" {
		t.Errorf("withdrawing a booking of an older stream (-want +got):\n%s", diff)
	}
	if again.Booking != 1 || again.CachedTokens != 36 {
		t.Errorf("after the reconnect: %+v, want booking 1 and the prefix remembered", again)
	}
}

func TestPrefixesGoWithTheIncarnation(t *testing.T) {
	r := newRouter(t, nil, "a")
	warm := prompt(40)
	pick(t, r, warm)
	r.Remove(id("a"))
	next := router.WorkerID{Name: "a", Incarnation: "2"}
	if err := r.Add(router.Worker{ID: next, Model: model, BlockTokens: size}); err != nil {
		t.Fatal(err)
	}
	r.Attach(next)
	if got := pick(t, r, warm); got.Worker != next || got.CachedTokens != 0 {
		t.Errorf("picked %+v, want incarnation 2 without a hit", got)
	}
}

func TestSaltsShareNothing(t *testing.T) {
	r := newRouter(t, nil, "a")
	p := prompt(40)
	for _, c := range []struct {
		salt string
		want int
	}{{"", 0}, {"x", 0}, {"x", 36}, {"", 36}} {
		got, err := r.Pick(router.Request{Model: model, Salt: c.salt, Tokens: p}, accept)
		if err != nil || got.CachedTokens != c.want {
			t.Errorf("salt %q: hit %d, %v; want %d", c.salt, got.CachedTokens, err, c.want)
		}
	}
}

func TestNoCandidates(t *testing.T) {
	for name, prepare := range map[string]func(*router.Router){
		"not attached": func(r *router.Router) { r.Detach(id("a")) },
		"draining":     func(r *router.Router) { r.SetDraining(id("a"), true) },
		"removed":      func(r *router.Router) { r.Remove(id("a")) },
	} {
		r := newRouter(t, nil, "a")
		prepare(r)
		if _, err := r.Pick(router.Request{Model: model, Tokens: prompt(8)}, accept); !errors.Is(err, router.ErrNoWorker) {
			t.Errorf("%s: %v, want ErrNoWorker", name, err)
		}
	}
	if _, err := newRouter(t, nil, "a").Pick(router.Request{Model: "other", Tokens: prompt(8)}, accept); !errors.Is(err, router.ErrNoWorker) {
		t.Errorf("another model: %v, want ErrNoWorker", err)
	}
}

func TestAnswersAreThePrefixOfTheNextTurn(t *testing.T) {
	r := newRouter(t, nil, "a", "b")
	p := prompt(10)
	c := pick(t, r, p)
	conversation := prompt(30, p...)
	r.Remember(c.Worker, "", conversation)
	r.Report(c.Worker, router.Report{Booked: counted(c.Booking)})
	if got := pick(t, r, prompt(40, conversation...)); got.Worker != c.Worker || got.CachedTokens != 28 {
		t.Errorf("picked %+v, want %s with a hit of 28", got, c.Worker)
	}
}

func TestPolicies(t *testing.T) {
	warm := prompt(40)
	for policy, want := range map[router.Policy]func(map[string]int) bool{
		router.RoundRobin:  func(n map[string]int) bool { return n["a"] == 100 && n["b"] == 100 && n["c"] == 100 },
		router.Random:      func(n map[string]int) bool { return n["a"] > 70 && n["b"] > 70 && n["c"] > 70 },
		router.LeastLoaded: func(n map[string]int) bool { return n["a"] == 0 && n["b"] > 100 && n["c"] > 100 },
		router.KV:          func(n map[string]int) bool { return n["a"] == 300 },
	} {
		r := newRouter(t, func(c *router.Config) { c.Policy = policy }, "a")
		pick(t, r, warm) // a is warm, and a little busier
		for _, n := range []string{"b", "c"} {
			if err := r.Add(router.Worker{ID: id(n), Model: model, BlockTokens: size}); err != nil {
				t.Fatal(err)
			}
			r.Attach(id(n))
		}
		r.Report(id("a"), router.Report{Booked: counted(1), DecodeTokens: 4})
		picks := map[string]int{}
		for range 300 {
			c := pick(t, r, warm)
			picks[c.Worker.Name]++
			r.Withdraw(&c)
		}
		if !want(picks) {
			t.Errorf("policy %s picked %v", policy, picks)
		}
	}
}

func TestConfigNamesTheFieldThatCannotBe(t *testing.T) {
	for _, change := range []func(*router.Config){
		func(c *router.Config) { c.Policy = "best" },
		func(c *router.Config) { c.PrefillWeight = -1 },
		func(c *router.Config) { c.DecodeWeight = math.NaN() },
		func(c *router.Config) { c.HostCredit = 2 },
		func(c *router.Config) { c.Temperature = -0.1 },
		func(c *router.Config) { c.MemoryBytes = 0 },
		func(c *router.Config) { c.AssumeFor = 0 },
	} {
		cfg := router.DefaultConfig()
		change(&cfg)
		if _, err := router.New(cfg, router.Options{}); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
}
