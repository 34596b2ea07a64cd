package tcp

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// transport is the name in the metadata.
const transport = "tcp"

// Verify says whether the bytes of blocks are checksummed.
type Verify uint8

const (
	// VerifyOn checksums every frame; it is the default. One side suffices.
	VerifyOn Verify = iota
	// VerifyOff leaves it to TCP, whose checksum misses one damaged packet in some 65,000.
	VerifyOff
)

// maxConnections bounds the data connections of a peer.
const maxConnections = 16

// Config of an agent. Copiers does not matter: each connection has goroutines of its own.
type Config struct {
	nixl.Config
	// Listen is the host:port on which peers connect; port 0 takes a free one.
	Listen string
	// Advertise is the host:port at which peers find it, if that is not where it listens; a
	// port 0 stands for the port of the listener.
	Advertise string
	// Connections is how many connections carry the bytes to a peer that we add, beside the one
	// for notes, 1 to 16; 0 means 2. The peer may grant fewer, as its own number is lower.
	Connections int
	// Verify is on unless said otherwise on both sides.
	Verify Verify
	// Silence is how long a peer may send nothing, or take nothing, before it counts as gone; 0 means 5 s.
	Silence time.Duration
	// TLS encrypts all connections, those made and those taken, and proves the names of both ends;
	// all peers must do so. nil is plain TCP, where a name is but a claim.
	TLS *TLS
}

func (c Config) complete() (Config, error) {
	base, err := c.Config.Complete()
	if err != nil {
		return c, err
	}
	c.Config = base
	switch {
	case c.Connections < 0 || c.Connections > maxConnections:
		return c, fmt.Errorf("tcp configuration: connections is %d, want 0 to %d", c.Connections, maxConnections)
	case c.Silence < 0:
		return c, fmt.Errorf("tcp configuration: silence is %v, want 0 or more", c.Silence)
	case c.Verify > VerifyOff:
		return c, fmt.Errorf("tcp configuration: verify is %d, want on or off", c.Verify)
	}
	if err := c.TLS.check(); err != nil {
		return c, err
	}
	if c.Connections == 0 {
		c.Connections = 2
	}
	if c.Silence == 0 {
		c.Silence = 5 * time.Second
	}
	return c, nil
}

// beat is the time between two signs of life.
func (c Config) beat() time.Duration { return min(time.Second, c.Silence/5) }

// advertised is the address for the metadata.
func (c Config) advertised(listening net.Addr) (string, error) {
	_, port, err := net.SplitHostPort(listening.String())
	if err != nil {
		return "", fmt.Errorf("tcp listen %s: %w", listening, err)
	}
	if c.Advertise == "" {
		if a, ok := listening.(*net.TCPAddr); ok && a.IP.IsUnspecified() {
			return "", fmt.Errorf("tcp listen %s: peers need an address to advertise", listening)
		}
		return listening.String(), nil
	}
	host, wanted, err := net.SplitHostPort(c.Advertise)
	if err != nil {
		return "", fmt.Errorf("tcp advertise %q: %w", c.Advertise, err)
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		return "", fmt.Errorf("tcp advertise %q: want a host that leads here from the peers", c.Advertise)
	}
	if _, err := strconv.ParseUint(wanted, 10, 16); err != nil {
		return "", fmt.Errorf("tcp advertise %q: port is %q, want 0 to 65535", c.Advertise, wanted)
	}
	if wanted != "0" {
		port = wanted
	}
	return net.JoinHostPort(host, port), nil
}
