package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/capi"
	"github.com/switchyard-llm/switchyard/libs/nixl/inproc"
	"github.com/switchyard-llm/switchyard/libs/nixl/link"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
	"github.com/switchyard-llm/switchyard/libs/nixl/multi"
	"github.com/switchyard-llm/switchyard/libs/nixl/shm"
	"github.com/switchyard-llm/switchyard/libs/nixl/tcp"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
)

// The transports by which workers reach each other's memory.
const (
	InProc = "inproc" // workers of one process
	Shm    = "shm"    // processes of one host
	TCP    = "tcp"    // other hosts
	NIXL   = "nixl"   // NVIDIA's library, for RDMA and memory of GPUs
)

var transports = []string{InProc, Shm, TCP, NIXL}

// TransferConfig says how KV blocks reach other workers.
type TransferConfig struct {
	Transport         string        `yaml:"transport" help:"how KV blocks reach other workers, best first, with commas: shm (processes of one host), tcp (other hosts), nixl (NVIDIA's library, where it is installed)"`
	Sockets           string        `yaml:"sockets" help:"folder for the sockets of the shm transport; the same for all workers of a host"`
	TransferListen    string        `yaml:"transfer_listen" help:"address on which the tcp transport listens, host:port; port 0 is a free one, and empty the host of listen with a free port"`
	TransferAdvertise string        `yaml:"transfer_advertise" help:"address by which others reach the tcp transport; the listening one if empty, port 0 its port"`
	Connections       int           `yaml:"transfer_connections" help:"connections that carry blocks to one peer by tcp, 1 to 16"`
	Verify            bool          `yaml:"transfer_verify" help:"checksum blocks on their way by tcp"`
	Silence           time.Duration `yaml:"transfer_silence" help:"how long a peer may be silent by tcp or nixl before it counts as gone"`
	TLS               TLSConfig     `yaml:"transfer_tls"`
}

// DefaultTransferConfig reaches processes of this host by shared memory and others by tcp.
func DefaultTransferConfig() TransferConfig {
	return TransferConfig{
		Transport: Shm + "," + TCP, Sockets: filepath.Join(os.TempDir(), "switchyard"),
		Connections: 2, Verify: true, Silence: 5 * time.Second,
	}
}

// Names are the transports, best first.
func (c TransferConfig) Names() []string { return strings.Split(c.Transport, ",") }

// Validate names the first field that cannot be.
func (c TransferConfig) Validate() error {
	names := c.Names()
	for i, name := range names {
		if !slices.Contains(transports, name) {
			return fmt.Errorf("transport is %q, want some of %s, with commas", c.Transport, strings.Join(transports, ", "))
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("transport is %q, want each but once", c.Transport)
		}
	}
	if err := c.validateTCP(); err != nil {
		return err
	}
	switch {
	case slices.Contains(names, Shm) && c.Sockets == "":
		return errors.New("sockets is empty, want a folder")
	case c.Connections < 1 || c.Connections > 16:
		return fmt.Errorf("transfer_connections is %d, want 1 to 16", c.Connections)
	case c.Silence < 100*time.Millisecond:
		return fmt.Errorf("transfer_silence is %v, want at least 100ms", c.Silence)
	}
	return nil
}

// validateTCP names a key that would be ignored, as nothing here speaks TCP, so that nobody takes
// a worker for reachable or safe that is not.
func (c TransferConfig) validateTCP() error {
	if slices.Contains(c.Names(), TCP) {
		return c.TLS.validate()
	}
	key, value := "transfer_advertise", c.TransferAdvertise
	if f, named := c.TLS.first(); named {
		key, value = f.key, f.path
	}
	if value != "" {
		return fmt.Errorf("%s is %q, want it empty or tcp in transport, which is %q", key, value, c.Transport)
	}
	return nil
}

// LinkClass is what two workers share that meet by the best of the transports.
func (c TransferConfig) LinkClass() link.Class {
	switch c.Names()[0] {
	case InProc:
		return link.SameProcess
	case Shm:
		return link.SameHost
	}
	return link.Network
}

// opener maps memory that the agent can register.
type opener = func(size int) (*memory.Memory, error)

// memory is how to map memory for the transports.
func (c TransferConfig) memory() opener {
	if slices.Contains(c.Names(), Shm) {
		return memory.Shared
	}
	return memory.Anonymous
}

// agent opens the transports. The gRPC server listens at listen.
func (c TransferConfig) agent(base nixl.Config, listen string, network *inproc.Network) (nixl.Agent, error) {
	var all []multi.Transport
	for _, name := range c.Names() {
		a, err := c.open(name, base, listen, network)
		if err != nil {
			for _, opened := range all {
				err = errors.Join(err, opened.Agent.Close())
			}
			return nil, fmt.Errorf("transport %s: %w", name, err)
		}
		all = append(all, multi.Transport{Name: name, Agent: a})
	}
	return multi.New(all...)
}

func (c TransferConfig) open(name string, base nixl.Config, listen string, network *inproc.Network) (nixl.Agent, error) {
	switch name {
	case InProc:
		if network == nil {
			return nil, errors.New("this process has no other workers, want shm or tcp")
		}
		return network.NewAgent(base)
	case Shm:
		if err := os.MkdirAll(c.Sockets, 0o700); err != nil {
			return nil, fmt.Errorf("sockets is %q: %w", c.Sockets, err)
		}
		return shm.New(shm.Config{Config: base, Socket: filepath.Join(c.Sockets, base.Name+".sock")})
	case NIXL:
		return capi.New(capi.Config{Config: base, Silence: c.Silence})
	}
	at := c.TransferListen
	if at == "" {
		host, _, err := net.SplitHostPort(listen)
		if err != nil {
			return nil, fmt.Errorf("listen is %q: %w", listen, err)
		}
		at = net.JoinHostPort(host, "0")
	}
	secrets, err := c.TLS.load(base.Name)
	if err != nil {
		return nil, err
	}
	t := tcp.Config{
		Config: base, Listen: at, Advertise: c.TransferAdvertise, Connections: c.Connections, Silence: c.Silence, TLS: secrets,
	}
	if !c.Verify {
		t.Verify = tcp.VerifyOff
	}
	a, err := tcp.New(t)
	if err != nil {
		return nil, fmt.Errorf("transfer_listen is %q, transfer_advertise is %q: %w", c.TransferListen, c.TransferAdvertise, err)
	}
	return a, nil
}

// ReasonUnreachable is the reason in the error of a prefill worker that could not meet the
// decode worker whose ticket it was given: it has written nothing and will not.
const ReasonUnreachable = "unreachable"

// Meet connects to the memory of another worker, in the life that the instance names. One
// whose blocks lie otherwise is refused: what is moved between the two is copied as it is.
func (w *Worker) Meet(ctx context.Context, i *instancev1.Instance) (nixl.PeerID, error) {
	err := fmt.Errorf("it offers no memory: %w", nixl.ErrUnreachable)
	for _, endpoint := range i.GetTransfer() {
		if err = w.sameLayout(endpoint.GetMetadata()); err != nil {
			break
		}
		var peer nixl.PeerID
		if peer, err = w.Agent.AddPeer(ctx, endpoint.GetMetadata()); err == nil {
			return peer, nil
		}
	}
	return nixl.PeerID{}, fmt.Errorf("reach the memory of %s: %w", i.GetId(), err)
}

// alike says whether whole blocks have the same bytes. Groups of unequal TP have, as far as
// their ranks hold the same heads: the one head of a model that has no more.
func alike(a, b block.Layout) bool {
	if a.FirstHead() != b.FirstHead() || a.LocalHeads() != b.LocalHeads() {
		return false
	}
	a.TPSize, a.TPRank = b.TPSize, b.TPRank
	return a == b
}

// sameLayout names the first thing in which a peer's blocks differ from the own ones.
func (w *Worker) sameLayout(metadata []byte) error {
	m, err := multi.Describe(metadata)
	if err != nil {
		return err
	}
	if len(m.Regions) == 0 {
		return fmt.Errorf("it has no region: %w", nixl.ErrUnreachable)
	}
	own, theirs := w.Layout(), m.Regions[0].Layout
	if alike(own, theirs) {
		return nil
	}
	if err := own.Mappable(theirs); err != nil {
		return err
	}
	return &nixl.MismatchError{Field: "layout", Local: fmt.Sprintf("%+v", own), Remote: fmt.Sprintf("%+v", theirs)}
}
