package processor_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/switchyard-llm/switchyard/libs/discovery"
	"github.com/switchyard-llm/switchyard/libs/embedded"
	"github.com/switchyard-llm/switchyard/libs/gguf"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/tokenizertest"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
	"github.com/switchyard-llm/switchyard/services/processor"
	"github.com/switchyard-llm/switchyard/services/processor/workertest"

	"log/slog"
)

// modelFile writes the small model where a configuration can name it.
func modelFile(t *testing.T, more ...gguf.Pair) string {
	t.Helper()
	var b bytes.Buffer
	if err := gguf.Write(&b, append(append([]gguf.Pair{{Key: "general.architecture", Value: "llama"}}, more...), tokenizertest.Pairs()...), nil); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), modelName+".gguf")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The whole service over a real etcd: found by its model, finding its workers.
func TestServiceIsFoundAndFindsItsWorkers(t *testing.T) {
	etcd, err := embedded.StartEtcd(t.Context(), embedded.EtcdConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	cfg := processor.DefaultConfig()
	cfg.Listen, cfg.Metrics, cfg.Etcd, cfg.Drain = "127.0.0.1:0", "127.0.0.1:0", []string{etcd.Endpoint()}, time.Second
	cfg.Model = modelFile(t, gguf.Pair{Key: "llama.context_length", Value: uint32(contextTokens)})
	service, err := processor.Open(t.Context(), cfg, processor.Shared{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- service.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("Run: %v", err)
		}
	}()

	d := discovery.DefaultConfig()
	d.Endpoints = cfg.Etcd
	client, err := discovery.Open(t.Context(), d, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	w := workertest.Start(t, "w", nil)
	registered, err := client.Register(t.Context(), instance(w))
	if err != nil {
		t.Fatal(err)
	}
	workerCtx, leave := context.WithCancel(t.Context())
	defer leave()
	left := make(chan error, 1)
	go func() { left <- registered.Run(workerCtx) }()
	if err := service.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}

	conn, err := rpc.Dial(discovery.Target(instancev1.Role_ROLE_PROCESSOR, modelName), rpc.DialOptions{Resolvers: []resolver.Builder{client.Resolver()}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	h := &harness{ProcessorClient: processorv1.NewProcessorClient(conn)}
	if r := h.generate(t.Context(), request("hello", 9)); r.err != nil || r.text != expected("hello", 9) {
		t.Errorf("text %q, %v", r.text, r.err)
	}

	leave() // says that it drains, then leaves
	if err := <-left; err != nil {
		t.Errorf("registration: %v", err)
	}
	h.untilContext(t, 0)
}

func TestWhatCannotBeOpenedIsNamed(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, c := range map[string]struct {
		change func(*processor.Config)
		want   string
	}{
		"a taken port":   {func(c *processor.Config) { c.Listen = taken.Addr().String() }, "listen"},
		"a taken second": {func(c *processor.Config) { c.Metrics = taken.Addr().String() }, "metrics"},
		"no etcd":        {func(*processor.Config) {}, "etcd"},
		"a bad field":    {func(c *processor.Config) { c.Model = "" }, "model"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			cfg := processor.DefaultConfig()
			cfg.Listen, cfg.Etcd = "127.0.0.1:0", []string{"127.0.0.1:1"}
			c.change(&cfg)
			if _, err := processor.Open(ctx, cfg, processor.Shared{}); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want one line that names %s", err, c.want)
			}
		})
	}
}

func TestAModelWithoutAContextIsRefused(t *testing.T) {
	for _, more := range [][]gguf.Pair{nil, {{Key: "llama.context_length", Value: uint32(0)}}} {
		_, err := processor.LoadModel(t.Context(), modelFile(t, more...), "")
		if err == nil || !strings.Contains(err.Error(), "llama.context_length") {
			t.Errorf("%v, want an error that names llama.context_length", err)
		}
	}
	m, err := processor.LoadModel(t.Context(), modelFile(t, gguf.Pair{Key: "llama.context_length", Value: uint32(8)}), "")
	if err != nil || m.Name != modelName || m.ContextTokens != 8 || m.BOS != "<|im_start|>" || m.EOS != "<|im_end|>" {
		t.Errorf("model %+v, %v", m, err)
	}
}
