package discovery

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"

	"github.com/switchyard-llm/switchyard/libs/rpc"
)

const (
	// probeTimeout is how long a suspect may take to answer.
	probeTimeout = time.Second
	// probesAtOnce bounds the connections opened when etcd loses everyone.
	probesAtOnce = 16
)

// askSuspects asks each suspect for its health when it becomes one and every lease time
// after, until ctx ends.
func (m *Members) askSuspects(ctx context.Context) {
	again := time.NewTicker(m.client.cfg.LeaseTTL)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		case <-m.asked:
		}
		var asking sync.WaitGroup
		slots := make(chan struct{}, probesAtOnce)
		for _, member := range m.Snapshot().Members {
			if !member.Suspect {
				continue
			}
			slots <- struct{}{}
			asking.Go(func() {
				m.ask(ctx, member.Instance)
				<-slots
			})
		}
		asking.Wait()
	}
}

func (m *Members) ask(ctx context.Context, in *instancev1.Instance) {
	probe, cancel := context.WithTimeout(ctx, probeTimeout)
	err := m.probe(probe, in)
	cancel()
	if ctx.Err() != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.known[in.GetId()]
	if !ok || !e.Suspect || e.Instance != in {
		return // etcd knows better meanwhile
	}
	if err != nil {
		m.log.WarnContext(ctx, "member is gone", "id", in.GetId(), "incarnation", in.GetIncarnation(), "error", err)
		delete(m.known, in.GetId())
	} else {
		if !e.Confirmed {
			m.log.WarnContext(ctx, "member left etcd but answers", "id", in.GetId(), "incarnation", in.GetIncarnation())
		}
		m.known[in.GetId()] = &Member{Instance: in, Suspect: true, Confirmed: true}
	}
	m.publish()
}

// askHealth is the probe: an error says that the member does not serve any more.
func (c *Client) askHealth(ctx context.Context, in *instancev1.Instance) (err error) {
	conn, err := rpc.Dial(in.GetAddress(), rpc.DialOptions{TLS: c.cfg.MemberTLS})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	resp, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{})
	if err != nil {
		if rpc.Code(err) == codes.Unimplemented {
			return nil // it answers, which is what counts
		}
		return err
	}
	if s := resp.GetStatus(); s != healthv1.HealthCheckResponse_SERVING {
		return fmt.Errorf("health is %v", s)
	}
	return nil
}
