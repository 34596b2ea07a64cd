package zmq

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/kvevent"
	"github.com/switchyard-llm/switchyard/libs/prefix"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testModel = "m"
	testBlock = 4
)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

type held [block.Tiers]map[block.Hash]block.Hash

func newHeld() *held {
	h := new(held)
	for i := range h {
		h[i] = map[block.Hash]block.Hash{}
	}
	return h
}

// plain is a kvevent.Sink of plain maps.
type plain struct {
	mu     sync.Mutex // guards the rest
	of     map[uint32]*held
	resets int
	gone   int
}

func newPlain() *plain { return &plain{of: map[uint32]*held{}} }

func (p *plain) at(s kvevent.Source) *held {
	if p.of[s.Rank] == nil {
		p.of[s.Rank] = newHeld()
	}
	return p.of[s.Rank]
}

// Stored implements kvevent.Sink.
func (p *plain) Stored(s kvevent.Source, tier block.Tier, parent block.Hash, chain []block.Hash) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range chain {
		p.at(s)[tier][h] = parent
		parent = h
	}
}

// Removed implements kvevent.Sink.
func (p *plain) Removed(s kvevent.Source, tier block.Tier, hashes []block.Hash) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range hashes {
		delete(p.at(s)[tier], h)
	}
}

// Reset implements kvevent.Sink.
func (p *plain) Reset(s kvevent.Source) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of[s.Rank] = newHeld()
	p.resets++
}

// Gone implements kvevent.Sink.
func (p *plain) Gone(s kvevent.Source) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.of, s.Rank)
	p.gone++
}

// diff says how what it has of a rank differs.
func (p *plain) diff(rank uint32, want *held) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	got := p.of[rank]
	if got == nil {
		got = newHeld()
	}
	for tier := range want {
		if !maps.Equal(want[tier], got[tier]) {
			return cmp.Diff(want, got)
		}
	}
	return ""
}

func (p *plain) resetCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.resets
}

func truth(pool *block.Pool) *held {
	h := newHeld()
	for _, c := range pool.Snapshot().Blocks {
		h[c.Tier][c.Hash] = c.Parent
	}
	return h
}

// engine is a pool that publishes in vLLM's form, as an engine would.
type engine struct {
	t      *testing.T
	pool   *block.Pool
	server *Server
	stop   func()
	rnd    *rand.Rand
	tables []*block.Table
}

func header() kvevent.Header {
	return kvevent.Header{Source: kvevent.Source{Worker: "w", Incarnation: "1"}, Model: testModel, BlockTokens: testBlock}
}

func newEngine(t *testing.T, adjust func(*ServerConfig), changes int) *engine {
	t.Helper()
	pool, err := block.NewPool(block.Config{Blocks: 64, BlockTokens: testBlock, Chain: prefix.Next, Changes: changes, ChangeContent: true})
	if err != nil {
		t.Fatal(err)
	}
	cfg := DefaultServerConfig()
	cfg.Endpoint, cfg.Replay = "tcp://127.0.0.1:0", "tcp://127.0.0.1:0"
	if adjust != nil {
		adjust(&cfg)
	}
	s, err := Listen(t.Context(), cfg, header(), pool, discard())
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{t: t, pool: pool, server: s, rnd: rand.New(rand.NewPCG(1, 9))}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	e.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(e.stop)
	return e
}

// drain publishes what has changed.
func (e *engine) drain() {
	changes, first, lost := e.pool.Changes(nil)
	e.server.Publish(first, lost, changes)
}

// work admits prompts of several namespaces, and drops old ones; lower tiers take copies.
func (e *engine) work(steps int) {
	e.t.Helper()
	for range steps {
		salt := []string{"", "", "salt"}[e.rnd.IntN(3)]
		tokens := make([]sequence.Token, 5+e.rnd.IntN(40))
		for i := range tokens {
			tokens[i] = sequence.Token(i / 8)
			if e.rnd.IntN(24) == 0 {
				tokens[i] += 1000
			}
		}
		pr := block.Prompt{Tokens: tokens, Namespace: prefix.Namespace(testModel, "", salt), Root: prefix.Root(testModel, "", salt)}
		table, err := e.pool.Admit(pr, (len(tokens)+testBlock-1)/testBlock)
		for ; err != nil; table, err = e.pool.Admit(pr, (len(tokens)+testBlock-1)/testBlock) {
			e.tables[0].Release()
			e.tables = e.tables[1:]
		}
		if err := table.Extend(len(tokens)); err != nil {
			e.t.Fatal(err)
		}
		if err := table.Advance(tokens[table.Len():]); err != nil {
			e.t.Fatal(err)
		}
		e.tables = append(e.tables, table)
	}
}

// subscribe follows an engine until the test ends.
func (e *engine) subscribe(sink kvevent.Sink, adjust func(*SubscriberConfig)) *Subscriber {
	e.t.Helper()
	publish, replay := e.server.Endpoints()
	cfg := SubscriberConfig{
		Endpoint: "tcp://" + publish, Replay: "tcp://" + replay, Ranks: 1, Model: testModel, BlockTokens: testBlock, Blocks: 10_000,
	}
	if adjust != nil {
		adjust(&cfg)
	}
	return subscribe(e.t, cfg, sink)
}

func subscribe(t *testing.T, cfg SubscriberConfig, sink kvevent.Sink) *Subscriber {
	t.Helper()
	s, err := NewSubscriber(cfg, header().Source, sink, discard())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

// until waits for what a socket brings.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

// subscribers waits until so many have subscribed.
func (e *engine) subscribers(n int) {
	e.t.Helper()
	until(e.t, "a subscription", func() bool {
		e.server.mu.Lock()
		defer e.server.mu.Unlock()
		all := 0
		for p := range e.server.peers {
			all += len(p.topics)
		}
		return all == n
	})
}

// agree waits until the sink has what the pool holds.
func (e *engine) agree(sink *plain, what string) {
	e.t.Helper()
	want := truth(e.pool)
	until(e.t, what, func() bool { return sink.diff(0, want) == "" })
}

// cutAll ends all connections of subscribers, who come back.
func (e *engine) cutAll() {
	e.server.mu.Lock()
	defer e.server.mu.Unlock()
	for p := range e.server.peers {
		_ = p.conn.Close() // perhaps closed
	}
}

var now = time.Unix(1_700_000_000, 500_000_000)

// freePort is an address that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// dial connects as soon as somebody listens.
func dial(t *testing.T, hostPort string) (conn net.Conn) {
	t.Helper()
	until(t, "a listener", func() (ok bool) {
		var err error
		conn, err = net.Dial("tcp", hostPort)
		return err == nil
	})
	return conn
}
