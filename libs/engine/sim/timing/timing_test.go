package timing

import (
	"testing"
	"time"
)

func TestMockerFollowsItsFormula(t *testing.T) {
	for _, c := range []struct {
		name string
		step Step
		want time.Duration
	}{
		{"nothing", Step{PoolUsed: 1}, 0},
		{"prefill of 8,192", Step{PromptTokens: 8192}, 169_137_125},
		{"decode in an empty pool", Step{Decoding: 3}, 5_740_000},
		{"decode in a full pool", Step{Decoding: 3, PoolUsed: 1}, 34_010_000},
		{"both", Step{PromptTokens: 1000, Decoding: 1, PoolUsed: 0.5}, 16_501_420 + 15_183_440 + 420_999 + 26_310_000},
	} {
		if got := (Mocker{}).Step(c.step); (got - c.want).Abs() > time.Microsecond {
			t.Errorf("%s: a step takes %v, want %v", c.name, got, c.want)
		}
	}
}

func TestPairsCountWhatIsAttendedTo(t *testing.T) {
	for _, c := range []struct {
		tokens, start int
		want          int64
	}{{0, 5, 0}, {1, 0, 1}, {1, 9, 10}, {3, 2, 3 + 4 + 5}} {
		if got := Pairs(c.tokens, c.start); got != c.want {
			t.Errorf("Pairs(%d, %d) = %d, want %d", c.tokens, c.start, got, c.want)
		}
	}
}
