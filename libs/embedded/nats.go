package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// natsDefaultMemoryBytes bounds the jobs kept in memory: 64 MiB are thousands of prompts.
const natsDefaultMemoryBytes = 64 << 20

// NATSConfig says where an embedded NATS lives.
type NATSConfig struct {
	// Dir holds what JetStream keeps on disk; streams in memory keep nothing there but
	// their names do. Empty: a new folder, removed by Close.
	Dir string
	// Address is where clients connect, host:port. Empty: a free port of 127.0.0.1.
	Address string
	// MaxMemoryBytes bounds all streams in memory. 0: 64 MiB.
	MaxMemoryBytes int64
}

// NATS is a running NATS server with JetStream.
type NATS struct {
	server  *server.Server
	address string
	scratch string // folder that Close removes; empty when the caller gave one
	once    sync.Once
	err     error
}

// StartNATS starts a server and returns once it takes connections, or with an error when
// ctx ends first or the address is taken.
func StartNATS(ctx context.Context, cfg NATSConfig) (*NATS, error) {
	address, err := listenAddress(cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("start nats: %w", err)
	}
	if err := free(ctx, address); err != nil {
		return nil, fmt.Errorf("start nats: %w", err)
	}
	dir, scratch := cfg.Dir, ""
	if dir == "" {
		if dir, err = os.MkdirTemp("", "switchyard-nats-"); err != nil {
			return nil, fmt.Errorf("start nats: %w", err)
		}
		scratch = dir
	}
	opts, err := natsOptions(dir, address, cfg.MaxMemoryBytes)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start nats: %w", err), removeScratch(scratch))
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start nats on %s: %w", address, err), removeScratch(scratch))
	}
	n := &NATS{server: s, scratch: scratch}
	s.Start()
	wait := startTimeout
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline))
	}
	if !s.ReadyForConnections(wait) {
		return nil, errors.Join(fmt.Errorf("start nats on %s: not ready within %v", address, wait), n.Close())
	}
	n.address = s.Addr().String()
	return n, nil
}

// free finds out whether the address can be bound: the server itself ends the process
// with a log line when it cannot.
func free(ctx context.Context, address string) error {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return ln.Close()
}

func natsOptions(dir, address string, memoryBytes int64) (*server.Options, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("address %q: want host:port", address)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return nil, fmt.Errorf("address %q: want a numeric port", address)
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	if memoryBytes == 0 {
		memoryBytes = natsDefaultMemoryBytes
	}
	return &server.Options{
		ServerName:         "switchyard",
		Host:               host,
		Port:               port,
		NoLog:              true,
		NoSigs:             true,
		JetStream:          true,
		StoreDir:           dir,
		JetStreamMaxMemory: memoryBytes,
		JetStreamMaxStore:  memoryBytes,
		// A prompt of 100,000 tokens takes 300 KB in the queue; larger ones travel in the ticket.
		MaxPayload: 1 << 20,
	}, nil
}

// URL is what clients connect to, nats://host:port; it stays known after Close.
func (n *NATS) URL() string { return "nats://" + n.address }

// Address is the same as host:port.
func (n *NATS) Address() string { return n.address }

// Close stops the server and removes the data folder if it made one. Streams in memory
// are lost. It may be called again.
func (n *NATS) Close() error {
	n.once.Do(func() {
		n.server.Shutdown()
		n.server.WaitForShutdown()
		n.err = removeScratch(n.scratch)
	})
	return n.err
}
