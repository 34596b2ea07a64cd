//go:build linux

package shm

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/switchyard-llm/switchyard/libs/nixl/internal/wire"
)

// listen binds the socket file for this user alone. A file on which nobody
// listens any more is that of a dead process, and is replaced.
func listen(path string) (*net.UnixListener, error) {
	if err := checkSocket(path); err != nil {
		return nil, err
	}
	l, err := bind(path)
	if !errors.Is(err, unix.EADDRINUSE) {
		return l, err
	}
	if info, statErr := os.Lstat(path); statErr != nil || info.Mode().Type() != os.ModeSocket {
		return nil, fmt.Errorf("shm socket %s: a file that is no socket is in the way", path)
	}
	c, dialErr := net.DialUnix("unix", nil, address(path))
	switch {
	case dialErr == nil:
		c.Close()
		return nil, fmt.Errorf("shm socket %s: a living process listens on it", path)
	case !errors.Is(dialErr, unix.ECONNREFUSED):
		return nil, fmt.Errorf("shm socket %s: who listens on it does not answer: %w", path, dialErr)
	}
	if err := os.Remove(path); err != nil {
		return nil, fmt.Errorf("shm socket %s: replace that of a dead process: %w", path, err)
	}
	return bind(path)
}

func bind(path string) (*net.UnixListener, error) {
	l, err := net.ListenUnix("unix", address(path))
	if err != nil {
		return nil, fmt.Errorf("shm socket %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false) // by then the path may be another's
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("shm socket %s: %w", path, err)
	}
	return l, nil
}

func address(path string) *net.UnixAddr { return &net.UnixAddr{Name: path, Net: "unix"} }

// fileID tells a socket file from a later one at the same path.
type fileID struct{ dev, ino uint64 }

func identifyFile(path string) (fileID, error) {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return fileID{}, fmt.Errorf("shm socket %s: %w", path, err)
	}
	return fileID{uint64(s.Dev), s.Ino}, nil
}

// unlink removes the socket file if it is still the one we made.
func unlink(path string, own fileID) error {
	switch now, err := identifyFile(path); {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case now != own:
		return nil
	}
	return os.Remove(path)
}

// sendWelcome sends the metadata with the descriptors of the regions.
func sendWelcome(c *net.UnixConn, metadata []byte, fds []int) error {
	frame := wire.Append(nil, wire.Welcome, metadata)
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	// The descriptors travel with the first byte; the rest may take more than one call.
	n, _, err := c.WriteMsgUnix(frame, rights, nil)
	if err == nil && n < len(frame) {
		_, err = c.Write(frame[n:])
	}
	return err
}

// maxFiles is the most descriptors that the kernel passes with one message (SCM_MAX_FD).
const maxFiles = 253

// receiveAnswer reads the first frame of the listening side and the descriptors that
// came with it, which are the caller's to close.
func receiveAnswer(c *net.UnixConn) (k wire.Kind, payload []byte, fds []int, err error) {
	var h [wire.HeaderBytes]byte
	rights := make([]byte, unix.CmsgSpace(4*maxFiles))
	n, rn, flags, _, err := c.ReadMsgUnix(h[:], rights)
	if err != nil {
		return 0, nil, nil, err
	}
	if n == 0 {
		return 0, nil, nil, io.EOF
	}
	fds, err = parseRights(rights[:rn])
	if err != nil {
		return 0, nil, fds, err
	}
	if flags&unix.MSG_CTRUNC != 0 {
		return 0, nil, fds, fmt.Errorf("descriptors were lost on the way (limit of open files?)")
	}
	if _, err = io.ReadFull(c, h[n:]); err != nil {
		return 0, nil, fds, err
	}
	k, payload, err = wire.ReadRest(c, h)
	return k, payload, fds, err
}

func parseRights(b []byte) (fds []int, err error) {
	messages, err := unix.ParseSocketControlMessage(b)
	if err != nil {
		return nil, fmt.Errorf("read the descriptors: %w", err)
	}
	for _, m := range messages {
		got, err := unix.ParseUnixRights(&m)
		if err != nil {
			return fds, fmt.Errorf("read the descriptors: %w", err)
		}
		fds = append(fds, got...)
	}
	return fds, nil
}
