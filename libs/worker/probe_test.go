package worker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/engine/enginetest"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/inproc"
	"github.com/switchyard-llm/switchyard/libs/nixl/link"
	"github.com/switchyard-llm/switchyard/libs/nixl/nixltest"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
)

// made is a worker that is reached by a list of transports.
func made(t *testing.T, c TransferConfig, network *inproc.Network, name string) *Worker {
	t.Helper()
	agent, err := c.agent(nixl.Config{Name: name, Incarnation: "1", KVFormat: "toy"}, "127.0.0.1:0", network)
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(DefaultConfig(), Deps{
		Executor: enginetest.NewToy(16, 100), Agent: agent, Memory: c.memory(), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// by is one that runs.
func by(t *testing.T, c TransferConfig, network *inproc.Network, name string) *Worker {
	t.Helper()
	w := made(t, c, network, name)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, w.Close()); err != nil {
			t.Error(err)
		}
	})
	return w
}

func TestTheProbeRegionIsReadByEveryTransport(t *testing.T) {
	for transport, class := range map[string]link.Class{
		InProc: link.SameProcess, Shm: link.SameHost, TCP: link.SameHost, "inproc,shm,tcp": link.SameProcess, "shm,tcp": link.SameHost,
	} {
		t.Run(transport, func(t *testing.T) {
			c, network := DefaultTransferConfig(), inproc.NewNetwork()
			c.Transport, c.Sockets = transport, nixltest.Folder(t)
			near, far := by(t, c, network, "near"), by(t, c, network, "far")
			endpoint, err := far.Endpoint(transport)
			if err != nil {
				t.Fatal(err)
			}
			instance := &instancev1.Instance{Id: "far", Transfer: []*instancev1.TransferEndpoint{endpoint}}
			if got := near.LinkClass(far.ID(), instance); got != link.Unknown {
				t.Errorf("before they met the class is %v", got)
			}
			peer, err := near.Meet(t.Context(), instance)
			if err != nil {
				t.Fatal(err)
			}
			if got := near.LinkClass(peer, instance); got != class {
				t.Errorf("the class is %v, want %v", got, class)
			}
			grant := nixl.Grant{Number: 7, Op: nixl.Read, Region: ProbeRegion, Blocks: ProbeBlocks()}
			if err := far.Agent.Allow(near.ID(), grant); err != nil {
				t.Fatal(err)
			}
			clear(near.probe.memory.Bytes())
			all := block.Span{Bytes: ProbeBytes}
			read, err := nixl.Post(t.Context(), near.Agent, nixl.Request{
				Peer: peer, Op: nixl.Read, Grant: &grant, Local: ProbeRegion, Remote: ProbeRegion, Copies: []nixl.Copy{{Local: all, Remote: all}},
			})
			if err == nil {
				err = nixl.Settle(t.Context(), read, 0)
			}
			if err != nil || !bytes.Equal(near.probe.memory.Bytes(), far.probe.memory.Bytes()) {
				t.Errorf("what was read differs, or %v", err)
			}
		})
	}
}

func TestAnAddressIsOfThisHostOrNot(t *testing.T) {
	c := DefaultTransferConfig()
	c.Transport, c.TransferAdvertise = TCP, "gateway.example:7"
	w := by(t, c, nil, "own")
	want := map[string]bool{
		"127.0.0.9:1": true, "[::1]:1": true, "gateway.example:1": true, "other.example:1": false, "192.0.2.1:1": false, "nonsense": false,
	}
	if own, err := net.InterfaceAddrs(); err == nil {
		for _, a := range own {
			want[net.JoinHostPort(a.(*net.IPNet).IP.String(), "1")] = true
		}
	}
	for address, here := range want {
		if got := w.onThisHost(address); got != here {
			t.Errorf("%s is of this host: %v, want %v", address, got, here)
		}
	}
}

func TestAClosedWorkerHasNoMemory(t *testing.T) {
	c := DefaultTransferConfig()
	c.Transport, c.Sockets = Shm, nixltest.Folder(t)
	w := made(t, c, nil, "own")
	if err := w.Close(); err != nil || len(w.memory.Files())+len(w.probe.memory.Files()) > 0 {
		t.Errorf("%v, and %d files of the pool and %d for probes are open", err, len(w.memory.Files()), len(w.probe.memory.Files()))
	}
}
