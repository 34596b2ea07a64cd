// Package planner watches the pools: every process reports to it each second, and tools
// ask it for the whole picture. It is never on the request path, and it recommends nothing.
//
// New builds the service from its dependencies, Open builds those from a configuration,
// Run serves until its context ends and owns all goroutines.
package planner

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/run"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	plannerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/planner/v1"
	"github.com/switchyard-llm/switchyard/services/planner/observe"
)

// Registration is the planner's entry among the members.
type Registration interface {
	// Run keeps the entry alive until ctx ends, then takes it away.
	Run(ctx context.Context) error
}

// Deps are what the service works with.
type Deps struct {
	Instance *instancev1.Instance
	Listener net.Listener
	Server   *rpc.Server
	// Register announces the instance.
	Register func(ctx context.Context, instance *instancev1.Instance) (Registration, error)
}

// Planner is the service.
type Planner struct {
	plannerv1.UnimplementedPlannerServer

	cfg   Config
	deps  Deps
	board *observe.Board
}

// New builds the service and registers it with the server.
func New(cfg Config, deps Deps) (*Planner, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("planner: %w", err)
	}
	p := &Planner{cfg: cfg, deps: deps, board: observe.NewBoard()}
	plannerv1.RegisterPlannerServer(deps.Server, p)
	return p, nil
}

// Run serves until ctx ends.
func (p *Planner) Run(ctx context.Context) error {
	registration, err := p.deps.Register(ctx, p.deps.Instance)
	if err != nil {
		return fmt.Errorf("planner: register: %w", err)
	}
	g, ctx := run.NewGroup(ctx)
	g.Go("registration", registration.Run)
	g.Go("server", func(ctx context.Context) error { return p.deps.Server.Serve(ctx, p.deps.Listener, p.cfg.Drain) })
	if err := g.Wait(); err != nil {
		return fmt.Errorf("planner: %w", err)
	}
	return nil
}

// Report implements plannerv1.PlannerServer.
func (p *Planner) Report(_ context.Context, r *plannerv1.ReportRequest) (*plannerv1.ReportResponse, error) {
	switch i := r.GetInstance(); {
	case i.GetId() == "":
		return nil, rpc.InvalidArgument("instance.id", "the name of the process that reports")
	case i.GetIncarnation() == "":
		return nil, rpc.InvalidArgument("instance.incarnation", "the life of the process that reports")
	case i.GetRole() == instancev1.Role_ROLE_UNSPECIFIED:
		return nil, rpc.InvalidArgument("instance.role", "what the process does")
	case r.GetTime() == nil:
		return nil, rpc.InvalidArgument("time", "when the report was made")
	case r.GetReport() == nil:
		return nil, rpc.InvalidArgument("report", "traffic or worker")
	}
	p.board.Add(r, time.Now())
	return &plannerv1.ReportResponse{}, nil
}

// Status implements plannerv1.PlannerServer.
func (p *Planner) Status(context.Context, *plannerv1.StatusRequest) (*plannerv1.StatusResponse, error) {
	return &plannerv1.StatusResponse{Members: p.board.Members(time.Now())}, nil
}
