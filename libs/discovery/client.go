package discovery

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/switchyard-llm/switchyard/libs/rpc"
)

// Config says where etcd is and how long silence lasts.
type Config struct {
	// Endpoints are the addresses of etcd, host:port each.
	Endpoints []string `yaml:"endpoints" help:"addresses of etcd, host:port each"`
	// LeaseTTL is how long an instance stays registered after its last sign of life.
	LeaseTTL time.Duration `yaml:"lease_ttl" help:"how long an instance stays registered after its last sign of life"`
	// DialTimeout bounds the wait for etcd at start.
	DialTimeout time.Duration `yaml:"dial_timeout" help:"how long to wait for etcd at start"`
	// MemberTLS is how the servers of members are asked for their health. Nil: plain TCP.
	MemberTLS *tls.Config `yaml:"-"`
}

// DefaultConfig is an etcd on this machine and a lease of 5 s.
func DefaultConfig() Config {
	return Config{
		Endpoints:   []string{"127.0.0.1:2379"},
		LeaseTTL:    5 * time.Second,
		DialTimeout: 5 * time.Second,
	}
}

// Validate names the first field that is not as expected.
func (c Config) Validate() error {
	switch {
	case len(c.Endpoints) == 0:
		return fmt.Errorf("endpoints: want at least one host:port")
	case c.LeaseTTL < time.Second:
		return fmt.Errorf("lease_ttl: %v, want at least 1s", c.LeaseTTL)
	case c.DialTimeout <= 0:
		return fmt.Errorf("dial_timeout: %v, want more than 0", c.DialTimeout)
	}
	return nil
}

// Client is a connection to etcd. Its methods may be called from any goroutine.
type Client struct {
	etcd *clientv3.Client
	cfg  Config
	log  *slog.Logger
}

// Open connects to etcd and sees it answer, or returns an error that names the endpoints
// when it does not within cfg.DialTimeout or ctx.
func Open(ctx context.Context, cfg Config, log *slog.Logger) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	where := strings.Join(cfg.Endpoints, ",")
	etcd, err := clientv3.New(clientv3.Config{
		Endpoints:            cfg.Endpoints,
		DialKeepAliveTime:    10 * time.Second, // the shortest that gRPC allows
		DialKeepAliveTimeout: 3 * time.Second,
		BackoffWaitBetween:   50 * time.Millisecond,
		DialOptions:          []grpc.DialOption{grpc.WithConnectParams(rpc.ConnectParams())},
		Logger:               zap.NewNop(), // what it has to say comes back as errors
	})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd at %s: %w", where, err)
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.DialTimeout)
	defer cancel()
	if _, err := etcd.Get(ctx, rootKey, clientv3.WithCountOnly()); err != nil {
		_ = etcd.Close() // it never connected
		return nil, fmt.Errorf("connect to etcd at %s: no answer: %w", where, err)
	}
	return &Client{etcd: etcd, cfg: cfg, log: log}, nil
}

// Close ends the connection; all Run methods have returned by then.
func (c *Client) Close() error {
	if err := c.etcd.Close(); err != nil {
		return fmt.Errorf("close etcd connection: %w", err)
	}
	return nil
}

// PutJSON writes v as the value of a configuration key; see ConfigKey.
func (c *Client) PutJSON(ctx context.Context, key string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", key, err)
	}
	if _, err := c.etcd.Put(ctx, key, string(data)); err != nil {
		return fmt.Errorf("write %s to etcd: %w", key, err)
	}
	return nil
}

// FetchJSON reads a configuration key into v and tells whether it exists. A key that v
// does not know is an error.
func (c *Client) FetchJSON(ctx context.Context, key string, v any) (found bool, err error) {
	resp, err := c.etcd.Get(ctx, key)
	if err != nil {
		return false, fmt.Errorf("read %s from etcd: %w", key, err)
	}
	if len(resp.Kvs) == 0 {
		return false, nil
	}
	if err := strictJSON(resp.Kvs[0].Value, v); err != nil {
		return true, fmt.Errorf("decode %s: %w", key, err)
	}
	return true, nil
}

// strictJSON decodes one JSON value and validates it if it can be.
func strictJSON(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if dec.More() {
		return fmt.Errorf("want one JSON value, found more behind it")
	}
	if checked, ok := v.(interface{ Validate() error }); ok {
		return checked.Validate()
	}
	return nil
}
