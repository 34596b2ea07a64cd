package zmq

import (
	"strings"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/block"
)

func TestWhatAWorkerPublishesInVLLMsFormComesInAsItWas(t *testing.T) {
	for _, encoding := range []Encoding{Maps, Arrays} {
		t.Run(string(encoding), func(t *testing.T) {
			e := newEngine(t, func(c *ServerConfig) { c.Encoding, c.Topic = encoding, "kv-events" }, 1<<12)
			sink := newPlain()
			s := e.subscribe(sink, func(c *SubscriberConfig) { c.Topic = "kv" })
			e.subscribers(1)
			for range 20 {
				e.work(10)
				e.drain()
			}
			e.agree(sink, "all batches")
			if c := s.Counts(); c.Gaps+c.Losses+c.Malformed+c.Orphans+c.Misfits+c.Overflow > 0 || sink.resetCount() > 0 {
				t.Errorf("%+v and %d resets, want neither a gap nor a fault", c, sink.resetCount())
			}
			if e.pool.Stats().Evictions == 0 {
				t.Error("nothing was evicted")
			}
		})
	}
}

func TestOtherTopicsAreNotHeard(t *testing.T) {
	e := newEngine(t, func(c *ServerConfig) { c.Topic = "kv" }, 1<<12)
	sink := newPlain()
	other := e.subscribe(newPlain(), func(c *SubscriberConfig) { c.Topic = "x" })
	e.subscribe(sink, nil)
	e.subscribers(2)
	e.work(5)
	e.drain()
	e.agree(sink, "an empty topic hears all")
	if c := other.Counts(); c.Batches > 0 {
		t.Errorf("%+v, want nothing heard", c)
	}
}

func TestALateSubscriberIsReplayedWhatItMissed(t *testing.T) {
	e := newEngine(t, nil, 1<<12)
	for range 10 {
		e.work(10)
		e.drain()
	}
	sink := newPlain()
	s := e.subscribe(sink, nil)
	e.subscribers(1)
	e.work(1)
	e.drain()
	e.agree(sink, "a late subscriber")
	if c := s.Counts(); c.Replays != 1 || c.Losses > 0 {
		t.Errorf("%+v, want 1 replay and no loss", c)
	}
}

func TestACutConnectionIsMadeAgainAndWhatWasMissedIsReplayed(t *testing.T) {
	e := newEngine(t, nil, 1<<12)
	sink := newPlain()
	s := e.subscribe(sink, nil)
	e.subscribers(1)
	e.work(20)
	e.drain()
	e.agree(sink, "before the cut")
	e.cutAll()
	e.subscribers(0)
	e.work(20)
	e.drain() // nobody hears it
	e.subscribers(1)
	e.work(1)
	e.drain()
	e.agree(sink, "after the cut")
	if c := s.Counts(); c.Gaps != 1 || c.Replays != 1 {
		t.Errorf("%+v, want 1 gap and 1 replay", c)
	}
}

func TestWhatCannotBeReplayedIsNotTakenForHeld(t *testing.T) {
	e := newEngine(t, func(c *ServerConfig) { c.Steps = 2 }, 1<<12)
	sink := newPlain()
	s := e.subscribe(sink, nil)
	e.subscribers(1)
	e.work(20)
	e.drain()
	e.agree(sink, "before the loss")
	e.cutAll()
	e.subscribers(0)
	for range 5 {
		e.work(10)
		e.drain()
	}
	e.subscribers(1)
	e.work(10)
	e.drain()
	until(t, "a loss", func() bool { return s.Counts().Losses > 0 })
	// It knows less than there is, and nothing that is not there.
	until(t, "a part of what is there", func() bool {
		want := truth(e.pool)
		sink.mu.Lock()
		defer sink.mu.Unlock()
		for h := range sink.of[0][block.Device] {
			if _, ok := want[block.Device][h]; !ok {
				return false
			}
		}
		return true
	})
}

func TestALogThatOverflowedIsToldAnew(t *testing.T) {
	e := newEngine(t, nil, 64)
	sink := newPlain()
	e.subscribe(sink, nil)
	e.subscribers(1)
	e.work(3)
	e.drain()
	e.work(40) // far more than the log holds
	e.drain()
	for range 60 { // until all that there was then is gone
		e.work(1)
		e.drain()
	}
	e.agree(sink, "an overflow")
	if sink.resetCount() == 0 {
		t.Error("nothing was reset, so nothing was lost")
	}
}

func TestAnEngineThatBeginsAnewHoldsNothingOfItsFormerLife(t *testing.T) {
	old := newEngine(t, nil, 1<<12)
	publish, replay := old.server.Endpoints()
	sink := newPlain()
	old.subscribe(sink, nil)
	old.subscribers(1)
	old.work(30)
	old.drain()
	old.agree(sink, "the former life")
	old.stop()
	e := newEngine(t, func(c *ServerConfig) { c.Endpoint, c.Replay = "tcp://"+publish, "tcp://"+replay }, 1<<12)
	e.rnd.Uint64() // other prompts
	e.subscribers(1)
	for range 3 { // as many batches as before, and more
		e.work(1)
		e.drain()
	}
	e.agree(sink, "the new life")
}

func TestAnEngineMayConnectInsteadOfBinding(t *testing.T) {
	sink := newPlain()
	hostPort := freePort(t)
	_, port, _ := strings.Cut(hostPort, ":")
	s := subscribe(t, SubscriberConfig{Endpoint: "tcp://*:" + port, Ranks: 1, Model: testModel, BlockTokens: testBlock, Blocks: 100}, sink)
	conn := dial(t, hostPort)
	c, err := shake(conn, pubSocket, 1<<10)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if frames, err := c.receive(); err != nil || len(frames) != 1 || string(frames[0]) != "\x01" {
		t.Fatalf("%q, %v: want a subscription to all topics", frames, err)
	}
	payload := encoder{encoding: Maps, rank: 7, blockTokens: testBlock}.batch(nil, now, []event{
		{tag: tagStored, hashes: []hash{"12345678"}, tokens: []uint32{1, 2, 3, 4}},
	})
	if err := c.send(sendTimeout, nil, make([]byte, 8), payload); err != nil {
		t.Fatal(err)
	}
	until(t, "its batch, under the rank that it names", func() bool {
		sink.mu.Lock()
		defer sink.mu.Unlock()
		return sink.of[7] != nil && len(sink.of[7][block.Device]) == 1
	})
	if c := s.Counts(); c.Batches != 1 {
		t.Errorf("%+v, want 1 batch", c)
	}
}

func TestConfigsThatCannotBeNameTheField(t *testing.T) {
	for field, change := range map[string]func(*SubscriberConfig){
		"endpoint":     func(c *SubscriberConfig) { c.Endpoint = "ipc://x" },
		"replay":       func(c *SubscriberConfig) { c.Replay = "tcp://x" },
		"ranks":        func(c *SubscriberConfig) { c.Ranks = 0 },
		"model":        func(c *SubscriberConfig) { c.Model = "" },
		"block_tokens": func(c *SubscriberConfig) { c.BlockTokens = 0 },
		"blocks":       func(c *SubscriberConfig) { c.Blocks = 0 },
	} {
		cfg := SubscriberConfig{Endpoint: "tcp://h:1", Ranks: 1, Model: "m", BlockTokens: 1, Blocks: 1}
		change(&cfg)
		if _, err := NewSubscriber(cfg, header().Source, newPlain(), discard()); err == nil || !strings.Contains(err.Error(), field+" is") {
			t.Errorf("%s: %v, want its name", field, err)
		}
	}
	for field, change := range map[string]func(*ServerConfig){
		"endpoint":        func(c *ServerConfig) { c.Endpoint = "tcp://h:x" },
		"replay_endpoint": func(c *ServerConfig) { c.Replay = "h:1" },
		"buffer_steps":    func(c *ServerConfig) { c.Steps = 0 },
		"encoding":        func(c *ServerConfig) { c.Encoding = "json" },
	} {
		cfg := DefaultServerConfig()
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), field+" is") || !strings.Contains(err.Error(), "want") {
			t.Errorf("%s: %v, want its name", field, err)
		}
	}
}

func TestThePortOfARankIsThatMuchHigher(t *testing.T) {
	for _, tc := range []struct {
		endpoint string
		rank     int
		want     string
		wildcard bool
	}{
		{"tcp://host:5557", 0, "host:5557", false}, {"tcp://*:5557", 3, ":5560", true}, {"tcp://[::1]:1", 1, "[::1]:2", false},
		{"tcp://host:0", 3, "host:0", false},
	} {
		got, wildcard, err := address(tc.endpoint, tc.rank)
		if err != nil || got != tc.want || wildcard != tc.wildcard {
			t.Errorf("%s of rank %d is %s, %v, %v", tc.endpoint, tc.rank, got, wildcard, err)
		}
	}
	if got, _, err := address("tcp://host:65535", 1); err == nil {
		t.Errorf("a port beyond all is %s", got)
	}
}
