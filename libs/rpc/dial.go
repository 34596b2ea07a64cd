package rpc

import (
	"crypto/tls"
	"fmt"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
)

// DialOptions are the parts of a connection; every zero value works.
type DialOptions struct {
	// Tracer and Meter observe the calls. Nil: none are observed.
	Tracer trace.TracerProvider
	Meter  metric.MeterProvider
	// BodyLimitBytes is the limit of a client's request body; see MessageLimitBytes.
	BodyLimitBytes int
	// TLS secures the connection. Nil: plain TCP.
	TLS *tls.Config
	// Resolvers know the schemes of targets other than gRPC's own.
	Resolvers []resolver.Builder
	// RoundRobin spreads calls over all addresses of the target; else the first that answers takes all.
	RoundRobin bool
}

// ConnectParams are the pauses between attempts to connect: at most a second, so that a
// peer that is back is used within about that time. gRPC's own go up to two minutes.
func ConnectParams() grpc.ConnectParams {
	return grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
		MinConnectTimeout: 2 * time.Second,
	}
}

// Windows are how much a peer may send ahead of what is read: of a stream a long prompt as a whole, so
// that it need not wait for a word from the other side half-way. They are fixed, since to estimate
// them gRPC sends a ping with most messages: with one message a step that was a quarter of a simulated
// worker's CPU.
const (
	streamWindow = 1 << 20 // bytes
	connWindow   = 4 << 20
)

// Dial makes a connection to a target, such as host:port or switchyard:///processor. It
// connects at the first call, and again for ever after a loss; calls fail with UNAVAILABLE
// meanwhile. The caller closes it.
func Dial(target string, o DialOptions) (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if o.TLS != nil {
		creds = credentials.NewTLS(o.TLS)
	}
	limit := MessageLimitBytes(o.BodyLimitBytes)
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(limit), grpc.MaxCallSendMsgSize(limit)),
		grpc.WithStatsHandler(otelgrpc.NewClientHandler(otelOptions(o.Tracer, o.Meter)...)),
		grpc.WithConnectParams(ConnectParams()),
		// 10 s is the shortest that gRPC allows. A frozen peer is noticed earlier by those
		// that watch its heartbeats.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 3 * time.Second, PermitWithoutStream: true}),
		grpc.WithResolvers(o.Resolvers...),
		// Retries repeat work that may have been done; whoever calls knows whether that is right.
		grpc.WithDisableRetry(),
		grpc.WithNoProxy(),
		grpc.WithStaticStreamWindowSize(streamWindow),
		grpc.WithStaticConnWindowSize(connWindow),
	}
	if o.RoundRobin {
		opts = append(opts, grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`))
	}
	conn, err := grpc.NewClient(target, opts...)
	if err != nil {
		return nil, fmt.Errorf("dial %q: %w", target, err)
	}
	return conn, nil
}
