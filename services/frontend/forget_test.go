package frontend

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/switchyard-llm/switchyard/libs/discovery"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
)

func snapshotOf(models ...string) discovery.Snapshot {
	var s discovery.Snapshot
	for _, m := range models {
		in := &instancev1.Instance{Id: "p-" + m, Address: "127.0.0.1:1", Model: &instancev1.ModelCard{Name: m}}
		s.Members = append(s.Members, discovery.Member{Instance: in})
	}
	return s
}

// A model that left is remembered with its connection, on which calls may go on, and both go together.
func TestAModelThatLeftIsForgottenWithItsConnection(t *testing.T) {
	const keep = time.Hour
	f := &found{
		processors: newProcessors(keep), log: slog.New(slog.DiscardHandler), conns: map[string]*grpc.ClientConn{},
		dial: rpc.DialOptions{Resolvers: []resolver.Builder{manual.NewBuilderWithScheme(discovery.Scheme)}},
	}
	defer func() {
		if err := f.close(); err != nil {
			t.Error(err)
		}
	}()
	begin := time.Now()
	known := func(model string, want codes.Code) {
		t.Helper()
		if _, err := f.processors.of(model); rpc.Code(err) != want {
			t.Errorf("%q: %v, want %v", model, err, want)
		}
	}
	f.apply(snapshotOf("a", "b", ""), begin) // one says no model
	known("a", codes.OK)
	known("", codes.InvalidArgument)
	first := f.conns["b"]

	f.apply(snapshotOf("a"), begin)
	known("b", codes.Unavailable)
	f.apply(snapshotOf("a", "b"), begin.Add(keep))
	known("b", codes.OK)
	if f.conns["b"] != first {
		t.Error("a model that came back has another connection")
	}

	f.apply(snapshotOf("a"), begin)
	f.apply(snapshotOf("a", "c"), begin.Add(keep-1))
	if first.GetState() == connectivity.Shutdown {
		t.Error("the connection was closed early")
	}
	f.apply(snapshotOf("a", "c"), begin.Add(keep))
	known("b", codes.NotFound)
	if first.GetState() != connectivity.Shutdown || len(f.conns) != 2 {
		t.Errorf("%d connections, that of the forgotten model is %v", len(f.conns), first.GetState())
	}
	if err := first.Invoke(context.Background(), "/x/Y", nil, nil); rpc.Code(err) != codes.Canceled {
		t.Errorf("a call on a closed connection: %v", err)
	}
}
