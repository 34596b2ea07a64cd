package zmq

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/switchyard-llm/switchyard/libs/kvevent"
)

// SubscriberConfig says what engine is followed.
type SubscriberConfig struct {
	// Endpoint is where the engine publishes, such as tcp://host:5557. With a star for the host
	// this side binds and the engine connects. The port of a further rank is that much higher.
	Endpoint string
	// Replay is where it replays; empty: nowhere.
	Replay string
	Topic  string
	// Ranks is the number of data-parallel ranks.
	Ranks int
	// Model is the served name, and BlockTokens the block size, by which own hashes are made.
	Model       string
	BlockTokens int
	// Blocks is how many of the engine's hashes are remembered for each rank.
	Blocks int
}

// Validate names the first field that cannot be.
func (c SubscriberConfig) Validate() error {
	for _, e := range []struct{ name, value string }{{"endpoint", c.Endpoint}, {"replay", c.Replay}} {
		if _, _, err := address(e.value, max(0, c.Ranks-1)); err != nil && (e.value != "" || e.name == "endpoint") {
			return fmt.Errorf("%s is %w", e.name, err)
		}
	}
	switch {
	case c.Ranks < 1 || c.Ranks > 1024:
		return fmt.Errorf("ranks is %d, want 1 to 1024", c.Ranks)
	case c.Model == "":
		return errors.New("model is empty, want the served name")
	case c.BlockTokens < 1:
		return fmt.Errorf("block_tokens is %d, want at least 1", c.BlockTokens)
	case c.Blocks < 1:
		return fmt.Errorf("blocks is %d, want at least 1", c.Blocks)
	}
	return nil
}

const (
	messageBytesMax = 16 << 20
	replayTimeout   = 5 * time.Second
	redialMin       = 100 * time.Millisecond
	redialMax       = 5 * time.Second
	endOfReplay     = math.MaxUint64
)

// Counts is what a subscriber has seen, over all ranks.
type Counts struct {
	Batches uint64
	// Gaps is how often batches were missing, Replays how often they were replayed, and Losses
	// how often they were not, so that nothing is taken for held.
	Gaps, Replays, Losses uint64
	// Malformed messages could not be read; they count as lost, too.
	Malformed uint64
	// Orphans are blocks of which the block before is not known, Misfits those of another block size,
	// Overflow those beyond what is remembered.
	Orphans, Misfits, Overflow uint64
}

type counters struct {
	batches, gaps, replays, losses, malformed, orphans, misfits, overflow atomic.Uint64
}

// Subscriber follows an engine.
type Subscriber struct {
	cfg    SubscriberConfig
	source kvevent.Source
	sink   kvevent.Sink
	log    *slog.Logger
	counts counters

	mu    sync.Mutex // guards ranks, and the calls of the sink
	ranks map[int]*translator
}

// NewSubscriber returns a subscriber whose calls name the source, in its ranks.
func NewSubscriber(cfg SubscriberConfig, source kvevent.Source, sink kvevent.Sink, log *slog.Logger) (*Subscriber, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("zeromq subscriber of %s: %w", source.Worker, err)
	}
	return &Subscriber{cfg: cfg, source: source, sink: sink, log: log.With("worker_id", source.Worker), ranks: make(map[int]*translator)}, nil
}

// Counts tells what was seen so far.
func (s *Subscriber) Counts() Counts {
	c := &s.counts
	return Counts{
		Batches: c.batches.Load(), Gaps: c.gaps.Load(), Replays: c.replays.Load(), Losses: c.losses.Load(), Malformed: c.malformed.Load(),
		Orphans: c.orphans.Load(), Misfits: c.misfits.Load(), Overflow: c.overflow.Load(),
	}
}

// Run follows until ctx ends; then all that the engine held is gone. An engine that cannot be reached
// is sought for ever.
func (s *Subscriber) Run(ctx context.Context) error {
	var ranks sync.WaitGroup
	for rank := range s.cfg.Ranks {
		ranks.Go(func() { s.follow(ctx, rank) })
	}
	ranks.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.ranks {
		s.sink.Gone(t.source)
	}
	return nil
}

// follow keeps up one rank's connection.
func (s *Subscriber) follow(ctx context.Context, rank int) {
	hostPort, wildcard, err := address(s.cfg.Endpoint, rank)
	if err != nil {
		s.log.Error("zeromq endpoint", "error", err) // Validate lets none through
		return
	}
	line := &line{s: s, rank: rank}
	connect := func() (net.Conn, error) { return (&net.Dialer{Timeout: redialMax}).DialContext(ctx, "tcp", hostPort) }
	if wildcard {
		listen := &net.ListenConfig{}
		l, err := listen.Listen(ctx, "tcp", hostPort)
		if err != nil {
			s.log.Error("no kv events: cannot listen for the engine", "error", err)
			return
		}
		defer context.AfterFunc(ctx, func() { _ = l.Close() })() // Accept then fails, which ends the loop
		defer l.Close()
		connect = l.Accept
	}
	pause := redialMin
	for told := false; ctx.Err() == nil; {
		conn, err := connect()
		if err == nil {
			pause = redialMin
			told = false
			err = line.listen(ctx, conn)
		}
		if ctx.Err() != nil {
			return
		}
		if !told {
			s.log.Warn("the engine's kv events are away, trying on", "rank", rank, "error", err)
			told = true
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, redialMax)
	}
}

// line is where one rank's sequence stands. Its goroutine alone uses it.
type line struct {
	s     *Subscriber
	rank  int
	ranks map[int]bool // that were in its batches

	begun bool
	fresh bool   // no message has come over this connection
	next  uint64 // number of the batch that is due
}

// listen takes batches until the connection ends.
func (l *line) listen(ctx context.Context, conn net.Conn) error {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // reading then fails, which ends the loop
	c, err := shake(conn, subSocket, messageBytesMax)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.send(replayTimeout, append([]byte{1}, l.s.cfg.Topic...)); err != nil {
		return err
	}
	l.fresh = true
	for {
		frames, err := c.receive()
		if err != nil {
			return err
		}
		if len(frames) != 3 || len(frames[1]) != 8 {
			l.s.counts.malformed.Add(1)
			continue
		}
		l.take(ctx, binary.BigEndian.Uint64(frames[1]), frames[2])
		l.fresh = false
	}
}

// take applies a live batch, after those before it. On one connection numbers only grow; over the end of
// one the engine may have begun anew, and then numbers that fit by chance prove nothing but the next one.
func (l *line) take(ctx context.Context, number uint64, payload []byte) {
	switch {
	case number == l.next && l.begun, number == 0 && !l.begun:
	case l.fresh:
		l.s.counts.gaps.Add(1)
		l.lost()
		l.next = 0
		l.replay(ctx)
	case number < l.next: // a replay had it
		return
	default:
		l.s.counts.gaps.Add(1)
		l.replay(ctx)
	}
	l.begun = true
	if number < l.next {
		return
	}
	if number > l.next {
		l.lost()
	}
	l.apply(number, payload)
}

func (l *line) apply(number uint64, payload []byte) {
	l.next = number + 1
	b, err := decode(payload)
	if err != nil {
		l.s.counts.malformed.Add(1)
		l.s.log.Warn("a batch of the engine's kv events cannot be read", "rank", l.rank, "number", number, "error", err)
		l.lost()
		return
	}
	l.s.counts.batches.Add(1)
	rank := l.rank
	if b.rank >= 0 && b.rank < 1024 {
		rank = b.rank
	}
	if l.ranks == nil {
		l.ranks = make(map[int]bool)
	}
	l.ranks[rank] = true
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.s.translator(rank).apply(&b)
}

func (s *Subscriber) translator(rank int) *translator {
	t := s.ranks[rank]
	if t == nil {
		source := s.source
		source.Rank = uint32(rank)
		t = newTranslator(s.cfg, source, s.sink, &s.counts)
		s.ranks[rank] = t
	}
	return t
}

// lost: batches are missing for good.
func (l *line) lost() {
	if len(l.ranks) == 0 {
		return // nothing was known
	}
	l.s.counts.losses.Add(1)
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	for rank := range l.ranks {
		l.s.translator(rank).doubt()
	}
}

// replay asks for the batches from next on and applies what comes. Without an answer next stays.
func (l *line) replay(ctx context.Context) {
	if l.s.cfg.Replay == "" {
		return
	}
	if err := l.replayAll(ctx); err != nil && ctx.Err() == nil {
		l.s.log.Warn("the engine does not replay its kv events", "rank", l.rank, "error", err)
	}
}

func (l *line) replayAll(ctx context.Context) error {
	hostPort, _, err := address(l.s.cfg.Replay, l.rank)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, replayTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", hostPort)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // reading then fails
	c, err := shake(conn, dealerSocket, messageBytesMax)
	if err != nil {
		return err
	}
	defer c.Close()
	var from [8]byte
	binary.BigEndian.PutUint64(from[:], l.next)
	if err := c.send(replayTimeout, nil, from[:]); err != nil {
		return err
	}
	l.s.counts.replays.Add(1)
	for {
		frames, err := c.receive()
		if err != nil {
			return err
		}
		if len(frames) != 3 || len(frames[0]) != 0 || len(frames[1]) != 8 {
			return errors.New("an answer of another form than number and batch")
		}
		number := binary.BigEndian.Uint64(frames[1])
		switch {
		case number == endOfReplay:
			return nil
		case number < l.next: // not asked for
		case number > l.next: // the ones before are kept no longer
			l.lost()
			fallthrough
		default:
			l.apply(number, frames[2])
		}
	}
}
