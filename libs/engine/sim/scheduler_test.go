package sim

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/prefix"
	"github.com/switchyard-llm/switchyard/libs/scheduler"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// tokens collects a sequence's output.
type tokens struct {
	all  []sequence.Token
	err  error
	done chan struct{}
}

func (s *tokens) Token(t sequence.Token, _ *sequence.LogProbs) { s.all = append(s.all, t) }

func (s *tokens) End(_ sequence.Finish, err error) {
	s.err = err
	close(s.done)
}

// worker runs a scheduler over a pool of so many blocks until the test ends.
func worker(t *testing.T, cfg Config, blocks int) (*scheduler.Scheduler, *block.Pool) {
	t.Helper()
	s, _ := open(t, cfg, blocks)
	pool, err := block.NewPool(block.Config{Blocks: blocks, BlockTokens: cfg.BlockTokens, Chain: prefix.Next, Changes: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	s.SetTierSink(pool)
	sched, err := scheduler.New(scheduler.Config{StepTokens: 100, Running: 32, Waiting: 100}, s, pool, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- sched.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return sched, pool
}

// begin submits a sequence at a temperature and starts it once it is admitted.
func begin(t *testing.T, s *scheduler.Scheduler, prompt []sequence.Token, max int) *tokens {
	t.Helper()
	out := &tokens{done: make(chan struct{})}
	spec := sequence.Spec{Prompt: prompt, MaxTokens: max, Sampling: sequence.Sampling{Temperature: 2, TopP: 1, Seed: uint64(len(prompt))}}
	q, err := s.Submit(spec, out, scheduler.Options{Namespace: "n", Root: prefix.Root("m", "", "")})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := q.Start(); err != nil {
		t.Fatal(err)
	}
	return out
}

// Sequences that share prefixes, blocks and steps, and press each other out of the pool, get their answers,
// whatever the temperature.
func TestSequencesOfASchedulerGetTheirAnswers(t *testing.T) {
	for _, host := range []int{0, 20} {
		synctest.Test(t, func(t *testing.T) {
			cfg := config(t)
			cfg.SpeedUp = 1
			cfg.Tiers = TierConfig{HostBlocks: host, DiskBlocks: host}
			s, pool := worker(t, cfg, 60)
			r := rand.New(rand.NewPCG(11, 12))
			stems := [][]sequence.Token{randomPrompt(r, 100), randomPrompt(r, 50), randomPrompt(r, 16), nil}
			type run struct {
				prompt []sequence.Token
				max    int
				out    *tokens
			}
			var runs []run
			for range 200 {
				prompt := append(append([]sequence.Token(nil), stems[r.IntN(len(stems))]...), randomPrompt(r, 1+r.IntN(40))...)
				max := 1 + r.IntN(40)
				runs = append(runs, run{prompt, max, begin(t, s, prompt, max)})
				time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
			}
			for i, one := range runs {
				<-one.out.done
				if diff := cmp.Diff(Answer(one.prompt, one.max), one.out.all); one.out.err != nil || diff != "" {
					t.Fatalf("sequence %d: %v (-want +got):\n%s", i, one.out.err, diff)
				}
			}
			if stats := pool.Stats(); stats.CachedTokens == 0 || stats.Evictions == 0 {
				t.Errorf("nothing was shared or evicted: %+v", stats)
			}
		})
	}
}

// What the pool had to give up comes back from the host in the time of loading it.
func TestEvictedPromptsAreLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(t)
		cfg.SpeedUp = 1
		cfg.Tiers = TierConfig{HostBlocks: 100, HostBytesPerSecond: 100_000 * float64(cfg.Shape.KVBytes(cfg.Numerics))} // 10 µs a token
		s, pool := worker(t, cfg, 20)
		r := rand.New(rand.NewPCG(13, 14))
		first := randomPrompt(r, 12*testBlock)
		took := func(prompt []sequence.Token) time.Duration {
			at := time.Now()
			out := begin(t, s, prompt, 1)
			<-out.done
			if diff := cmp.Diff(Answer(prompt, 1), out.all); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			return time.Since(at)
		}
		if got, want := took(first), 12*testBlock*time.Millisecond; got != want {
			t.Errorf("at first: %v, want %v", got, want)
		}
		for range 3 {
			took(randomPrompt(r, 12*testBlock))
		}
		if pool.Stats().Evictions < 12 {
			t.Fatalf("%+v", pool.Stats())
		}
		changes, _, _ := pool.Changes(nil)
		below := 0
		for _, c := range changes {
			if c.Kind == block.Stored && c.Tier == block.Host {
				below++
			}
		}
		if below < 12 {
			t.Errorf("the pool was told of %d blocks on the host", below)
		}
		// The steps have 100 tokens: the 7th block is begun in one and finished in another, the last is computed.
		if got, want := took(first), 2*testBlock*time.Millisecond+10*testBlock*10*time.Microsecond; got != want {
			t.Errorf("again: %v, want %v", got, want)
		}
	})
}
