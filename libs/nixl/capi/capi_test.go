//go:build cgo && linux

package capi

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestMissingLibraryIsACleanError(t *testing.T) {
	t.Setenv(EnvLibrary, filepath.Join(t.TempDir(), "none.so"))
	_, err := Available()
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), EnvLibrary) || !strings.Contains(err.Error(), "none.so") {
		t.Fatalf("got %v, want ErrUnavailable that names the variable and the file", err)
	}
}

func TestLoaderPathIsSearchedWithoutTheVariable(t *testing.T) {
	t.Setenv(EnvLibrary, "")
	path, err := Available()
	if err == nil {
		t.Logf("a real library is here: %s", path)
		return
	}
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), library) {
		t.Fatalf("got %v, want ErrUnavailable that names %s", err, library)
	}
}

func TestLibraryWithAllSymbolsIsAvailable(t *testing.T) {
	file := build(t, symbols[:])
	t.Setenv(EnvLibrary, file)
	path, err := Available()
	if err != nil || path != file {
		t.Fatalf("got %q, %v, want %q", path, err, file)
	}
}

func TestMissingSymbolIsNamed(t *testing.T) {
	const missing = "nixl_capi_post_xfer_req"
	var rest []string
	for _, s := range symbols {
		if s != missing {
			rest = append(rest, s)
		}
	}
	t.Setenv(EnvLibrary, build(t, rest))
	_, err := Available()
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), missing) {
		t.Fatalf("got %v, want ErrUnavailable that names %s", err, missing)
	}
}

func TestFileThatIsNoLibraryIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "text.so")
	if err := os.WriteFile(file, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(EnvLibrary, file)
	if _, err := Available(); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("got %v, want ErrUnavailable", err)
	}
}

// build compiles a library with the given symbols. Whoever has cgo has a compiler;
// a test binary may still run where there is none.
func build(t *testing.T, symbols []string) string {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc to build a library with")
	}
	dir := t.TempDir()
	source, file := filepath.Join(dir, "fake.c"), filepath.Join(dir, library)
	text := "int " + strings.Join(symbols, "(void) { return 0; }\nint ") + "(void) { return 0; }\n"
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(gcc, "-shared", "-fPIC", "-o", file, source).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return file
}
