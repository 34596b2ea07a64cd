package frontend_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/switchyard-llm/switchyard/libs/discovery"
	"github.com/switchyard-llm/switchyard/libs/embedded"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
	"github.com/switchyard-llm/switchyard/services/frontend"
)

// one is a processor of one model that answers with its own id.
type one struct {
	processorv1.UnimplementedProcessorServer
	id, model string
}

func (o *one) Generate(in *processorv1.GenerateRequest, out sender) error {
	if in.GetRequest().GetModel() != o.model {
		return rpc.NotFound("model", in.GetRequest().GetModel())
	}
	if err := say(out, o.id); err != nil {
		return err
	}
	return end(out, generationv1.FinishReason_FINISH_REASON_STOP, 1)
}

func (o *one) Models(context.Context, *processorv1.ModelsRequest) (*processorv1.ModelsResponse, error) {
	return &processorv1.ModelsResponse{Models: []*processorv1.Model{{Name: o.model, ContextTokens: 8, CreatedUnix: 1700000000}}}, nil
}

// town is an etcd with processors of several models and a frontend that finds them.
type town struct {
	t       *testing.T
	etcd    *embedded.Etcd
	members *discovery.Client
	url     string
}

func startTown(t *testing.T) *town {
	t.Helper()
	c := &town{t: t}
	var err error
	if c.etcd, err = embedded.StartEtcd(t.Context(), embedded.EtcdConfig{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.etcd.Close() }) // a test may have closed it
	d := discovery.DefaultConfig()
	d.Endpoints = []string{c.etcd.Endpoint()}
	if c.members, err = discovery.Open(t.Context(), d, discardLogger()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.members.Close() })
	cfg := config()
	cfg.Etcd, cfg.Drain, cfg.Telemetry.LogLevel = d.Endpoints, time.Second, "error"
	s, err := frontend.Open(t.Context(), cfg, frontend.Shared{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("Run: %v", err)
		}
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	c.url = "http://" + s.Addr().String()
	return c
}

// member is a processor of the town.
type member struct{ leave, crash func() }

// settle starts a processor. It leaves as a process does that is asked to end, or crashes.
func (c *town) settle(id, model string) member {
	c.t.Helper()
	lis, server := listen(c.t), rpc.NewServer(rpc.ServerOptions{})
	processorv1.RegisterProcessorServer(server, &one{id: id, model: model})
	registration, err := c.members.Register(c.t.Context(), &instancev1.Instance{
		Id: id, Incarnation: discovery.NewIncarnation(time.Now()), Role: instancev1.Role_ROLE_PROCESSOR,
		Address: lis.Addr().String(), Started: timestamppb.Now(), Model: &instancev1.ModelCard{Name: model},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	serving, stopServing := context.WithCancel(context.Background())
	keeping, stopKeeping := context.WithCancel(context.Background())
	served, kept := make(chan struct{}), make(chan struct{})
	go func() { defer close(served); _ = server.Serve(serving, lis, 0) }()
	go func() { defer close(kept); _ = registration.Run(keeping) }()
	leave := func() { stopKeeping(); <-kept; stopServing(); <-served }
	c.t.Cleanup(leave)
	return member{leave: leave, crash: func() { stopServing(); <-served }} // in etcd it still is
}

// ask answers the status of a completion and who gave it, or the body.
func (c *town) ask(model string) (int, string) {
	c.t.Helper()
	resp, body := post(c.t, c.url+"/v1/completions", fmt.Sprintf(`{"model": %q, "prompt": "x"}`, model))
	if _, text, ok := strings.Cut(body, `"text":"`); ok {
		body, _, _ = strings.Cut(text, `"`)
	}
	return resp.StatusCode, body
}

// until asks until the answer is as wanted.
func (c *town) until(model string, status int, say string) {
	c.t.Helper()
	var got int
	var body string
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); {
		if got, body = c.ask(model); got == status && strings.Contains(body, say) {
			return
		}
	}
	c.t.Fatalf("model %q: %d %s, want %d with %s", model, got, body, status, say)
}

// who are those that answer the next n requests; all must be answered.
func (c *town) who(model string, n int) map[string]int {
	c.t.Helper()
	ids, err := c.answerers(model, n)
	if err != nil {
		c.t.Fatal(err)
	}
	return ids
}

func (c *town) answerers(model string, n int) (map[string]int, error) {
	c.t.Helper()
	ids := map[string]int{}
	for range n {
		status, id := c.ask(model)
		if status != http.StatusOK {
			return nil, fmt.Errorf("model %q: %d %s", model, status, id)
		}
		ids[id]++
	}
	return ids, nil
}

// untilShared asks until these answer, in turns. One that has just died may fail a request.
func (c *town) untilShared(model string, want ...string) {
	c.t.Helper()
	var got map[string]int
	var err error
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); {
		if got, err = c.answerers(model, 2*len(want)); slices.Equal(slices.Sorted(maps.Keys(got)), want) {
			return
		}
	}
	c.t.Fatalf("model %q: answered by %v, %v, want all of %q", model, got, err, want)
}

func (c *town) list() string {
	_, body := do(c.t, http.MethodGet, c.url+"/v1/models", "")
	return body
}

func TestEachModelIsServedByItsOwnProcessors(t *testing.T) {
	c := startTown(t)
	c.until("a", http.StatusServiceUnavailable, "") // nobody is there who could know
	a0 := c.settle("a0", "a")
	a1 := c.settle("a1", "a")
	b0 := c.settle("b0", "org/b ü")
	c.until("a", http.StatusOK, "a")
	c.until("org/b ü", http.StatusOK, "b0")
	c.untilShared("a", "a0", "a1")
	if got := c.who("org/b ü", 10); got["b0"] != 10 {
		t.Errorf("the other model's requests went to %v", got)
	}
	if status, body := c.ask("c"); status != http.StatusNotFound || !strings.Contains(body, `"code":"model_not_found"`) {
		t.Errorf("an unknown model: %d %s", status, body)
	}
	if list := c.list(); strings.Count(list, `"id":"a"`) != 1 || strings.Count(list, `"id":"org/b ü"`) != 1 {
		t.Errorf("models %s", list)
	}
	a0.crash()
	c.untilShared("a", "a1")
	if got := c.who("a", 20); got["a1"] != 20 {
		t.Errorf("after a death %v", got)
	}
	b0.leave()
	c.until("org/b ü", http.StatusServiceUnavailable, `"type"`)
	if list := c.list(); strings.Contains(list, "org/b") || !strings.Contains(list, `"id":"a"`) {
		t.Errorf("models after the other left: %s", list)
	}
	if got := c.who("a", 5); got["a1"] != 5 {
		t.Errorf("one model's end changed the other: %v", got)
	}
	c.settle("b1", "org/b ü")
	c.until("org/b ü", http.StatusOK, "b1")
	a1.leave()
	c.until("a", http.StatusServiceUnavailable, "")
}

func TestProcessorsKnownLastServeWhileEtcdIsAway(t *testing.T) {
	c := startTown(t)
	c.settle("a0", "a")
	a1 := c.settle("a1", "a")
	c.settle("b0", "b")
	c.until("a", http.StatusOK, "a")
	c.until("b", http.StatusOK, "b0")
	c.untilShared("a", "a0", "a1")
	if err := c.etcd.Close(); err != nil {
		t.Fatal(err)
	}
	c.who("a", 5)
	c.who("b", 5)
	a1.crash()
	c.untilShared("a", "a0") // the connection tells
	if got := c.who("a", 10); got["a0"] != 10 {
		t.Errorf("%v", got)
	}
	if status, body := c.ask("c"); status != http.StatusNotFound {
		t.Errorf("an unknown model: %d %s", status, body)
	}
}
