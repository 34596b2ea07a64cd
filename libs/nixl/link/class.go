package link

import "time"

// Class says what two ends of a transfer share, from the best to the worst. A lower
// class is to be preferred until a measurement says otherwise.
type Class uint8

// The classes. Unknown is the zero value and counts as the worst.
const (
	Unknown Class = iota
	// SameProcess: one process, and one GPU or the CPU's memory.
	SameProcess
	// SameGPU: two processes that share a GPU.
	SameGPU
	// NVLinkFabric: two GPUs of one NVLink fabric and clique, possibly of two hosts.
	NVLinkFabric
	// NVLink: two GPUs that reach each other's memory over NVLink.
	NVLink
	// PCIeSwitch: two GPUs that reach each other's memory below the host bridge.
	PCIeSwitch
	// SameNUMA: one NUMA node; bytes go through its memory.
	SameNUMA
	// SameHost: one host, across its NUMA nodes.
	SameHost
	// Network: two hosts.
	Network
)

var names = [...]string{"unknown", "same process", "same GPU", "NVLink fabric", "NVLink", "PCIe switch", "same NUMA node", "same host", "network"}

func (c Class) String() string {
	if int(c) < len(names) {
		return names[c]
	}
	return names[Unknown]
}

// Better tells whether c is to be preferred to d.
func (c Class) Better(d Class) bool { return c.rank() < d.rank() }

func (c Class) rank() Class {
	if c == Unknown || c > Network {
		return Network + 1
	}
	return c
}

// Start is what a link of a class is taken for until it was measured. It errs on the
// slow side, so that the first decisions prefer what is known.
//
// Measured on two cores of one host, whole blocks of 16 KiB to 8 MiB: a copy by one
// core 9.8–17.3 GB/s, between processes by shared memory 9.9–17, TCP 2.9–4.5. Nominal,
// not measured by us: PCIe 4.0 x16 31.5 GB/s one way (5.0: 63), NVLink 3 300 and NVLink 4 450
// one way over all links of a GPU (a bridge of two PCIe cards: 100 and more), memory of
// an A100 1,555 GB/s, half of it for a copy. The starts are the slowest measured figure,
// or four fifths of the slowest nominal one; latencies are orders of magnitude.
func (c Class) Start() Estimate {
	switch c {
	case SameProcess:
		return Estimate{9.8e9, 2 * time.Microsecond}
	case SameGPU:
		return Estimate{620e9, 10 * time.Microsecond}
	case NVLinkFabric:
		return Estimate{240e9, 10 * time.Microsecond}
	case NVLink:
		return Estimate{80e9, 10 * time.Microsecond}
	case PCIeSwitch:
		return Estimate{25e9, 15 * time.Microsecond}
	case SameNUMA:
		return Estimate{9.9e9, 20 * time.Microsecond}
	case SameHost:
		// Across sockets nothing was measured: four fifths of the figure within one.
		return Estimate{7.9e9, 25 * time.Microsecond}
	}
	return Estimate{2.9e9, 100 * time.Microsecond}
}
