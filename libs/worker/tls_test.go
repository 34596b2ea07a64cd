package worker

import (
	"context"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/nixltest/certs"
)

// files are those of a worker whose certificate a signed.
func files(t *testing.T, a certs.Authority, names []string, usages ...x509.ExtKeyUsage) TLSConfig {
	t.Helper()
	folder := t.TempDir()
	c := TLSConfig{filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem"), filepath.Join(folder, "ca.pem")}
	cert, key := a.Issue(t, names, usages...)
	for path, b := range map[string][]byte{c.Cert: cert, c.Key: key, c.CA: a.PEM()} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func TestFilesThatPeersWouldRefuseAreNamed(t *testing.T) {
	a := certs.New(t)
	good, other := files(t, a, []string{"decode"}), files(t, certs.New(t), []string{"decode"})
	for want, c := range map[string]TLSConfig{
		`transfer_tls.cert is "` + good.Cert + `.away": open `:                                  {good.Cert + ".away", good.Key, good.CA},
		`transfer_tls.key is "` + good.Key + `.away": open `:                                    {good.Cert, good.Key + ".away", good.CA},
		`transfer_tls.ca is "` + good.CA + `.away": open `:                                      {good.Cert, good.Key, good.CA + ".away"},
		`transfer_tls.ca is "` + good.Key + `": it has no certificate`:                          {good.Cert, good.Key, good.Key},
		`transfer_tls.key is "` + other.Key + `": tls: private key does not match`:              {good.Cert, other.Key, good.CA},
		`transfer_tls.ca is "` + other.CA + `": peers would refuse the certificate: x509: `:     {good.Cert, good.Key, other.CA},
		"it does not cover the worker's id: x509: certificate is valid for prefill, not decode": files(t, a, []string{"prefill"}),
		"incompatible key usage": files(t, a, []string{"decode"}, x509.ExtKeyUsageServerAuth),
	} {
		if _, err := c.load("decode"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := (TLSConfig{Cert: "away", Key: "away", CA: "away"}).load("decode"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
	if secrets, err := (TLSConfig{}).load("decode"); secrets != nil || err != nil {
		t.Errorf("without files: %v, %v", secrets, err)
	}
}

// TestTheConfiguredCertificatesAreUsed by agents as a worker opens them.
func TestTheConfiguredCertificatesAreUsed(t *testing.T) {
	a := certs.New(t)
	wild := files(t, a, []string{"*.workers.test"})
	target := opened(t, "decode.workers.test", wild)
	metadata, err := target.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for name, c := range map[string]struct {
		tls  TLSConfig
		want string
	}{
		"prefill.workers.test": {wild, ""},
		"other":                {files(t, certs.New(t), []string{"other"}), "unknown authority"},
		"plain":                {TLSConfig{}, "speaks only TLS"},
	} {
		_, err := opened(t, name, c.tls).AddPeer(ctx, metadata)
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, nixl.ErrUnreachable) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// opened is the agent of a worker that only speaks TCP; it runs until the test ends.
func opened(t *testing.T, name string, tls TLSConfig) nixl.Agent {
	t.Helper()
	c := DefaultTransferConfig()
	c.Transport, c.TLS = TCP, tls
	agent, err := c.agent(nixl.Config{Name: name, Incarnation: "1", KVFormat: "f"}, "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- agent.Run(context.Background()) }()
	t.Cleanup(func() {
		if err := errors.Join(agent.Close(), <-ran); err != nil {
			t.Error(err)
		}
	})
	return agent
}
