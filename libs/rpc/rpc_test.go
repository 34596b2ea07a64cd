package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	plannerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/planner/v1"

	"github.com/switchyard-llm/switchyard/libs/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// planner is a service whose answer the test chooses.
type planner struct {
	plannerv1.UnimplementedPlannerServer
	report func(context.Context) error
}

func (p planner) Report(ctx context.Context, _ *plannerv1.ReportRequest) (*plannerv1.ReportResponse, error) {
	return &plannerv1.ReportResponse{}, p.report(ctx)
}

type fixture struct {
	address string
	conn    *grpc.ClientConn
	client  plannerv1.PlannerClient
	stop    context.CancelFunc
	served  chan error
}

func serve(t *testing.T, address string, drain time.Duration, log *slog.Logger, report func(context.Context) error) *fixture {
	t.Helper()
	lis, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	srv := rpc.NewServer(rpc.ServerOptions{Logger: log})
	plannerv1.RegisterPlannerServer(srv, planner{report: report})
	ctx, stop := context.WithCancel(t.Context())
	f := &fixture{address: lis.Addr().String(), stop: stop, served: make(chan error, 1)}
	go func() { f.served <- srv.Serve(ctx, lis, drain) }()
	f.conn, err = rpc.Dial(f.address, rpc.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.client = plannerv1.NewPlannerClient(f.conn)
	t.Cleanup(func() { stop(); f.conn.Close() })
	return f
}

func (f *fixture) call(ctx context.Context) error {
	_, err := f.client.Report(ctx, &plannerv1.ReportRequest{})
	return err
}

func TestErrorsKeepTheirPartsOnTheOtherSide(t *testing.T) {
	var reported error
	f := serve(t, "127.0.0.1:0", time.Second, nil, func(context.Context) error { return reported })
	for _, c := range []struct {
		err     error
		code    codes.Code
		message string
		field   string
		reason  string
		retry   time.Duration
	}{
		{err: rpc.InvalidArgument("limits.max_tokens", "want at most 64"), code: codes.InvalidArgument, message: "limits.max_tokens: want at most 64", field: "limits.max_tokens"},
		{err: rpc.NotFound("model", "gpt"), code: codes.NotFound, message: `model "gpt" not found`},
		{err: rpc.FailedPrecondition("STALE", "another life"), code: codes.FailedPrecondition, message: "another life", reason: "STALE"},
		{err: rpc.ResourceExhausted("full", 3*time.Second), code: codes.ResourceExhausted, message: "full", retry: 3 * time.Second},
		{err: rpc.Unavailable("draining"), code: codes.Unavailable, message: "draining"},
		{err: rpc.Unimplemented("not served in this style"), code: codes.Unimplemented, message: "not served in this style"},
		{err: rpc.Internal(io.ErrUnexpectedEOF), code: codes.Internal, message: "unexpected EOF"},
		{err: fmt.Errorf("submit: %w", rpc.InvalidArgument("x", "want y")), code: codes.InvalidArgument, message: "submit: x: want y", field: "x"},
		{err: fmt.Errorf("wait: %w", context.DeadlineExceeded), code: codes.DeadlineExceeded, message: "wait: context deadline exceeded"},
		{err: fmt.Errorf("wait: %w", context.Canceled), code: codes.Canceled, message: "wait: context canceled"},
		{err: errors.New("plain"), code: codes.Internal, message: "plain"},
	} {
		reported = c.err
		over := f.call(t.Context())
		for side, err := range map[string]error{"here": c.err, "there": over} {
			if got := rpc.Code(err); got != c.code {
				t.Errorf("%v %s: code %v, want %v", c.err, side, got, c.code)
			}
			if got := rpc.Message(err); got != c.message {
				t.Errorf("%v %s: message %q, want %q", c.err, side, got, c.message)
			}
			if rpc.Field(err) != c.field || rpc.Reason(err) != c.reason || rpc.RetryAfter(err) != c.retry {
				t.Errorf("%v %s: field %q reason %q retry %v, want %q %q %v", c.err, side,
					rpc.Field(err), rpc.Reason(err), rpc.RetryAfter(err), c.field, c.reason, c.retry)
			}
		}
	}
	if rpc.Code(nil) != codes.OK || rpc.Field(nil) != "" {
		t.Error("nil is not OK")
	}
}

func TestAPanicFailsItsCallOnlyAndIsLogged(t *testing.T) {
	var log strings.Builder
	panicking := true
	f := serve(t, "127.0.0.1:0", time.Second, slog.New(slog.NewTextHandler(&log, nil)), func(context.Context) error {
		if panicking {
			panicking = false
			panic("boom")
		}
		return nil
	})
	if err := f.call(t.Context()); rpc.Code(err) != codes.Internal || strings.Contains(err.Error(), "boom") {
		t.Errorf("panicking call: %v, want Internal without the panic's text", err)
	}
	if err := f.call(t.Context()); err != nil {
		t.Errorf("next call: %v", err)
	}
	for _, want := range []string{"boom", "/switchyard.planner.v1.Planner/Report", "rpc_test.go"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log lacks %q:\n%s", want, log.String())
		}
	}
}

func TestTheEndOfServingLetsRunningCallsFinishAndRefusesNewOnes(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	f := serve(t, "127.0.0.1:0", time.Minute, nil, func(context.Context) error {
		close(begun)
		<-finish
		return nil
	})
	health := healthv1.NewHealthClient(f.conn)
	watch, err := health.Watch(t.Context(), &healthv1.HealthCheckRequest{Service: "switchyard.planner.v1.Planner"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := watch.Recv(); err != nil || got.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Fatalf("health while serving: %v, %v", got, err)
	}
	answered := make(chan error, 1)
	go func() { answered <- f.call(context.Background()) }()
	<-begun
	f.stop()
	if got, err := watch.Recv(); err != nil || got.GetStatus() != healthv1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health while draining: %v, %v", got, err)
	}
	close(finish)
	if err := <-answered; err != nil {
		t.Errorf("running call: %v, want its answer", err)
	}
	f.conn.Close() // ends the health watch, the last running call
	if err := <-f.served; err != nil {
		t.Errorf("Serve = %v, want nil", err)
	}
}

func TestTheDrainIsBounded(t *testing.T) {
	begun := make(chan struct{})
	f := serve(t, "127.0.0.1:0", time.Millisecond, nil, func(ctx context.Context) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	})
	answered := make(chan error, 1)
	go func() { answered <- f.call(context.Background()) }()
	<-begun
	f.stop()
	if err := <-answered; err == nil {
		t.Error("a call that never ends succeeded")
	}
	if err := <-f.served; err != nil {
		t.Errorf("Serve = %v, want nil", err)
	}
}

func TestAConnectionComesBackWithinTwoSeconds(t *testing.T) {
	ok := func(context.Context) error { return nil }
	first := serve(t, "127.0.0.1:0", 0, nil, ok)
	if err := first.call(t.Context()); err != nil {
		t.Fatal(err)
	}
	first.stop()
	if err := <-first.served; err != nil {
		t.Fatal(err)
	}
	if err := first.call(t.Context()); rpc.Code(err) != codes.Unavailable {
		t.Fatalf("call without a server: %v, want Unavailable", err)
	}
	serve(t, first.address, 0, nil, ok)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := first.client.Report(ctx, &plannerv1.ReportRequest{}, grpc.WaitForReady(true)); err != nil {
		t.Errorf("call after the restart: %v", err)
	}
}

func TestPausesBetweenAttemptsNeverGrowAboveASecond(t *testing.T) {
	if p := rpc.ConnectParams(); p.Backoff.MaxDelay > time.Second || p.Backoff.BaseDelay > p.Backoff.MaxDelay {
		t.Errorf("pauses from %v to %v, want at most 1s", p.Backoff.BaseDelay, p.Backoff.MaxDelay)
	}
}

func TestATargetHasOneConnectionUntilTheSetIsClosed(t *testing.T) {
	conns := rpc.NewConns(rpc.DialOptions{})
	a, err := conns.To("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := conns.To("127.0.0.1:1"); err != nil || again != a {
		t.Errorf("second time: %p, %v; want %p", again, err, a)
	}
	if other, err := conns.To("127.0.0.1:2"); err != nil || other == a {
		t.Errorf("another target: %p, %v", other, err)
	}
	if err := conns.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := conns.To("127.0.0.1:1"); !errors.Is(err, grpc.ErrClientConnClosing) {
		t.Errorf("after Close: %v, want %v", err, grpc.ErrClientConnClosing)
	}
}

func TestMessagesPassUpToTheLimitOfTheBody(t *testing.T) {
	if got := rpc.MessageLimitBytes(0); got != 17<<20 {
		t.Errorf("default limit %d, want 17 MiB", got)
	}
	f := serve(t, "127.0.0.1:0", 0, nil, func(context.Context) error { return errors.New(strings.Repeat("x", 10)) })
	big := &plannerv1.ReportRequest{Report: &plannerv1.ReportRequest_Worker{Worker: &plannerv1.WorkerReport{}}}
	big.ProtoReflect().SetUnknown(append([]byte{0xfa, 0x07, 0x80, 0x80, 0x80, 0x04}, make([]byte, 8<<20)...))
	if _, err := f.client.Report(t.Context(), big); rpc.Code(err) != codes.Internal {
		t.Errorf("a message of 8 MiB: %v, want the handler's own error", err)
	}
}

func TestAServerThatIsToldToStopBeforeItStartedEndsWell(t *testing.T) {
	for range 50 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := rpc.NewServer(rpc.ServerOptions{}).Serve(ctx, listener, time.Second); err != nil {
			t.Fatal(err)
		}
	}
}
