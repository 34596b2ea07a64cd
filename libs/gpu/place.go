package gpu

import "github.com/switchyard-llm/switchyard/libs/nixl/link"

// Place is where one end of a transfer is. What is unknown stays zero and counts as
// something that the other end does not share.
type Place struct {
	// Host names the machine, such as by its boot id.
	Host string
	// Process names the process on the host.
	Process string
	// GPU is the UUID of the GPU that holds the memory; empty for CPU memory.
	GPU string
	// Instance is the UUID of the MIG device, of a GPU that is divided.
	Instance string
	NUMANode Reading[int]
	Fabric   Reading[Fabric]
}

// Level is what two GPUs of a host have in common on the way to each other.
type Level uint8

// The levels, from the nearest. The zero value is not known.
const (
	LevelUnknown    Level = iota
	LevelBoard            // one board
	LevelSwitch           // one PCIe switch
	LevelSwitches         // several PCIe switches, below the host bridge
	LevelHostBridge       // one host bridge
	LevelNUMA             // one NUMA node
	LevelSystem           // the links between NUMA nodes
)

// Path is how two GPUs of one host reach each other.
type Path struct {
	// NVLink: the driver allows access to each other's memory over NVLink.
	NVLink bool
	// Peer: the driver allows reads and writes of each other's memory, over whatever link.
	Peer   bool
	Common Level
}

// LinkClass says what two places share. The path counts only for two GPUs of one host.
//
// A MIG device neither has peer access nor shares memory with another one: its bytes
// go through the host's memory. Without peer access it is the same for whole GPUs.
func LinkClass(a, b Place, p Path) link.Class {
	sameHost := a.Host != "" && a.Host == b.Host
	sameDevice := a.GPU == b.GPU && a.Instance == b.Instance
	peers := a.GPU != "" && b.GPU != "" && a.GPU != b.GPU && a.Instance == "" && b.Instance == ""
	switch {
	case sameHost && sameDevice && a.Process != "" && a.Process == b.Process:
		return link.SameProcess
	case sameHost && sameDevice && a.GPU != "":
		return link.SameGPU
	case peers && a.Fabric.Known && a.Fabric == b.Fabric:
		return link.NVLinkFabric
	case !sameHost:
		return link.Network
	case peers && p.NVLink:
		return link.NVLink
	case peers && p.Peer && p.Common.belowHostBridge():
		return link.PCIeSwitch
	case sameNode(a, b, p, peers):
		return link.SameNUMA
	}
	return link.SameHost
}

func (l Level) belowHostBridge() bool { return l >= LevelBoard && l <= LevelSwitches }

// sameNode goes by the nodes; of whole GPUs whose nodes nobody knows, by their path.
func sameNode(a, b Place, p Path, peers bool) bool {
	if a.NUMANode.Known && b.NUMANode.Known {
		return a.NUMANode == b.NUMANode
	}
	return a.GPU != "" && a.GPU == b.GPU || peers && p.Common >= LevelBoard && p.Common <= LevelNUMA
}
