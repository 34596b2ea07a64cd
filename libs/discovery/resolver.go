package discovery

import (
	"context"
	"fmt"
	"net/url"
	"sync"

	"google.golang.org/grpc/resolver"

	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
)

// Scheme is the scheme of resolver targets; see Target.
const Scheme = "switchyard"

// modelParameter is the part of a target's query that names a model.
const modelParameter = "model"

// Target is what rpc.Dial takes to reach the members of a role that serve a model, such as
// switchyard:///processor?model=m. An empty model means all of the role. A name may hold any
// characters.
func Target(role instancev1.Role, model string) string {
	target := Scheme + ":///" + RoleName(role)
	if model != "" {
		target += "?" + url.Values{modelParameter: {model}}.Encode()
	}
	return target
}

// Resolver gives gRPC connections the addresses of a role's members that may be given
// work, and follows them. It is handed to rpc.Dial.
func (c *Client) Resolver() resolver.Builder {
	return builder{func(role instancev1.Role) (*Members, bool) { return c.Members(role), false }}
}

// Resolver is as that of the client, but for targets of this role alone, and it asks nobody: all
// connections go by what m knows. Run must be running.
func (m *Members) Resolver() resolver.Builder {
	return builder{func(role instancev1.Role) (*Members, bool) {
		if m.prefix != InstanceKey(role, "") {
			return nil, false
		}
		return m, true
	}}
}

// builder makes resolvers out of members; those that do not run yet it runs.
type builder struct {
	members func(instancev1.Role) (m *Members, runs bool)
}

var _ resolver.Builder = builder{}

// Scheme is Scheme.
func (builder) Scheme() string { return Scheme }

// Build follows the members of the target's role until the connection is closed.
func (b builder) Build(target resolver.Target, conn resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	role, err := ParseRole(target.Endpoint())
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", target.URL.String(), err)
	}
	members, runs := b.members(role)
	if members == nil {
		return nil, fmt.Errorf("resolve %s: the members of another role are followed", target.URL.String())
	}
	model := target.URL.Query().Get(modelParameter)
	ctx, cancel := context.WithCancel(context.Background())
	f := &following{cancel: cancel}
	if !runs {
		f.running.Go(func() { _ = members.Run(ctx) }) // nil, by its contract
	}
	f.running.Go(func() {
		for s := range members.Watch(ctx) {
			// An error only asks for a repetition, which the next change is; no members make
			// calls fail at once, which is what they should.
			_ = conn.UpdateState(state(s, model))
		}
	})
	return f, nil
}

func state(s Snapshot, model string) resolver.State {
	var out resolver.State
	for _, in := range s.Serving(model) {
		out.Endpoints = append(out.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: in.GetAddress()}}})
	}
	return out
}

// following is a resolver at work.
type following struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// ResolveNow does nothing: changes come by themselves.
func (*following) ResolveNow(resolver.ResolveNowOptions) {}

// Close ends the following and waits for that.
func (f *following) Close() {
	f.cancel()
	f.running.Wait()
}
