package discovery

import (
	"context"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
)

// Members follows the members of one role.
type Members struct {
	client *Client
	log    *slog.Logger
	prefix string
	probe  func(context.Context, *instancev1.Instance) error
	asked  chan struct{} // there may be suspects to ask

	snapshot *cell[Snapshot]

	mu       sync.Mutex         // guards the rest
	known    map[string]*Member // by id; an entry is replaced, never changed, once in a snapshot
	revision int64
	stale    bool
}

// Members prepares to follow a role; it starts nothing.
func (c *Client) Members(role instancev1.Role) *Members {
	return &Members{
		client:   c,
		log:      c.log.With("role", RoleName(role)),
		prefix:   InstanceKey(role, ""),
		probe:    c.askHealth,
		asked:    make(chan struct{}, 1),
		snapshot: newCell(Snapshot{}),
		known:    make(map[string]*Member),
	}
}

// Run follows etcd until ctx ends and returns nil. It is called once.
func (m *Members) Run(ctx context.Context) error {
	f := &follower{
		etcd:  m.client.etcd,
		log:   m.log,
		key:   m.prefix,
		opts:  []clientv3.OpOption{clientv3.WithPrefix()},
		reset: m.reset,
		apply: m.apply,
		stale: m.lostSight,
	}
	var asking sync.WaitGroup
	asking.Go(func() { m.askSuspects(ctx) })
	f.run(ctx)
	asking.Wait()
	return nil
}

// Ready waits until the members have been listed once.
func (m *Members) Ready(ctx context.Context) error { return m.snapshot.ready(ctx) }

// Snapshot is the members now; empty before Ready.
func (m *Members) Snapshot() Snapshot { return m.snapshot.load() }

// Watch yields the members once they are known, and again after each change until ctx
// ends. A slow reader skips changes but always gets the last one.
func (m *Members) Watch(ctx context.Context) iter.Seq[Snapshot] { return m.snapshot.watch(ctx) }

// Lost tells that the caller's own connection to that life of a member failed. If the
// member is a suspect it goes at once; else etcd's word counts.
func (m *Members) Lost(id, incarnation string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.known[id]; ok && e.Suspect && e.Instance.GetIncarnation() == incarnation {
		delete(m.known, id)
		m.publish()
	}
}

func (m *Members) reset(all []*mvccpb.KeyValue, revision int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	listed := make(map[string]bool, len(all))
	for _, kv := range all {
		listed[m.id(kv.Key)] = true
		m.put(kv)
	}
	for id := range m.known {
		if !listed[id] {
			m.vanish(id)
		}
	}
	m.revision, m.stale = revision, false
	m.publish()
}

func (m *Members) apply(changes []*clientv3.Event, revision int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, change := range changes {
		if change.Type == clientv3.EventTypeDelete {
			m.vanish(m.id(change.Kv.Key))
		} else {
			m.put(change.Kv)
		}
	}
	m.revision = revision
	m.publish()
}

func (m *Members) lostSight() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stale = true
	// Before the first list nothing is known, and Ready must not say otherwise.
	if _, set, _ := m.snapshot.state(); set {
		m.publish()
	}
}

func (m *Members) id(key []byte) string { return strings.TrimPrefix(string(key), m.prefix) }

func (m *Members) put(kv *mvccpb.KeyValue) {
	in := new(instancev1.Instance)
	id := m.id(kv.Key)
	if err := proto.Unmarshal(kv.Value, in); err != nil || in.GetId() != id {
		m.log.Warn("entry in etcd is no instance of its key", "key", string(kv.Key), "error", err)
		return
	}
	if e, ok := m.known[id]; ok && !e.Suspect && e.Instance.GetIncarnation() > in.GetIncarnation() {
		// Somebody has put an old entry over that of a process that may well live.
		m.log.Warn("entry in etcd is of a former life", "key", string(kv.Key), "incarnation", in.GetIncarnation())
		m.vanish(id)
		return
	}
	m.known[id] = &Member{Instance: in}
	// Whoever listens at a suspect's address now has taken its place.
	for other, e := range m.known {
		if e.Suspect && e.Instance.GetAddress() == in.GetAddress() {
			delete(m.known, other)
		}
	}
}

func (m *Members) vanish(id string) {
	e, ok := m.known[id]
	switch {
	case !ok || e.Suspect:
	case e.Instance.GetDraining():
		delete(m.known, id)
	default:
		m.known[id] = &Member{Instance: e.Instance, Suspect: true}
		select {
		case m.asked <- struct{}{}:
		default:
		}
	}
}

// publish makes the snapshot that others see.
func (m *Members) publish() {
	s := Snapshot{Members: make([]Member, 0, len(m.known)), Revision: m.revision, Stale: m.stale}
	for _, e := range m.known {
		s.Members = append(s.Members, *e)
	}
	slices.SortFunc(s.Members, func(a, b Member) int {
		return strings.Compare(a.Instance.GetId(), b.Instance.GetId())
	})
	m.snapshot.store(s)
}
