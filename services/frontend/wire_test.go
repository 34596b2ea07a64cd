package frontend_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/services/frontend"
)

func TestADrainIsSeenBeforeConnectionsAreRefused(t *testing.T) {
	lis, cfg := listen(t), config()
	cfg.DrainDelay = time.Second
	f, err := frontend.New(cfg, frontend.Deps{Processor: connect(t, &processor{}), HTTP: lis})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- f.Run(ctx) }()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	url := "http://" + lis.Addr().String()
	until := func(status int) {
		for deadline := time.Now().Add(10 * time.Second); ; {
			if resp, _ := do(t, http.MethodGet, url+"/health", "", "Connection", "close"); resp.StatusCode == status {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("health does not say %d", status)
			}
		}
	}
	until(http.StatusOK)
	stop()
	until(http.StatusServiceUnavailable)
	if resp, body := post(t, url+"/v1/chat/completions", chatBody("a", "")); resp.StatusCode != http.StatusOK {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if err := <-ran; err != nil {
		t.Error(err)
	}
}

// run runs a frontend on a port of its own until the test ends, and returns its address.
func run(t *testing.T, change func(*frontend.Config)) (address string) {
	t.Helper()
	lis, cfg := listen(t), config()
	if change != nil {
		change(&cfg)
	}
	f, err := frontend.New(cfg, frontend.Deps{Processor: connect(t, &processor{}), HTTP: lis})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ran := make(chan error, 1)
	go func() { ran <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
	return lis.Addr().String()
}

func TestTheServersOwnErrorsAreOpenAIs(t *testing.T) {
	address := run(t, nil)
	for name, c := range map[string]struct {
		sent   string
		status int
	}{
		"no HTTP":                   {"hello, is this a server?\r\n\r\n", 400},
		"no host":                   {"GET /v1/models HTTP/1.1\r\n\r\n", 400},
		"a header without a colon":  {"GET /v1/models HTTP/1.1\r\nHost: x\r\nwhat\r\n\r\n", 400},
		"two lengths":               {"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
		"large headers":             {"GET /v1/models HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 80<<10) + "\r\n\r\n", 431},
		"another version":           {"GET /v1/models HTTP/3.0\r\nHost: x\r\n\r\n", 505},
		"another transfer encoding": {"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: br\r\n\r\n", 501},
		"an expectation":            {"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nExpect: tea\r\nContent-Length: 2\r\n\r\n{}", 417},
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, c.sent); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != c.status || resp.Header.Get("Content-Type") != "application/json" || !resp.Close {
			t.Errorf("%s: %v: %d %v %s, want %d", name, err, resp.StatusCode, resp.Header, body, c.status)
		}
		failureOf(t, string(body))
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
}

// ask sends a chat by a version of HTTP, and a request for models on the same connection.
func ask(t *testing.T, url string, p *http.Protocols, trust *tls.Config) {
	t.Helper()
	transport := &http.Transport{Protocols: p, TLSClientConfig: trust}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for _, more := range []string{``, `,"stream":true`} {
		resp, err := client.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(chatBody("a b", more)))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 || !strings.Contains(string(body), "finish_reason") {
			t.Errorf("%v: %s %d %s", err, resp.Proto, resp.StatusCode, body)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestHTTP2WithoutTLS(t *testing.T) {
	p := &http.Protocols{}
	p.SetUnencryptedHTTP2(true)
	ask(t, "http://"+run(t, nil), p, nil)
}

func TestHTTP2WithTLS(t *testing.T) {
	cert, key, pool := certificate(t)
	p := &http.Protocols{}
	p.SetHTTP2(true)
	address := run(t, func(c *frontend.Config) { c.HTTPCert, c.HTTPKey = cert, key })
	ask(t, "https://"+address, p, &tls.Config{RootCAs: pool})
}

// certificate writes one for 127.0.0.1 that vouches for itself.
func certificate(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, data []byte) string {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	parsed, err := x509.ParseCertificate(cert)
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AddCert(parsed)
	return write("cert.pem", "CERTIFICATE", cert), write("key.pem", "PRIVATE KEY", secret), pool
}

func TestBodiesThatDoNotComeTakeNoPlaces(t *testing.T) {
	address := run(t, func(c *frontend.Config) { c.MaxRequests = 1 })
	for range 3 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
	}
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if resp, body := post(t, "http://"+address+"/v1/chat/completions", chatBody("a", "")); resp.StatusCode != http.StatusOK {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}
