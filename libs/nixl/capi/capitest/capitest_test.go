//go:build linux && amd64

package capitest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhatIsMissingIsNamed(t *testing.T) {
	t.Setenv(libraryVariable, "")
	t.Setenv(cacheVariable, t.TempDir())
	t.Setenv("PATH", t.TempDir()) // no pip
	_, err := Library(context.Background())
	for _, part := range []string{project + "-" + version, "pip3", libraryVariable} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Fatalf("got %v, want an error that names %s", err, part)
		}
	}
}

func TestAnotherWheelIsRefused(t *testing.T) {
	wheel := filepath.Join(t.TempDir(), wheelFile)
	if err := os.WriteFile(wheel, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := check(wheel); err == nil || !strings.Contains(err.Error(), wheelSHA256) {
		t.Fatalf("got %v, want an error that names the digest", err)
	}
}

func TestNamedFileMustBeThere(t *testing.T) {
	t.Setenv(libraryVariable, "nowhere/libnixl_capi.so")
	if _, err := Library(context.Background()); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Fatalf("got %v", err)
	}
	file := filepath.Join(t.TempDir(), "libnixl_capi.so")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TEST_SRCDIR", filepath.Dir(filepath.Dir(file)))
	t.Setenv("TEST_WORKSPACE", filepath.Base(filepath.Dir(file)))
	t.Setenv(libraryVariable, "libnixl_capi.so")
	if got, err := Library(context.Background()); err != nil || got != file {
		t.Fatalf("got %q, %v, want that of the runfiles, %q", got, err, file)
	}
}

func TestNeededFilesAreThoseOfUCX(t *testing.T) {
	for name, want := range map[string]bool{
		member: true, "nixl_cu12.libs/libucp-b39b3ed9.so.0.0.0": true, "nixl_cu12.libs/ucx/libuct_ib.so.0.0.0": true,
		".nixl_cu12.mesonpy.libs/plugins/libplugin_UCX.so": true, ".nixl_cu12.mesonpy.libs/plugins/libplugin_OBJ.so": false,
		"nixl_ep_cu12/nixl_ep_cpp_torch211.cpython-311-x86_64-linux-gnu.so": false, "nixl_cu12/_api.py": false,
		"nixl_cu12.libs/../../etc/x.so": false,
	} {
		if needed(name) != want {
			t.Errorf("%s: needed is %v", name, !want)
		}
	}
}
