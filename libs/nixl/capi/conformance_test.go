//go:build cgo && linux

package capi_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/capi"
	"github.com/switchyard-llm/switchyard/libs/nixl/capi/capitest"
	"github.com/switchyard-llm/switchyard/libs/nixl/nixltest"
)

var transport = nixltest.Transport{
	NeedsTarget: true,
	OwnAddress:  true,
	Open: func(c nixl.Config, _ string) (nixl.Agent, error) {
		return capi.New(capi.Config{Config: c})
	},
}

func TestMain(m *testing.M) {
	if nixltest.Child(transport) {
		os.Exit(0)
	}
	if os.Getenv(envTarget) != "" {
		if err := serveTarget(); err != nil {
			fmt.Fprintln(os.Stderr, "target:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// useLibrary has all agents of this process and its children use NIXL over TCP on this machine. A test that
// cannot have the library fails.
func useLibrary(t testing.TB) {
	t.Helper()
	path, err := capitest.Library(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(capi.EnvLibrary, path)
	t.Setenv("UCX_TLS", "tcp,self")
	t.Setenv("UCX_NET_DEVICES", "lo")
}

func TestConformance(t *testing.T) {
	useLibrary(t)
	nixltest.Run(t, transport)
}

func TestConformanceBetweenProcesses(t *testing.T) {
	useLibrary(t)
	nixltest.RunProcesses(t, transport)
}

func BenchmarkTransfer(b *testing.B) {
	useLibrary(b)
	nixltest.Benchmark(b, transport)
}
