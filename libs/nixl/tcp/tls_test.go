package tcp

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/nixltest"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	key, der := sign(t, c, c, nil)
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key}
}

func sign(t *testing.T, c, parent *x509.Certificate, by *ecdsa.PrivateKey) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	return key, der
}

// config is for both sides, with a certificate of ca, trusting those of trusted.
func (ca authority) config(t *testing.T, trusted authority) *tls.Config {
	t.Helper()
	key, der := sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "worker"}, DNSNames: []string{"worker"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, ca.cert, ca.key)
	pool := x509.NewCertPool()
	pool.AddCert(trusted.cert)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		RootCAs:      pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}
}

func secured(c *tls.Config) func(*Config) { return func(to *Config) { to.TLS = c } }

func TestMutualTLS(t *testing.T) {
	ca := newAuthority(t)
	var plain atomic.Bool
	p := newProxy(t, func(p *proxy) {
		p.damage = func(_ bool, b []byte) {
			if bytes.Contains(b, []byte("switchyard_nixl")) {
				plain.Store(true)
			}
		}
	})
	target, writer := behind(t, p, secured(ca.config(t, ca)))
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
	ca := newAuthority(t)
	c := ca.config(t, ca)
	c.ServerName = "worker"
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
			a, err := New(Config{Config: config, Listen: ports[at], TLS: c})
			if err == nil {
				ports[at] = a.(*agent).address
			}
			return a, err
		},
	})
}

func TestWhoIsNotTrusted(t *testing.T) {
	ca, wolf := newAuthority(t), newAuthority(t)
	target := start(t, "decode", secured(ca.config(t, ca)))
	for name, c := range map[string]*tls.Config{
		"trusts another authority": ca.config(t, wolf),
		"is of another authority":  wolf.config(t, ca),
		"has no certificate":       {RootCAs: ca.config(t, ca).RootCAs},
		"speaks plainly":           nil,
	} {
		writer := start(t, name, secured(c))
		if _, err := writer.AddPeer(soon(t), target.meta(t)); !errors.Is(err, nixl.ErrUnreachable) {
			t.Errorf("who %s: got %v, want ErrUnreachable", name, err)
		}
	}
	plain := start(t, "plain")
	writer := start(t, "prefill", secured(ca.config(t, ca)))
	if _, err := writer.AddPeer(soon(t), plain.meta(t)); !errors.Is(err, nixl.ErrUnreachable) {
		t.Errorf("a plain target: got %v, want ErrUnreachable", err)
	}
	target.mu.Lock()
	defer target.mu.Unlock()
	if target.opened != 0 {
		t.Errorf("%d links were opened", target.opened)
	}
}
