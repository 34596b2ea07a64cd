package frontend_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/discovery"
	"github.com/switchyard-llm/switchyard/libs/embedded"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
	"github.com/switchyard-llm/switchyard/services/frontend"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// The real dependencies: a processor in another "process" that etcd knows, then one in this.
func TestOpenServesWithRealDependencies(t *testing.T) {
	etcd, err := embedded.StartEtcd(t.Context(), embedded.EtcdConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	cfg := config()
	cfg.Etcd = []string{etcd.Endpoint()}
	cfg.Drain = time.Second
	stop := registerProcessor(t, cfg.Etcd)
	t.Run("processor found in etcd", func(t *testing.T) { openAndAsk(t, cfg, frontend.Shared{}) })
	stop()
	t.Run("processor of this process", func(t *testing.T) {
		openAndAsk(t, cfg, frontend.Shared{Processors: map[string]processorv1.ProcessorServer{model: &processor{}}})
	})
}

// registerProcessor serves a processor over gRPC and announces it.
func registerProcessor(t *testing.T, endpoints []string) (stop func()) {
	t.Helper()
	d := discovery.DefaultConfig()
	d.Endpoints = endpoints
	members, err := discovery.Open(t.Context(), d, discardLogger())
	if err != nil {
		t.Fatal(err)
	}
	lis, server := listen(t), rpc.NewServer(rpc.ServerOptions{})
	processorv1.RegisterProcessorServer(server, &processor{})
	registration, err := members.Register(t.Context(), &instancev1.Instance{
		Id: "processor-0", Incarnation: discovery.NewIncarnation(time.Now()), Role: instancev1.Role_ROLE_PROCESSOR,
		Address: lis.Addr().String(), Started: timestamppb.Now(), Model: &instancev1.ModelCard{Name: model},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served, registered := make(chan error, 1), make(chan error, 1)
	go func() { served <- server.Serve(ctx, lis, 0) }()
	go func() { registered <- registration.Run(ctx) }()
	return func() {
		cancel()
		<-served
		<-registered
		if err := members.Close(); err != nil {
			t.Error(err)
		}
	}
}

func openAndAsk(t *testing.T, cfg frontend.Config, shared frontend.Shared) {
	s, err := frontend.Open(t.Context(), cfg, shared)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	ready, done := context.WithTimeout(ctx, 10*time.Second)
	defer done()
	if err := s.Ready(ready); err != nil {
		t.Fatal(err)
	}
	url := "http://" + s.Addr().String()
	if resp, body := post(t, url+"/v1/chat/completions", chatBody("a b", "")); resp.StatusCode != http.StatusOK || !strings.Contains(body, `"content":"a b"`) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if resp, body := do(t, http.MethodGet, url+"/metrics", ""); resp.StatusCode != http.StatusOK || !strings.Contains(body, "switchyard_frontend_requests_total{") {
		t.Errorf("metrics: %d %.300s", resp.StatusCode, body)
	}
	if resp, body := post(t, url+"/metrics", "{}"); resp.StatusCode != http.StatusMethodNotAllowed || !strings.Contains(body, `"code":"method_not_supported"`) {
		t.Errorf("a POST to metrics: %d %.300s", resp.StatusCode, body)
	}
	again := cfg
	again.HTTP = s.Addr().String()
	if _, err := frontend.Open(t.Context(), again, shared); err == nil || !strings.Contains(err.Error(), "http is") {
		t.Errorf("a taken port: %v", err)
	}
	cancel()
	if err := <-ran; err != nil {
		t.Errorf("Run: %v", err)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

func TestOpenTellsOfAnEtcdThatDoesNotAnswer(t *testing.T) {
	cfg := config()
	cfg.Etcd = []string{"127.0.0.1:1"}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := frontend.Open(ctx, cfg, frontend.Shared{}); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("error %v, want one that names the endpoint", err)
	}
}
