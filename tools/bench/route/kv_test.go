package route

import (
	"strconv"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/services/processor/router"
)

// The router hears every event: what it takes a worker to hold of any prompt is what that has.
func TestTheRouterKnowsWhatWorkersHold(t *testing.T) {
	trace := synthetic(t, 400, 3)
	build, err := makerOf("kv", DefaultKV())
	if err != nil {
		t.Fatal(err)
	}
	cfg := tight()
	r, err := newReplay(trace, cfg, build)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	p, hits := r.policies[0].(*kv), 0
	for i := range trace.Requests {
		request := &trace.Requests[i]
		list, _ := p.router.Explain(router.Request{Model: model, Tokens: p.chains.tokens(request)})
		for _, e := range list {
			w, err := strconv.Atoi(e.ID.Name)
			if err != nil {
				t.Fatal(err)
			}
			want := p.cluster.Resident(w, request)
			if e.Terms.DeviceBlocks != want {
				t.Fatalf("request %d: the router takes worker %d to hold %d blocks, and it holds %d", i, w, e.Terms.DeviceBlocks, want)
			}
			hits += want
		}
	}
	if hits == 0 {
		t.Error("no worker holds anything")
	}
	for _, l := range p.router.Loads() {
		if l.PrefillTokens != 0 || l.DecodeTokens != 0 {
			t.Errorf("at the end the router knows of load: %+v", l)
		}
	}
}

// Two processors that know of each other's bookings never send two requests at once to the
// same of two idle workers; two that do not sometimes do.
func TestProcessorsThatShareBookingsDoNotCollide(t *testing.T) {
	for _, policy := range []string{"least-loaded", "exact", "kv"} {
		for _, share := range []time.Duration{0, Never} {
			collided := 0
			for seed := range uint64(20) {
				cfg := small(2)
				cfg.Processors, cfg.Share, cfg.Seed = 2, share, seed
				r := replayed(t, cfg, policy, []time.Duration{0, 0}, request(0, 600, 3, 0, 1), request(1, 600, 3, 2, 3))
				if r.sequences[0].booking.Worker == r.sequences[1].booking.Worker {
					collided++
				}
			}
			if (collided > 0) != (share == Never) {
				t.Errorf("%s, shared after %v: %d of 20 pairs collided", policy, share, collided)
			}
		}
	}
}

// Requests that follow the same prefix go where it is, or is about to be.
func TestAWorkerIsPickedForWhatItHolds(t *testing.T) {
	for _, policy := range []string{"exact", "kv"} {
		for seed := range uint64(8) {
			cfg := small(4)
			cfg.Seed = seed
			r := replayed(t, cfg, policy, []time.Duration{0, 0, 2 * time.Second},
				request(0, 600, 2, 0, 1), request(1, 520, 2, 0, 2), request(2, 1100, 2, 0, 1, 3))
			first := r.sequences[0].booking.Worker
			for i := range r.sequences {
				if w := r.sequences[i].booking.Worker; w != first {
					t.Errorf("%s, seed %d: request %d goes to worker %d, and the prefix was sent to %d", policy, seed, i, w, first)
				}
			}
		}
	}
}
