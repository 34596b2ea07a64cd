package timing

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sort"
	"time"
)

// profileMax bounds the points along one side of a profile's tables.
const profileMax = 1024

// Profile is a table of what was measured on a real engine, read from a JSON file:
//
//	{"prefill": {"tokens": [128, 1024, 8192], "ms": [21, 60, 410]},
//	 "decode":  {"sequences": [1, 8, 64], "context_tokens": [1024, 65536],
//	             "ms": [[8.1, 9.9], [8.4, 10.3], [11, 13.5]]}}
//
// Prefill is the time of a pass over one prompt of so many tokens. Decode is that of a pass in
// which so many sequences, one a line, get a token each, with so many tokens of context over all of
// them together. Between the points it is linear, below the first it is the first, beyond the last
// it goes on as before it. A pass takes the sum of those of its two parts that it has.
type Profile struct {
	prefill curve
	decode  struct {
		sequences []float64
		lines     []curve // by context tokens
	}
}

var _ Model = (*Profile)(nil)

// curve is points, at ascending x.
type curve struct{ x, y []float64 }

// profileFile is the file, as it is written.
type profileFile struct {
	Prefill struct {
		Tokens []float64 `json:"tokens"`
		MS     []float64 `json:"ms"`
	} `json:"prefill"`
	Decode struct {
		Sequences     []float64   `json:"sequences"`
		ContextTokens []float64   `json:"context_tokens"`
		MS            [][]float64 `json:"ms"`
	} `json:"decode"`
}

// LoadProfile reads a profile from a file.
func LoadProfile(path string) (*Profile, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p, err := ParseProfile(text)
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", path, err)
	}
	return p, nil
}

// ParseProfile reads a profile. Errors name the field and what was expected.
func ParseProfile(text []byte) (*Profile, error) {
	var f profileFile
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text follows the profile, want one JSON object")
	}
	p := &Profile{prefill: curve{f.Prefill.Tokens, f.Prefill.MS}}
	if err := errors.Join(axis("prefill.tokens", f.Prefill.Tokens), times("prefill.ms", f.Prefill.MS, len(f.Prefill.Tokens))); err != nil {
		return nil, err
	}
	p.decode.sequences = f.Decode.Sequences
	if err := errors.Join(axis("decode.sequences", f.Decode.Sequences), axis("decode.context_tokens", f.Decode.ContextTokens)); err != nil {
		return nil, err
	}
	if len(f.Decode.MS) != len(f.Decode.Sequences) {
		return nil, fmt.Errorf("decode.ms has %d lines, want one for each of the %d sequences", len(f.Decode.MS), len(f.Decode.Sequences))
	}
	for i, line := range f.Decode.MS {
		if err := times(fmt.Sprintf("decode.ms[%d]", i), line, len(f.Decode.ContextTokens)); err != nil {
			return nil, err
		}
		p.decode.lines = append(p.decode.lines, curve{f.Decode.ContextTokens, line})
	}
	return p, nil
}

func axis(name string, points []float64) error {
	if len(points) == 0 || len(points) > profileMax {
		return fmt.Errorf("%s has %d points, want 1 to %d", name, len(points), profileMax)
	}
	before := 0.0
	for i, x := range points {
		if !(x > before) || x > math.MaxInt32 {
			return fmt.Errorf("%s[%d] is %g, want more than %g and at most %d", name, i, x, before, math.MaxInt32)
		}
		before = x
	}
	return nil
}

func times(name string, ms []float64, want int) error {
	if len(ms) != want {
		return fmt.Errorf("%s has %d times, want %d", name, len(ms), want)
	}
	for i, t := range ms {
		if !(t > 0) || t > 1e9 {
			return fmt.Errorf("%s[%d] is %g, want milliseconds above 0 and at most 1e9", name, i, t)
		}
	}
	return nil
}

// Step implements Model. Prompt tokens after cached ones cost what they add to a prompt that is so
// much longer, if that is more than they cost alone.
func (p *Profile) Step(s Step) time.Duration {
	var ms float64
	if n := float64(s.PromptTokens); n > 0 {
		ms += p.prefill.at(n)
		if start := float64(s.PromptPairs)/n - (n+1)/2; start > 0 {
			ms = max(ms, p.prefill.at(start+n)-p.prefill.at(start))
		}
	}
	if s.Decoding > 0 {
		lines := curve{p.decode.sequences, make([]float64, len(p.decode.sequences))}
		for i, line := range p.decode.lines {
			lines.y[i] = line.at(float64(s.ContextTokens))
		}
		ms += lines.at(float64(s.Decoding))
	}
	return duration(ms / 1000)
}

// at is the value at x: at least 0.
func (c curve) at(x float64) float64 {
	last := len(c.x) - 1
	i := sort.SearchFloat64s(c.x, x)
	if i == 0 || last == 0 {
		return c.y[0]
	}
	i = min(i, last)
	share := (x - c.x[i-1]) / (c.x[i] - c.x[i-1])
	return max(0, c.y[i-1]+share*(c.y[i]-c.y[i-1]))
}
