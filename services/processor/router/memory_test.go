package router

import (
	"math/rand/v2"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/block"
)

// model is the definition: a list of hashes, most recent first.
type model struct {
	capacity int
	order    []block.Hash
}

func (m *model) touch(chain []block.Hash) {
	for i := min(len(chain), m.capacity) - 1; i >= 0; i-- {
		kept := []block.Hash{chain[i]}
		for _, h := range m.order {
			if h != chain[i] {
				kept = append(kept, h)
			}
		}
		m.order = kept[:min(len(kept), m.capacity)]
	}
}

func (m *model) match(chain []block.Hash) int {
	for i, h := range chain {
		found := false
		for _, o := range m.order {
			found = found || o == h
		}
		if !found {
			return i
		}
	}
	return len(chain)
}

// Chains of a random tree are touched, looked up and resized; the memory must agree with
// the list, which proves that bisecting is right: no chain ever has a hole.
func TestMemoryAgreesWithAPlainList(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	chain := func() []block.Hash {
		c := make([]block.Hash, random.IntN(12))
		h := block.Hash(1)
		for i := range c {
			h = h*31 + block.Hash(random.IntN(2))
			c[i] = h
		}
		return c
	}
	for range 200 {
		var (
			m memory
			l = model{capacity: 1 + random.IntN(30)}
		)
		m.resize(l.capacity)
		for range 200 {
			if random.IntN(40) == 0 {
				l.capacity = 1 + random.IntN(30)
				l.order = l.order[:min(len(l.order), l.capacity)]
				m.resize(l.capacity)
			}
			c := chain()
			if got, want := m.match(c), l.match(c); got != want {
				t.Fatalf("match of %v is %d, want %d", c, got, want)
			}
			m.touch(c)
			l.touch(c)
			if m.len() != len(l.order) || m.len() > l.capacity || len(m.nodes) > 30 {
				t.Fatalf("%d blocks in %d nodes, want %d", m.len(), len(m.nodes), len(l.order))
			}
		}
	}
}
