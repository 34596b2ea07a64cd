package worker

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/switchyard-llm/switchyard/libs/nixl/tcp"
)

// TLSConfig names the files by which the ends of the tcp transport prove who they are: all
// three, or none for plain TCP. They are read once, at the start.
type TLSConfig struct {
	Cert string `yaml:"cert" help:"PEM file of the certificate that the tcp transport shows to its peers; it covers id as a DNS name, for client and server authentication; plain TCP if empty"`
	Key  string `yaml:"key" help:"PEM file of that certificate's private key"`
	CA   string `yaml:"ca" help:"PEM file of the certificates of the authorities that sign those of all workers, and of nobody else"`
}

// pemFile is one of the files, by its key in the configuration.
type pemFile struct{ key, path, what string }

func (f pemFile) String() string { return fmt.Sprintf("%s is %q", f.key, f.path) }

func (f pemFile) read() ([]byte, error) {
	b, err := os.ReadFile(f.path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f, err)
	}
	return b, nil
}

func (c TLSConfig) cert() pemFile {
	return pemFile{"transfer_tls.cert", c.Cert, "a certificate"}
}
func (c TLSConfig) key() pemFile { return pemFile{"transfer_tls.key", c.Key, "its private key"} }
func (c TLSConfig) ca() pemFile {
	return pemFile{"transfer_tls.ca", c.CA, "the authorities' certificates"}
}

// first is the first file that is named.
func (c TLSConfig) first() (f pemFile, named bool) {
	for _, f := range []pemFile{c.cert(), c.key(), c.ca()} {
		if f.path != "" {
			return f, true
		}
	}
	return pemFile{}, false
}

// validate names the first file that is missing beside another.
func (c TLSConfig) validate() error {
	given, named := c.first()
	if !named {
		return nil
	}
	for _, f := range []pemFile{c.cert(), c.key(), c.ca()} {
		if f.path == "" {
			return fmt.Errorf("%s is empty, want a PEM file with %s, as %s is set", f.key, f.what, given.key)
		}
	}
	return nil
}

// load reads the files for the worker of that name; nil is plain TCP. What each peer would
// refuse is an error here, where it can be put right.
func (c TLSConfig) load(name string) (*tcp.TLS, error) {
	if _, named := c.first(); !named {
		return nil, nil
	}
	pair, err := c.pair()
	if err != nil {
		return nil, err
	}
	authorities, err := c.authorities()
	if err != nil {
		return nil, err
	}
	if err := pair.Leaf.VerifyHostname(name); err != nil {
		return nil, fmt.Errorf("%s: it does not cover the worker's id: %w", c.cert(), err)
	}
	if err := vouched(pair, authorities); err != nil {
		return nil, fmt.Errorf("%s, %s: peers would refuse the certificate: %w", c.cert(), c.ca(), err)
	}
	return &tcp.TLS{Certificate: pair, Authorities: authorities}, nil
}

func (c TLSConfig) pair() (tls.Certificate, error) {
	cert, err := c.cert().read()
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := c.key().read()
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s, %s: %w", c.cert(), c.key(), err)
	}
	return pair, nil
}

func (c TLSConfig) authorities() (*x509.CertPool, error) {
	ca, err := c.ca().read()
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s: it has no certificate, want at least one in PEM", c.ca())
	}
	return pool, nil
}

// vouched reports a certificate that the authorities do not vouch for in both directions.
func vouched(pair tls.Certificate, authorities *x509.CertPool) error {
	between := x509.NewCertPool()
	for _, der := range pair.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return err
		}
		between.AddCert(c)
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: authorities, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}})
		if err != nil {
			return err
		}
	}
	return nil
}
