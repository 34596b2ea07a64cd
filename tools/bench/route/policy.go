package route

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Policy picks workers. Each processor has one of its own. It knows what a router knows:
// what it is told here, and what blocks are resident, from events that are never late.
type Policy interface {
	// Pick chooses a worker for a request.
	Pick(now time.Duration, r *Request) Choice
	// Booked tells of a request that a worker was sent, by this or another processor.
	Booked(b Booking)
	// FirstToken tells that the prompt of a booked request is computed.
	FirstToken(b Booking)
	// Ended tells that a booked request is done.
	Ended(b Booking)
	// Report gives a worker's load.
	Report(worker int, r Report)
}

// Choice is a worker and what the policy takes to be missing there.
type Choice struct {
	Worker int
	// Uncached are the prompt's tokens that are to be computed.
	Uncached int
}

// Booking is a request that a worker was sent.
type Booking struct {
	Request *Request
	Choice
	// Number counts the requests of that worker, from 1.
	Number uint64
}

// Report is a worker's load.
type Report struct {
	// Accepted is the number of the last booking that it includes.
	Accepted uint64
	// Prefill are prompt tokens not computed yet; for prompts that wait, as booked.
	Prefill int
	// Decode are the tokens of the sequences that generate, and Decoding how many they are.
	Decode, Decoding int
	// Waiting are sequences without their first token.
	Waiting int
	// Used are blocks of the pool that sequences use.
	Used int
}

// Cluster is what policies may look at beside what they are told.
type Cluster struct {
	Config Config
	Runs   int // as Trace.Runs

	caches []*cache
}

// Resident is how many leading blocks of the prompt a worker has, but never its last token.
func (c *Cluster) Resident(worker int, r *Request) int {
	blocks, _ := c.caches[worker].match(r, c.Config.BlockTokens)
	return blocks
}

// maker makes a policy for one processor.
type maker func(*Cluster, *rand.Rand) Policy

// policies are the routing policies by name, in the order in which they are shown.
func policies(kv KVConfig) []namedMaker {
	return []namedMaker{
		{"round-robin", newRoundRobin},
		{"random", newRandom},
		{"least-loaded", newLeastLoaded},
		{"power-of-two", newPowerOfTwo},
		{"dynamo", newDynamo},
		{"kv", func(c *Cluster, random *rand.Rand) Policy { return newKV(c, random, kv) }},
	}
}

type namedMaker struct {
	name string
	make maker
}

// Policies lists the names of the routing policies.
func Policies() []string {
	var names []string
	for _, p := range policies(KVConfig{}) {
		names = append(names, p.name)
	}
	return names
}

func makerOf(name string, kv KVConfig) (maker, error) {
	for _, p := range policies(kv) {
		if p.name == name {
			return p.make, nil
		}
	}
	return nil, fmt.Errorf("policy is %q, want one of %s", name, strings.Join(Policies(), ", "))
}
