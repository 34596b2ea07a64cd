package gpu

// Reading is a figure that not every GPU and driver has.
type Reading[T any] struct {
	Value T
	Known bool
}

// Known is a reading that is there.
func Known[T any](v T) Reading[T] { return Reading[T]{v, true} }

// Device is what does not change while the driver runs.
type Device struct {
	// Index is the driver's number, which may be another after a restart of the machine.
	Index int
	UUID  string
	Name  string
	// PCI is the address on the bus as the kernel writes it, such as 0000:17:00.0.
	PCI         string
	MemoryBytes uint64
	// NUMANode is the node of the CPU memory that is nearest, as the kernel says.
	NUMANode Reading[int]
	Fabric   Reading[Fabric]
	// NVLinks are the peers at active links, in the order of their addresses.
	NVLinks []NVLink
	// MIG tells whether the GPU is divided into instances.
	MIG Reading[bool]
	// Instances are the MIG devices, of which each is as a GPU to its processes.
	Instances []Instance
}

// Fabric names an NVLink fabric and the clique within it: GPUs with equal values reach
// each other's memory, even those of two hosts.
type Fabric struct {
	Cluster string // as a UUID in hexadecimal digits
	Clique  uint32
}

// NVLink is a peer that active NVLinks lead to.
type NVLink struct {
	// PCI is the peer's address: that of a GPU, or of a switch.
	PCI   string
	Kind  NVLinkKind
	Links int
}

// NVLinkKind is what is at the other end of an NVLink.
type NVLinkKind uint8

// The kinds of peers.
const (
	OtherPeer NVLinkKind = iota
	GPUPeer
	SwitchPeer
	CPUPeer
)

// Instance is a MIG device.
type Instance struct {
	UUID            string
	Name            string
	MemoryBytes     uint64
	GPUInstance     int
	ComputeInstance int
}

// Sample is how a GPU is at a moment.
type Sample struct {
	MemoryTotalBytes, MemoryFreeBytes, MemoryUsedBytes uint64
	Utilisation                                        Reading[Utilisation]
	PowerMilliwatts                                    Reading[uint32]
	TemperatureCelsius                                 Reading[uint32]
	// ECC counts memory errors since the driver was loaded, ECCLifetime since ever.
	ECC, ECCLifetime Reading[ECC]
	RemappedRows     Reading[RemappedRows]
}

// Utilisation is the share of the last sample period (of 1/6 to 1 s) in which the GPU
// computed, and in which its memory was read or written, in per cent.
type Utilisation struct{ GPUPercent, MemoryPercent uint32 }

// ECC counts memory errors.
type ECC struct{ Corrected, Uncorrected uint64 }

// RemappedRows counts rows of memory that were replaced by spare ones. Pending ones take
// effect at the next reset; after a failure there are no spare ones.
type RemappedRows struct {
	Corrected, Uncorrected int
	Pending, Failed        bool
}

// Traffic is what goes over a GPU's links.
type Traffic struct {
	// PCIe is measured over 20 ms each way, in bytes per second.
	PCIeSentPerSecond, PCIeReceivedPerSecond Reading[uint64]
	// NVLink counts the data bytes of all links since the driver was loaded.
	NVLinkSentBytes, NVLinkReceivedBytes Reading[uint64]
}

// Event is an Xid, the driver's report of an error. NVIDIA's "XID Errors" lists the codes.
type Event struct {
	UUID string
	Xid  uint64
	// GPUInstance and ComputeInstance are known of an error within a MIG device.
	GPUInstance, ComputeInstance Reading[int]
}
