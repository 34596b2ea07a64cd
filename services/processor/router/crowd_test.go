package router_test

import (
	"runtime"
	"strconv"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/prefix"
	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/services/processor/router"
)

// Thousands of workers come, publish, get work and go; then nothing of them is left.
func TestACrowdOfWorkersComesAndGoes(t *testing.T) {
	workers := 10_000
	if testing.Short() {
		workers = 1000
	}
	r := newRouter(t, nil)
	join(t, r, nil, "first")
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	p := prompt(400)
	for i := range workers {
		name := strconv.Itoa(i)
		join(t, r, func(w *router.Worker) { w.Events = i%10 > 0 }, name)
		r.Report(id(name), router.Report{Speed: speed, PrefillTokens: 1 << 20})
		hold(r, name, prefix.Device, p, 0, 1+i%100)
	}
	if got := len(r.Loads()); got != workers+1 {
		t.Fatalf("%d workers are known, want %d", got, workers+1)
	}
	c := pick(t, r, p)
	if c.Candidates != workers+1 || c.Worker.Name != "first" {
		t.Errorf("picked %v of %d, want the only one that is idle", c.Worker, c.Candidates)
	}
	r.Ended(&c, 1)
	for i := range workers {
		r.Remove(id(strconv.Itoa(i)))
	}
	if s := r.Index(); s.Entries != 0 {
		t.Errorf("%d entries are left in the index", s.Entries)
	}
	if after := heap(); !testing.Short() && after > before+before/2+(8<<20) {
		t.Errorf("%d bytes are in use, %d before they came", after, before)
	}
	if c := pick(t, r, p); c.Worker.Name != "first" {
		t.Errorf("picked %v, want the one that is left", c.Worker)
	}
}

// A worker may publish as long a chain as it likes, and a request may be as long.
func TestAMillionBlocksInOneChain(t *testing.T) {
	n := 1_000_000
	if testing.Short() {
		n = 50_000
	}
	r := newSharing(t, func(c *router.Config) { c.MemoryBytes = 8 << 20 }, router.Options{})
	join(t, r, func(w *router.Worker) { w.PoolBlocks = 0 }, "a", "b")
	chain := make([]block.Hash, n)
	for i := range chain {
		chain[i] = block.Hash(i + 1)
	}
	for from := 0; from < n; from += 10_000 {
		r.Stored(id("a"), prefix.Device, block.Hash(from), chain[from:from+10_000])
	}
	if s := r.Index(); s.Bytes > 8<<20 {
		t.Errorf("the index takes %d bytes, its budget is %d", s.Bytes, 8<<20)
	}
	long := make([]sequence.Token, n*size)
	req := router.Request{Model: model, Tokens: long, Worker: "b"}
	first, err := r.Pick(req, accept)
	if err != nil {
		t.Fatal(err)
	}
	second, err := r.Pick(req, accept)
	if err != nil {
		t.Fatal(err)
	}
	if second.Terms.PendingBlocks != n-1 {
		t.Errorf("the same prompt again: %+v, want what the first one will have computed", second.Terms)
	}
	r.Ended(&first, 1)
	r.Ended(&second, 1)
	r.Removed(id("a"), prefix.Device, chain)
	r.Remove(id("a"))
	r.Remove(id("b"))
	if s := r.Index(); s.Entries != 0 {
		t.Errorf("%d entries are left in the index", s.Entries)
	}
}
