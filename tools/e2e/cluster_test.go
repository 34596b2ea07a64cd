package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/switchyard-llm/switchyard/libs/discovery"
	"github.com/switchyard-llm/switchyard/libs/engine/cpu/cputest"
	"github.com/switchyard-llm/switchyard/libs/nixl/nixltest/cable"
	"github.com/switchyard-llm/switchyard/libs/worker"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	frontendv1 "github.com/switchyard-llm/switchyard/proto/switchyard/frontend/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
	"github.com/switchyard-llm/switchyard/services/decodeworker"
	"github.com/switchyard-llm/switchyard/services/decodeworker/disagg"
	"github.com/switchyard-llm/switchyard/services/frontend"
	"github.com/switchyard-llm/switchyard/services/planner"
	"github.com/switchyard-llm/switchyard/services/prefillworker"
	"github.com/switchyard-llm/switchyard/services/processor"
)

// patience bounds each wait for something that must happen.
const patience = 60 * time.Second

// queueTimeout is far above the default: a slow machine is no reason to compute locally.
const queueTimeout = 2 * time.Second

const modelName = "random"

// simulatedSpeedUp lets simulated steps take well under a millisecond.
const simulatedSpeedUp = 100

var discard = slog.New(slog.DiscardHandler)

// process is one OS process of the cluster.
type process struct {
	name   string
	role   string
	config any
	cmd    *exec.Cmd
	kept   io.Closer // its standard input: it ends when this closes

	ready chan struct{} // closed once it says so
	done  chan struct{} // closed at its end, with err set
	err   error

	killed bool // by the test
}

// cluster is the whole system on this machine.
type cluster struct {
	t     *testing.T
	dir   string
	model string

	etcd, nats, http string
	processes        map[string]*process

	cable *cable.Cable // to the prefill workers; nil: all are on this host

	discovery *discovery.Client
	frontend  frontendv1.FrontendClient
	processor processorv1.ProcessorClient
	metrics   string // where the processor shows its own
	decodes   []decodeworkerv1.DecodeWorkerClient
	prefills  []prefillworkerv1.PrefillWorkerClient
}

// options are what a test changes of the usual cluster.
type options struct {
	model   string // a file, or sim: and a shape; empty: a file with random weights of this shape
	shape   cputest.Shape
	decode  func(i int, c *decodeConfig)
	prefill func(i int, c *prefillConfig)
	cable   *cable.Cable // has the prefill workers at its far end
}

// start brings up a cluster of two decode and two prefill workers and waits until it serves.
func start(t *testing.T, o options) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir(), processes: make(map[string]*process), cable: o.cable}
	c.etcd, c.nats, c.http = c.address(), c.address(), c.address()
	if c.model = o.model; c.model == "" {
		c.model = writeModel(t, c.dir, o.shape)
	}
	t.Cleanup(c.stop)
	c.spawn("etcd", "etcd", serverConfig{c.etcd})
	c.spawn("nats", "nats", serverConfig{c.nats})
	c.await("etcd", "nats")
	c.startServices(o)
	c.connect()
	return c
}

func (c *cluster) startServices(o options) {
	frontendAddress := c.address()
	f := frontend.DefaultConfig()
	f.Telemetry.LogLevel = "warn"
	f.HTTP, f.Listen, f.Etcd = c.http, frontendAddress, []string{c.etcd}
	p := processor.DefaultConfig()
	p.Telemetry.LogLevel = "warn"
	p.Listen, p.Etcd, p.NATS, p.Model, p.Name = c.address(), []string{c.etcd}, "nats://"+c.nats, c.model, modelName
	p.Metrics = c.address()
	c.processor, c.metrics = processorv1.NewProcessorClient(c.dial(p.Listen)), p.Metrics
	pl := planner.DefaultConfig()
	pl.Listen, pl.Etcd = c.address(), []string{c.etcd}
	c.spawn("planner", "planner", pl)
	for i := range 2 {
		d := decodeConfig{Config: decodeworker.DefaultConfig()}
		c.worker(&d.ProcessConfig, fmt.Sprintf("decode-%d", i))
		pf := prefillConfig{Config: prefillworker.DefaultConfig()}
		c.worker(&pf.ProcessConfig, fmt.Sprintf("prefill-%d", i))
		if o.decode != nil {
			o.decode(i, &d)
		}
		if o.prefill != nil {
			o.prefill(i, &pf)
		}
		c.spawn(d.ID, "decode", d)
		c.spawn(pf.ID, "prefill", pf)
		c.decodes = append(c.decodes, decodeworkerv1.NewDecodeWorkerClient(c.dial(d.Listen)))
		c.prefills = append(c.prefills, prefillworkerv1.NewPrefillWorkerClient(c.dial(pf.Listen)))
	}
	c.spawn("processor", "processor", p)
	c.spawn("frontend", "frontend", f)
	c.await("planner", "decode-0", "decode-1", "prefill-0", "prefill-1", "processor", "frontend")
	c.frontend = frontendv1.NewFrontendClient(c.dial(frontendAddress))
}

// worker fills in what all workers have in common.
func (c *cluster) worker(p *worker.ProcessConfig, id string) {
	p.ID, p.Listen = id, c.address()
	if c.cable != nil && strings.HasPrefix(id, "prefill") {
		p.Listen = c.farAddress()
	}
	p.Etcd, p.NATS, p.Sockets = []string{c.etcd}, "nats://"+c.nats, c.dir
	p.Engine.Model, p.Engine.Name, p.Engine.Threads = c.model, modelName, 1
	if shape, simulated := strings.CutPrefix(c.model, "sim:"); simulated {
		p.Engine.Kind, p.Engine.Sim.Shape, p.Engine.Sim.SpeedUp = worker.Sim, shape, simulatedSpeedUp
	}
	p.Pool.Poison = true
	p.Queue.Timeout = queueTimeout
	p.Telemetry.LogLevel = "warn"
}

// spawn starts a process.
func (c *cluster) spawn(name, role string, config any) {
	c.t.Helper()
	text, err := json.Marshal(config)
	if err != nil {
		c.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleVariable+"="+role, configVariable+"="+string(text))
	log, err := os.OpenFile(filepath.Join(c.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	in, err := cmd.StdinPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	begin := cmd.Start
	if c.cable != nil && role == "prefill" {
		begin = func() error { return c.cable.Inside(cmd.Start) }
	}
	if err := begin(); err != nil {
		c.t.Fatal(err)
	}
	p := &process{name: name, role: role, config: config, cmd: cmd, kept: in, ready: make(chan struct{}), done: make(chan struct{})}
	c.processes[name] = p
	go func() {
		defer close(p.done)
		if bufio.NewScanner(out).Scan() {
			close(p.ready)
		}
		_, _ = io.Copy(io.Discard, out)
		p.err = cmd.Wait()
	}()
}

// await waits until processes say that they are ready.
func (c *cluster) await(names ...string) {
	c.t.Helper()
	for _, name := range names {
		p := c.processes[name]
		select {
		case <-p.ready:
		case <-p.done:
			c.t.Fatalf("%s ended: %v\n%s", name, p.err, c.log(name))
		case <-time.After(patience):
			c.t.Fatalf("%s is not ready\n%s", name, c.log(name))
		}
	}
}

func (c *cluster) log(name string) string {
	text, err := os.ReadFile(filepath.Join(c.dir, name+".log"))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-8000):])
}

// signal sends a signal to a process.
func (c *cluster) signal(name string, s syscall.Signal) {
	c.t.Helper()
	if err := c.processes[name].cmd.Process.Signal(s); err != nil {
		c.t.Fatalf("signal %v to %s: %v", s, name, err)
	}
}

// kill ends a process at once.
func (c *cluster) kill(name string) {
	c.t.Helper()
	c.signal(name, syscall.SIGKILL)
	c.processes[name].killed = true
	<-c.processes[name].done
}

// terminate asks a process to end, and waits until it has ended well.
func (c *cluster) terminate(name string) {
	c.t.Helper()
	c.signal(name, syscall.SIGTERM)
	c.ended(name)
}

// ended waits until a process has ended well.
func (c *cluster) ended(name string) {
	c.t.Helper()
	p := c.processes[name]
	select {
	case <-p.done:
		if p.err != nil {
			c.t.Errorf("%s ended with %v\n%s", name, p.err, c.log(name))
		}
	case <-time.After(patience):
		c.t.Fatalf("%s did not end\n%s", name, c.log(name))
	}
}

// again starts a process that has ended as it was started before, and waits until the
// others know it.
func (c *cluster) again(name string) {
	c.t.Helper()
	old := c.processes[name]
	c.spawn(name, old.role, old.config)
	c.await(name)
}

// stop ends everything, workers before what they need, and shows the logs of a failed test.
func (c *cluster) stop() {
	for _, name := range []string{"frontend", "processor", "decode-0", "decode-1", "prefill-0", "prefill-1", "planner", "nats", "etcd"} {
		p := c.processes[name]
		if p == nil {
			continue
		}
		_ = p.cmd.Process.Signal(syscall.SIGCONT) // the test may have stopped it, or it has ended
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.done:
		case <-time.After(10 * time.Second):
			c.t.Errorf("%s did not end", name)
			_ = p.cmd.Process.Kill()
			<-p.done
		}
		if p.err != nil && !p.killed {
			c.t.Errorf("%s ended with %v", name, p.err)
		}
		_ = p.kept.Close()
		if c.t.Failed() {
			c.t.Logf("%s:\n%s", name, c.log(name))
		}
	}
}

func (c *cluster) dial(address string) *grpc.ClientConn {
	c.t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// connect opens what the test itself needs and waits until the frontend serves the model
// and both decode workers see both prefill workers.
func (c *cluster) connect() {
	c.t.Helper()
	cfg := discovery.DefaultConfig()
	cfg.Endpoints = []string{c.etcd}
	var err error
	if c.discovery, err = discovery.Open(c.t.Context(), cfg, discard); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = c.discovery.Close() })
	c.eventually("the frontend serves the model", func() error {
		response, err := http.Get("http://" + c.http + "/health")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("/health answers %s", response.Status)
		}
		models, err := c.frontend.ListModels(c.t.Context(), &frontendv1.ListModelsRequest{})
		if err == nil && len(models.GetModels()) != 1 {
			err = fmt.Errorf("models %v", models)
		}
		return err
	})
}

// policy sets where prompts are computed, and waits until it is in force by its effect on a request.
func (c *cluster) policy(p disagg.Policy) {
	c.t.Helper()
	if err := c.discovery.PutJSON(c.t.Context(), discovery.ConfigKey(modelName, "disagg"), p); err != nil {
		c.t.Fatal(err)
	}
}

// eventually waits until check is content.
func (c *cluster) eventually(what string, check func() error) {
	c.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			c.t.Fatalf("%s: not within %v: %v", what, patience, err)
		}
	}
}

func (c *cluster) describeDecode(i int) *decodeworkerv1.DescribeResponse {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	d, err := c.decodes[i].Describe(ctx, &decodeworkerv1.DescribeRequest{}, grpc.WaitForReady(true))
	if err != nil {
		c.t.Fatal(err)
	}
	return d
}

func (c *cluster) describePrefill(i int) *prefillworkerv1.DescribeResponse {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	d, err := c.prefills[i].Describe(ctx, &prefillworkerv1.DescribeRequest{}, grpc.WaitForReady(true))
	if err != nil {
		c.t.Fatal(err)
	}
	return d
}

// linksKnown waits until each decode worker has measured its links, which are of a class.
func (c *cluster) linksKnown(class string) {
	c.t.Helper()
	for i := range c.decodes {
		c.eventually("the links are known", func() error {
			links := c.describeDecode(i).GetLinks()
			for _, l := range links {
				if l.GetMeasuredBy() == decodeworkerv1.LinkSource_LINK_SOURCE_START || l.GetClass() != class || !(l.GetBytesPerSecond() > 0) {
					return fmt.Errorf("decode-%d: %v", i, l)
				}
			}
			if len(links) != len(c.prefills) {
				return fmt.Errorf("decode-%d: %d links, want %d", i, len(links), len(c.prefills))
			}
			return nil
		})
	}
}

// address is one that nobody listens at, on this host or at this end of the cable.
func (c *cluster) address() string {
	c.t.Helper()
	if c.cable != nil {
		return freeAddressOn(c.t, c.cable.NearAddress)
	}
	return freeAddress(c.t)
}

// farAddress is one that nobody listens at, at the far end of the cable.
func (c *cluster) farAddress() (address string) {
	c.t.Helper()
	err := c.cable.Inside(func() error {
		l, err := net.Listen("tcp", c.cable.FarAddress+":0")
		if err != nil {
			return err
		}
		address = l.Addr().String()
		return l.Close()
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return address
}

// freeAddress is a loopback address that nobody listens at.
func freeAddress(t testing.TB) string {
	t.Helper()
	return freeAddressOn(t, "127.0.0.1")
}

// lastPort is the port that was given last, counted from a place by chance.
var lastPort atomic.Uint32

func init() { lastPort.Store(rand.Uint32N(1 << 16)) }

// freeAddressOn takes none of the ports that the system gives to outgoing connections: until the
// address is listened at, one of another process would take it. It gives none twice in a row of many.
func freeAddressOn(t testing.TB, host string) string {
	t.Helper()
	const first, ports = 16000, 16000
	for {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(first+int(lastPort.Add(1)%ports))))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return l.Addr().String()
	}
}
