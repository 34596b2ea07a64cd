package route

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestReadTrace(t *testing.T) {
	got, err := ReadTrace(strings.NewReader(`{"timestamp": 0, "input_length": 600, "output_length": 3, "hash_ids": [7, 9], "session": "x"}

{"timestamp": 2.5, "input_length": 512, "output_length": 1, "hash_ids": [7]}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := &Trace{Runs: 2, Requests: []Request{
		{InputTokens: 600, OutputTokens: 3, Runs: []int32{0, 1}},
		{Tick: 2500 * time.Microsecond, InputTokens: 512, OutputTokens: 1, Runs: []int32{0}},
	}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Request{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestReadTraceNamesLineAndField(t *testing.T) {
	const good = `{"timestamp": 5, "input_length": 600, "output_length": 3, "hash_ids": [7, 9]}` + "\n"
	for _, c := range []struct{ text, want string }{
		{"", "no request"},
		{good + "{", "line 2: unexpected end"},
		{good + "\n" + `{"input_length": 1, "output_length": 1, "hash_ids": [1]}`, "line 3: timestamp: missing"},
		{`{"timestamp": -1, "input_length": 1, "output_length": 1, "hash_ids": [1]}`, "line 1: timestamp: -1, want"},
		{good + `{"timestamp": 4, "input_length": 1, "output_length": 1, "hash_ids": [1]}`, "line 2: timestamp: 4, want at least"},
		{`{"timestamp": "0", "input_length": 1, "output_length": 1, "hash_ids": [1]}`, "line 1: timestamp: a string, want a number"},
		{`{"timestamp": 0, "output_length": 1, "hash_ids": [1]}`, "line 1: input_length: missing"},
		{`{"timestamp": 0, "input_length": 0, "output_length": 1, "hash_ids": []}`, "line 1: input_length: 0, want 1"},
		{`{"timestamp": 0, "input_length": 1.5, "output_length": 1, "hash_ids": []}`, "line 1: input_length: a number 1.5, want a whole"},
		{`{"timestamp": 0, "input_length": 1, "hash_ids": [1]}`, "line 1: output_length: missing"},
		{`{"timestamp": 0, "input_length": 1, "output_length": 0, "hash_ids": [1]}`, "line 1: output_length: 0, want 1"},
		{`{"timestamp": 0, "input_length": 513, "output_length": 1, "hash_ids": [1]}`, "line 1: hash_ids: 1 of them, want 2"},
		{`{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": ["a"]}`, "line 1: hash_ids: a string, want a list"},
		{good + `{"timestamp": 9, "input_length": 513, "output_length": 1, "hash_ids": [8, 9]}`, "line 2: hash_ids: 9 at place 2 does not follow what it follows in line 1"},
		{good + strings.Repeat(" ", maxLineBytes+1), "line 2: it is longer"},
	} {
		_, err := ReadTrace(strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.80q: the error is %v, want %q", c.text, err, c.want)
		}
	}
}

func FuzzReadTrace(f *testing.F) {
	f.Add(`{"timestamp": 5, "input_length": 600, "output_length": 3, "hash_ids": [7, 9]}`)
	f.Add(`{"timestamp": 1e3, "input_length": 1, "output_length": 1, "hash_ids": [-1]}` + "\n{}")
	f.Fuzz(func(t *testing.T, text string) {
		trace, err := ReadTrace(strings.NewReader(text))
		if err != nil {
			return
		}
		for i := range trace.Requests {
			r := &trace.Requests[i]
			last := len(r.Runs) - 1
			if r.index != i || r.OutputTokens < 1 || r.tokens(last) < 1 || last*RunTokens+r.tokens(last) != r.InputTokens {
				t.Fatalf("request %d is %+v", i, *r)
			}
			for _, run := range r.Runs {
				if run < 0 || int(run) >= trace.Runs {
					t.Fatalf("request %d has run %d of %d", i, run, trace.Runs)
				}
			}
		}
		if at := arrivals(trace, 1, 1); len(at) != len(trace.Requests) {
			t.Fatalf("%d arrivals", len(at))
		}
	})
}

func TestArrivalsAreSpreadOverTheirTick(t *testing.T) {
	trace := &Trace{Requests: make([]Request, 7)}
	for i := range trace.Requests {
		trace.Requests[i].Tick = time.Duration(i/4) * 8 * time.Second // four at 0 s, three at 8 s
	}
	for _, rate := range []float64{1, 4} {
		for i, at := range arrivals(trace, rate, 1) {
			part := 2 * time.Second
			begin := time.Duration(i) * part
			if i >= 4 {
				part = 8 * time.Second / 3
				begin = 8*time.Second + time.Duration(i-4)*part
			}
			at = time.Duration(float64(at) * rate)
			if at < begin-time.Microsecond || at > begin+part+time.Microsecond {
				t.Errorf("at rate %v, request %d arrives at %v of the trace, want %v to %v", rate, i, at, begin, begin+part)
			}
		}
	}
}
