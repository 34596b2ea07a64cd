package discovery

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
)

// leaveTimeout bounds the good-bye of a process whose etcd does not answer.
const leaveTimeout = time.Second

// ErrSuperseded says that a later life of the same id is registered.
var ErrSuperseded = errors.New("a later life of this instance is registered")

// Registration is this process's entry in etcd.
type Registration struct {
	client *Client
	key    string
	wake   chan struct{} // an update waits to be written

	// These belong to Register, and to Run after it.
	lease    clientv3.LeaseID
	revision int64 // of etcd, at the latest writing of the entry

	mu       sync.Mutex // guards the rest
	instance *instancev1.Instance
	version  uint64        // counts updates of instance
	written  uint64        // the version in etcd
	progress chan struct{} // closed when written rises
}

// Register writes an instance into etcd under a new lease. It stays for the lease's time
// unless Run is called, which it must be. Errors: a field that is missing, ErrSuperseded,
// or etcd's.
func (c *Client) Register(ctx context.Context, in *instancev1.Instance) (*Registration, error) {
	if err := checkInstance(in); err != nil {
		return nil, err
	}
	r := &Registration{
		client:   c,
		key:      InstanceKey(in.GetRole(), in.GetId()),
		wake:     make(chan struct{}, 1),
		instance: proto.CloneOf(in),
		version:  1,
		progress: make(chan struct{}),
	}
	if err := r.refresh(ctx); err != nil {
		return nil, fmt.Errorf("register %s: %w", r.key, err)
	}
	return r, nil
}

// Instance is a copy of what is, or shall be, in etcd.
func (r *Registration) Instance() *instancev1.Instance {
	r.mu.Lock()
	defer r.mu.Unlock()
	return proto.CloneOf(r.instance)
}

// Update changes the instance, and waits until Run has written it. When ctx ends first
// the change is still written later. Id, role and incarnation cannot be changed.
func (r *Registration) Update(ctx context.Context, change func(*instancev1.Instance)) error {
	want := r.change(change)
	for {
		r.mu.Lock()
		done, progress := r.written >= want, r.progress
		r.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-progress:
		case <-ctx.Done():
			return fmt.Errorf("update %s: %w", r.key, ctx.Err())
		}
	}
}

func (r *Registration) change(change func(*instancev1.Instance)) (version uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := proto.CloneOf(r.instance)
	change(next)
	next.Id, next.Role, next.Incarnation = r.instance.GetId(), r.instance.GetRole(), r.instance.GetIncarnation()
	r.instance = next
	r.version++
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return r.version
}

// Run keeps the instance registered until ctx ends: it renews the lease, writes updates,
// and registers anew, for ever, after an outage of etcd, the loss of the lease, or when
// somebody else has changed or deleted the entry. At the
// end it says that it drains and deregisters at once. It returns nil, and is called once.
func (r *Registration) Run(ctx context.Context) error {
	log := r.client.log.With("key", r.key)
	beat := r.client.cfg.LeaseTTL / 3
	timer := time.NewTimer(beat)
	defer timer.Stop()
	pause, registered := firstPause, true
	for {
		select {
		case <-ctx.Done():
			r.leave(context.WithoutCancel(ctx))
			return nil
		case <-r.wake:
		case <-timer.C:
		}
		attempt, cancel := context.WithTimeout(ctx, listTimeout)
		err := r.refresh(attempt)
		cancel()
		switch {
		case err == nil:
			if !registered {
				log.InfoContext(ctx, "registered again")
			}
			registered, pause = true, firstPause
			timer.Reset(beat)
		case ctx.Err() == nil:
			if registered {
				log.WarnContext(ctx, "registration is in doubt, trying on", "error", err)
			}
			registered, pause = false, min(2*pause, longestPause)
			timer.Reset(pause)
		}
	}
}

// refresh renews the lease, or gets a new one, and writes the instance if etcd does not
// have its latest version under that lease, as it was written.
func (r *Registration) refresh(ctx context.Context) error {
	etcd := r.client.etcd
	if r.lease != clientv3.NoLease {
		_, err := etcd.KeepAliveOnce(ctx, r.lease)
		switch {
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			r.forget()
		case err != nil:
			return fmt.Errorf("renew lease: %w", err)
		}
	}
	if r.lease == clientv3.NoLease {
		granted, err := etcd.Grant(ctx, int64((r.client.cfg.LeaseTTL+time.Second-1)/time.Second))
		if err != nil {
			return fmt.Errorf("grant lease: %w", err)
		}
		r.lease = granted.ID
	}
	r.mu.Lock()
	in, version, written := r.instance, r.version, r.written
	r.mu.Unlock()
	if written == version {
		found, err := r.client.etcd.Get(ctx, r.key, clientv3.WithKeysOnly())
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if len(found.Kvs) == 1 && found.Kvs[0].ModRevision == r.revision {
			return nil
		}
		r.client.log.WarnContext(ctx, "somebody else has changed or deleted the entry of this instance", "key", r.key)
	}
	if err := r.put(ctx, in); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written = version
	close(r.progress)
	r.progress = make(chan struct{})
	return nil
}

// forget notes that etcd has neither the lease nor what was under it.
func (r *Registration) forget() {
	r.lease = clientv3.NoLease
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written = 0
}

// put writes the instance unless a later life is there: a process that was frozen must
// not take the place of the one started after it.
func (r *Registration) put(ctx context.Context, in *instancev1.Instance) error {
	data, err := proto.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode instance: %w", err)
	}
	for {
		found, err := r.client.etcd.Get(ctx, r.key)
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		var revision int64
		if len(found.Kvs) > 0 {
			revision = found.Kvs[0].ModRevision
			var other instancev1.Instance
			if err := proto.Unmarshal(found.Kvs[0].Value, &other); err == nil && other.GetIncarnation() > in.GetIncarnation() {
				return fmt.Errorf("%w: %s at %s", ErrSuperseded, other.GetIncarnation(), other.GetAddress())
			}
		}
		resp, err := r.client.etcd.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(r.key), "=", revision)).
			Then(clientv3.OpPut(r.key, string(data), clientv3.WithLease(r.lease))).
			Commit()
		if errors.Is(err, rpctypes.ErrLeaseNotFound) {
			r.forget()
		}
		if err != nil {
			return fmt.Errorf("write: %w", err)
		}
		if resp.Succeeded {
			r.revision = resp.Header.GetRevision()
			return nil
		}
	}
}

// leave says that the instance drains, so that nobody takes its end for a death, and
// revokes the lease. etcd forgets the instance by itself if it does not hear this.
func (r *Registration) leave(ctx context.Context) {
	if r.lease == clientv3.NoLease {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	r.change(func(in *instancev1.Instance) { in.Draining = true })
	if err := r.refresh(ctx); err != nil {
		r.client.log.WarnContext(ctx, "could not say that this instance drains", "key", r.key, "error", err)
	}
	if _, err := r.client.etcd.Revoke(ctx, r.lease); err != nil {
		r.client.log.WarnContext(ctx, "could not deregister, the lease will end", "key", r.key, "error", err)
	}
}
