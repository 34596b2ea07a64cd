// Package e2e tests the whole line as separate processes: etcd and NATS as one process
// each, a frontend, a processor, decode and prefill workers, and the planner. The test
// binary re-executes itself, so the same test runs under go test and Bazel.
package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard-llm/switchyard/libs/embedded"
	"github.com/switchyard-llm/switchyard/libs/engine"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	shared "github.com/switchyard-llm/switchyard/libs/service"
	"github.com/switchyard-llm/switchyard/libs/worker"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
	"github.com/switchyard-llm/switchyard/services/decodeworker"
	"github.com/switchyard-llm/switchyard/services/frontend"
	"github.com/switchyard-llm/switchyard/services/planner"
	"github.com/switchyard-llm/switchyard/services/prefillworker"
	"github.com/switchyard-llm/switchyard/services/processor"
)

// roleVariable makes the test binary one process of the system; its value is a role.
const roleVariable = "SWITCHYARD_E2E_ROLE"

// configVariable is the role's configuration, as JSON.
const configVariable = "SWITCHYARD_E2E_CONFIG"

// nightly skips what takes long and shows little more than its neighbours, unless the
// environment asks for it: tools/test --config=nightly does.
func nightly(t *testing.T) {
	t.Helper()
	if os.Getenv("SWITCHYARD_NIGHTLY") == "" {
		t.Skip("left for SWITCHYARD_NIGHTLY=1")
	}
}

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		os.Exit(m.Run())
	}
	if err := runRole(role, []byte(os.Getenv(configVariable))); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", role, err)
		os.Exit(1)
	}
}

// serverConfig is the configuration of etcd and NATS.
type serverConfig struct{ Address string }

// prefillConfig adds faults to a prefill worker.
type prefillConfig struct {
	prefillworker.Config
	// Crashes: see crashing.
	Crashes string
	// NoteDelay holds back the completion notes of prompts with NoteDelayTokens tokens.
	NoteDelay       time.Duration
	NoteDelayTokens uint32
}

// decodeConfig adds faults to a decode worker.
type decodeConfig struct {
	decodeworker.Config
	// Crashes: see crashing.
	Crashes string
	// TwiceToken: jobs whose prompt begins with it are published twice.
	TwiceToken uint32
}

// runRole is one process. It ends with SIGTERM, or when its parent is gone.
func runRole(role string, config []byte) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends when the parent does
		os.Exit(3)
	}()
	switch role {
	case "etcd", "nats":
		return runServer(ctx, role, config)
	case "frontend":
		return runService(ctx, config, frontend.DefaultConfig(), func(c frontend.Config) (service, error) {
			return frontend.Open(ctx, c, frontend.Shared{})
		})
	case "processor":
		return runService(ctx, config, processor.DefaultConfig(), func(c processor.Config) (service, error) {
			return processor.Open(ctx, c, processor.Shared{})
		})
	case "planner":
		return runService(ctx, config, planner.DefaultConfig(), func(c planner.Config) (service, error) {
			return planner.Open(ctx, c, shared.Shared{})
		})
	case "decode":
		return runService(ctx, config, decodeConfig{Config: decodeworker.DefaultConfig()}, func(c decodeConfig) (service, error) {
			return decodeworker.Open(ctx, c.Config, worker.Shared{Engine: crashing(c.Config.ID, c.Crashes)}, func(d *decodeworker.Deps) {
				d.Queue = twice{d.Queue, c.TwiceToken}
			})
		})
	case "prefill":
		return runService(ctx, config, prefillConfig{Config: prefillworker.DefaultConfig()}, func(c prefillConfig) (service, error) {
			return prefillworker.Open(ctx, c.Config, worker.Shared{Engine: crashing(c.Config.ID, c.Crashes)}, func(d *prefillworker.Deps) {
				d.Worker.Agent = delayed{d.Worker.Agent, c.NoteDelay, c.NoteDelayTokens}
			})
		})
	}
	return fmt.Errorf("%s is %q, want a role", roleVariable, role)
}

type service interface{ Run(context.Context) error }

// runService opens a service, says so on standard output, and runs it.
func runService[C any](ctx context.Context, text []byte, cfg C, open func(C) (service, error)) error {
	if err := json.Unmarshal(text, &cfg); err != nil {
		return fmt.Errorf("%s: %w", configVariable, err)
	}
	s, err := open(cfg)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	return s.Run(ctx)
}

func runServer(ctx context.Context, role string, text []byte) error {
	var cfg serverConfig
	if err := json.Unmarshal(text, &cfg); err != nil {
		return fmt.Errorf("%s: %w", configVariable, err)
	}
	var server io.Closer
	var err error
	if role == "etcd" {
		server, err = embedded.StartEtcd(ctx, embedded.EtcdConfig{Address: cfg.Address})
	} else {
		server, err = embedded.StartNATS(ctx, embedded.NATSConfig{Address: cfg.Address})
	}
	if err != nil {
		return err
	}
	fmt.Println("ready")
	<-ctx.Done()
	return server.Close()
}

// twice publishes some jobs twice, under different message ids.
type twice struct {
	decodeworker.Queue
	token uint32
}

func (q twice) Publish(ctx context.Context, job *transferv1.RemotePrefillRequest, id string) (uint64, error) {
	number, err := q.Queue.Publish(ctx, job, id)
	if err == nil && q.token != 0 && job.GetSequence().GetPrompt()[0] == q.token {
		_, err = q.Queue.Publish(ctx, job, id+"/again")
	}
	return number, err
}

func (q twice) PublishFor(ctx context.Context, worker string, job *transferv1.RemotePrefillRequest, id string) (uint64, error) {
	number, err := q.Queue.PublishFor(ctx, worker, job, id)
	if err == nil && q.token != 0 && job.GetSequence().GetPrompt()[0] == q.token {
		_, err = q.Queue.Publish(ctx, job, id+"/again")
	}
	return number, err
}

// crashing is an engine that some prompts kill: those with killerRun tokens killerToken in a row.
// Each death leaves a line in a file: the worker, and how many sequences were in the step.
func crashing(id, file string) func(engine.Executor) engine.Executor {
	if file == "" {
		return nil
	}
	return func(e engine.Executor) engine.Executor { return crasher{e, id, file} }
}

const (
	killerToken = 7
	killerRun   = 4
)

type crasher struct {
	engine.Executor
	id, file string
}

func (c crasher) Step(ctx context.Context, b *engine.Batch) error {
	for _, s := range b.Segments {
		run := 0
		for _, t := range s.Tokens {
			if run++; t != killerToken {
				run = 0
			}
			if run == killerRun {
				c.die(len(b.Segments))
			}
		}
	}
	return c.Executor.Step(ctx, b)
}

func (c crasher) die(segments int) {
	f, err := os.OpenFile(c.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, c.id, segments)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // until it comes
}

// delayed is an agent that holds back some completion notes.
type delayed struct {
	nixl.Agent
	delay  time.Duration
	tokens uint32
}

func (d delayed) Notify(ctx context.Context, peer nixl.PeerID, payload []byte) error {
	var n transferv1.CompletionNote
	if d.delay > 0 && proto.Unmarshal(payload, &n) == nil && n.GetEndPosition() == d.tokens {
		// The worker is as one that was stopped here: not even its context ends the wait.
		<-time.After(d.delay)
		return d.Agent.Notify(context.WithoutCancel(ctx), peer, payload)
	}
	return d.Agent.Notify(ctx, peer, payload)
}
