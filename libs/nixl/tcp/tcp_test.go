//go:build linux

package tcp_test

import (
	"fmt"
	"hash/fnv"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/nixltest"
	"github.com/switchyard-llm/switchyard/libs/nixl/tcp"
)

// transport gives each folder and name an address of its own within the loopback network.
var transport = nixltest.Transport{
	FencesLiving: true, ChecksGrants: true, NeedsTarget: true,
	Open: func(c nixl.Config, folder string) (nixl.Agent, error) {
		h := fnv.New32a()
		fmt.Fprint(h, folder, "/", c.Name)
		s := h.Sum32()
		return tcp.New(tcp.Config{Config: c, Listen: fmt.Sprintf("127.%d.%d.%d:21735", 1+s%250, s>>8&255, 1+s>>16%250)})
	},
}

func TestMain(m *testing.M) {
	if nixltest.Child(transport) {
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func TestConformance(t *testing.T) { nixltest.Run(t, transport) }

func TestConformanceBetweenProcesses(t *testing.T) { nixltest.RunProcesses(t, transport) }

func BenchmarkTransfer(b *testing.B) { nixltest.Benchmark(b, transport) }
