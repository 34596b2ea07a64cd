package embedded

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// etcdQuotaBytes bounds the database: instances and configuration are a few kilobytes each.
const etcdQuotaBytes = 64 << 20

// startTimeout bounds a start whose context has no nearer deadline.
const startTimeout = 10 * time.Second

// EtcdConfig says where an embedded etcd lives.
type EtcdConfig struct {
	// Dir holds the data. Empty: a new folder, removed by Close.
	Dir string
	// Address is where clients connect, host:port. Empty: a free port of 127.0.0.1.
	Address string
	// Durable makes every write survive a power failure, at the price of an fsync each.
	// Without it the data still survives the end of the process.
	Durable bool
}

// Etcd is a running etcd server with one member.
type Etcd struct {
	server   *embed.Etcd
	endpoint string
	scratch  string // folder that Close removes; empty when the caller gave one
	once     sync.Once
	err      error
}

// StartEtcd starts a server and returns once it answers, or with an error when ctx ends
// first or the address is taken. The same Dir and Address start it anew with its data.
func StartEtcd(ctx context.Context, cfg EtcdConfig) (*Etcd, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	address, err := listenAddress(cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	dir, scratch := cfg.Dir, ""
	if dir == "" {
		if dir, err = os.MkdirTemp("", "switchyard-etcd-"); err != nil {
			return nil, fmt.Errorf("start etcd: %w", err)
		}
		scratch = dir
	}
	server, err := embed.StartEtcd(etcdServerConfig(dir, address, cfg.Durable))
	if err != nil {
		removeScratch(scratch)
		return nil, fmt.Errorf("start etcd on %s: %w", address, err)
	}
	e := &Etcd{server: server, scratch: scratch}
	select {
	case <-server.Server.ReadyNotify():
	case err := <-server.Err():
		_ = e.Close() // the reason it stopped is the error to tell
		return nil, fmt.Errorf("start etcd on %s: %w", address, err)
	case <-ctx.Done():
		_ = e.Close() // as above
		return nil, fmt.Errorf("start etcd on %s: %w", address, ctx.Err())
	}
	e.endpoint = server.Clients[0].Addr().String()
	return e, nil
}

// etcdServerConfig is a single member with short timers: it elects itself at once.
func etcdServerConfig(dir, address string, durable bool) *embed.Config {
	cfg := embed.NewConfig()
	cfg.Dir = filepath.Join(dir, "etcd")
	client := url.URL{Scheme: "http", Host: address}
	// No other member ever connects, so the peers' port is left to the system.
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.TickMs, cfg.ElectionMs = 10, 100
	cfg.UnsafeNoFsync = !durable
	cfg.QuotaBackendBytes = etcdQuotaBytes
	cfg.AutoCompactionMode, cfg.AutoCompactionRetention = "periodic", "10m"
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	return cfg
}

// Endpoint is the address for clients, host:port.
func (e *Etcd) Endpoint() string { return e.endpoint }

// Close stops the server and removes the data folder if it made one. It may be called again.
func (e *Etcd) Close() error {
	e.once.Do(func() {
		e.server.Close()
		e.err = removeScratch(e.scratch)
	})
	return e.err
}

func removeScratch(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return nil
}

// listenAddress checks host:port; empty means a free port of 127.0.0.1.
func listenAddress(address string) (string, error) {
	if address == "" {
		return "127.0.0.1:0", nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return "", fmt.Errorf("address %q: want host:port", address)
	}
	return address, nil
}
