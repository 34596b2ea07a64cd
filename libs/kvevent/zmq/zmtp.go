package zmq

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"
)

// The socket types of this package.
const (
	pubSocket    = "PUB"
	subSocket    = "SUB"
	routerSocket = "ROUTER"
	dealerSocket = "DEALER"
)

// peersOf are the types that may be at the other end.
var peersOf = map[string][]string{
	pubSocket:    {subSocket, "XSUB"},
	subSocket:    {pubSocket, "XPUB"},
	routerSocket: {dealerSocket, "REQ", routerSocket},
	dealerSocket: {routerSocket, "REP", dealerSocket},
}

// Bits of a frame's flags (ZMTP 3.0, rfc.zeromq.org/spec/23).
const (
	flagMore    = 1
	flagLong    = 2
	flagCommand = 4
)

const (
	greetingBytes    = 64
	handshakeTimeout = 5 * time.Second
	framesMax        = 16
)

// socket is one connection of a ZeroMQ socket. Reading and writing may go on at the same time.
type socket struct {
	net.Conn
	reader   *bufio.Reader
	writer   *bufio.Writer
	maxBytes int // of a message
}

// shake makes a socket of the given type of a connection. It closes it on an error.
func shake(c net.Conn, kind string, maxBytes int) (*socket, error) {
	s := &socket{Conn: c, reader: bufio.NewReader(c), writer: bufio.NewWriter(c), maxBytes: maxBytes}
	err := c.SetDeadline(time.Now().Add(handshakeTimeout))
	if err == nil {
		err = s.greet(kind)
	}
	if err == nil {
		err = c.SetDeadline(time.Time{})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("zeromq handshake with %s: %w", c.RemoteAddr(), err), c.Close())
	}
	return s, nil
}

func (s *socket) greet(kind string) error {
	greeting := [greetingBytes]byte{0: 0xff, 9: 0x7f, 10: 3} // version 3.0
	copy(greeting[12:], "NULL")
	if _, err := s.Write(greeting[:]); err != nil {
		return err
	}
	var theirs [greetingBytes]byte
	if _, err := io.ReadFull(s.reader, theirs[:]); err != nil {
		return err
	}
	mechanism := string(bytes.TrimRight(theirs[12:32], "\x00"))
	switch {
	case theirs[0] != 0xff || theirs[9] != 0x7f:
		return errors.New("the peer does not speak ZMTP")
	case theirs[10] < 3:
		return fmt.Errorf("the peer's version is %d, want at least 3", theirs[10])
	case mechanism != "NULL":
		return fmt.Errorf("the peer's security is %q, want NULL", mechanism)
	}
	ready := append([]byte("\x05READY\x0bSocket-Type"), 0, 0, 0, byte(len(kind)))
	if err := s.writeFrame(flagCommand, append(ready, kind...)); err != nil {
		return err
	}
	if err := s.writer.Flush(); err != nil {
		return err
	}
	flags, body, err := s.readFrame(1 << 10)
	if err != nil {
		return err
	}
	peer, err := peerKind(flags, body)
	if err == nil && !slices.Contains(peersOf[kind], peer) {
		err = fmt.Errorf("the peer is a %q, want one of %v", peer, peersOf[kind])
	}
	return err
}

// peerKind reads the socket type out of a READY command.
func peerKind(flags byte, body []byte) (string, error) {
	rest, ok := bytes.CutPrefix(body, []byte("\x05READY"))
	if flags&flagCommand == 0 || !ok {
		return "", fmt.Errorf("the peer begins with %.20q, want READY", body)
	}
	for len(rest) > 0 {
		n := int(rest[0])
		if len(rest) < 1+n+4 {
			break
		}
		name := string(rest[1 : 1+n])
		size := binary.BigEndian.Uint32(rest[1+n:])
		rest = rest[1+n+4:]
		if uint64(size) > uint64(len(rest)) {
			break
		}
		if strings.EqualFold(name, "Socket-Type") {
			return string(rest[:size]), nil
		}
		rest = rest[size:]
	}
	return "", errors.New("the peer's READY names no socket type")
}

// readFrame reads a frame of at most limit bytes. Memory is taken as the bytes come.
func (s *socket) readFrame(limit int) (flags byte, body []byte, err error) {
	if flags, err = s.reader.ReadByte(); err != nil {
		return 0, nil, err
	}
	var size uint64
	if flags&flagLong == 0 {
		n, err := s.reader.ReadByte()
		if err != nil {
			return 0, nil, err
		}
		size = uint64(n)
	} else {
		var long [8]byte
		if _, err := io.ReadFull(s.reader, long[:]); err != nil {
			return 0, nil, err
		}
		size = binary.BigEndian.Uint64(long[:])
	}
	if size > uint64(limit) {
		return 0, nil, fmt.Errorf("a frame of %d bytes, want at most %d", size, limit)
	}
	const step = 1 << 16
	for uint64(len(body)) < size {
		at := len(body)
		body = slices.Grow(body, int(min(size-uint64(at), step)))
		body = body[:min(uint64(cap(body)), size)]
		if _, err := io.ReadFull(s.reader, body[at:]); err != nil {
			return 0, nil, err
		}
	}
	return flags, body, nil
}

// receive reads a message. Commands, such as a ping, are passed over.
func (s *socket) receive() (frames [][]byte, err error) {
	room := s.maxBytes
	for {
		flags, body, err := s.readFrame(room)
		if err != nil {
			return nil, err
		}
		if flags&flagCommand != 0 {
			continue
		}
		frames = append(frames, body)
		room -= len(body)
		if flags&flagMore == 0 {
			return frames, nil
		}
		if len(frames) == framesMax {
			return nil, fmt.Errorf("a message of more than %d frames", framesMax)
		}
	}
}

func (s *socket) writeFrame(flags byte, body []byte) error {
	var header [9]byte
	n := 2
	if len(body) > 255 {
		flags |= flagLong
		binary.BigEndian.PutUint64(header[1:], uint64(len(body)))
		n = 9
	} else {
		header[1] = byte(len(body))
	}
	header[0] = flags
	if _, err := s.writer.Write(header[:n]); err != nil {
		return err
	}
	_, err := s.writer.Write(body)
	return err
}

// send writes a message within a timeout; it is on its way when it returns.
func (s *socket) send(timeout time.Duration, frames ...[]byte) error {
	if err := s.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	for i, body := range frames {
		var flags byte
		if i < len(frames)-1 {
			flags = flagMore
		}
		if err := s.writeFrame(flags, body); err != nil {
			return err
		}
	}
	return s.writer.Flush()
}

// address is the host and port of an endpoint such as tcp://*:5557, of which the port grows by the
// rank. A star is a wildcard: one binds there.
func address(endpoint string, rank int) (hostPort string, wildcard bool, err error) {
	rest, ok := strings.CutPrefix(endpoint, "tcp://")
	host, portText, err := net.SplitHostPort(rest)
	if !ok || err != nil {
		return "", false, fmt.Errorf("%q, want tcp://host:port", endpoint)
	}
	port, err := net.LookupPort("tcp", portText)
	if err != nil || port+rank > 1<<16-1 {
		return "", false, fmt.Errorf("%q, want a port with room for rank %d", endpoint, rank)
	}
	if port > 0 { // 0 is a free one
		port += rank
	}
	if wildcard = host == "*"; wildcard {
		host = ""
	}
	return net.JoinHostPort(host, fmt.Sprint(port)), wildcard, nil
}
