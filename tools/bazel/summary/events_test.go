package main

import (
	"slices"
	"strings"
	"testing"
)

const (
	ended     = `{"id":{"buildFinished":{}},"finished":{"exitCode":{"name":"SUCCESS"}}}`
	endedBad  = `{"id":{"buildFinished":{}},"finished":{"exitCode":{"name":"BUILD_FAILURE","code":1}}}`
	libBuilt  = `{"id":{"targetCompleted":{"label":"//a:a"}},"completed":{"success":true}}`
	libBroken = `{"id":{"targetCompleted":{"label":"//a:a"}},"completed":{}}`
	testBuilt = `{"id":{"targetCompleted":{"label":"//a:a_test"}},"completed":{"success":true}}`
	passedRun = `{"id":{"testSummary":{"label":"//a:a_test"}},"testSummary":{"overallStatus":"PASSED"}}`
	failedRun = `{"id":{"testSummary":{"label":"//a:a_test"}},"testSummary":{"overallStatus":"FAILED"}}`
	flakyRun  = `{"id":{"testSummary":{"label":"//a:a_test"}},"testSummary":{"overallStatus":"FLAKY"}}`
)

func TestReadCounts(t *testing.T) {
	for _, c := range []struct {
		name   string
		events []string
		passed int
		failed []string
	}{
		{"a passed test, but not a built library", []string{libBuilt, testBuilt, passedRun, ended}, 1, nil},
		{"a failed test", []string{testBuilt, failedRun, endedBad}, 0, []string{"//a:a_test"}},
		{"a test that passes only now and then as failed", []string{testBuilt, flakyRun, ended}, 0, []string{"//a:a_test"}},
		{"a library that does not build", []string{libBroken, passedRun, endedBad}, 1, []string{"//a:a"}},
		{"a test that does not build once", []string{
			`{"id":{"targetCompleted":{"label":"//a:a_test"}},"aborted":{"reason":"ANALYSIS_FAILURE"}}`, failedRun, endedBad,
		}, 0, []string{"//a:a_test"}},
		{"a target that cannot be loaded", []string{
			`{"id":{"unconfiguredLabel":{"label":"//a:b"}},"aborted":{"reason":"LOADING_FAILURE"}}`, endedBad,
		}, 0, []string{"//a:b"}},
		{"a target that cannot be analysed", []string{
			`{"id":{"configuredLabel":{"label":"//a:b"}},"aborted":{"reason":"ANALYSIS_FAILURE"}}`, endedBad,
		}, 0, []string{"//a:b"}},
		{"a pattern that names nothing", []string{`{"id":{"pattern":{"pattern":["//c"]}},"aborted":{}}`, endedBad}, 0, []string{"//c"}},
		{"a failure of Bazel's own", []string{endedBad}, 0, []string{"bazel: BUILD_FAILURE"}},
		{"a report that breaks off", []string{passedRun}, 1, []string{"bazel: ended without a report"}},
		{"no report at all", nil, 0, []string{"bazel: ended without a report"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := read(strings.NewReader(strings.Join(c.events, "\n")))
			if err != nil {
				t.Fatal(err)
			}
			if got.passed != c.passed || !slices.Equal(got.failed, c.failed) {
				t.Errorf("got %d passed and failed %q, want %d and %q", got.passed, got.failed, c.passed, c.failed)
			}
		})
	}
}

func TestReadRefusesWhatIsNoEvent(t *testing.T) {
	if _, err := read(strings.NewReader(ended + "\nnot JSON\n")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("got %v, want an error that names line 2", err)
	}
}
