package worker

import (
	"errors"
	"net"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/link"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
	"github.com/switchyard-llm/switchyard/libs/nixl/multi"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
)

// ProbeRegion is the region, beside the pool's, that peers read to measure the link. It holds
// nothing of anybody. A reader reads into its own.
const ProbeRegion nixl.RegionID = 1

// Sizes of the probe region. It must be large enough for one read of it to last many latencies
// of a quick link, and costs as much memory on each worker.
const (
	ProbeBlockBytes = 64 << 10
	probeBlocks     = 64
	ProbeBytes      = probeBlocks * ProbeBlockBytes
)

// probeLayout has rows of ProbeBlockBytes: keys and values of 4 bytes an element.
var probeLayout = block.Layout{BlockTokens: 1, Layers: 1, KVHeads: 1, HeadDim: ProbeBlockBytes / 8, ElemBytes: 4}

// scratch is memory that is registered with the agent.
type scratch struct {
	memory *memory.Memory
	region nixl.Region
}

func openScratch(open opener, agent nixl.Agent) (s scratch, err error) {
	if s.memory, err = open(ProbeBytes); err != nil {
		return scratch{}, err
	}
	// Pages that nobody has written are one page of zeroes, which is read quicker than any link is.
	fill(s.memory.Bytes())
	if s.region, err = agent.Register(s.memory, probeLayout, probeBlocks); err != nil {
		return scratch{}, errors.Join(err, s.memory.Close())
	}
	return s, nil
}

func fill(b []byte) {
	for i := range b {
		b[i] = byte(i)
	}
}

func (s scratch) close() error { return errors.Join(s.region.Close(), s.memory.Close()) }

// ProbeBlocks are those that a peer is allowed to read.
func ProbeBlocks() []block.Ref {
	refs := make([]block.Ref, probeBlocks)
	for i := range refs {
		refs[i].ID = block.ID(i)
	}
	return refs
}

// LinkClass is what this worker shares with one that it has met, by the way that was taken:
// NVIDIA's library does not say which that is.
func (w *Worker) LinkClass(peer nixl.PeerID, i *instancev1.Instance) link.Class {
	chooser, can := w.Agent.(nixl.Chooser)
	if !can {
		return link.Unknown
	}
	switch chooser.Way(peer) {
	case InProc:
		return link.SameProcess
	case Shm:
		return link.SameHost
	case TCP:
		for _, endpoint := range i.GetTransfer() {
			if m, err := multi.DescribeWay(endpoint.GetMetadata(), TCP); err == nil && w.onThisHost(m.Address) {
				return link.SameHost
			}
		}
		return link.Network
	}
	return link.Unknown
}

// onThisHost says whether an address of a peer's transport is one of this host, as far as can be
// told without asking anybody.
func (w *Worker) onThisHost(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == w.ownHost() {
		return true
	}
	ip := net.ParseIP(host)
	if ip == nil || ip.IsLoopback() {
		return ip != nil
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range own {
		if n, is := a.(*net.IPNet); is && n.IP.Equal(ip) {
			return true
		}
	}
	return false
}

// ownHost is where this worker says that it is.
func (w *Worker) ownHost() string {
	metadata, err := w.Agent.Metadata()
	if err != nil {
		return ""
	}
	m, err := multi.DescribeWay(metadata, TCP)
	if err != nil {
		return ""
	}
	host, _, err := net.SplitHostPort(m.Address)
	if err != nil {
		return ""
	}
	return host
}
