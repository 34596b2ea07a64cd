package router

import (
	"errors"
	"slices"
	"strings"
)

// Policy names a way of picking workers.
type Policy string

const (
	// KV takes the lowest cost: uncached prompt, active prefill and active decode.
	KV Policy = "kv"
	// RoundRobin takes one after the other.
	RoundRobin Policy = "round-robin"
	// Random takes any.
	Random Policy = "random"
	// LeastLoaded takes the lowest active prefill and decode, whatever is cached.
	LeastLoaded Policy = "least-loaded"
	// PowerOfTwo draws two and takes the less loaded one.
	PowerOfTwo Policy = "power-of-two"
	// Session gives requests of one session to one worker as long as it is there, and spreads
	// the sessions evenly; a request without one goes by KV.
	Session Policy = "session"
	// Direct takes the worker that the request names, and refuses a request that names none.
	Direct Policy = "direct"
)

var policies = []Policy{KV, RoundRobin, Random, LeastLoaded, PowerOfTwo, Session, Direct}

// Policies lists their names.
func Policies() []Policy { return slices.Clone(policies) }

func names() string {
	list := make([]string, len(policies))
	for i, p := range policies {
		list[i] = string(p)
	}
	return strings.Join(list, ", ")
}

func (p Policy) valid() bool { return slices.Contains(policies, p) }

// UnmarshalText takes the name of a policy.
func (p *Policy) UnmarshalText(text []byte) error {
	if !Policy(text).valid() {
		return errors.New("want one of " + names()) // who reads it names the key and the text
	}
	*p = Policy(text)
	return nil
}

// MarshalText gives the name of the policy.
func (p Policy) MarshalText() ([]byte, error) { return []byte(p), nil }
