// Package route replays a trace of requests in virtual time against simulated workers,
// and says what a routing policy makes of it: how much of the prompts is reused, how long
// requests wait, how evenly the workers are used.
//
// A worker here is the physics that routing depends on and nothing else: a pool of blocks
// with a prefix cache, continuous batching with prompts in pieces, and a timing model
// for each pass. The policy kv is the product's own router, driven as a processor drives it; the others
// are here to compare it with. Nothing is generated, nothing is sent, and no clock is read but to time
// the decisions themselves. The same trace, sizes and seed give the same figures.
//
// It is for tools only. It starts no goroutine; a Replay belongs to one.
package route

import (
	"fmt"
	"math"
	"time"

	"github.com/switchyard-llm/switchyard/libs/engine/sim/timing"
)

// RunTokens is the size of what a hash id of a trace stands for.
const RunTokens = 512

// Never is a Config.Share that keeps bookings to the processor that made them.
const Never time.Duration = -1

// Config sizes the cluster and says how it is driven.
type Config struct {
	// Workers is how many there are, all alike.
	Workers int
	// PoolBlocks is the size of each worker's pool.
	PoolBlocks int
	// BlockTokens is the size of a block; it divides RunTokens.
	BlockTokens int
	// PassTokens is how many prompt tokens one pass computes at most.
	PassTokens int
	// MaxRunning is how many sequences a worker runs at once.
	MaxRunning int
	// Timing says how long a pass takes.
	Timing timing.Model
	// Rate divides the trace's times: at 2, it is replayed twice as fast.
	Rate float64
	// Seed makes arrivals, and what policies draw.
	Seed uint64
	// ReportEvery is how often workers report their load; 0 is at each end of a pass.
	ReportEvery time.Duration
	// Processors is how many routers share the requests, in turn.
	Processors int
	// Share is how long it takes until a processor knows of another one's bookings; or Never.
	Share time.Duration
	// TTFT and ITL are the targets of goodput: the time to the first token, and the mean
	// time between the others.
	TTFT, ITL time.Duration
}

// DefaultConfig is 8 workers of about a million tokens each, and one processor.
func DefaultConfig() Config {
	return Config{
		Workers: 8, PoolBlocks: 32_000, BlockTokens: 32, PassTokens: 8192, MaxRunning: 256, Timing: timing.Mocker{},
		Rate: 1, Seed: 1, Processors: 1, TTFT: 2 * time.Second, ITL: 50 * time.Millisecond,
	}
}

// The bounds keep sizes and sums far from overflow.
const (
	maxWorkers    = 4096
	maxPoolBlocks = 1 << 26
	maxRate       = 1e6
)

// Validate names the first field that cannot be.
func (c Config) Validate() error {
	for _, f := range []struct {
		name           string
		value, lo, max int
	}{
		{"workers", c.Workers, 1, maxWorkers},
		{"pool-blocks", c.PoolBlocks, 1, maxPoolBlocks},
		{"block-tokens", c.BlockTokens, 1, RunTokens},
		{"pass-tokens", c.PassTokens, 1, 1 << 20},
		{"max-running", c.MaxRunning, 1, 1 << 16},
		{"processors", c.Processors, 1, 256},
	} {
		if f.value < f.lo || f.value > f.max {
			return fmt.Errorf("%s is %d, want %d to %d", f.name, f.value, f.lo, f.max)
		}
	}
	switch {
	case RunTokens%c.BlockTokens != 0:
		return fmt.Errorf("block-tokens is %d, want a divisor of %d", c.BlockTokens, RunTokens)
	case c.Timing == nil:
		return fmt.Errorf("timing is not set")
	case !(c.Rate > 0 && c.Rate <= maxRate): // not a number is neither
		return fmt.Errorf("rate is %v, want more than 0 and at most %v", c.Rate, maxRate)
	case c.ReportEvery < 0:
		return fmt.Errorf("report-every is %v, want at least 0", c.ReportEvery)
	case c.Share < 0 && c.Share != Never:
		return fmt.Errorf("share is %v, want at least 0, or never", c.Share)
	case c.TTFT <= 0:
		return fmt.Errorf("ttft is %v, want more than 0", c.TTFT)
	case c.ITL <= 0:
		return fmt.Errorf("itl is %v, want more than 0", c.ITL)
	}
	return nil
}

// blocks is how many blocks a sequence of the request needs from its first to its last token.
func (c Config) blocks(r *Request) int {
	return int(math.Ceil(float64(r.InputTokens+r.OutputTokens) / float64(c.BlockTokens)))
}

// fits checks that virtual time is long enough, and that each request can run at all: else
// it would wait for ever.
func (c Config) fits(t *Trace) error {
	const longest = 1 << 60 // of about 2^63 ns; what queues then must end, too
	if last := t.Requests[len(t.Requests)-1].Tick; 2*float64(last)/c.Rate > longest {
		return fmt.Errorf("rate is %v, want more: at that, the trace takes centuries", c.Rate)
	}
	for i := range t.Requests {
		if need := c.blocks(&t.Requests[i]); need > c.PoolBlocks {
			return fmt.Errorf("pool-blocks is %d, want at least %d: request %d of the trace has %d tokens", c.PoolBlocks, need, i+1,
				t.Requests[i].InputTokens+t.Requests[i].OutputTokens)
		}
	}
	return nil
}
