package speed

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/plane"
)

var (
	untold = plane.Plane{Fixed: 0.007, Sequence: 0.007}
	truly  = plane.Plane{Fixed: 0.010, Sequence: 0.0003, Token: 2e-8}
)

// took adds a step as it truly takes.
func (s *steps) took(now time.Time, n, tokens, factor float64) {
	s.add(now, sample{n, tokens, factor * truly.At(n, tokens)})
}

// apart makes steps in which sequences and tokens vary each for itself.
func (s *steps) apart(now time.Time, samples int, factor func() float64) {
	for i := range samples {
		s.took(now, float64(1+i%16), float64(10_000*(i*7%31)), factor())
	}
}

func exactly() float64 { return 1 }

func TestStepsThatNeverVaryTellTheirSum(t *testing.T) {
	s := steps{start: untold}
	for range 30 {
		s.add(epoch, sample{1, 3000, 0.0003})
	}
	got := s.value(epoch)
	near(t, "a step as they were", got.At(1, 3000), 0.0003, 0.1)
	near(t, "a sequence beside the step", got.Sequence/got.Fixed, 1, 0.1) // as at the start
}

func TestStepsTellWhatSequencesAndTokensAdd(t *testing.T) {
	s := steps{start: untold}
	s.apart(epoch, 80, exactly)
	check := func(what string) {
		t.Helper()
		got := s.value(epoch)
		near(t, what+": fixed", got.Fixed, truly.Fixed, 0.06)
		near(t, what+": a sequence", got.Sequence, truly.Sequence, 0.3)
		near(t, what+": a token", got.Token, truly.Token, 0.1)
	}
	check("a plane")
	s.add(epoch, sample{8, 80_000, 10})
	s.took(epoch, 9, 70_000, 1)
	check("after an outlier")
}

// Sequences of always the same length: which of the two it is stays open, what they add together does not.
func TestSequencesOfOneLengthTellWhatTheyAddWithTheirTokens(t *testing.T) {
	for name, start := range map[string]plane.Plane{"untold": untold, "told": {Fixed: 0.005, Sequence: 0.0001, Token: 1e-8}} {
		s := steps{start: start}
		for i := range 80 {
			n := float64(1 + i%16)
			s.took(epoch, n, 4000*n, 1)
		}
		got := s.value(epoch)
		near(t, name+": a step of few", got.At(2, 8000), truly.At(2, 8000), 0.03)
		near(t, name+": a step of many", got.At(40, 160_000), truly.At(40, 160_000), 0.06)
		if got.Token*4000 > 1.2*(truly.Sequence+4000*truly.Token) {
			t.Errorf("%s: a token is said to add %v", name, got.Token)
		}
	}
}

func TestSequencesThatGrowTellWhatATokenAdds(t *testing.T) {
	s := steps{start: untold}
	for i := range 80 {
		s.took(epoch, 10, float64(20_000+10_000*(i%30)), 1)
	}
	near(t, "a token", s.value(epoch).Token, truly.Token, 0.2)
}

func TestNoiseMakesNoSlopes(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 5))
		noise := func() float64 { return 0.95 + 0.1*random.Float64() }
		s := steps{start: plane.Plane{Fixed: 0.005, Sequence: 0.0001, Token: 1e-8}}
		s.apart(epoch, 200, noise)
		got := s.value(epoch)
		near(t, "a token", got.Token, truly.Token, 0.4)
		near(t, "a step", got.At(8, 150_000), truly.At(8, 150_000), 0.06)
		for range 100 { // steps that hardly vary
			s.took(epoch, 8+random.Float64(), 150_000+1000*random.Float64(), noise())
		}
		near(t, "a step after steps alike", s.value(epoch).At(16, 300_000), truly.At(16, 300_000), 0.5)
	}
}

func TestStepsFollowAChangeOfSpeed(t *testing.T) {
	s := steps{start: untold}
	s.apart(epoch, 80, exactly)
	s.apart(epoch, 80, func() float64 { return 3 })
	near(t, "fixed", s.value(epoch).Fixed, 3*truly.Fixed, 0.06)
	near(t, "a token", s.value(epoch).Token, 3*truly.Token, 0.1)
}

func TestOldStepsFadeToTheirStart(t *testing.T) {
	start := plane.Plane{Fixed: 0.007, Sequence: 0.007, Token: 1e-6}
	s := steps{start: start}
	s.apart(epoch, 80, func() float64 { return 10 })
	learnt, half := s.value(epoch), s.value(epoch.Add(keepFor+halfLife))
	near(t, "a token, half faded", half.Token, (learnt.Token+start.Token)/2, 0.01)
	later := epoch.Add(24 * time.Hour)
	near(t, "fixed, a day later", s.value(later).Fixed, 0.007, 0.01)
	near(t, "a token, a day later", s.value(later).Token, 1e-6, 0.01)
	s.add(later, sample{1, 0, 0.014}) // alone it proves nothing, and revives nothing
	near(t, "fixed, a day later", s.value(later).Fixed, 0.007, 0.01)
}

func TestWhatIsNoStepIsNoSample(t *testing.T) {
	s := steps{start: untold}
	for range 3 {
		s.add(epoch, sample{-1, 0, 1})
		s.add(epoch, sample{1, -1, 1})
		s.add(epoch, sample{1, 0, 0})
	}
	if got := s.value(epoch); got != untold {
		t.Errorf("%+v was learnt from nothing", got)
	}
}

// A decision knows of sequences alone: what it expects of a step is what steps take now, whatever
// their tokens add.
func TestADecisionCountsWhatSequencesAttendTo(t *testing.T) {
	start := DefaultStart(16, 128)
	start.StepSequence, start.StepToken = 0, 200
	l, c := New(start), counters{}
	if got := l.Speeds(epoch).StepSequence; got != 51200*time.Nanosecond {
		t.Errorf("at first a sequence adds %v, want 256 tokens", got)
	}
	for i := range 60 {
		sequences, tokens := 4+i%3, 50_000+10_000*(i%7)
		c.decode(30, sequences, 10*time.Millisecond+time.Duration(tokens)*100*time.Nanosecond)
		c.attend(30, tokens)
		l.Steps(epoch, c.Report, 0)
	}
	s, step := l.Speeds(epoch), l.DecodeStep(epoch)
	near(t, "a step of five for a decision", (s.Step + 5*s.StepSequence).Seconds(), 0.018, 0.05)
	near(t, "a token", step.Token, 100, 0.15)
	near(t, "a step of one long sequence", step.Step.Seconds()+step.Sequence.Seconds()+step.Token*200_000/1e9, 0.030, 0.1)
}
