package inproc_test

import (
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/inproc"
	"github.com/switchyard-llm/switchyard/libs/nixl/nixltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// networks gives each test folder a network of its own.
func networks() nixltest.Transport {
	var mu sync.Mutex
	byFolder := make(map[string]*inproc.Network)
	return nixltest.Transport{
		FencesLiving: true, ChecksGrants: true,
		Open: func(c nixl.Config, folder string) (nixl.Agent, error) {
			mu.Lock()
			defer mu.Unlock()
			if byFolder[folder] == nil {
				byFolder[folder] = inproc.NewNetwork()
			}
			return byFolder[folder].NewAgent(c)
		},
	}
}

func TestConformance(t *testing.T) { nixltest.Run(t, networks()) }

func BenchmarkTransfer(b *testing.B) { nixltest.Benchmark(b, networks()) }
