package tcp

import (
	"bytes"
	"io"
	"net"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/wire"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
)

// FuzzRuns reads runs from foreign bytes: what is accepted lies within a block, and is
// what would be written for it.
func FuzzRuns(f *testing.F) {
	f.Add(at(3, 8, 100).append(nil, true), true)
	f.Add(at(3, 8, 100).append(nil, false), false)
	f.Add(bytes.Repeat([]byte{0xff}, 40), true)
	f.Fuzz(func(t *testing.T, data []byte, named bool) {
		for rest := data; len(rest) > 0; {
			r, next, err := nextRun(rest, named, blockBytes)
			if err != nil {
				return
			}
			if r.offset < 0 || r.bytes < 1 || r.offset+r.bytes > blockBytes || r.ref.ID < 0 {
				t.Fatalf("%x became %+v", rest, r)
			}
			if len(next) >= len(rest) {
				t.Fatal("no progress")
			}
			if again, _, err := nextRun(r.append(nil, named), named, blockBytes); err != nil || again != r {
				t.Fatalf("%+v became %+v, %v", r, again, err)
			}
			rest = next
		}
	})
}

func FuzzHeads(f *testing.F) {
	head := make([]byte, requestBytes)
	requestHead{transfer: 1, grant: 2, bytes: 3}.put(head)
	f.Add(head)
	f.Add(appendData(nil, 1, 8, 1)[wire.HeaderBytes:])
	f.Add(appendAnswer(nil, 1, nixl.ErrDescriptor)[wire.HeaderBytes:])
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, runs, err := parseRequest(data); err == nil && (r.bytes < 1 || r.bytes > maxBytes || len(runs) != len(data)-requestBytes) {
			t.Fatalf("%x became %+v", data, r)
		}
		if _, n, _, err := parseData(data); err == nil && (n < 1 || n > maxBytes) {
			t.Fatalf("%x became %d bytes", data, n)
		}
		_, _, _ = parseAnswer(data)
		if parseGoodbye(data) == nil {
			t.Fatal("a goodbye without a reason")
		}
	})
}

func FuzzHandshake(f *testing.F) {
	own := nixl.Metadata{Transport: transport, Peer: nixl.PeerID{Name: "a", Incarnation: "1"}, KVFormat: "f"}
	f.Add([]byte(`{"version":1,"wants":{"Name":"a","Incarnation":"1"},"connections":2,"verify":true,"metadata":{"switchyard_nixl":1,"transport":"tcp","name":"b","incarnation":"2","kv_format":"f"}}`))
	f.Add([]byte(`{"version":1,"nonce":"AAAAAAAAAAAAAAAAAAAAAA==","index":1}`))
	f.Add([]byte(`{"metadata":{},"nonce":"AAAAAAAAAAAAAAAAAAAAAA==","connections":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if h, err := parse[hello](data); err == nil {
			if m, err := h.Check(own, protocolVersion); err == nil && (m.Peer == own.Peer || m.KVFormat != "f") {
				t.Fatalf("%s was taken as a peer", data)
			}
		}
		if j, err := parse[join](data); err == nil && j.check() == nil && (j.Index < 1 || j.Index > maxConnections || nonce(j.Nonce) != [16]byte(j.Nonce)) {
			t.Fatalf("%s became %+v", data, j)
		}
		if w, err := parse[welcome](data); err == nil && w.check(2) == nil && (w.Connections < 1 || w.Connections > 2 || len(w.Nonce) != 16) {
			t.Fatalf("%s became %+v", data, w)
		}
	})
}

// FuzzServer feeds a data connection with foreign bytes: memory that was not granted keeps
// its bytes, and the connection comes to its end.
func FuzzServer(f *testing.F) {
	payload := []byte("some bytes")
	f.Add(bytes.Join([][]byte{requestFrame(kindWrite, requestHead{transfer: 1, grant: 1, flags: flagVerified}, at(1, 0, 10)), payload, trailer(payload)}, nil))
	f.Add(bytes.Join([][]byte{requestFrame(kindWrite, requestHead{transfer: 1, grant: 1}, at(1, 60, 10)), payload, trailer(payload)}, nil))
	f.Add(requestFrame(kindRead, requestHead{transfer: 1, grant: 1}, at(1, 0, 16)))
	f.Add(appendGoodbye(nil, codeGone, nil))
	small := block.Layout{BlockTokens: 1, Layers: 1, KVHeads: 1, HeadDim: 8, ElemBytes: 4}
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := New(Config{Config: nixl.Config{Name: "decode", Incarnation: "1", KVFormat: "f"}, Listen: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		m, err := memory.Anonymous(4 * small.BlockBytes())
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if _, err := a.Register(m, small, 4); err != nil {
			t.Fatal(err)
		}
		if err := a.Allow(rawID, nixl.Grant{Number: 1, Blocks: []block.Ref{{ID: 1, Generation: 3}}}); err != nil {
			t.Fatal(err)
		}
		near, far := net.Pipe()
		l := a.(*agent).newLink(rawID, 1)
		s := l.newServer(newConn(near, maxHead))
		l.start(s.read, s.write)
		go func() { _, _ = io.Copy(io.Discard, far) }()
		_, _ = far.Write(resealed(data))
		far.Close()
		l.loops.Wait()
		size := small.BlockBytes()
		if b := m.Bytes(); !bytes.Equal(b[:size], make([]byte, size)) || !bytes.Equal(b[2*size:], make([]byte, 2*size)) {
			t.Fatal("memory that was not granted was written")
		}
	})
}

// resealed makes the first frame pass the checksum, so that what is in it is looked at.
func resealed(data []byte) []byte {
	if len(data) < wire.HeaderBytes {
		return data
	}
	b := bytes.Clone(data)
	if size, err := wire.Size(b, maxHead); err == nil && size <= len(b) {
		wire.Seal(b[:size], wire.Kind(b[8]))
	}
	return b
}
