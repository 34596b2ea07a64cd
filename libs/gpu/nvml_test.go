//go:build cgo && linux

package gpu

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxb200"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh200"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
	"github.com/google/go-cmp/cmp"
)

// box is a mock with everything set that the package reads; GPU 3 lacks what it may.
func box(s *server.Server) *server.Server {
	for i := range s.Devices {
		complete(s.Devices[i].(*server.Device), i)
	}
	bare(s.Devices[3].(*server.Device))
	return s
}

func pciInfo(bus int) nvml.PciInfo { return nvml.PciInfo{Bus: uint32(bus), Device: 0} }

func complete(d *server.Device, i int) {
	d.MemoryInfo.Free, d.MemoryInfo.Used = d.MemoryInfo.Total-1000, 1000
	d.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) { return pciInfo(0x10 + i), nvml.SUCCESS }
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) {
		return nvml.Utilization{Gpu: 90, Memory: 40}, nvml.SUCCESS
	}
	d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 345678, nvml.SUCCESS }
	d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 61, nvml.SUCCESS }
	d.GetTotalEccErrorsFunc = func(t nvml.MemoryErrorType, c nvml.EccCounterType) (uint64, nvml.Return) {
		return 10*uint64(c) + uint64(t), nvml.SUCCESS
	}
	d.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 2, 1, true, false, nvml.SUCCESS }
	d.GetPcieThroughputFunc = func(c nvml.PcieUtilCounter) (uint32, nvml.Return) { return 4e9 + uint32(c), nvml.SUCCESS }
	d.GetFieldValuesFunc = func(v []nvml.FieldValue) nvml.Return {
		if v[0].ScopeId != 0xffffffff {
			return nvml.ERROR_INVALID_ARGUMENT
		}
		v[0].ValueType = uint32(nvml.VALUE_TYPE_UNSIGNED_LONG_LONG)
		binary.LittleEndian.PutUint64(v[0].Value[:], uint64(v[0].FieldId)<<32)
		return nvml.SUCCESS
	}
	d.GetGpuFabricInfoFunc = func() (nvml.GpuFabricInfo, nvml.Return) {
		return nvml.GpuFabricInfo{ClusterUuid: [16]uint8{1, 2}, CliqueId: 7, State: nvml.GPU_FABRIC_STATE_COMPLETED}, nvml.SUCCESS
	}
	d.GetNvLinkStateFunc = func(l int) (nvml.EnableState, nvml.Return) {
		if l >= 12 {
			return 0, nvml.ERROR_INVALID_ARGUMENT
		}
		return nvml.EnableState(l & 1), nvml.SUCCESS
	}
	d.GetNvLinkRemotePciInfoFunc = func(l int) (nvml.PciInfo, nvml.Return) { return pciInfo(0xa0 - l/6), nvml.SUCCESS }
	d.GetNvLinkRemoteDeviceTypeFunc = func(l int) (nvml.IntNvLinkDeviceType, nvml.Return) {
		return []nvml.IntNvLinkDeviceType{nvml.NVLINK_DEVICE_TYPE_SWITCH, nvml.NVLINK_DEVICE_TYPE_GPU}[l/6], nvml.SUCCESS
	}
	d.GetP2PStatusFunc = func(peer nvml.Device, c nvml.GpuP2PCapsIndex) (nvml.GpuP2PStatus, nvml.Return) {
		if c == nvml.P2P_CAPS_INDEX_NVLINK && peer.(*server.Device).Index > 4 {
			return nvml.P2P_STATUS_NOT_SUPPORTED, nvml.SUCCESS
		}
		return nvml.P2P_STATUS_OK, nvml.SUCCESS
	}
	d.GetTopologyCommonAncestorFunc = func(peer nvml.Device) (nvml.GpuTopologyLevel, nvml.Return) {
		levels := []nvml.GpuTopologyLevel{nvml.TOPOLOGY_INTERNAL, nvml.TOPOLOGY_SINGLE, nvml.TOPOLOGY_MULTIPLE,
			nvml.TOPOLOGY_SYSTEM, nvml.TOPOLOGY_HOSTBRIDGE, nvml.TOPOLOGY_NODE, nvml.TOPOLOGY_SYSTEM, 99}
		return levels[peer.(*server.Device).Index], nvml.SUCCESS
	}
	d.GetSupportedEventTypesFunc = func() (uint64, nvml.Return) { return nvml.EventTypeXidCriticalError | 1, nvml.SUCCESS }
	d.RegisterEventsFunc = func(uint64, nvml.EventSet) nvml.Return { return nvml.SUCCESS }
}

// bare answers that it does not have it.
func bare(d *server.Device) {
	no := nvml.ERROR_NOT_SUPPORTED
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 1}, no }
	d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 1, no }
	d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 1, no }
	d.GetTotalEccErrorsFunc = func(t nvml.MemoryErrorType, _ nvml.EccCounterType) (uint64, nvml.Return) { return 1, no }
	d.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 1, 1, true, true, no }
	d.GetPcieThroughputFunc = func(nvml.PcieUtilCounter) (uint32, nvml.Return) { return 1, no }
	d.GetFieldValuesFunc = func(v []nvml.FieldValue) nvml.Return {
		v[0].ValueType, v[0].NvmlReturn = uint32(nvml.VALUE_TYPE_UNSIGNED_INT), uint32(no)
		return nvml.SUCCESS
	}
	d.GetGpuFabricInfoFunc = func() (nvml.GpuFabricInfo, nvml.Return) {
		return nvml.GpuFabricInfo{ClusterUuid: [16]uint8{1}, State: nvml.GPU_FABRIC_STATE_IN_PROGRESS}, nvml.SUCCESS
	}
	d.GetNvLinkStateFunc = func(int) (nvml.EnableState, nvml.Return) { return nvml.FEATURE_ENABLED, no }
	d.GetMigModeFunc = func() (int, int, nvml.Return) { return 1, 1, no }
	d.GetP2PStatusFunc = func(nvml.Device, nvml.GpuP2PCapsIndex) (nvml.GpuP2PStatus, nvml.Return) {
		return nvml.P2P_STATUS_OK, no
	}
	d.GetTopologyCommonAncestorFunc = func(nvml.Device) (nvml.GpuTopologyLevel, nvml.Return) { return nvml.TOPOLOGY_SINGLE, no }
	d.GetSupportedEventTypesFunc = func() (uint64, nvml.Return) { return 8, no }
}

var sys = fstest.MapFS{
	"bus/pci/devices/0000:10:00.0/numa_node": {Data: []byte("0\n")},
	"bus/pci/devices/0000:11:00.0/numa_node": {Data: []byte("1\n")},
	"bus/pci/devices/0000:12:00.0/numa_node": {Data: []byte("-1\n")},
	"bus/pci/devices/0000:14:00.0/numa_node": {Data: []byte("x")},
}

func openMock(t *testing.T, s *server.Server) *Machine {
	t.Helper()
	d, err := openLibrary(s, Options{Sys: sys})
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(d)
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return m
}

func uuid(s *server.Server, i int) string { return s.Devices[i].(*server.Device).UUID }

func TestDevicesOfEveryServerAreListed(t *testing.T) {
	for name, s := range map[string]*server.Server{
		"A100": dgxa100.New(), "H100": dgxh100.New(), "H200": dgxh200.New(), "B200": dgxb200.New(),
	} {
		devices, err := openMock(t, box(s)).Devices()
		if err != nil || len(devices) != len(s.Devices) {
			t.Fatalf("%s: %d devices, %v", name, len(devices), err)
		}
		want := []Device{
			0: {NUMANode: Known(0)}, 1: {NUMANode: Known(1)}, 2: {}, 3: {}, 4: {},
		}
		for i := range want {
			d, w := s.Devices[i].(*server.Device), &want[i]
			w.Index, w.UUID, w.Name, w.PCI, w.MemoryBytes = i, d.UUID, d.Config.Name, fmt.Sprintf("0000:%x:00.0", 0x10+i), d.Config.MemoryMB<<20
			if i == 3 {
				continue
			}
			w.Fabric, w.MIG = Known(Fabric{"01020000000000000000000000000000", 7}), Known(false)
			w.NVLinks = []NVLink{{"0000:9f:00.0", GPUPeer, 3}, {"0000:a0:00.0", SwitchPeer, 3}}
		}
		if diff := cmp.Diff(want, devices[:len(want)]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if !strings.Contains(devices[0].Name, name) {
			t.Errorf("%s is named %s", name, devices[0].Name)
		}
	}
}

func TestSampleHasWhatTheGPUTells(t *testing.T) {
	s := box(dgxh100.New())
	m := openMock(t, s)
	got, err := m.Sample(uuid(s, 0))
	want := Sample{
		MemoryTotalBytes: 80 << 30, MemoryFreeBytes: 80<<30 - 1000, MemoryUsedBytes: 1000,
		Utilisation: Known(Utilisation{90, 40}), PowerMilliwatts: Known(uint32(345678)), TemperatureCelsius: Known(uint32(61)),
		ECC: Known(ECC{0, 1}), ECCLifetime: Known(ECC{10, 11}), RemappedRows: Known(RemappedRows{2, 1, true, false}),
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	got, err = m.Sample(uuid(s, 3))
	if diff := cmp.Diff(Sample{MemoryTotalBytes: 80 << 30, MemoryFreeBytes: 80<<30 - 1000, MemoryUsedBytes: 1000}, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}

func TestTrafficIsInBytes(t *testing.T) {
	s := box(dgxh100.New())
	m := openMock(t, s)
	got, err := m.Traffic(uuid(s, 0))
	want := Traffic{Known(uint64(4e12)), Known(uint64(4e12 + 1000)), Known(uint64(138 << 42)), Known(uint64(139 << 42))}
	if got != want || err != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := m.Traffic(uuid(s, 3)); got != (Traffic{}) || err != nil {
		t.Errorf("of a bare GPU: got %+v, %v", got, err)
	}
}

func TestPathTellsAccessAndLevel(t *testing.T) {
	s := box(dgxa100.New())
	m := openMock(t, s)
	for peer, want := range map[int]Path{
		1: {true, true, LevelSwitch}, 2: {true, true, LevelSwitches}, 4: {true, true, LevelHostBridge},
		5: {false, true, LevelNUMA}, 6: {false, true, LevelSystem}, 7: {false, true, LevelUnknown},
	} {
		if got, err := m.Path(uuid(s, 0), uuid(s, peer)); got != want || err != nil {
			t.Errorf("GPU %d: got %+v, %v", peer, got, err)
		}
	}
	if got, err := m.Path(uuid(s, 1), uuid(s, 0)); got.Common != LevelBoard || err != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := m.Path(uuid(s, 3), uuid(s, 0)); got != (Path{}) || err != nil {
		t.Errorf("of a bare GPU: got %+v, %v", got, err)
	}
}

func TestMIGDevicesAreListed(t *testing.T) {
	s := box(dgxa100.New())
	d := s.Devices[0].(*server.Device)
	d.MigMode = nvml.DEVICE_MIG_ENABLE
	d.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
	part := &mock.Device{
		GetUUIDFunc:              func() (string, nvml.Return) { return "MIG-1", nvml.SUCCESS },
		GetNameFunc:              func() (string, nvml.Return) { return "A100 MIG 3g.20gb", nvml.SUCCESS },
		GetMemoryInfoFunc:        func() (nvml.Memory, nvml.Return) { return nvml.Memory{Total: 20 << 30}, nvml.SUCCESS },
		GetGpuInstanceIdFunc:     func() (int, nvml.Return) { return 2, nvml.SUCCESS },
		GetComputeInstanceIdFunc: func() (int, nvml.Return) { return 1, nvml.SUCCESS },
	}
	d.GetMigDeviceHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i != 4 {
			return nil, nvml.ERROR_NOT_FOUND
		}
		return part, nvml.SUCCESS
	}
	devices, err := openMock(t, s).Devices()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Instance{{"MIG-1", "A100 MIG 3g.20gb", 20 << 30, 2, 1}}, devices[0].Instances); diff != "" || devices[0].MIG != Known(true) {
		t.Error(diff)
	}
}

// The mocks panic when a function is called that was not set, as a driver's library
// would end the process.
func TestFunctionsThatTheDriverLacksAreNotCalled(t *testing.T) {
	s := dgxa100.New()
	for _, d := range s.Devices {
		d := d.(*server.Device)
		d.GetMigModeFunc = nil
	}
	s.LookupSymbolFunc = func(symbol string) error { return errors.New("no " + symbol) }
	m := openMock(t, s)
	devices, err := m.Devices()
	if err != nil || len(devices) != 8 || devices[0].MIG.Known || devices[0].NVLinks != nil {
		t.Fatalf("%+v, %v", devices, err)
	}
	if got, err := m.Sample(uuid(s, 0)); err != nil || got.MemoryTotalBytes != 40<<30 || got.PowerMilliwatts.Known {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := m.Traffic(uuid(s, 0)); err != nil || got != (Traffic{}) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := m.Path(uuid(s, 0), uuid(s, 1)); err != nil || got != (Path{}) {
		t.Errorf("%+v, %v", got, err)
	}
	if err := m.Run(t.Context()); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "nvmlEventSetCreate") {
		t.Errorf("got %v", err)
	}
}

func TestALostGPUDoesNotHideTheOthers(t *testing.T) {
	s := box(dgxa100.New())
	lost := s.Devices[1].(*server.Device)
	lost.GetNvLinkStateFunc = func(int) (nvml.EnableState, nvml.Return) { return 0, nvml.ERROR_GPU_IS_LOST }
	lost.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 0, nvml.ERROR_RESET_REQUIRED }
	lost.GetPcieThroughputFunc = func(nvml.PcieUtilCounter) (uint32, nvml.Return) { return 0, nvml.ERROR_GPU_IS_LOST }
	lost.GetP2PStatusFunc = func(nvml.Device, nvml.GpuP2PCapsIndex) (nvml.GpuP2PStatus, nvml.Return) {
		return 0, nvml.ERROR_GPU_IS_LOST
	}
	m := openMock(t, s)
	devices, err := m.Devices()
	if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), lost.UUID) || len(devices) != 7 || devices[1].Index != 2 {
		t.Errorf("%d devices, %v", len(devices), err)
	}
	_, e1 := m.Sample(lost.UUID)
	_, e2 := m.Traffic(lost.UUID)
	_, e3 := m.Path(lost.UUID, uuid(s, 0))
	for i, err := range []error{e1, e2, e3} {
		if !errors.Is(err, ErrLost) {
			t.Errorf("call %d: got %v", i, err)
		}
	}
}

func TestAnUnknownGPUIsNamed(t *testing.T) {
	s := box(dgxa100.New())
	m := openMock(t, s)
	_, e1 := m.Sample("GPU-x")
	_, e2 := m.Traffic("GPU-x")
	_, e3 := m.Path("GPU-x", uuid(s, 0))
	_, e4 := m.Path(uuid(s, 0), "GPU-x")
	for i, err := range []error{e1, e2, e3, e4} {
		if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "GPU-x") {
			t.Errorf("call %d: got %v", i, err)
		}
	}
}

func TestADriverThatIsNotLoadedIsUnavailable(t *testing.T) {
	s := dgxa100.New()
	s.InitFunc = func() nvml.Return { return nvml.ERROR_DRIVER_NOT_LOADED }
	if _, err := openLibrary(s, Options{Library: "lib.so"}); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "DRIVER_NOT_LOADED") {
		t.Errorf("got %v", err)
	}
}

func BenchmarkSample(b *testing.B) {
	s := box(dgxh100.New())
	d, err := openLibrary(s, Options{Sys: sys})
	if err != nil {
		b.Fatal(err)
	}
	m := newMachine(d)
	id := uuid(s, 0)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Sample(id); err != nil {
			b.Fatal(err)
		}
	}
}
