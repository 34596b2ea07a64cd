package discovery

import (
	"context"
	"iter"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Value is live configuration: a JSON value in etcd that may change at any time. T is a
// struct without maps and pointers, so that a copy shares nothing.
type Value[T any] struct {
	client  *Client
	key     string
	initial T
	current *cell[T]
}

// NewValue prepares to follow a key, such as ConfigKey(model, "disagg"); it starts
// nothing. initial counts until the key is read and while it does not exist. What the
// JSON does not name has its value from initial; a name that T does not know makes it
// invalid, and so does an error of *T's Validate, if it has one. An invalid value is
// logged and changes nothing.
func NewValue[T any](c *Client, key string, initial T) *Value[T] {
	return &Value[T]{client: c, key: key, initial: initial, current: newCell(initial)}
}

// Run follows the key until ctx ends and returns nil; while etcd does not answer the last
// value stays. It is called once.
func (v *Value[T]) Run(ctx context.Context) error {
	f := &follower{
		etcd: v.client.etcd,
		log:  v.client.log,
		key:  v.key,
		reset: func(all []*mvccpb.KeyValue, _ int64) {
			if len(all) == 0 {
				v.current.store(v.initial)
				return
			}
			v.take(all[0])
		},
		apply: func(changes []*clientv3.Event, _ int64) {
			for _, change := range changes {
				if change.Type == clientv3.EventTypeDelete {
					v.current.store(v.initial)
				} else {
					v.take(change.Kv)
				}
			}
		},
		stale: func() {},
	}
	f.run(ctx)
	return nil
}

func (v *Value[T]) take(kv *mvccpb.KeyValue) {
	next := v.initial
	if err := strictJSON(kv.Value, &next); err != nil {
		v.client.log.Warn("live configuration is invalid, keeping the last", "key", v.key, "error", err)
		next = v.current.load()
	}
	v.current.store(next)
}

// Ready waits until the key has been read once.
func (v *Value[T]) Ready(ctx context.Context) error { return v.current.ready(ctx) }

// Load is the value now.
func (v *Value[T]) Load() T { return v.current.load() }

// Watch yields the value once it is read, and again after each change until ctx ends. A
// slow reader skips values but always gets the last one.
func (v *Value[T]) Watch(ctx context.Context) iter.Seq[T] { return v.current.watch(ctx) }
