package discovery

import (
	"context"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"

	"github.com/switchyard-llm/switchyard/libs/embedded"
	"github.com/switchyard-llm/switchyard/libs/rpc"
)

func TestMembersSurviveTheLossOfEtcdAndOfItsData(t *testing.T) {
	t.Parallel()
	first := startEtcd(t, "")
	c := open(t, first)
	m := follow(t, c)
	address, _ := serveHealth(t)
	r := register(t, c, worker("decode-0", address))
	background(t, r.Run)
	await(t, m, "the member", func(s Snapshot) bool { return len(s.Live("m")) == 1 })

	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	s := await(t, m, "the outage", func(s Snapshot) bool { return s.Stale })
	if len(s.Live("m")) != 1 {
		t.Errorf("members during the outage: %v, want the last known", s.Members)
	}

	startEtcd(t, first.Endpoint()) // without the data
	await(t, m, "the member in the new etcd", func(s Snapshot) bool {
		return !s.Stale && len(s.Members) == 1 && !s.Members[0].Suspect
	})
	if err := r.Update(within(t), func(in *instancev1.Instance) { in.Draining = true }); err != nil {
		t.Error(err)
	}
	await(t, m, "a change in the new etcd", func(s Snapshot) bool { return s.Members[0].Instance.GetDraining() })
}

func TestARestartOfEtcdWithItsDataDisturbsNobody(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := embedded.StartEtcd(within(t), embedded.EtcdConfig{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, first)
	m := follow(t, c)
	r := register(t, c, worker("decode-0", "127.0.0.1:1"))
	background(t, r.Run)
	await(t, m, "the member", func(s Snapshot) bool { return len(s.Live("")) == 1 })
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, m, "the outage", func(s Snapshot) bool { return s.Stale })
	second, err := embedded.StartEtcd(within(t), embedded.EtcdConfig{Dir: dir, Address: first.Endpoint()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { second.Close() })
	for s := range m.Watch(within(t)) {
		if len(s.Live("")) != 1 {
			t.Errorf("members after the restart: %v, want the same", s.Members)
		}
		if !s.Stale {
			return
		}
	}
	t.Error("etcd never answered again")
}

func TestAnOutageBetweenListAndWatchIsSeen(t *testing.T) {
	t.Parallel()
	etcd := startEtcd(t, "")
	c := open(t, etcd)
	stale := make(chan struct{})
	f := &follower{
		etcd: c.etcd, log: c.log, key: rootKey,
		reset: func([]*mvccpb.KeyValue, int64) {
			if err := etcd.Close(); err != nil {
				t.Error(err)
			}
		},
		stale: func() { close(stale) },
	}
	background(t, func(ctx context.Context) error { f.run(ctx); return nil })
	select {
	case <-stale:
	case <-within(t).Done():
		t.Error("the outage was never told")
	}
}

func TestAConnectionFollowsTheMembersOfItsRole(t *testing.T) {
	t.Parallel()
	c := open(t, startEtcd(t, ""))
	conn, err := rpc.Dial("switchyard:///decodeworker", rpc.DialOptions{Resolvers: builders(c), RoundRobin: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	check := func() error {
		_, err := healthv1.NewHealthClient(conn).Check(within(t), &healthv1.HealthCheckRequest{}, grpc.WaitForReady(true))
		return err
	}
	addressA, stopA := serveHealth(t)
	a := register(t, c, worker("a", addressA))
	if err := check(); err != nil {
		t.Fatalf("call to the first: %v", err)
	}
	kill(t, a)
	stopA()
	addressB, _ := serveHealth(t)
	register(t, c, worker("b", addressB))
	if err := check(); err != nil {
		t.Errorf("call to the second: %v", err)
	}
	wrong, err := rpc.Dial("switchyard:///nobody", rpc.DialOptions{Resolvers: builders(c)})
	if err != nil {
		t.Fatal(err)
	}
	defer wrong.Close()
	_, err = healthv1.NewHealthClient(wrong).Check(within(t), &healthv1.HealthCheckRequest{})
	if err == nil || !strings.Contains(err.Error(), `role "nobody"`) {
		t.Errorf("call to an unknown role: %v, want an error naming it", err)
	}
}

func TestLiveConfigurationIsFollowed(t *testing.T) {
	t.Parallel()
	etcd := startEtcd(t, "")
	c := open(t, etcd)
	key := ConfigKey("org/model", "disagg")
	initial := policy{Policy: "never", Threshold: 16}
	v := NewValue(c, key, initial)
	background(t, v.Run)
	want := func(p policy) {
		t.Helper()
		for got := range v.Watch(within(t)) {
			if got == p {
				return
			}
		}
		t.Fatalf("value %+v, want %+v", v.Load(), p)
	}
	put := func(x any) {
		t.Helper()
		if err := c.PutJSON(within(t), key, x); err != nil {
			t.Fatal(err)
		}
	}
	want(initial)
	put(map[string]any{"policy": "always"})
	want(policy{Policy: "always", Threshold: 16})
	var read policy
	if found, err := c.FetchJSON(within(t), key, &read); err != nil || !found || read.Policy != "always" {
		t.Errorf("FetchJSON: %v, %v, %+v", found, err, read)
	}

	// Invalid values change nothing: what follows them is the proof that they were seen.
	put(map[string]any{"polcy": "never"})
	put(map[string]any{"policy": "perhaps"})
	seen := []policy{}
	put(map[string]any{"policy": "threshold"})
	for got := range v.Watch(within(t)) {
		seen = append(seen, got)
		if got.Policy == "threshold" {
			break
		}
	}
	for _, got := range seen[:len(seen)-1] {
		if got.Policy != "always" {
			t.Errorf("an invalid value was taken: %+v", got)
		}
	}

	if err := etcd.Close(); err != nil {
		t.Fatal(err)
	}
	want(policy{Policy: "threshold", Threshold: 16})
	startEtcd(t, etcd.Endpoint())
	want(initial) // the data is gone, so the key is
	put(map[string]any{"threshold": 64})
	want(policy{Policy: "never", Threshold: 64})
}
