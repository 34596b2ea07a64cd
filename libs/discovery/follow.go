package discovery

import (
	"context"
	"log/slog"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"
)

const (
	// listTimeout bounds one question to etcd while following.
	listTimeout = 2 * time.Second
	// Pauses between attempts while etcd does not answer.
	firstPause, longestPause = 50 * time.Millisecond, time.Second
)

// follower keeps a copy of a part of etcd up to date, in three calls that come one at a
// time: reset with all of it, apply with a change, stale when etcd stops answering.
type follower struct {
	etcd *clientv3.Client
	log  *slog.Logger
	key  string
	opts []clientv3.OpOption

	reset func(all []*mvccpb.KeyValue, revision int64)
	apply func(changes []*clientv3.Event, revision int64)
	stale func()

	cluster  uint64
	revision int64
}

// run follows until ctx ends. After every loss of the connection it lists anew: a watch
// that is merely resumed would wait for ever on an etcd that lost its data.
func (f *follower) run(ctx context.Context) {
	pause := firstPause
	for answering := true; ctx.Err() == nil; {
		err := f.list(ctx)
		if err == nil {
			if !answering {
				f.log.InfoContext(ctx, "etcd answers again", "key", f.key)
			}
			answering, pause = true, firstPause
			f.watch(ctx)
		} else if ctx.Err() == nil {
			if answering {
				f.log.WarnContext(ctx, "etcd does not answer, keeping what is known", "key", f.key, "error", err)
				f.stale()
			}
			answering, pause = false, min(2*pause, longestPause)
		}
		sleep(ctx, pause)
	}
}

func (f *follower) list(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	resp, err := f.etcd.Get(ctx, f.key, f.opts...)
	if err != nil {
		return err
	}
	h := resp.Header
	if f.cluster != 0 && (h.GetClusterId() != f.cluster || h.GetRevision() < f.revision) {
		f.log.WarnContext(ctx, "etcd lost its data", "key", f.key,
			"cluster", h.GetClusterId(), "revision", h.GetRevision(), "last_cluster", f.cluster, "last_revision", f.revision)
	}
	f.cluster, f.revision = h.GetClusterId(), h.GetRevision()
	f.reset(resp.Kvs, f.revision)
	return nil
}

// watch applies changes until the watch or the connection breaks. The broken connection ends
// the watch's context, too: opening a watch waits, else, until etcd is back.
func (f *follower) watch(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	broken := make(chan struct{})
	go func() {
		defer close(broken)
		f.etcd.ActiveConnection().WaitForStateChange(ctx, connectivity.Ready)
		cancel()
	}()
	defer func() { cancel(); <-broken }()
	opts := append([]clientv3.OpOption{clientv3.WithRev(f.revision + 1)}, f.opts...)
	for resp := range f.etcd.Watch(clientv3.WithRequireLeader(ctx), f.key, opts...) {
		if resp.Err() != nil {
			return
		}
		f.revision = resp.Header.GetRevision()
		f.apply(resp.Events, f.revision)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
