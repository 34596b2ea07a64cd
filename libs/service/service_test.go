package service

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/switchyard-llm/switchyard/libs/embedded"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func startEtcd(t *testing.T) string {
	t.Helper()
	etcd, err := embedded.StartEtcd(t.Context(), embedded.EtcdConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := etcd.Close(); err != nil {
			t.Error(err)
		}
	})
	return etcd.Endpoint()
}

func config(etcd string) Config {
	cfg := DefaultConfig("", "127.0.0.1:0", time.Second)
	cfg.Etcd = []string{etcd}
	cfg.Telemetry.LogLevel = "error"
	return cfg
}

func TestAProcessIsNamedServesMetricsAndGivesEverythingBack(t *testing.T) {
	cfg := config(startEtcd(t))
	cfg.Metrics = "127.0.0.1:0"
	p, err := Open(t.Context(), "thing", cfg, Shared{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	i := p.Describe(instancev1.Role_ROLE_PLANNER)
	if i.GetId() != host+"-thing" || i.GetIncarnation() != p.Incarnation || i.GetAddress() != p.Listener.Addr().String() {
		t.Errorf("instance %v", i)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	response, err := http.Get("http://" + p.metrics.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil || !strings.Contains(string(text), "go_goroutines") {
		t.Errorf("/metrics: %.200s, %v", text, err)
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	address := p.Listener.Addr().String()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	again, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("the port was not given back: %v", err)
	}
	again.Close()
}

func TestWhatIsSharedIsNotOpenedAgainNorClosed(t *testing.T) {
	etcd := startEtcd(t)
	first, err := Open(t.Context(), "first", config(etcd), Shared{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	cfg := config("127.0.0.1:1") // nobody is there: only the shared client works
	cfg.ID, cfg.Advertise = "second-7", "elsewhere:1"
	second, err := Open(t.Context(), "second", cfg, Shared{Discovery: first.Discovery, Telemetry: first.Telemetry}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if i := second.Describe(instancev1.Role_ROLE_PLANNER); i.GetId() != "second-7" || i.GetAddress() != "elsewhere:1" {
		t.Errorf("instance %v", i)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if err := first.Discovery.PutJSON(t.Context(), "/switchyard/config/x/y", 1); err != nil {
		t.Errorf("the shared client is closed: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
}

func TestWhatCannotBeOpenedIsNamedInOneLine(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	etcd := startEtcd(t)
	for name, tc := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"an id that is a path": {func(c *Config) { c.ID = "a/b" }, "id is"},
		"no address":           {func(c *Config) { c.Listen = "" }, "listen is"},
		"no etcd":              {func(c *Config) { c.Etcd = nil }, "etcd is"},
		"negative drain":       {func(c *Config) { c.Drain = -1 }, "drain is"},
		"a taken port":         {func(c *Config) { c.Listen = taken.Addr().String() }, "listen is"},
		"a taken second":       {func(c *Config) { c.Metrics = taken.Addr().String() }, "metrics is"},
		"an etcd not there":    {func(c *Config) { c.Etcd = []string{"127.0.0.1:1"} }, "127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(etcd)
			tc.change(&cfg)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, err := Open(ctx, "thing", cfg, Shared{}, 0)
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want one line with %q", err, tc.want)
			}
		})
	}
}
