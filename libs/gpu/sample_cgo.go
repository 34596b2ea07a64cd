//go:build cgo && linux

package gpu

import (
	"encoding/binary"
	"math"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

func (n *nvmlDriver) sample(uuid string) (Sample, error) {
	r, err := n.reader(uuid)
	if err != nil {
		return Sample{}, err
	}
	memory, ret := r.device.GetMemoryInfo()
	if ret != nvml.SUCCESS {
		return Sample{}, failure("read memory of GPU", uuid, ret)
	}
	s := Sample{
		MemoryTotalBytes: memory.Total, MemoryFreeBytes: memory.Free, MemoryUsedBytes: memory.Used,
		PowerMilliwatts: read(r, "nvmlDeviceGetPowerUsage", r.device.GetPowerUsage),
		TemperatureCelsius: read(r, "nvmlDeviceGetTemperature", func() (uint32, nvml.Return) {
			return r.device.GetTemperature(nvml.TEMPERATURE_GPU)
		}),
		Utilisation: read(r, "nvmlDeviceGetUtilizationRates", func() (Utilisation, nvml.Return) {
			u, ret := r.device.GetUtilizationRates()
			return Utilisation{u.Gpu, u.Memory}, ret
		}),
		ECC:         r.ecc(nvml.VOLATILE_ECC),
		ECCLifetime: r.ecc(nvml.AGGREGATE_ECC),
		RemappedRows: read(r, "nvmlDeviceGetRemappedRows", func() (rows RemappedRows, ret nvml.Return) {
			rows.Corrected, rows.Uncorrected, rows.Pending, rows.Failed, ret = r.device.GetRemappedRows()
			return rows, ret
		}),
	}
	return s, r.err
}

func (r *reader) ecc(since nvml.EccCounterType) Reading[ECC] {
	return read(r, "nvmlDeviceGetTotalEccErrors", func() (e ECC, ret nvml.Return) {
		if e.Corrected, ret = r.device.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_CORRECTED, since); ret == nvml.SUCCESS {
			e.Uncorrected, ret = r.device.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, since)
		}
		return e, ret
	})
}

func (n *nvmlDriver) traffic(uuid string) (Traffic, error) {
	r, err := n.reader(uuid)
	if err != nil {
		return Traffic{}, err
	}
	t := Traffic{
		PCIeSentPerSecond:     r.pcie(nvml.PCIE_UTIL_TX_BYTES),
		PCIeReceivedPerSecond: r.pcie(nvml.PCIE_UTIL_RX_BYTES),
		NVLinkSentBytes:       r.nvlink(nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_TX),
		NVLinkReceivedBytes:   r.nvlink(nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_RX),
	}
	return t, r.err
}

// pcie measures for 20 ms. NVML counts in units of 1,000 bytes a second.
func (r *reader) pcie(direction nvml.PcieUtilCounter) Reading[uint64] {
	return read(r, "nvmlDeviceGetPcieThroughput", func() (uint64, nvml.Return) {
		v, ret := r.device.GetPcieThroughput(direction)
		return uint64(v) * 1000, ret
	})
}

// allLinks is the scope of a field that sums up all NVLinks.
const allLinks = math.MaxUint32

// nvlink reads a counter in KiB.
func (r *reader) nvlink(field uint32) Reading[uint64] {
	return read(r, "nvmlDeviceGetFieldValues", func() (uint64, nvml.Return) {
		values := []nvml.FieldValue{{FieldId: field, ScopeId: allLinks}}
		if ret := r.device.GetFieldValues(values); ret != nvml.SUCCESS {
			return 0, ret
		}
		v := values[0]
		switch kib := binary.LittleEndian.Uint64(v.Value[:]); nvml.ValueType(v.ValueType) {
		case nvml.VALUE_TYPE_UNSIGNED_LONG_LONG, nvml.VALUE_TYPE_UNSIGNED_LONG:
			return kib << 10, nvml.Return(v.NvmlReturn)
		case nvml.VALUE_TYPE_UNSIGNED_INT:
			return kib & math.MaxUint32 << 10, nvml.Return(v.NvmlReturn)
		}
		return 0, nvml.ERROR_NOT_SUPPORTED
	})
}
