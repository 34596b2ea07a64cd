//go:build linux

package shm_test

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
	"github.com/switchyard-llm/switchyard/libs/nixl/nixltest"
	"github.com/switchyard-llm/switchyard/libs/nixl/shm"
)

var transport = nixltest.Transport{
	Memory: memory.Shared,
	Open: func(c nixl.Config, folder string) (nixl.Agent, error) {
		return shm.New(shm.Config{Config: c, Socket: filepath.Join(folder, c.Name+".sock")})
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
