//go:build cgo && linux

package gpu

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// required are the functions that every supported driver has: without one of them the
// library is none.
var required = [...]string{
	"nvmlInit_v2", "nvmlShutdown", "nvmlErrorString",
	"nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByUUID",
	"nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetMemoryInfo",
}

// optional are the functions that a driver may lack: calling one it lacks would end the process.
var optional = [...]string{
	"nvmlDeviceGetUtilizationRates", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetTemperature", "nvmlDeviceGetTotalEccErrors",
	"nvmlDeviceGetRemappedRows", "nvmlDeviceGetPcieThroughput", "nvmlDeviceGetFieldValues", "nvmlDeviceGetGpuFabricInfo",
	"nvmlDeviceGetNvLinkState", "nvmlDeviceGetNvLinkRemotePciInfo_v2", "nvmlDeviceGetNvLinkRemoteDeviceType",
	"nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex",
	"nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId",
	"nvmlDeviceGetTopologyCommonAncestor", "nvmlDeviceGetP2PStatus",
	"nvmlEventSetCreate", "nvmlEventSetWait_v2", "nvmlEventSetFree", "nvmlDeviceRegisterEvents", "nvmlDeviceGetSupportedEventTypes",
}

// open looks into the library before anything of it is called.
func open(o Options) (driver, error) {
	l := dl.New(o.Library, dl.RTLD_LAZY|dl.RTLD_LOCAL)
	if err := l.Open(); err != nil {
		return nil, fmt.Errorf("%w: looked for the library %s: %w", ErrUnavailable, o.Library, err)
	}
	for _, symbol := range required {
		if err := l.Lookup(symbol); err != nil {
			_ = l.Close()
			return nil, fmt.Errorf("%w: the library %s is too old or another one: %w", ErrUnavailable, o.Library, err)
		}
	}
	if err := l.Close(); err != nil {
		return nil, fmt.Errorf("%w: the library %s: %w", ErrUnavailable, o.Library, err)
	}
	return openLibrary(nvml.New(nvml.WithLibraryPath(o.Library)), o)
}

// openLibrary is open with a library that has what is required, such as a mock.
func openLibrary(lib nvml.Interface, o Options) (driver, error) {
	if ret := lib.Init(); ret != nvml.SUCCESS {
		return nil, fmt.Errorf("%w: the library %s is here and answers: %s", ErrUnavailable, o.Library, text(ret))
	}
	n := &nvmlDriver{lib: lib, sys: o.Sys, has: make(map[string]bool)}
	for _, symbol := range optional {
		n.has[symbol] = lib.Extensions().LookupSymbol(symbol) == nil
	}
	return n, nil
}

// nvmlDriver asks NVML. Its methods have no state between them but what never changes.
type nvmlDriver struct {
	lib nvml.Interface
	sys fs.FS
	has map[string]bool // optional functions that are there
}

var _ driver = (*nvmlDriver)(nil)

func (n *nvmlDriver) close() error {
	if ret := n.lib.Shutdown(); ret != nvml.SUCCESS {
		return fmt.Errorf("close NVML: %s", text(ret))
	}
	return nil
}

// text says what a result means. The library's text lies in the library, which may be
// gone when an error is printed: no nvml.Return leaves this package.
func text(ret nvml.Return) string { return strings.Clone(ret.Error()) }

// failure turns a result into an error for a GPU.
func failure(operation, gpu string, ret nvml.Return) error {
	switch ret {
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_RESET_REQUIRED:
		return fmt.Errorf("%s %s: %w: %s", operation, gpu, ErrLost, text(ret))
	case nvml.ERROR_NOT_FOUND, nvml.ERROR_INVALID_ARGUMENT:
		return fmt.Errorf("%s %s: %w: %s", operation, gpu, ErrUnknown, text(ret))
	}
	return fmt.Errorf("%s %s: %s", operation, gpu, text(ret))
}

// reader reads figures of one GPU until one says that the GPU is lost.
type reader struct {
	*nvmlDriver
	device nvml.Device
	uuid   string
	err    error
}

func (n *nvmlDriver) reader(uuid string) (*reader, error) {
	d, ret := n.lib.DeviceGetHandleByUUID(uuid)
	if ret != nvml.SUCCESS {
		return nil, failure("find GPU", uuid, ret)
	}
	return &reader{nvmlDriver: n, device: d, uuid: uuid}, nil
}

// read calls a function of NVML, of the given name if that is an optional one, and only
// if there is one. What the GPU does not have, or does not tell us, is not known.
func read[T any](r *reader, symbol string, call func() (T, nvml.Return)) Reading[T] {
	if r.err != nil || symbol != "" && !r.has[symbol] {
		return Reading[T]{}
	}
	v, ret := call()
	switch ret {
	case nvml.SUCCESS:
		return Known(v)
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_RESET_REQUIRED:
		r.err = failure("read GPU", r.uuid, ret)
	}
	return Reading[T]{}
}
