package route

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Trace is a list of requests in the order of their arrival.
type Trace struct {
	Requests []Request
	// Runs is how many different runs the requests name: they are 0 to Runs-1.
	Runs int
}

// Request is one request of a trace.
type Request struct {
	// Tick is when it arrived, from the trace's own clock, which may be coarse.
	Tick time.Duration
	// InputTokens and OutputTokens are the lengths of prompt and answer; at least 1.
	InputTokens, OutputTokens int
	// Runs are the prompt's runs of RunTokens, the last one perhaps shorter. Equal numbers
	// stand for an equal prefix up to the run's end.
	Runs []int32

	index int // in the trace
}

// tokens is the length of the prompt's run at this place.
func (r *Request) tokens(place int) int {
	return min(RunTokens, r.InputTokens-place*RunTokens)
}

// The bounds keep sums far from overflow, and a line in memory.
const (
	maxTokens    = 1 << 24
	maxTick      = 1 << 40 // ms; 35 years
	maxLineBytes = 16 << 20
)

// line is a request as traces in Mooncake's format have it. Fields that are not here are
// passed over: relatives of the format have more.
type line struct {
	Timestamp *float64 `json:"timestamp"` // ms
	Input     *int     `json:"input_length"`
	Output    *int     `json:"output_length"`
	HashIDs   []int64  `json:"hash_ids"`
}

// wanted says what the fields hold.
var wanted = map[string]string{
	"timestamp": "a number", "input_length": "a whole number", "output_length": "a whole number", "hash_ids": "a list of whole numbers",
}

// ReadTrace reads a trace in Mooncake's format: a JSON object a line with timestamp (ms),
// input_length, output_length (tokens) and hash_ids, one per begun 512 tokens of the
// prompt, each of which stands for all tokens up to its end. Errors name line and field.
func ReadTrace(r io.Reader) (*Trace, error) {
	p := parser{trace: &Trace{}, ids: map[int64]int32{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLineBytes)
	number := 0
	for lines.Scan() {
		number++
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if err := p.add(lines.Bytes(), number); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("line %d: it is longer than %d bytes", number+1, maxLineBytes)
	} else if err != nil {
		return nil, fmt.Errorf("after line %d: %w", number, err)
	}
	if len(p.trace.Requests) == 0 {
		return nil, errors.New("there is no request in it")
	}
	p.trace.Runs = len(p.ids)
	return p.trace, nil
}

type parser struct {
	trace *Trace
	ids   map[int64]int32
	known []known // by run
}

// known is where a run was first seen.
type known struct {
	parent int32
	line   int
}

func (p *parser) add(text []byte, number int) error {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) && kind.Field != "" {
			return fmt.Errorf("%s: a %s, want %s", kind.Field, kind.Value, wanted[kind.Field])
		}
		return err
	}
	if err := l.validate(); err != nil {
		return err
	}
	r := Request{
		Tick:        time.Duration(*l.Timestamp * float64(time.Millisecond)),
		InputTokens: *l.Input, OutputTokens: *l.Output, index: len(p.trace.Requests),
	}
	if n := len(p.trace.Requests); n > 0 && r.Tick < p.trace.Requests[n-1].Tick {
		return fmt.Errorf("timestamp: %v, want at least that of the request before", *l.Timestamp)
	}
	var err error
	if r.Runs, err = p.runs(l.HashIDs, number); err != nil {
		return err
	}
	p.trace.Requests = append(p.trace.Requests, r)
	return nil
}

func (l *line) validate() error {
	switch {
	case l.Timestamp == nil:
		return errors.New("timestamp: missing")
	case !(*l.Timestamp >= 0 && *l.Timestamp <= maxTick):
		return fmt.Errorf("timestamp: %v, want 0 to %d ms", *l.Timestamp, maxTick)
	case l.Input == nil:
		return errors.New("input_length: missing")
	case *l.Input < 1 || *l.Input > maxTokens:
		return fmt.Errorf("input_length: %d, want 1 to %d", *l.Input, maxTokens)
	case l.Output == nil:
		return errors.New("output_length: missing")
	case *l.Output < 1 || *l.Output > maxTokens:
		return fmt.Errorf("output_length: %d, want 1 to %d", *l.Output, maxTokens)
	}
	if want := (*l.Input + RunTokens - 1) / RunTokens; len(l.HashIDs) != want {
		return fmt.Errorf("hash_ids: %d of them, want %d for an input_length of %d", len(l.HashIDs), want, *l.Input)
	}
	return nil
}

// runs numbers the ids densely. An id that follows another one than it did before is no
// hash of a prefix, and no cache could be told from such a trace.
func (p *parser) runs(ids []int64, number int) ([]int32, error) {
	runs := make([]int32, len(ids))
	parent := int32(-1)
	for i, id := range ids {
		run, ok := p.ids[id]
		if !ok {
			run = int32(len(p.known))
			p.ids[id] = run
			p.known = append(p.known, known{parent: parent, line: number})
		}
		if k := p.known[run]; k.parent != parent {
			return nil, fmt.Errorf("hash_ids: %d at place %d does not follow what it follows in line %d", id, i+1, k.line)
		}
		runs[i], parent = run, run
	}
	return runs, nil
}
