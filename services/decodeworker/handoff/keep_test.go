package handoff

import (
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

// newKeepingRig has prefill workers, a and b if none is named, which compute a token in the given time.
func newKeepingRig(t *testing.T, affinity, token time.Duration, names ...string) *rig {
	t.Helper()
	if len(names) == 0 {
		names = []string{"a", "b"}
	}
	var live []*instancev1.Instance
	for _, n := range names {
		live = append(live, &instancev1.Instance{Id: n})
	}
	return openRig(t, 40, 150, func(c *Config) { c.Affinity = affinity }, func(a nixl.Agent) nixl.Agent { return a }, func(d *Deps) {
		d.PrefillWorkers = func() []*instancev1.Instance { return live }
		d.ComputeTime = func(tokens int) time.Duration { return time.Duration(tokens) * token }
	})
}

// prefillHinted has the prompt computed, of which a prefill worker is taken to hold 8 tokens.
func (r *rig) prefillHinted(holder string) (<-chan outcome, func(outcome)) {
	r.t.Helper()
	q, s := r.admit()
	out := make(chan outcome, 1)
	go func() {
		first, err := r.Prefill(r.t.Context(), q, &generationv1.Sequence{
			Prompt: prompt, MaxTokens: 6, PrefillHint: []string{holder}, PrefillHintTokens: 8,
		})
		out <- outcome{first, err}
	}()
	return out, func(o outcome) { r.finish(q, s, o) }
}

func (p *peer) compute(job *transferv1.RemotePrefillRequest, attempt string) {
	p.r.t.Helper()
	ticket := p.ticket(job, attempt)
	if err := p.write(ticket); err != nil {
		p.r.t.Fatal(err)
	}
	p.note(job, ticket)
}

func TestAJobIsKeptForWhoHoldsItsPrefixAndThenShared(t *testing.T) {
	r := newKeepingRig(t, 20*time.Millisecond, time.Hour)
	got, finish := r.prefillHinted("b")
	kept := <-r.queue.kept
	if kept.worker != "b" {
		t.Errorf("kept for %s, want b", kept.worker)
	}
	shared := <-r.queue.arrived
	if shared.GetTransferId() != kept.GetTransferId() {
		t.Errorf("shared %v, want %v", shared, kept)
	}
	if number := <-r.queue.deleted; number != kept.number {
		t.Errorf("message %d was taken back, want %d, the kept one", number, kept.number)
	}
	r.peer("a").compute(shared, "a#1")
	finish(<-got)
}

func TestAKeptJobIsDoneByItsKeeperAlone(t *testing.T) {
	r := newKeepingRig(t, time.Hour, time.Hour)
	got, finish := r.prefillHinted("b")
	kept := <-r.queue.kept
	p := r.peer("b")
	ticket := p.ticket(kept.RemotePrefillRequest, "b#1")
	// The time is over while the job is in work.
	if err := r.share(t.Context(), r.find(transferOf(kept))); err != nil {
		t.Fatal(err)
	}
	if err := p.write(ticket); err != nil {
		t.Fatal(err)
	}
	p.note(kept.RemotePrefillRequest, ticket)
	finish(<-got)
	if n := len(r.queue.arrived); n != 0 {
		t.Errorf("%d jobs were shared, want none", n)
	}
}

func TestAKeptJobThatItsKeeperGivesUpIsShared(t *testing.T) {
	r := newKeepingRig(t, time.Hour, time.Hour)
	got, finish := r.prefillHinted("b")
	kept := <-r.queue.kept
	r.peer("b").ticket(kept.RemotePrefillRequest, "b#1")
	_, err := r.Abandon(t.Context(), &decodeworkerv1.AbandonClaimRequest{TransferId: kept.GetTransferId(), AttemptId: "b#1"})
	if err != nil {
		t.Fatal(err)
	}
	r.peer("a").compute(<-r.queue.arrived, "a#1")
	finish(<-got)
}

// A job is kept only where that can save time, and no longer than it can save.
func TestWhetherAJobIsKeptAndForHowLong(t *testing.T) {
	const token = time.Millisecond
	for name, tc := range map[string]struct {
		affinity     time.Duration
		hint         []string
		held, cached uint32
		want         string
		keep         time.Duration
	}{
		"as long as computing takes": {time.Hour, []string{"b", "a"}, 64, 16, "b", 48 * token},
		"at most affinity":           {20 * token, []string{"b"}, 64, 16, "b", 20 * token},
		"not where affinity is off":  {0, []string{"b"}, 64, 16, "", 0},
		"no hint":                    {time.Hour, nil, 0, 16, "", 0},
		"no tokens in the hint":      {time.Hour, []string{"b"}, 0, 0, "", 0},
		"held here as well":          {time.Hour, []string{"b"}, 64, 64, "", 0},
		"held here, and more":        {time.Hour, []string{"b"}, 64, 80, "", 0},
		"hardly more than here":      {time.Hour, []string{"b"}, 68, 64, "", 0},
		"a holder that is gone":      {time.Hour, []string{"c", "a"}, 64, 16, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newKeepingRig(t, tc.affinity, token)
			x := &transfer{
				sequence: &generationv1.Sequence{PrefillHint: tc.hint, PrefillHintTokens: tc.held},
				job:      &transferv1.RemotePrefillRequest{CachedTokens: tc.cached},
			}
			if worker, keep := r.keeper(x); worker != tc.want || keep != tc.keep {
				t.Errorf("kept for %q, %v; want %q, %v", worker, keep, tc.want, tc.keep)
			}
		})
	}
	r := newKeepingRig(t, time.Hour, token, "b")
	x := &transfer{sequence: &generationv1.Sequence{PrefillHint: []string{"b"}, PrefillHintTokens: 64}, job: &transferv1.RemotePrefillRequest{}}
	if worker, _ := r.keeper(x); worker != "" {
		t.Errorf("kept for %s, which is the only one", worker)
	}
}

func transferOf(k keptJob) block.TransferID { return block.TransferID(k.GetTransferId()) }
