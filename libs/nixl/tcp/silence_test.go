package tcp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/wire"
)

// TestAPeerThatDoesNotRead asks for more than the sockets hold and reads nothing of it, until
// the owner has taken the memory back: then nothing of what is left to be sent is real.
func TestAPeerThatDoesNotRead(t *testing.T) {
	h := start(t, "decode")
	pattern(h.region.Bytes(), 1)
	h.allow(t, rawID)
	r := connect(t, h)
	const requests = 48
	for i := range requests {
		runs := make([]run, 16)
		for j := range runs {
			runs[j] = at(j, 0, blockBytes)
		}
		r.send(requestFrame(kindRead, requestHead{transfer: uint64(i), grant: everything}, runs...))
	}
	if k, _ := frame(t, r.data); k != kindData {
		t.Fatalf("type %d", k)
	}
	h.stuck(t)
	want := bytes.Clone(h.region.Bytes()[:maxBytes])
	if err := h.Revoke(soon(t), rawID, everything); err != nil { // needs no end of the write
		t.Fatal(err)
	}
	pattern(h.region.Bytes(), 99) // it is the owner's again
	sound, given := 0, 0
	for i := range requests {
		if i > 0 {
			k, payload := frame(t, r.data)
			if k == kindAnswer {
				if _, err, _ := parseAnswer(payload); !errors.Is(err, nixl.ErrNotGranted) {
					t.Fatalf("answer %d: %v", i, err)
				}
				continue
			}
		}
		b := make([]byte, maxBytes+trailerBytes)
		if _, err := io.ReadFull(r.data, b); err != nil {
			t.Fatal(err)
		}
		switch code(b[maxBytes+8]) {
		case codeDone:
			sound++
			if !bytes.Equal(b[:maxBytes], want) {
				t.Fatalf("data %d are said to be sound, and are not", i)
			}
		case codeNotGranted:
			given++
		default:
			t.Fatalf("data %d: code %d", i, b[maxBytes+8])
		}
	}
	if sound == 0 || given != 1 {
		t.Errorf("%d frames were sound and %d given up, want some and 1", sound, given)
	}
}

// stuck waits until a data connection's write does not go on.
func (h *host) stuck(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	c := h.in[rawID].conns[1]
	h.mu.Unlock()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for ctx := soon(t); ; {
		select {
		case <-look.C:
		case <-ctx.Done():
			t.Fatal("the write goes on and on")
		}
		if moved := c.meter.wrote.Swap(false); c.meter.writing.Load() && !moved {
			return
		}
	}
}

func TestAPeerThatTakesNothing(t *testing.T) {
	h := start(t, "decode", func(c *Config) { c.Silence = 400 * time.Millisecond })
	h.allow(t, rawID)
	r := connect(t, h)
	stop := r.beat(true)
	defer stop()
	for i := range window {
		r.send(requestFrame(kindRead, requestHead{transfer: uint64(i), grant: everything}, at(0, 0, blockBytes), at(1, 0, blockBytes),
			at(2, 0, blockBytes), at(3, 0, blockBytes), at(4, 0, blockBytes), at(5, 0, blockBytes), at(6, 0, blockBytes)))
	}
	if err := h.wantGone(t, rawID); !strings.Contains(err.Error(), "taken nothing") {
		t.Fatalf("gone for %v", err)
	}
}

func TestASilentPeerIsNoticed(t *testing.T) {
	h := start(t, "decode", func(c *Config) { c.Silence = 300 * time.Millisecond })
	connect(t, h)
	if err := h.wantGone(t, rawID); !strings.Contains(err.Error(), "silent") {
		t.Fatalf("gone for %v", err)
	}
}

// beat sends signs of life on the connection of notes, and of data, until it is stopped.
func (r *raw) beat(data bool) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticks := time.NewTicker(50 * time.Millisecond)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
			case <-done:
				return
			}
			for _, c := range map[bool][]net.Conn{true: {r.notes, r.data}, false: {r.notes}}[data] {
				_, _ = c.Write(beatFrame) // the host may have ended the link
			}
		}
	}()
	return func() { close(done); <-ended }
}

// TestALivingPeerStays sends signs of life and nothing else for longer than the silence.
func TestALivingPeerStays(t *testing.T) {
	h := start(t, "decode", func(c *Config) { c.Silence = 500 * time.Millisecond })
	r := connect(t, h)
	stop := r.beat(true)
	timer := time.NewTimer(1200 * time.Millisecond)
	defer timer.Stop()
	<-timer.C
	if _, err := r.notes.Write(wire.Append(nil, wire.Note, []byte("here"))); err != nil {
		t.Fatal(err)
	}
	if e := h.event(t); string(e.Payload) != "here" {
		t.Fatalf("got %+v", e)
	}
	stop()
	if err := h.wantGone(t, rawID); !strings.Contains(err.Error(), "silent") {
		t.Fatalf("gone for %v", err)
	}
}

// TestAFrameThatDoesNotEnd says that it is longer than it is; what follows are signs of life.
func TestAFrameThatDoesNotEnd(t *testing.T) {
	h := start(t, "decode", func(c *Config) { c.Silence = 300 * time.Millisecond })
	r := connect(t, h)
	f := requestFrame(kindRead, requestHead{transfer: 1, grant: everything}, at(0, 0, 8))
	binary.LittleEndian.PutUint32(f, uint32(len(f)-wire.HeaderBytes+8192))
	r.send(f)
	stop := r.beat(true)
	defer stop()
	if err := h.wantGone(t, rawID); !errors.Is(err, wire.ErrFrame) || !strings.Contains(err.Error(), "does not end") {
		t.Fatalf("gone for %v", err)
	}
}

// TestAnEarlierAttemptDoesNotTakeThePlace of a later one, which it would end.
func TestAnEarlierAttemptDoesNotTakeThePlace(t *testing.T) {
	h := start(t, "decode")
	h.allow(t, rawID)
	r := connect(t, h, func(g *hello) { g.Attempt = 5 })
	for _, attempt := range []uint64{4, 5} {
		g := rawHello(t, h)
		g.Attempt = attempt
		if k, answer := ask(t, dialRaw(t, h), wire.Hello, g); k != wire.Refusal {
			t.Fatalf("attempt %d: type %d, %s", attempt, k, answer)
		}
	}
	payload := []byte("the link is as it was")
	r.send(requestFrame(kindWrite, requestHead{transfer: 5, grant: everything}, at(0, 0, len(payload))), payload, trailer(payload))
	r.wantAnswer(5, nil)
	later := connect(t, h, func(g *hello) { g.Attempt = 6 })
	h.wantGone(t, rawID)
	later.send(requestFrame(kindWrite, requestHead{transfer: 6, grant: everything}, at(0, 0, len(payload))), payload, trailer(payload))
	later.wantAnswer(6, nil)
}

// TestTheGoodbyeArrives although more bytes come than the host has looked at.
func TestTheGoodbyeArrives(t *testing.T) {
	h := start(t, "decode")
	r := connect(t, h)
	junk := make([]byte, 4<<20)
	go func() { _, _ = r.data.Write(append(wire.Append(nil, 200, nil), junk...)) }() // it may not all be taken
	if k, payload := frame(t, r.data); k != wire.Goodbye || !strings.Contains(string(payload), "type 200") {
		t.Fatalf("type %d, %q", k, payload)
	}
	if _, err := r.data.Read(make([]byte, 1)); err != io.EOF {
		t.Fatalf("then %v", err)
	}
	r.notes.Close()
	r.data.Close()
	h.wantGone(t, rawID)
}
