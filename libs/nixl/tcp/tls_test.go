package tcp

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/wire"
	"github.com/switchyard-llm/switchyard/libs/nixl/nixltest"
	"github.com/switchyard-llm/switchyard/libs/nixl/nixltest/certs"
)

// issue gives a certificate of an authority for these names, and trusts those of that authority.
func issue(t testing.TB, ca certs.Authority, names ...string) *TLS {
	t.Helper()
	pair, err := tls.X509KeyPair(ca.Issue(t, names))
	if err != nil {
		t.Fatal(err)
	}
	return &TLS{Certificate: pair, Authorities: ca.Pool()}
}

func secured(c *TLS) func(*Config) { return func(to *Config) { to.TLS = c } }

func TestMutualTLS(t *testing.T) {
	ca := certs.New(t)
	var plain atomic.Bool
	p := newProxy(t, func(p *proxy) {
		p.damage = func(_ bool, b []byte) {
			if bytes.Contains(b, []byte("switchyard_nixl")) {
				plain.Store(true)
			}
		}
	})
	target, writer := behind(t, p, secured(issue(t, ca, "decode", "prefill")))
	exchangeBlocks(t, writer, target, blocks, 1)
	if plain.Load() {
		t.Fatal("the metadata went over the wire as they are")
	}
	if err := target.Fence(soon(t), writer.ID()); err != nil {
		t.Fatal(err)
	}
	if e := writer.event(t); !e.Gone || !errors.Is(e.Err, nixl.ErrFenced) {
		t.Fatalf("got %+v", e)
	}
	if _, err := writer.AddPeer(soon(t), target.meta(t)); !errors.Is(err, nixl.ErrFenced) {
		t.Fatalf("got %v, want ErrFenced", err)
	}
}

func TestConformanceWithTLS(t *testing.T) {
	ca := certs.New(t)
	var (
		mu    sync.Mutex
		ports = make(map[string]string)
	)
	nixltest.Run(t, nixltest.Transport{
		FencesLiving: true, ChecksGrants: true, NeedsTarget: true,
		Open: func(config nixl.Config, folder string) (nixl.Agent, error) {
			mu.Lock()
			defer mu.Unlock()
			at := folder + config.Name
			if ports[at] == "" {
				ports[at] = "127.0.0.1:0"
			}
			a, err := New(Config{Config: config, Listen: ports[at], TLS: issue(t, ca, config.Name)})
			if err == nil {
				ports[at] = a.(*agent).address
			}
			return a, err
		},
	})
}

// diary keeps what an agent says of the connections that it refuses.
type diary chan string

func (d diary) keep(c *Config) { c.Logger = slog.New(d) }

func (d diary) Enabled(context.Context, slog.Level) bool { return true }
func (d diary) WithAttrs([]slog.Attr) slog.Handler       { return d }
func (d diary) WithGroup(string) slog.Handler            { return d }

func (d diary) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "nixl connection refused" {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "error" {
				d <- a.Value.String()
			}
			return true
		})
	}
	return nil
}

func (d diary) want(t *testing.T, text string) {
	t.Helper()
	select {
	case got := <-d:
		if !strings.Contains(got, text) {
			t.Errorf("the target says %q, want %q", got, text)
		}
	case <-soon(t).Done():
		t.Errorf("the target says nothing, want %q", text)
	}
}

// TestWhoIsNotTrusted is refused, and both sides say why.
func TestWhoIsNotTrusted(t *testing.T) {
	ca, wolf := certs.New(t), certs.New(t)
	sheep := issue(t, wolf, "prefill")
	sheep.Authorities = ca.Pool()
	dupe := issue(t, ca, "prefill")
	dupe.Authorities = wolf.Pool()
	for name, c := range map[string]struct {
		target, writer *TLS
		there, here    string
	}{
		"trusts another authority": {issue(t, ca, "decode"), dupe, "remote error: tls: ", "certificate signed by unknown authority"},
		"is of another authority":  {issue(t, ca, "decode"), sheep, "certificate signed by unknown authority", "remote error: tls: "},
		"bears another's name": {issue(t, ca, "decode"), issue(t, ca, "other", "*.prefill"),
			"does not cover the name that is claimed: x509: certificate is valid for other, *.prefill, not prefill",
			"the peer says: the certificate does not cover the name that is claimed: x509: certificate is valid for other, *.prefill, not prefill"},
		"meets another":     {issue(t, ca, "other"), issue(t, ca, "prefill"), "tls: bad certificate", "certificate is valid for other, not decode"},
		"has but a CN":      {issue(t, ca, "decode"), issue(t, ca), "certificate is not valid for any names", "certificate is not valid for any names"},
		"speaks plainly":    {issue(t, ca, "decode"), nil, errWithoutTLS.Error(), errWithoutTLS.Error()},
		"is not understood": {nil, issue(t, ca, "prefill"), errWithTLS.Error(), errWithTLS.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			d := make(diary, 10)
			target := start(t, "decode", secured(c.target), d.keep)
			writer := start(t, "prefill", secured(c.writer))
			began := time.Now()
			_, err := writer.AddPeer(soon(t), target.meta(t))
			if !errors.Is(err, nixl.ErrUnreachable) || !strings.Contains(err.Error(), c.here) {
				t.Errorf("got %v, want ErrUnreachable, %q", err, c.here)
			}
			if d := time.Since(began); d > handshakeTimeout/2 {
				t.Errorf("it took %v", d)
			}
			d.want(t, c.there)
			target.mu.Lock()
			defer target.mu.Unlock()
			if target.opened != 0 {
				t.Errorf("%d links were opened", target.opened)
			}
		})
	}
}

// tlsRaw is a connection made by hand, with TLS as c says.
func tlsRaw(t *testing.T, h *host, c *tls.Config) (net.Conn, error) {
	t.Helper()
	socket := tls.Client(dialRaw(t, h), c)
	err := socket.HandshakeContext(soon(t))
	return socket, err
}

func TestWhoShowsNoCertificate(t *testing.T) {
	ca := certs.New(t)
	d := make(diary, 10)
	h := start(t, "decode", secured(issue(t, ca, "decode")), d.keep)
	socket, err := tlsRaw(t, h, &tls.Config{RootCAs: ca.Pool(), ServerName: "decode"})
	if err == nil { // in TLS 1.3 the client learns it by its first read
		_, err = socket.Read(make([]byte, 1))
	}
	if err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("got %v", err)
	}
	d.want(t, "client didn't provide a certificate")
	if _, err = tlsRaw(t, h, &tls.Config{RootCAs: ca.Pool(), ServerName: "decode", MaxVersion: tls.VersionTLS12}); err == nil {
		t.Error("TLS 1.2 is spoken")
	}
	d.want(t, "offered only unsupported versions")
}

// TestNobodyElseJoinsWithTLS although it knows the nonce and is certified by another name.
func TestNobodyElseJoinsWithTLS(t *testing.T) {
	ca := certs.New(t)
	h := start(t, "decode", secured(issue(t, ca, "decode")))
	dial := func(name string) net.Conn {
		socket, err := tlsRaw(t, h, issue(t, ca, name).client("decode"))
		if err != nil {
			t.Fatal(err)
		}
		return socket
	}
	k, answer := ask(t, dial("raw"), wire.Hello, rawHello(t, h))
	var w welcome
	if err := json.Unmarshal(answer, &w); err != nil || k != wire.Welcome {
		t.Fatalf("type %d, %s, %v", k, answer, err)
	}
	if k, answer := ask(t, dial("other"), kindJoin, join{protocolVersion, w.Nonce, 1}); k != wire.Refusal || !strings.Contains(string(answer), "valid for other, not raw") {
		t.Errorf("type %d, %s", k, answer)
	}
	if k, answer := ask(t, dial("raw"), kindJoin, join{protocolVersion, w.Nonce, 1}); k != wire.Welcome {
		t.Errorf("type %d, %s", k, answer)
	}
}

// TestAWildcardCoversOneLabel of a name.
func TestAWildcardCoversOneLabel(t *testing.T) {
	ca := certs.New(t)
	certificate := secured(issue(t, ca, "*.workers.test"))
	target := start(t, "a.workers.test", certificate)
	for name, covered := range map[string]bool{"b.workers.test": true, "c.b.workers.test": false, "workers.test": false, "b": false} {
		_, err := start(t, name, certificate).AddPeer(soon(t), target.meta(t))
		if covered && err != nil || !covered && (err == nil || !strings.Contains(err.Error(), "does not cover")) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestTLSThatLacksAPart(t *testing.T) {
	whole := issue(t, certs.New(t), "a")
	for want, c := range map[string]*TLS{
		"no certificate": {Authorities: whole.Authorities},
		"no authorities": {Certificate: whole.Certificate},
	} {
		a, err := New(Config{Config: nixl.Config{Name: "a", Incarnation: "1", KVFormat: "f"}, Listen: "127.0.0.1:0", TLS: c})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
			a.Close()
		}
	}
}
