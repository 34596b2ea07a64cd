// Package deploy holds what an operator starts from; its test keeps that true.
package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/switchyard-llm/switchyard/libs/config"
	"github.com/switchyard-llm/switchyard/services/decodeworker"
	"github.com/switchyard-llm/switchyard/services/frontend"
	"github.com/switchyard-llm/switchyard/services/planner"
	"github.com/switchyard-llm/switchyard/services/prefillworker"
	"github.com/switchyard-llm/switchyard/services/processor"
)

// Every file says all defaults, so that a reader sees what can be set.
func TestEveryFileLoadsAndSaysTheDefaults(t *testing.T) {
	files, err := filepath.Glob("config/*.yaml")
	if err != nil || len(files) != 5 {
		t.Fatalf("files %v, %v; want one per service", files, err)
	}
	for _, file := range files {
		switch name := strings.TrimSuffix(filepath.Base(file), ".yaml"); name {
		case "frontend":
			check(t, file, frontend.Config{}, frontend.DefaultConfig())
		case "processor":
			check(t, file, processor.Config{}, processor.DefaultConfig())
		case "decodeworker":
			check(t, file, decodeworker.Config{}, decodeworker.DefaultConfig())
		case "prefillworker":
			check(t, file, prefillworker.Config{}, prefillworker.DefaultConfig())
		case "planner":
			check(t, file, planner.Config{}, planner.DefaultConfig())
		default:
			t.Errorf("%s belongs to no service", file)
		}
	}
}

func check[C interface{ Validate() error }](t *testing.T, file string, cfg, want C) {
	t.Helper()
	if err := config.Load(file, &cfg); err != nil {
		t.Error(err)
		return
	}
	if err := cfg.Validate(); err != nil {
		t.Errorf("%s: %v", file, err)
	}
	if diff := cmp.Diff(want, cfg); diff != "" {
		t.Errorf("%s differs from the defaults (-default +file):\n%s", file, diff)
	}
}

// Every key has a comment above it.
func TestEveryKeyIsExplained(t *testing.T) {
	files, err := filepath.Glob("config/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		before := ""
		for i, line := range strings.Split(string(text), "\n") {
			trimmed := strings.TrimSpace(line)
			section := strings.HasSuffix(trimmed, ":")
			if trimmed != "" && !strings.HasPrefix(trimmed, "#") && !section && !strings.HasPrefix(before, "#") {
				t.Errorf("%s:%d: %s has no comment above it", file, i+1, trimmed)
			}
			before = trimmed
		}
	}
}
