package tcp

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/nixltest/cable"
)

// span is a cable between a target and a writer, which a proxy delays where the cable cannot.
type span struct {
	*cable.Cable
	t     *testing.T
	delay *proxy
}

func plug(t *testing.T) *span {
	t.Helper()
	w := &span{Cable: cable.Plug(t), t: t}
	if !w.Limit(200) {
		w.delay = newProxy(t, func(p *proxy) { p.delay = 10 * time.Millisecond })
	}
	return w
}

// ends are a target in the other namespace, and a peer in this one that has added it.
func (c *span) ends() (target, writer *host) {
	c.t.Helper()
	var a nixl.Agent
	if err := c.Inside(func() (err error) {
		x := Config{Config: nixl.Config{Name: "decode", Incarnation: "1", KVFormat: "f"}, Listen: c.FarAddress + ":0", Silence: time.Second}
		if c.delay != nil {
			x.Advertise = c.delay.address()
		}
		a, err = New(x)
		return err
	}); err != nil {
		c.t.Fatal(err)
	}
	target = serve(c.t, a)
	if c.delay != nil {
		c.delay.lead(target.listener.Addr().String())
	}
	writer = start(c.t, "prefill", func(x *Config) { x.Listen, x.Silence = c.NearAddress+":0", time.Second })
	target.allow(c.t, writer.ID())
	writer.add(c.t, target)
	return target, writer
}

func TestBetweenNamespaces(t *testing.T) {
	c := plug(t)
	target, writer := c.ends()
	began := time.Now()
	exchangeBlocks(t, writer, target, blocks, 1)
	if d := time.Since(began); d < 200*time.Millisecond {
		t.Errorf("8 MiB over 200 Mbit/s took %v: the limit is not in force", d)
	}

	// A short cut is sat out.
	transfer, err := nixl.Post(soon(t), writer, nixl.Request{Peer: target.ID(), Grant: &nixl.Grant{Number: everything}, Copies: whole(blocks)})
	if err != nil {
		t.Fatal(err)
	}
	c.Cut()
	again := time.AfterFunc(300*time.Millisecond, func() { c.Join() })
	defer again.Stop()
	switch err := transfer.Wait(soon(t)); {
	case err == nil:
	case errors.Is(err, nixl.ErrGone): // the system waits longer and longer before it sends again
		t.Logf("the short cut was one too long: %v", err)
		writer.wantGone(t, target.ID())
		target.wantGone(t, writer.ID())
		writer.add(t, target)
	default:
		t.Fatal(err)
	}
	exchangeBlocks(t, writer, target, 4, 2)
	c.cutForGood(target, writer)
}

// cutForGood takes the link down under a write.
func (c *span) cutForGood(target, writer *host) {
	t := c.t
	t.Helper()
	pattern(writer.region.Bytes(), 77)
	transfer, err := nixl.Post(soon(t), writer, nixl.Request{Peer: target.ID(), Grant: &nixl.Grant{Number: everything}, Copies: whole(blocks)})
	if err != nil {
		t.Fatal(err)
	}
	target.settled(t, writer.region.Bytes()[:blockBytes])
	c.Cut()
	if err := transfer.Wait(soon(t)); !errors.Is(err, nixl.ErrUnsettled) || !errors.Is(err, nixl.ErrGone) {
		t.Fatalf("got %v, want ErrUnsettled, as the peer is gone", err)
	}
	writer.wantGone(t, target.ID())
	target.wantGone(t, writer.ID())
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	if _, err := writer.AddPeer(ctx, target.meta(t)); !errors.Is(err, nixl.ErrUnreachable) {
		t.Fatalf("got %v, want ErrUnreachable", err)
	}
	if err := target.Fence(over(), writer.ID()); err != nil {
		t.Fatalf("the owner has no proof: %v", err)
	}
}
