package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// result is what became of a build's targets.
type result struct {
	passed int      // test targets that passed
	failed []string // what did not pass or did not build, sorted
}

// event is the part of Bazel's BuildEvent that counts here, in its JSON form.
type event struct {
	ID struct {
		TestSummary     *target `json:"testSummary"`
		TargetCompleted *target `json:"targetCompleted"`
		Unconfigured    *target `json:"unconfiguredLabel"`
		Configured      *target `json:"configuredLabel"`
		Pattern         *struct {
			Pattern []string `json:"pattern"`
		} `json:"pattern"`
	} `json:"id"`
	TestSummary *struct {
		OverallStatus string `json:"overallStatus"`
	} `json:"testSummary"`
	Completed *struct {
		Success bool `json:"success"`
	} `json:"completed"`
	Aborted  *struct{} `json:"aborted"`
	Finished *struct {
		ExitCode struct {
			Name string `json:"name"`
			Code int    `json:"code"`
		} `json:"exitCode"`
	} `json:"finished"`
}

type target struct {
	Label string `json:"label"`
}

// read collects the result from a stream of events, one JSON object a line. A build that Bazel says has failed has at least
// one failure, and so has one whose end was never reported.
func read(r io.Reader) (result, error) {
	passed, failed := map[string]bool{}, map[string]bool{}
	finished := false
	lines := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if err := json.Unmarshal(line, &e); err != nil {
				return result{}, fmt.Errorf("line %d: %w", n, err)
			}
			e.count(passed, failed)
			if e.Finished != nil {
				finished = true
				if e.Finished.ExitCode.Code != 0 && len(failed) == 0 {
					failed["bazel: "+e.Finished.ExitCode.Name] = true
				}
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return result{}, err
		}
	}
	if !finished {
		failed["bazel: ended without a report"] = true
	}
	out := result{}
	for label := range passed {
		if !failed[label] {
			out.passed++
		}
	}
	for label := range failed {
		out.failed = append(out.failed, label)
	}
	slices.Sort(out.failed)
	return out, nil
}

func (e *event) count(passed, failed map[string]bool) {
	switch {
	case e.ID.TestSummary != nil && e.TestSummary != nil:
		if s := e.TestSummary.OverallStatus; s == "PASSED" {
			passed[e.ID.TestSummary.Label] = true
		} else {
			failed[e.ID.TestSummary.Label] = true
		}
	case e.ID.TargetCompleted != nil && (e.Aborted != nil || e.Completed != nil && !e.Completed.Success):
		failed[e.ID.TargetCompleted.Label] = true
	case e.Aborted == nil:
	case e.ID.Configured != nil:
		failed[e.ID.Configured.Label] = true
	case e.ID.Unconfigured != nil:
		failed[e.ID.Unconfigured.Label] = true
	case e.ID.Pattern != nil:
		for _, p := range e.ID.Pattern.Pattern {
			failed[p] = true
		}
	}
}
