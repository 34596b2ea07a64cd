package serve

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/corpus"
)

// maxLength bounds lengths, so that a prompt stays in memory.
const maxLength = 1 << 20

// Length is a distribution of lengths.
type Length struct {
	shape string
	a, b  float64
}

// FixedLength is always the same.
func FixedLength(n int) Length { return Length{shape: "fixed", a: float64(n)} }

// ParseLength reads 200, uniform:LOW:HIGH, normal:MEAN:DEVIATION or lognormal:MEAN:DEVIATION.
// Mean and deviation are those of the lengths themselves, also of lognormal.
func ParseLength(text string) (Length, error) {
	shape, rest, ok := strings.Cut(text, ":")
	if !ok {
		shape, rest = "fixed", text+":0"
	}
	first, second, _ := strings.Cut(rest, ":")
	a, errA := strconv.ParseFloat(first, 64)
	b, errB := strconv.ParseFloat(second, 64)
	if errA != nil || errB != nil {
		return Length{}, fmt.Errorf("%q, want a number, uniform:LOW:HIGH, normal:MEAN:DEVIATION or lognormal:MEAN:DEVIATION", text)
	}
	return Length{shape: shape, a: a, b: b}, nil
}

func (l Length) validate(name string) error {
	plain := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	inside := func(x float64) bool { return x >= 1 && x <= maxLength } // not a number is not
	switch {
	case l.shape != "fixed" && l.shape != "uniform" && l.shape != "normal" && l.shape != "lognormal":
		return fmt.Errorf("%s is of shape %q, want a number, uniform, normal or lognormal", name, l.shape)
	case !inside(l.a):
		return fmt.Errorf("%s is %s, want 1 to %d", name, plain(l.a), maxLength)
	case l.shape == "fixed" && l.a != math.Trunc(l.a):
		return fmt.Errorf("%s is %s, want a whole number", name, plain(l.a))
	case l.shape == "uniform" && !(inside(l.b) && l.b >= l.a):
		return fmt.Errorf("%s is uniform from %s to %s, want the end at least at the start and at most %d", name, plain(l.a), plain(l.b), maxLength)
	case !(l.b >= 0 && l.b <= maxLength):
		return fmt.Errorf("%s has a deviation of %s, want 0 to %d", name, plain(l.b), maxLength)
	}
	return nil
}

// draw is a length, at least 1.
func (l Length) draw(r *corpus.Random) int {
	x := l.a
	switch l.shape {
	case "uniform":
		low, high := math.Ceil(l.a), math.Floor(l.b)
		x = low + float64(r.Below(int(max(0, high-low))+1))
	case "normal":
		x = l.a + l.b*normal(r)
	case "lognormal":
		variance := math.Log1p(l.b * l.b / (l.a * l.a))
		x = math.Exp(math.Log(l.a) - variance/2 + math.Sqrt(variance)*normal(r))
	}
	return int(math.Round(min(max(x, 1), maxLength)))
}

// The draws are made here, not by math/rand, whose numbers may change with Go's version.

// unit is in (0, 1].
func unit(r *corpus.Random) float64 { return float64(r.Uint64()>>11+1) / (1 << 53) }

// normal is Box and Muller's.
func normal(r *corpus.Random) float64 {
	return math.Sqrt(-2*math.Log(unit(r))) * math.Cos(2*math.Pi*unit(r))
}

// What draws are for: each purpose has numbers of its own, so that one more draw of one does
// not change the others.
const (
	forArrivals = iota + 1
	forLengths
	forText
	forPrefix
	forRuns
	forWarmup
	forProbe
)

func random(seed uint64, purpose, index int) *corpus.Random {
	base := corpus.NewRandom(seed).Uint64()
	return corpus.NewRandom(corpus.NewRandom(base+uint64(purpose)).Uint64() + uint64(index))
}
