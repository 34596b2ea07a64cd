//go:build cgo && linux

package native

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestLibraryWithAllSymbolsIsOpened(t *testing.T) {
	file := build(t, Symbols())
	l, err := Open(file)
	if err != nil || l.Path() != file {
		t.Fatalf("got %v, want %q", err, file)
	}
	l.Close()
}

func TestMissingSymbolIsNamed(t *testing.T) {
	const missing = "nixl_capi_post_xfer_req"
	rest := slices.DeleteFunc(Symbols(), func(s string) bool { return s == missing })
	if len(rest) != len(Symbols())-1 {
		t.Fatalf("%s is not among the symbols", missing)
	}
	if _, err := Open(build(t, rest)); err == nil || !strings.Contains(err.Error(), missing) {
		t.Fatalf("got %v, want an error that names %s", err, missing)
	}
}

func TestUCXFromElsewhereIsNamed(t *testing.T) {
	l, err := Open(build(t, Symbols()))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	built := build(t, []string{"ucp_init"})
	other := filepath.Join(filepath.Dir(built), "libucp.so.0")
	if err := os.Rename(built, other); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(other); err == nil || !strings.Contains(err.Error(), "lacks") {
		t.Fatalf("got %v", err) // it stays loaded, though it has none of the symbols
	}
	if err := l.CheckAlone(); err == nil || !strings.Contains(err.Error(), other) {
		t.Fatalf("got %v, want an error that names %s", err, other)
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
	dir := filepath.Join(t.TempDir(), "lib")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	source, file := filepath.Join(dir, "fake.c"), filepath.Join(dir, "libnixl_capi.so")
	text := "int " + strings.Join(symbols, "(void) { return 0; }\nint ") + "(void) { return 0; }\n"
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(gcc, "-shared", "-fPIC", "-o", file, source).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return file
}
