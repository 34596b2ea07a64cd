package tcp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// cable joins this network namespace with one of its own by a pair of interfaces.
type cable struct {
	t                 *testing.T
	space, near, far  string
	nearAddr, farAddr string
	delay             *proxy // nil where the interface delays
}

// ip runs a command of iproute2.
func (c *cable) ip(name string, args ...string) {
	c.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}

// plug makes the cable. Its names hold the process id: tests of several packages may run.
func plug(t *testing.T) *cable {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("two network namespaces need root")
	}
	for _, tool := range []string{"ip", "tc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("two network namespaces need %s of iproute2: %v", tool, err)
		}
	}
	n := os.Getpid() % 65536
	c := &cable{
		t: t, space: fmt.Sprint("nixl", n), near: fmt.Sprint("nxa", n), far: fmt.Sprint("nxb", n),
		nearAddr: fmt.Sprintf("10.211.%d.%d", n>>8, n&0xfc|1), farAddr: fmt.Sprintf("10.211.%d.%d", n>>8, n&0xfc|2),
	}
	if out, err := exec.Command("ip", "netns", "add", c.space).CombinedOutput(); err != nil {
		t.Skipf("the system forbids network namespaces: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", c.space).Run() })
	if out, err := exec.Command("ip", "link", "add", c.near, "type", "veth", "peer", "name", c.far, "netns", c.space).CombinedOutput(); err != nil {
		t.Skipf("the system has no virtual interfaces: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", c.near).Run() })
	c.ip("ip", "addr", "add", c.nearAddr+"/30", "dev", c.near)
	c.ip("ip", "link", "set", c.near, "up")
	c.ip("ip", "-n", c.space, "addr", "add", c.farAddr+"/30", "dev", c.far)
	c.ip("ip", "-n", c.space, "link", "set", c.far, "up")
	return c
}

// narrow limits both directions and adds a delay, by a proxy where the system cannot.
func (c *cable) narrow() {
	c.t.Helper()
	limit := []string{"root", "handle", "1:", "tbf", "rate", "200mbit", "burst", "64kb", "latency", "50ms"}
	c.ip("tc", append([]string{"qdisc", "add", "dev", c.near}, limit...)...)
	c.ip("tc", append([]string{"-n", c.space, "qdisc", "add", "dev", c.far}, limit...)...)
	if out, err := exec.Command("tc", "qdisc", "add", "dev", c.near, "parent", "1:", "netem", "delay", "10ms", "limit", "10000").CombinedOutput(); err != nil {
		c.t.Logf("no netem, a proxy delays instead: %s", strings.TrimSpace(string(out)))
		c.delay = newProxy(c.t, func(p *proxy) { p.delay = 10 * time.Millisecond })
	}
}

func (c *cable) set(state string) { c.ip("ip", "-n", c.space, "link", "set", c.far, state) }

// inside calls f on a thread that is in the other namespace: its sockets are then there.
func (c *cable) inside(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and it ends with the goroutine, as it cannot come back
		space, err := os.Open("/run/netns/" + c.space)
		if err == nil {
			err = unix.Setns(int(space.Fd()), unix.CLONE_NEWNET)
			space.Close()
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// ends are a target in the other namespace, and a peer in this one that has added it.
func (c *cable) ends() (target, writer *host) {
	c.t.Helper()
	var a nixl.Agent
	if err := c.inside(func() (err error) {
		x := Config{Config: nixl.Config{Name: "decode", Incarnation: "1", KVFormat: "f"}, Listen: c.farAddr + ":0", Silence: time.Second}
		if c.delay != nil {
			x.Advertise = c.delay.address()
		}
		a, err = New(x)
		return err
	}); err != nil {
		c.t.Fatal(err)
	}
	target = serve(c.t, a)
	if c.delay != nil {
		c.delay.lead(target.listener.Addr().String())
	}
	writer = start(c.t, "prefill", func(x *Config) { x.Listen, x.Silence = c.nearAddr+":0", time.Second })
	target.allow(c.t, writer.ID())
	writer.add(c.t, target)
	return target, writer
}

func TestBetweenNamespaces(t *testing.T) {
	c := plug(t)
	c.narrow()
	target, writer := c.ends()
	began := time.Now()
	exchangeBlocks(t, writer, target, blocks, 1)
	if d := time.Since(began); d < 200*time.Millisecond {
		t.Errorf("8 MiB over 200 Mbit/s took %v: the limit is not in force", d)
	}

	// A short cut is sat out.
	transfer, err := nixl.Post(soon(t), writer, nixl.Request{Peer: target.ID(), Grant: &nixl.Grant{Number: everything}, Copies: whole(blocks)})
	if err != nil {
		t.Fatal(err)
	}
	c.set("down")
	again := time.AfterFunc(300*time.Millisecond, func() { c.set("up") })
	defer again.Stop()
	switch err := transfer.Wait(soon(t)); {
	case err == nil:
	case errors.Is(err, nixl.ErrGone): // the system waits longer and longer before it sends again
		t.Logf("the short cut was one too long: %v", err)
		writer.wantGone(t, target.ID())
		target.wantGone(t, writer.ID())
		writer.add(t, target)
	default:
		t.Fatal(err)
	}
	exchangeBlocks(t, writer, target, 4, 2)
	c.cutForGood(target, writer)
}

// cutForGood takes the link down under a write.
func (c *cable) cutForGood(target, writer *host) {
	t := c.t
	t.Helper()
	pattern(writer.region.Bytes(), 77)
	transfer, err := nixl.Post(soon(t), writer, nixl.Request{Peer: target.ID(), Grant: &nixl.Grant{Number: everything}, Copies: whole(blocks)})
	if err != nil {
		t.Fatal(err)
	}
	target.settled(t, writer.region.Bytes()[:blockBytes])
	c.set("down")
	if err := transfer.Wait(soon(t)); !errors.Is(err, nixl.ErrUnsettled) || !errors.Is(err, nixl.ErrGone) {
		t.Fatalf("got %v, want ErrUnsettled, as the peer is gone", err)
	}
	writer.wantGone(t, target.ID())
	target.wantGone(t, writer.ID())
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	if _, err := writer.AddPeer(ctx, target.meta(t)); !errors.Is(err, nixl.ErrUnreachable) {
		t.Fatalf("got %v, want ErrUnreachable", err)
	}
	if err := target.Fence(over(), writer.ID()); err != nil {
		t.Fatalf("the owner has no proof: %v", err)
	}
}
