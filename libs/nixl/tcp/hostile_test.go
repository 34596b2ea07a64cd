package tcp

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/wire"
)

func TestHelloThatIsRefused(t *testing.T) {
	h := start(t, "decode")
	for name, c := range map[string]struct {
		change func(*hello)
		want   string
	}{
		"version":           {func(g *hello) { g.Version = 2 }, "version is 2, want 1"},
		"other incarnation": {func(g *hello) { g.Wants.Incarnation = "0" }, "decode/0 is not here"},
		"no metadata":       {func(g *hello) { g.Metadata = nil }, "version is 0"},
		"format": {func(g *hello) {
			g.Metadata = json.RawMessage(strings.Replace(string(g.Metadata), `"kv_format":"f"`, `"kv_format":"g"`, 1))
		}, `KV format is "g" here, "f" at the peer`},
		"itself":         {func(g *hello) { g.Metadata = h.meta(t) }, "its own peer"},
		"no attempt":     {func(g *hello) { g.Attempt = 0 }, "attempt 0, want 1 to 9007199254740992"},
		"last attempt":   {func(g *hello) { g.Attempt = 1<<64 - 1 }, "attempt 18446744073709551615, want"},
		"no connections": {func(g *hello) { g.Connections = 0 }, "wants 0 connections, want 1 to 16"},
		"connections":    {func(g *hello) { g.Connections = 1 << 40 }, "want 1 to 16"},
		"long wish":      {func(g *hello) { g.Wants.Name = strings.Repeat("x", 60<<10) }, "name has 61440 bytes, want at most 256"},
		"long life":      {func(g *hello) { g.Wants.Incarnation = strings.Repeat("x", 257) }, "incarnation has 257 bytes"},
		"long name": {func(g *hello) {
			g.Metadata = json.RawMessage(strings.Replace(string(g.Metadata), `"raw"`, `"`+strings.Repeat("x", 257)+`"`, 1))
		}, "name has 257 bytes, want at most 256"},
		"long number": {func(g *hello) {
			g.Metadata = json.RawMessage(`{"switchyard_nixl":` + strings.Repeat("9", 60<<10) + `}`)
		}, "number 9999"},
	} {
		g := rawHello(t, h)
		c.change(&g)
		k, answer := ask(t, dialRaw(t, h), wire.Hello, g)
		if err := wire.DecodeRefusal(answer); k != wire.Refusal || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: type %d, %v, want %q", name, k, err, c.want)
		}
		if len(answer) > 1000 {
			t.Errorf("%s: the answer has %d bytes: %.300s", name, len(answer), answer)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.opened != 0 {
		t.Errorf("%d links were opened", h.opened)
	}
}

// TestARefusalArrives although more has come than the host looks at, which would reset a
// connection that is closed at once.
func TestARefusalArrives(t *testing.T) {
	h := start(t, "decode")
	g := rawHello(t, h)
	g.Version = 2
	payload, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	socket := dialRaw(t, h)
	if _, err := socket.Write(append(wire.Append(nil, wire.Hello, payload), make([]byte, 8<<10)...)); err != nil {
		t.Fatal(err)
	}
	if k, _, err := wire.Read(socket); err != nil || k != wire.Refusal {
		t.Fatalf("type %d, %v", k, err)
	}
	if _, err := socket.Read(make([]byte, 1)); err != io.EOF {
		t.Fatalf("then %v", err)
	}
}

func TestNobodyElseJoins(t *testing.T) {
	h := start(t, "decode")
	r := connect(t, h, func(g *hello) { g.Connections = 2 })
	other := append([]byte(nil), r.nonce...)
	other[3] ^= 1
	for name, j := range map[string]join{
		"another nonce": {protocolVersion, other, 2},
		"no nonce":      {protocolVersion, nil, 2},
		"zero nonce":    {protocolVersion, make([]byte, 16), 2},
		"taken":         {protocolVersion, r.nonce, 1},
		"that of notes": {protocolVersion, r.nonce, 0},
		"one too many":  {protocolVersion, r.nonce, 3},
		"far too many":  {protocolVersion, r.nonce, 1 << 40},
		"version":       {2, r.nonce, 2},
	} {
		if k, answer := ask(t, dialRaw(t, h), kindJoin, j); k != wire.Refusal {
			t.Errorf("%s: type %d, %s", name, k, answer)
		}
	}
	h.allow(t, rawID)
	payload := []byte("the link is as it was")
	r.send(requestFrame(kindWrite, requestHead{transfer: 5, grant: everything}, at(0, 0, len(payload))), payload, trailer(payload))
	r.wantAnswer(5, nil)
}

func TestWhatIsNoHandshakeIsClosed(t *testing.T) {
	h := start(t, "decode")
	for name, b := range map[string][]byte{
		"http":        []byte("GET / HTTP/1.1\r\nHost: decode\r\n\r\n"),
		"a note":      wire.Append(nil, wire.Note, []byte("note")),
		"a write":     requestFrame(kindWrite, requestHead{transfer: 1, grant: 1}, at(0, 0, 1)),
		"bad json":    wire.Append(nil, wire.Hello, []byte("{")),
		"a huge size": {255, 255, 255, 255, 0, 0, 0, 0, 1},
	} {
		socket := dialRaw(t, h)
		if _, err := socket.Write(b); err != nil {
			t.Fatal(err)
		}
		if k, _, err := wire.Read(socket); err == nil && k != wire.Refusal {
			t.Errorf("%s: answer of type %d", name, k)
		}
		if _, err := io.Copy(io.Discard, socket); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: the connection goes on: %v", name, err)
		}
	}
}

// TestLyingRequestsMoveNothing sends requests of which something is not true. They are
// refused one by one, and the connection goes on.
func TestLyingRequestsMoveNothing(t *testing.T) {
	h := start(t, "decode")
	h.allow(t, rawID)
	if err := h.Allow(rawID, nixl.Grant{Number: 2, Blocks: []block.Ref{{ID: 5, Generation: 3}}}); err != nil {
		t.Fatal(err)
	}
	r := connect(t, h)
	cases := map[string]struct {
		head requestHead
		runs []run
		want error
	}{
		"block past the end":        {requestHead{}, []run{at(blocks, 0, 8)}, nixl.ErrNotGranted},
		"huge block":                {requestHead{}, []run{at(1<<31-1, 0, 8)}, nixl.ErrNotGranted},
		"offset past the end":       {requestHead{}, []run{at(0, blockBytes, 8)}, nixl.ErrDescriptor},
		"over the block's end":      {requestHead{}, []run{at(0, blockBytes-4, 8)}, nixl.ErrDescriptor},
		"offset that overflows":     {requestHead{bytes: 8}, []run{at(0, -1, 8)}, nixl.ErrDescriptor},
		"length that overflows":     {requestHead{bytes: 8}, []run{at(0, 8, -1)}, nixl.ErrDescriptor},
		"empty run":                 {requestHead{bytes: 8}, []run{at(0, 0, 8), at(1, 0, 0)}, nixl.ErrDescriptor},
		"more bytes than runs":      {requestHead{bytes: 16}, []run{at(0, 0, 8)}, nixl.ErrDescriptor},
		"more runs than bytes":      {requestHead{bytes: 8}, []run{at(0, 0, 8), at(1, 0, 8)}, nixl.ErrDescriptor},
		"fewer runs than said":      {requestHead{runs: 3}, []run{at(0, 0, 8)}, nixl.ErrDescriptor},
		"more runs than said":       {requestHead{runs: 1}, []run{at(0, 0, 8), at(1, 0, 8)}, nixl.ErrDescriptor},
		"another region":            {requestHead{region: 1}, []run{at(0, 0, 8)}, nixl.ErrDescriptor},
		"unknown grant":             {requestHead{grant: 9}, []run{at(0, 0, 8)}, nixl.ErrNotGranted},
		"block of another grant":    {requestHead{grant: 2}, []run{at(5, 0, 8), at(6, 0, 8)}, nixl.ErrNotGranted},
		"generation of the past":    {requestHead{flags: flagNamed}, []run{{block.Ref{ID: 0, Generation: 2}, 0, 8}}, nixl.ErrNotGranted},
		"second run not granted":    {requestHead{grant: 2}, []run{at(5, 0, 8), at(4, 0, 8)}, nixl.ErrNotGranted},
		"read by a write's ticket":  {requestHead{grant: 2}, nil, nixl.ErrNotGranted},
		"runs that cannot be read":  {requestHead{runs: 2, bytes: 8}, nil, nixl.ErrDescriptor},
		"generation where none was": {requestHead{flags: flagNamed}, []run{{block.Ref{ID: 0, Generation: 1<<63 + 7}, 0, 8}}, nixl.ErrNotGranted},
	}
	id := uint64(100)
	for name, c := range cases {
		if c.head.grant == 0 {
			c.head.grant = everything
		}
		id++
		c.head.transfer = id
		f := requestFrame(kindWrite, c.head, c.runs...)
		switch name {
		case "read by a write's ticket":
			r.send(requestFrame(kindRead, c.head, at(5, 0, 8)))
			r.wantAnswer(id, c.want)
			continue
		case "runs that cannot be read":
			f = append(f, bytes.Repeat([]byte{0xff}, 12)...)
			wire.Seal(f, kindWrite)
		}
		n := int(binary.LittleEndian.Uint32(f[wire.HeaderBytes+20:]))
		payload := bytes.Repeat([]byte{0xee}, n)
		t.Log(name)
		r.send(f, payload, trailer(payload))
		r.wantAnswer(id, c.want)
	}
	if !bytes.Equal(h.region.Bytes(), make([]byte, blocks*blockBytes)) {
		t.Fatal("a refused request moved bytes")
	}
	payload := []byte("good")
	r.send(requestFrame(kindWrite, requestHead{transfer: 7, grant: everything, flags: flagNamed}, at(1, 2, 4)), payload, trailer(payload))
	r.wantAnswer(7, nil)
	if got := h.region.Bytes()[blockBytes+2:][:4]; string(got) != "good" {
		t.Fatalf("got %q", got)
	}
}

// TestFramesThatEndTheLink sends what makes all that follows untrustworthy.
func TestFramesThatEndTheLink(t *testing.T) {
	corrupted := requestFrame(kindWrite, requestHead{transfer: 1, grant: everything}, at(0, 0, 8))
	corrupted[wire.HeaderBytes+9] ^= 4
	for name, c := range map[string]struct {
		notes bool
		bytes []byte
	}{
		"corrupted head": {false, corrupted},
		"no bytes":       {false, requestFrame(kindWrite, requestHead{transfer: 1, grant: everything})},
		"too many bytes": {false, requestFrame(kindWrite, requestHead{transfer: 1, grant: everything, bytes: maxBytes + 1}, at(0, 0, 8))},
		"most bytes":     {false, requestFrame(kindRead, requestHead{transfer: 1, grant: everything, bytes: 1<<32 - 1}, at(0, 0, 8))},
		"short head":     {false, wire.Append(nil, kindWrite, make([]byte, requestBytes-1))},
		"long head":      {false, wire.Append(nil, kindWrite, make([]byte, maxHead+1))},
		"unknown type":   {false, wire.Append(nil, 200, nil)},
		"an answer":      {false, appendAnswer(nil, 1, nil)},
		"data":           {false, appendData(nil, 1, 8, 0)},
		"a note as data": {false, wire.Append(nil, wire.Note, nil)},
		"reads without end": {false, bytes.Repeat(
			requestFrame(kindRead, requestHead{transfer: 1, grant: everything}, at(0, 0, blockBytes)), 4096)},
		"a write as note": {true, requestFrame(kindWrite, requestHead{transfer: 1, grant: everything}, at(0, 0, 8))},
		"credit":          {true, wire.Append(nil, kindCredit, []byte{1, 0, 0, 0})},
		"bad credit":      {true, wire.Append(nil, kindCredit, []byte{1, 0, 0})},
		"a long note":     {true, wire.Append(nil, wire.Note, make([]byte, nixl.MaxNoteBytes+1))},
		"corrupted note":  {true, append(wire.Append(nil, wire.Note, []byte("abc"))[:wire.HeaderBytes], "abd"...)},
		"notes without end": {true, bytes.Repeat(wire.Append(nil, wire.Note, nil),
			2+noteWindow+2)},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, "decode", func(c *Config) { c.Notes = 2 })
			h.allow(t, rawID)
			r := connect(t, h)
			socket := r.data
			if c.notes {
				socket = r.notes
			}
			r.end(socket, c.bytes) // before any note is taken, which would give credit for more
			var e nixl.Event
			for !e.Gone {
				e = h.event(t)
			}
			if e.Peer != rawID || !errors.Is(e.Err, wire.ErrFrame) || !errors.Is(e.Err, nixl.ErrGone) {
				t.Fatalf("got %+v, want Gone for a corrupt frame", e)
			}
			if n := h.Stats().NotesRefused; n != 1 {
				t.Errorf("%d frames were counted as refused", n)
			}
			if err := h.Revoke(over(), rawID, everything); err != nil {
				t.Errorf("revoke: %v", err)
			}
			if !bytes.Equal(h.region.Bytes(), make([]byte, blocks*blockBytes)) {
				t.Error("bytes were moved")
			}
		})
	}
}

func TestDamagedBytesAreSeen(t *testing.T) {
	h := start(t, "decode")
	h.allow(t, rawID)
	r := connect(t, h)
	payload := bytes.Repeat([]byte{7}, 3000)
	f := requestFrame(kindWrite, requestHead{transfer: 1, grant: everything, flags: flagVerified}, at(2, 0, 3000))
	r.send(f, payload, trailer(payload))
	r.wantAnswer(1, nil)
	bad := trailer(payload)
	payload[2999] ^= 1
	r.send(f, payload, bad)
	r.wantAnswer(1, nixl.ErrChecksum)
	if k, payload := frame(t, r.data); k != wire.Goodbye {
		t.Fatalf("type %d, %q, want the goodbye", k, payload)
	}
	if err := h.wantGone(t, rawID); !errors.Is(err, nixl.ErrChecksum) {
		t.Fatalf("gone for %v", err)
	}
	if n := h.Stats().NotesRefused; n != 1 {
		t.Errorf("%d counted", n)
	}
}

// TestAPeerThatStopsInTheMiddle sends a part of a frame: the owner is not held up by it.
func TestAPeerThatStopsInTheMiddle(t *testing.T) {
	h := start(t, "decode")
	h.allow(t, rawID)
	r := connect(t, h)
	payload := make([]byte, 5*blockBytes)
	pattern(payload, 1)
	r.send(requestFrame(kindWrite, requestHead{transfer: 1, grant: everything}, at(0, 0, blockBytes), at(1, 0, blockBytes),
		at(2, 0, blockBytes), at(3, 0, blockBytes), at(4, 0, blockBytes)), payload[:2*blockBytes])
	h.settled(t, payload[:2*blockBytes])
	if err := h.Revoke(over(), rawID, everything); err != nil {
		t.Fatalf("revoke: %v", err)
	}
	r.send(payload[2*blockBytes:], trailer(payload))
	r.wantAnswer(1, nixl.ErrNotGranted)
	if !bytes.Equal(h.region.Bytes()[2*blockBytes:], make([]byte, (blocks-2)*blockBytes)) {
		t.Fatal("bytes changed after the proof")
	}
	// And once more, up to the end of the connection.
	h.allow(t, rawID)
	r.send(requestFrame(kindWrite, requestHead{transfer: 2, grant: everything}, at(9, 0, blockBytes)), payload[:100])
	r.data.Close()
	if err := h.wantGone(t, rawID); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("gone for %v", err)
	}
	if err := h.Fence(over(), rawID); err != nil {
		t.Fatalf("fence: %v", err)
	}
}

// settled waits until bytes lie at the front of the region.
func (h *host) settled(t *testing.T, want []byte) {
	t.Helper()
	// A note that comes back says nothing about the data connection; the memory does.
	for ctx := soon(t); !bytes.Equal(h.region.Bytes()[:len(want)], want); {
		if ctx.Err() != nil {
			t.Fatal("the bytes do not come")
		}
	}
}
