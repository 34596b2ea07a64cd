//go:build linux

package tcp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/zeebo/xxh3"
	"golang.org/x/sys/unix"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
	"github.com/switchyard-llm/switchyard/libs/nixl/nixltest/certs"
)

const benchBytes = 64 << 20

// pump moves the same bytes over as many connections with nothing but writev and read: what
// the transport cannot be faster than.
type pump struct {
	from, to []byte
	block    int
	hashed   bool
	senders  []net.Conn
	done     chan error
	begin    []chan struct{}
}

func newPump(b *testing.B, from, to []byte, block, connections int, hashed bool) *pump {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	p := &pump{from: from, to: to, block: block, hashed: hashed, done: make(chan error, connections)}
	for i := range connections {
		near, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		far, err := l.Accept()
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { near.Close(); far.Close() })
		begin := make(chan struct{})
		b.Cleanup(func() { close(begin) })
		p.begin = append(p.begin, begin)
		go p.receive(far.(*net.TCPConn))
		go p.send(near.(*net.TCPConn), i, connections, begin)
	}
	return p
}

// send sends every n-th block when it is told to, and waits until all have arrived.
func (p *pump) send(c *net.TCPConn, i, n int, begin chan struct{}) {
	head, tail := make([]byte, 64), make([]byte, 16)
	var sum uint64
	for range begin {
		for at := i * p.block; at < len(p.from); at += n * p.block {
			sum = 0
			block := p.from[at : at+p.block]
			binary.LittleEndian.PutUint64(head, uint64(at))
			for lead := head; len(block) > 0; lead = nil {
				stretch := block
				if p.hashed {
					stretch = block[:min(len(block), stretchBytes)]
					sum = fold(sum, stretch)
				}
				block = block[len(stretch):]
				buffers := net.Buffers{lead, stretch}
				if len(block) == 0 {
					binary.LittleEndian.PutUint64(tail, sum)
					buffers = append(buffers, tail)
				}
				if _, err := buffers.WriteTo(c); err != nil {
					p.done <- err
					return
				}
			}
		}
		binary.LittleEndian.PutUint64(head, ^uint64(0))
		_, err := c.Write(head)
		if err == nil {
			_, err = io.ReadFull(c, head[:1])
		}
		p.done <- err
	}
}

func (p *pump) receive(c *net.TCPConn) {
	head, tail := make([]byte, 64), make([]byte, 16)
	var sum uint64
	for {
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		at := binary.LittleEndian.Uint64(head)
		if at == ^uint64(0) {
			if _, err := c.Write(head[:1]); err != nil {
				return
			}
			continue
		}
		sum = 0
		for block := p.to[at : at+uint64(p.block)]; len(block) > 0; {
			stretch := block
			if p.hashed {
				stretch = block[:min(len(block), stretchBytes)]
			}
			if _, err := io.ReadFull(c, stretch); err != nil {
				return
			}
			if p.hashed {
				sum = fold(sum, stretch)
			}
			block = block[len(stretch):]
		}
		if _, err := io.ReadFull(c, tail); err != nil {
			return
		}
		if p.hashed && sum != binary.LittleEndian.Uint64(tail) {
			return
		}
	}
}

// fold is how the transport hashes.
func fold(sum uint64, stretch []byte) uint64 {
	return bits.RotateLeft64(sum, 27) ^ xxh3.Hash(stretch)
}

func (p *pump) round(b *testing.B) {
	for _, c := range p.begin {
		c <- struct{}{}
	}
	for range p.begin {
		if err := <-p.done; err != nil {
			b.Fatal(err)
		}
	}
}

// benchHost has blocks of that many bytes in warm memory.
func benchHost(b *testing.B, name string, blockBytes int, change func(*Config)) *host {
	b.Helper()
	c := Config{Config: nixl.Config{Name: name, Incarnation: "1", KVFormat: "f"}, Listen: "127.0.0.1:0"}
	change(&c)
	a, err := New(c)
	if err != nil {
		b.Fatal(err)
	}
	m, err := memory.Anonymous(benchBytes)
	if err != nil {
		b.Fatal(err)
	}
	layout := block.Layout{BlockTokens: 16, Layers: 2, KVHeads: 1, HeadDim: blockBytes / 256, ElemBytes: 4}
	r, err := a.Register(m, layout, benchBytes/blockBytes)
	if err != nil {
		b.Fatal(err)
	}
	pattern(r.Bytes(), 1)
	ran := make(chan error, 1)
	go func() { ran <- a.Run(context.Background()) }()
	b.Cleanup(func() { a.Close(); <-ran; r.Close(); m.Close() })
	return &host{a.(*agent), r}
}

// benchLink is a prepared transfer of all blocks.
func benchLink(b *testing.B, op nixl.Op, blockBytes int, change func(*Config)) (target, writer *host, t nixl.Transfer) {
	b.Helper()
	target, writer = benchHost(b, "decode", blockBytes, change), benchHost(b, "prefill", blockBytes, change)
	n := benchBytes / blockBytes
	refs, runs, indices := make([]block.Ref, n), make([]block.Span, n), make([]int32, n)
	for i := range refs {
		refs[i], runs[i], indices[i] = block.Ref{ID: block.ID(i), Generation: 3}, block.Span{Offset: i * blockBytes, Bytes: blockBytes}, int32(i)
	}
	grant := nixl.Grant{Number: 1, Op: op, Blocks: refs}
	if err := target.Allow(writer.ID(), grant); err != nil {
		b.Fatal(err)
	}
	id, err := writer.AddPeer(context.Background(), target.meta(b))
	if err != nil {
		b.Fatal(err)
	}
	local, err := writer.Prepare(writer.ID(), 0, runs)
	if err != nil {
		b.Fatal(err)
	}
	remote, err := writer.Prepare(id, 0, runs)
	if err != nil {
		b.Fatal(err)
	}
	t, err = writer.Make(nixl.Prepared{Op: op, Grant: &grant, Local: local, Remote: remote, LocalRuns: indices, RemoteRuns: indices})
	if err != nil {
		b.Fatal(err)
	}
	return target, writer, t
}

// BenchmarkAgainstPump reports the throughput as a ratio to the pump's, round by round.
func BenchmarkAgainstPump(b *testing.B) {
	for _, verify := range []Verify{VerifyOff, VerifyOn} {
		for _, op := range []nixl.Op{nixl.Write, nixl.Read} {
			for _, size := range []int{256 << 10, 1 << 20, 8 << 20} {
				for _, connections := range []int{1, 2} {
					name := fmt.Sprintf("verify=%v/%s/block=%dKiB/connections=%d", verify == VerifyOn, op, size>>10, connections)
					b.Run(name, func(b *testing.B) { againstPump(b, op, size, connections, verify) })
				}
			}
		}
	}
}

func againstPump(b *testing.B, op nixl.Op, size, connections int, verify Verify) {
	ctx := context.Background()
	target, writer, t := benchLink(b, op, size, func(c *Config) { c.Verify, c.Connections = verify, connections })
	p := newPump(b, writer.region.Bytes(), target.region.Bytes(), size, connections, verify == VerifyOn)
	round := func() time.Duration {
		began := time.Now()
		if err := t.Post(ctx); err != nil {
			b.Fatal(err)
		}
		if err := t.Wait(ctx); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	bare := func() time.Duration {
		began := time.Now()
		p.round(b)
		return time.Since(began)
	}
	round()
	bare()
	var ours, theirs, oursBest, theirsBest, oursCPU, theirsCPU time.Duration
	for b.Loop() {
		c0 := cpu()
		o := round()
		c1 := cpu()
		p := bare()
		c2 := cpu()
		oursCPU, theirsCPU = oursCPU+c1-c0, theirsCPU+c2-c1
		ours, theirs = ours+o, theirs+p
		if oursBest == 0 || o < oursBest {
			oursBest = o
		}
		if theirsBest == 0 || p < theirsBest {
			theirsBest = p
		}
	}
	gigabytes := float64(b.N) * benchBytes / 1e9
	b.ReportMetric(gigabytes/ours.Seconds(), "GB/s")
	b.ReportMetric(gigabytes/theirs.Seconds(), "pump-GB/s")
	b.ReportMetric(theirs.Seconds()/ours.Seconds(), "ratio")
	b.ReportMetric(theirsBest.Seconds()/oursBest.Seconds(), "best-ratio")
	b.ReportMetric(theirsCPU.Seconds()/oursCPU.Seconds(), "cpu-ratio")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkTLS compares what TLS leaves of the throughput, round by round, with TCP alone.
func BenchmarkTLS(b *testing.B) {
	ca := certs.New(b)
	for _, op := range []nixl.Op{nixl.Write, nixl.Read} {
		b.Run(op.String(), func(b *testing.B) {
			_, _, plain := benchLink(b, op, 1<<20, func(*Config) {})
			_, _, secret := benchLink(b, op, 1<<20, func(c *Config) { c.TLS = issue(b, ca, c.Name) })
			best := make(map[nixl.Transfer]time.Duration)
			for b.Loop() {
				for _, t := range []nixl.Transfer{plain, secret} {
					began := time.Now()
					if err := errors.Join(t.Post(b.Context()), t.Wait(b.Context())); err != nil {
						b.Fatal(err)
					}
					if d := time.Since(began); best[t] == 0 || d < best[t] {
						best[t] = d
					}
				}
			}
			b.ReportMetric(benchBytes/1e9/best[plain].Seconds(), "best-plain-GB/s")
			b.ReportMetric(benchBytes/1e9/best[secret].Seconds(), "best-GB/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkPost is Make and Post of 4,096 prepared blocks, without the copies.
func BenchmarkPost(b *testing.B) {
	const n = 4096
	_, h, first := benchLink(b, nixl.Write, benchBytes/n, func(*Config) {})
	made := first.(*transfer)
	spans, indices := make([]block.Span, n), make([]int32, n)
	for i := range spans {
		spans[i], indices[i] = block.Span{Offset: i * benchBytes / n, Bytes: benchBytes / n}, int32(i)
	}
	grant := nixl.Grant{Number: made.grant, Blocks: made.refs.list}
	local, err := h.Prepare(h.ID(), 0, spans)
	if err != nil {
		b.Fatal(err)
	}
	remote, err := h.Prepare(made.link.peer, 0, spans)
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	var spent time.Duration
	b.ReportAllocs()
	for b.Loop() {
		began := time.Now()
		t, err := h.Make(nixl.Prepared{Grant: &grant, Local: local, Remote: remote, LocalRuns: indices, RemoteRuns: indices})
		if err != nil {
			b.Fatal(err)
		}
		if err := t.Post(ctx); err != nil {
			b.Fatal(err)
		}
		spent += time.Since(began)
		if err := t.Wait(ctx); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(spent.Microseconds())/float64(b.N), "µs/make+post")
}

// BenchmarkNote reports the time from Notify to Receive at an idle peer.
func BenchmarkNote(b *testing.B) {
	target, writer, _ := benchLink(b, nixl.Write, 1<<20, func(*Config) {})
	ctx := context.Background()
	payload := make([]byte, 256)
	arrived := make(chan time.Time)
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer close(arrived)
		for {
			if _, err := target.Receive(stop); err != nil {
				return
			}
			arrived <- time.Now()
		}
	}()
	var times []time.Duration
	for b.Loop() {
		began := time.Now()
		if err := writer.Notify(ctx, target.ID(), payload); err != nil {
			b.Fatal(err)
		}
		times = append(times, (<-arrived).Sub(began))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1e3, "p50-µs")
	b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds())/1e3, "p99-µs")
}

// cpu is the time that this process has spent on all processors.
func cpu() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
