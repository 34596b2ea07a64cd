package frontend

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	"github.com/switchyard-llm/switchyard/libs/discovery"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
)

// found leads to the processors that discovery knows, by one connection for each model: it follows the
// model's processors and gives each call to the next of those that are connected.
type found struct {
	processors *processors
	members    *discovery.Members
	dial       rpc.DialOptions // with the resolver of members
	log        *slog.Logger

	conns map[string]*grpc.ClientConn // by model; they belong to run, and to close after it
}

// run follows the members until ctx ends. What was known last stays.
func (f *found) run(ctx context.Context) error {
	for snapshot := range f.members.Watch(ctx) {
		f.apply(snapshot, time.Now())
	}
	return nil
}

// close ends the connections, once run has ended.
func (f *found) close() error {
	var errs []error
	for _, conn := range f.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

// apply replaces the models. A model that nobody serves any more is remembered for a while: its
// processor may be starting again, and calls to the former one may still go on.
func (f *found) apply(snapshot discovery.Snapshot, now time.Time) {
	before, next := *f.processors.known.Load(), map[string]served{}
	for _, in := range snapshot.Serving("") {
		model := in.GetModel().GetName()
		if _, done := next[model]; done || model == "" {
			continue
		}
		r, known := before[model]
		if !known {
			conn, err := f.connect(model)
			if err != nil {
				f.log.Error("a model cannot be served", "model", model, "error", err)
				continue
			}
			r.client = processorv1.NewProcessorClient(conn)
		}
		if !known || !r.left.IsZero() {
			f.log.Info("a processor serves the model", "model", model)
		}
		next[model] = served{client: r.client}
	}
	for model, r := range before {
		if _, serves := next[model]; serves {
			continue
		}
		if r.left.IsZero() {
			f.log.Warn("no processor serves the model any more", "model", model)
			r.left = now
		}
		if now.Sub(r.left) < f.processors.keep {
			next[model] = r
			continue
		}
		_ = f.conns[model].Close() // no call is left on it
		delete(f.conns, model)
	}
	f.processors.known.Store(&next)
}

func (f *found) connect(model string) (*grpc.ClientConn, error) {
	conn, err := rpc.Dial(discovery.Target(instancev1.Role_ROLE_PROCESSOR, model), f.dial)
	if err != nil {
		return nil, err
	}
	conn.Connect() // the first request need not wait for it
	f.conns[model] = conn
	return conn, nil
}
