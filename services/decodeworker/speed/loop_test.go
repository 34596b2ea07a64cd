package speed

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/services/decodeworker/disagg"
)

// world is how quick a decode and a prefill worker truly are.
type world struct {
	localToken, remoteToken time.Duration
	overhead                time.Duration // of a hand-off
	decoding                int
	attended                int  // tokens of each of those
	target                  int  // ITL, in milliseconds
	remote                  bool // the better way
}

const (
	trueStep = 8 * time.Millisecond
	trueEach = 3 * time.Millisecond
	perByte  = 0.5 // nanoseconds
	perToken = 500 * time.Nanosecond
)

// loop is a decode worker that decides, learns and lives in virtual time.
type loop struct {
	l    *Learner
	c    counters
	r    *rand.Rand
	now  time.Time
	away uint64
	calm int
}

func newLoop(seed uint64) *loop {
	return &loop{l: New(DefaultStart(16, 128)), r: rand.New(rand.NewPCG(seed, 7)), now: epoch}
}

// calm is how many measurements pass at least from one that is far off to the next: more
// than lie between three looks at the way that is not taken.
const calm = 600

// noisy is a time as it is measured: a tenth to and fro, and once in a while far off.
func (o *loop) noisy(d time.Duration) time.Duration {
	if o.calm++; o.calm > calm && o.r.IntN(30) == 0 {
		o.calm = 0
		return 8 * d
	}
	return time.Duration(float64(d) * (0.9 + 0.2*o.r.Float64()))
}

// request is one request in a world; it answers whether it went remote.
func (o *loop) request(w world) bool {
	p := disagg.DefaultPolicy(16)
	p.ITLTargetMS = w.target
	f := facts(20+o.r.IntN(300), disagg.Speeds{})
	f.Decoding = w.decoding
	o.l.Prepare(o.now, &f)
	d := disagg.Decide(&p, &f)
	o.l.Decided(&d)
	rows := time.Duration(f.PromptTokens)
	steps := 1 + f.PromptTokens/128
	each := trueEach + time.Duration(w.attended)*perToken
	alone := trueStep + time.Duration(w.decoding)*each
	if d.Remote {
		compute := o.noisy(rows*w.remoteToken + time.Duration(steps)*trueStep)
		write := o.noisy(time.Duration(perByte * float64(f.PromptTokens*f.RowBytes)))
		whole := o.noisy(w.overhead) + compute + write
		o.now = o.now.Add(whole)
		o.l.Remote(o.now, f, &d, HandOff{
			PrefillWorker: "p", Compute: compute, Write: write, Transfer: write, Bytes: uint64(f.PromptTokens * f.RowBytes),
			ComputedTokens: f.PromptTokens, Whole: whole,
		})
		o.away++
		o.c.GeneratedTokens++
	} else {
		busy := o.noisy(rows*w.localToken + time.Duration(steps)*alone)
		o.c.prefill(steps, f.PromptTokens, w.decoding, busy)
		o.c.attend(steps, w.decoding*w.attended)
		o.now = o.now.Add(busy)
		o.l.Steps(o.now, o.c.Report, o.away)
		o.l.Local(o.now, &d, busy+time.Millisecond, busy)
	}
	o.c.decode(20, w.decoding+1, o.noisy(alone+each))
	o.c.attend(20, (w.decoding+1)*w.attended)
	o.now = o.now.Add(time.Second)
	o.l.Steps(o.now, o.c.Report, o.away)
	return d.Remote
}

// share is how many of the requests went remote.
func (o *loop) share(w world, requests int) float64 {
	n := 0
	for range requests {
		if o.request(w) {
			n++
		}
	}
	return float64(n) / float64(requests)
}

var (
	twins   = world{localToken: 5 * time.Millisecond, remoteToken: 5 * time.Millisecond, overhead: 8 * time.Millisecond}
	quick   = world{localToken: 5 * time.Millisecond, remoteToken: 2 * time.Millisecond, overhead: 8 * time.Millisecond, remote: true}
	tiny    = world{localToken: 50 * time.Microsecond, remoteToken: 50 * time.Microsecond, overhead: 3 * time.Millisecond}
	far     = world{localToken: 5 * time.Millisecond, remoteToken: 5 * time.Millisecond, overhead: 2 * time.Second}
	slow    = world{localToken: 5 * time.Millisecond, remoteToken: 12 * time.Millisecond, overhead: 8 * time.Millisecond}
	batch   = world{localToken: 5 * time.Millisecond, remoteToken: 6 * time.Millisecond, overhead: 30 * time.Millisecond, decoding: 6, target: 50, remote: true}
	deep    = world{localToken: 5 * time.Millisecond, remoteToken: 6 * time.Millisecond, overhead: 30 * time.Millisecond, decoding: 2, attended: 40_000, target: 50, remote: true}
	patient = world{localToken: 5 * time.Millisecond, remoteToken: 6 * time.Millisecond, overhead: 30 * time.Millisecond, decoding: 6, target: 2000}
)

func worlds() map[string]world {
	return map[string]world{
		"twins": twins, "quick": quick, "tiny": tiny, "far": far, "slow": slow, "batch": batch, "deep": deep, "patient": patient,
	}
}

// seeds is how many histories there are of each.
const seeds uint64 = 8

// settling is how many requests the decision may take to come to the better way.
const settling = 40

func TestTheLoopComesToTheBetterWay(t *testing.T) {
	for name, w := range worlds() {
		for seed := range seeds {
			t.Run(fmt.Sprint(name, seed), func(t *testing.T) {
				o := newLoop(seed)
				t.Logf("%.2f of the first %d went remote", o.share(w, settling), settling)
				o.check(t, w, 640)
			})
		}
	}
}

// check asks that all but the exploring ones and a few go the better way.
func (o *loop) check(t *testing.T, w world, requests int) {
	t.Helper()
	share := o.share(w, requests)
	if w.remote {
		share = 1 - share
	}
	t.Logf("%.3f of %d went the worse way; %+v", share, requests, o.l.Speeds(o.now))
	if share > 0.06 {
		t.Errorf("%.3f of %d went the worse way", share, requests)
	}
}

func TestTheLoopFollowsAChange(t *testing.T) {
	for from, w := range worlds() {
		for to, v := range worlds() {
			if w.remote == v.remote {
				continue
			}
			for seed := range seeds {
				t.Run(fmt.Sprint(from, " to ", to, seed), func(t *testing.T) {
					o := newLoop(seed)
					o.share(w, 300)
					o.change(t, v)
					o.share(v, settling)
					o.check(t, v, 640)
				})
			}
		}
	}
}

// change makes requests in a world until sixteen in a row have gone the better way.
func (o *loop) change(t *testing.T, w world) {
	t.Helper()
	taken, most := 0, 400
	if w == tiny { // a hundred times as quick as before, which only the fading brings to light
		most = 1500
	}
	for right := 0; right < 16; taken++ {
		if taken == most {
			t.Fatalf("after %d requests it has not changed", taken)
		}
		if right++; o.request(w) != w.remote {
			right = 0
		}
	}
	t.Logf("changed after %d requests", taken)
}

// The loser is looked at once in a while, so that a change can be noticed at all.
func TestTheLoopKeepsExploring(t *testing.T) {
	o := newLoop(1)
	o.share(twins, 100)
	if share := o.share(twins, 640); share < 0.01 {
		t.Errorf("%.3f went the worse way, want one of 64", share)
	}
}
