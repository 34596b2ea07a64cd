//go:build cgo && linux

package gpu

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// oldest is a library that has what is required and nothing else.
var oldest = map[string]string{
	"nvmlInit_v2":                   `int nvmlInit_v2(void) { return 0; }`,
	"nvmlShutdown":                  `int nvmlShutdown(void) { return 0; }`,
	"nvmlErrorString":               `const char *nvmlErrorString(int r) { return r == 15 ? "GPU is lost" : "text of the library"; }`,
	"nvmlDeviceGetCount_v2":         `int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return 0; }`,
	"nvmlDeviceGetHandleByIndex_v2": `int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = &gpus[i]; return i ? 15 : 0; }`,
	"nvmlDeviceGetHandleByUUID":     `int nvmlDeviceGetHandleByUUID(const char *u, void **d) { *d = &gpus[0]; return strcmp(u, "GPU-0") ? 6 : 0; }`,
	"nvmlDeviceGetUUID":             `int nvmlDeviceGetUUID(void *d, char *s, unsigned n) { strcpy(s, "GPU-0"); return 0; }`,
	"nvmlDeviceGetName":             `int nvmlDeviceGetName(void *d, char *s, unsigned n) { strcpy(s, "Oldest"); return 0; }`,
	"nvmlDeviceGetPciInfo_v3": `int nvmlDeviceGetPciInfo_v3(void *d, void *p) {
		memset(p, 0, 68); unsigned *at = (unsigned *)((char *)p + 16); at[0] = 0x10000; at[1] = 0xab; at[2] = 2; return 0; }`,
	"nvmlDeviceGetMemoryInfo": `int nvmlDeviceGetMemoryInfo(void *d, unsigned long long *m) { m[0] = 100; m[1] = 60; m[2] = 40; return 0; }`,
}

// build compiles a library that lacks one function.
func build(t *testing.T, without string) string {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler at hand")
	}
	source := "#include <string.h>\nstatic char gpus[2];\n"
	for symbol, text := range oldest {
		if symbol != without {
			source += text + "\n"
		}
	}
	folder := t.TempDir()
	file, out := filepath.Join(folder, "nvml.c"), filepath.Join(folder, "libnvidia-ml.so.1")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command(compiler, "-shared", "-fPIC", "-o", out, file).CombinedOutput(); err != nil {
		t.Fatalf("compile: %v: %s", err, text)
	}
	return out
}

// A call of a function that is not there would end the process of this test, and so
// would a binary that was not linked as the package comment says.
func TestTheOldestLibraryIsAskedForWhatItHas(t *testing.T) {
	file := build(t, "")
	for range 2 { // a Machine can be opened again after the last one was closed
		m, err := Open(Options{Library: file, Sys: fstest.MapFS{}})
		if err != nil {
			t.Fatal(err)
		}
		devices, lost := m.Devices()
		if len(devices) != 1 || devices[0].PCI != "10000:ab:02.0" || devices[0].Name != "Oldest" || devices[0].MemoryBytes != 100 {
			t.Errorf("got %+v", devices)
		}
		if !errors.Is(lost, ErrLost) {
			t.Errorf("got %v", lost)
		}
		if s, err := m.Sample("GPU-0"); err != nil || s != (Sample{MemoryTotalBytes: 100, MemoryFreeBytes: 60, MemoryUsedBytes: 40}) {
			t.Errorf("got %+v, %v", s, err)
		}
		_, unknown := m.Sample("GPU-1")
		if _, err := m.Traffic("GPU-0"); err != nil {
			t.Error(err)
		}
		if err := m.Run(t.Context()); !errors.Is(err, ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
		// The texts are the library's, which is gone.
		if !strings.HasSuffix(lost.Error(), "GPU is lost") || !errors.Is(unknown, ErrUnknown) || !strings.HasSuffix(unknown.Error(), "text of the library") {
			t.Errorf("got %v and %v", lost, unknown)
		}
	}
}

func TestALibraryThatLacksWhatIsRequiredIsUnavailable(t *testing.T) {
	for _, symbol := range required {
		if oldest[symbol] == "" {
			t.Errorf("%s is required, but not in the test's library", symbol)
		}
	}
	for _, symbol := range []string{"nvmlInit_v2", "nvmlDeviceGetMemoryInfo"} {
		file := build(t, symbol)
		_, err := Open(Options{Library: file})
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), symbol) || !strings.Contains(err.Error(), file) {
			t.Errorf("without %s: got %v", symbol, err)
		}
	}
}
