package zmq

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/kvevent"
)

// ServerConfig says where and how changes are published in vLLM's form.
type ServerConfig struct {
	Endpoint string   `yaml:"endpoint" help:"where changes are published in vLLM's form as well, such as tcp://*:5557, for routers that read that; nowhere if empty"`
	Replay   string   `yaml:"replay_endpoint" help:"where the last of them are replayed, such as tcp://*:5558; nowhere if empty"`
	Topic    string   `yaml:"topic" help:"topic of the messages"`
	Steps    int      `yaml:"buffer_steps" help:"messages that are kept for a replay"`
	Encoding Encoding `yaml:"encoding" help:"form of the messages: map (as vLLM since 0.26) or array (as before)"`
}

// DefaultServerConfig publishes nothing.
func DefaultServerConfig() ServerConfig { return ServerConfig{Steps: 10_000, Encoding: Maps} }

// Validate names the first field that cannot be.
func (c ServerConfig) Validate() error {
	for _, e := range []struct{ name, value string }{{"endpoint", c.Endpoint}, {"replay_endpoint", c.Replay}} {
		if e.value == "" {
			continue
		}
		if _, _, err := address(e.value, 0); err != nil {
			return fmt.Errorf("%s is %w", e.name, err)
		}
	}
	switch {
	case c.Steps < 1 || c.Steps > 1<<20:
		return fmt.Errorf("buffer_steps is %d, want 1 to %d", c.Steps, 1<<20)
	case c.Encoding != Maps && c.Encoding != Arrays:
		return fmt.Errorf("encoding is %q, want %s or %s", c.Encoding, Maps, Arrays)
	}
	return nil
}

const (
	peersMax      = 64       // connections to each socket
	replayBytes   = 64 << 20 // kept for a replay, at most
	queuedMax     = 1024     // messages on their way to one subscriber; further ones it misses
	requestBytes  = 4 << 10  // what a peer of ours has to say
	topicsMax     = 64
	batchChanges  = 1024
	sendTimeout   = 5 * time.Second
	sequenceBytes = 8
)

// Server publishes a worker's changes, of one rank, in vLLM's form. Its changes carry their content.
type Server struct {
	cfg     ServerConfig
	encoder encoder
	changes kvevent.Log
	log     *slog.Logger

	publish, replay net.Listener // replay may be nil

	covered uint64 // number of the last change that is published; Publish's alone

	mu     sync.Mutex // guards the rest
	steps  []step     // the last messages
	kept   int        // bytes of them
	number uint64     // of the next message
	peers  map[*peer]bool
	missed atomic.Uint64
}

var _ kvevent.Output = (*Server)(nil)

type step struct {
	number  uint64
	payload []byte
}

// Listen binds a server's endpoints. Run serves and closes them.
func Listen(ctx context.Context, cfg ServerConfig, h kvevent.Header, changes kvevent.Log, log *slog.Logger) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, changes: changes, log: log, peers: make(map[*peer]bool),
		encoder: encoder{encoding: cfg.Encoding, rank: int(h.Source.Rank), blockTokens: h.BlockTokens},
	}
	var err error
	if s.publish, err = bind(ctx, cfg.Endpoint); err != nil {
		return nil, fmt.Errorf("endpoint is %q: %w", cfg.Endpoint, err)
	}
	if cfg.Replay != "" {
		if s.replay, err = bind(ctx, cfg.Replay); err != nil {
			return nil, errors.Join(fmt.Errorf("replay_endpoint is %q: %w", cfg.Replay, err), s.publish.Close())
		}
	}
	return s, nil
}

func bind(ctx context.Context, endpoint string) (net.Listener, error) {
	hostPort, _, err := address(endpoint, 0)
	if err != nil {
		return nil, err
	}
	return new(net.ListenConfig).Listen(ctx, "tcp", hostPort)
}

// Endpoints are what the server is bound to, as host:port; replay may be empty.
func (s *Server) Endpoints() (publish, replay string) {
	if s.replay != nil {
		replay = s.replay.Addr().String()
	}
	return s.publish.Addr().String(), replay
}

// Close closes the endpoints of a server that is not run.
func (s *Server) Close() error {
	err := s.publish.Close()
	if s.replay != nil {
		err = errors.Join(err, s.replay.Close())
	}
	if errors.Is(err, net.ErrClosed) { // Run has ended
		return nil
	}
	return err
}

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	var all sync.WaitGroup
	all.Go(func() { s.accept(ctx, s.publish, pubSocket, s.feed) })
	if s.replay != nil {
		all.Go(func() { s.accept(ctx, s.replay, routerSocket, s.serveReplay) })
	}
	<-ctx.Done()
	err := s.Close() // which ends the accepting
	all.Wait()
	return err
}

// accept serves each connection in a goroutine of its own, and waits for all.
func (s *Server) accept(ctx context.Context, l net.Listener, kind string, serve func(context.Context, *socket) error) {
	var all sync.WaitGroup
	defer all.Wait()
	places := make(chan struct{}, peersMax)
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() == nil {
				s.log.Error("zeromq: no more connections are taken", "kind", kind, "error", err)
			}
			return
		}
		select {
		case places <- struct{}{}:
		default:
			s.log.Warn("zeromq: too many connections", "kind", kind, "peer", conn.RemoteAddr())
			_ = conn.Close() // refused; there is nobody to tell
			continue
		}
		all.Go(func() {
			defer func() { <-places }()
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // ends its reading
			c, err := shake(conn, kind, requestBytes)
			if err == nil {
				err = serve(ctx, c)
				_ = c.Close() // it may be closed already
			}
			if err != nil && ctx.Err() == nil {
				s.log.Debug("zeromq: a peer has left", "kind", kind, "peer", conn.RemoteAddr(), "reason", err)
			}
		})
	}
}

// Publish implements kvevent.Output. After a loss the reader is told that all is gone, and then
// what there is.
func (s *Server) Publish(first, lost uint64, changes []block.Change) {
	if lost > 0 && first > s.covered+1 {
		snapshot := s.changes.Snapshot()
		s.emit([]event{{tag: tagCleared}})
		s.emitChanges(snapshot.Blocks)
		s.covered = snapshot.Sequence
	}
	if skip := s.covered + 1 - min(s.covered+1, first); skip < uint64(len(changes)) {
		s.emitChanges(changes[skip:])
		s.covered = first + uint64(len(changes)) - 1
	}
}

func (s *Server) emitChanges(changes []block.Change) {
	for part := range slices.Chunk(changes, batchChanges) {
		s.emit(eventsOf(part))
	}
}

// emit numbers a message, keeps it for replays and gives it to whoever subscribes and is not behind.
func (s *Server) emit(events []event) {
	payload := s.encoder.batch(nil, time.Now(), events)
	s.mu.Lock()
	defer s.mu.Unlock()
	m := step{s.number, payload}
	s.number++
	s.steps = append(s.steps, m)
	s.kept += len(payload)
	n := 0
	for len(s.steps)-n > s.cfg.Steps || s.kept > replayBytes && n < len(s.steps)-1 {
		s.kept -= len(s.steps[n].payload)
		s.steps[n].payload = nil
		n++
	}
	s.steps = s.steps[n:]
	for p := range s.peers {
		if !p.wants([]byte(s.cfg.Topic)) {
			continue
		}
		select {
		case p.queue <- m:
		default:
			s.missed.Add(1)
		}
	}
}

// Missed is how many messages subscribers did not get because they were too slow.
func (s *Server) Missed() uint64 { return s.missed.Load() }

// peer is a subscriber.
type peer struct {
	conn   *socket
	queue  chan step
	topics [][]byte // guarded by the server's mutex
}

func (p *peer) wants(topic []byte) bool {
	return slices.ContainsFunc(p.topics, func(prefix []byte) bool { return bytes.HasPrefix(topic, prefix) })
}

// feed sends to one subscriber until its connection ends.
func (s *Server) feed(ctx context.Context, c *socket) error {
	p := &peer{conn: c, queue: make(chan step, queuedMax)}
	s.mu.Lock()
	s.peers[p] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.peers, p)
	}()
	listened := make(chan error, 1)
	go func() { listened <- s.listenTo(p, c) }() // ends with the connection
	for {
		select {
		case err := <-listened:
			return err
		case m := <-p.queue:
			var number [sequenceBytes]byte
			binary.BigEndian.PutUint64(number[:], m.number)
			if err := c.send(sendTimeout, []byte(s.cfg.Topic), number[:], m.payload); err != nil {
				err = errors.Join(err, c.Close())
				<-listened
				return err
			}
		case <-ctx.Done():
			<-listened
			return nil
		}
	}
}

// listenTo takes subscriptions: a byte, 1 to subscribe and 0 to end that, and the topic's prefix.
func (s *Server) listenTo(p *peer, c *socket) error {
	for {
		frames, err := c.receive()
		if err != nil {
			return err
		}
		if len(frames) != 1 || len(frames[0]) == 0 {
			continue
		}
		prefix := frames[0][1:]
		s.mu.Lock()
		switch at := slices.IndexFunc(p.topics, func(t []byte) bool { return bytes.Equal(t, prefix) }); {
		case frames[0][0] == 1 && len(p.topics) < topicsMax:
			p.topics = append(p.topics, prefix)
		case frames[0][0] == 0 && at >= 0:
			p.topics = slices.Delete(p.topics, at, at+1)
		}
		s.mu.Unlock()
	}
}

// serveReplay answers requests, each a number to begin with, until the connection ends.
func (s *Server) serveReplay(_ context.Context, c *socket) error {
	for {
		frames, err := c.receive()
		if err != nil {
			return err
		}
		if len(frames) != 2 || len(frames[0]) != 0 || len(frames[1]) != sequenceBytes {
			return errors.New("a request of another form than a number")
		}
		from := binary.BigEndian.Uint64(frames[1])
		s.mu.Lock()
		steps := slices.Clone(s.steps)
		s.mu.Unlock()
		for _, m := range steps {
			if m.number < from {
				continue
			}
			if err := c.send(sendTimeout, nil, binary.BigEndian.AppendUint64(nil, m.number), m.payload); err != nil {
				return err
			}
		}
		if err := c.send(sendTimeout, nil, binary.BigEndian.AppendUint64(nil, endOfReplay), nil); err != nil {
			return err
		}
	}
}
