package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/engine"
	"github.com/switchyard-llm/switchyard/libs/engine/enginetest"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/inproc"
	"github.com/switchyard-llm/switchyard/libs/worker"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	"github.com/switchyard-llm/switchyard/services/decodeworker/disagg"
	"github.com/switchyard-llm/switchyard/services/processor/router"
)

// What the engine and the link of BenchmarkAffinity take: a prompt of 1,000 tokens is computed
// in 42 ms and read in 4. They wait and do not compute, so that two cores are enough for all.
const (
	stepTime    = 500 * time.Microsecond
	computeTime = 40 * time.Microsecond // for each token
	moveTime    = 4 * time.Microsecond  // for each token's row
)

// roundsVariable is how many rounds BenchmarkAffinity makes; few by default.
const roundsVariable = "SWITCHYARD_AFFINITY_ROUNDS"

// BenchmarkAffinity compares jobs that are kept for the prefill worker that holds their prefix
// (hand_off.affinity) with jobs that are not, in turns, with the same prompts. The metrics are
// ratios of what is kept to what is not.
func BenchmarkAffinity(b *testing.B) {
	rounds, err := strconv.Atoi(cmp.Or(os.Getenv(roundsVariable), "2"))
	if err != nil {
		b.Fatal(err)
	}
	for _, w := range workloads {
		for _, decodes := range []int{1, 2} {
			for _, load := range []struct {
				name  string
				width int
			}{{"low", 1}, {"busy", 6}} {
				b.Run(fmt.Sprintf("%s/%d_decode/%s", w.name, decodes, load.name), func(b *testing.B) {
					f := newFleet(b, decodes, w)
					var without, with figures
					for b.Loop() {
						for round := range rounds {
							// Each is first in turn.
							for i := range 2 {
								keep := i == round%2
								figures := &without
								if keep {
									figures = &with
								}
								f.measure(b, figures, load.width, uint64(round), keep)
							}
						}
					}
					compare(b, &without, &with)
				})
			}
		}
	}
}

// fleet is two prefill workers and some decode workers behind a router.
type fleet struct {
	*line
	workload workload
	router   *router.Router
	decodes  map[string]decodeworkerv1.DecodeWorkerClient
	runs     int
}

// workload draws prompts; those of the first kind are not measured.
type workload struct {
	name                                string
	decodePoolTokens, prefillPoolTokens int
	draw                                func(*rand.Rand) (first, measured [][]uint32)
}

var workloads = []workload{
	// The decode workers hold what is shared, too.
	{"cached", 1 << 16, 1 << 16, sharing(16, 1024, 64, 96)},
	{"cached-turns", 1 << 16, 1 << 16, conversations(24, 5)},
	{"cached-hot", 1 << 16, 1 << 16, sharing(1, 1024, 256, 72)},
	// Their pools are too small for it; each of the prefill workers' has room for two thirds in "scarce".
	{"evicted", 1 << 13, 1 << 17, sharing(48, 1024, 64, 96)},
	{"evicted-scarce", 1 << 13, 1 << 15, sharing(48, 1024, 64, 96)},
	{"evicted-turns", 1 << 13, 1 << 17, conversations(24, 5)},
	// Nothing is shared, or only what all prompts begin with.
	{"unique", 1 << 16, 1 << 16, sharing(1, 0, 512, 72)},
	{"unique-common", 1 << 16, 1 << 16, sharing(1, 32, 480, 72)},
}

func randomTokens(r *rand.Rand, prefix []uint32, n int) []uint32 {
	t := slices.Clone(prefix)
	for range n {
		t = append(t, uint32(r.IntN(enginetest.ToyVocab)))
	}
	return t
}

// sharing is prompts that begin with one of some prefixes; each prefix comes once before.
func sharing(prefixes, tokens, more, requests int) func(*rand.Rand) (first, measured [][]uint32) {
	return func(r *rand.Rand) (first, measured [][]uint32) {
		shared := make([][]uint32, prefixes)
		for i := range shared {
			shared[i] = randomTokens(r, nil, tokens)
			first = append(first, randomTokens(r, shared[i], more))
		}
		for range requests {
			measured = append(measured, randomTokens(r, shared[r.IntN(prefixes)], more))
		}
		return first, measured
	}
}

// conversations is prompts that go on from an earlier prompt.
func conversations(n, turns int) func(*rand.Rand) (first, measured [][]uint32) {
	return func(r *rand.Rand) (first, measured [][]uint32) {
		for range n {
			first = append(first, randomTokens(r, nil, 512))
		}
		last := slices.Clone(first)
		for range turns {
			for _, i := range r.Perm(n) {
				last[i] = randomTokens(r, last[i], 96)
				measured = append(measured, last[i])
			}
		}
		return first, measured
	}
}

func newFleet(b *testing.B, decodes int, w workload) *fleet {
	network := inproc.NewNetwork()
	f := &fleet{workload: w, decodes: make(map[string]decodeworkerv1.DecodeWorkerClient)}
	f.line = newBareLine(b, func(c nixl.Config) equipment {
		c.KVFormat = "toy"
		agent, err := network.NewAgent(c)
		if err != nil {
			b.Fatal(err)
		}
		toy := enginetest.NewToy(16, 4096)
		toy.BeforeStep = slowStep
		pool := worker.DefaultConfig()
		pool.PoolTokens = w.decodePoolTokens
		if strings.HasPrefix(c.Name, "prefill") {
			pool.PoolTokens, pool.StepTokens = w.prefillPoolTokens, 256
		}
		return equipment{executor: toy, agent: &slowAgent{Agent: agent, rowBytes: toy.Card().Layout.RowBytes()}, pool: pool}
	})
	f.policy = disagg.Policy{Policy: disagg.Always}
	var err error
	if f.router, err = router.New(router.DefaultConfig(), router.Options{Random: rand.New(rand.NewPCG(1, 1)), Now: time.Now}); err != nil {
		b.Fatal(err)
	}
	for i := range 2 {
		p := f.startPrefill(b, fmt.Sprintf("prefill-%d", i))
		err = errors.Join(err, f.router.AddPrefill(known(p.GetId(), p.GetIncarnation(), w.prefillPoolTokens)))
	}
	for i := range decodes {
		d := f.startDecode(b, fmt.Sprintf("decode-%d", i))
		f.decodes[d.GetId()] = f.client
		as := known(d.GetId(), d.GetIncarnation(), w.decodePoolTokens)
		err = errors.Join(err, f.router.Add(as))
		f.router.Attach(as.ID)
	}
	if err != nil {
		b.Fatal(err)
	}
	return f
}

func known(name, incarnation string, poolTokens int) router.Worker {
	return router.Worker{
		ID: router.WorkerID{Name: name, Incarnation: incarnation}, Model: "toy", BlockTokens: 16, PoolBlocks: poolTokens / 16,
	}
}

func slowStep(ctx context.Context, b *engine.Batch) error {
	took := stepTime
	for _, s := range b.Segments {
		took += time.Duration(len(s.Tokens)) * computeTime
	}
	return wait(ctx, took)
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// slowAgent moves rows one after the other.
type slowAgent struct {
	nixl.Agent
	rowBytes int
	mu       sync.Mutex
	free     time.Time // when what was posted so far has moved
}

func (a *slowAgent) Create(r nixl.Request) (nixl.Transfer, error) {
	t, err := a.Agent.Create(r)
	if err != nil {
		return nil, err
	}
	bytes := 0
	for _, c := range r.Copies {
		bytes += c.Local.Bytes
	}
	return slowTransfer{t, a, moveTime * time.Duration(bytes) / time.Duration(a.rowBytes)}, nil
}

type slowTransfer struct {
	nixl.Transfer
	agent *slowAgent
	takes time.Duration
}

func (t slowTransfer) Post(ctx context.Context) error {
	a := t.agent
	a.mu.Lock()
	now := time.Now()
	if a.free.Before(now) {
		a.free = now
	}
	a.free = a.free.Add(t.takes)
	until := a.free.Sub(now)
	a.mu.Unlock()
	if err := wait(ctx, until); err != nil {
		return err
	}
	return t.Transfer.Post(ctx)
}

// figures are those of one way, over all rounds.
type figures struct {
	ttft                 []time.Duration
	computed, deliveries uint64
}

// measure adds a round of the workload, of so many requests at once.
func (f *fleet) measure(b *testing.B, to *figures, width int, seed uint64, keep bool) {
	f.runs++
	salt := strconv.Itoa(f.runs) // nothing of another round is found
	first, measured := f.workload.draw(rand.New(rand.NewPCG(seed, 1)))
	f.all(b, first, 3, salt, keep)
	computed, deliveries := f.count(b)
	to.ttft = append(to.ttft, f.all(b, measured, width, salt, keep)...)
	computedThen, deliveriesThen := f.count(b)
	to.computed += computedThen - computed
	to.deliveries += deliveriesThen - deliveries
}

func (f *fleet) count(b *testing.B) (computed, deliveries uint64) {
	for _, p := range f.prefills {
		d, err := p.Describe(b.Context(), nil)
		if err != nil {
			b.Fatal(err)
		}
		computed += d.GetJobs().GetComputedTokens()
		deliveries += d.GetJobs().GetDeliveries() + d.GetJobs().GetGivenBack()
	}
	return computed, deliveries
}

func (f *fleet) all(b *testing.B, prompts [][]uint32, width int, salt string, keep bool) []time.Duration {
	slots, took := make(chan struct{}, width), make([]time.Duration, len(prompts))
	var work sync.WaitGroup
	for i, p := range prompts {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			var err error
			if took[i], err = f.ask(b.Context(), p, salt, keep); err != nil {
				b.Error(err)
			}
		})
	}
	work.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return took
}

// ask sends a prompt where the router says, and returns the time to its first token.
func (f *fleet) ask(ctx context.Context, prompt []uint32, salt string, keep bool) (time.Duration, error) {
	begun, r := time.Now(), router.Request{Model: "toy", Salt: salt, Tokens: prompt}
	hint := f.router.Hint(r)
	defer f.router.Placed(&hint)
	choice, err := f.router.Pick(r, func(*router.Choice) bool { return true })
	if err != nil {
		return 0, err
	}
	defer f.router.Ended(&choice, 0)
	s := &generationv1.Sequence{Prompt: prompt, MaxTokens: 1, CacheSalt: salt, Sampling: &generationv1.Sampling{}}
	if keep {
		s.PrefillHint, s.PrefillHintTokens = hint.Names, uint32(hint.Tokens)
	}
	stream, err := f.decodes[choice.Worker.Name].Generate(ctx, &decodeworkerv1.GenerateRequest{Sequence: s})
	for err == nil {
		var m *decodeworkerv1.GenerateResponse
		m, err = stream.Recv()
		if e := m.GetEnded(); e != nil {
			took := time.Since(begun)
			if e.GetPlacement() != generationv1.Placement_PLACEMENT_REMOTE {
				return 0, fmt.Errorf("placed %v", e.GetPlacement())
			}
			f.router.ComputedAt(e.GetPrefillWorker(), salt, prompt)
			_, _ = stream.Recv() // the status
			return took, nil
		}
	}
	return 0, err
}

func compare(b *testing.B, without, with *figures) {
	slices.Sort(without.ttft)
	slices.Sort(with.ttft)
	mean := func(f *figures) (sum time.Duration) {
		for _, t := range f.ttft {
			sum += t
		}
		return sum / time.Duration(len(f.ttft))
	}
	at := func(f *figures, share float64) time.Duration { return f.ttft[int(share*float64(len(f.ttft)))] }
	ratio := func(x, y time.Duration, unit string) { b.ReportMetric(float64(x)/float64(y), unit) }
	b.ReportMetric(float64(mean(without))/1e6, "ms-without")
	ratio(mean(with), mean(without), "mean")
	ratio(at(with, .5), at(without, .5), "p50")
	ratio(at(with, .99), at(without, .99), "p99")
	b.ReportMetric(float64(with.computed)/float64(without.computed), "computed")
	b.ReportMetric(float64(with.deliveries)/float64(len(with.ttft)), "deliveries")
	b.ReportMetric(0, "ns/op")
}
