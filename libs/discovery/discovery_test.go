package discovery

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"

	"github.com/switchyard-llm/switchyard/libs/embedded"
	"github.com/switchyard-llm/switchyard/libs/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// within bounds every wait of these tests.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func startEtcd(t *testing.T, address string) *embedded.Etcd {
	t.Helper()
	e, err := embedded.StartEtcd(within(t), embedded.EtcdConfig{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func open(t *testing.T, e *embedded.Etcd) *Client {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Endpoints, cfg.LeaseTTL = []string{e.Endpoint()}, time.Second
	c, err := Open(within(t), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// background runs a Run method until the returned function is called or the test ends.
func background(t *testing.T, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

func worker(id, address string) *instancev1.Instance {
	return &instancev1.Instance{
		Id: id, Incarnation: NewIncarnation(time.Now()), Role: instancev1.Role_ROLE_DECODE_WORKER,
		Address: address, Model: &instancev1.ModelCard{Name: "m"},
	}
}

func follow(t *testing.T, c *Client) *Members {
	t.Helper()
	m := c.Members(instancev1.Role_ROLE_DECODE_WORKER)
	background(t, m.Run)
	return m
}

// await returns the first snapshot for which ok holds.
func await(t *testing.T, m *Members, what string, ok func(Snapshot) bool) Snapshot {
	t.Helper()
	for s := range m.Watch(within(t)) {
		if ok(s) {
			return s
		}
	}
	t.Fatalf("never saw %s; last: %+v", what, m.Snapshot())
	return Snapshot{}
}

func register(t *testing.T, c *Client, in *instancev1.Instance) *Registration {
	t.Helper()
	r, err := c.Register(within(t), in)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// kill ends a registration as the death of its process does, but without the wait for the lease.
func kill(t *testing.T, r *Registration) {
	t.Helper()
	if _, err := r.client.etcd.Revoke(within(t), r.lease); err != nil {
		t.Fatal(err)
	}
}

func serveHealth(t *testing.T) (address string, stop func()) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := rpc.NewServer(rpc.ServerOptions{})
	return lis.Addr().String(), background(t, func(ctx context.Context) error { return srv.Serve(ctx, lis, 0) })
}

func TestAMemberComesChangesDrainsAndLeavesAtOnce(t *testing.T) {
	c := open(t, startEtcd(t, ""))
	m := follow(t, c)
	if err := m.Ready(within(t)); err != nil {
		t.Fatal(err)
	}
	in := worker("decode-0", "127.0.0.1:1")
	r := register(t, c, in)
	s := await(t, m, "the member", func(s Snapshot) bool { return len(s.Members) == 1 })
	if !proto.Equal(s.Members[0].Instance, in) {
		t.Errorf("member %v, want %v", s.Members[0].Instance, in)
	}
	if len(s.Serving("m")) != 1 || len(s.Serving("other")) != 0 || len(s.Live("")) != 1 {
		t.Errorf("serving m, other, live any: %d, %d, %d; want 1, 0, 1", len(s.Serving("m")), len(s.Serving("other")), len(s.Live("")))
	}
	stop := background(t, r.Run)
	if err := r.Update(within(t), func(in *instancev1.Instance) { in.Draining, in.Id = true, "x" }); err != nil {
		t.Fatal(err)
	}
	s = await(t, m, "draining", func(s Snapshot) bool { return len(s.Serving("")) == 0 })
	if got, ok := s.Find("decode-0"); !ok || !got.Instance.GetDraining() {
		t.Errorf("draining member %v, want decode-0 with draining", got)
	}
	stop()
	found, err := c.etcd.Get(within(t), r.key)
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Kvs) != 0 {
		t.Error("still in etcd after Run returned")
	}
	await(t, m, "nobody", func(s Snapshot) bool { return len(s.Members) == 0 })
}

func TestWhoeverLeavesIsNoSuspectEvenIfItStillAnswers(t *testing.T) {
	c := open(t, startEtcd(t, ""))
	m := follow(t, c)
	address, _ := serveHealth(t)
	stop := background(t, register(t, c, worker("decode-0", address)).Run)
	await(t, m, "the member", func(s Snapshot) bool { return len(s.Live("")) == 1 })
	stop()
	for s := range m.Watch(within(t)) {
		if len(s.Members) == 0 {
			return
		}
		if s.Members[0].Suspect {
			t.Fatal("it became a suspect")
		}
	}
	t.Error("it never left")
}

func TestALostLeaseIsReplaced(t *testing.T) {
	c := open(t, startEtcd(t, ""))
	m := follow(t, c)
	address, _ := serveHealth(t)
	r := register(t, c, worker("decode-0", address))
	await(t, m, "the member", func(s Snapshot) bool { return len(s.Members) == 1 })
	kill(t, r)
	await(t, m, "the suspect", func(s Snapshot) bool { return s.Members[0].Suspect })
	background(t, r.Run)
	await(t, m, "the member again", func(s Snapshot) bool { return !s.Members[0].Suspect })
}

func TestAnEntryThatSomebodyChangesIsRepaired(t *testing.T) {
	c := open(t, startEtcd(t, ""))
	m := follow(t, c)
	address, _ := serveHealth(t)
	in := worker("decode-0", address)
	r := register(t, c, in)
	background(t, r.Run)
	await(t, m, "the member", func(s Snapshot) bool { return len(s.Members) == 1 })
	former := proto.CloneOf(in)
	former.Incarnation, former.Address = "0", "127.0.0.1:1"
	stale, err := proto.Marshal(former)
	if err != nil {
		t.Fatal(err)
	}
	for what, spoil := range map[string]func() error{
		"deleted":  func() error { _, err := c.etcd.Delete(within(t), r.key); return err },
		"stale":    func() error { _, err := c.etcd.Put(within(t), r.key, string(stale)); return err },
		"nonsense": func() error { _, err := c.etcd.Put(within(t), r.key, "nonsense"); return err },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		for {
			found, err := c.etcd.Get(within(t), r.key)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			var now instancev1.Instance
			if len(found.Kvs) == 1 && proto.Unmarshal(found.Kvs[0].Value, &now) == nil && proto.Equal(&now, in) {
				if found.Kvs[0].Lease != int64(r.lease) {
					t.Errorf("%s: repaired under lease %d, want its own", what, found.Kvs[0].Lease)
				}
				break
			}
		}
		await(t, m, "the member as it is", func(s Snapshot) bool {
			return len(s.Members) == 1 && !s.Members[0].Suspect && proto.Equal(s.Members[0].Instance, in)
		})
	}
}

func TestAnOldEntryDoesNotHideALiveMember(t *testing.T) {
	c := open(t, startEtcd(t, ""))
	m := follow(t, c)
	address, _ := serveHealth(t)
	in := worker("decode-0", address)
	r := register(t, c, in) // nobody repairs its entry
	await(t, m, "the member", func(s Snapshot) bool { return len(s.Members) == 1 })
	former := proto.CloneOf(in)
	former.Incarnation, former.Address = "0", "127.0.0.1:1"
	stale, err := proto.Marshal(former)
	if err == nil {
		_, err = c.etcd.Put(within(t), r.key, string(stale))
	}
	if err != nil {
		t.Fatal(err)
	}
	s := await(t, m, "a confirmed suspect", func(s Snapshot) bool { return s.Members[0].Suspect && s.Members[0].Confirmed })
	if !proto.Equal(s.Members[0].Instance, in) || len(s.Live("m")) != 1 {
		t.Errorf("members %v, want the one that lives", s.Members)
	}
}

func TestADeadMemberGoesAndOneThatAnswersStays(t *testing.T) {
	c := open(t, startEtcd(t, ""))
	m := follow(t, c)
	address, stop := serveHealth(t)
	alive, dead := register(t, c, worker("alive", address)), register(t, c, worker("dead", "127.0.0.1:1"))
	await(t, m, "both", func(s Snapshot) bool { return len(s.Members) == 2 })
	kill(t, alive)
	kill(t, dead)
	s := await(t, m, "one confirmed suspect", func(s Snapshot) bool {
		return len(s.Members) == 1 && s.Members[0].Confirmed && s.Members[0].Suspect
	})
	if id := s.Members[0].Instance.GetId(); id != "alive" || len(s.Live("m")) != 1 {
		t.Errorf("member %s stayed, live %d; want alive, 1", id, len(s.Live("m")))
	}
	stop()
	await(t, m, "nobody, after the next question", func(s Snapshot) bool { return len(s.Members) == 0 })
}

func TestTheCallersOwnLossEndsASuspectOnly(t *testing.T) {
	c := open(t, startEtcd(t, ""))
	m := follow(t, c)
	address, _ := serveHealth(t)
	r := register(t, c, worker("decode-0", address))
	await(t, m, "the member", func(s Snapshot) bool { return len(s.Members) == 1 })
	life := r.Instance().GetIncarnation()
	m.Lost("decode-0", life)
	if len(m.Snapshot().Members) != 1 {
		t.Fatal("a member in etcd went by the caller's word")
	}
	kill(t, r)
	await(t, m, "the suspect", func(s Snapshot) bool { return s.Members[0].Confirmed })
	m.Lost("decode-0", "another life")
	if len(m.Snapshot().Members) != 1 {
		t.Fatal("the loss of another life ended this one")
	}
	m.Lost("decode-0", life)
	if len(m.Snapshot().Members) != 0 {
		t.Error("the suspect stayed after its connection was lost")
	}
}

func TestASuspectGivesWayToWhoeverHasItsAddress(t *testing.T) {
	c := open(t, startEtcd(t, ""))
	m := follow(t, c)
	address, _ := serveHealth(t)
	old := register(t, c, worker("old", address))
	await(t, m, "the first", func(s Snapshot) bool { return len(s.Members) == 1 })
	kill(t, old)
	await(t, m, "the suspect", func(s Snapshot) bool { return s.Members[0].Confirmed })
	register(t, c, worker("new", address))
	s := await(t, m, "the new one alone", func(s Snapshot) bool { _, ok := s.Find("new"); return ok })
	if len(s.Members) != 1 {
		t.Errorf("members %v, want only new", s.Members)
	}
}

func TestTheLaterLifeKeepsTheEntry(t *testing.T) {
	c := open(t, startEtcd(t, ""))
	older := worker("decode-0", "127.0.0.1:1")
	newer := worker("decode-0", "127.0.0.1:2")
	register(t, c, older)
	register(t, c, newer)
	if _, err := c.Register(within(t), older); err == nil || !strings.Contains(err.Error(), ErrSuperseded.Error()) {
		t.Errorf("the older life: %v, want %v", err, ErrSuperseded)
	}
}

func TestWhatCannotBeRegisteredIsNamed(t *testing.T) {
	c := open(t, startEtcd(t, ""))
	for want, spoil := range map[string]func(*instancev1.Instance){
		"id":          func(in *instancev1.Instance) { in.Id = "a/b" },
		"incarnation": func(in *instancev1.Instance) { in.Incarnation = "" },
		"role":        func(in *instancev1.Instance) { in.Role = 0 },
		"address":     func(in *instancev1.Instance) { in.Address = "here" },
	} {
		in := worker("decode-0", "127.0.0.1:1")
		spoil(in)
		if _, err := c.Register(t.Context(), in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("spoiled %s: %v", want, err)
		}
	}
}

func TestLaterIncarnationsSortLater(t *testing.T) {
	now := time.Now()
	lives := []string{NewIncarnation(now), NewIncarnation(now.Add(time.Nanosecond)), NewIncarnation(now.Add(time.Hour)), NewIncarnation(now.AddDate(200, 0, 0))}
	if !slices.IsSorted(lives) {
		t.Errorf("not sorted: %v", lives)
	}
	if NewIncarnation(now) == NewIncarnation(now) {
		t.Error("two lives of one instant are equal")
	}
}

func TestAnUnreachableEtcdIsOneErrorInTime(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Endpoints, cfg.DialTimeout = []string{"127.0.0.1:1"}, 300*time.Millisecond
	begin := time.Now()
	_, err := Open(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") || strings.Contains(err.Error(), "\n") {
		t.Errorf("Open = %v, want one line naming the endpoint", err)
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
}
