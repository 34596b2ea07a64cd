package prefillqueue

import (
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-llm/switchyard/libs/broker"
)

func TestARestartOfNATSLosesJobsAndNothingElse(t *testing.T) {
	t.Parallel()
	server := startNATS(t, "")
	decode, prefill := connect(t, server.URL()), connect(t, server.URL())
	sender, receiver := open(t, decode, nil), open(t, prefill, nil)
	lost := publish(t, sender, job("lost"))
	pull(t, receiver, 1)

	got := make(chan []*Job, 1)
	go func() {
		jobs, err := receiver.Pull(within(t), 3)
		if err != nil {
			t.Error(err)
		}
		got <- jobs
	}()

	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	status(t, decode, nats.RECONNECTING)
	begin := time.Now()
	if _, err := sender.Publish(within(t), job("t1"), ""); !errors.Is(err, ErrUnreachable) {
		t.Errorf("publish without NATS: %v, want %v", err, ErrUnreachable)
	}
	if took := time.Since(begin); took > 100*time.Millisecond {
		t.Errorf("publish without NATS took %v", took)
	}
	if _, err := sender.Depth(within(t)); !errors.Is(err, ErrUnreachable) {
		t.Errorf("depth without NATS: %v, want %v", err, ErrUnreachable)
	}
	if err := sender.Delete(within(t), lost); !errors.Is(err, ErrUnreachable) {
		t.Errorf("delete without NATS: %v, want %v", err, ErrUnreachable)
	}

	startNATS(t, server.Address())
	status(t, decode, nats.CONNECTED)
	again := publish(t, sender, job("t1"))
	if again <= lost {
		t.Errorf("number %d after the restart, want more than %d", again, lost)
	}
	if err := sender.Delete(within(t), lost); err != nil {
		t.Errorf("delete of a lost job: %v", err)
	}
	jobs := <-got
	if len(jobs) != 1 || jobs[0].Request.GetTransferId() != "t1" {
		t.Fatalf("jobs after the restart: %v, want t1", jobs)
	}
	if err := jobs[0].Ack(); err != nil {
		t.Error(err)
	}
}

func TestADeletedStreamIsMadeAnewByWhoeverMissesIt(t *testing.T) {
	for name, use := range map[string]func(*testing.T, *Queue){
		"publish": func(t *testing.T, q *Queue) { publish(t, q, job("t1")) },
		"depth": func(t *testing.T, q *Queue) {
			if d, err := q.Depth(within(t)); err != nil || d.Waiting != 0 {
				t.Errorf("depth %+v, %v; want empty", d, err)
			}
		},
		"pull": func(t *testing.T, q *Queue) {
			other := open(t, q.conn, nil)
			if err := q.js.DeleteStream(within(t), q.cfg.Stream); err != nil {
				t.Fatal(err)
			}
			done := make(chan []*Job)
			go func() { jobs, _ := q.Pull(within(t), 1); done <- jobs }()
			publish(t, other, job("t1"))
			if jobs := <-done; len(jobs) != 1 {
				t.Errorf("jobs %v, want t1", jobs)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := fresh(t, nil)
			if err := q.js.DeleteStream(within(t), q.cfg.Stream); err != nil {
				t.Fatal(err)
			}
			if name == "pull" {
				if err := q.ensure(within(t)); err != nil {
					t.Fatal(err)
				}
			}
			use(t, q)
			if _, err := q.js.Stream(within(t), q.cfg.Stream); err != nil {
				t.Errorf("stream afterwards: %v", err)
			}
		})
	}
}

func TestAFrozenNATSIsATimeout(t *testing.T) {
	p := startProxy(t, startNATS(t, "").Address())
	q := open(t, connect(t, "nats://"+p.lis.Addr().String()), func(c *Config) { c.PublishTimeout = 100 * time.Millisecond })
	close(p.frozen)
	begin := time.Now()
	_, err := q.Publish(within(t), job("t1"), "")
	if !errors.Is(err, ErrTimeout) {
		t.Errorf("publish: %v, want %v", err, ErrTimeout)
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("publish took %v, want about 100 ms", took)
	}
	if _, err := q.Depth(within(t)); !errors.Is(err, ErrTimeout) {
		t.Errorf("depth: %v, want %v", err, ErrTimeout)
	}
}

func TestAnUnreachableNATSIsOneErrorInTime(t *testing.T) {
	begin := time.Now()
	_, err := broker.Connect(t.Context(), "nats://127.0.0.1:1", "test", slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "nats://127.0.0.1:1") || strings.Contains(err.Error(), "\n") {
		t.Errorf("Connect = %v, want one line naming the server", err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestAQueueOpensBeforeNATSIsThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	away := l.Addr().String()
	l.Close() // until NATS is there
	nc, err := broker.Seek("nats://"+away, "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	q := open(t, nc, nil)
	if _, err := q.Publish(within(t), job("t1"), ""); !errors.Is(err, ErrUnreachable) {
		t.Errorf("publish: %v, want %v", err, ErrUnreachable)
	}
	if _, err := q.Depth(within(t)); !errors.Is(err, ErrUnreachable) {
		t.Errorf("depth: %v, want %v", err, ErrUnreachable)
	}
	if err := q.Delete(within(t), 7); err != nil {
		t.Errorf("delete: %v, want nothing to be there", err)
	}
	got := make(chan []*Job, 1)
	go func() {
		jobs, err := q.Pull(within(t), 1)
		if err != nil {
			t.Error(err)
		}
		got <- jobs
	}()
	startNATS(t, away)
	for {
		_, err := q.Publish(within(t), job("t2"), "")
		if err == nil {
			break
		}
		if !errors.Is(err, ErrUnreachable) && !errors.Is(err, ErrTimeout) && !errors.Is(err, ErrNoStream) {
			t.Fatal(err)
		}
	}
	if jobs := <-got; len(jobs) != 1 || jobs[0].Request.GetTransferId() != "t2" {
		t.Errorf("jobs %v, want t2", jobs)
	}
}
