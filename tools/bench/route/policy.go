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
	// Booked tells of a request that a worker was sent, by this processor or, if they share
	// bookings, another.
	Booked(b Booking)
	// FirstToken tells that the prompt of a booked request is computed.
	FirstToken(b Booking)
	// Ended tells that a booked request is done.
	Ended(b Booking)
	// Report gives a worker's load.
	Report(now time.Duration, worker int, r Report)
}

// Choice is a worker and what the policy takes to be missing there.
type Choice struct {
	Worker int
	// Uncached are the prompt's tokens that are to be computed.
	Uncached int

	note any // what the policy tells those of other processors
}

// Booking is a request that a worker was sent.
type Booking struct {
	Request *Request
	Choice
	// Number counts the requests of that worker, from 1.
	Number uint64
	// Processor is whose booking it is.
	Processor int
}

// Report is a worker's load.
type Report struct {
	// Accepted is the number of the last booking that it includes, AcceptedOf how many those
	// of each processor are.
	Accepted   uint64
	AcceptedOf []uint64
	// Prefill are prompt tokens not computed yet; for prompts that wait, as booked.
	Prefill int
	// Decode are the tokens of the sequences that generate, and Decoding how many they are.
	Decode, Decoding int
	// Waiting are sequences without their first token, Begun those of them whose prefill has begun,
	// BegunTokens the length of their prompts.
	Waiting, Begun, BegunTokens int
	// Used are blocks of the pool that sequences use.
	Used int
	// Done is what the worker did so far.
	Done Work
}

// Work counts what a worker did since its start.
type Work struct {
	Passes, PromptTokens, Generated, FirstTokens uint64
	// Context is what the tokens of the sequences that generate came to, added up over the passes.
	Context uint64
	// PromptBusy was spent in passes that computed prompts, DecodeBusy in the others.
	PromptBusy, DecodeBusy time.Duration
}

// Cluster is what policies may look at beside what they are told.
type Cluster struct {
	Config Config
	Trace  *Trace

	caches []*cache
	chains *chains // of the policies that need them
}

// Resident is how many leading blocks of the prompt a worker has, but never its last token.
func (c *Cluster) Resident(worker int, r *Request) int {
	blocks, _ := c.caches[worker].match(r, c.Config.BlockTokens)
	return blocks
}

// listener is a policy that wants each worker's events.
type listener interface {
	Policy
	listen(worker int) watcher
}

// preparer is a policy that makes something of a request before it decides, which is no
// part of the decision.
type preparer interface{ prepare(r *Request) }

// maker makes a policy for one processor.
type maker func(c *Cluster, processor int, random *rand.Rand) (Policy, error)

// simple makes policies that need no more, and can always be made.
func simple(make func(*Cluster, *rand.Rand) Policy) maker {
	return func(c *Cluster, _ int, random *rand.Rand) (Policy, error) { return make(c, random), nil }
}

// policies are the routing policies by name, in the order in which they are shown.
func policies(kv KVConfig) []namedMaker {
	return []namedMaker{
		{"round-robin", simple(newRoundRobin)},
		{"random", simple(newRandom)},
		{"least-loaded", simple(newLeastLoaded)},
		{"power-of-two", simple(newPowerOfTwo)},
		{"dynamo", simple(newDynamo)},
		{"exact", simple(func(c *Cluster, random *rand.Rand) Policy { return newExact(c, random, kv) })},
		{"kv", func(c *Cluster, processor int, random *rand.Rand) (Policy, error) {
			return newKV(c, processor, random, kv)
		}},
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
