package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
)

// defaultBodyLimitBytes is the limit of a client's request body where none is configured.
const defaultBodyLimitBytes = 4 << 20

// MessageLimitBytes is the largest message for bodies of at most bodyLimitBytes; 0 means
// the default of 4 MiB. A body of n bytes is at most n tokens, each of at most 4 bytes as a
// varint (ids below 2^28), and 1 MiB is left for all the rest: so no request that the body
// limit lets pass fails further in.
func MessageLimitBytes(bodyLimitBytes int) int {
	if bodyLimitBytes == 0 {
		bodyLimitBytes = defaultBodyLimitBytes
	}
	return 4*bodyLimitBytes + 1<<20
}

// ServerOptions are the parts of a server; every zero value works.
type ServerOptions struct {
	// Logger hears of panics. Nil: nobody does.
	Logger *slog.Logger
	// Tracer and Meter observe the calls. Nil: none are observed.
	Tracer trace.TracerProvider
	Meter  metric.MeterProvider
	// BodyLimitBytes is the limit of a client's request body; see MessageLimitBytes.
	BodyLimitBytes int
	// TLS secures the connections; it asks for client certificates if so configured. Nil: plain TCP.
	TLS *tls.Config
}

// Server is a gRPC server that other packages register services on.
type Server struct {
	grpc   *grpc.Server
	health *health.Server
}

var _ grpc.ServiceRegistrar = (*Server)(nil)

// NewServer makes a server with the health and reflection services on it. Reflection tells what the
// protocol is, no data; who may connect may ask it.
func NewServer(o ServerOptions) *Server {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	limit := MessageLimitBytes(o.BodyLimitBytes)
	opts := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(limit),
		grpc.MaxSendMsgSize(limit),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.StatsHandler(otelgrpc.NewServerHandler(otelOptions(o.Tracer, o.Meter)...)),
		grpc.ChainUnaryInterceptor(UnaryInterceptor(log)),
		grpc.ChainStreamInterceptor(StreamInterceptor(log)),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	}
	if o.TLS != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(o.TLS)))
	}
	s := &Server{grpc: grpc.NewServer(opts...), health: health.NewServer()}
	healthv1.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc) // v1, and v1alpha for older clients
	// The health server begins with "serving"; it is so only once Serve runs.
	s.health.SetServingStatus("", healthv1.HealthCheckResponse_NOT_SERVING)
	return s
}

// RegisterService is how generated code adds a service; all before Serve.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	s.grpc.RegisterService(desc, impl)
}

// SetServing changes what the health service says of a service, by its full name; "" is
// the server as a whole.
func (s *Server) SetServing(service string, serving bool) {
	state := healthv1.HealthCheckResponse_NOT_SERVING
	if serving {
		state = healthv1.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus(service, state)
}

// Serve answers calls on lis, which it closes, until ctx ends. Then health says "not
// serving", new calls are refused, running ones have the time drain to finish and are
// cancelled after it. The return is nil after that, or the error that ended the serving.
// It is called once.
func (s *Server) Serve(ctx context.Context, lis net.Listener, drain time.Duration) error {
	s.SetServing("", true)
	for name := range s.grpc.GetServiceInfo() {
		s.SetServing(name, true)
	}
	served := make(chan error, 1)
	go func() { served <- s.grpc.Serve(lis) }()
	select {
	case err := <-served:
		s.grpc.Stop()
		return fmt.Errorf("serve gRPC on %s: %w", lis.Addr(), err)
	case <-ctx.Done():
	}
	s.health.Shutdown()
	s.stop(drain)
	// A ctx that ended at once may have stopped the server before it took the listener.
	if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve gRPC on %s: %w", lis.Addr(), err)
	}
	return nil
}

func (s *Server) stop(drain time.Duration) {
	hurry := time.AfterFunc(drain, s.grpc.Stop)
	s.grpc.GracefulStop()
	// Stop is idempotent, so it does not matter if the timer fires meanwhile.
	hurry.Stop()
	s.grpc.Stop()
}
