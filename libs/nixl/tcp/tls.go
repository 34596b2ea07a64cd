package tcp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/wire"
)

// TLS makes an agent prove to each peer that it may bear its name, and demand the same of the
// peer, by TLS 1.3. A certificate covers a name by a DNS name that equals it or whose wildcard
// stands for its first label, or by an address if the name is one; see
// x509.Certificate.VerifyHostname. It stands for every incarnation of that name.
type TLS struct {
	// Certificate is for both ends of a connection: client and server authentication.
	Certificate tls.Certificate
	// Authorities sign the certificates of peers. Whom they certify can be a peer by each name
	// that its certificate covers.
	Authorities *x509.CertPool
}

// check names what is missing.
func (t *TLS) check() error {
	switch {
	case t == nil:
		return nil
	case len(t.Certificate.Certificate) == 0 || t.Certificate.PrivateKey == nil:
		return errors.New("tcp configuration: TLS has no certificate with its key")
	case t.Authorities == nil:
		return errors.New("tcp configuration: TLS has no authorities, by which peers are known")
	}
	return nil
}

func (t *TLS) common() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{t.Certificate}}
}

// server is for connections that are taken. The name of their other end is in its hello, so
// that it is checked there.
func (t *TLS) server() *tls.Config {
	c := t.common()
	c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, t.Authorities
	c.SessionTicketsDisabled = true // nobody resumes
	return c
}

// client is for connections to the peer of that name.
func (t *TLS) client(name string) *tls.Config {
	c := t.common()
	c.RootCAs, c.ServerName = t.Authorities, name
	return c
}

var (
	errWithoutTLS = errors.New("the side that was dialled speaks only TLS, the dialler speaks none")
	errWithTLS    = errors.New("one side speaks TLS, the other has none configured")
)

// secureTaken wraps a socket that was taken. Who speaks no TLS is told so in plain words.
func (a *agent) secureTaken(ctx context.Context, raw net.Conn) (net.Conn, error) {
	if a.config.TLS == nil {
		return raw, nil
	}
	t := tls.Server(raw, a.config.TLS.server())
	if err := t.HandshakeContext(ctx); err != nil {
		if plain(err) {
			return nil, errors.Join(errWithoutTLS, refuse(raw, errWithoutTLS))
		}
		return nil, err
	}
	return t, nil
}

// secureMade wraps a socket that was made to reach the peer of that name.
func (a *agent) secureMade(ctx context.Context, raw net.Conn, name string) (net.Conn, error) {
	if a.config.TLS == nil {
		return raw, nil
	}
	t := tls.Client(raw, a.config.TLS.client(name))
	if err := t.HandshakeContext(ctx); err != nil {
		if plain(err) {
			err = errWithTLS
		}
		return nil, fmt.Errorf("%w: %w", nixl.ErrUnreachable, err)
	}
	return t, nil
}

// plain tells whether a handshake failed as the other side has sent something else than TLS.
func plain(err error) bool {
	var header tls.RecordHeaderError
	return errors.As(err, &header) && header.Conn != nil // else it came later
}

// readFirst reads the first frame of the other side, or tells by the first bytes that it speaks
// TLS: as a frame they would be too long.
func readFirst(socket net.Conn) (wire.Kind, []byte, error) {
	const alert, handshake, major = 21, 22, 3 // RFC 8446, section 5.1
	var h [wire.HeaderBytes]byte
	n, err := io.ReadFull(socket, h[:])
	if n >= 3 && (h[0] == alert || h[0] == handshake) && h[1] == major && h[2] > 0 {
		return 0, nil, errWithTLS
	}
	if err != nil {
		return 0, nil, err
	}
	return wire.ReadRest(socket, h)
}

// covers reports a peer whose certificate is not for the name that it claims.
func covers(socket net.Conn, name string) error {
	t, ok := socket.(*tls.Conn)
	if !ok {
		return nil // without TLS, a name is but a claim
	}
	if err := t.ConnectionState().PeerCertificates[0].VerifyHostname(name); err != nil {
		return fmt.Errorf("the certificate does not cover the name that is claimed: %w", err)
	}
	return nil
}

// part ends a connection that was refused. To close it at once would reset it while bytes are
// unread, and the reason might not arrive.
func part(socket net.Conn) {
	if s, ok := socket.(interface{ CloseWrite() error }); ok && s.CloseWrite() == nil {
		if socket.SetReadDeadline(time.Now().Add(goodbyeTimeout)) == nil {
			_, _ = io.Copy(io.Discard, socket) // it ends at the latest by the deadline
		}
	}
	socket.Close()
}
