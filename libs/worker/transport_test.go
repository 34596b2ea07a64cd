package worker

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/engine/enginetest"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/inproc"
	"github.com/switchyard-llm/switchyard/libs/nixl/link"
	"github.com/switchyard-llm/switchyard/libs/nixl/multi"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
)

func TestTransfersThatCannotBeConfiguredAreNamed(t *testing.T) {
	for want, change := range map[string]func(*TransferConfig){
		`transport is "pigeon"`:      func(c *TransferConfig) { c.Transport = "pigeon" },
		`transport is ""`:            func(c *TransferConfig) { c.Transport = "" },
		"want each but once":         func(c *TransferConfig) { c.Transport = "tcp,shm,tcp" },
		"sockets is empty":           func(c *TransferConfig) { c.Sockets = "" },
		"transfer_connections is 17": func(c *TransferConfig) { c.Connections = 17 },
		"transfer_silence is 1ms":    func(c *TransferConfig) { c.Silence = time.Millisecond },
		"transfer_tls.key is empty, want a PEM file with its private key, as transfer_tls.cert is set": func(c *TransferConfig) {
			c.TLS = TLSConfig{Cert: "cert.pem", CA: "ca.pem"}
		},
		"transfer_tls.ca is empty, want a PEM file with the authorities' certificates, as transfer_tls.cert is set": func(c *TransferConfig) {
			c.TLS = TLSConfig{Cert: "cert.pem", Key: "key.pem"}
		},
		"transfer_tls.cert is empty, want a PEM file with a certificate, as transfer_tls.ca is set": func(c *TransferConfig) {
			c.TLS = TLSConfig{CA: "ca.pem"}
		},
		`transfer_advertise is "host:0", want it empty or tcp in transport, which is "shm"`: func(c *TransferConfig) {
			c.Transport, c.TransferAdvertise = "shm", "host:0"
		},
		`transfer_tls.key is "key.pem", want it empty or tcp in transport, which is "shm,nixl"`: func(c *TransferConfig) {
			c.Transport, c.TLS = "shm,nixl", TLSConfig{Key: "key.pem"}
		},
	} {
		c := DefaultTransferConfig()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := DefaultTransferConfig().Validate(); err != nil {
		t.Error(err)
	}
}

func TestTheBestTransportTellsTheLink(t *testing.T) {
	for transport, want := range map[string]link.Class{"inproc": link.SameProcess, "shm,tcp": link.SameHost, "tcp": link.Network, "nixl,tcp": link.Network} {
		c := DefaultTransferConfig()
		c.Transport = transport
		if got := c.LinkClass(); got != want {
			t.Errorf("%s: %s, want %s", transport, got, want)
		}
	}
}

// over is a worker whose toy engine has blocks of the given size.
func over(t *testing.T, network *inproc.Network, name string, blockTokens int) *Worker {
	t.Helper()
	near, err := network.NewAgent(nixl.Config{Name: name, Incarnation: "1", KVFormat: "toy"})
	if err != nil {
		t.Fatal(err)
	}
	agent, err := multi.New(multi.Transport{Name: InProc, Agent: near})
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(DefaultConfig(), Deps{Executor: enginetest.NewToy(blockTokens, 100), Agent: agent, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
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

func TestOnlyWorkersWhoseBlocksLieAlikeMeet(t *testing.T) {
	network := inproc.NewNetwork()
	own, same, other := over(t, network, "own", 16), over(t, network, "same", 16), over(t, network, "other", 32)
	instance := func(w *Worker) *instancev1.Instance {
		endpoint, err := w.Endpoint(InProc)
		if err != nil {
			t.Fatal(err)
		}
		return &instancev1.Instance{Id: w.ID().Name, Transfer: []*instancev1.TransferEndpoint{endpoint}}
	}
	if id, err := own.Meet(t.Context(), instance(same)); err != nil || id != same.ID() {
		t.Fatalf("%s, %v", id, err)
	}
	_, err := own.Meet(t.Context(), instance(other))
	if !errors.Is(err, nixl.ErrMismatch) || !strings.Contains(err.Error(), "BlockTokens:16") || !strings.Contains(err.Error(), "BlockTokens:32") {
		t.Errorf("got %v, want both block sizes", err)
	}
	if _, err := own.Meet(t.Context(), &instancev1.Instance{Id: "nobody"}); !errors.Is(err, nixl.ErrUnreachable) {
		t.Errorf("got %v", err)
	}
	layout := own.Layout()
	layout.Layers++
	bad, err := nixl.Metadata{Transport: InProc, Peer: nixl.PeerID{Name: "x", Incarnation: "1"}, KVFormat: "toy", Regions: []nixl.RegionInfo{{Layout: layout, Blocks: 1}}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var differs *block.LayoutError
	_, err = own.Meet(t.Context(), &instancev1.Instance{Id: "x", Transfer: []*instancev1.TransferEndpoint{{Metadata: bad}}})
	if !errors.As(err, &differs) || differs.Field != "layers" {
		t.Errorf("got %v, want the layers", err)
	}
}
