//go:build cgo && linux

package gpu

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
)

type eventAnswer struct {
	data nvml.EventData
	ret  nvml.Return
}

// withEvents makes a server yield events; without one a wait times out.
func withEvents(s *server.Server, freed *int) chan<- eventAnswer {
	answers := make(chan eventAnswer, 16)
	set := &mock.EventSet{
		WaitFunc: func(ms uint32) (nvml.EventData, nvml.Return) {
			if ms != 200 {
				return nvml.EventData{}, nvml.ERROR_INVALID_ARGUMENT
			}
			select {
			case a := <-answers:
				return a.data, a.ret
			default:
				return nvml.EventData{}, nvml.ERROR_TIMEOUT
			}
		},
		FreeFunc: func() nvml.Return { *freed++; return nvml.SUCCESS },
	}
	s.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) { return set, nvml.SUCCESS }
	return answers
}

func TestXidsComeWithTheirGPU(t *testing.T) {
	s, freed := box(dgxa100.New()), 0
	answers := withEvents(s, &freed)
	m := openMock(t, s)
	const none = math.MaxUint32
	xid := func(d nvml.Device, code uint64, gi, ci uint32) eventAnswer {
		return eventAnswer{nvml.EventData{Device: d, EventType: nvml.EventTypeXidCriticalError, EventData: code, GpuInstanceId: gi, ComputeInstanceId: ci}, nvml.SUCCESS}
	}
	dead := &mock.Device{GetUUIDFunc: func() (string, nvml.Return) { return "x", nvml.ERROR_GPU_IS_LOST }}
	answers <- xid(s.Devices[2], 63, none, none)
	answers <- eventAnswer{nvml.EventData{Device: s.Devices[1], EventType: 1}, nvml.SUCCESS}
	answers <- xid(s.Devices[1], 31, 3, 0)
	answers <- xid(dead, 79, none, none)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	for _, want := range []Event{
		{UUID: uuid(s, 2), Xid: 63}, {UUID: uuid(s, 1), Xid: 31, GPUInstance: Known(3), ComputeInstance: Known(0)}, {Xid: 79},
	} {
		if got := <-m.Events(); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	cancel()
	if err := <-done; err != nil || freed != 1 {
		t.Errorf("%v, freed %d times", err, freed)
	}
	registered := 0
	for _, d := range s.Devices {
		for _, c := range d.(*server.Device).RegisterEventsCalls() {
			if c.V != nvml.EventTypeXidCriticalError {
				t.Errorf("registered for %d", c.V)
			}
			registered++
		}
	}
	if registered != 7 {
		t.Errorf("%d GPUs registered, want all but the bare one", registered)
	}
}

func TestALostGPUEndsTheWatch(t *testing.T) {
	s, freed := box(dgxa100.New()), 0
	answers := withEvents(s, &freed)
	answers <- eventAnswer{ret: nvml.ERROR_GPU_IS_LOST}
	if err := openMock(t, s).Run(t.Context()); !errors.Is(err, ErrLost) || freed != 1 {
		t.Errorf("%v, freed %d times", err, freed)
	}
}

func TestWithoutAGPUThatReportsEventsThereIsNoWatch(t *testing.T) {
	s, freed := box(dgxa100.New()), 0
	withEvents(s, &freed)
	for _, d := range s.Devices {
		bare(d.(*server.Device))
	}
	if err := openMock(t, s).Run(t.Context()); !errors.Is(err, ErrUnavailable) || freed != 1 {
		t.Errorf("%v, freed %d times", err, freed)
	}
}
