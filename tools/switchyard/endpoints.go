package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/switchyard-llm/switchyard/libs/discovery"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
)

// endpoints is what a running serve leaves in its data folder, so that other commands find it.
type endpoints struct {
	PID  int      `json:"pid"`
	URL  string   `json:"url"`
	Etcd []string `json:"etcd"`
	NATS string   `json:"nats"`
}

const endpointsFile = "serve.json"

// defaultData is the data folder when none is given.
func defaultData() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	return filepath.Join(cache, "switchyard", "serve")
}

func (e endpoints) write(dir string) error {
	text, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return err
	}
	temp := filepath.Join(dir, endpointsFile+".new")
	if err := os.WriteFile(temp, append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, filepath.Join(dir, endpointsFile))
}

func readEndpoints(dir string) (e endpoints, err error) {
	file := filepath.Join(dir, endpointsFile)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return e, fmt.Errorf("no server runs with data folder %s: start one, or name the address", dir)
	}
	if err == nil {
		err = json.Unmarshal(text, &e)
	}
	if err != nil {
		return e, fmt.Errorf("read %s: %w", file, err)
	}
	return e, nil
}

// cluster says which servers a command talks to.
type cluster struct {
	Etcd []string `help:"Endpoints of the servers' etcd; found through --data if none." placeholder:"HOST:PORT"`
	Data string   `help:"Data folder of a running serve." default:"${data}" type:"path"`
}

// client is a command's view of a cluster.
type client struct {
	discovery *discovery.Client
	conns     *rpc.Conns
}

// connectTimeout is how long a command waits for etcd.
const connectTimeout = 5 * time.Second

func (c cluster) connect(ctx context.Context) (*client, error) {
	cfg := discovery.DefaultConfig()
	var found endpoints
	if cfg.Endpoints = c.Etcd; len(cfg.Endpoints) == 0 {
		var err error
		if found, err = readEndpoints(c.Data); err != nil {
			return nil, err
		}
		cfg.Endpoints = found.Etcd
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	d, err := discovery.Open(ctx, cfg, slog.New(slog.DiscardHandler))
	if err != nil && found.PID != 0 {
		return nil, fmt.Errorf("the server of data folder %s, process %d, does not answer: %w", c.Data, found.PID, err)
	}
	if err != nil {
		return nil, err
	}
	return &client{d, rpc.NewConns(rpc.DialOptions{Resolvers: []resolver.Builder{d.Resolver()}})}, nil
}

func (c *client) close() error { return errors.Join(c.conns.Close(), c.discovery.Close()) }

// members lists the live processes of a role.
func (c *client) members(ctx context.Context, role instancev1.Role) ([]discovery.Member, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	m := c.discovery.Members(role)
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	err := m.Ready(ctx)
	members := m.Snapshot().Members
	cancel()
	if run := <-done; err == nil {
		err = run
	}
	if err != nil {
		return nil, fmt.Errorf("list the %v members: %w", role, err)
	}
	return members, nil
}
