package prefix_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/prefix"
)

// Lookups beside changes answer with a state that there was between their beginning and their end.
func TestLookupsSeeAStateThatThereWas(t *testing.T) {
	const slots, changes = 20, 1000
	x, chain := prefix.NewIndex(prefix.IndexConfig{}), chainOf(1, 400)
	var model model
	for range slots {
		model.add(x.Add())
	}
	apply, states := script(x, &model, chain, changes)
	var begun, done atomic.Int64
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			var m prefix.Matches
			for done.Load() < changes {
				from := done.Load()
				x.Lookup(chain, &m)
				to := begun.Load()
				if !slices.ContainsFunc(states[from:to+1], func(s []uint32) bool { return slices.Equal(s, m.Depths) }) {
					t.Errorf("depths %v are no state from %d to %d", m.Depths, from, to)
					return
				}
			}
		})
	}
	for i, change := range apply {
		begun.Store(int64(i + 1))
		change()
		done.Store(int64(i + 1))
	}
	readers.Wait()
	if err := x.Check(); err != nil {
		t.Error(err)
	}
}

// script is random changes that are each one step for lookups, and the depths before the first and after each.
func script(x *prefix.Index, model *model, chain []block.Hash, changes int) (apply []func(), states [][]uint32) {
	random := rand.New(rand.NewPCG(1, 2))
	depths := func() (d []uint32) {
		for s := range model.slots {
			counts := model.match(prefix.Slot(s), chain)
			d = append(d, uint32(counts[0]+counts[1]+counts[2]))
		}
		return d
	}
	states = append(states, depths())
	for range changes {
		s, tier := prefix.Slot(random.IntN(len(model.slots))), prefix.Tier(random.IntN(prefix.Tiers))
		from := random.IntN(len(chain))
		piece := chain[from : from+1+random.IntN(len(chain)-from)]
		switch random.IntN(10) {
		case 0:
			apply = append(apply, func() { x.Clear(s) })
			model.clear(s)
		case 1, 2, 3:
			apply = append(apply, func() { x.Remove(s, tier, piece) })
			model.remove(s, tier, piece)
		default:
			piece := chain[:from+1]
			apply = append(apply, func() { x.Store(s, tier, root, piece) })
			model.store(s, tier, piece)
		}
		states = append(states, depths())
	}
	return apply, states
}

// Slots change from goroutines of their own, each equals its own model in the end.
func TestChangesFromManyGoroutines(t *testing.T) {
	x := prefix.NewIndex(prefix.IndexConfig{})
	var chains [][]block.Hash
	for i := range 10 {
		chains = append(chains, slices.Concat(chainOf(1, 30*i), chainOf(uint64(i+2), 100)))
	}
	models := make([]model, 4)
	slots := make([]prefix.Slot, 4)
	var all sync.WaitGroup
	for g := range models {
		all.Go(func() {
			random := rand.New(rand.NewPCG(3, uint64(g)))
			s := x.Add()
			var m prefix.Matches
			models[g].add(s)
			for range 400 {
				chain := chains[random.IntN(len(chains))]
				piece := chain[random.IntN(len(chain)):]
				switch random.IntN(8) {
				case 0:
					x.Drop(s)
					s = x.Add()
					models[g] = model{}
					models[g].add(s)
				case 1, 2:
					x.Remove(s, prefix.Device, piece)
					models[g].remove(s, prefix.Device, piece)
				default:
					x.Store(s, prefix.Device, root, chain)
					models[g].store(s, prefix.Device, chain)
				}
				x.Lookup(chain, &m)
				if got, want := m.Device(s), models[g].match(s, chain)[0]; got != want {
					t.Errorf("slot %d has %d blocks, want %d", s, got, want)
				}
			}
			slots[g] = s
		})
	}
	all.Wait()
	for g, s := range slots {
		for _, chain := range chains {
			wantDevice(t, x, s, chain, models[g].match(s, chain)[0])
		}
	}
}
