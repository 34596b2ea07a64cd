package discovery

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc/resolver"
)

// Scheme is the scheme of resolver targets, as in switchyard:///processor.
const Scheme = "switchyard"

// Resolver gives gRPC connections the addresses of a role's members that may be given
// work, and follows them. It is handed to rpc.Dial.
func (c *Client) Resolver() resolver.Builder { return builder{c} }

type builder struct{ client *Client }

var _ resolver.Builder = builder{}

// Scheme is Scheme.
func (builder) Scheme() string { return Scheme }

// Build follows the members of the target's role until the connection is closed.
func (b builder) Build(target resolver.Target, conn resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	role, err := ParseRole(target.Endpoint())
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", target.URL.String(), err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &following{cancel: cancel}
	members := b.client.Members(role)
	f.running.Go(func() { _ = members.Run(ctx) }) // nil, by its contract
	f.running.Go(func() {
		for s := range members.Watch(ctx) {
			// An error only asks for a repetition, which the next change is; no members make
			// calls fail at once, which is what they should.
			_ = conn.UpdateState(state(s))
		}
	})
	return f, nil
}

func state(s Snapshot) resolver.State {
	var out resolver.State
	for _, in := range s.Serving("") {
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
