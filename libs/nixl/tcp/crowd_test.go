package tcp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/wire"
	"github.com/switchyard-llm/switchyard/libs/nixl/nixltest/certs"
)

// TestWhoGivesWay lets members come and go at random.
func TestWhoGivesWay(t *testing.T) {
	const total, each = 20, 8
	r := rand.New(rand.NewPCG(1, 2))
	c := crowd[int]{total: total, each: each}
	places := make([]netip.Prefix, 12)
	for i := range places {
		places[i] = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 32)
	}
	for i := range 20_000 {
		before := c.members
		if len(before) > 0 && r.IntN(4) == 0 {
			if it := before[r.IntN(len(before))].it; !c.remove(it) || c.remove(it) {
				t.Fatalf("%d was not a member, or twice", it)
			}
			continue
		}
		counts := make(map[netip.Prefix]int)
		oldest := make(map[netip.Prefix]int)
		most, from := 0, places[r.IntN(1+r.IntN(len(places)))] // most come from few places
		for _, m := range append(append([]member[int](nil), before...), member[int]{i, from}) {
			if counts[m.from]++; counts[m.from] == 1 {
				oldest[m.from] = m.it
			}
			most = max(most, counts[m.from])
		}
		out, full := c.add(i, from)
		if crowded := counts[from] > each || len(before) == total; full != crowded {
			t.Fatalf("%d of %v: full is %t, want %t", i, from, full, crowded)
		}
		if full && counts[from] > each && out != oldest[from] {
			t.Fatalf("%d gave way, want %d, the oldest of its place", out, oldest[from])
		}
		if full && counts[from] <= each {
			for place, it := range oldest {
				if it == out && counts[place] < most {
					t.Fatalf("%d gave way, whose place had %d, want one of a place with %d", out, counts[place], most)
				}
			}
		}
		if len(c.members) > total || c.members[len(c.members)-1].it != i {
			t.Fatalf("%d members, the last %d, want at most %d, the last %d", len(c.members), c.members[len(c.members)-1].it, total, i)
		}
	}
}

func TestPlaces(t *testing.T) {
	for address, want := range map[string]string{
		"10.1.2.3:4":               "10.1.2.3/32",
		"[::ffff:10.1.2.3]:4":      "10.1.2.3/32",
		"[fe80::1%lo]:4":           "fe80::/64",
		"[2001:db8:1:2:3:4:5:6]:7": "2001:db8:1:2::/64",
	} {
		if got := placeOf(remote{net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))}); got.String() != want {
			t.Errorf("%s: %v, want %s", address, got, want)
		}
	}
}

// remote is a connection from an address.
type remote struct{ net.Addr }

func (remote) Read([]byte) (int, error)         { return 0, io.EOF }
func (remote) Write([]byte) (int, error)        { return 0, io.EOF }
func (remote) Close() error                     { return nil }
func (remote) LocalAddr() net.Addr              { return nil }
func (r remote) RemoteAddr() net.Addr           { return r.Addr }
func (remote) SetDeadline(time.Time) error      { return nil }
func (remote) SetReadDeadline(time.Time) error  { return nil }
func (remote) SetWriteDeadline(time.Time) error { return nil }

// open tells whether a connection that says nothing goes on.
func open(t *testing.T, socket net.Conn) bool {
	t.Helper()
	if err := socket.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	_, err := socket.Read(make([]byte, 1))
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// ends waits for the end of a connection.
func ends(t *testing.T, what string, socket net.Conn) {
	t.Helper()
	if err := socket.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, socket); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("%s: the connection goes on: %v", what, err)
	}
}

// TestConnectionsThatSayNothing hold nobody up: of too many, the oldest are closed, and all in time.
func TestConnectionsThatSayNothing(t *testing.T) {
	h, writer := start(t, "decode"), start(t, "prefill")
	h.allow(t, writer.ID())
	silent := make([]net.Conn, maxCallersFrom+10)
	for i := range silent {
		silent[i] = dialRaw(t, h)
	}
	began := time.Now()
	for i := range 10 {
		ends(t, fmt.Sprint(i), silent[i])
	}
	if d := time.Since(began); d > handshakeTimeout/2 {
		t.Errorf("the oldest were closed in %v, want at once", d)
	}
	if !open(t, silent[20]) || !open(t, silent[len(silent)-1]) {
		t.Error("others were closed as well")
	}
	writer.add(t, h)
	exchangeBlocks(t, writer, h, 2, 1)
	ends(t, "the last", silent[len(silent)-1])
	if d := time.Since(began); d < handshakeTimeout-time.Second || d > handshakeTimeout*2 {
		t.Errorf("the last was closed in %v, want %v", d, handshakeTimeout)
	}
	for range maxCallersFrom {
		dialRaw(t, h)
	}
	exchangeBlocks(t, writer, h, 2, 3)
	if err := h.Close(); err != nil { // waits for none of them
		t.Fatal(err)
	}
}

// TestHellosThatDoNotEnd are waited for as long as those that do not begin.
func TestHellosThatDoNotEnd(t *testing.T) {
	ca := certs.New(t)
	plain, secret := start(t, "decode"), start(t, "decode", secured(issue(t, ca, "decode")))
	half := dialRaw(t, plain)
	if _, err := half.Write(wire.Append(nil, wire.Hello, make([]byte, 100))[:50]); err != nil {
		t.Fatal(err)
	}
	shaken, err := tlsRaw(t, secret, issue(t, ca, "raw").client("decode"))
	if err != nil {
		t.Fatal(err)
	}
	halfTLS := dialRaw(t, secret)
	if _, err := halfTLS.Write([]byte{22, 3, 1, 0, 200, 1}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	ends(t, "half a hello", half)
	ends(t, "TLS without a hello", shaken.(*tls.Conn).NetConn())
	ends(t, "half a handshake", halfTLS)
	if d := time.Since(began); d > handshakeTimeout*2 {
		t.Errorf("they were waited for during %v, want %v", d, handshakeTimeout)
	}
}

// called lets a peer that is played by hand have a name.
func called(t testing.TB, peer nixl.PeerID) func(*hello) {
	return func(g *hello) {
		m, err := nixl.Metadata{Transport: transport, Peer: peer, KVFormat: "f"}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		g.Metadata = m
	}
}

func patient(c *Config) { c.Silence = patience }

// TestStrangersGiveWay to each other, and never who was allowed something, before or after it
// connected, or was added.
func TestStrangersGiveWay(t *testing.T) {
	h, added := start(t, "decode", patient), start(t, "added", patient)
	before, after := nixl.PeerID{Name: "before", Incarnation: "1"}, nixl.PeerID{Name: "after", Incarnation: "1"}
	h.allow(t, before)
	met := []*raw{connect(t, h, called(t, before)), connect(t, h, called(t, after))}
	h.allow(t, after)
	added.add(t, h)
	h.add(t, added)
	strangers := make([]*raw, maxStrangersFrom+3)
	invented := func(i int) nixl.PeerID { return nixl.PeerID{Name: "invented", Incarnation: fmt.Sprint(i)} }
	strangers[0] = connect(t, h, called(t, invented(0)))
	h.mu.Lock()
	first := h.in[invented(0)]
	h.mu.Unlock()
	defer strangers[0].beat(true)() // it does not say good bye
	for i := 1; i < len(strangers); i++ {
		strangers[i] = connect(t, h, called(t, invented(i)))
	}
	select {
	case <-first.ended:
	case <-time.After(handshakeTimeout / 2):
		t.Error("the link of the oldest has not ended")
	}
	for _, r := range strangers[:3] {
		ends(t, "the notes of the oldest", r.notes)
		ends(t, "the data of the oldest", r.data)
	}
	payload := []byte("still here")
	for i, r := range append(met, strangers[3], strangers[len(strangers)-1]) {
		want := error(nil)
		if i >= len(met) {
			want = nixl.ErrNotGranted
		}
		r.send(requestFrame(kindWrite, requestHead{transfer: 5, grant: everything}, at(0, 0, len(payload))), payload, trailer(payload))
		r.wantAnswer(5, want)
	}
	h.allow(t, added.ID())
	exchangeBlocks(t, added, h, 2, 1) // and no news of anyone comes before its note
}

// TestAKnownPeerGetsThroughAFlood of silent connections and invented names from another place.
func TestAKnownPeerGetsThroughAFlood(t *testing.T) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	h, writer := start(t, "decode", patient), start(t, "prefill")
	h.allow(t, writer.ID())
	ctx, cancel := context.WithCancel(soon(t))
	socket, err := d.DialContext(ctx, "tcp", h.address)
	if err != nil {
		t.Skipf("there is no second address here: %v", err)
	}
	socket.Close()
	var flood sync.WaitGroup
	flooded := make(chan struct{}, 4)
	for i := range cap(flooded) {
		greeting := rawHello(t, h)
		flood.Go(func() {
			pace := time.NewTicker(time.Millisecond) // else they would wait in the system, where there is no telling whose they are
			defer pace.Stop()
			var mine []net.Conn
			for n := 0; ctx.Err() == nil; n++ {
				<-pace.C
				socket, err := d.DialContext(ctx, "tcp", h.address)
				if err != nil {
					continue
				}
				if i%2 == 0 { // it is not waited for an answer
					called(t, nixl.PeerID{Name: fmt.Sprint("invented", i), Incarnation: fmt.Sprint(n)})(&greeting)
					_ = sendJSON(socket, wire.Hello, greeting)
				}
				if mine = append(mine, socket); len(mine) > 2*maxCallersFrom {
					mine[0].Close()
					mine = mine[1:]
				}
				if n == maxCallersFrom {
					flooded <- struct{}{}
				}
			}
			for _, socket := range mine {
				socket.Close()
			}
		})
	}
	defer flood.Wait()
	defer cancel()
	for range cap(flooded) {
		<-flooded
	}
	for round := range byte(10) {
		writer.add(t, h)
		h.mu.Lock()
		callers, strangers := len(h.callers.members), len(h.strangers.members)
		h.mu.Unlock()
		if callers > maxCallersFrom+8 || strangers > maxStrangersFrom {
			t.Fatalf("%d callers and %d strangers, want at most %d and those of the writer, and %d", callers, strangers, maxCallersFrom, maxStrangersFrom)
		}
		pattern(writer.region.Bytes()[:blockBytes], round)
		if err := writer.move(soon(t), nixl.Write, h.ID(), whole(1)); err != nil {
			t.Fatal(err)
		}
		if err := writer.RemovePeer(h.ID()); err != nil {
			t.Fatal(err)
		}
	}
}
