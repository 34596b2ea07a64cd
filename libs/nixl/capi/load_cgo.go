//go:build cgo && linux

package capi

/*
#cgo LDFLAGS: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>

// dlerror's text belongs to the thread, so it is taken in the same call.
static void *switchyard_open(const char *name, const char **error) {
	void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	*error = handle ? NULL : dlerror();
	return handle;
}

static const char *switchyard_path(void *handle) {
	struct link_map *map = NULL;
	return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map ? map->l_name : NULL;
}
*/
import "C"

import (
	"fmt"
	"os"
	"unsafe"
)

// Available loads the library, checks that every needed symbol is there, and
// returns the path of the file that was loaded. Without it the error Is
// ErrUnavailable and names what was looked for. The library is unloaded again.
func Available() (path string, err error) {
	name := os.Getenv(EnvLibrary)
	source := EnvLibrary + "=" + name
	if name == "" {
		name, source = library, library+" on the loader's path ("+EnvLibrary+" is unset)"
	}
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	var text *C.char
	handle := C.switchyard_open(cname, &text)
	if handle == nil {
		return "", fmt.Errorf("%w: %s: %s", ErrUnavailable, source, C.GoString(text))
	}
	defer C.dlclose(handle)
	if path = C.GoString(C.switchyard_path(handle)); path == "" {
		path = name
	}
	return path, resolve(handle, path)
}

func resolve(handle unsafe.Pointer, path string) error {
	for _, symbol := range symbols {
		csymbol := C.CString(symbol)
		address := C.dlsym(handle, csymbol)
		C.free(unsafe.Pointer(csymbol))
		if address == nil {
			return fmt.Errorf("%w: %s lacks the symbol %s", ErrUnavailable, path, symbol)
		}
	}
	return nil
}
