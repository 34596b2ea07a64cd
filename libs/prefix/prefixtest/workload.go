// Package prefixtest makes workloads for prefix indexes out of request traces: what is looked up, stored and removed,
// and the right answer of each lookup. It is for tests and measurements; other indexes read the same from a file.
package prefixtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/prefix"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// Config says how a trace becomes a workload.
type Config struct {
	Workers    int
	PoolBlocks int     // of each worker
	Holes      float64 // the part of the removed blocks that are any block instead of the longest unused
	Blocks     int     // for each hash id of the trace
	Requests   int     // at most so many; 0: all
}

// DefaultConfig is 16 blocks of 32 tokens for an id of 512 tokens, and pools of 32,000 blocks.
func DefaultConfig(workers int) Config {
	return Config{Workers: workers, PoolBlocks: 32_000, Blocks: 16}
}

// Workload is requests in their order.
type Workload struct {
	Workers  int
	Root     block.Hash
	Requests []Request
}

// Request is looked up on all workers, then its worker stores and removes.
type Request struct {
	Worker  int
	Chain   []block.Hash
	Removed []block.Hash
	Stored  []Range // of Chain
	// Answer is the Digest of the leading blocks that each worker has before this request.
	Answer uint64
}

// Range is the blocks From ≤ i < To of a chain.
type Range struct{ From, To int }

// Digest adds one worker's leading blocks to an answer, in any order.
func Digest(worker int, lead uint32) uint64 {
	return uint64(lead) * (2*uint64(worker) + 1) * 0x9E37_79B9_7F4A_7C15
}

// Load makes a workload of a trace in the Mooncake format, a line of JSON for each request. Requests go to workers at
// random, always the same.
func Load(path string, config Config) (*Workload, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open trace: %w", err)
	}
	defer file.Close()
	maker := newMaker(config)
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() && (config.Requests == 0 || len(maker.made.Requests) < config.Requests) {
		var line struct {
			IDs []uint32 `json:"hash_ids"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("trace %s, request %d: %w", path, len(maker.made.Requests), err)
		}
		maker.request(line.IDs)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read trace %s: %w", path, err)
	}
	return maker.made, nil
}

type maker struct {
	config Config
	made   *Workload
	pools  []*pool
	random *rand.Rand
}

func newMaker(config Config) *maker {
	m := &maker{
		config: config,
		made:   &Workload{Workers: config.Workers, Root: prefix.Root("trace", "", "")},
		random: rand.New(rand.NewPCG(1, uint64(config.Workers))),
	}
	for range config.Workers {
		m.pools = append(m.pools, newPool())
	}
	return m
}

func (m *maker) request(ids []uint32) {
	r := Request{Worker: m.random.IntN(m.config.Workers)}
	tokens := make([]sequence.Token, 0, 2*m.config.Blocks*len(ids))
	for _, id := range ids {
		for i := range m.config.Blocks {
			tokens = append(tokens, sequence.Token(id), sequence.Token(i))
		}
	}
	r.Chain = prefix.Chain(make([]block.Hash, 0, len(tokens)/2), m.made.Root, tokens, 2)
	for w, p := range m.pools {
		r.Answer += Digest(w, uint32(p.lead(r.Chain)))
	}
	own := m.pools[r.Worker]
	r.Stored = own.use(r.Chain)
	r.Removed = own.evict(m.config.PoolBlocks, m.config.Holes, m.random)
	m.made.Requests = append(m.made.Requests, r)
}
