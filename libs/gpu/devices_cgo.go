//go:build cgo && linux

package gpu

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// devices lists the GPUs that answer, with an error that names those that do not.
func (n *nvmlDriver) devices() ([]Device, error) {
	count, ret := n.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("count GPUs: %s", text(ret))
	}
	var all []Device
	var errs []error
	for i := range count {
		d, err := n.deviceAt(i)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, d)
	}
	return all, errors.Join(errs...)
}

func (n *nvmlDriver) deviceAt(index int) (Device, error) {
	name := strconv.Itoa(index)
	h, ret := n.lib.DeviceGetHandleByIndex(index)
	if ret != nvml.SUCCESS {
		return Device{}, failure("find GPU", name, ret)
	}
	d := Device{Index: index}
	if d.UUID, ret = h.GetUUID(); ret != nvml.SUCCESS {
		return Device{}, failure("read UUID of GPU", name, ret)
	}
	if d.Name, ret = h.GetName(); ret != nvml.SUCCESS {
		return Device{}, failure("read name of GPU", d.UUID, ret)
	}
	pci, ret := h.GetPciInfo()
	if ret != nvml.SUCCESS {
		return Device{}, failure("read PCI address of GPU", d.UUID, ret)
	}
	memory, ret := h.GetMemoryInfo()
	if ret != nvml.SUCCESS {
		return Device{}, failure("read memory of GPU", d.UUID, ret)
	}
	r := &reader{nvmlDriver: n, device: h, uuid: d.UUID}
	d.PCI, d.MemoryBytes = address(pci), memory.Total
	d.NUMANode = n.numaNode(d.PCI)
	d.Fabric = r.fabric()
	d.NVLinks = r.nvlinks()
	d.MIG, d.Instances = r.mig()
	return d, r.err
}

// address is a PCI address as the kernel writes it. GPUs are functions 0.
func address(p nvml.PciInfo) string {
	return fmt.Sprintf("%04x:%02x:%02x.0", p.Domain, p.Bus, p.Device)
}

// numaNode asks the kernel: NVML tells the node only where GPU memory is a node itself.
func (n *nvmlDriver) numaNode(pci string) Reading[int] {
	data, err := fs.ReadFile(n.sys, "bus/pci/devices/"+pci+"/numa_node")
	if err != nil {
		return Reading[int]{}
	}
	node, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || node < 0 {
		return Reading[int]{} // -1 on machines with one node
	}
	return Known(node)
}

// fabric uses the first form of the call: all drivers with fabrics have it, and it
// holds what we need. A fabric counts once the GPU has joined it.
func (r *reader) fabric() Reading[Fabric] {
	return read(r, "nvmlDeviceGetGpuFabricInfo", func() (Fabric, nvml.Return) {
		f, ret := r.device.GetGpuFabricInfo()
		switch {
		case ret != nvml.SUCCESS:
			return Fabric{}, ret
		case f.State != nvml.GPU_FABRIC_STATE_COMPLETED || f.ClusterUuid == [16]uint8{}:
			return Fabric{}, nvml.ERROR_NOT_SUPPORTED
		}
		return Fabric{hex.EncodeToString(f.ClusterUuid[:]), f.CliqueId}, nvml.Return(f.Status)
	})
}

func (r *reader) nvlinks() []NVLink {
	var peers []NVLink
	for l := range nvml.NVLINK_MAX_LINKS {
		state := read(r, "nvmlDeviceGetNvLinkState", func() (nvml.EnableState, nvml.Return) { return r.device.GetNvLinkState(l) })
		if !state.Known || state.Value != nvml.FEATURE_ENABLED {
			continue
		}
		pci := read(r, "nvmlDeviceGetNvLinkRemotePciInfo_v2", func() (nvml.PciInfo, nvml.Return) { return r.device.GetNvLinkRemotePciInfo(l) })
		if !pci.Known {
			continue
		}
		kind := read(r, "nvmlDeviceGetNvLinkRemoteDeviceType", func() (nvml.IntNvLinkDeviceType, nvml.Return) {
			return r.device.GetNvLinkRemoteDeviceType(l)
		})
		peer := NVLink{PCI: address(pci.Value), Kind: peerKind(kind), Links: 1}
		if at := slices.IndexFunc(peers, func(p NVLink) bool { return p.PCI == peer.PCI }); at >= 0 {
			peers[at].Links++
		} else {
			peers = append(peers, peer)
		}
	}
	slices.SortFunc(peers, func(a, b NVLink) int { return cmp.Compare(a.PCI, b.PCI) })
	return peers
}

func peerKind(k Reading[nvml.IntNvLinkDeviceType]) NVLinkKind {
	switch {
	case !k.Known:
		return OtherPeer
	case k.Value == nvml.NVLINK_DEVICE_TYPE_GPU:
		return GPUPeer
	case k.Value == nvml.NVLINK_DEVICE_TYPE_SWITCH:
		return SwitchPeer
	case k.Value == nvml.NVLINK_DEVICE_TYPE_IBMNPU:
		return CPUPeer
	}
	return OtherPeer
}

func (r *reader) mig() (Reading[bool], []Instance) {
	on := read(r, "nvmlDeviceGetMigMode", func() (bool, nvml.Return) {
		now, _, ret := r.device.GetMigMode()
		return now == nvml.DEVICE_MIG_ENABLE, ret
	})
	if !on.Value || !r.has["nvmlDeviceGetMigDeviceHandleByIndex"] {
		return on, nil
	}
	var instances []Instance
	for i := range read(r, "nvmlDeviceGetMaxMigDeviceCount", r.device.GetMaxMigDeviceCount).Value {
		// Numbers without a device are common: not every place is taken.
		h := read(r, "nvmlDeviceGetMigDeviceHandleByIndex", func() (nvml.Device, nvml.Return) { return r.device.GetMigDeviceHandleByIndex(i) })
		if !h.Known {
			continue
		}
		part := &reader{nvmlDriver: r.nvmlDriver, device: h.Value, uuid: r.uuid}
		instances = append(instances, Instance{
			UUID:        read(part, "", h.Value.GetUUID).Value,
			Name:        read(part, "", h.Value.GetName).Value,
			MemoryBytes: read(part, "", h.Value.GetMemoryInfo).Value.Total,
			GPUInstance: read(part, "nvmlDeviceGetGpuInstanceId", h.Value.GetGpuInstanceId).Value,

			ComputeInstance: read(part, "nvmlDeviceGetComputeInstanceId", h.Value.GetComputeInstanceId).Value,
		})
		r.err = errors.Join(r.err, part.err)
	}
	return on, instances
}

func (n *nvmlDriver) path(a, b string) (Path, error) {
	r, err := n.reader(a)
	if err != nil {
		return Path{}, err
	}
	peer, err := n.reader(b)
	if err != nil {
		return Path{}, err
	}
	may := func(what nvml.GpuP2PCapsIndex) bool {
		s := read(r, "nvmlDeviceGetP2PStatus", func() (nvml.GpuP2PStatus, nvml.Return) { return r.device.GetP2PStatus(peer.device, what) })
		return s.Known && s.Value == nvml.P2P_STATUS_OK
	}
	p := Path{
		NVLink: may(nvml.P2P_CAPS_INDEX_NVLINK),
		Peer:   may(nvml.P2P_CAPS_INDEX_READ) && may(nvml.P2P_CAPS_INDEX_WRITE),
		Common: level(read(r, "nvmlDeviceGetTopologyCommonAncestor", func() (nvml.GpuTopologyLevel, nvml.Return) {
			return r.device.GetTopologyCommonAncestor(peer.device)
		})),
	}
	return p, r.err
}

func level(l Reading[nvml.GpuTopologyLevel]) Level {
	switch {
	case !l.Known:
		return LevelUnknown
	case l.Value == nvml.TOPOLOGY_INTERNAL:
		return LevelBoard
	case l.Value == nvml.TOPOLOGY_SINGLE:
		return LevelSwitch
	case l.Value == nvml.TOPOLOGY_MULTIPLE:
		return LevelSwitches
	case l.Value == nvml.TOPOLOGY_HOSTBRIDGE:
		return LevelHostBridge
	case l.Value == nvml.TOPOLOGY_NODE:
		return LevelNUMA
	case l.Value == nvml.TOPOLOGY_SYSTEM:
		return LevelSystem
	}
	return LevelUnknown
}
