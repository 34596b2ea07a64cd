//go:build cgo && linux

package native

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>
#include "nixl.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"
)

// Library is the loaded library. It stays loaded for the life of the process, since UCX
// cannot be unloaded.
type Library struct {
	path  string
	calls *C.sy_table
}

// Open loads the library of that path, or of that name on the loader's path, and finds all
// calls. What UCX reads from the environment is set before.
func Open(path string) (*Library, error) {
	C.sy_settings()
	cpath := C.CString(path)
	defer C.free(unsafe.Pointer(cpath))
	var text *C.char
	handle := C.sy_open(cpath, &text)
	if handle == nil {
		defer C.free(unsafe.Pointer(text))
		return nil, errors.New(C.GoString(text))
	}
	if found := C.GoString(C.sy_path(handle)); found != "" {
		path = found
	}
	l := &Library{path: path, calls: (*C.sy_table)(C.calloc(1, C.sizeof_sy_table))}
	if missing := C.sy_resolve(handle, l.calls); missing != nil {
		l.Close()
		C.dlclose(handle)
		return nil, fmt.Errorf("%s lacks the symbol %s", path, C.GoString(missing))
	}
	return l, nil
}

// Symbols are the names that a library must have.
func Symbols() (names []string) {
	for i := C.size_t(0); ; i++ {
		name := C.sy_symbol(i)
		if name == nil {
			return names
		}
		names = append(names, C.GoString(name))
	}
}

// Path is the file that was loaded.
func (l *Library) Path() string { return l.path }

// Close frees the table of calls; the library stays. All agents must have been destroyed.
func (l *Library) Close() { C.free(unsafe.Pointer(l.calls)) }

// CheckAlone returns an error if a UCX that the library did not bring is in this process:
// two of them take each other's memory hooks.
func (l *Library) CheckAlone() error {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(l.path) // the kernel names files so
	if err != nil {
		return err
	}
	own := filepath.Dir(filepath.Dir(real)) + string(filepath.Separator)
	for line := range strings.Lines(string(maps)) {
		if _, file, mapped := strings.Cut(strings.TrimSpace(line), " /"); mapped && strings.HasPrefix(filepath.Base(file), "libucp") {
			if file = "/" + file; !strings.HasPrefix(file, own) {
				return fmt.Errorf("another UCX is in this process: %s", file)
			}
		}
	}
	return nil
}
