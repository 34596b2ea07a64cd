package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/switchyard-llm/switchyard/libs/telemetry"
)

// traceCmd shows the spans of one request, merged from the files of several processes.
type traceCmd struct {
	Files   []string `arg:"" help:"Span files: what serve --trace-file and trace_file of the services write." type:"existingfile"`
	Request string   `help:"The request's id."`
	Trace   string   `help:"The trace's id; the latest one with a whole request if neither is given."`
}

// steps are the steps of the request path that a span belongs to.
var steps = map[string]string{
	"processor.discover":     "S1",
	"frontend.request":       "S2",
	"processor.prompt":       "S3",
	"processor.route":        "S3",
	"decodeworker.generate":  "S4",
	"decodeworker.decide":    "S5",
	"decodeworker.reserve":   "S5",
	"decodeworker.handoff":   "S6",
	"decodeworker.enqueue":   "S6",
	"prefillworker.job":      "S7",
	"prefillworker.claim":    "S7",
	"decodeworker.claim":     "S7",
	"prefillworker.metadata": "S8",
	"prefillworker.admit":    "S9",
	"prefillworker.compute":  "S9",
	"prefillworker.write":    "S10",
	"prefillworker.notify":   "S11",
	"decodeworker.commit":    "S11",
	"decodeworker.decode":    "S12",
	"processor.output":       "S13",
}

// Run implements the command.
func (c *traceCmd) Run(_ context.Context, out io.Writer) error {
	var spans []telemetry.Span
	for _, name := range c.Files {
		more, err := readSpanFile(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		spans = append(spans, more...)
	}
	id, err := c.pick(spans)
	if err != nil {
		return err
	}
	spans = slices.DeleteFunc(spans, func(s telemetry.Span) bool { return s.TraceID != id })
	return printTrace(out, id, spans)
}

func readSpanFile(name string) ([]telemetry.Span, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return telemetry.ReadSpans(file)
}

// pick finds the trace that is meant.
func (c *traceCmd) pick(spans []telemetry.Span) (string, error) {
	if c.Trace != "" {
		if slices.ContainsFunc(spans, func(s telemetry.Span) bool { return s.TraceID == c.Trace }) {
			return c.Trace, nil
		}
		return "", fmt.Errorf("trace %s is not in these files", c.Trace)
	}
	best, at := "", int64(0)
	for _, s := range spans {
		if c.Request != "" {
			if s.Attributes["request_id"] == c.Request {
				return s.TraceID, nil
			}
			continue
		}
		if s.Name == "decodeworker.generate" && s.Start > at {
			best, at = s.TraceID, s.Start
		}
	}
	switch {
	case c.Request != "":
		return "", fmt.Errorf("request %s is not in these files", c.Request)
	case best == "":
		return "", errors.New("these files hold no request")
	}
	return best, nil
}

// printTrace prints the spans as a tree, each with its start after the first one's and its
// own duration. Spans whose parent is missing stand at the top.
func printTrace(out io.Writer, id string, spans []telemetry.Span) error {
	slices.SortStableFunc(spans, func(a, b telemetry.Span) int { return cmp.Compare(a.Start, b.Start) })
	known, children := make(map[string]bool), make(map[string][]telemetry.Span)
	for _, s := range spans {
		known[s.SpanID] = true
	}
	for _, s := range spans {
		parent := s.ParentID
		if !known[parent] {
			parent = ""
		}
		children[parent] = append(children[parent], s)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "trace %s, %d spans\n", id, len(spans))
	fmt.Fprintln(w, "STEP\tSTART\tDURATION\tSPAN\tPROCESS\tDETAIL")
	printed := make(map[string]bool)
	var print func(parent string, depth int)
	print = func(parent string, depth int) {
		for _, s := range children[parent] {
			if printed[s.SpanID] {
				continue
			}
			printed[s.SpanID] = true
			fmt.Fprintf(w, "%s\t%s\t%s\t%s%s\t%s\t%s\n", steps[s.Name], milliseconds(s.Start-spans[0].Start), milliseconds(s.End-s.Start),
				strings.Repeat("  ", depth), s.Name, s.Instance, detail(s))
			print(s.SpanID, depth+1)
		}
	}
	print("", 0)
	return w.Flush()
}

func milliseconds(nanos int64) string {
	return fmt.Sprintf("%.2f ms", float64(nanos)/float64(time.Millisecond))
}

// number is as short as a person wants it. JSON knows no integers.
func number(n float64) string {
	if n == math.Trunc(n) {
		return strconv.FormatInt(int64(n), 10)
	}
	return strconv.FormatFloat(n, 'g', 4, 64)
}

// detail is a span's own attributes; those of the transport underneath are left out.
func detail(s telemetry.Span) string {
	var parts []string
	for key, value := range s.Attributes {
		if !strings.ContainsAny(key, ".") {
			if n, ok := value.(float64); ok {
				value = number(n)
			}
			parts = append(parts, fmt.Sprintf("%s=%v", key, value))
		}
	}
	slices.Sort(parts)
	if s.Error != "" {
		parts = append(parts, "error="+s.Error)
	}
	return strings.Join(parts, " ")
}
