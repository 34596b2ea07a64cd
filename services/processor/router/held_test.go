package router_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/prefix"
	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/services/processor/router"
)

// join adds workers that publish what they hold.
func join(t testing.TB, r *router.Router, change func(*router.Worker), names ...string) {
	t.Helper()
	for _, n := range names {
		w := router.Worker{ID: id(n), Model: model, BlockTokens: size, PoolBlocks: 1000, Events: true}
		if change != nil {
			change(&w)
		}
		if err := r.Add(w); err != nil {
			t.Fatal(err)
		}
		r.Attach(w.ID)
	}
}

// chain is the blocks of a prompt, after their root.
func chain(tokens []sequence.Token) (block.Hash, []block.Hash) {
	root := prefix.Root(model, "", "")
	return root, prefix.Chain(nil, root, tokens, size)
}

// hold says that a worker holds the first blocks of a prompt.
func hold(r *router.Router, name string, tier prefix.Tier, tokens []sequence.Token, from, to int) {
	root, c := chain(tokens)
	if from > 0 {
		root = c[from-1]
	}
	r.Stored(id(name), tier, root, c[from:to])
}

func explain(t testing.TB, r *router.Router, req router.Request) map[string]router.Explained {
	t.Helper()
	list, _ := r.Explain(req)
	m := map[string]router.Explained{}
	for _, e := range list {
		m[e.ID.Name] = e
	}
	return m
}

func TestWhatAWorkerHoldsIsWhatItPublished(t *testing.T) {
	r := newRouter(t, nil)
	join(t, r, nil, "a")
	p := prompt(40)
	root, c := chain(p)
	steps := []struct {
		name string
		do   func()
		want int
	}{
		{"nothing, whatever was sent there", func() { got := pick(t, r, p); r.Ended(&got, 1) }, 0},
		{"the stored blocks", func() { r.Stored(id("a"), prefix.Device, root, c[:6]) }, 24},
		{"those before a hole", func() { r.Removed(id("a"), prefix.Device, c[2:3]) }, 8},
		{"all again once it is filled", func() { r.Stored(id("a"), prefix.Device, c[1], c[2:3]) }, 24},
		{"never the last token", func() { r.Stored(id("a"), prefix.Device, c[5], c[6:]) }, 36},
		{"the same after a broken stream", func() { r.Detach(id("a")); r.Attach(id("a")) }, 36},
		{"nothing after a reset", func() { r.Reset(id("a")) }, 0},
		{"nothing that another life says", func() {
			r.Stored(router.WorkerID{Name: "a", Incarnation: "0"}, prefix.Device, root, c)
		}, 0},
	}
	for _, s := range steps {
		s.do()
		got := pick(t, r, p)
		if got.CachedTokens != s.want || got.HeldTokens != s.want {
			t.Errorf("%s: a hit of %d, %d held; want %d", s.name, got.CachedTokens, got.HeldTokens, s.want)
		}
		r.Ended(&got, 1)
	}
}

func TestLowerTiersCountByTheirCredit(t *testing.T) {
	r := newRouter(t, nil)
	join(t, r, nil, "a")
	p := prompt(41)
	hold(r, "a", prefix.Device, p, 0, 4)
	hold(r, "a", prefix.Host, p, 4, 8)
	hold(r, "a", prefix.Disk, p, 8, 10)
	want := router.Terms{DeviceBlocks: 4, HostBlocks: 4, DiskBlocks: 2, UncachedTokens: 41 - 4*(4+0.75*4+0.25*2), InBlocks: true}
	want.Prefill, want.Decode = want.UncachedTokens/size, 41./size
	got := explain(t, r, router.Request{Model: model, Tokens: p})["a"].Terms
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("terms (-want +got):\n%s", diff)
	}
}

func TestAPromptUnderWayIsAHitForTheNextOne(t *testing.T) {
	r := newRouter(t, nil)
	join(t, r, nil, "a", "b")
	p := prompt(40)
	hold(r, "a", prefix.Device, p, 0, 2)
	hold(r, "b", prefix.Device, p, 0, 2)
	req := router.Request{Model: model, Tokens: p}
	first := pick(t, r, p)
	name, other := first.Worker.Name, map[string]string{"a": "b", "b": "a"}[first.Worker.Name]
	check := func(when string, at string, device, pending int) {
		t.Helper()
		if e := explain(t, r, req)[at].Terms; e.DeviceBlocks != device || e.PendingBlocks != pending {
			t.Errorf("%s: %s holds %d and waits for %d, want %d and %d", when, at, e.DeviceBlocks, e.PendingBlocks, device, pending)
		}
	}
	check("sent", name, 2, 7)
	check("sent elsewhere", other, 2, 0)
	hold(r, name, prefix.Device, p, 2, 5)
	check("half stored", name, 5, 4)
	second := pick(t, r, prompt(60, p[:36]...))
	r.Ended(&first, 3)
	if second.Worker.Name == name { // it waits for the same blocks
		check("the first has ended", name, 5, 4)
	}
	r.Ended(&second, 3)
	check("all have ended", name, 5, 0)
	third := pick(t, r, p)
	hold(r, third.Worker.Name, prefix.Device, p, 0, 10)
	check("all stored", third.Worker.Name, 9, 0)
	r.Remove(third.Worker)
	r.Ended(&third, 1)
}

// A hit that is only expected counts as much as the configuration says.
func TestPendingCredit(t *testing.T) {
	r := newRouter(t, func(c *router.Config) { c.PendingCredit = 0.5 })
	join(t, r, nil, "a")
	p := prompt(41)
	pick(t, r, p)
	e := explain(t, r, router.Request{Model: model, Tokens: p})["a"].Terms
	if e.PendingBlocks != 10 || e.UncachedTokens != 41-20 {
		t.Errorf("terms %+v, want 10 pending blocks that count half", e)
	}
}

func TestAWorkerThatHasLessThanItSaidIsCorrected(t *testing.T) {
	r := newRouter(t, nil)
	join(t, r, nil, "a")
	p := prompt(40)
	req := router.Request{Model: model, Tokens: p}
	hold(r, "a", prefix.Device, p, 0, 9)
	c := pick(t, r, p)
	if r.Observed(&c, req, 36) {
		t.Error("a worker that told the truth is taken for a liar")
	}
	if !r.Observed(&c, req, 12) || r.Observed(&c, req, 12) {
		t.Error("a lie must be found, once")
	}
	if got := pick(t, r, p); got.HeldTokens != 12 {
		t.Errorf("then %d tokens are held, want 12", got.HeldTokens)
	}
	honest := pick(t, r, p)
	root, hashes := chain(p)
	r.Removed(id("a"), prefix.Device, hashes[1:])
	if r.Observed(&honest, req, 4) {
		t.Error("a worker that evicted in between is taken for a liar")
	}
	r.Stored(id("a"), prefix.Device, root, hashes)
	if got := r.Counts(); got.Corrections != 1 || got.CorrectedBlocks != 6 {
		t.Errorf("counts %+v, want one lie of 6 blocks", got)
	}
}

func TestAssumedPrefixesEnd(t *testing.T) {
	now := time.Unix(0, 0)
	r := newSharing(t, nil, router.Options{Now: func() time.Time { return now }}, "a")
	p, other := prompt(40), prompt(40)
	hit := func(p []sequence.Token) int {
		c := pick(t, r, p)
		r.Ended(&c, 1)
		return c.CachedTokens
	}
	hit(p)
	now = now.Add(90 * time.Second)
	if hit(other); hit(p) != 36 {
		t.Error("what was sent 90 s ago is not assumed any more")
	}
	now = now.Add(100 * time.Second)
	if got := hit(other); got != 36 {
		t.Errorf("what was sent 100 s ago: a hit of %d, want 36", got)
	}
	now = now.Add(121 * time.Second)
	if got := hit(p); got != 0 {
		t.Errorf("what was sent 121 s ago: a hit of %d, want none", got)
	}
}

// What is assumed fits the worker's pool, and goes least recently sent first, ends first.
func TestAssumedPrefixesAreBounded(t *testing.T) {
	r := newRouter(t, nil)
	join(t, r, func(w *router.Worker) { w.Events, w.PoolBlocks = false, 16 }, "a")
	p, q := prompt(40), prompt(40)
	for _, tokens := range [][]sequence.Token{p, q} {
		c := pick(t, r, tokens)
		r.Ended(&c, 1)
	}
	if e := explain(t, r, router.Request{Model: model, Tokens: p})["a"]; e.Terms.DeviceBlocks != 6 {
		t.Errorf("%d blocks of the older prompt are left, want 6 of 16", e.Terms.DeviceBlocks)
	}
	c := pick(t, r, p) // its start must not be what makes room for its end
	r.Ended(&c, 1)
	if n := r.Loads()[0].HeldBlocks; n != 16 {
		t.Errorf("%d blocks are assumed, want 16", n)
	}
	for tokens, want := range map[*[]sequence.Token]int{&p: 9, &q: 6} {
		if e := explain(t, r, router.Request{Model: model, Tokens: *tokens})["a"]; e.Terms.DeviceBlocks != want {
			t.Errorf("%d blocks are assumed, want %d", e.Terms.DeviceBlocks, want)
		}
	}
}

func TestCandidatesMustBeAbleToServe(t *testing.T) {
	r := newRouter(t, nil)
	join(t, r, func(w *router.Worker) { w.ContextTokens = 20 }, "short")
	join(t, r, func(w *router.Worker) { w.PoolBlocks = 5 }, "small")
	join(t, r, func(w *router.Worker) { w.LoRAs = []string{"l"} }, "lora")
	for _, c := range []struct {
		name string
		req  router.Request
		want string
		err  error
	}{
		{"too long for two", router.Request{Model: model, Tokens: prompt(20)}, "lora", nil},
		{"an adapter", router.Request{Model: model, LoRA: "l", Tokens: prompt(4)}, "lora", nil},
		{"an adapter that nobody has", router.Request{Model: model, LoRA: "x", Tokens: prompt(4)}, "", router.ErrNoWorker},
		{"one worker", router.Request{Model: model, Worker: "small", Tokens: prompt(4)}, "small", nil},
		{"one worker that refused", router.Request{Model: model, Worker: "small", Avoid: []router.WorkerID{id("small")}, Tokens: prompt(4)}, "", router.ErrNoWorker},
	} {
		got, err := r.Pick(c.req, accept)
		if !errors.Is(err, c.err) || got.Worker.Name != c.want {
			t.Errorf("%s: picked %q, %v; want %q, %v", c.name, got.Worker.Name, err, c.want, c.err)
		}
	}
	for name, e := range explain(t, r, router.Request{Model: model, LoRA: "l", Tokens: prompt(20)}) {
		if (e.Excluded == "") != (name == "lora") {
			t.Errorf("%s is excluded because %q", name, e.Excluded)
		}
	}
}

// speed is that of a worker on which a token of a prompt takes 1 ms and a step 10 ms.
var speed = router.Speed{PrefillToken: time.Millisecond, Step: 10 * time.Millisecond, StepToken: 1e4}

func TestCostIsInMillisecondsOnceASpeedIsKnown(t *testing.T) {
	r := newRouter(t, func(c *router.Config) { c.PrefillWeight, c.DecodeWeight, c.StallWeight = 3, 0.5, 0.25 })
	join(t, r, nil, "a", "new")
	r.Report(id("a"), router.Report{PrefillTokens: 20, Running: 2, DecodeTokens: 100, Speed: speed})
	p := prompt(40)
	hold(r, "a", prefix.Device, p, 0, 5)
	got := explain(t, r, router.Request{Model: model, Tokens: p, MaxOutput: 7})
	want := router.Terms{DeviceBlocks: 5, UncachedTokens: 20, Prefill: 20, Queue: 20, Decode: 7 * (10 + 0.01*140), Stall: 2 * 20}
	if diff := cmp.Diff(want, got["a"].Terms, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("terms (-want +got):\n%s", diff)
	}
	if cost := 3*want.Prefill + want.Queue + 0.5*want.Decode + 0.25*want.Stall; got["a"].Cost != cost {
		t.Errorf("cost %v, want %v", got["a"].Cost, cost)
	}
	// One that has not told its speed is taken to be like the others.
	if e := got["new"].Terms; e.InBlocks || e.Prefill != 40 || e.Queue != 0 {
		t.Errorf("a new worker's terms are %+v", e)
	}
	r.Remove(id("a"))
	if e := explain(t, r, router.Request{Model: model, Tokens: p})["new"].Terms; !e.InBlocks || e.Prefill != 10 {
		t.Errorf("terms are %+v once no speed is known, want blocks", e)
	}
}

// A worker that just joined gets work at once, but not all of it.
func TestANewWorkerIsNeitherStarvedNorFlooded(t *testing.T) {
	r := newRouter(t, func(c *router.Config) { c.PrefillWeight = router.DefaultWeights().PrefillWeight })
	old := []string{"a", "b", "c"}
	join(t, r, nil, old...)
	for _, n := range old {
		r.Report(id(n), router.Report{PrefillTokens: 200, Running: 4, DecodeTokens: 400, Speed: speed})
	}
	join(t, r, nil, "new")
	got := map[string]int{}
	for range 60 {
		got[pick(t, r, prompt(100)).Worker.Name]++
	}
	if got["new"] < 60/4 || got["new"] > 60/2 {
		t.Errorf("picks %v, want the new one to get its share and what it lacked", got)
	}
}

// When the queue of a prefix's holder makes it the slower choice, the prefix spreads.
func TestAHotPrefixIsReplicated(t *testing.T) {
	r := newRouter(t, func(c *router.Config) { c.Weights = router.DefaultWeights() })
	names := []string{"a", "b", "c", "d"}
	join(t, r, nil, names...)
	for _, n := range names {
		r.Report(id(n), router.Report{Speed: speed})
	}
	hot := prompt(400)
	hold(r, "a", prefix.Device, hot, 0, 100)
	got := map[string]int{}
	for range 200 {
		c := pick(t, r, hot)
		got[c.Worker.Name]++
		hold(r, c.Worker.Name, prefix.Device, hot, c.HeldTokens/size, 100)
	}
	if got["a"] < 50 || len(got) != len(names) {
		t.Errorf("picks %v, want the holder first, and all in the end", got)
	}
}

func TestATemperatureSpreadsByCost(t *testing.T) {
	r := newRouter(t, func(c *router.Config) { c.Temperature, c.DecodeWeight = 0.5, 0 })
	join(t, r, nil, "a", "b", "c")
	r.Report(id("b"), router.Report{PrefillTokens: 200})
	r.Report(id("c"), router.Report{PrefillTokens: 400})
	const n = 20_000
	got := map[string]float64{}
	for range n {
		c := pick(t, r, prompt(8))
		got[c.Worker.Name] += 1. / n
		r.Withdraw(&c)
	}
	// p ∝ exp(0), exp(-1), exp(-2): normalised costs 0, 1/2, 1 over a temperature of 1/2.
	want := map[string]float64{"a": 0.6652, "b": 0.2447, "c": 0.0900}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 0.015)); diff != "" {
		t.Errorf("shares (-want +got):\n%s", diff)
	}
}

func TestSessionsStayTogetherAndMoveLittle(t *testing.T) {
	r := newRouter(t, func(c *router.Config) { c.Policy = router.Session })
	names := []string{"a", "b", "c", "d", "e"}
	join(t, r, nil, names...)
	at := func(session string) string {
		c, err := r.Pick(router.Request{Model: model, Session: session, Tokens: prompt(8)}, accept)
		if err != nil {
			t.Fatal(err)
		}
		r.Ended(&c, 1)
		return c.Worker.Name
	}
	const sessions = 1000
	before, spread := map[int]string{}, map[string]int{}
	key := func(i int) string { return string(rune('A'+i%26)) + string(rune('0'+i/26)) }
	for i := range sessions {
		before[i] = at(key(i))
		spread[before[i]]++
		if again := at(key(i)); again != before[i] {
			t.Fatalf("session %d went to %s, then to %s", i, before[i], again)
		}
	}
	for _, n := range names {
		if spread[n] < sessions/len(names)*3/4 {
			t.Errorf("sessions per worker: %v", spread)
		}
	}
	r.Remove(id("e"))
	for i := range sessions {
		if now := at(key(i)); now != before[i] && before[i] != "e" {
			t.Errorf("session %d moved from %s to %s, which it need not", i, before[i], now)
		}
	}
}

func TestThePolicyDirectWantsAWorkersName(t *testing.T) {
	r := newRouter(t, func(c *router.Config) { c.Policy = router.Direct })
	join(t, r, nil, "a", "b")
	if _, err := r.Pick(router.Request{Model: model, Tokens: prompt(8)}, accept); !errors.Is(err, router.ErrNoWorker) {
		t.Errorf("a request that names none: %v, want ErrNoWorker", err)
	}
	if c, err := r.Pick(router.Request{Model: model, Worker: "b", Tokens: prompt(8)}, accept); err != nil || c.Worker.Name != "b" {
		t.Errorf("picked %+v, %v; want b", c, err)
	}
}

func TestPowerOfTwoAvoidsTheBusiest(t *testing.T) {
	r := newRouter(t, func(c *router.Config) { c.Policy = router.PowerOfTwo })
	join(t, r, nil, "a", "b", "c")
	r.Report(id("c"), router.Report{PrefillTokens: 400, DecodeTokens: 400})
	got := map[string]int{}
	for range 900 {
		c := pick(t, r, prompt(8))
		got[c.Worker.Name]++
		r.Withdraw(&c)
	}
	// c comes only when it is drawn twice.
	if got["c"] < 60 || got["c"] > 150 || got["a"] < 300 || got["b"] < 300 {
		t.Errorf("picks %v, want a ninth for the busiest", got)
	}
}

func TestWeightsChangeLive(t *testing.T) {
	r := newRouter(t, nil)
	join(t, r, nil, "a", "b")
	p := prompt(40)
	hold(r, "a", prefix.Device, p, 0, 9)
	r.Report(id("a"), router.Report{DecodeTokens: 20})
	name := func() string {
		c := pick(t, r, p)
		r.Withdraw(&c)
		return c.Worker.Name
	}
	if got := name(); got != "a" {
		t.Errorf("picked %s, want the holder", got)
	}
	w := r.Weights()
	w.DecodeWeight = 10
	r.SetWeights(w)
	if got := name(); got != "b" {
		t.Errorf("picked %s, want the one that decodes nothing", got)
	}
}

// What a decision compares is what Explain tells, in every combination of loads, tiers and prompts under way.
func TestTheCheapestOfWhatIsExplainedIsPicked(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for round := range 200 {
		r := newRouter(t, func(c *router.Config) { c.StallWeight, c.PendingCredit = 0.1, 0.7 })
		p := prompt(80)
		for i := range 1 + random.IntN(6) {
			name := strconv.Itoa(i)
			join(t, r, nil, name)
			hold(r, name, prefix.Device, p, 0, random.IntN(20))
			if random.IntN(4) == 0 {
				hold(r, name, prefix.Host, p, 0, random.IntN(20))
			}
			report := router.Report{PrefillTokens: random.IntN(500), Running: random.IntN(9), DecodeTokens: random.IntN(2000)}
			if random.IntN(2) == 0 {
				report.Speed = router.Speed{PrefillToken: time.Duration(1 + random.IntN(1e6)), Step: time.Duration(1 + random.IntN(1e7)), StepToken: 1e3}
			}
			r.Report(id(name), report)
		}
		for range random.IntN(4) {
			pick(t, r, prompt(80, p[:random.IntN(80)]...))
		}
		list, _ := r.Explain(router.Request{Model: model, Tokens: p})
		if got := pick(t, r, p); math.Abs(got.Cost-list[0].Cost) > 1e-9*list[0].Cost {
			t.Fatalf("round %d: picked %s at %v, the cheapest is %+v", round, got.Worker, got.Cost, list[0])
		}
	}
}

func TestADecisionAllocatesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("under the race detector a sync.Pool drops at random what it is given")
	}
	r, p := benchRouter(t, 64, 1000)
	c := router.Choice{}
	send := func(*router.Choice) bool { return true }
	req := router.Request{Model: model, Tokens: p}
	allocs := testing.AllocsPerRun(200, func() {
		var err error
		if c, err = r.Pick(req, send); err != nil {
			t.Fatal(err)
		}
		r.Computed(&c)
		r.Ended(&c, 10)
	})
	if allocs != 0 {
		t.Errorf("%v allocations a decision, want none", allocs)
	}
}

// benchRouter has workers that each hold a part of a chain of so many blocks.
func benchRouter(t testing.TB, workers, blocks int) (*router.Router, []sequence.Token) {
	r := newSharing(t, nil, router.Options{Random: rand.New(rand.NewPCG(3, 4))})
	p := prompt(blocks*size + 1)
	for i := range workers {
		name := "w" + strconv.Itoa(i)
		join(t, r, func(w *router.Worker) { w.PoolBlocks = 1 << 20 }, name)
		hold(r, name, prefix.Device, p, 0, (i*7919)%(blocks/2)+1)
		r.Report(id(name), router.Report{PrefillTokens: (i * 31) % 1000, Running: i % 32, DecodeTokens: (i * 977) % 100_000, Speed: speed})
	}
	return r, p
}
