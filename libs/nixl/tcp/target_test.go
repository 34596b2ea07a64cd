package tcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/wire"
)

// target is a peer that is added, played by hand.
type target struct {
	raw
	listener net.Listener
	meta     []byte
}

func listen(t *testing.T) *target {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	m := nixl.Metadata{Transport: transport, Peer: rawID, KVFormat: "f", Address: l.Addr().String(),
		Regions: []nixl.RegionInfo{{Layout: layout, Blocks: blocks}}}
	meta, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return &target{raw: raw{t: t}, listener: l, meta: meta}
}

// take accepts a connection and answers its first frame.
func (x *target) take(answer func(k wire.Kind) any) (net.Conn, error) {
	socket, err := x.listener.Accept()
	if err != nil {
		return nil, err
	}
	x.t.Cleanup(func() { socket.Close() })
	if err := socket.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	k, _, err := wire.Read(socket)
	if err != nil {
		return nil, err
	}
	return socket, sendJSON(socket, wire.Welcome, answer(k))
}

// addedBy lets h add the target, with one data connection.
func (x *target) addedBy(h *host, verify bool) {
	x.t.Helper()
	failed := make(chan error, 1)
	go func() {
		var err, dataErr error
		x.notes, err = x.take(func(wire.Kind) any { return welcome{x.meta, make([]byte, 16), 1, verify} })
		x.data, dataErr = x.take(func(wire.Kind) any { return struct{}{} })
		failed <- errors.Join(err, dataErr)
	}()
	_, err := h.AddPeer(soon(x.t), x.meta)
	if err := errors.Join(err, <-failed); err != nil {
		x.t.Fatal(err)
	}
}

func TestWelcomeThatIsRefused(t *testing.T) {
	h := start(t, "prefill")
	for name, c := range map[string]struct {
		answer func(x *target) any
		want   error
	}{
		"no json":          {func(*target) any { return "x" }, wire.ErrFrame},
		"no nonce":         {func(x *target) any { return welcome{x.meta, nil, 1, true} }, wire.ErrFrame},
		"no connections":   {func(x *target) any { return welcome{x.meta, make([]byte, 16), 0, true} }, wire.ErrFrame},
		"many connections": {func(x *target) any { return welcome{x.meta, make([]byte, 16), 3, true} }, wire.ErrFrame},
		"another one": {func(x *target) any {
			return welcome{bytes.Replace(x.meta, []byte(`"raw"`), []byte(`"wolf"`), 1), make([]byte, 16), 1, true}
		}, nixl.ErrUnknownPeer},
		"another format now": {func(x *target) any {
			return welcome{bytes.Replace(x.meta, []byte(`"f"`), []byte(`"g"`), 1), make([]byte, 16), 1, true}
		}, nixl.ErrMismatch},
	} {
		x := listen(t)
		go func() { _, _ = x.take(func(wire.Kind) any { return c.answer(x) }) }()
		if _, err := h.AddPeer(soon(t), x.meta); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

// TestAnswersThatCannotBe lets a target answer a request with what it did not ask for.
func TestAnswersThatCannotBe(t *testing.T) {
	payload := bytes.Repeat([]byte{9}, blockBytes)
	more := bytes.Repeat([]byte{9}, blockBytes+8)
	for name, c := range map[string]struct {
		op    nixl.Op
		bytes []byte
	}{
		"another transfer":  {nixl.Write, appendAnswer(nil, 77, nil)},
		"short answer":      {nixl.Write, wire.Append(nil, kindAnswer, make([]byte, 8))},
		"data for a write":  {nixl.Write, append(appendData(nil, 1, blockBytes, 0), payload...)},
		"a request":         {nixl.Write, requestFrame(kindWrite, requestHead{transfer: 1, grant: 1}, at(0, 0, 8))},
		"no data":           {nixl.Read, appendAnswer(nil, 1, nil)},
		"fewer data":        {nixl.Read, append(appendData(nil, 1, 8, 0), payload[:8]...)},
		"more data":         {nixl.Read, append(appendData(nil, 1, blockBytes+8, 0), more...)},
		"another's data":    {nixl.Read, append(appendData(nil, 2, blockBytes, 0), payload...)},
		"data without size": {nixl.Read, appendData(nil, 1, 0, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			h, x := start(t, "prefill"), listen(t)
			x.addedBy(h, false)
			transfer, err := nixl.Post(soon(t), h, nixl.Request{Peer: rawID, Op: c.op, Grant: &nixl.Grant{Number: 1}, Copies: whole(1)})
			if err != nil {
				t.Fatal(err)
			}
			if k, _ := frame(t, x.data); k != kindWrite+wire.Kind(c.op) {
				t.Fatalf("type %d", k)
			}
			go x.end(x.data, c.bytes)
			err = transfer.Wait(soon(t))
			want := nixl.ErrUnsettled // it lies about the one thing that could tell
			if c.op == nixl.Read {
				want = nixl.ErrAborted // our memory is our own
			}
			if !errors.Is(err, want) || !errors.Is(err, wire.ErrFrame) {
				t.Errorf("got %v, want %v for a corrupt frame", err, want)
			}
			if !bytes.Equal(h.region.Bytes(), make([]byte, blocks*blockBytes)) {
				t.Error("our memory was written")
			}
			if err := h.wantGone(t, rawID); !errors.Is(err, wire.ErrFrame) || h.Stats().NotesRefused != 1 {
				t.Errorf("gone for %v, %+v", err, h.Stats())
			}
		})
	}
}

func TestDamagedDataAreSeen(t *testing.T) {
	h, x := start(t, "prefill"), listen(t)
	x.addedBy(h, true)
	transfer, err := nixl.Post(soon(t), h, nixl.Request{Peer: rawID, Op: nixl.Read, Grant: &nixl.Grant{Number: 1}, Copies: whole(1)})
	if err != nil {
		t.Fatal(err)
	}
	frame(t, x.data)
	payload := bytes.Repeat([]byte{9}, blockBytes)
	good := trailer(payload)
	payload[blockBytes/2] = 8
	x.send(appendData(nil, 1, blockBytes, flagVerified), payload, good)
	if err := transfer.Wait(soon(t)); !errors.Is(err, nixl.ErrChecksum) || !errors.Is(err, nixl.ErrAborted) {
		t.Fatalf("got %v", err)
	}
	if err := h.wantGone(t, rawID); !errors.Is(err, nixl.ErrChecksum) || h.Stats().NotesRefused != 1 {
		t.Fatalf("gone for %v, %+v", err, h.Stats())
	}
}

// TestWhatAnEndProves compares the ends of a write in flight.
func TestWhatAnEndProves(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(x *target)
		want error
	}{
		"goodbye": {func(x *target) {
			_, _ = x.data.Write(appendGoodbye(nil, codeGone, nixl.ErrClosed))
			x.data.Close()
		}, nixl.ErrAborted},
		"fenced": {func(x *target) {
			_, _ = x.data.Write(appendGoodbye(nil, codeFenced, nil))
			x.data.Close()
		}, nixl.ErrAborted},
		"end": {func(x *target) { x.data.Close() }, nixl.ErrUnsettled},
		"goodbye of the notes alone": {func(x *target) {
			_, _ = x.notes.Write(appendGoodbye(nil, codeGone, nil))
			x.notes.Close()
			x.data.Close()
		}, nixl.ErrUnsettled},
	} {
		t.Run(name, func(t *testing.T) {
			h, x := start(t, "prefill"), listen(t)
			x.addedBy(h, false)
			transfer, err := nixl.Post(soon(t), h, nixl.Request{Peer: rawID, Grant: &nixl.Grant{Number: 1}, Copies: whole(1)})
			if err != nil {
				t.Fatal(err)
			}
			frame(t, x.data)
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
			defer cancel()
			if err := transfer.Wait(ctx); !errors.Is(err, nixl.ErrUnsettled) || !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("before the end: %v", err)
			}
			c.end(x)
			if err := transfer.Wait(soon(t)); !errors.Is(err, c.want) || errors.Is(err, nixl.ErrAborted) == errors.Is(err, nixl.ErrUnsettled) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			h.wantEnd(t, name == "fenced")
			if err := transfer.Release(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func (h *host) wantEnd(t *testing.T, fenced bool) {
	t.Helper()
	if e := h.event(t); !e.Gone || e.Peer != rawID || errors.Is(e.Err, nixl.ErrFenced) != fenced {
		t.Fatalf("got %+v", e)
	}
	want := nixl.ErrUnknownPeer
	if fenced {
		want = nixl.ErrFenced
	}
	if _, err := h.Create(nixl.Request{Peer: rawID}); !errors.Is(err, want) {
		t.Fatalf("then %v, want %v", err, want)
	}
}

// TestCancelOfWhatWasSent cancels what a target has not answered.
func TestCancelOfWhatWasSent(t *testing.T) {
	h, x := start(t, "prefill"), listen(t)
	x.addedBy(h, false)
	transfer, err := nixl.Post(soon(t), h, nixl.Request{Peer: rawID, Grant: &nixl.Grant{Number: 1}, Copies: whole(1)})
	if err != nil {
		t.Fatal(err)
	}
	frame(t, x.data)
	transfer.Cancel()
	if err := transfer.Release(); !errors.Is(err, nixl.ErrInProgress) {
		t.Fatalf("released: %v", err)
	}
	x.skip(blockBytes + trailerBytes)
	x.send(appendAnswer(nil, 1, nil))
	if err := transfer.Wait(soon(t)); err != nil {
		t.Fatalf("all of it had been sent, and landed: %v", err)
	}
	if err := transfer.Post(soon(t)); err != nil {
		t.Fatal(err)
	}
	frame(t, x.data)
	x.send(appendAnswer(nil, 2, nixl.ErrNotGranted))
	if err := transfer.Wait(soon(t)); !errors.Is(err, nixl.ErrNotGranted) || !errors.Is(err, nixl.ErrAborted) {
		t.Fatalf("got %v", err)
	}
	if got, want := h.Stats().Counters, (nixl.Counters{BytesWritten: blockBytes, Transfers: 1, TransfersAborted: 1}); got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

// TestTheFirstCauseStays cancels a transfer of which some requests are then refused.
func TestTheFirstCauseStays(t *testing.T) {
	h, x := start(t, "prefill"), listen(t)
	x.addedBy(h, false)
	copies := make([]nixl.Copy, (window+2)*maxRuns) // more requests than may be under way
	for i := range copies {
		s := block.Span{Offset: 32 * i, Bytes: 16}
		copies[i] = nixl.Copy{Local: s, Remote: s}
	}
	transfer, err := nixl.Post(soon(t), h, nixl.Request{Peer: rawID, Grant: &nixl.Grant{Number: 1}, Copies: copies})
	if err != nil {
		t.Fatal(err)
	}
	_, head := frame(t, x.data)
	transfer.Cancel()
	if err := transfer.Status(); !errors.Is(err, nixl.ErrInProgress) {
		t.Fatalf("it is %v while a request is under way", err)
	}
	answered := make(chan struct{})
	go func() { // until the host ends the link
		defer close(answered)
		for {
			r, _, err := parseRequest(head)
			if err != nil {
				return
			}
			if _, err = io.CopyN(io.Discard, x.data, int64(r.bytes)+trailerBytes); err == nil {
				_, err = x.data.Write(appendAnswer(nil, r.transfer, nixl.ErrNotGranted))
			}
			if err == nil {
				_, head, err = wire.Read(x.data)
			}
			if err != nil {
				return
			}
		}
	}()
	if err := transfer.Wait(soon(t)); !errors.Is(err, nixl.ErrCancelled) || !errors.Is(err, nixl.ErrAborted) {
		t.Fatalf("got %v, want ErrCancelled", err)
	}
	if err := h.RemovePeer(rawID); err != nil {
		t.Fatal(err)
	}
	<-answered
}
