// Package cable makes a second host out of a network namespace, for tests: joined with
// this one by a pair of interfaces that can be slowed and cut. It needs root and iproute2;
// without them the test is skipped.
package cable

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Cable joins this network namespace with another. It ends with the test.
type Cable struct {
	t                testing.TB
	space, near, far string
	// NearAddress and FarAddress are the two ends' IP addresses.
	NearAddress, FarAddress string
}

// Plug makes the cable. Its names hold the process id: tests of several packages may run.
func Plug(t testing.TB) *Cable {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("two network namespaces need root")
	}
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin") // where they may be
	for _, tool := range []string{"ip", "tc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("two network namespaces need %s of iproute2: %v", tool, err)
		}
	}
	n := os.Getpid() % 65536
	c := &Cable{
		t: t, space: fmt.Sprint("nixl", n), near: fmt.Sprint("nxa", n), far: fmt.Sprint("nxb", n),
		NearAddress: fmt.Sprintf("10.211.%d.%d", n>>8, n&0xfc|1), FarAddress: fmt.Sprintf("10.211.%d.%d", n>>8, n&0xfc|2),
	}
	if out, err := exec.Command("ip", "netns", "add", c.space).CombinedOutput(); err != nil {
		t.Skipf("the system forbids network namespaces: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", c.space).Run() })
	if out, err := exec.Command("ip", "link", "add", c.near, "type", "veth", "peer", "name", c.far, "netns", c.space).CombinedOutput(); err != nil {
		t.Skipf("the system has no virtual interfaces: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", c.near).Run() })
	c.run("ip", "addr", "add", c.NearAddress+"/30", "dev", c.near)
	c.run("ip", "link", "set", c.near, "up")
	c.run("ip", "-n", c.space, "addr", "add", c.FarAddress+"/30", "dev", c.far)
	c.run("ip", "-n", c.space, "link", "set", "lo", "up")
	c.run("ip", "-n", c.space, "link", "set", c.far, "up")
	return c
}

func (c *Cable) run(name string, args ...string) {
	c.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}

// Limit bounds both directions to so many megabits per second and delays what leaves this
// end by 10 ms; false where the system cannot delay.
func (c *Cable) Limit(megabits int) (delays bool) {
	c.t.Helper()
	limit := []string{"root", "handle", "1:", "tbf", "rate", fmt.Sprint(megabits, "mbit"), "burst", "64kb", "latency", "50ms"}
	c.run("tc", append([]string{"qdisc", "add", "dev", c.near}, limit...)...)
	c.run("tc", append([]string{"-n", c.space, "qdisc", "add", "dev", c.far}, limit...)...)
	out, err := exec.Command("tc", "qdisc", "add", "dev", c.near, "parent", "1:", "netem", "delay", "10ms", "limit", "10000").CombinedOutput()
	if err != nil {
		c.t.Logf("no netem: %s", strings.TrimSpace(string(out)))
	}
	return err == nil
}

// Cut takes the cable out, and Join puts it in again.
func (c *Cable) Cut()  { c.t.Helper(); c.set("down") }
func (c *Cable) Join() { c.t.Helper(); c.set("up") }

// set may be called from any goroutine.
func (c *Cable) set(state string) {
	c.t.Helper()
	if out, err := exec.Command("ip", "-n", c.space, "link", "set", c.far, state).CombinedOutput(); err != nil {
		c.t.Errorf("set the cable %s: %v: %s", state, err, out)
	}
}

// Inside calls f on a thread that is at the far end: its sockets, and the processes that it
// starts, are there.
func (c *Cable) Inside(f func() error) error {
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
