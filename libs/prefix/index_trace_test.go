package prefix_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/prefix"
	"github.com/switchyard-llm/switchyard/libs/prefix/prefixtest"
)

// workload loads the trace, or skips the test where there is none.
func workload(t testing.TB, config prefixtest.Config) *prefixtest.Workload {
	t.Helper()
	dir := os.Getenv("SWITCHYARD_DATA")
	if dir == "" {
		t.Skip("SWITCHYARD_DATA is not set: nothing was measured on a trace of real requests")
	}
	w, err := prefixtest.Load(filepath.Join(dir, "mooncake_conversation.jsonl"), config)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// replay is an index on which a workload is played; worker and slot are one number.
type replay struct {
	*prefix.Index
	*prefixtest.Workload
	matches prefix.Matches
	wrong   int
}

func newReplay(w *prefixtest.Workload) *replay {
	r := &replay{Index: prefix.NewIndex(prefix.IndexConfig{}), Workload: w}
	for range w.Workers {
		r.Add()
	}
	return r
}

func (r *replay) remove(q *prefixtest.Request) {
	if len(q.Removed) > 0 {
		r.Remove(prefix.Slot(q.Worker), prefix.Device, q.Removed)
	}
}

func (r *replay) store(q *prefixtest.Request) {
	for _, s := range q.Stored {
		parent := r.Root
		if s.From > 0 {
			parent = q.Chain[s.From-1]
		}
		r.Store(prefix.Slot(q.Worker), prefix.Device, parent, q.Chain[s.From:s.To])
	}
}

// lookup counts a wrong answer.
func (r *replay) lookup(chain []block.Hash, answer uint64) {
	r.Lookup(chain, &r.matches)
	var digest uint64
	for w, d := range r.matches.Depths {
		digest += prefixtest.Digest(w, d)
	}
	if digest != answer {
		r.wrong++
	}
}

func TestIndexAnswersATraceRight(t *testing.T) {
	for _, c := range []struct {
		workers int
		holes   float64
	}{{8, 0}, {8, 0.02}, {64, 0.02}} {
		config := prefixtest.DefaultConfig(c.workers)
		config.Holes, config.Requests, config.PoolBlocks = c.holes, 2000, 8000
		if testing.Short() {
			config.Requests, config.PoolBlocks = 400, 2000
		}
		r := newReplay(workload(t, config))
		removed := 0
		for i := range r.Requests {
			q := &r.Requests[i]
			r.lookup(q.Chain, q.Answer)
			r.store(q)
			r.remove(q)
			removed += len(q.Removed)
		}
		if r.wrong > 0 {
			t.Errorf("%d of %d lookups on %d workers with %g holes are wrong", r.wrong, len(r.Requests), c.workers, c.holes)
		}
		if removed == 0 {
			t.Errorf("%d workers removed nothing", c.workers)
		}
		if stats := r.Stats(); stats.Duplicates+stats.IgnoredRemoves+stats.Evictions > 0 {
			t.Errorf("counted what did not happen: %+v", stats)
		}
	}
}
