package tcp

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// behind are a target that is reached through a proxy, and a peer that has added it.
func behind(t *testing.T, p *proxy, change ...func(*Config)) (target, writer *host) {
	t.Helper()
	target = start(t, "decode", append(change, func(c *Config) { c.Advertise = p.address() })...)
	p.lead(target.listener.Addr().String())
	writer = start(t, "prefill", change...)
	target.allow(t, writer.ID())
	writer.add(t, target)
	return target, writer
}

func impatient(c *Config) { c.Silence = time.Second }

// exchange writes blocks there, reads them back elsewhere, and compares.
func exchangeBlocks(t *testing.T, writer, target *host, n int, seed byte) {
	t.Helper()
	size := n * blockBytes
	pattern(writer.region.Bytes()[:size], seed)
	if err := writer.move(soon(t), nixl.Write, target.ID(), whole(n)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(target.region.Bytes()[:size], writer.region.Bytes()[:size]) {
		t.Fatal("the bytes that landed are not those that were sent")
	}
	pattern(target.region.Bytes()[:size], seed+1)
	if err := writer.move(soon(t), nixl.Read, target.ID(), whole(n)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(target.region.Bytes()[:size], writer.region.Bytes()[:size]) {
		t.Fatal("the bytes that were read are not the peer's")
	}
	if err := errors.Join(writer.Notify(soon(t), target.ID(), []byte("there")), target.Notify(soon(t), writer.ID(), []byte("back"))); err != nil {
		t.Fatal(err)
	}
	if e := target.event(t); string(e.Payload) != "there" {
		t.Fatalf("got %+v", e)
	}
	if e := writer.event(t); string(e.Payload) != "back" {
		t.Fatalf("got %+v", e)
	}
}

func TestALongNarrowLink(t *testing.T) {
	p := newProxy(t, func(p *proxy) { p.delay, p.bytesPerSec = 10*time.Millisecond, 40<<20 })
	target, writer := behind(t, p, impatient)
	exchangeBlocks(t, writer, target, blocks, 1)
}

func TestAShortCutIsSatOut(t *testing.T) {
	p := newProxy(t)
	target, writer := behind(t, p, impatient)
	p.freeze(true)
	thaw := time.AfterFunc(400*time.Millisecond, func() { p.freeze(false) })
	defer thaw.Stop()
	exchangeBlocks(t, writer, target, blocks, 1)
}

// TestALongCut cuts the link under a write, and heals it after both sides have noticed.
func TestALongCut(t *testing.T) {
	p := newProxy(t, func(p *proxy) { p.bytesPerSec = 4 << 20 })
	target, writer := behind(t, p, impatient)
	pattern(writer.region.Bytes(), 1)
	transfer, err := nixl.Post(soon(t), writer, nixl.Request{Peer: target.ID(), Grant: &nixl.Grant{Number: everything}, Copies: whole(blocks)})
	if err != nil {
		t.Fatal(err)
	}
	target.settled(t, writer.region.Bytes()[:blockBytes])
	p.freeze(true)
	began := time.Now()
	if err := transfer.Wait(soon(t)); !errors.Is(err, nixl.ErrUnsettled) || !errors.Is(err, nixl.ErrGone) {
		t.Fatalf("got %v, want ErrUnsettled, as the peer is gone", err)
	}
	if d := time.Since(began); d > 4*time.Second {
		t.Fatalf("it took %v", d)
	}
	writer.wantGone(t, target.ID())
	target.wantGone(t, writer.ID())
	if err := target.Revoke(over(), writer.ID(), everything); err != nil {
		t.Fatalf("the owner has no proof: %v", err)
	}
	p.cut(false)
	p.freeze(false)
	target.allow(t, writer.ID())
	writer.add(t, target)
	exchangeBlocks(t, writer, target, blocks, 2)
}

// TestALinkThatTheOtherSideTakesForAlive is added again before the target has noticed that
// the former link is dead.
func TestAddAgainAfterACutOnOneSide(t *testing.T) {
	p := newProxy(t)
	target := start(t, "decode", func(c *Config) { c.Advertise = p.address() })
	p.lead(target.listener.Addr().String())
	writer := start(t, "prefill", func(c *Config) { c.Silence = 600 * time.Millisecond })
	target.allow(t, writer.ID())
	writer.add(t, target)
	p.freeze(true)
	writer.wantGone(t, target.ID())
	target.mu.Lock()
	former := target.in[writer.ID()]
	target.mu.Unlock()
	if former == nil || former.gate.Err() != nil {
		t.Fatal("the target has noticed already")
	}
	p.freeze(false)
	writer.add(t, target)
	<-former.ended
	target.wantGone(t, writer.ID())
	exchangeBlocks(t, writer, target, 4, 1)
}

func TestDroppedConnections(t *testing.T) {
	p := newProxy(t)
	target, writer := behind(t, p)
	for round := range byte(5) {
		transfers := make([]nixl.Transfer, 8)
		for i := range transfers {
			var err error
			if transfers[i], err = nixl.Post(soon(t), writer, nixl.Request{Peer: target.ID(), Grant: &nixl.Grant{Number: everything}, Copies: whole(blocks)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := transfers[0].Wait(soon(t)); err != nil {
			t.Fatal(err)
		}
		p.cut(false)
		for _, x := range transfers[1:] {
			if err := x.Wait(soon(t)); err != nil && (!errors.Is(err, nixl.ErrGone) || errors.Is(err, nixl.ErrAborted) == errors.Is(err, nixl.ErrUnsettled)) {
				t.Fatalf("got %v", err)
			}
			if err := x.Release(); err != nil {
				t.Fatal(err)
			}
		}
		writer.wantGone(t, target.ID())
		target.wantGone(t, writer.ID())
		writer.add(t, target)
		exchangeBlocks(t, writer, target, 4, round)
	}
}

// TestADamagedByteNeverLandsUnnoticed flips one bit on the way, each time elsewhere.
func TestADamagedByteNeverLandsUnnoticed(t *testing.T) {
	var left atomic.Int64
	left.Store(1 << 60)
	p := newProxy(t, func(p *proxy) {
		p.damage = func(up bool, b []byte) {
			if n := left.Add(-int64(len(b))); n < 0 && n >= -int64(len(b)) {
				b[len(b)+int(n)] ^= 0x10
			}
		}
	})
	target, writer := behind(t, p, func(c *Config) { c.Silence = 300 * time.Millisecond })
	for _, at := range []int64{1, 20, 60, 5000, blockBytes + 40, 8*blockBytes + 70, 8*blockBytes + 90} {
		seen := false
		for _, op := range []nixl.Op{nixl.Write, nixl.Read} {
			left.Store(at)
			pattern(writer.region.Bytes()[:8*blockBytes], byte(at))
			pattern(target.region.Bytes()[:8*blockBytes], byte(at)+1)
			err := writer.move(soon(t), op, target.ID(), whole(8))
			left.Store(1 << 60)
			if err == nil && !bytes.Equal(target.region.Bytes()[:8*blockBytes], writer.region.Bytes()[:8*blockBytes]) {
				t.Fatalf("%s: a bit that was damaged %d bytes on landed as if it were sound", op, at)
			}
			if err != nil {
				seen = true
				writer.wantGone(t, target.ID())
				target.wantGone(t, writer.ID())
				writer.add(t, target)
			}
		}
		if !seen {
			t.Errorf("%d bytes on: nothing was noticed", at)
		}
	}
	if n := writer.Stats().NotesRefused + target.Stats().NotesRefused; n == 0 {
		t.Error("nothing was counted")
	}
}

func TestBothDialAtOnce(t *testing.T) {
	a, b := start(t, "a"), start(t, "b")
	a.allow(t, b.ID())
	b.allow(t, a.ID())
	for round := range byte(10) {
		var adding sync.WaitGroup
		for _, pair := range [][2]*host{{a, b}, {b, a}, {a, b}, {b, a}} {
			adding.Go(func() {
				if _, err := pair[0].AddPeer(soon(t), pair[1].meta(t)); err != nil {
					t.Error(err)
				}
			})
		}
		adding.Wait()
		exchangeBlocks(t, a, b, 4, round)
		exchangeBlocks(t, b, a, 4, round)
		if err := errors.Join(a.RemovePeer(b.ID()), b.RemovePeer(a.ID())); err != nil {
			t.Fatal(err)
		}
		for _, pair := range [][2]*host{{a, b}, {b, a}} { // the one that was removed last may be the only one that was left
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			if e, err := pair[0].Receive(ctx); err == nil && !e.Gone {
				t.Fatalf("got %+v", e)
			}
			cancel()
		}
	}
}

// TestASlowPeerStallsNoOther writes to a peer that takes nothing, and to one that does.
func TestASlowPeerStallsNoOther(t *testing.T) {
	h, slow, quick := start(t, "prefill"), listen(t), start(t, "decode")
	slow.addedBy(h, false)
	quick.allow(t, h.ID())
	h.add(t, quick)
	var stuck []nixl.Transfer
	for range 70 {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		x, err := nixl.Post(ctx, h, nixl.Request{Peer: rawID, Grant: &nixl.Grant{Number: 1}, Copies: whole(blocks)})
		cancel()
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			break
		}
		stuck = append(stuck, x)
	}
	if n := len(stuck); n < 64 || n > 68 {
		t.Fatalf("%d transfers were taken, want about 64", n)
	}
	exchangeBlocks(t, h, quick, 8, 1)
	if err := h.RemovePeer(rawID); err != nil {
		t.Fatal(err)
	}
	for i, x := range stuck {
		err := x.Wait(soon(t))
		if !errors.Is(err, nixl.ErrAborted) && !errors.Is(err, nixl.ErrUnsettled) {
			t.Fatalf("transfer %d: %v", i, err)
		}
		if i > 10 && errors.Is(err, nixl.ErrUnsettled) {
			t.Fatalf("transfer %d was never sent, and is %v", i, err)
		}
	}
}

func TestARevokedReadEndsAtOnce(t *testing.T) {
	p := newProxy(t, func(p *proxy) { p.bytesPerSec = 10 << 20 })
	target, reader := behind(t, p)
	transfer, err := nixl.Post(soon(t), reader, nixl.Request{Peer: target.ID(), Op: nixl.Read, Grant: &nixl.Grant{Number: everything}, Copies: whole(blocks)})
	if err != nil {
		t.Fatal(err)
	}
	if err := target.Revoke(over(), reader.ID(), everything); err != nil {
		if err := target.Revoke(soon(t), reader.ID(), everything); err != nil {
			t.Fatal(err)
		}
	}
	if err := transfer.Wait(soon(t)); err != nil && (!errors.Is(err, nixl.ErrNotGranted) || !errors.Is(err, nixl.ErrAborted)) {
		t.Fatalf("got %v", err)
	}
	target.allow(t, reader.ID())
	exchangeBlocks(t, reader, target, 2, 1) // the connection goes on
}

func TestManyRunsInAnyOrder(t *testing.T) {
	target, writer := start(t, "decode"), start(t, "prefill", func(c *Config) { c.Connections = 3 })
	target.allow(t, writer.ID())
	id := writer.add(t, target)
	pattern(writer.region.Bytes(), 3)
	const n = blockBytes / 16 // short runs, over the borders of blocks
	var copies []nixl.Copy
	want := make([]byte, blocks*blockBytes)
	for i := range blocks * blockBytes / n / 2 {
		c := whole(1)[0]
		c.Local.Offset, c.Remote.Offset = 2*i*n+5, (i*389%(blocks*blockBytes/n/2))*2*n+11
		c.Local.Bytes, c.Remote.Bytes = n+i%7, n+i%7
		copies = append(copies, c)
		copy(want[c.Remote.Offset:][:c.Remote.Bytes], writer.region.Bytes()[c.Local.Offset:])
	}
	if err := writer.move(soon(t), nixl.Write, id, copies); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(target.region.Bytes(), want) {
		t.Fatal("the bytes did not land where they belong")
	}
}

func TestConfigurationsThatCannotBe(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"connections is 17":    func(c *Config) { c.Connections = 17 },
		"silence is -1ns":      func(c *Config) { c.Silence = -1 },
		"verify is 2":          func(c *Config) { c.Verify = 2 },
		"name is empty":        func(c *Config) { c.Name = "" },
		"address to advertise": func(c *Config) { c.Listen = ":0" },
		"missing port":         func(c *Config) { c.Advertise = "host" },
		"host that leads here": func(c *Config) { c.Advertise = ":0" },
		"want a host":          func(c *Config) { c.Advertise = "0.0.0.0:7" },
		`port is "99999"`:      func(c *Config) { c.Advertise = "10.0.0.7:99999" },
		`port is "bar"`:        func(c *Config) { c.Advertise = "host:bar" },
		"listen":               func(c *Config) { c.Listen = "127.0.0.1:99999" },
	} {
		c := Config{Config: nixl.Config{Name: "a", Incarnation: "1", KVFormat: "f"}, Listen: "127.0.0.1:0"}
		change(&c)
		if a, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
			if err == nil {
				a.Close()
			}
		}
	}
	a, err := New(Config{Config: nixl.Config{Name: "a", Incarnation: "1", KVFormat: "f"}, Listen: ":0", Advertise: "10.0.0.7:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	meta, err := a.Metadata()
	if err != nil || !strings.Contains(string(meta), `"10.0.0.7:`) || strings.Contains(string(meta), `"10.0.0.7:0"`) {
		t.Fatalf("%s, %v", meta, err)
	}
}
