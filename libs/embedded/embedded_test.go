package embedded_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/switchyard-llm/switchyard/libs/embedded"
)

func etcdClient(t *testing.T, endpoint string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestEtcdKeepsItsDataOverARestartAtTheSameAddress(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	dir := t.TempDir()
	first, err := embedded.StartEtcd(ctx, embedded.EtcdConfig{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	address := first.Endpoint()
	if _, err := etcdClient(t, address).Put(ctx, "k", "v"); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := embedded.StartEtcd(ctx, embedded.EtcdConfig{Dir: dir, Address: address})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if second.Endpoint() != address {
		t.Fatalf("endpoint %s after the restart, want %s", second.Endpoint(), address)
	}
	got, err := etcdClient(t, address).Get(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "v" {
		t.Fatalf("after the restart k = %v, want v", got.Kvs)
	}
}

func TestNATSRestartsAtTheSameAddress(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	first, err := embedded.StartNATS(ctx, embedded.NATSConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	address := first.Address()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := embedded.StartNATS(ctx, embedded.NATSConfig{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	nc, err := nats.Connect(second.URL())
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
}

func TestATakenAddressIsAnErrorThatNamesIt(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	taken := ln.Addr().String()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := embedded.StartNATS(ctx, embedded.NATSConfig{Address: taken}); err == nil || !strings.Contains(err.Error(), taken) {
		t.Errorf("nats on a taken address: %v, want an error naming %s", err, taken)
	}
	if _, err := embedded.StartEtcd(ctx, embedded.EtcdConfig{Address: taken}); err == nil || !strings.Contains(err.Error(), taken) {
		t.Errorf("etcd on a taken address: %v, want an error naming %s", err, taken)
	}
	if _, err := embedded.StartEtcd(ctx, embedded.EtcdConfig{Address: "nonsense"}); err == nil || !strings.Contains(err.Error(), "host:port") {
		t.Errorf("etcd on nonsense: %v, want an error naming the form", err)
	}
}
