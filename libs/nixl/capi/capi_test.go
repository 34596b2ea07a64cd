//go:build cgo && linux

package capi

import (
	"errors"
	"os"
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
