//go:build cgo && linux

package capi

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

func TestLibraryIsFoundInTheFoldersOfWheels(t *testing.T) {
	root := t.TempDir()
	var want []string
	for _, folder := range []string{".nixl_cu13.mesonpy.libs", ".nixl_cu12.mesonpy.libs", "nixl_cu12.libs"} {
		file := filepath.Join(root, "lib/python3.12/site-packages", folder, library)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		want = append(want, file)
	}
	t.Setenv("VIRTUAL_ENV", root)
	if got := installed(pythonFolders()); len(got) < 3 || !slices.Equal(got[:3], want) {
		t.Fatalf("got %q, want first %q", got, want)
	}
}

func TestWithoutTheLibraryThereIsNoAgent(t *testing.T) {
	t.Setenv(EnvLibrary, filepath.Join(t.TempDir(), "none.so"))
	_, err := New(Config{Config: nixl.Config{Name: "a", Incarnation: "1", KVFormat: "f"}})
	if !errors.Is(err, nixl.ErrUnavailable) || !errors.Is(err, ErrUnavailable) {
		t.Fatalf("got %v, want ErrUnavailable", err)
	}
}

func TestSettingsThatCannotBeAreRefused(t *testing.T) {
	if _, err := New(Config{Config: nixl.Config{Name: "a", Incarnation: "1", KVFormat: "f"}, Alive: 3, Silence: 5}); err == nil || errors.Is(err, ErrUnavailable) {
		t.Fatalf("got %v, want a refusal of the silence", err)
	}
}

func TestOnlyOverTCPAnEndpointIsAConnection(t *testing.T) {
	for value, want := range map[string]bool{
		"": false, "all": false, "tcp": true, "tcp,self": true, "self": false, "tcp,rc": false, "tcp,self,sm": false, "^tcp": false,
	} {
		t.Setenv("UCX_TLS", value)
		if got := overConnections(); got != want {
			t.Errorf("%q: %v", value, got)
		}
	}
}
