package discovery

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"

	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"

	"github.com/switchyard-llm/switchyard/libs/rpc"
)

// oddNames are names that a URL would take apart.
var oddNames = []string{"plain", "meta-llama/Llama 3.1", "ü&model=plain", "a?b#c%2F+;", "日本\n", "\"'\\"}

// serveOf registers a server as a worker of a model.
func serveOf(t *testing.T, c *Client, id, model string) (address string, r *Registration) {
	t.Helper()
	address, _ = serveHealth(t)
	in := worker(id, address)
	in.Model = &instancev1.ModelCard{Name: model}
	return address, register(t, c, in)
}

// reached is the address at which a call over a connection arrives.
func reached(t *testing.T, conn *grpc.ClientConn, opts ...grpc.CallOption) (string, error) {
	t.Helper()
	var at peer.Peer
	_, err := healthv1.NewHealthClient(conn).Check(within(t), &healthv1.HealthCheckRequest{}, append(opts, grpc.Peer(&at))...)
	if err != nil {
		return "", err
	}
	return at.Addr.String(), nil
}

func dialModel(t *testing.T, of resolver.Builder, model string) *grpc.ClientConn {
	t.Helper()
	conn, err := rpc.Dial(Target(instancev1.Role_ROLE_DECODE_WORKER, model), rpc.DialOptions{Resolvers: []resolver.Builder{of}, RoundRobin: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestAConnectionReachesOnlyTheMembersOfItsModel(t *testing.T) {
	t.Parallel()
	c := open(t, startEtcd(t, ""))
	want := map[string]string{}
	for i, model := range oddNames {
		want[model], _ = serveOf(t, c, string(rune('a'+i)), model)
	}
	shared := follow(t, c)
	for _, model := range oddNames {
		for name, of := range map[string]resolver.Builder{"own": c.Resolver(), "shared": shared.Resolver()} {
			conn := dialModel(t, of, model)
			for range 3 {
				if at, err := reached(t, conn, grpc.WaitForReady(true)); err != nil || at != want[model] {
					t.Errorf("%s members, model %q: %s, %v, want %s", name, model, at, err, want[model])
				}
			}
		}
	}
	if _, err := reached(t, dialModel(t, shared.Resolver(), "nobody's")); rpc.Code(err) != codes.Unavailable {
		t.Errorf("a model that nobody serves: %v, want UNAVAILABLE", err)
	}
}

// The members of a model take turns; one that drains, and one that is not there any more, get nothing.
func TestTheMembersOfAModelTakeTurns(t *testing.T) {
	t.Parallel()
	c := open(t, startEtcd(t, ""))
	first, _ := serveOf(t, c, "a", "m")
	second, drains := serveOf(t, c, "b", "m")
	background(t, drains.Run)
	refusing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refusing.Close()
	gone := worker("c", refusing.Addr().String()) // in etcd still, as long as its lease lasts
	register(t, c, gone)
	conn := dialModel(t, follow(t, c).Resolver(), "m")
	turns := func(want ...string) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); ; {
			seen := map[string]int{}
			for range 6 {
				at, err := reached(t, conn, grpc.WaitForReady(true))
				if err != nil {
					t.Fatal(err)
				}
				seen[at]++
			}
			fair := len(seen) == len(want)
			for _, at := range want {
				fair = fair && seen[at] == 6/len(want)
			}
			if fair {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("calls went to %v, want equally many to %q", seen, want)
			}
		}
	}
	turns(first, second)
	if err := drains.Update(within(t), func(in *instancev1.Instance) { in.Draining = true }); err != nil {
		t.Fatal(err)
	}
	turns(first)
}

func TestAConnectionLivesOnTheMembersKnownLastWhileEtcdIsAway(t *testing.T) {
	t.Parallel()
	e := startEtcd(t, "")
	c := open(t, e)
	address, _ := serveOf(t, c, "a", "m")
	members := follow(t, c)
	await(t, members, "the member", func(s Snapshot) bool { return len(s.Serving("m")) == 1 })
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, members, "the outage", func(s Snapshot) bool { return s.Stale })
	// A connection made only now knows them, too.
	if at, err := reached(t, dialModel(t, members.Resolver(), "m"), grpc.WaitForReady(true)); err != nil || at != address {
		t.Errorf("%s, %v, want %s", at, err, address)
	}
}

func TestMembersResolveTheirOwnRoleOnly(t *testing.T) {
	t.Parallel()
	c := open(t, startEtcd(t, ""))
	conn, err := rpc.Dial(Target(instancev1.Role_ROLE_PLANNER, ""), rpc.DialOptions{Resolvers: []resolver.Builder{c.Members(instancev1.Role_ROLE_PROCESSOR).Resolver()}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err = healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{}); err == nil || !strings.Contains(err.Error(), "another role") {
		t.Errorf("%v, want an error that says so", err)
	}
}
