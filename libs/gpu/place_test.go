package gpu

import (
	"testing"

	"github.com/switchyard-llm/switchyard/libs/nixl/link"
)

func TestLinkClassIsThatOfWhatIsShared(t *testing.T) {
	fabric := Known(Fabric{"f00d", 1})
	base := Place{Host: "h1", Process: "p1", GPU: "GPU-a", NUMANode: Known(0)}
	other := Place{Host: "h1", Process: "p2", GPU: "GPU-b", NUMANode: Known(0)}
	with := func(p Place, change func(*Place)) Place { change(&p); return p }
	far := func(p *Place) { p.NUMANode = Known(1) }
	blind := func(p *Place) { p.NUMANode = Reading[int]{} }
	away := func(p *Place) { p.Host = "h2" }
	inFabric := func(p *Place) { p.Fabric = fabric }
	part := func(p *Place) { p.Instance = "MIG-" + p.Process }
	cpu := func(p *Place) { p.GPU = "" }
	bridge := Path{Peer: true, Common: LevelHostBridge}

	for name, c := range map[string]struct {
		a, b Place
		path Path
		want link.Class
	}{
		"one process, one GPU":                {base, base, Path{}, link.SameProcess},
		"one process, CPU memory":             {with(base, cpu), with(base, cpu), Path{}, link.SameProcess},
		"one process, two GPUs":               {base, with(other, func(p *Place) { p.Process = "p1" }), Path{NVLink: true, Peer: true}, link.NVLink},
		"processes not known":                 {with(base, func(p *Place) { p.Process = "" }), with(base, func(p *Place) { p.Process = "" }), Path{}, link.SameGPU},
		"one GPU":                             {base, with(base, func(p *Place) { p.Process = "p2" }), Path{}, link.SameGPU},
		"one MIG device":                      {with(base, part), with(with(base, part), func(p *Place) { p.Process = "p2" }), Path{}, link.SameGPU},
		"two MIG devices of a GPU":            {with(base, part), with(with(base, func(p *Place) { p.Process = "p2" }), part), Path{}, link.SameNUMA},
		"the same, node not known":            {with(with(base, part), blind), with(with(with(base, func(p *Place) { p.Process = "p2" }), part), blind), Path{}, link.SameNUMA},
		"a fabric":                            {with(base, inFabric), with(other, inFabric), Path{NVLink: true, Peer: true}, link.NVLinkFabric},
		"a fabric of two hosts":               {with(base, inFabric), with(with(other, inFabric), away), Path{}, link.NVLinkFabric},
		"another clique":                      {with(base, inFabric), with(other, func(p *Place) { p.Fabric = Known(Fabric{"f00d", 2}) }), Path{NVLink: true}, link.NVLink},
		"another clique and host":             {with(base, inFabric), with(with(other, away), func(p *Place) { p.Fabric = Known(Fabric{"f00d", 2}) }), Path{NVLink: true}, link.Network},
		"no fabric on either side":            {base, with(other, away), Path{}, link.Network},
		"a MIG device of a fabric":            {with(with(base, inFabric), part), with(with(other, inFabric), away), Path{}, link.Network},
		"NVLink":                              {base, with(other, far), Path{NVLink: true, Peer: true, Common: LevelSystem}, link.NVLink},
		"a MIG device beside NVLink":          {with(base, part), other, Path{NVLink: true, Peer: true, Common: LevelSwitch}, link.SameNUMA},
		"one board":                           {base, other, Path{Peer: true, Common: LevelBoard}, link.PCIeSwitch},
		"one switch":                          {base, other, Path{Peer: true, Common: LevelSwitch}, link.PCIeSwitch},
		"switches":                            {base, other, Path{Peer: true, Common: LevelSwitches}, link.PCIeSwitch},
		"a switch, but no peer access":        {base, other, Path{Common: LevelSwitch}, link.SameNUMA},
		"a host bridge":                       {base, other, bridge, link.SameNUMA},
		"a host bridge, nodes not known":      {with(base, blind), with(other, blind), bridge, link.SameNUMA},
		"a node":                              {with(base, blind), with(other, blind), Path{Common: LevelNUMA}, link.SameNUMA},
		"two nodes":                           {base, with(other, far), Path{Peer: true, Common: LevelSystem}, link.SameHost},
		"two nodes, not known":                {with(base, blind), with(other, blind), Path{Peer: true, Common: LevelSystem}, link.SameHost},
		"nothing known but the host":          {with(base, blind), with(other, blind), Path{}, link.SameHost},
		"two processes' CPU memory":           {with(base, cpu), with(other, cpu), Path{}, link.SameNUMA},
		"the same, of two nodes":              {with(base, cpu), with(with(other, cpu), far), Path{}, link.SameHost},
		"the same, of nodes not known":        {with(with(base, cpu), blind), with(with(other, cpu), blind), Path{}, link.SameHost},
		"CPU and GPU":                         {with(base, cpu), other, Path{NVLink: true, Peer: true, Common: LevelSwitch}, link.SameNUMA},
		"two hosts, and the path of another":  {base, with(other, away), Path{NVLink: true, Peer: true, Common: LevelSwitch}, link.Network},
		"two hosts with processes of one id":  {with(base, cpu), with(with(base, cpu), away), Path{}, link.Network},
		"two hosts with equal UUIDs":          {base, with(base, away), Path{}, link.Network},
		"hosts not known":                     {Place{}, Place{}, Path{}, link.Network},
		"hosts not known, but GPU and fabric": {Place{GPU: "a", Fabric: fabric}, Place{GPU: "b", Fabric: fabric}, Path{}, link.NVLinkFabric},
	} {
		if got := LinkClass(c.a, c.b, c.path); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
		if got := LinkClass(c.b, c.a, c.path); got != c.want {
			t.Errorf("%s, the other way: got %v, want %v", name, got, c.want)
		}
	}
}

// Whatever is learnt of two places in addition never makes their link a worse one.
func TestABetterPathIsNeverAWorseClass(t *testing.T) {
	a := Place{Host: "h", Process: "p", GPU: "a"}
	b := Place{Host: "h", Process: "q", GPU: "b"}
	for common := LevelBoard; common <= LevelSystem; common++ {
		plain := LinkClass(a, b, Path{Common: common})
		peer := LinkClass(a, b, Path{Common: common, Peer: true})
		nvlink := LinkClass(a, b, Path{Common: common, Peer: true, NVLink: true})
		if plain.Better(peer) || peer.Better(nvlink) {
			t.Errorf("level %d: %v, with peer access %v, with NVLink %v", common, plain, peer, nvlink)
		}
		if common > LevelBoard && LinkClass(a, b, Path{Common: common, Peer: true}).Better(LinkClass(a, b, Path{Common: common - 1, Peer: true})) {
			t.Errorf("level %d is better than the nearer one", common)
		}
	}
}

func BenchmarkLinkClass(b *testing.B) {
	x := Place{Host: "h", Process: "p", GPU: "GPU-a", NUMANode: Known(0)}
	y := Place{Host: "h", Process: "q", GPU: "GPU-b", NUMANode: Known(1)}
	b.ReportAllocs()
	for b.Loop() {
		LinkClass(x, y, Path{Peer: true, Common: LevelSystem})
	}
}
