// Package modeltest gives tests the real model. It is not for programs.
package modeltest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/modelstore"
)

// Variable is the environment variable that names the model file of tests. A
// relative path is looked up in the working folder, then in Bazel's runfiles.
const Variable = "SWITCHYARD_MODEL"

// TestModel returns the path of the default model's file: the one that
// SWITCHYARD_MODEL names, else what modelstore finds or fetches. A test that
// cannot have it fails; it is never skipped.
func TestModel(t testing.TB) string {
	t.Helper()
	if named := os.Getenv(Variable); named != "" {
		for _, path := range candidates(named) {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				return path
			}
		}
		t.Fatalf("%s names %s, which is no file (looked at %q)", Variable, named, candidates(named))
	}
	path, err := modelstore.Resolve(t.Context(), modelstore.DefaultModel, nil)
	if err != nil {
		t.Fatalf("the model for tests: %v; or set %s", err, Variable)
	}
	return path
}

func candidates(named string) []string {
	out := []string{named}
	if runfiles := os.Getenv("TEST_SRCDIR"); runfiles != "" && !filepath.IsAbs(named) {
		out = append(out, filepath.Join(runfiles, named), filepath.Join(runfiles, os.Getenv("TEST_WORKSPACE"), named))
	}
	return out
}
