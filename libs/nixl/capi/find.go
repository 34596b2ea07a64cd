//go:build cgo && linux

package capi

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/switchyard-llm/switchyard/libs/nixl/capi/internal/native"
)

// library is the file name that the loader searches along its path.
const library = "libnixl_capi.so"

// Available loads the library, checks that every needed symbol is there, and
// returns the path of the file that was loaded. Without it the error Is
// ErrUnavailable and names what was looked for. The library stays loaded.
func Available() (path string, err error) {
	l, err := load()
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Path(), nil
}

// load takes the library that the environment names, else the first of the
// loader's path and the known folders that works.
func load() (*native.Library, error) {
	places := []string{os.Getenv(EnvLibrary)}
	source := EnvLibrary + "=" + places[0]
	if places[0] == "" {
		places = append([]string{library}, installed(pythonFolders())...)
		source = fmt.Sprintf("%s on the loader's path or in Python's packages (%s is unset)", library, EnvLibrary)
	}
	var tried []error
	for _, place := range places {
		l, err := native.Open(place)
		if err == nil {
			if err = l.CheckAlone(); err == nil {
				return l, nil
			}
			l.Close()
		}
		tried = append(tried, err)
	}
	return nil, fmt.Errorf("%w: %s: %w", ErrUnavailable, source, errors.Join(tried...))
}

// pythonFolders are patterns of the folders into which pip installs packages.
func pythonFolders() (patterns []string) {
	roots := []string{"/usr/local", "/usr"}
	for _, variable := range []string{"HOME", "CONDA_PREFIX", "VIRTUAL_ENV"} {
		if root := os.Getenv(variable); root != "" {
			if variable == "HOME" {
				root = filepath.Join(root, ".local")
			}
			roots = append([]string{root}, roots...)
		}
	}
	for _, root := range roots {
		patterns = append(patterns, filepath.Join(root, "lib/python3*/site-packages"), filepath.Join(root, "lib/python3*/dist-packages"))
	}
	return patterns
}

// installed finds the library where the wheels put it, beside their packages: the
// build's folder first, whose plugins are whole.
func installed(folders []string) (found []string) {
	for _, folder := range folders {
		for _, inWheel := range []string{".nixl*.mesonpy.libs", "nixl*.libs"} {
			files, err := filepath.Glob(filepath.Join(folder, inWheel, library))
			if err == nil { // the patterns are sound
				slices.Reverse(files) // the newest Python and CUDA first
				found = append(found, files...)
			}
		}
	}
	return found
}
