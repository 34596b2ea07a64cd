package multi_test

import (
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/inproc"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
	"github.com/switchyard-llm/switchyard/libs/nixl/multi"
	"github.com/switchyard-llm/switchyard/libs/nixl/nixltest"
	"github.com/switchyard-llm/switchyard/libs/nixl/shm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// agents opens agents over inproc, of which each test folder has a network, and shm.
type agents struct {
	mu       sync.Mutex
	networks map[string]*inproc.Network
}

func (a *agents) inproc(c nixl.Config, folder string) (nixl.Agent, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.networks == nil {
		a.networks = make(map[string]*inproc.Network)
	}
	if a.networks[folder] == nil {
		a.networks[folder] = inproc.NewNetwork()
	}
	return a.networks[folder].NewAgent(c)
}

func (a *agents) open(c nixl.Config, folder string, first string) (nixl.Agent, error) {
	near, err := a.inproc(c, folder)
	if err != nil {
		return nil, err
	}
	far, err := shm.New(shm.Config{Config: c, Socket: filepath.Join(folder, c.Name+".sock")})
	if err != nil {
		return nil, err
	}
	all := []multi.Transport{{Name: "inproc", Agent: near}, {Name: "shm", Agent: far}}
	if first == "shm" {
		all[0], all[1] = all[1], all[0]
	}
	return multi.New(all...)
}

func TestConformance(t *testing.T) {
	for first, proves := range map[string]bool{"inproc": true, "shm": false} {
		t.Run(first+" first", func(t *testing.T) {
			var a agents
			nixltest.Run(t, nixltest.Transport{
				Memory: memory.Shared, FencesLiving: proves, ChecksGrants: proves,
				Open: func(c nixl.Config, folder string) (nixl.Agent, error) { return a.open(c, folder, first) },
			})
		})
	}
}
