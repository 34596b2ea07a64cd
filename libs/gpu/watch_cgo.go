//go:build cgo && linux

package gpu

import (
	"fmt"
	"math"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// eventSet is NVML's queue of events.
type eventSet struct{ set nvml.EventSet }

var _ watch = (*eventSet)(nil)

// watch registers for the Xid events of every GPU that reports them.
func (n *nvmlDriver) watch() (watch, error) {
	for _, symbol := range []string{"nvmlEventSetCreate", "nvmlEventSetWait_v2", "nvmlEventSetFree", "nvmlDeviceRegisterEvents", "nvmlDeviceGetSupportedEventTypes"} {
		if !n.has[symbol] {
			return nil, fmt.Errorf("%w that reports events: the library has no %s", ErrUnavailable, symbol)
		}
	}
	count, ret := n.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("count GPUs: %s", text(ret))
	}
	set, ret := n.lib.EventSetCreate()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("create an event set: %s", text(ret))
	}
	w, registered := &eventSet{set}, 0
	for i := range count {
		if n.register(i, set) {
			registered++
		}
	}
	if registered == 0 {
		w.close()
		return nil, fmt.Errorf("%w that reports events: none of %d GPUs does", ErrUnavailable, count)
	}
	return w, nil
}

func (n *nvmlDriver) register(index int, set nvml.EventSet) bool {
	d, ret := n.lib.DeviceGetHandleByIndex(index)
	if ret != nvml.SUCCESS {
		return false
	}
	types, ret := d.GetSupportedEventTypes()
	return ret == nvml.SUCCESS && types&nvml.EventTypeXidCriticalError != 0 &&
		d.RegisterEvents(nvml.EventTypeXidCriticalError, set) == nvml.SUCCESS
}

func (w *eventSet) next(wait time.Duration) (Event, bool, error) {
	data, ret := w.set.Wait(uint32(wait.Milliseconds()))
	switch ret {
	case nvml.SUCCESS:
	case nvml.ERROR_TIMEOUT:
		return Event{}, false, nil
	default:
		return Event{}, false, failure("wait for events of", "all GPUs", ret)
	}
	if data.EventType != nvml.EventTypeXidCriticalError {
		return Event{}, false, nil
	}
	e := Event{Xid: data.EventData, GPUInstance: instance(data.GpuInstanceId), ComputeInstance: instance(data.ComputeInstanceId)}
	// A GPU that is lost with this very error does not tell its UUID; the event counts all the same.
	if data.Device != nil {
		if uuid, ret := data.Device.GetUUID(); ret == nvml.SUCCESS {
			e.UUID = uuid
		}
	}
	return e, true, nil
}

// instance is not known outside of MIG devices.
func instance(id uint32) Reading[int] {
	if id == math.MaxUint32 {
		return Reading[int]{}
	}
	return Known(int(id))
}

func (w *eventSet) close() { _ = w.set.Free() }
