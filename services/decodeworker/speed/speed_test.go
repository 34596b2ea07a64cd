package speed

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl/link"
	"github.com/switchyard-llm/switchyard/libs/scheduler"
	"github.com/switchyard-llm/switchyard/services/decodeworker/disagg"
)

var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func near(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if math.Abs(got-want) > share*want {
		t.Errorf("%s is %v, want %v within %v %%", what, got, want, share*100)
	}
}

func TestBeforeAnythingWasMeasured(t *testing.T) {
	got := New(DefaultStart(16, 128)).Speeds(epoch)
	want := disagg.Speeds{ // disagg's tests decide by these
		LocalToken: 5 * time.Millisecond, RemoteToken: 2500 * time.Microsecond,
		Step: 7 * time.Millisecond, StepSequence: 7 * time.Millisecond,
		RemoteOverhead: 40 * time.Millisecond, Job: 640 * time.Millisecond,
		LinkBytesPerSecond: 1e9, LinkLatency: 100 * time.Microsecond, WriteTail: 1,
	}
	got.LinkBytesPerSecond = math.Round(got.LinkBytesPerSecond)
	if got != want {
		t.Errorf("Speeds = %+v, want %+v", got, want)
	}
}

func TestAnEstimateComesToItsSamples(t *testing.T) {
	var e estimate
	for range 6 {
		e.add(epoch, 2)
	}
	near(t, "the estimate", e.value(epoch, 4), 2, 0.1)
	for range 40 {
		e.add(epoch, 2)
	}
	near(t, "the estimate", e.value(epoch, 100), 2, 0.01)
}

func TestOneOutlierChangesNothing(t *testing.T) {
	var e estimate
	for range 20 {
		e.add(epoch, 2)
	}
	for _, outlier := range []float64{2000, 0} {
		before := e.value(epoch, 1)
		e.add(epoch, outlier)
		e.add(epoch, 2)
		e.add(epoch, 2)
		near(t, "the estimate", e.value(epoch, 1), before, 0.001)
	}
	e.add(epoch, 2000)
	e.add(epoch, 2000)
	if e.value(epoch, 1) < 2.3 {
		t.Errorf("a lasting change does not count: %v", e.value(epoch, 1))
	}
	for range 40 {
		e.add(epoch, 2000)
	}
	near(t, "the estimate", e.value(epoch, 1), 2000, 0.15)
}

func TestTwoOutliersChangeLittle(t *testing.T) {
	var e estimate
	for range 30 {
		e.add(epoch, 2)
	}
	e.add(epoch, 2000)
	e.add(epoch, 2000)
	e.add(epoch, 2)
	if got := e.value(epoch, 1); got < 2.3 || got > 3 {
		t.Errorf("the estimate is %v, want at most half more than 2", got)
	}
}

func TestWhatIsNoTimeIsNoSample(t *testing.T) {
	var e estimate
	for _, sample := range []float64{-1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		e.add(epoch, sample)
	}
	if e.value(epoch, 7) != 7 {
		t.Errorf("the estimate is %v, want its start value", e.value(epoch, 7))
	}
}

func TestAnOldEstimateFadesToItsStart(t *testing.T) {
	var e estimate
	for range 30 {
		e.add(epoch, 10)
	}
	for _, tc := range []struct {
		age  time.Duration
		want float64
	}{{0, 10}, {keepFor, 10}, {keepFor + halfLife, 15}, {keepFor + 2*halfLife, 17.5}, {24 * time.Hour, 20}} {
		near(t, "the estimate after "+tc.age.String(), e.value(epoch.Add(tc.age), 20), tc.want, 0.01)
	}
	later := epoch.Add(24 * time.Hour)
	e.add(later, 30)
	e.add(later, 30)
	near(t, "the estimate after new samples", e.value(later, 20), 25, 0.01)
}

// counters makes reports as the scheduler does.
type counters struct{ scheduler.Report }

func (c *counters) decode(steps, sequences int, step time.Duration) {
	c.Steps += uint64(steps)
	c.GeneratedTokens += uint64(steps * sequences)
	c.DecodeBusy += time.Duration(steps) * step
}

// attend says what the sequences of steps attended to together.
func (c *counters) attend(steps, tokens int) { c.ContextTokens += uint64(steps * tokens) }

func (c *counters) prefill(steps, rows, sequences int, busy time.Duration) {
	c.Steps += uint64(steps)
	c.PromptTokens += uint64(rows)
	c.GeneratedTokens += uint64(steps * sequences)
	c.PrefillBusy += busy
}

func TestStepsTellTheSpeedOfRowsAndOfDecodeSteps(t *testing.T) {
	l, c := New(DefaultStart(16, 128)), counters{}
	for i := range 40 {
		sequences := i % 6
		alone := 10*time.Millisecond + time.Duration(sequences)*time.Millisecond
		c.prefill(2, 200, sequences, 2*alone+200*2*time.Millisecond)
		l.Steps(epoch, c.Report, 0)
		if sequences > 0 {
			c.decode(30, sequences, alone)
			l.Steps(epoch, c.Report, 0)
		}
	}
	s := l.Speeds(epoch)
	near(t, "a row", s.LocalToken.Seconds(), 0.002, 0.05)
	near(t, "a step of four", (s.Step + 4*s.StepSequence).Seconds(), 0.014, 0.1)

	for range 40 { // both kinds within one report
		c.prefill(2, 200, 1, 2*11*time.Millisecond+200*4*time.Millisecond)
		c.decode(100, 1, 11*time.Millisecond)
		l.Steps(epoch, c.Report, 0)
	}
	near(t, "a row", l.Speeds(epoch).LocalToken.Seconds(), 0.004, 0.1)
}

// A prompt that was computed elsewhere brings a token that no step made.
func TestAnAttachedTokenIsNoStepsWork(t *testing.T) {
	l, c := New(DefaultStart(16, 128)), counters{}
	for i := range uint64(20) {
		c.decode(4, 1, 10*time.Millisecond)
		c.GeneratedTokens += 4
		l.Steps(epoch, c.Report, 4*(i+1))
	}
	if x := l.steps.samples.Sequences; math.Abs(x-1) > 1e-9 {
		t.Errorf("the steps held %v sequences, want 1", x)
	}
}

func TestAStepsOwnTimeIsNotARows(t *testing.T) {
	l, c := New(DefaultStart(16, 128)), counters{}
	for range 20 { // prompts that were cached but for their last token
		c.prefill(1, 1, 0, 20*time.Millisecond)
		l.Steps(epoch, c.Report, 0)
	}
	if got := l.Speeds(epoch).LocalToken; got != 5*time.Millisecond {
		t.Errorf("a row takes %v, want the start value", got)
	}
}

func facts(prompt int, s disagg.Speeds) disagg.Facts {
	return disagg.Facts{
		PromptTokens: prompt, OfferedTokens: 2048, RowBytes: 46080, PrefillWorkers: 1, Queue: disagg.Queue{Known: true},
		StepTokens: 128, Speeds: s,
	}
}

func TestANoteTellsTheSpeedOfItsParts(t *testing.T) {
	l := New(DefaultStart(16, 128))
	l.steps.start.Fixed = 0
	h := HandOff{
		PrefillWorker: "p", Admit: 3 * time.Millisecond, Compute: 300 * time.Millisecond, Write: 40 * time.Millisecond, Transfer: 80 * time.Millisecond,
		Bytes: 8e6, ComputedTokens: 100, Whole: 350 * time.Millisecond,
	}
	for range 20 {
		l.Remote(epoch, facts(100, l.Speeds(epoch)), &disagg.Decision{}, h)
	}
	s := l.Speeds(epoch)
	near(t, "a row", s.RemoteToken.Seconds(), 0.003, 0.01)
	near(t, "the admission", s.Admission.Seconds(), 0.003, 0.01)
	near(t, "the overhead", s.RemoteOverhead.Seconds(), 0.007, 0.01)
	near(t, "a job", s.Job.Seconds(), 0.303, 0.01)
	near(t, "the bandwidth", s.LinkBytesPerSecond, 1e8, 0.01)
	near(t, "the tail", s.WriteTail, 0.5, 0.01)
	if links := l.Links(epoch); len(links) != 1 || links[0].PrefillWorker != "p" || links[0].Class != link.Unknown || links[0].MeasuredBy != ByTransfers {
		t.Errorf("the links are %+v", links)
	} else {
		near(t, "the bandwidth to p", links[0].BytesPerSecond, 1e8, 0.01)
	}
	if n := len(l.Links(epoch.Add(time.Hour))); n != 0 {
		t.Errorf("%d links are remembered after an hour", n)
	}
}

func TestReadingAPrefixIsNoAdmission(t *testing.T) {
	l := New(DefaultStart(16, 128))
	for range 20 {
		l.Remote(epoch, facts(100, l.Speeds(epoch)), &disagg.Decision{}, HandOff{
			Admit: 12 * time.Millisecond, Compute: time.Second, ComputedTokens: 20, ReadTokens: 80, Whole: 2 * time.Second,
		})
	}
	const read = 80 * 46080 / 1e9 // seconds, at the link's speed at start
	near(t, "the admission", l.Speeds(epoch).Admission.Seconds(), 0.012-read, 0.01)
}

func TestASilentNoteLeavesTheClock(t *testing.T) {
	l := New(DefaultStart(16, 128))
	for range 20 {
		l.Remote(epoch, facts(1000, l.Speeds(epoch)), &disagg.Decision{}, HandOff{ComputedTokens: 1000, Whole: 10 * time.Second})
	}
	near(t, "a row", l.Speeds(epoch).RemoteToken.Seconds(), 0.010, 0.05)
	l.Remote(epoch, facts(1000, l.Speeds(epoch)), &disagg.Decision{}, HandOff{}) // not even that
}

// A note is foreign: whatever it says, what is learnt stays a time, and not a short one.
func TestANoteThatCannotBeChangesLittle(t *testing.T) {
	l, r := New(DefaultStart(16, 128)), rand.New(rand.NewPCG(1, 1))
	said := []time.Duration{math.MinInt64, -1, 0, 1, time.Second, math.MaxInt64}
	pick := func() time.Duration { return said[r.IntN(len(said))] }
	for range 1000 {
		l.Remote(epoch, facts(100, l.Speeds(epoch)), &disagg.Decision{}, HandOff{
			Admit: pick(), Compute: pick(), Write: pick(), Transfer: pick(), Bytes: r.Uint64(),
			ComputedTokens: math.MaxUint32, ReadTokens: math.MaxUint32, Whole: time.Second,
		})
		f := facts(100, l.Speeds(epoch))
		p := disagg.Predict(&f, 0)
		if s := f.Speeds; s.RemoteToken <= 0 || s.RemoteOverhead < 0 || s.Job <= 0 || !(s.LinkBytesPerSecond > 0) || !(s.WriteTail >= 0) || p.RemoteTTFT <= 0 {
			t.Fatalf("%+v, %+v", s, p)
		}
	}
	for range 20 {
		l.Remote(epoch, facts(100, l.Speeds(epoch)), &disagg.Decision{}, HandOff{
			Compute: time.Second, Transfer: 1, Bytes: math.MaxUint64, ComputedTokens: math.MaxUint32, Whole: time.Second,
		})
	}
	if s := l.Speeds(epoch); s.RemoteToken < 5*time.Millisecond || s.LinkBytesPerSecond > 2*100*46080*1e9*1.01 {
		t.Errorf("%+v", s)
	}
}

func TestASurpriseAsksForAnotherLook(t *testing.T) {
	l := New(DefaultStart(16, 128))
	since := func() int {
		var f disagg.Facts
		l.Prepare(epoch, &f)
		return f.SinceExplored
	}
	look := disagg.Decision{Reason: disagg.ExploreLocal, Prediction: disagg.Prediction{LocalTTFT: time.Second}}
	l.Decided(&disagg.Decision{Reason: disagg.RemoteFaster})
	if since() != 1 {
		t.Errorf("%d decisions are counted, want 1", since())
	}
	l.Decided(&look)
	l.Local(epoch, &look, 1100*time.Millisecond, 0)
	if since() != 0 {
		t.Errorf("a look that was no surprise asks for another one")
	}
	looks := 0
	for ; looks < 20; looks++ {
		l.Decided(&look)
		if l.Local(epoch, &look, 3*time.Second, 0); since() == 0 {
			break
		}
	}
	if looks+1 != looksMax {
		t.Errorf("%d looks follow one another", looks+1)
	}
}

func TestTheLinksAreBounded(t *testing.T) {
	l := New(DefaultStart(16, 128))
	for i := range 2 * linksMax {
		l.links.add(epoch.Add(time.Duration(i)), string(rune(i)), 1<<20, time.Millisecond)
	}
	if len(l.links) != linksMax || l.links[string(rune(0))] != nil || l.links[string(rune(2*linksMax-1))] == nil {
		t.Errorf("%d links", len(l.links))
	}
}

// Twice in a row: once may be an accident.
func TestHandOffsThatComeToNothingMakeRemoteDear(t *testing.T) {
	l, p := New(DefaultStart(16, 128)), disagg.DefaultPolicy(16)
	for range 3 {
		l.Lost(epoch, facts(100, l.Speeds(epoch)), 30*time.Second)
	}
	f := facts(100, l.Speeds(epoch))
	if d := disagg.Decide(&p, &f); d.Remote {
		t.Errorf("%+v", d)
	}
	f = facts(100, l.Speeds(epoch.Add(30*time.Minute)))
	if d := disagg.Decide(&p, &f); !d.Remote {
		t.Errorf("half an hour later it is not tried again: %+v", d)
	}
	long := New(DefaultStart(16, 128))
	for range 10 {
		long.Lost(epoch, facts(100_000, long.Speeds(epoch)), time.Millisecond)
	}
	if got := long.Speeds(epoch).RemoteOverhead; got > time.Second {
		t.Errorf("losses of long prompts make short ones' hand-off cost %v", got)
	}
	quick := New(DefaultStart(16, 128))
	for range 10 { // a queue that refuses at once is no quick way to a first token
		quick.Lost(epoch, facts(100, quick.Speeds(epoch)), time.Millisecond)
	}
	f = facts(100, quick.Speeds(epoch))
	if d := disagg.Decide(&p, &f); d.Remote {
		t.Errorf("%+v", d)
	}
}

func BenchmarkSpeedsAndDecide(b *testing.B) {
	l, p := New(DefaultStart(16, 128)), disagg.DefaultPolicy(16)
	h := HandOff{Compute: time.Second, Write: 1, Transfer: 1, Bytes: 1e6, ComputedTokens: 100, Whole: 2 * time.Second}
	l.Remote(epoch, facts(100, l.Speeds(epoch)), &disagg.Decision{}, h)
	now := epoch.Add(6 * time.Minute) // the estimates fade
	b.ReportAllocs()
	for b.Loop() {
		f := facts(100, l.Speeds(now))
		disagg.Decide(&p, &f)
	}
}
