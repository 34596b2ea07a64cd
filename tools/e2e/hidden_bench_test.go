package e2e

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard-llm/switchyard/libs/engine/cpu"
	"github.com/switchyard-llm/switchyard/libs/modelstore/modeltest"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/tcp"
	"github.com/switchyard-llm/switchyard/libs/worker"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
	"github.com/switchyard-llm/switchyard/services/decodeworker/disagg"
)

// linkBytesPerSecond is a link of 1 Gb/s.
const linkBytesPerSecond = 125e6

// BenchmarkHiddenTransfer is a prompt of 512 tokens of the real model, computed in one step of
// one thread and written over a link of 1 Gb/s: how much of its keys and values has left
// before the computation ends.
func BenchmarkHiddenTransfer(b *testing.B) {
	model, err := cpu.Open(modeltest.TestModel(b))
	if err != nil {
		b.Fatal(err)
	}
	closing(b, model.Close)
	notes := make(chan *transferv1.CompletionNote, 1)
	l := newLine(b, func(c nixl.Config) equipment { return overLink(b, model, c, notes) })
	l.policy = disagg.Policy{Policy: disagg.Always}
	const remote = generationv1.Placement_PLACEMENT_REMOTE
	l.generate(b, 512, remote) // connections are there
	<-notes
	var hidden, alone, compute float64
	for b.Loop() {
		l.generate(b, 512, remote)
		n := <-notes
		bytes := float64(n.GetWrittenBytes())
		hidden += 1 - n.GetWriteTime().AsDuration().Seconds()*linkBytesPerSecond/bytes
		alone += bytes / linkBytesPerSecond
		compute += n.GetComputeTime().AsDuration().Seconds()
	}
	n := float64(b.N)
	b.ReportMetric(100*hidden/n, "%hidden")
	b.ReportMetric(1e3*alone/n, "transfer-ms")
	b.ReportMetric(1e3*compute/n, "compute-ms")
}

func overLink(b *testing.B, model *cpu.Model, c nixl.Config, notes chan<- *transferv1.CompletionNote) equipment {
	executor, err := model.Executor(cpu.Options{Model: modelName, Threads: 1})
	if err != nil {
		b.Fatal(err)
	}
	c.KVFormat = executor.Card().KVFormat
	address := freeAddress(b)
	agent, err := tcp.New(tcp.Config{Config: c, Listen: address, Advertise: slowLink(b, address)})
	if err != nil {
		b.Fatal(err)
	}
	pool := worker.DefaultConfig()
	pool.StepTokens = 512
	return equipment{executor: executor, agent: noting{agent, notes}, pool: pool}
}

// noting is an agent that shows the completion notes it sends.
type noting struct {
	nixl.Agent
	notes chan<- *transferv1.CompletionNote
}

func (a noting) Notify(ctx context.Context, peer nixl.PeerID, payload []byte) error {
	var n transferv1.CompletionNote
	if proto.Unmarshal(payload, &n) == nil && n.GetWrittenBytes() > 0 {
		a.notes <- &n
	}
	return a.Agent.Notify(ctx, peer, payload)
}

// slowLink is an address that leads to another at the link's speed, all connections together.
func slowLink(b *testing.B, to string) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var work sync.WaitGroup
	closing(b, func() error { err := listener.Close(); work.Wait(); return err })
	pace := &pacer{}
	work.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				near.Close()
				continue
			}
			for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
				work.Go(func() {
					defer pair[0].Close()
					defer pair[1].Close()
					_, _ = io.Copy(paced{pair[1], pace}, pair[0])
				})
			}
		}
	})
	return listener.Addr().String()
}

// pacer lets bytes pass at the link's speed.
type pacer struct {
	mu   sync.Mutex
	free time.Time // when what has passed so far has left
}

func (p *pacer) pass(n int) {
	p.mu.Lock()
	now := time.Now()
	if p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(float64(n) / linkBytesPerSecond * 1e9))
	wait := p.free.Sub(now)
	p.mu.Unlock()
	<-time.After(wait)
}

type paced struct {
	net.Conn
	pace *pacer
}

func (p paced) Write(b []byte) (int, error) {
	p.pace.pass(len(b))
	return p.Conn.Write(b)
}
